"""Transcripts with one JSON object a line, as agents append to them while they work.

Two forms are read, line by line, and all else is passed over:

* plain: ``{"role": "user", "content": "…", "timestamp": "…"}``, where content may be a list of parts as in the APIs of
  OpenAI and Anthropic, and the time ISO 8601 or Unix seconds or milliseconds, under any of the usual names, or absent;
* nested, as Claude Code (``~/.claude/projects/<project>/<session>.jsonl``) and OpenClaw write it: ``{"type": "user",
  "message": {"role": …, "content": …}, "timestamp": "…"}``. What such a program put in by itself (``isMeta``,
  ``isSidechain``, ``isCompactSummary``, the echo of a command) was not said and is passed over too.

A file is divided into parts at fixed offsets. Its state names the content of each, so that only parts that changed are
parsed, and a file that has grown is read from the start of its last part.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any, BinaryIO

from vademecum.errors import UnreadableFileError
from vademecum.history.said import Said, Stretch, digest, message, time_of
from vademecum.types import Scope

#: A part holds the lines that begin within so many bytes.
PART = 128 * 1024
#: A longer line is passed over: it holds a picture or a dump, and would have to be in memory whole.
LONGEST_LINE = 16 * 1024 * 1024

_FORM = "lines-1"
#: Parts whose content is compared before a grown file is taken for one that was only appended to.
_PROBES = 8
#: So many parts are written before it is noted how far one got; the note names all of them.
_PARTS_TO_NOTE = 32
_EDGE = 4096
_PUT_IN = ("isMeta", "isSidechain", "isCompactSummary", "isApiErrorMessage")
_is_echo = re.compile(r"<(?:command-|local-command-|bash-)").match


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    lines: int


@dataclass(frozen=True, slots=True)
class _State:
    """What is known of a file: its first parts that are left out as too old, their lines, and the parts after them.

    ``size`` is 0 while not all is known; ``written_at`` is when the file was last written to, in nanoseconds; ``edges``
    names what stands at its beginning and end.
    """

    inode: int
    written_at: int
    size: int
    skipped: int
    skipped_lines: int
    edges: str
    parts: tuple[_Part, ...] = ()

    def __str__(self) -> str:
        numbers = (self.inode, self.written_at, self.size, self.skipped, self.skipped_lines)
        return " ".join([_FORM, *map(str, numbers), self.edges, *(f"{part.name}={part.lines}" for part in self.parts)])

    @property
    def end(self) -> int:
        """Lines up to the end of what is known."""
        return self.skipped_lines + sum(part.lines for part in self.parts)

    def starts(self) -> Iterator[tuple[int, tuple[str, int]]]:
        """Number of each part, its name and its first line."""
        line = self.skipped_lines + 1
        for number, part in enumerate(self.parts, self.skipped):
            yield number, (part.name, line)
            line += part.lines


_is_state = re.compile(rf"{_FORM}(?: \d+){{5}} [0-9a-f]+(?: [0-9a-f]+=\d+)*").fullmatch


def _parsed(state: str | None) -> _State | None:
    if state is None or not _is_state(state):
        return None
    _, *rest = state.split(" ")
    inode, written_at, size, skipped, skipped_lines = map(int, rest[:5])
    parts = tuple(_Part(name, int(lines)) for name, lines in (part.split("=") for part in rest[6:]))
    return _State(inode, written_at, size, skipped, skipped_lines, rest[5], parts)


class JsonLines:
    """A `TurnSource`. Positions are lines of the file."""

    def __init__(
        self, path: str, scope: Scope, opened: Callable[[], AbstractContextManager[BinaryIO]], most_bytes: int
    ) -> None:
        """``opened`` gives the file for reading; only its newest ``most_bytes`` are searched, rounded to parts."""
        self._path = path
        self._scope = scope
        self._opened = opened
        self._most = max(most_bytes // PART, 1)

    def changed(self, known: Mapping[str, str]) -> Iterator[Stretch]:
        """See TurnSource.

        A file that has grown, and in which the parts that are looked at are as they were, is taken for one that was
        appended to. Any other is read whole, though only what changed is parsed; but not what is too old to be searched
        if the file was not written to since.
        """
        told = known.get(self._path)
        before = _parsed(told)
        with self._opened() as stream:
            status = os.fstat(stream.fileno())
            now = self._begun(stream, before, status)
            if before is None or (before.skipped, before.skipped_lines) != (now.skipped, now.skipped_lines):
                yield self._stretch(1, now.skipped_lines + 1 if before else None, str(now))
            yield from self._from(stream, now, before, status.st_size, told)

    def _from(
        self, stream: BinaryIO, now: _State, before: _State | None, size: int, told: str | None
    ) -> Iterator[Stretch]:
        """What changed behind the parts that ``now`` has."""
        old = {} if before is None else dict(before.starts())
        parts, line, state, end = list(now.parts), now.end, str(now), _count_of_parts(size)
        for number, lines, name in _parts(stream, now.skipped + len(parts), size):
            start, is_last = line + 1, number == end - 1
            parts.append(_Part(name, len(lines)))
            line += len(lines)
            if is_last or len(parts) % _PARTS_TO_NOTE == 0:
                state = str(replace(now, size=size if is_last else 0, parts=tuple(parts)))
            if old.get(number) != (name, start):
                yield self._stretch(start, None if is_last else line + 1, state, lines)
            elif is_last and state != told:
                yield self._stretch(line + 1, None, state)
        if not end and state != told:
            yield self._stretch(1, None, state)

    def _begun(self, stream: BinaryIO, before: _State | None, status: os.stat_result) -> _State:
        """What need not be read of the file, as far as that can be told."""
        inode, written_at, size = status.st_ino, status.st_mtime_ns, status.st_size
        skipped, edges = max(0, _count_of_parts(size) - self._most), _edges(stream, size)
        if before is None or not _was_appended_to(stream, before, status):
            same = before is not None and (before.inode, before.written_at, before.size) == (inode, written_at, size)
            lines = before.skipped_lines if before is not None and same else _count_lines(stream, 0, skipped)
            return _State(inode, written_at, 0, skipped, lines, edges)
        drop = skipped - before.skipped
        # The last line may have grown, and begins in the last part that has any.
        whole = before.parts[: max((n for n, part in enumerate(before.parts) if part.lines), default=0)]
        lines = before.skipped_lines + sum(part.lines for part in whole[:drop])
        lines += _count_lines(stream, before.skipped + len(whole), skipped)
        return _State(inode, written_at, 0, skipped, lines, edges, whole[drop:])

    def gone(self, known: Mapping[str, str]) -> Sequence[str]:  # noqa: ARG002 - there is one conversation in the file
        """See TurnSource."""
        return ()

    def read(self, path: str, first: int) -> Iterator[Said]:  # noqa: ARG002 - there is one conversation in the file
        """See TurnSource."""
        with self._opened() as stream:
            for number, line in enumerate(_lines(stream, first), first):
                yield from _said([line], number)[0]

    def last(self, path: str) -> int:  # noqa: ARG002 - there is one conversation in the file
        """See TurnSource."""
        with self._opened() as stream:
            size = os.fstat(stream.fileno()).st_size
            return _count_lines(stream, 0, _count_of_parts(size), size)

    def _stretch(self, first: int, until: int | None, state: str, lines: Sequence[bytes | None] = ()) -> Stretch:
        said, strange = _said(lines, first)
        notices = [f"{self._path}: line {line} {why}, and is passed over" for line, why in strange]
        return Stretch(self._path, self._scope, first, until, said, state, tuple(notices))


# -- lines -------------------------------------------------------------------------------------------------------------


def _count_of_parts(size: int) -> int:
    return -(-size // PART)


def _parts(stream: BinaryIO, first: int, size: int) -> Iterator[tuple[int, list[bytes | None], str]]:
    """Number, lines and name of each part from ``first`` on, in the first ``size`` bytes of the file."""
    position = _to_line(stream, first * PART)
    for number in range(first, _count_of_parts(size)):
        lines: list[bytes | None] = []
        hashed = sha256()
        while position < min((number + 1) * PART, size):
            line, length = _line(stream, size - position, hashed.update)
            lines.append(line)
            position += length
        yield number, lines, hashed.hexdigest()[:16]


def _to_line(stream: BinaryIO, offset: int) -> int:
    """Go to the first line that begins at ``offset`` or later; returns where that is."""
    stream.seek(max(offset - 1, 0))
    while offset and (skipped := stream.readline(PART)) and not skipped.endswith(b"\n"):
        pass
    return stream.tell()


def _line(stream: BinaryIO, left: int, seen: Callable[[bytes], object]) -> tuple[bytes | None, int]:
    """The next line, None if it is too long, and its length, which is at most ``left``."""
    line = stream.readline(min(left, LONGEST_LINE))
    if not line:
        raise UnreadableFileError("the file was cut off while it was read; what is known of it is kept")
    seen(line)
    length, whole = len(line), line
    while not line.endswith(b"\n") and length < left and (line := stream.readline(min(left - length, PART))):
        seen(line)
        length += len(line)
    return (whole if length == len(whole) else None), length


def _lines(stream: BinaryIO, first: int) -> Iterator[bytes | None]:
    size = os.fstat(stream.fileno()).st_size
    position = _to_number(stream, first)
    while position < size:
        line, length = _line(stream, size - position, len)
        yield line
        position += length


def _to_number(stream: BinaryIO, number: int) -> int:
    """Go to the beginning of a line, or to the end if there are fewer; returns where that is."""
    position, left = 0, number - 1
    while left and (block := stream.read(8 * PART)):
        ends = block.count(b"\n")
        if ends < left:
            left, position = left - ends, position + len(block)
            continue
        end = -1
        for _ in range(left):
            end = block.index(b"\n", end + 1)
        left, position = 0, position + end + 1
    return stream.seek(position)


def _count_lines(stream: BinaryIO, first: int, end: int, size: int | None = None) -> int:
    """How many lines begin in the parts from ``first`` to before ``end``; a line begins behind a line's end."""
    if end <= first:
        return 0
    stream.seek(max(first * PART - 1, 0))
    left = min(end * PART, end * PART if size is None else size) - stream.tell() - 1
    count = int(first == 0)
    while left > 0 and (block := stream.read(min(left, 8 * PART))):
        count += block.count(b"\n")
        left -= len(block)
    return count


