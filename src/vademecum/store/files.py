"""Reading and writing one Markdown file: strict when reading, atomic when writing, and never over what it
could not read."""

from __future__ import annotations

import codecs
import dataclasses
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

from vademecum.errors import (
    ConflictError,
    MissingFileError,
    PathError,
    StoreError,
    UnreadableFileError,
    UsageError,
    WriteError,
)
from vademecum.store.disk import SAFE, rename, swap, unlink
from vademecum.store.journal import Draft, Journal, content_hash
from vademecum.store.lock import root_lock
from vademecum.store.paths import Location, is_link, resolve
from vademecum.text.redact import Redactor, Secret, blacked_out
from vademecum.types import Origin

Newline: TypeAlias = Literal["\n", "\r\n"]

_ATTEMPTS = 20
# Without waiting, should the name be a pipe's.
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | SAFE
_HASH = re.compile(r"[0-9A-Fa-f]{12,64}")


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

    @property
    def hash(self) -> str:
        """What ``expect`` of a later change may say, to be refused if the page has changed until then."""
        return content_hash(self.encode())


@dataclass(frozen=True, slots=True)
class Change:
    """What a page was and what it is now, None where there was or is none; ``entry`` is the change's number in the
    journal, None if nothing had to be written. ``secrets`` are those in the new lines, where they now stand or,
    if ``redacted``, were blacked out."""

    before: Document | None
    after: Document | None
    entry: int | None
    secrets: tuple[Secret, ...] = ()
    redacted: bool = False


def read_raw(location: Location) -> Raw:
    """The bytes of a regular file.

    Raises MissingFileError only if there is no such file, and UnreadableFileError for every other failure.
    """
    with opened(location) as stream:
        state = os.fstat(stream.fileno())
        return Raw(stream.read(), state)


@contextmanager
def opened(location: Location) -> Iterator[BinaryIO]:
    """A regular file, to be read. Errors as for `read_raw`, while it is open too."""
    try:
        with open(location.file, "rb", opener=lambda name, _: os.open(name, _READ)) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise UnreadableFileError(f"{location.path}: is not a regular file; move it out of the memory")
            yield stream
    except FileNotFoundError:
        raise MissingFileError(f"{location.path}: there is no such file") from None
    except OSError as error:
        raise UnreadableFileError(f"{location.path}: cannot be read: {error.strerror}") from error


def page_bytes(root: Path, path: str) -> bytes | None:
    """What a page holds, None if it cannot be had."""
    try:
        return read_raw(resolve(root, path)).data
    except (PathError, MissingFileError, UnreadableFileError):
        return None


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


def replace(
    root: Path,
    location: Location,
    document: Document,
    *,
    by: Origin = "person",
    why: str = "",
    redactor: Redactor | None = None,
) -> Change:
    """Make ``document`` the content of the file, made with its folders if need be: all of it, or nothing changes.

    Raises UnreadableFileError if what is there now cannot be read, WriteError or LockTimeoutError.
    """
    return rewrite(root, location, lambda _: document, by=by, why=why, redactor=redactor)


def append(
    root: Path,
    location: Location,
    text: str,
    *,
    by: Origin = "person",
    why: str = "",
    redactor: Redactor | None = None,
) -> Change:
    """Add ``text`` at the end, after a final newline, in the file's own style of line ends.

    The same errors as ``replace``. No line of another process is lost.
    """
    return rewrite(root, location, lambda old: extended(old, text), by=by, why=why, redactor=redactor)


def extended(old: Document | None, text: str) -> Document:
    """``old`` with ``text`` on lines of its own at the end, in the style of ``old`` and with a final newline."""
    old = old or Document("")
    text = text.replace("\r\n", "\n")
    text = text if text.endswith("\n") or not text else text + "\n"
    gap = old.newline if old.text and not old.text.endswith(("\n", "\r")) else ""
    return Document(old.text + gap + text.replace("\n", old.newline), old.bom, old.newline)


def rewrite(
    root: Path,
    location: Location,
    change: Callable[[Document | None], Document],
    *,
    by: Origin = "person",
    why: str = "",
    expect: str | None = None,
    undoes: int | None = None,
    batch: int | None = None,
    redactor: Redactor | None = None,
) -> Change:
    """Replace a file by ``change`` of its content (None: there is no file); what it was goes to the journal first.

    The only way to change a page. Runs under the root's lock. If a program that does not know the lock writes
    meanwhile, ``change`` is applied to what it wrote. Content that stays the same is not written. What becomes of
    secrets in new lines is decided by ``redactor``, by default that of the default settings; an undo brings them back.

    ``expect`` is the `content_hash` that the file must have, or the first 12 digits or more of it: raises
    ConflictError if it is another. Changes with the same ``batch`` (`new_batch`) are taken back together. Other errors
    as for ``replace``.
    """
    with root_lock(root), Journal(root) as journal:
        for _ in range(_ATTEMPTS):
            raw = _existing(location)
            _expected(location, raw, expect)
            old = None if raw is None else decode(raw.data, location.path)
            new = change(old)
            made = Change(old, new, None) if undoes is not None else guarded(old, new, redactor or Redactor(), by)
            data = _encoded(location, made.after)
            if raw is not None and raw.data == data and undoes is None:
                return made
            before = None if raw is None else raw.data
            draft = Draft(location.path, before, data, by, why, undoes=undoes, batch=batch)
            entry = _carry_out(
                root, journal, draft, partial(swap, location.file, data, None if raw is None else raw.stat)
            )
            if entry is not None:
                return dataclasses.replace(made, entry=entry)
    raise WriteError(f"{location.path}: another program keeps changing the file; nothing was written, try again")


