"""What conversations are told in. All times are Unix seconds (UTC); all positions are sequence numbers of a session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from vademecum.types import SHARED, Scope, Viewer


def owner_of(viewer: Viewer) -> str:
    """Whose conversations a viewer has: "shared", "user:<id>", "agent:<id>", or "user:<id> agent:<id>".

    Two agents of one user have conversations of their own, because both may call a session by the same id.
    """
    return " ".join(viewer.scopes[1:]) or SHARED


def viewer_of(owner: str) -> Viewer:
    """The viewer whose conversations are those of ``owner``: the inverse of `owner_of`."""
    ids = dict(part.split(":", 1) for part in owner.split(" ") if ":" in part)
    return Viewer(ids.get("user"), ids.get("agent"))


def scope_of(owner: str) -> Scope:
    """The scope in which an owner's conversations are found by search: the user's, else the agent's, else shared."""
    return owner.partition(" ")[0]


@dataclass(frozen=True, slots=True)
class Message:
    """One stored message.

    ``seq`` grows within its session in the order of storing and is never given twice, not even after everything was
    deleted; there may be gaps. ``id`` is unique in all histories and never changes. ``turn`` is the ``seq`` of the
    message that opened the turn; ``opens`` says that it is this one. ``body`` is the message exactly as it was given.
    """

    id: str
    seq: int
    turn: int
    opens: bool
    scheduled: bool
    role: str
    at: float
    body: dict[str, Any]
    extras: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing an agent did on the way to its answer, in order.

    ``text`` is what it said or thought. For a tool, ``arguments`` is the parsed object, or the text of what is no
    JSON; ``result`` is None while there is none.
    """

    kind: Literal["text", "thinking", "tool"]
    text: str = ""
    call: str = ""
    name: str = ""
    arguments: Any = None
    result: str | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """What a person said and everything up to the next time: one exchange as a chat shows it.

    ``question`` is None where the agent spoke first. A scheduled turn was begun by a scheduler; its question is not
    meant for display. ``answer`` is the last text of the agent, "" while there is none, and ``answer_seq`` and
    ``answered_at`` are those of its last message. ``in_context`` tells whether `Conversations.load` may still give
    it. ``extras`` are those of all its messages; of equal keys the
    later one counts.
    """

    id: str
    seq: int
    question: str | None
    answer: str
    steps: tuple[Step, ...]
    at: float
    answer_seq: int | None
    answered_at: float | None
    scheduled: bool
    in_context: bool
    extras: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TurnPage:
    """Turns of one session, oldest first; page 1 holds the newest. ``total`` counts the turns of all pages."""

    turns: tuple[Turn, ...]
    total: int
    number: int
    size: int
    more: bool
    context_start: int


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation as a list shows it.

    ``id`` is the host's name for it, unique among the owner's. ``channel`` says where it is held ("web", "cli", …).
    Turns from ``context_start`` on are still given to the model. ``stamp`` changes whenever its messages do; equal
    stamps mean equal messages. ``uid`` tells it from a later session of the same id.
    """

    id: str
    owner: str
    channel: str
    title: str
    pinned: bool
    created_at: float
    active_at: float
    messages: int
    context_start: int = 0
    next_seq: int = 0
    uid: str = ""
    stamp: str = ""


@dataclass(frozen=True, slots=True)
class SessionPage:
    """Sessions, pinned ones first, then by last activity, newest first. ``total`` counts those of all pages."""

    sessions: tuple[Session, ...]
    total: int
    number: int
    size: int
    more: bool


@dataclass(frozen=True, slots=True)
class Latest:
    """Where the newest exchange of a session is: sequence numbers, None for what is not there."""

    question: int | None
    answer: int | None


@dataclass(frozen=True, slots=True)
class Totals:
    """How much an owner has. ``by_channel`` counts sessions, most first; the channel may be ""."""

    sessions: int
    messages: int
    by_channel: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did. ``known`` counts messages that were there already or had been deleted since.

    ``refused`` pairs a session's id with the reason why nothing of it was taken.
    """

    sessions: int
    messages: int
    known: int
    refused: tuple[tuple[str, str], ...] = ()
