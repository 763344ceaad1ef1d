"""Dexter's memory: its folder, its settings, its three tools with their exact envelope.

``.dexter/memory`` holds the pages (flat layout), ``.dexter/settings.json`` the settings under "memory",
``.dexter/messages/chat_history.json`` the conversations. None of Dexter's own index files is read or touched.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from vademecum.config import environment, load_settings
from vademecum.errors import PathError, SettingsError, StoreError, UsageError, VademecumError, shown
from vademecum.memory import Memory
from vademecum.settings import Settings
from vademecum.store.layout import detect
from vademecum.store.scan import scan
from vademecum.types import FlushReport, Hit
from vademecum.writeback.trigger import should_flush

#: What Dexter's flush prompt has a model say for nothing.
MEMORY_FLUSH_TOKEN = "NO_MEMORY_TO_FLUSH"  # noqa: S105 - no secret
FOLDER, SETTINGS = "memory", "settings.json"
_SNIPPET = 700
_KEYS: Mapping[str, str] = {
    "embeddingProvider": "embedding.provider",
    "embeddingModel": "embedding.model",
    "maxSessionContextTokens": "context.max_tokens",
    "chunkTokens": "chunk.tokens",
    "chunkOverlapTokens": "chunk.overlap_tokens",
    "maxResults": "search.max_results",
    "minScore": "search.min_score",
    "vectorWeight": "search.vector_weight",
    "textWeight": "search.text_weight",
    "watchDebounceMs": "watch.debounce_ms",
    "temporalDecay.enabled": "decay.enabled",
    "temporalDecay.halfLifeDays": "decay.half_life_days",
    "mmr.enabled": "mmr.enabled",
    "mmr.lambda": "mmr.lambda_",
    "indexSessions": "index_sessions",
}
_ENABLED = "enabled"


def find_folder(start: Path) -> Path | None:
    """The ``.dexter`` folder that ``start`` is, is in, or has; None if there is none."""
    for folder in (start, *start.parents):
        if folder.name == ".dexter" and folder.is_dir():
            return folder
    inside = start / ".dexter"
    return inside if inside.is_dir() else None


def read_settings(folder: Path, base: Settings) -> tuple[Settings, bool, tuple[str, ...]]:
    """``base`` with what ``settings.json`` says in its place, whether memory is enabled, and notices of unknown keys.

    Raises SettingsError, naming file and key, for a file that is no JSON and for values that cannot be meant.
    """
    file = folder / SETTINGS
    try:
        whole = json.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return base, True, ()
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{file}: cannot be read as JSON: {error}") from error
    given = whole.get("memory", {}) if isinstance(whole, Mapping) else None
    if not isinstance(given, Mapping):
        raise SettingsError(f"{file}: memory = {shown(given)}: expected an object")
    flat = dict(_flat(given))
    enabled = flat.pop(_ENABLED, True)
    if not isinstance(enabled, bool):
        raise SettingsError(f"{file}: memory.enabled = {shown(enabled)}: expected true or false")
    unknown = tuple(f"{file}: memory.{key} is not known and has no effect" for key in flat if key not in _KEYS)
    try:
        return _applied(base, {_KEYS[key]: value for key, value in flat.items() if key in _KEYS}), enabled, unknown
    except SettingsError as error:
        raise SettingsError(f"{file}: {error}") from error


def _flat(given: Mapping[str, Any], prefix: str = "") -> Sequence[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in given.items():
        if key in ("temporalDecay", "mmr") and isinstance(value, Mapping) and not prefix:
            found += _flat(value, f"{key}.")
        elif value is not None:
            found.append((f"{prefix}{key}", value))
    return found


def _applied(base: Settings, values: Mapping[str, Any]) -> Settings:
    slices: dict[str, dict[str, Any]] = {}
    whole: dict[str, Any] = {}
    for key, value in values.items():
        room, _, name = key.rpartition(".")
        if room:
            slices.setdefault(room, {})[name] = value
        else:
            whole[name] = value
    changed = {room: replace(getattr(base, room), **fields) for room, fields in slices.items()}
    return replace(base, **whole, **changed)


class DexterMemory:
    """What Dexter calls its memory manager. Opening never raises: see `available` and `unavailable_reason`.

    Use it as a context manager, or `close` it.
    """

    def __init__(self, folder: str | os.PathLike[str] = ".dexter", **options: Any) -> None:
        """``folder`` is ``.dexter`` or the ``memory`` in it; ``options`` are those of `Memory.open`."""
        self._memory: Memory | None = None
        self._reason = ""
        self.notices: tuple[str, ...] = ()
        path = Path(folder).expanduser()
        home = path.parent if path.name == FOLDER else path
        try:
            root = home / FOLDER
            base = options.pop("settings", None) or load_settings(root if root.is_dir() else None, environment())
            settings, enabled, self.notices = read_settings(home, base)
            if not enabled:
                self._reason = f"memory.enabled is false in {home / SETTINGS}"
                return
            settings = replace(settings, layout="flat")
            root.mkdir(parents=True, exist_ok=True)
            self._memory = Memory.open(root, settings=settings, **{"origin": "agent", **options})
        except OSError as error:
            self._reason = f"{home}: {error.strerror}"
        except VademecumError as error:
            self._reason = str(error)

    @property
    def available(self) -> bool:
        """Whether the memory could be opened."""
        return self._memory is not None

    @property
    def unavailable_reason(self) -> str | None:
        """Why not, None if it could."""
        return None if self.available else self._reason

    @property
    def memory(self) -> Memory:
        """The memory itself. Raises StoreError if it could not be opened."""
        if self._memory is None:
            raise StoreError(self._reason)
        return self._memory

    # -- what the rest of Dexter calls --------------------------------------------------------------------------

    def search(self, query: str, **options: Any) -> list[dict[str, Any]]:
        """The hits as Dexter knows them, best first; ``options`` are those of `Memory.search`."""
        result = self.memory.search(query, **{"wait_ms": -1, **options})
        if result.disabled is not None:
            raise StoreError(result.disabled)
        return [self._hit(hit) for hit in result.hits]

    def get(self, path: str, start: int | None = None, lines: int | None = None) -> dict[str, Any]:
        """``{"path", "text"}`` of some lines; from 1, and anything below means 1. A missing file is an error."""
        first = None if start is None else max(1, start)
        excerpt = self.memory.get(path, start=first, lines=lines if lines is None or lines > 0 else None)
        return {"path": excerpt.path, "text": excerpt.text}

    def append_memory(self, content: str, file: str = "long_term") -> str:
        """Append to a file; returns its name."""
        aliases: dict[str, dict[str, Any]] = {"long_term": {}, "daily": {"daily": True}}
        return self.memory.remember(content, **aliases.get(file, {"file": file})).path

    def append_daily_memory(self, content: str) -> str:
        """Append to today's file; returns its name."""
        return self.append_memory(content, "daily")

    def append_long_term_memory(self, content: str) -> str:
        """Append to MEMORY.md; returns its name."""
        return self.append_memory(content)

    def edit_memory(self, file: str, old: str, new: str) -> str:
        """Put ``new`` in the place of ``old``, which must stand there once; returns the file's name."""
        return self.memory.edit(file, old, new).path

    def delete_memory(self, file: str, old: str) -> str:
        """Take ``old`` out; returns the file's name."""
        return self.memory.forget(file, old).path

    def list_files(self) -> list[str]:
        """The pages of the memory, sorted."""
        return sorted(file.path for file in scan(detect(self.memory.root, "flat")).files)

    def load_session_context(self, max_tokens: int | None = None) -> dict[str, Any]:
        """``{"filesLoaded", "text", "tokenEstimate"}`` for the start of a session."""
        context = self.memory.context(max_tokens=max_tokens)
        return {"filesLoaded": list(context.files), "text": context.text, "tokenEstimate": context.tokens}

    def sync(self) -> dict[str, int]:
        """Bring the index up to date."""
        report = self.memory.sync()
        return {"added": report.added, "changed": report.changed, "removed": report.removed, "chunks": report.chunks}

    def should_run_memory_flush(self, tokens: int, window: int | None = None, already_flushed: bool = False) -> bool:
        """Whether a context of ``tokens`` is about to be compacted and was not flushed yet."""
        return not already_flushed and should_flush(tokens, window)

    def run_memory_flush(self, messages: Sequence[object], session: str | None = None) -> FlushReport:
        """Write the durable facts of a conversation into today's file."""
        return self.memory.flush(messages, kind="facts", heading="Pre-compaction memory flush", session=session)

    def close(self) -> None:
        """Close the memory."""
        if self._memory is not None:
            self._memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _hit(self, hit: Hit) -> dict[str, Any]:
        text = " ".join(hit.text.split())
        found = set(hit.trace.channels)
        try:
            changed = int((self.memory.root / hit.path).stat().st_mtime * 1000)
        except OSError:
            changed = None
        return {
            "snippet": text if len(text) <= _SNIPPET else f"{text[:_SNIPPET]}...",
            "path": hit.path,
            "startLine": hit.start_line,
            "endLine": hit.end_line,
            "score": round(hit.score, 6),
            "source": "both" if len(found) > 1 else next(iter(found), "keyword"),
            "contentSource": "sessions" if hit.kind == "session" else "memory",
            "updatedAt": changed,
            "date": hit.date,
            "heading": " > ".join(hit.heading),
        }


