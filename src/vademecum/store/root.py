"""The root of a memory: finding it, making it, and its private folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from vademecum.errors import StoreError, WriteError
from vademecum.store.layout import LONG_TERM, Layout, detect

PRIVATE = ".vademecum"
#: In the private folder while an operation on several knowledge pages goes on: what is to be done.
UNFINISHED = "knowledge-pending.json"
_DATABASE = ".sqlite"
_BESIDE_DATABASE = ("-wal", "-shm", "-journal")


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

    A folder with a layout of its own keeps it. Raises WriteError naming what could not be made, and the errors of
    ``private_folder``.
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

    Raises WriteError naming the root when it is missing or cannot be written, and StoreError naming the folder when
    it is a link or no folder at all.
    """
    folder = root / PRIVATE
    try:
        if not os.path.lexists(folder):
            folder.mkdir(exist_ok=True)
            _write_new(folder / ".gitignore", "*\n")
    except OSError as error:
        raise WriteError(f"{root}: this memory cannot be written: {error.strerror}") from error
    check_private(folder)
    return folder


def identity(root: Path) -> tuple[int, int]:
    """Tells one folder from another under the same path. Raises StoreError when it cannot be looked at."""
    try:
        state = root.stat()
    except OSError as error:
        raise StoreError(f"{root}: the memory folder cannot be read: {error.strerror}") from error
    return state.st_dev, state.st_ino


def check_mounted(root: Path) -> None:
    """Raises StoreError when a root cannot be listed, or holds nothing at all, as the place of a disk that is away."""
    try:
        with os.scandir(root) as entries:
            if next(entries, None) is not None:
                return
    except OSError as error:
        raise StoreError(f"{root}: the memory folder cannot be read: {error.strerror}") from error
    raise StoreError(f"{root}: holds nothing at all, as if it were not mounted; mount it, or put a page there")


def check_private(folder: Path, *names: str) -> None:
    """Make sure that a private folder is a real one, and that the ``names`` in it are regular files or absent.

    For a database, also what SQLite keeps beside it. Nothing is opened or followed: a memory folder may come from
    somebody else, whose link would have us write elsewhere and whose pipe would have us wait for ever. Raises
    StoreError naming the offender.
    """
    _check(folder, stat.S_ISDIR, "a folder")
    for name in names:
        beside = _BESIDE_DATABASE if name.endswith(_DATABASE) else ()
        for file in (name, *(name + ending for ending in beside)):
            _check(folder / file, stat.S_ISREG, "a regular file")


def _check(path: Path, is_right: Callable[[int], bool], wanted: str) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"{path}: cannot be looked at: {error.strerror}") from error
    if not is_right(mode):
        what = "a symbolic link" if stat.S_ISLNK(mode) else f"not {wanted}"
        raise StoreError(f"{path}: is {what}, and {wanted} is expected there; move it away, it will be made anew")


def _write_new(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except FileExistsError:
        pass
