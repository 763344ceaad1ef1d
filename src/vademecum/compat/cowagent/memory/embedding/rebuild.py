"""Building a workspace's index anew."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from vademecum.compat.cowagent.memory.storage import MemoryStorage

_OLD_STATE = "embedding_state.json"


class _Holder(Protocol):
    def vector_dims(self) -> int | None: ...


@dataclass
class RebuildResult:
    """What came of it. ``removed`` chunks were there before, ``chunks`` and ``files`` are there now."""

    ok: bool
    removed: int = 0
    chunks: int = 0
    files: int = 0
    error: str | None = None


def clear_index(db_path: str | Path, storage: MemoryStorage | None = None) -> int:
    """Drop the chunks of a `MemoryStorage`; returns how many there were. Sessions and pages are not touched."""
    held = storage or MemoryStorage(db_path)
    try:
        removed = held.clear()
    finally:
        if storage is None:
            held.close()
    cleanup_legacy_state_file(db_path)
    return removed


def rebuild_in_process(memory_manager: Any) -> RebuildResult:
    """Write every row of the workspace's index anew from its pages; searches are answered meanwhile.

    Nothing is cleared first, and vectors of the model in use are kept: a failure costs nothing. Without a provider, or
    when it cannot be reached, the result says so.
    """
    provider = getattr(memory_manager, "embedding_provider", None)
    if memory_manager is None or provider is None:
        what = "memory_manager is None" if memory_manager is None else "embedding_provider is not initialized"
        return RebuildResult(False, error=what)
    before = memory_manager.storage.get_stats()
    try:
        provider.embed_query("ping")
    except Exception as error:  # whatever a host's own provider raises
        return RebuildResult(
            False, chunks=before["chunks"], files=before["files"], error=f"embedding endpoint not reachable: {error}"
        )
    try:
        _waited(memory_manager.sync(force=True))
    except Exception as error:  # a manager of the host's own
        return RebuildResult(False, removed=before["chunks"], error=f"sync failed: {error}")
    now = memory_manager.storage.get_stats()
    failed = "no chunk has a vector; check provider, model and key" if now["chunks"] and not now["embedded"] else None
    return RebuildResult(failed is None, before["chunks"], now["chunks"], now["files"], failed)


def detect_index_dim(storage: _Holder) -> int | None:
    """How many numbers the stored vectors have; None if there are none."""
    return storage.vector_dims()


def cleanup_legacy_state_file(db_path: str | Path) -> None:
    """Remove the state file that old versions of CowAgent left beside their index."""
    Path(db_path).with_name(_OLD_STATE).unlink(missing_ok=True)


def _waited(work: Coroutine[Any, Any, Any]) -> None:
    """Run to its end, whether or not an event loop runs in this thread."""
    failure: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work)
        except BaseException as error:  # carried over to the caller
            failure.append(error)

    thread = threading.Thread(target=run, name="vademecum-rebuild")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
