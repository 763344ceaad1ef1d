"""What is inside a message, whichever API it was made for: OpenAI chat or responses, Anthropic, plain role and content.

A message is kept as it came; everything here only reads it. What a form does not say is told as "nothing".
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal

from vademecum.errors import UsageError, shown
from vademecum.history.records import Step

#: Deeper than any message is, and shallow enough for every JSON parser.
_DEEPEST = 200
_TEXTS = frozenset({"text", "input_text", "output_text"})
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
#: Items of OpenAI's responses API that have a type instead of a role.
_ROLE_OF_ITEM = {"function_call": "assistant", "reasoning": "assistant", "function_call_output": "tool"}

#: What a message does in a turn: begins it, carries it on, brings a tool's result, or stands beside it.
Part = Literal["question", "reply", "result", "other"]


def encode(value: object, place: str) -> str:
    """JSON from which `decode` gives back an equal value.

    Raises UsageError naming the place within ``value`` of the first thing that JSON cannot keep.
    """
    _check(value, place, 0)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, as file names that are not UTF-8 bring along
        text = json.dumps(value, separators=(",", ":"))
    return text


def decode(text: str) -> Any:
    """The value that `encode` was given."""
    return json.loads(text)


def encode_message(message: object, place: str) -> str:
    """`encode` for one message, which must be an object that has a role, or the type of an item."""
    if not isinstance(message, dict):
        raise UsageError(f"{place} = {shown(message)}: expected a message as a dict{_dumped(message)}")
    if not _text_at(message, "role") and not _text_at(message, "type"):
        raise UsageError(f'{place} = {shown(message)}: expected a message with a "role"')
    return encode(message, place)


def _check(value: object, place: str, depth: int) -> None:
    if depth > _DEEPEST:
        raise UsageError(f"{place[:200]}…: nested more than {_DEEPEST} deep")
    if value is None or isinstance(value, (str, bool)):
        return
    if isinstance(value, (int, float)):
        if not math.isfinite(value) if isinstance(value, float) else value.bit_length() > 10_000:
            raise UsageError(f"{place} = {shown(value)}: JSON has no such number")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check(item, f"{place}[{index}]", depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise UsageError(f"{place}: the key {shown(key)} is no text; JSON would give it back as one")
            _check(item, f"{place}.{key}", depth + 1)
    else:
        raise UsageError(f"{place} = {shown(value)}: {type(value).__name__} is not JSON{_dumped(value)}")


def _dumped(value: object) -> str:
    return '; give its model_dump(mode="json")' if hasattr(value, "model_dump") else ""


def _text_at(value: object, key: str) -> str:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def _blocks(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    content = body.get("content")
    if isinstance(content, list):
        yield from (block for block in content if isinstance(block, dict))


def role_of(body: dict[str, Any]) -> str:
    """ "user", "assistant", "tool", …; "" where the message does not say."""
    return _text_at(body, "role") or _ROLE_OF_ITEM.get(_text_at(body, "type"), "")


def part_of(body: dict[str, Any]) -> Part:
    """What the message does in a turn. A user message that brings a tool's result belongs to the turn at hand."""
    role = role_of(body)
    if role == "assistant":
        return "reply"
    if role in ("tool", "function") or any(_text_at(block, "type") == "tool_result" for block in _blocks(body)):
        return "result"
    content = body.get("content")
    said = bool(content.strip()) if isinstance(content, str) else any(_blocks(body))
    return "question" if role == "user" and said else "other"


def text_of(body: dict[str, Any]) -> str:
    """The readable text of a message, without tools and thoughts."""
    return _text(body.get("content"))


def _text(content: object) -> str:
    if isinstance(content, str):
        return content.strip()
    if not isinstance(content, list):
        return ""
    parts = [block if isinstance(block, str) else _text_of_block(block) for block in content]
    return "\n".join(filter(None, parts)).strip()


def _text_of_block(block: object) -> str:
    kind = _text_at(block, "type")
    return _text_at(block, "text") if kind in _TEXTS else _text_at(block, "refusal") if kind == "refusal" else ""


def without_thoughts(body: dict[str, Any]) -> dict[str, Any] | None:
    """The message without its blocks of thinking; None if nothing is left of it."""
    content = body.get("content")
    if role_of(body) != "assistant" or not isinstance(content, list):
        return body
    kept = [block for block in content if _text_at(block, "type") not in _THOUGHTS]
    if len(kept) == len(content):
        return body
    return {**body, "content": kept} if kept or body.get("tool_calls") else None


def steps_of(body: dict[str, Any]) -> Iterator[Step]:
    """What an agent's message holds, in order: thoughts, texts and calls of tools, whose results come later."""
    for step in _steps(body):
        if step.kind == "tool" or step.text:
            yield step


def _steps(body: dict[str, Any]) -> Iterator[Step]:
    kind = _text_at(body, "type")
    if kind == "reasoning":
        summary = body.get("summary")
        parts = [_text_at(part, "text") for part in summary] if isinstance(summary, list) else []
        yield Step("thinking", _text(body.get("content")) or "\n".join(filter(None, parts)))
        return
    if kind == "function_call":
        yield _called(_text_at(body, "call_id"), body)
    yield Step("thinking", _text_at(body, "reasoning_content").strip())  # DeepSeek's and its like's
    if isinstance(body.get("content"), str):
        yield Step("text", text_of(body))
    for block in _blocks(body):
        if _text_at(block, "type") == "thinking":
            yield Step("thinking", _text_at(block, "thinking").strip())
        elif _text_at(block, "type") == "tool_use":
            name = _text_at(block, "name")
            yield Step("tool", call=_text_at(block, "id"), name=name, arguments=block.get("input"))
        else:
            yield Step("text", _text_of_block(block).strip())
    calls = body.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict) and isinstance(call.get("function"), dict):
            yield _called(_text_at(call, "id"), call["function"])


def _called(call: str, function: dict[str, Any]) -> Step:
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):  # a model may write what is no JSON
            arguments = json.loads(arguments)
    return Step("tool", call=call, name=_text_at(function, "name"), arguments=arguments)


def results_of(body: dict[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Call id, text and whether it failed, for each tool's result in a message."""
    if _text_at(body, "type") == "function_call_output":
        yield _text_at(body, "call_id"), _result(body.get("output")), False
    elif role_of(body) in ("tool", "function"):
        yield _text_at(body, "tool_call_id"), _result(body.get("content")), False
    for block in _blocks(body):
        if _text_at(block, "type") == "tool_result":
            yield _text_at(block, "tool_use_id"), _result(block.get("content")), block.get("is_error") is True


def _result(content: object) -> str:
    return _text(content) if isinstance(content, (str, list)) or content is None else json.dumps(content)