_TOOLS: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    "memory_search": {"query": str, "max_results": int, "min_score": (int, float), "since": str, "until": str},
    "memory_get": {"path": str, "from": int, "lines": int},
    "memory_update": {"content": str, "action": str, "file": str, "old_text": str, "new_text": str},
}
TOOL_NAMES = tuple(_TOOLS)


def call_tool(memory: DexterMemory, name: object, arguments: object) -> tuple[dict[str, Any], bool]:
    """The envelope of one of the three tools, and whether it worked. Never raises.

    ``arguments`` are an object or its JSON. Memory that is not there is no failure: searches say ``disabled``.
    """
    try:
        tool = name if isinstance(name, str) else ""
        given = _arguments(tool, arguments)
        if not memory.available:
            reason = memory.unavailable_reason
            return {"data": {"results": [], "disabled": True, "error": reason}}, tool == "memory_search"
        return {"data": _HANDLERS[tool](memory, given)}, True
    except PathError as error:
        return _error(f"outside memory directory: {error}"), False
    except (VademecumError, OSError) as error:
        return _error(str(error)), False


def _error(text: str) -> dict[str, Any]:
    return {"data": {"success": False, "error": text}}


def _arguments(name: str, arguments: object) -> dict[str, Any]:
    known = _TOOLS.get(name)
    if known is None:
        raise UsageError(f"there is no tool {name!r:.60}; there are {', '.join(TOOL_NAMES)}")
    if isinstance(arguments, (str, bytes)):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError) as error:
            raise UsageError(f"the arguments are no JSON: {error}") from None
    if not isinstance(arguments, Mapping):
        raise UsageError(f"the arguments are {shown(arguments)}: expected an object")
    given = {key: value for key, value in arguments.items() if value is not None}
    for key, value in given.items():
        if key not in known:
            raise UsageError(f"{name} takes no {key!r:.60}; it takes {', '.join(known)}")
        if not isinstance(value, known[key]) or isinstance(value, bool):
            raise UsageError(f"{name}: {key} = {shown(value)} has the wrong type")
    return given


