"""Reading and writing one Markdown file: strict when reading, atomic when writing, and never over what it
could not read."""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from vademecum.errors import MissingFileError, PathError, UnreadableFileError, UsageError, WriteError
from vademecum.store.lock import root_lock
from vademecum.store.paths import Location, is_link

Newline: TypeAlias = Literal["\n", "\r\n"]

# Hidden, so that no scan takes it for a page. One name is enough under the root's lock, and what a killed process
# left behind is cleared by the next write to the folder.
_TEMPORARY = ".vademecum-write.tmp"
_ATTEMPTS = 20
# A name may have become a link or a pipe since it was checked. Zero where a system does not know the flag.
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _SAFE
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE


@dataclass(frozen=True, slots=True)
class Raw:
    """The bytes of a file, and its state just before they were read."""

    data: bytes
    stat: os.stat_result


@dataclass(frozen=True, slots=True)
class Document:
    """A decoded file. ``text`` has no byte order mark; its line ends are as on disk, ``newline`` is the usual one."""

    text: str
    bom: bool = False
    newline: Newline = "\n"

    def encode(self) -> bytes:
        """The bytes on disk."""
        return (codecs.BOM_UTF8 if self.bom else b"") + self.text.encode()


def stamp(state: os.stat_result) -> str:
    """Changes whenever the file is written, replaced or moved."""
    return f"{state.st_size}:{state.st_mtime_ns}:{state.st_ctime_ns}:{state.st_ino}"


def read_raw(location: Location) -> Raw:
    """The bytes of a regular file.

    Raises MissingFileError only if there is no such file, and UnreadableFileError for every other failure.
    """
    try:
        with open(location.file, "rb", opener=lambda name, _: os.open(name, _READ)) as stream:
            state = os.fstat(stream.fileno())
            if not stat.S_ISREG(state.st_mode):
                raise UnreadableFileError(f"{location.path}: is not a regular file; move it out of the memory")
            return Raw(stream.read(), state)
    except FileNotFoundError:
        raise MissingFileError(f"{location.path}: there is no such file") from None
    except OSError as error:
        raise UnreadableFileError(f"{location.path}: cannot be read: {error.strerror}") from error


def decode(data: bytes, name: str) -> Document:
    """Strict UTF-8, with or without byte order mark. Raises UnreadableFileError with name and offset of the fault."""
    bom = data.startswith(codecs.BOM_UTF8)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        offset = error.start + (len(codecs.BOM_UTF8) if bom else 0)
        raise UnreadableFileError(
            f"{name}: is not valid UTF-8 at byte {offset}; convert the file to UTF-8 and try again"
        ) from None
    return Document(text, bom, "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n")


def read_text(location: Location) -> Document:
    """A page, decoded. Raises MissingFileError or UnreadableFileError."""
    return decode(read_raw(location).data, location.path)


def replace(root: Path, location: Location, document: Document) -> None:
    """Make ``document`` the content of the file, made with its folders if need be: all of it, or nothing changes.

    Raises UnreadableFileError if what is there now cannot be read, WriteError or LockTimeoutError.
    """
    rewrite(root, location, lambda _: document)


def append(root: Path, location: Location, text: str) -> None:
    """Add ``text`` at the end, after a final newline, in the file's own style of line ends.

    The same errors as ``replace``. No line of another process is lost.
    """
    rewrite(root, location, lambda old: extended(old, text))


def extended(old: Document | None, text: str) -> Document:
    """``old`` with ``text`` on lines of its own at the end, in the style of ``old`` and with a final newline."""
    old = old or Document("")
    text = text.replace("\r\n", "\n")
    text = text if text.endswith("\n") or not text else text + "\n"
    gap = old.newline if old.text and not old.text.endswith(("\n", "\r")) else ""
    return Document(old.text + gap + text.replace("\n", old.newline), old.bom, old.newline)


def rewrite(root: Path, location: Location, change: Callable[[Document | None], Document]) -> Document:
    """Replace a file by ``change`` of its content (None: there is no file) and return what was written.

    Runs under the root's lock. If a program that does not know the lock writes meanwhile, ``change`` is applied
    to what it wrote. Errors as for ``replace``.
    """
    file, name = location.file, location.path
    with root_lock(root):
        for _ in range(_ATTEMPTS):
            raw = _existing(location)
            document = change(None if raw is None else decode(raw.data, name))
            try:
                if _swap(file, document.encode(), raw):
                    return document
            except UnicodeEncodeError as error:
                raise UsageError(f"the text for {name} is not valid Unicode at character {error.start}") from None
            except OSError as error:
                raise WriteError(f"{name}: could not be written, nothing was changed: {error.strerror}") from error
    raise WriteError(f"{name}: another program keeps changing the file; nothing was written, try again")


def _existing(location: Location) -> Raw | None:
    file, name = location.file, location.path
    if is_link(file):
        raise PathError(f"{name}: is a symbolic link; name the file that it points to")
    try:
        raw = read_raw(location)
    except MissingFileError:
        return None
    if not os.access(file, os.W_OK):
        raise WriteError(f"{name}: is write-protected; nothing was changed")
    return raw


def _swap(file: Path, data: bytes, old: Raw | None) -> bool:
    """Put ``data`` in the place of ``old`` in one step; False if ``old`` is no longer what is there."""
    _make_folders(file.parent)
    temporary = file.with_name(_TEMPORARY)
    temporary.unlink(missing_ok=True)
    try:
        _write_through(temporary, data, None if old is None else old.stat)
        if _state(file) != (None if old is None else stamp(old.stat)):
            return False
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
    _flush_folder(file.parent)
    return True


def _write_through(file: Path, data: bytes, model: os.stat_result | None) -> None:
    """Write a new file to the disk itself, with mode and owner of ``model``."""
    # Closed to others until it has the model's mode, which may be as strict.
    descriptor = os.open(file, _CREATE, 0o666 if model is None else 0o600)
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
