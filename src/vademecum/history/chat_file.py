"""Dexter's ``messages/chat_history.json``: one JSON object with every exchange, the newest first."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from vademecum.errors import UnreadableFileError
from vademecum.history import blocks
from vademecum.history.said import Said, Stretch, digest, said, time_of
from vademecum.types import Scope


class ChatFile:
    """A `TurnSource`. Positions count the exchanges from the oldest, so they stay when another one comes on top."""

    def __init__(self, path: str, scope: Scope, content: Callable[[], bytes], most_bytes: int) -> None:
        """``content`` gives the bytes of the file; one with more than ``most_bytes`` is refused."""
        self._path = path
        self._scope = scope
        self._content = content
        self._most_bytes = most_bytes

    def changed(self, known: Mapping[str, str]) -> Iterator[Stretch]:
        """See TurnSource. The file is read whole: it is written whole, too."""
        entries = self._entries()
        parts = {
            number: digest(_named(entry) for entry in entries[number * blocks.SIZE : (number + 1) * blocks.SIZE])
            for number in range(-(-len(entries) // blocks.SIZE))
        }

        def read(number: int) -> list[Said]:
            return list(_said(entries, number * blocks.SIZE, (number + 1) * blocks.SIZE))

        return blocks.changed(self._path, self._scope, known.get(self._path), parts, read)

    def gone(self, known: Mapping[str, str]) -> Sequence[str]:  # noqa: ARG002 - there is one conversation in the file
        """See TurnSource."""
        return ()

    def read(self, path: str, first: int) -> Iterator[Said]:  # noqa: ARG002 - there is one conversation in the file
        """See TurnSource."""
        entries = self._entries()
        return _said(entries, first - 1, len(entries))

    def last(self, path: str) -> int:  # noqa: ARG002 - there is one conversation in the file
        """See TurnSource."""
        return len(self._entries())

    def _entries(self) -> list[Mapping[str, Any]]:
        """Oldest first."""
        data = self._content()
        if len(data) > self._most_bytes:
            raise UnreadableFileError(
                f"{self._path}: has {len(data) >> 20} MB; more than sessions.max_mb is not read of a file like this"
            )
        try:
            whole = json.loads(data.decode("utf-8-sig")) if data.strip() else {}
        except (ValueError, RecursionError) as error:
            raise UnreadableFileError(
                f"{self._path}: is no JSON now ({error}); it may be half written, what is known of it is kept"
            ) from None
        found = whole.get("messages") if isinstance(whole, dict) else whole
        if found is None:
            found = []
        if not isinstance(found, list):
            raise UnreadableFileError(f'{self._path}: expected {{"messages": [...]}}; what is known of it is kept')
        entries: list[Mapping[str, Any]] = [entry for entry in found if isinstance(entry, dict)]
        return entries if _rises(entries) else entries[::-1]


def _rises(entries: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the oldest comes first: not what Dexter writes, but what a tool may have made of it."""
    first, last = (str(entries[end].get("timestamp") or "") if entries else "" for end in (0, -1))
    return bool(first and last) and first < last


def _named(entry: Mapping[str, Any]) -> bytes:
    parts = (entry.get("timestamp"), entry.get("userMessage"), entry.get("agentResponse"))
    return json.dumps(parts, default=str).encode()


def _said(entries: Sequence[Mapping[str, Any]], first: int, end: int) -> Iterator[Said]:
    for position, entry in enumerate(entries[first:end], first + 1):
        time = time_of(entry)
        for role, name in (("user", "userMessage"), ("assistant", "agentResponse")):
            text = entry.get(name)
            one = said(position, role, text, time) if isinstance(text, str) else None  # type: ignore[arg-type]
            if one is not None:
                yield one