def _edges(stream: BinaryIO, size: int) -> str:
    """Names the first and the last bytes of the first ``size`` of a file."""
    stream.seek(0)
    head = stream.read(min(_EDGE, size))
    stream.seek(max(size - _EDGE, 0))
    return digest((head, stream.read(min(_EDGE, size))))


def _was_appended_to(stream: BinaryIO, before: _State, status: os.stat_result) -> bool:
    """Whether the file is longer than it was and begins as before, as far as a few parts tell."""
    if before.inode != status.st_ino or not 0 < before.size < status.st_size:
        return False
    if _edges(stream, before.size) != before.edges:
        return False
    count = len(before.parts)
    for index in {count * step // _PROBES for step in range(_PROBES)} | {count - 1}:
        _, _, name = next(_parts(stream, before.skipped + index, before.size))
        if name != before.parts[index].name:
            return False
    return True


def _said(lines: Sequence[bytes | None], first: int) -> tuple[list[Said], list[tuple[int, str]]]:
    """The messages in lines of which the first has the number ``first``, and what is wrong with which line."""
    found: list[Said] = []
    strange: list[tuple[int, str]] = []
    time: datetime | None = None
    for number, line in enumerate(lines, first):
        if line is None:
            strange.append((number, f"is longer than {LONGEST_LINE >> 20} MB"))
            continue
        if b'"content"' not in line:
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            if line.endswith(b"\n"):  # else somebody is still writing it
                strange.append((number, "is no JSON"))
            continue
        body = _body(entry)
        if body is not None:
            time = time_of(entry, body) or time
            one = message(body, number, time)
            if one is not None and not _is_echo(one.text):
                found.append(one)
    return found, strange


def _body(entry: object) -> Mapping[str, Any] | None:
    """The message in a line; None if nobody said it."""
    if not isinstance(entry, dict) or any(entry.get(flag) is True for flag in _PUT_IN):
        return None
    inner = entry.get("message")
    if isinstance(inner, dict):
        return inner if "role" in inner else {**inner, "role": entry.get("type")}
    return entry