def _search(memory: DexterMemory, given: dict[str, Any]) -> dict[str, Any]:
    if "query" not in given:
        raise UsageError("memory_search needs query")
    return {"results": memory.search(given.pop("query"), **given)}


def _get(memory: DexterMemory, given: dict[str, Any]) -> dict[str, Any]:
    if "path" not in given:
        raise UsageError("memory_get needs path")
    return memory.get(given["path"], given.get("from"), given.get("lines"))


def _update(memory: DexterMemory, given: dict[str, Any]) -> dict[str, Any]:
    action, file = given.get("action", "append"), given.get("file", "long_term")
    if action == "append":
        if not given.get("content"):
            raise UsageError("content is required for append")
        name = memory.append_memory(given["content"], file)
        message = f"Appended {len(given['content'])} characters to {name}."
    elif action == "edit":
        if not given.get("old_text") or "new_text" not in given:
            raise UsageError("old_text and new_text are required for edit")
        name = memory.edit_memory(file, given["old_text"], given["new_text"])
        message = f"Updated entry in {name}."
    elif action == "delete":
        if not given.get("old_text"):
            raise UsageError("old_text is required for delete")
        name = memory.delete_memory(file, given["old_text"])
        message = f"Removed entry from {name}."
    else:
        raise UsageError(f"action = {action!r:.60}: expected append, edit or delete")
    return {"success": True, "file": name, "message": message}


_HANDLERS: Mapping[str, Callable[[DexterMemory, dict[str, Any]], dict[str, Any]]] = {
    "memory_search": _search,
    "memory_get": _get,
    "memory_update": _update,
}
