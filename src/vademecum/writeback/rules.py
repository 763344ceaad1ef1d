"""A summary without a model: who asked for what, and how the answer began."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vademecum.writeback.transcript import Message

_MOST = 10
_LONGEST = 120
_MARKS = re.compile(r"^[\s#>*+\-|`]+")


def summarise(messages: Sequence[Message]) -> tuple[str, ...]:
    """One item for each of the last ten questions: its first line, and how the answer to it began."""
    found: list[str] = []
    for position, message in enumerate(messages):
        if message.role != "user":
            continue
        asked = _first_line(message.text)
        answer = next((_first_line(text) for text in _answers(messages[position + 1 :])), "")
        if asked:
            found.append(f"{asked} → {answer}" if answer else asked)
    return tuple(found[-_MOST:])


def _answers(following: Sequence[Message]) -> list[str]:
    texts: list[str] = []
    for message in following:
        if message.role == "user":
            break
        if message.role == "assistant" and _first_line(message.text):
            texts.append(message.text)
    return texts[-1:]


def _first_line(text: str) -> str:
    for line in text.splitlines():
        plain = _MARKS.sub("", line).strip()
        if plain and not plain.startswith("["):
            return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 1]}…"
    return ""
