"""Conversations in the shapes that hosts hold them in, as one kind of message."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, TypeAlias

from vademecum.errors import UsageError, shown
from vademecum.providers.sendable import sendable
from vademecum.text.estimate import estimate_tokens

Role: TypeAlias = Literal["user", "assistant", "tool"]

#: Tool calls and results are shown to a model for what they are about, not for what they hold.
_LONGEST_CALL, _LONGEST_RESULT = 200, 400
#: Blocks within blocks: results hold texts, and nothing that is real goes deeper.
_DEEPEST = 20
_ROLES: Mapping[str, Role] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}
#: Instructions are the host's, not something that was said.
_INSTRUCTIONS = frozenset({"system", "developer"})
#: Nothing that anybody said: reasoning, pictures, references.
_SILENT_BLOCKS = frozenset(
    {"thinking", "redacted_thinking", "reasoning", "image", "image_url", "input_image", "input_audio", "file"}
)
_SCHEDULED = re.compile(r"\s*\[SCHEDULED\]")


@dataclass(frozen=True, slots=True)
class Message:
    """Something that was said.

    ``id`` is made from the host's id and the text; without one, from the message and the one before it. ``scheduled``
    marks what a timer put into the conversation, and the answers to it.
    """

    id: str
    role: Role
    text: str
    scheduled: bool = False


def read_messages(raw: Sequence[object]) -> tuple[Message, ...]:
    """The messages of a conversation in order; without instructions and without what holds no text.

    Takes plain ``{"role", "content"}``, OpenAI's chat messages and response items, and Anthropic's content blocks, as
    mappings or as the objects of those packages. Raises UsageError for anything else, naming its position.
    """
    if isinstance(raw, (str, bytes, Mapping)) or not isinstance(raw, Sequence):
        raise UsageError(f"messages = {shown(raw)}: expected a list of messages")
    messages: list[Message] = []
    previous, scheduled = "", False
    for position, item in enumerate(raw):
        entry = _mapping(item, position)
        role, said = _said(entry, position)
        text = sendable(said).strip()
        if role is None or not text:
            continue
        if role == "user":
            scheduled = entry.get("scheduled") is True or _SCHEDULED.match(text) is not None
        messages.append(Message(_identity(entry, role, text, previous), role, text, scheduled))
        previous = text
    return tuple(messages)


def rendered(message: Message, labels: Mapping[Role, str]) -> str:
    """A message as a model is shown it."""
    return f"{labels[message.role]}: {message.text}"


def windows(lines: Sequence[str], budget: int) -> list[str]:
    """Consecutive ``lines`` joined by blank lines, of at most ``budget`` estimated tokens each.

    A line that is longer by itself is cut into pieces; nothing is left out.
    """
    found: list[str] = []
    held: list[str] = []
    room = budget
    for line in lines:
        for piece in _pieces(line, budget):
            cost = estimate_tokens(piece) + 1
            if held and cost > room:
                found.append("\n\n".join(held))
                held, room = [], budget
            held.append(piece)
            room -= cost
    return [*found, "\n\n".join(held)] if held else found


def _pieces(line: str, budget: int) -> Iterator[str]:
    while estimate_tokens(line) > budget:
        size = max(1, len(line) * budget // (estimate_tokens(line) + 1))
        while size > 1 and estimate_tokens(line[:size]) > budget:
            size = size * 9 // 10
        yield line[:size]
        line = line[size:]
    if line:
        yield line


def _mapping(item: object, position: int) -> Mapping[str, Any]:
    dump = getattr(item, "model_dump", None)  # the packages' objects
    try:
        entry = dump() if callable(dump) else item
    except Exception as error:
        raise UsageError(f"message {position}: {shown(item)}: cannot be read: {error}") from error
    if not isinstance(entry, Mapping):
        raise UsageError(f"message {position}: {shown(item)}: expected an object with a role and a content")
    return entry


def _said(entry: Mapping[str, Any], position: int) -> tuple[Role | None, str]:
    kind = entry.get("type")
    if kind == "function_call":
        return "assistant", _call(entry.get("name"), entry.get("arguments"))
    if kind == "function_call_output":
        return "tool", _short(_text(entry.get("output"), position), _LONGEST_RESULT)
    if "role" not in entry and isinstance(kind, str):
        return None, ""  # an item of another kind, such as reasoning
    name = entry.get("role")
    if isinstance(name, str) and name in _INSTRUCTIONS:
        return None, ""
    role = _ROLES.get(name) if isinstance(name, str) else None
    if role is None:
        raise UsageError(f"message {position}: role = {shown(name)}: expected one of {', '.join(sorted(_ROLES))}")
    content = entry.get("content")
    if role == "user" and _only_results(content):
        role = "tool"  # how Anthropic's protocol hands back results
    text = _text(content, position)
    if role == "tool":
        return role, _short(text, _LONGEST_RESULT)
    called = entry.get("tool_calls") or ()
    if not isinstance(called, Sequence):
        raise UsageError(f"message {position}: tool_calls = {shown(called)}: expected a list")
    calls = [_call(*_function(call)) for call in called]
    return role, "\n".join(part for part in (text, *calls) if part)


def _only_results(content: object) -> bool:
    return (
        isinstance(content, list)
        and bool(content)
        and all(isinstance(block, Mapping) and block.get("type") == "tool_result" for block in content)
    )


def _text(content: object, position: int, depth: int = 0) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content.strip()
    if not isinstance(content, Sequence) or isinstance(content, bytes):
        raise UsageError(f"message {position}: content = {shown(content)}: expected a text or a list of blocks")
    if depth == _DEEPEST:
        raise UsageError(f"message {position}: its blocks are nested more than {_DEEPEST} deep")
    return "\n".join(part for part in (_block(block, position, depth) for block in content) if part)


def _block(block: object, position: int, depth: int) -> str:
    if isinstance(block, str):
        return block.strip()
    entry = _mapping(block, position)
    kind = entry.get("type")
    if kind == "tool_use":
        return _call(entry.get("name"), entry.get("input"))
    if kind == "tool_result":
        return _short(_text(entry.get("content"), position, depth + 1), _LONGEST_RESULT)
    if isinstance(kind, str) and kind in _SILENT_BLOCKS:
        return ""
    text = entry.get("text")
    return text.strip() if isinstance(text, str) else ""


def _function(call: object) -> tuple[object, object]:
    entry = call if isinstance(call, Mapping) else {}
    function = entry.get("function")
    inner = function if isinstance(function, Mapping) else entry
    return inner.get("name"), inner.get("arguments")


def _call(name: object, arguments: object) -> str:
    if not isinstance(arguments, str):
        try:
            arguments = json.dumps(arguments, ensure_ascii=False, default=str)
        except (TypeError, ValueError, RecursionError):  # no JSON, or one that holds itself
            arguments = shown(arguments)
    return _short(f"[{name} {arguments}]", _LONGEST_CALL)


def _short(text: str, limit: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[:limit]}…"


def _identity(entry: Mapping[str, Any], role: Role, text: str, previous: str) -> str:
    """Equal for the same message, and for no other.

    Hosts number the messages of each conversation from 1, and edit them: an id alone names none. Without one, equal
    messages differ by what they answer: one "yes" is not another.
    """
    given = entry.get("id") or entry.get("call_id") or entry.get("tool_call_id")
    if isinstance(given, (str, int)) and not isinstance(given, bool):
        parts = (role, "id", str(given), text)
    else:
        parts = (role, str(entry.get("timestamp") or entry.get("created_at") or ""), previous, text)
    return sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()
