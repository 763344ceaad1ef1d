"""What was said in conversations, as far as it can be searched, whichever file it stands in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import groupby
from typing import Any, Literal, NamedTuple, Protocol

from vademecum.history import content
from vademecum.types import Scope

#: Characters of one message; the rest of a longer one is not searched. A novel is half a million.
LONGEST = 200_000

_ROLES: Mapping[str, Literal["user", "assistant"]] = {
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "ai", "model", "bot"), "assistant"),
}
_TIMES = ("timestamp", "created_at", "createdAt", "time", "ts", "date")
#: Above this, a number counts milliseconds: as seconds it would be the year 5138.
_MOST_SECONDS = 1e11


class Said(NamedTuple):
    """One message: where it stands (from 1: a line, a number), who said what, and when (None: not told).

    A time without zone is the user's own.
    """

    position: int
    role: Literal["user", "assistant"]
    text: str
    time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of one conversation that has to be written anew.

    It takes the place of all that began at ``first`` or later, and before ``until`` (None: to the end). With it the
    conversation is known up to what ``state`` says, which only its source can read. ``notices`` tell of what was left
    out.
    """

    path: str
    scope: Scope
    first: int
    until: int | None
    said: Sequence[Said]
    state: str
    notices: tuple[str, ...] = ()


class TurnSource(Protocol):
    """One file with conversations. Methods raise UnreadableFileError, MissingFileError or HistoryError."""

    def changed(self, known: Mapping[str, str]) -> Iterator[Stretch]:
        """What has to be written anew, given the states in which conversations are known, by path.

        At the end every path that was told of, or is not among ``gone``, is up to date.
        """
        ...

    def gone(self, known: Mapping[str, str]) -> Sequence[str]:
        """Those of the known conversations that are no more."""
        ...

    def read(self, path: str, first: int) -> Iterator[Said]:
        """What was said in one conversation from position ``first`` on."""
        ...

    def last(self, path: str) -> int:
        """The last position of one conversation, 0 if it has none."""
        ...


def message(body: Mapping[str, Any], position: int, time: datetime | None) -> Said | None:
    """A message as it goes to or comes from a model; None for tools, systems and messages without words."""
    role = _ROLES.get(content.role_of(dict(body)).lower())
    if role is None or (role == "user" and content.part_of({**body, "role": role}) != "question"):
        return None
    return said(position, role, content.text_of(dict(body)), time)


def said(position: int, role: Literal["user", "assistant"], text: str, time: datetime | None) -> Said | None:
    """A message, or None if there are no words. Line ends become "\\n"; what UTF-8 cannot hold is replaced."""
    text = text[:LONGEST].replace("\r\n", "\n").replace("\r", "\n").replace("\0", "").strip()
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return Said(position, role, text, time) if text else None


def time_of(*places: object) -> datetime | None:
    """The first time that one of the objects tells, under one of the usual names."""
    for place in places:
        if isinstance(place, Mapping):
            for name in _TIMES:
                found = moment(place.get(name))
                if found is not None:
                    return found
    return None


def moment(value: object) -> datetime | None:
    """ISO 8601, or Unix seconds or milliseconds; None for what is neither."""
    with suppress(ValueError, OverflowError, OSError):
        if isinstance(value, str):
            return datetime.fromisoformat(value.strip())
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0:
            return datetime.fromtimestamp(value / 1000 if value > _MOST_SECONDS else value, UTC)
    return None


def turns(messages: Iterable[Said]) -> Iterator[list[Said]]:
    """A person's message with the answers up to the next one."""
    number = 0

    def turn(one: Said) -> int:
        nonlocal number
        number += one.role == "user"
        return number

    for _, members in groupby(messages, key=turn):
        yield list(members)


_LABELS = {"user": "User:", "assistant": "Assistant:"}


def rendered(turn: Sequence[Said]) -> tuple[str, list[int]]:
    """A turn as Markdown, and for each of its lines the position of the message that it belongs to."""
    lines: list[str] = []
    positions: list[int] = []
    role = None
    for one in turn:
        # Structure needs a line of its own: "Assistant: ```" would open no fence.
        gap = " " if one.text[0].isalnum() else "\n"
        text = one.text if one.role == role else f"{_LABELS[one.role]}{gap}{one.text}"
        part = ["", *text.split("\n")] if lines else text.split("\n")
        lines += part
        positions += [one.position] * len(part)
        role = one.role
    return "\n".join(lines), positions


def digest(data: Iterable[bytes]) -> str:
    """A short name of a content."""
    whole = sha256()
    for part in data:
        whole.update(part)
    return whole.hexdigest()[:16]
