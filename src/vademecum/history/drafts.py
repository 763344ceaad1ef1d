"""Messages on their way into the database: everything is checked and encoded before the write lock is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

from vademecum.errors import UsageError
from vademecum.history import checks, content
from vademecum.history.records import Message

_LONGEST_TITLE = 50


class Draft(NamedTuple):
    """A message to be stored. ``text`` and ``extras`` are JSON, ``body`` is what ``text`` says."""

    seq: int
    body: dict[str, Any]
    text: str
    role: str
    at: float
    scheduled: bool
    extras: str


def new(messages: object, extras: object, scheduled: bool, at: float) -> list[Draft]:
    """From what a host gives; the numbers are still to be given. Raises UsageError naming the place."""
    given = checks.items("messages", messages)
    beside = [None] * len(given) if extras is None else checks.items("extras", extras)
    if len(beside) != len(given):
        raise UsageError(f"extras has {len(beside)} items for {len(given)} messages: expected one for each, or None")
    drafts = []
    for number, (body, extra) in enumerate(zip(given, beside, strict=True)):
        text = content.encode_message(body, f"messages[{number}]")
        attached = checks.extras(f"extras[{number}]", extra)
        drafts.append(Draft(0, content.decode(text), text, content.role_of(body), at, scheduled, attached))
    return drafts


def known(messages: Iterable[Message]) -> list[Draft]:
    """From messages that have numbers and times, in their order. Raises UsageError naming the message."""
    drafts = [
        Draft(
            checks.whole("seq", message.seq, 0),
            message.body,
            content.encode_message(message.body, f"message {message.seq}"),
            content.role_of(message.body),
            checks.moment("at", message.at),
            checks.flag("scheduled", message.scheduled),
            checks.extras(f"extras of message {message.seq}", message.extras),
        )
        for message in messages
    ]
    for before, after in pairwise(drafts):
        if after.seq <= before.seq:
            raise UsageError(f"message {after.seq} comes after message {before.seq}: expected them in order, each once")
    return drafts


def title_of(drafts: Iterable[Draft]) -> str:
    """The first line of the first question of a person, "" if there is none."""
    asked = (draft.body for draft in drafts if not draft.scheduled and content.part_of(draft.body) == "question")
    lines = (line for body in asked for line in content.text_of(body).splitlines() if line.strip())
    return checks.line(next(lines, ""))[:_LONGEST_TITLE].rstrip()
