"""Changing a page where a text stands in it: literally, in one place unless all are meant, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from vademecum.errors import MatchError, MissingFileError, UsageError, shown
from vademecum.settings import ContextSettings
from vademecum.store.files import Document, rewrite
from vademecum.store.paths import resolve
from vademecum.store.warnings import warnings_of
from vademecum.text.near import nearest
from vademecum.text.passage import Match, apart, occurrences, replaced, without
from vademecum.text.redact import Redactor
from vademecum.types import Edited, Origin

_line_end_sub = re.compile(r"\r\n|\r|\n").sub
_MOST_NAMED = 20


def edit(
    root: Path,
    path: str,
    old: str,
    new: str,
    *,
    every: bool = False,
    lines: tuple[int, int] | None = None,
    expect: str | None = None,
    by: Origin = "person",
    why: str = "",
    redactor: Redactor | None = None,
    limits: ContextSettings | None = None,
) -> Edited:
    """Put ``new`` in the place of ``old``, which must stand on the page once, or anywhere if ``every``.

    Both are taken literally; ``lines`` (first and last, from 1) narrows the search. An empty ``new`` deletes: see
    ``passage.without``. Line ends become those of the page, its byte order mark stays.

    Raises MatchError when ``old`` does not stand there, naming what is near, or more than once, naming all lines;
    MissingFileError, UsageError, and the errors of ``files.rewrite``.
    """
    _check_texts(old, new)
    first, last = _range(lines)
    location = resolve(root, path)
    where: tuple[int, ...] = ()

    def change(document: Document | None) -> Document:
        if document is None:
            raise MissingFileError(f"{location.path}: there is no such file")
        nonlocal where
        text = document.text
        places = _chosen(location.path, text, old, every, first, last)
        text, where = replaced(text, places, _line_end_sub(document.newline, new)) if new else without(text, places)
        return Document(text, document.bom, document.newline)

    done = rewrite(root, location, change, by=by, why=why, expect=expect, redactor=redactor)
    assert done.after is not None
    return Edited(location.path, where, done.after.hash, done.entry, warnings_of(location.path, done, limits))


def _check_texts(old: object, new: object) -> None:
    for name, text in (("old", old), ("new", new)):
        if not isinstance(text, str) or "\0" in text:
            raise UsageError(f"{name} {shown(text)}: expected a text without NUL")
    if not old:
        raise UsageError("old is empty: say which text is to be changed")
    if old == new:
        raise UsageError("old and new are the same: there is nothing to change")


def _range(lines: object) -> tuple[int, int | None]:
    if lines is None:
        return 1, None
    whole = isinstance(lines, tuple) and len(lines) == 2 and all(type(number) is int for number in lines)
    if not isinstance(lines, tuple) or not whole or not 1 <= lines[0] <= lines[1]:
        raise UsageError(f"lines {shown(lines)}: expected the first and the last line, counted from 1")
    return lines


def _chosen(path: str, text: str, old: str, every: bool, first: int, last: int | None) -> list[Match]:
    found = occurrences(text, old)
    inside = [match for match in found if match.start_line >= first and (last is None or match.end_line <= last)]
    if not inside:
        raise _missing(path, text, old, found, first, last)
    if every:
        return apart(inside)
    if len(inside) > 1:
        numbers = tuple(dict.fromkeys(match.start_line for match in inside))
        raise MatchError(
            f"{path}: {shown(old)} stands there {len(inside)} times, in {_named(numbers)}; give more of the text "
            "around it, a range of lines, or all of them",
            numbers,
        )
    return inside


def _missing(path: str, text: str, old: str, found: Sequence[Match], first: int, last: int | None) -> MatchError:
    if found:
        numbers = tuple(dict.fromkeys(match.start_line for match in found))
        return MatchError(
            f"{path}: {shown(old)} does not stand in lines {first}-{last}, but in {_named(numbers)}", numbers
        )
    near = nearest(text, old)
    if near is None:
        return MatchError(f"{path}: {shown(old)} does not stand there, nor anything like it; read the page again", ())
    how = f" holds it {near.difference}" if near.difference else ""
    hint = f"did you mean line {near.line}{how}: {shown(near.text)}?"
    return MatchError(f"{path}: {shown(old)} does not stand there; {hint}", (near.line,))


def _named(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - _MOST_NAMED} more" if len(numbers) > _MOST_NAMED else ""
    return f"line{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers[:_MOST_NAMED]))}{more}"
