"""A summary without a model: who asked for what, and how the answer began."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from vademecum.writeback.transcript import Message

_MOST = 10
_LONGEST = 120
_MARKS = re.compile(r"^[\s#>*+\-|`]+")


def summarise(messages: Sequence[Message], cleaned: Callable[[str], str]) -> tuple[str, ...]:
    """One item for each of the last ten questions: its first line, and how the answer to it began.

    Texts are ``cleaned`` before anything is cut off, which would make half of a secret unrecognisable.
    """
    found: list[str] = []
    answer = ""
    for message in reversed(messages):
        if message.role == "assistant" and not answer:
            answer = _first_line(cleaned(message.text))
        elif message.role == "user":
            asked = _first_line(cleaned(message.text))
            if asked:
                found.append(f"{asked} → {answer}" if answer else asked)
            answer = ""
        if len(found) == _MOST:
            break
    return tuple(reversed(found))


def _first_line(text: str) -> str:
    for line in text.splitlines():
        plain = _MARKS.sub("", line).strip()
        if plain and not plain.startswith("["):
            return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 1]}…"
    return ""
