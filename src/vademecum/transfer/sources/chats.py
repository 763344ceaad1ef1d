"""Exports of chat services: ``conversations.json``, by itself or in the zip that the service sends."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from vademecum.errors import UsageError
from vademecum.transfer.found import Conversation, Found, Said, Skipped

_FILE = "conversations.json"
_LARGEST = 2 * 1024**3
#: Text of a real export shrinks to about a tenth; what shrinks a thousandfold is meant to do harm.
_MOST_SHRINKAGE = 1_000


def chatgpt(source: Path) -> Iterator[Found]:
    """ChatGPT's data export: of a conversation that branched, the branch that was open last."""
    for number, entry in enumerate(_entries(source)):
        nodes = entry.get("mapping")
        name = entry.get("conversation_id") or entry.get("id")
        if not isinstance(nodes, Mapping) or not isinstance(name, str):
            yield Skipped(f"conversation {number}", "has no id or no messages")
            continue
        said: list[Said] = []
        node = entry.get("current_node")
        seen: set[str] = set()
        while isinstance(node, str) and node in nodes and node not in seen:
            seen.add(node)
            place = nodes[node] if isinstance(nodes[node], Mapping) else {}
            message = _openai(place.get("message"), _time(entry.get("create_time")))
            if message is not None:
                said.append(message)
            node = place.get("parent")
        yield Conversation(f"chatgpt-{name}", _title(entry.get("title")), tuple(reversed(said)))


def claude(source: Path) -> Iterator[Found]:
    """Claude's data export."""
    for number, entry in enumerate(_entries(source)):
        messages = entry.get("chat_messages")
        name = entry.get("uuid")
        if not isinstance(messages, list) or not isinstance(name, str):
            yield Skipped(f"conversation {number}", "has no id or no messages")
            continue
        begun = _time(entry.get("created_at"))
        said = [found for found in (_anthropic(message, begun) for message in messages) if found is not None]
        yield Conversation(f"claude-{name}", _title(entry.get("name")), tuple(said))


def _openai(message: object, begun: float) -> Said | None:
    if not isinstance(message, Mapping):
        return None
    author, content = message.get("author"), message.get("content")
    role = _role(author.get("role") if isinstance(author, Mapping) else None)
    parts = content.get("parts") if isinstance(content, Mapping) else None
    text = "\n".join(part for part in parts if isinstance(part, str)).strip() if isinstance(parts, list) else ""
    return Said(role, text, _time(message.get("create_time")) or begun) if role is not None and text else None


def _anthropic(message: object, begun: float) -> Said | None:
    if not isinstance(message, Mapping):
        return None
    role = _role(message.get("sender"))
    blocks = message.get("content")
    texts = [
        block["text"]
        for block in (blocks if isinstance(blocks, list) else [])
        if isinstance(block, Mapping) and block.get("type") == "text" and isinstance(block.get("text"), str)
    ]
    plain = message.get("text")
    text = "\n".join(texts).strip() or (plain.strip() if isinstance(plain, str) else "")
    return Said(role, text, _time(message.get("created_at")) or begun) if role is not None and text else None


def _role(name: object) -> Literal["user", "assistant"] | None:
    if name in ("user", "human"):
        return "user"
    return "assistant" if name == "assistant" else None


def _time(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return max(0.0, float(value))
    if isinstance(value, str):
        try:
            return max(0.0, datetime.fromisoformat(value).timestamp())
        except ValueError:
            return 0.0
    return 0.0


def _title(value: object) -> str:
    return " ".join(value.split())[:200] if isinstance(value, str) else ""


def _entries(source: Path) -> Iterator[Mapping[str, Any]]:
    try:
        data = _packed(source) if zipfile.is_zipfile(source) else _plain(source)
        whole = json.loads(data)
    except OSError as error:
        raise UsageError(f"{source}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError, zipfile.BadZipFile) as error:
        raise UsageError(f"{source}: is no export of conversations: {error}") from error
    if not isinstance(whole, list):
        raise UsageError(f"{source}: expected a list of conversations")
    yield from (entry for entry in whole if isinstance(entry, Mapping))


def _plain(source: Path) -> bytes:
    file = source / _FILE if source.is_dir() else source
    if file.stat().st_size > _LARGEST:
        raise UsageError(f"{file}: has more than {_LARGEST >> 30} GB")
    return file.read_bytes()


def _packed(source: Path) -> bytes:
    """The one file of the zip that we want; nothing is unpacked to disk."""
    with zipfile.ZipFile(source) as archive:
        for entry in archive.infolist():
            if entry.filename.rpartition("/")[2] == _FILE:
                size, packed = entry.file_size, max(1, entry.compress_size)
                if size > _LARGEST or size > packed * _MOST_SHRINKAGE:
                    raise UsageError(f"{source}: {entry.filename} unpacks to {size} bytes, which no real export does")
                with archive.open(entry) as stream:
                    return stream.read(_LARGEST)
    raise UsageError(f"{source}: holds no {_FILE}")
