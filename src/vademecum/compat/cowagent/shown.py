"""Turns as the host's chat shows them: a question, and one answer with its steps."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from vademecum.history import Step, Turn

_EVOLUTION = "[EVOLUTION]"
#: How a change of the agent by itself can be taken back; for the model, not for display.
_BACKUP = re.compile(r"\n*\(backup_id:[^)]*\)\s*$")


def shown_turns(turns: Iterable[Turn], *, thoughts: bool) -> list[dict[str, Any]]:
    """Messages in order. What a scheduler asked is not shown, what it was answered is."""
    shown: list[dict[str, Any]] = []
    for turn in turns:
        if turn.question and not turn.scheduled:
            question = {"role": "user", "content": turn.question, "created_at": int(turn.at), "_seq": turn.seq}
            shown.append(question)
        steps = [_step(step) for step in turn.steps if thoughts or step.kind != "thinking"]
        if turn.answer_seq is not None and (turn.answer or steps):
            shown.append(_answer(turn, steps))
    return shown


def _answer(turn: Turn, steps: list[dict[str, Any]]) -> dict[str, Any]:
    at = turn.at if turn.answered_at is None else turn.answered_at
    answer: dict[str, Any] = {
        "role": "assistant",
        "content": cleaned(turn.answer),
        "steps": steps,
        "tool_calls": [step for step in steps if step["type"] == "tool"],
        "created_at": int(at),
        "_seq": turn.answer_seq,
    }
    if turn.extras:
        answer["extras"] = dict(turn.extras)
    if turn.answer.startswith(_EVOLUTION):
        answer["kind"] = "evolution"
    return answer


def cleaned(text: str) -> str:
    """An answer without what is for the model only."""
    return _BACKUP.sub("", text.removeprefix(_EVOLUTION).lstrip() if text.startswith(_EVOLUTION) else text).rstrip()


def _step(step: Step) -> dict[str, Any]:
    if step.kind == "tool":
        return {
            "type": "tool",
            "id": step.call,
            "name": step.name,
            "arguments": step.arguments,
            "result": step.result or "",
            "is_error": step.failed,
        }
    return {"type": "content" if step.kind == "text" else "thinking", "content": step.text}
