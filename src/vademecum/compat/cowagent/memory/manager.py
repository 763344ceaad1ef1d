"""`MemoryManager`: what an agent's host holds."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from vademecum.compat.cowagent.desk import desk_of
from vademecum.compat.cowagent.host import host
from vademecum.compat.cowagent.memory.chunker import TextChunker
from vademecum.compat.cowagent.memory.config import MemoryConfig, get_default_memory_config
from vademecum.compat.cowagent.memory.embedding.provider import EmbeddingCache
from vademecum.compat.cowagent.memory.index_view import (
    IndexView,
    chunk_name,
    result_of,
    with_metadata,
    words_only,
)
from vademecum.compat.cowagent.memory.storage import MemoryStorage, SearchResult
from vademecum.compat.cowagent.memory.summarizer import MemoryFlushManager
from vademecum.errors import PathError, UsageError, shown
from vademecum.memory import arguments
from vademecum.rank.decay import factor
from vademecum.settings import ChunkSettings, DecaySettings
from vademecum.store.files import Document
from vademecum.store.files import replace as replace_page
from vademecum.store.layout import detect, scope_of, valid_id
from vademecum.store.paths import resolve
from vademecum.store.scan import belongs
from vademecum.types import SHARED

#: How long a search may wait for changed pages and for the question's vector, in milliseconds.
_PATIENCE_MS = 10_000
_KINDS = ("memory", "daily", "knowledge")


class MemoryManager:
    """A workspace's memory. Safe to share between threads; managers of one workspace share what is open.

    Without ``embedding_provider`` it searches by words alone; assigning one later turns vectors on. Pages that changed
    on disk are noticed by every search, whoever changed them. ``_embedding_cache`` is there for hosts that look for it;
    the vectors of questions are cached by the memory itself.
    """

    def __init__(
        self, config: MemoryConfig | None = None, embedding_provider: Any = None, llm_model: Any = None
    ) -> None:
        self.config = config or get_default_memory_config()
        self.chunker = TextChunker(self.config.chunk_max_tokens, self.config.chunk_overlap_tokens)
        cut = ChunkSettings(self.config.chunk_max_tokens, self.config.chunk_overlap_tokens)
        self._desk, give_back = desk_of(self.config.workspace_root, cut)
        self._give_back = weakref.finalize(self, give_back)
        self._give_back.atexit = False  # a model may be at work, and its answer is not waited for
        self.storage: Any = IndexView(self._desk)
        self._embedding_cache = EmbeddingCache()
        self._dirty = True
        self._changing = threading.Lock()
        self._provider: Any = None
        self.embedding_provider = embedding_provider
        self.flush_manager = MemoryFlushManager(self.config.get_workspace(), llm_model)

    @property
    def embedding_provider(self) -> Any:
        """Where this manager's vectors come from; None for words alone."""
        return self._provider

    @embedding_provider.setter
    def embedding_provider(self, provider: Any) -> None:
        self._provider = provider
        self._desk.use(provider)

    # -- searching ----------------------------------------------------------------------------------------------

    async def search(
        self,
        query: str,
        user_id: str | None = None,
        max_results: int | None = None,
        min_score: float | None = None,
        include_shared: bool = True,
    ) -> list[SearchResult]:
        """The best chunks of what is shared and of what is the user's. May be awaited anywhere; it works in a thread.

        Raises UsageError for arguments that cannot be meant; an index or a model that fails is told of in the host's
        log, and what still answers, answers.
        """
        return await asyncio.to_thread(self._search, query, user_id, max_results, min_score, include_shared)

    def _search(
        self, query: str, user_id: str | None, max_results: int | None, min_score: float | None, include_shared: bool
    ) -> list[SearchResult]:
        if user_id is not None:
            valid_id(user_id)
        if "memory" not in self.config.sources or not (include_shared or user_id is not None):
            return []
        settings = self._desk.settings(self.config)
        look = self.config.sync_on_search and self.config.enable_auto_sync
        with self._desk.lend(user_id, settings if self._provider is not None else words_only(settings)) as memory:
            found = memory.search(
                query,
                max_results=max_results,
                min_score=min_score,
                kind=_KINDS,
                path=None if include_shared else f"memory/users/{user_id}/*",
                wait_ms=_PATIENCE_MS if look else 0,
            )
        notices = found.notices if look else ()
        for notice in (*notices, *filter(None, [found.disabled])):
            host().logger.warning(f"[Memory] {notice}")
        return [result_of(hit, self._desk.root) for hit in found]

    # -- writing ------------------------------------------------------------------------------------------------

    async def add_memory(
        self,
        content: str,
        user_id: str | None = None,
        scope: str = SHARED,
        source: str = "memory",
        path: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Make ``content`` a page, in the place of the one at ``path`` if there is one; it is found at once.

        ``metadata`` stands in front of it and comes back with hits. Raises UsageError and StoreError kinds.
        """
        await asyncio.to_thread(self._add, content, user_id, scope, source, path, metadata)

    def _add(
        self,
        content: str,
        user_id: str | None,
        scope: str,
        source: str,
        path: str | None,
        metadata: Mapping[str, Any] | None,
    ) -> None:
        if not arguments.text("content", content).strip():
            raise UsageError(f"content = {shown(content)}: expected a text")
        if scope not in (SHARED, "user") or (scope == "user" and user_id is None):
            raise UsageError(f"scope = {shown(scope)}: expected 'shared', or 'user' with a user_id")
        owner = valid_id(user_id) if scope == "user" else None
        folder = "memory/shared" if owner is None else f"memory/users/{owner}"
        layout = detect(self._desk.root, "workspace")
        location = resolve(layout.root, path or f"{folder}/memory_{MemoryStorage.compute_hash(content)[:8]}.md")
        if scope_of(location.path) != (SHARED if owner is None else f"user:{owner}"):
            raise PathError(f"{location.path!r}: is not where pages of scope {scope!r} are")
        if not belongs(layout, location.path):
            raise PathError(f"{location.path!r}: pages there are not indexed, so it would never be found again")
        text = with_metadata(content if content.endswith("\n") else f"{content}\n", metadata)
        replace_page(layout.root, location, Document(text), by="agent", why=f"add_memory ({source})")
        with self._desk.lend(user_id) as memory:
            memory.sync()

    async def sync(self, force: bool = False) -> None:
        """Bring the index up to the pages; ``force`` writes every row anew. What fails is told of in the host's log."""
        await asyncio.to_thread(self._sync, force)

    def _sync(self, force: bool) -> None:
        with self._changing:
            self._dirty = False  # whoever marks it from now on may mean a page that was read already
            with self._desk.lend() as memory:
                report = memory.rebuild() if force else memory.sync()
            for path, reason in report.failed:
                self._dirty = True
                host().logger.warning(f"[Memory] {path}: {reason}")

    def flush_memory(
        self,
        messages: Sequence[Any],
        user_id: str | None = None,
        reason: str = "threshold",
        max_messages: int = 10,
        context_summary_callback: Callable[[str], object] | None = None,
    ) -> bool:
        """See `MemoryFlushManager.flush_from_messages`. What it writes is found as soon as it is written."""
        return self.flush_manager.flush_from_messages(messages, user_id, reason, max_messages, context_summary_callback)

    def mark_dirty(self) -> None:
        """Say that pages have changed. Searches find that out by themselves."""
        self._dirty = True

    # -- state --------------------------------------------------------------------------------------------------

    def get_status(self) -> dict[str, Any]:
        """How much is indexed, and how it is searched."""
        provider = self._provider
        vectors = provider is not None
        with self._desk.lend() as memory:
            status = memory.status()
        stats = self.storage.get_stats()
        return {
            "chunks": stats["chunks"],
            "files": stats["files"],
            "workspace": str(self._desk.root),
            "dirty": self._dirty or status.pending > 0,
            "embedding_enabled": vectors,
            "embedding_provider": type(provider).__name__ if vectors else "disabled",
            "embedding_model": str(getattr(provider, "model", "")) if vectors else "N/A",
            "search_mode": "hybrid (vector + keyword)" if vectors else "keyword only (FTS5)",
            "notices": list(status.notices),
        }

    def close(self) -> None:
        """Let go of the workspace; the last of its managers closes it, after what is at work in it has ended."""
        self.storage.close()
        self.flush_manager.close()
        self._give_back()

    # -- what hosts and their tests reach for ---------------------------------------------------------------------

    def _generate_chunk_id(self, path: str, start_line: int, end_line: int, text: str = "") -> str:
        return chunk_name(path, start_line, end_line, text)

    @staticmethod
    def _compute_temporal_decay(path: str, half_life_days: float = 30.0) -> float:
        """The factor for the age of a page: 1 unless it is a daily one of the past."""
        place = detect(host().folder(host().workspace()), "workspace").classify(path)
        day = place.date if place.kind == "daily" else None
        return factor(day, datetime.now().astimezone().date(), DecaySettings(half_life_days=half_life_days))

    def _merge_results(
        self,
        vector_results: Sequence[SearchResult],
        keyword_results: Sequence[SearchResult],
        vector_weight: float,
        keyword_weight: float,
    ) -> list[SearchResult]:
        """One list, best first. A channel that found nothing has no weight, and no place counts twice."""
        weights = (vector_weight if vector_results else 0.0, keyword_weight if keyword_results else 0.0)
        total = sum(weights)
        merged: dict[tuple[str, int, int], SearchResult] = {}
        for weight, results in zip(weights, (vector_results, keyword_results), strict=True):
            for result in results:
                key = (result.path, result.start_line, result.end_line)
                share = result.score * weight / total * self._compute_temporal_decay(result.path) if total else 0.0
                known = merged.get(key, replace(result, score=0.0))
                merged[key] = replace(known, score=known.score + share)
        return sorted(merged.values(), key=lambda result: -result.score)
