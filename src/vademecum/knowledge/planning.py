"""What an operation will change, found out before anything is touched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vademecum.errors import UsageError
from vademecum.knowledge.markup import read_markup
from vademecum.knowledge.plan import Rewrite
from vademecum.knowledge.reading import Reader
from vademecum.knowledge.records import Reference
from vademecum.knowledge.rewriting import Move, edited, link_edits
from vademecum.knowledge.targets import Pages
from vademecum.store.files import Document, decode
from vademecum.store.layout import keeps_itself

MOST_FILES = 100
MOST_FILE_BYTES = 10 * 1024 * 1024
MOST_BYTES = 200 * 1024 * 1024


def rewrites(reader: Reader, moves: Mapping[str, str]) -> tuple[dict[str, Rewrite], list[tuple[str, str]]]:
    """The changes of links that moves bring about, by the path that each page then has, and what could not be read."""
    found = reader.scan()
    before = Pages(file.path for file in found.files)
    move = Move(moves, before, before.moved(moves))
    notices: list[tuple[str, str]] = []
    changes: dict[str, Rewrite] = {}
    for path, page in reader.documents(found, notices):
        if not move.concerns(path, page.text):
            continue
        edits = link_edits(page.text, read_markup(page.text), path, move)
        if edits:
            after = Document(edited(page.text, edits), page.bom, page.newline)
            changes[moves.get(path, path)] = Rewrite(page.hash, after.hash, tuple(edits))
    return changes, notices


def references_to(reader: Reader, paths: Iterable[str]) -> list[Reference]:
    """The links to some pages, from all others but indexes, which are kept true."""
    wanted = frozenset(paths)
    found = reader.scan()
    pages = Pages(file.path for file in found.files)
    move = Move({path: path for path in wanted}, pages, pages)
    references = []
    for path, page in reader.documents(found, []):
        if path in wanted or keeps_itself(path) or not move.concerns(path, page.text):
            continue
        for link in read_markup(page.text).links:
            target = pages.resolve(path, link)
            if target in wanted and link.style != "reference":
                references.append(Reference(path, link.line, target or "", " ".join(link.label.split()), True))
    return references


def imported(files: Iterable[tuple[str, bytes | str]]) -> list[tuple[str, str]]:
    """Names and texts of files to import, checked as a whole; ``.txt`` becomes ``.md``.

    Raises UsageError for too many or too large files, names with a folder in them, other kinds of files, and what is
    not UTF-8 or holds NUL.
    """
    ready: list[tuple[str, str]] = []
    total = 0
    for name, content in files:
        data = content.encode(errors="surrogatepass") if isinstance(content, str) else content
        total += len(data)
        if len(ready) == MOST_FILES or total > MOST_BYTES or len(data) > MOST_FILE_BYTES:
            raise UsageError(
                f"{name!r:.80}: at most {MOST_FILES} files of {MOST_FILE_BYTES >> 20} MiB each and {MOST_BYTES >> 20} "
                "MiB together are imported at once; nothing was imported"
            )
        ready.append((_page_name(name), checked_text(name, data)))
    return ready


def _page_name(name: object) -> str:
    if not isinstance(name, str) or "/" in name or "\\" in name:
        raise UsageError(f"{name!r:.80}: expected the name of a file, without folders; nothing was imported")
    stem, dot, suffix = name.rpartition(".")
    if not stem or suffix.lower() not in ("md", "txt"):
        raise UsageError(f"{name!r:.80}: only .md and .txt files can be imported; nothing was imported")
    return f"{stem}{dot}md" if suffix.lower() == "txt" else name


def checked_text(name: str, content: str | bytes) -> str:
    """A text for a page, with "\\n" line ends and one at its end, from UTF-8.

    Raises UsageError when it is blank or holds NUL, and UnreadableFileError when it is not UTF-8.
    """
    try:
        data = content.encode() if isinstance(content, str) else content
    except UnicodeEncodeError as error:
        raise UsageError(f"{name}: the text is not valid Unicode at character {error.start}") from None
    if b"\0" in data or not data.strip():
        raise UsageError(f"{name}: expected a text without NUL that says something")
    return decode(data, name).text.replace("\r\n", "\n").rstrip("\n") + "\n"
