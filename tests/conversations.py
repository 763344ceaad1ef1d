"""Conversations made for one test, and messages in the forms in which they come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vademecum.history import Conversations, HistoryFile

USER, ASSISTANT = "user", "assistant"


class Clock:
    """Stands still until it is told."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def conversations(folder: Path, owner: str = "shared", **options: Any) -> Conversations:
    return Conversations(HistoryFile(folder / "history.sqlite", **options), owner)


def said(text: str) -> dict[str, Any]:
    return {"role": USER, "content": text}


def answered(text: str) -> dict[str, Any]:
    return {"role": ASSISTANT, "content": text}


def exchange(number: int) -> list[dict[str, Any]]:
    return [said(f"question {number}"), answered(f"answer {number}")]


def anthropic_tools(question: str, calls: int, answer: str) -> list[dict[str, Any]]:
    """A turn with so many calls of a tool, as Anthropic's API has it."""
    messages: list[dict[str, Any]] = [{"role": USER, "content": [{"type": "text", "text": question}]}]
    for number in range(calls):
        use = {"type": "tool_use", "id": f"tool{number}", "name": "look", "input": {"at": number}}
        result = {"type": "tool_result", "tool_use_id": f"tool{number}", "content": [{"type": "text", "text": "seen"}]}
        messages.append({"role": ASSISTANT, "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, use]})
        messages.append({"role": USER, "content": [result]})
    return [*messages, {"role": ASSISTANT, "content": [{"type": "text", "text": answer}]}]


def openai_tools(question: str, calls: int, answer: str) -> list[dict[str, Any]]:
    """The same for OpenAI's chat API."""
    messages: list[dict[str, Any]] = [said(question)]
    for number in range(calls):
        function = {"name": "look", "arguments": f'{{"at": {number}}}'}
        call = {"id": f"tool{number}", "type": "function", "function": function}
        messages.append({"role": ASSISTANT, "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"tool{number}", "content": "seen"})
    return [*messages, answered(answer)]


def texts(messages: list[dict[str, Any]]) -> list[Any]:
    return [message["content"] for message in messages]
