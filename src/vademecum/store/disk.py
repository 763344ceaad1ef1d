"""Changing what is on the disk in one step, so that whoever is killed or loses power leaves the old or the new."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

# Hidden, so that no scan takes it for a page. One name is enough under the root's lock, and what a killed process
# left behind is cleared by the next write to the folder.
TEMPORARY = ".vademecum-write.tmp"
# A name may have become a link or a pipe since it was checked. Zero where a system does not know the flag.
SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFE


def stamp(state: os.stat_result) -> str:
    """Changes whenever the file is written, replaced or moved."""
    return f"{state.st_size}:{state.st_mtime_ns}:{state.st_ctime_ns}:{state.st_ino}"


def swap(file: Path, data: bytes, old: os.stat_result | None) -> bool:
    """Put ``data`` in the place of ``old`` in one step; False if ``old`` is no longer what is there."""
    _make_folders(file.parent)
    temporary = file.with_name(TEMPORARY)
    temporary.unlink(missing_ok=True)
    try:
        _write_through(temporary, data, old)
        if _state(file) != (None if old is None else stamp(old)):
            return False
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
    _flush_folder(file.parent)
    return True


def rename(old: Path, new: Path) -> bool:
    """Give a file another path, made with its folders; True."""
    _make_folders(new.parent)
    old.rename(new)
    _flush_folder(new.parent)
    _flush_folder(old.parent)
    return True


def unlink(file: Path, old: os.stat_result) -> bool:
    """Delete ``old``; False if it is no longer what is there."""
    if _state(file) != stamp(old):
        return False
    file.unlink()
    _flush_folder(file.parent)
    return True


def _write_through(file: Path, data: bytes, model: os.stat_result | None) -> None:
    """Write a new file to the disk itself, with mode and owner of ``model``."""
    # Closed to others until it has the model's mode, which may be as strict.
    descriptor = os.open(file, CREATE, 0o666 if model is None else 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        if model is not None and hasattr(os, "fchown"):
            with suppress(OSError):
                os.fchown(descriptor, model.st_uid, model.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(model.st_mode))
        stream.write(data)
        stream.flush()
        os.fsync(descriptor)


def _state(file: Path) -> str | None:
    try:
        return stamp(file.lstat())
    except FileNotFoundError:
        return None


def _make_folders(folder: Path) -> None:
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for child in reversed(missing):
        child.mkdir(exist_ok=True)
        _flush_folder(child.parent)


def _flush_folder(folder: Path) -> None:
    """Make a new or renamed entry survive a power cut, where folders can be opened and flushed at all."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
