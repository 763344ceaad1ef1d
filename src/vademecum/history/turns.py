"""Which turn a message belongs to, decided once when it is stored; and turns as they are shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from vademecum.history import content
from vademecum.history.records import Message, Step, Turn


class Threads:
    """Assigns messages of one session to turns, in order.

    What a scheduler injects forms turns of its own, so that it may come in the middle of another turn's tool calls
    without taking them over, and can be deleted without leaving a call that has no result.
    """

    def __init__(self, latest: int | None, latest_scheduled: int | None) -> None:
        """Go on after the turns that were opened last, of each kind; None where there is none yet."""
        self._latest = {False: latest, True: latest_scheduled}

    def place(self, seq: int, body: dict[str, Any], scheduled: bool) -> tuple[int, bool]:
        """The turn of a message, and whether it opens it. Call in the order of ``seq``.

        A turn is opened by a person's message, and by an agent's where there is no turn to go on with.
        """
        latest = self._latest[scheduled]
        part = content.part_of(body)
        if part == "question" or (part == "reply" and latest is None):
            self._latest[scheduled] = seq
            return seq, True
        return (seq if latest is None else latest), False


def turns_of(messages: Iterable[Message], context_start: int) -> Iterator[Turn]:
    """Turns from messages in the order of turn and sequence. Messages before a session's first turn are passed over."""
    for _, group in groupby(messages, key=attrgetter("turn")):
        members = list(group)
        if members[0].opens:
            yield _turn(members, context_start)


def _turn(members: list[Message], context_start: int) -> Turn:
    first = members[0]
    asked = content.part_of(first.body) == "question"
    replies = [message for message in members if message.role == "assistant"]
    steps = _steps(members[1:] if asked else members)
    extras: dict[str, Any] = {}
    for message in members:
        extras |= message.extras
    return Turn(
        id=first.id,
        seq=first.turn,
        question=content.text_of(first.body) if asked else None,
        answer=next((step.text for step in reversed(steps) if step.kind == "text"), ""),
        steps=steps,
        at=first.at,
        answer_seq=replies[-1].seq if replies else None,
        answered_at=replies[-1].at if replies else None,
        scheduled=first.scheduled,
        in_context=first.turn >= context_start,
        extras=extras,
    )


def _steps(members: list[Message]) -> tuple[Step, ...]:
    """Every step with the result of its call; a result whose call is not there is a step of its own."""
    steps: list[Step] = []
    for message in members:
        if message.role == "assistant":
            steps += content.steps_of(message.body)
            continue
        for call, result, failed in content.results_of(message.body):
            known = next((i for i, step in enumerate(steps) if step.kind == "tool" and step.call == call), None)
            if known is None:
                steps.append(Step("tool", call=call, name=message.body.get("name", ""), result=result, failed=failed))
            else:
                steps[known] = replace(steps[known], result=result, failed=failed)
    return tuple(steps)
