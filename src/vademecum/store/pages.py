"""Whole pages: their text changed as one, and one or many of them moved or deleted as one operation."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from vademecum.errors import ConflictError, MissingFileError, UsageError, shown
from vademecum.settings import ContextSettings
from vademecum.store.files import Change, Document, move, remove, rewrite
from vademecum.store.journal import new_batch
from vademecum.store.lock import root_lock
from vademecum.store.paths import Location, resolve
from vademecum.store.warnings import warnings_of
from vademecum.text.redact import Redactor
from vademecum.types import Edited, Origin

_line_end_sub = re.compile(r"\r\n|\r|\n").sub


def unified(text: str) -> str:
    """``text`` with "\\n" at the end of every line."""
    return _line_end_sub("\n", text)


def change_page(
    root: Path,
    path: str,
    change: Callable[[str | None], str],
    *,
    by: Origin = "person",
    why: str = "",
    redactor: Redactor | None = None,
    limits: ContextSettings | None = None,
) -> Edited:
    """Replace the text of a page by ``change`` of it (None: there is no page), under the root's lock.

    The text has "\\n" line ends both ways; on disk they are as before, and so is the byte order mark. What ``change``
    raises leaves the page as it is. It may be called again, if another program writes meanwhile. Errors as for
    `files.rewrite`, and UsageError for what is no text.
    """
    location = resolve(root, path)

    def changed(old: Document | None) -> Document:
        text = change(None if old is None else unified(old.text))
        if "\0" in text:
            raise UsageError(f"{location.path}: {shown(text)}: expected a text without NUL")
        return Document(text) if old is None else Document(_line_end_sub(old.newline, text), old.bom, old.newline)

    done = rewrite(root, location, changed, by=by, why=why, redactor=redactor)
    assert done.after is not None
    return Edited(location.path, (), done.after.hash, done.entry, warnings_of(location.path, done, limits))


def move_pages(root: Path, moves: Mapping[str, str], *, by: Origin = "person") -> tuple[int, tuple[Change, ...]]:
    """Give pages new paths; returns the ``batch`` by which all of it is undone, and the changes.

    Raises ConflictError if a new path is taken and MissingFileError, both before anything is moved; else as
    `files.move`.
    """
    with root_lock(root):
        pairs = [(resolve(root, old), resolve(root, new)) for old, new in moves.items()]
        for _, new in pairs:
            if os.path.lexists(new.file):
                raise ConflictError(f"{new.path}: exists already; choose another path, or remove that page first")
        for old, _ in pairs:
            _present(old)
        batch = new_batch()
        return batch, tuple(move(root, old, new, by=by, batch=batch) for old, new in pairs)


def remove_pages(root: Path, paths: Iterable[str], *, by: Origin = "person") -> tuple[int, tuple[Change, ...]]:
    """Delete pages, which the journal keeps; returns as `move_pages`. Raises as `files.remove`."""
    with root_lock(root):
        locations = [resolve(root, path) for path in paths]
        for location in locations:
            _present(location)
        batch = new_batch()
        return batch, tuple(remove(root, location, by=by, batch=batch) for location in locations)


def _present(location: Location) -> None:
    if not os.path.lexists(location.file):
        raise MissingFileError(f"{location.path}: there is no such file")
