"""Adding one memory to a page, in a form that stays good Markdown."""

from __future__ import annotations

import re
import unicodedata
from itertools import dropwhile

from vademecum.errors import PathError, UsageError
from vademecum.settings import ContextSettings
from vademecum.store.files import Document, extended, rewrite
from vademecum.store.ignore import IGNORE_FILE
from vademecum.store.layout import LONG_TERM, Layout, leading_date
from vademecum.store.paths import resolve
from vademecum.store.scan import belongs
from vademecum.store.warnings import warnings_of
from vademecum.text.markdown import Block, scan, split_lines
from vademecum.text.passage import occurrences, starts_line
from vademecum.text.redact import Redactor
from vademecum.types import Origin, Written

_marker_sub = re.compile(r"\A(?:[-*+]|\d{1,9}[.)])[ \t]+").sub
_match_fence = re.compile(r"(.*?)(`{3,}|~{3,})").match


def remember(
    layout: Layout,
    text: str,
    path: str,
    *,
    by: Origin = "person",
    why: str = "",
    redactor: Redactor | None = None,
    limits: ContextSettings | None = None,
) -> Written:
    """Append ``text`` to the page at ``path`` (``Layout.alias`` resolves "long_term" and "daily") and say where.

    One line of plain text becomes a list item; anything that has a structure of its own is kept word for word,
    with a blank line before it where Markdown needs one. A new MEMORY.md or daily page gets its title first. What
    stands on the page already, word for word, is not written again: ``Written.existed``.

    The text is always body of the page, and nothing that was body becomes anything else: where its "---" would
    begin or end front matter, a blank line or a "***" comes before it, and code that a page leaves open at its end is
    closed by a line of its own.

    Raises UsageError for a text that is blank or holds NUL, PathError for a page that would never be indexed, and
    the errors of ``files.append``.
    """
    entry = _entry(text)
    location = resolve(layout.root, path)
    folder, _, name = location.path.rpartition("/")
    if not belongs(layout, location.path):
        reason = f"{IGNORE_FILE} keeps it out" if layout.indexes(folder) else f"pages in {folder!r} are not indexed"
        raise PathError(f"{path!r}: {reason}, so it would never be found again")
    place: tuple[int, int] | None = None
    first = 1

    def change(old: Document | None) -> Document:
        nonlocal place, first
        place = standing(old.text, entry) if old else None
        if old and place:
            return old
        before = extended(old, _lead(old, name, entry))
        first = len(split_lines(before.text)) + 1
        return extended(before, entry)

    done = rewrite(layout.root, location, change, by=by, why=why, redactor=redactor)
    assert done.after is not None
    warnings = warnings_of(location.path, done, limits)
    start, end = place or (first, len(split_lines(done.after.text)))
    return Written(location.path, start, end, place is not None, done.entry, warnings)


def standing(text: str, entry: str) -> tuple[int, int] | None:
    """The lines (from 1, inclusive) of ``text`` where ``entry`` stands word for word; None if it does not.

    One line is the same when white space, the list marker and a final full stop are set aside; several lines must be
    the same to the letter. A text that is nested, quoted or in code says something else, and so does one that differs
    in a number, a name or a "not".
    """
    blocks = scan(text)
    if "\n" not in entry and not entry.startswith(("#", ">", " ", "\t", "`", "~", "|")):
        key = _words(entry)
        for block in blocks:
            if block.kind in ("item", "paragraph") and key and _words(text[block.start : block.end]) == key:
                return block.start_line, block.end_line
        return None
    body = _front_matter_end(text)
    for match in occurrences(text, entry):
        if match.start >= body and starts_line(text, match.start) and text[match.end :][:1] in ("", "\r", "\n"):
            return match.start_line, match.end_line
    return None


def _words(line: str) -> str:
    """A line as it is compared; "" for one that is indented."""
    if line[:1] in (" ", "\t", ">"):
        return ""
    words = " ".join(unicodedata.normalize("NFC", _marker_sub("", line)).split())
    return words.removesuffix(".").removesuffix("。")


def _entry(text: object) -> str:
    """``text`` as it will stand in the page, with "\\n" line ends and none at the end."""
    if not isinstance(text, str) or "\0" in text:
        raise UsageError(f"text {text!r:.60}: expected a text without NUL")
    lines = [line.rstrip("\r\n") for line in split_lines(text.lstrip("\ufeff"))]
    whole = "\n".join(dropwhile(lambda line: not line.strip(), lines)).rstrip()
    line = whole.strip()
    blocks = scan(line)
    if not blocks:
        raise UsageError(f"text {text!r:.60}: there is nothing to remember")
    plain = "\n" not in line and not line.startswith(">") and blocks[0].kind == "paragraph"
    return f"- {line}" if plain else whole


def _lead(old: Document | None, name: str, entry: str) -> str:
    """What stands between the old text and the entry: a title, a blank line or nothing."""
    blocks = scan(old.text) if old else []
    if not old or not blocks:
        title = "" if entry.startswith("# ") else _title(name)
        return title or ("\n" if _front_matter_end(entry) else "")
    if fence := _closing_fence(old.text, blocks[-1]):
        return f"{fence}\n\n"
    in_list = blocks[-1].kind == scan(entry)[0].kind == "item"
    lead = "" if in_list or split_lines(old.text)[-1].isspace() else "\n"
    if _front_matter_end(extended(old, lead + entry).text) != _front_matter_end(old.text):
        return f"{lead}***\n\n"
    return lead


def _front_matter_end(text: str) -> int:
    """The offset where front matter ends, 0 if there is none."""
    if not text.startswith("---"):
        return 0
    first = scan(text)[0]
    return first.end if first.kind == "front_matter" else 0


def _closing_fence(text: str, last: Block) -> str:
    """The line that is missing at the end of a text whose last block is code that was left open, else ""."""
    lines = split_lines(text[last.start : last.end])
    fence = _match_fence(lines[0]) if last.kind == "fence" else None
    if fence is None:
        return ""
    end = lines[-1].strip()
    if len(lines) > 1 and end.startswith(fence[2]) and not end.strip(fence[2][0]):
        return ""
    # In a list the end must stand as far to the right as the beginning.
    return re.sub(r"\S", " ", fence[1]) + fence[2]


def _title(name: str) -> str:
    stem = name[: -len(".md")]
    if name == LONG_TERM:
        return "# Memory\n\n"
    return f"# {stem}\n\n" if stem == leading_date(stem) else ""
