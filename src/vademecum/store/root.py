"""The root of a memory: finding it, making it, and its private folder."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from vademecum.errors import WriteError
from vademecum.store.layout import LONG_TERM, Layout, detect

PRIVATE = ".vademecum"


def find_root(start: Path) -> Path | None:
    """The nearest of ``start`` and its ancestors that holds ``.vademecum/`` or MEMORY.md."""
    start = Path(os.path.realpath(start))
    for folder in (start, *start.parents):
        with suppress(PermissionError):
            if (folder / PRIVATE).is_dir() or (folder / LONG_TERM).is_file():
                return folder
    return None


def create(root: Path) -> Layout:
    """Make ``root`` a memory: the folders, an empty MEMORY.md and the private folder. Nothing is overwritten.

    A folder with a layout of its own keeps it. Raises WriteError naming what could not be made.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        layout = detect(root)
        (layout.root / layout.base).mkdir(exist_ok=True)
        private_folder(layout.root)
        _write_new(layout.root / LONG_TERM, "")
    except OSError as error:
        raise WriteError(f"{error.filename or root}: the memory cannot be made here: {error.strerror}") from error
    return layout


def private_folder(root: Path) -> Path:
    """``<root>/.vademecum``, made if need be, with a .gitignore that keeps it out of the user's repository.

    Raises WriteError naming the root when it is missing or cannot be written.
    """
    folder = root / PRIVATE
    try:
        if not folder.is_dir():
            folder.mkdir(exist_ok=True)
            _write_new(folder / ".gitignore", "*\n")
    except OSError as error:
        raise WriteError(f"{root}: this memory cannot be written: {error.strerror}") from error
    return folder


def _write_new(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except FileExistsError:
        pass
