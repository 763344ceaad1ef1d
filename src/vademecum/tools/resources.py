"""Pages under addresses, ``memory://files/{+path}`` (RFC 6570), and which of them have changed."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from urllib.parse import quote, unquote

from vademecum.errors import MissingFileError, StoreError, UnreadableFileError, UsageError, VademecumError, shown
from vademecum.memory import Memory

_BASE = "memory://files/"
TEMPLATE = "memory://files/{+path}"
#: Characters of a page that are given out in one piece.
_LARGEST = 4_000_000


def uri_of(path: str) -> str:
    """The address of a page."""
    return _BASE + quote(path, safe="/")


def path_of(uri: str) -> str:
    """The page at an address, decoded once. Raises UsageError for an address that is not ours."""
    if not uri.startswith(_BASE):
        raise UsageError(f"{shown(uri)}: expected {TEMPLATE}")
    try:
        return unquote(uri.removeprefix(_BASE), errors="strict")
    except UnicodeDecodeError:
        raise UsageError(f"{shown(uri)}: the path is not UTF-8") from None


def read_whole(memory: Memory, path: str) -> str:
    """The text of a page from its first line to its last, with "\\n" line ends. Raises StoreError kinds and UsageError.

    Also when the page is too long to be given out whole.
    """
    lines: list[str] = []
    size, start, content = 0, 1, ""
    while True:
        excerpt = memory.get(path, start=start)
        if start > 1 and excerpt.hash != content:
            raise StoreError(f"{path}: was changed while it was read; read it again")
        content = excerpt.hash
        size += len(excerpt.text) + 1
        if size > _LARGEST or (excerpt.truncated and excerpt.start_line == excerpt.end_line):
            raise UnreadableFileError(f"{path}: is too long to be given out whole; memory_get reads some of its lines")
        lines.append(excerpt.text)
        if not excerpt.truncated:
            return "\n".join(lines)
        start = excerpt.end_line + 1


class Seen:
    """What pages were when they were last looked at. Safe to share between threads."""

    def __init__(self) -> None:
        self._hashes: dict[str, str] = {}
        self._lock = threading.Lock()

    def note(self, memory: Memory, uris: Iterable[str]) -> None:
        """Know from now on what these pages are."""
        with self._lock:
            for uri in uris:
                self._hashes.setdefault(uri, _hash(memory, uri))

    def forget(self, uri: str) -> None:
        """Nobody asks for this page any more."""
        with self._lock:
            self._hashes.pop(uri, None)

    def changed(self, memory: Memory) -> list[str]:
        """The addresses whose page is another than last time, came or went."""
        with self._lock:
            before, self._hashes = self._hashes, {uri: _hash(memory, uri) for uri in self._hashes}
            return [uri for uri, content in self._hashes.items() if before[uri] != content]


def _hash(memory: Memory, uri: str) -> str:
    try:
        return memory.get(path_of(uri), lines=1).hash
    except MissingFileError:
        return ""
    except VademecumError as error:
        return str(error)
