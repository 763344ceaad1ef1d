"""The same memory for asyncio programs: each call runs in a thread, because the core is synchronous and thread-safe."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from vademecum.history import Salvaged
from vademecum.memory.aio_history import AsyncConversations
from vademecum.memory.aio_knowledge import AsyncKnowledge
from vademecum.memory.facade import Memory
from vademecum.memory.watching import Watch
from vademecum.store.prompt import Language
from vademecum.store.scan import FileStat
from vademecum.types import (
    Collected,
    Context,
    Diff,
    DreamReport,
    Edited,
    Excerpt,
    Finding,
    FlushReport,
    LogEntry,
    SearchResult,
    Status,
    SyncReport,
    WatchRound,
    Written,
)

if TYPE_CHECKING:
    from vademecum.diagnose import InspectedPage, InspectedQuery


class AsyncMemory:
    """`Memory` whose methods are awaited; arguments and errors are those of `Memory`'s methods of the same name.

    Calls may be made side by side. Use ``async with await AsyncMemory.open(...)``, or `close` it.
    """

    def __init__(self, memory: Memory) -> None:
        """Wrap an open memory; closing this closes it."""
        self.memory = memory

    @classmethod
    async def open(cls, root: str | os.PathLike[str], **options: Any) -> Self:
        """See `Memory.open`."""
        return cls(await asyncio.to_thread(Memory.open, root, **options))

    @property
    def history(self) -> AsyncConversations:
        """See `Memory.history`."""
        return AsyncConversations(self.memory.history)

    async def repair_history(self) -> Salvaged:
        """See `Memory.repair_history`."""
        return await asyncio.to_thread(self.memory.repair_history)

    @property
    def knowledge(self) -> AsyncKnowledge:
        """See `Memory.knowledge`."""
        return AsyncKnowledge(self.memory.knowledge)

    async def remember(self, text: str, **options: Any) -> Written:
        """See `Memory.remember`."""
        return await asyncio.to_thread(self.memory.remember, text, **options)

    async def edit(self, path: str, old: str, new: str, **options: Any) -> Edited:
        """See `Memory.edit`."""
        return await asyncio.to_thread(self.memory.edit, path, old, new, **options)

    async def forget(self, path: str, text: str, **options: Any) -> Edited:
        """See `Memory.forget`."""
        return await asyncio.to_thread(self.memory.forget, path, text, **options)

    async def files(self, folder: str = "") -> tuple[FileStat, ...]:
        """See `Memory.files`."""
        return await asyncio.to_thread(self.memory.files, folder)

    async def read(self, path: str) -> str:
        """See `Memory.read`."""
        return await asyncio.to_thread(self.memory.read, path)

    async def rewrite(self, path: str, change: Callable[[str | None], str]) -> Edited:
        """See `Memory.rewrite`; ``change`` is called in another thread."""
        return await asyncio.to_thread(self.memory.rewrite, path, change)

    async def move(self, moves: Mapping[str, str]) -> int | None:
        """See `Memory.move`."""
        return await asyncio.to_thread(self.memory.move, moves)

    async def remove(self, paths: Iterable[str]) -> int | None:
        """See `Memory.remove`."""
        return await asyncio.to_thread(self.memory.remove, paths)

    async def log(self, path: str | None = None) -> tuple[LogEntry, ...]:
        """See `Memory.log`."""
        return await asyncio.to_thread(self.memory.log, path)

    async def diff(self, id: int) -> Diff:
        """See `Memory.diff`."""
        return await asyncio.to_thread(self.memory.diff, id)

    async def undo(self, id: int | None = None) -> LogEntry:
        """See `Memory.undo`."""
        return await asyncio.to_thread(self.memory.undo, id)

    async def flush(self, messages: Sequence[object], **options: Any) -> FlushReport:
        """See `Memory.flush`."""
        return await asyncio.to_thread(self.memory.flush, messages, **options)

    async def dream(self, days: int | None = None, **options: Any) -> DreamReport:
        """See `Memory.dream`."""
        return await asyncio.to_thread(self.memory.dream, days, **options)

    async def flush_pending(self) -> tuple[FlushReport, ...]:
        """See `Memory.flush_pending`."""
        return await asyncio.to_thread(self.memory.flush_pending)

    async def search(self, query: str, **options: Any) -> SearchResult:
        """See `Memory.search`."""
        return await asyncio.to_thread(self.memory.search, query, **options)

    async def get(self, path: str, **options: Any) -> Excerpt:
        """See `Memory.get`."""
        return await asyncio.to_thread(self.memory.get, path, **options)

    async def pages(self) -> tuple[str, ...]:
        """See `Memory.pages`."""
        return await asyncio.to_thread(self.memory.pages)

    async def context(self, **options: Any) -> Context:
        """See `Memory.context`."""
        return await asyncio.to_thread(self.memory.context, **options)

    async def prompt(self, language: Language = "en", **options: Any) -> Context:
        """See `Memory.prompt`."""
        return await asyncio.to_thread(self.memory.prompt, language, **options)

    async def sync(self, **options: Any) -> SyncReport:
        """See `Memory.sync`."""
        return await asyncio.to_thread(self.memory.sync, **options)

    async def rebuild(self, **options: Any) -> SyncReport:
        """See `Memory.rebuild`."""
        return await asyncio.to_thread(self.memory.rebuild, **options)

    async def watch(self, told: Callable[[WatchRound], None] | None = None) -> Watch:
        """See `Memory.watch`; ``told`` is called from other threads, as there."""
        return await asyncio.to_thread(self.memory.watch, told)

    async def gc(self, **options: Any) -> Collected:
        """See `Memory.gc`."""
        return await asyncio.to_thread(self.memory.gc, **options)

    async def doctor(self, **options: Any) -> tuple[Finding, ...]:
        """See `Memory.doctor`."""
        return await asyncio.to_thread(self.memory.doctor, **options)

    async def inspect_chunks(self, path: str) -> InspectedPage:
        """See `Memory.inspect_chunks`."""
        return await asyncio.to_thread(self.memory.inspect_chunks, path)

    async def inspect_query(self, query: str, **options: Any) -> InspectedQuery:
        """See `Memory.inspect_query`."""
        return await asyncio.to_thread(self.memory.inspect_query, query, **options)

    async def status(self) -> Status:
        """See `Memory.status`."""
        return await asyncio.to_thread(self.memory.status)

    async def close(self) -> None:
        """See `Memory.close`."""
        await asyncio.to_thread(self.memory.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
