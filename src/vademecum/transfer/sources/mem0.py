"""mem0's memories as JSON: what its ``get_all`` gives, or its export."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vademecum.errors import UsageError
from vademecum.transfer.found import Found, Page, Skipped

_LARGEST = 1024**3
_NAME = re.compile(r"[^A-Za-z0-9._@+-]+")
_LISTS = ("results", "memories", "data")


def memories(source: Path) -> Iterator[Found]:
    """One page for each of its users, with an item for each memory, oldest first."""
    by_user: dict[str, list[tuple[str, str]]] = {}
    for number, entry in enumerate(_entries(source)):
        text = entry.get("memory") or entry.get("text") or entry.get("content")
        if not isinstance(text, str) or not text.strip():
            yield Skipped(f"memory {number}", "has no text")
            continue
        owner = entry.get("user_id") or entry.get("agent_id") or ""
        when = entry.get("updated_at") or entry.get("created_at") or ""
        name = _NAME.sub("-", owner).strip("-.")[:100] if isinstance(owner, str) else ""
        by_user.setdefault(name, []).append((when if isinstance(when, str) else "", " ".join(text.split())))
    for name, found in sorted(by_user.items()):
        lines = [f"- {text}{f' ({when[:10]})' if when else ''}" for when, text in sorted(found)]
        title = f"mem0: {name}" if name else "mem0"
        yield Page(f"mem0/{name or 'memories'}.md", f"# {title}\n\n" + "\n".join(lines) + "\n")


def _entries(source: Path) -> Iterator[Mapping[str, Any]]:
    try:
        if source.stat().st_size > _LARGEST:
            raise UsageError(f"{source}: has more than {_LARGEST >> 30} GB")
        whole = json.loads(source.read_bytes())
    except OSError as error:
        raise UsageError(f"{source}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{source}: is no JSON: {error}") from error
    if isinstance(whole, Mapping):
        whole = next((whole[name] for name in _LISTS if isinstance(whole.get(name), list)), None)
    if not isinstance(whole, list):
        raise UsageError(f"{source}: expected a list of memories")
    yield from (entry for entry in whole if isinstance(entry, Mapping))
