"""What a source yields: pages, conversations, and what cannot be taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Page:
    """A page for ``path``, relative to the taker's own part of the memory."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Said:
    """One message; ``at`` is a Unix time."""

    role: Literal["user", "assistant"]
    text: str
    at: float


@dataclass(frozen=True, slots=True)
class Conversation:
    """A session under an id that stays the same from one export to the next, oldest message first."""

    id: str
    title: str
    messages: tuple[Said, ...]


@dataclass(frozen=True, slots=True)
class Skipped:
    """What is not taken, and why."""

    name: str
    reason: str


Found: TypeAlias = Page | Conversation | Skipped