def move(
    root: Path,
    source: Location,
    target: Location,
    *,
    by: Origin = "person",
    why: str = "",
    expect: str | None = None,
    undoes: int | None = None,
    batch: int | None = None,
) -> Change:
    """Give a page another path, making its folders if need be; ``expect`` and ``batch`` as for ``rewrite``.

    Raises MissingFileError, ConflictError if there is a page at the new path, and the errors of ``replace``.
    """
    with root_lock(root), Journal(root) as journal:
        raw = _existing(source)
        if raw is None:
            raise MissingFileError(f"{source.path}: there is no such file")
        _expected(source, raw, expect)
        if os.path.lexists(target.file) and not source.file.samefile(target.file):
            raise ConflictError(f"{target.path}: exists already; choose another path, or remove that page first")
        page = decode(raw.data, source.path)
        draft = Draft(target.path, raw.data, raw.data, by, why, source.path, undoes, batch)
        return Change(page, page, _carry_out(root, journal, draft, partial(rename, source.file, target.file)))


def remove(
    root: Path,
    location: Location,
    *,
    by: Origin = "person",
    why: str = "",
    expect: str | None = None,
    undoes: int | None = None,
    batch: int | None = None,
) -> Change:
    """Delete a page, which the journal keeps; ``expect`` and ``batch`` as for ``rewrite``.

    Raises MissingFileError, and the errors of ``replace``. A folder that becomes empty stays.
    """
    with root_lock(root), Journal(root) as journal:
        raw = _existing(location)
        if raw is None:
            raise MissingFileError(f"{location.path}: there is no such file")
        _expected(location, raw, expect)
        page = decode(raw.data, location.path)
        draft = Draft(location.path, raw.data, None, by, why, undoes=undoes, batch=batch)
        entry = _carry_out(root, journal, draft, partial(unlink, location.file, raw.stat))
        if entry is None:
            raise ConflictError(f"{location.path}: another program has just changed the file; look at it again")
        return Change(page, None, entry)


def _carry_out(root: Path, journal: Journal, draft: Draft, act: Callable[[], bool]) -> int | None:
    """Put a change on record, then make it; returns its entry, or None if ``act`` found that it cannot be made now."""
    content = partial(page_bytes, root)
    entry = journal.begin(draft, content)
    try:
        if act():
            return entry
        journal.drop(entry)
    except BaseException as error:
        # The page tells whether it was changed before things went wrong.
        with suppress(StoreError):
            journal.settle(content)
        if isinstance(error, OSError):
            raise WriteError(f"{draft.path}: could not be written, nothing was changed: {error.strerror}") from error
        raise
    return None


def guarded(old: Document | None, new: Document, redactor: Redactor, by: Origin) -> Change:
    """The change as ``rewrite`` makes it: secrets in the new lines are blacked out if that is the rule for ``by``."""
    mode = redactor.mode(by)
    secrets = () if mode == "off" else tuple(redactor.find_new("" if old is None else old.text, new.text))
    redacted = bool(secrets) and mode == "redact"
    if redacted:
        new = Document(blacked_out(new.text, secrets), new.bom, new.newline)
    return Change(old, new, None, secrets, redacted)


def _encoded(location: Location, document: Document | None) -> bytes:
    assert document is not None
    try:
        return document.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the text for {location.path} is not valid Unicode at character {error.start}") from None


def _existing(location: Location) -> Raw | None:
    file, name = location.file, location.path
    if is_link(file):
        raise PathError(f"{name}: is a symbolic link; name the file that it points to")
    try:
        raw = read_raw(location)
    except MissingFileError:
        return None
    if not os.access(file, os.W_OK):
        if not os.path.lexists(file):
            return None  # it went away since it was read
        raise WriteError(f"{name}: is write-protected; nothing was changed")
    return raw


def _expected(location: Location, raw: Raw | None, expect: str | None) -> None:
    if expect is None:
        return
    if not _HASH.fullmatch(expect):
        raise UsageError(f"expect {expect!r:.60}: expected the first 12 to 64 digits of the SHA-256 of a page")
    found = "nothing" if raw is None else content_hash(raw.data)
    if not found.startswith(expect.lower()):
        raise ConflictError(
            f"{location.path}: has changed since it was read: expected content {expect[:12]}, found {found[:12]}; "
            "nothing was changed, read it again and decide anew"
        )
