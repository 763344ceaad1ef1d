"""memweave: Markdown, SQLite, FTS5 and sqlite-vec. It gets our chunks in place of its own chunker's."""

from __future__ import annotations

import asyncio
import importlib
import sqlite3
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.peers.protocol import Given, Task, section

# Some builds of Python cannot load extensions into their own sqlite3.
REQUIRES = ("numpy", "pysqlite3", "memweave[vector]")
NEEDS = (3, 12)


class Hybrid:
    """Defaults but for the floor, which would leave hits out."""

    def __init__(self) -> None:
        if not hasattr(sqlite3.Connection, "enable_load_extension"):
            sys.modules["sqlite3"] = importlib.import_module("pysqlite3")
        from memweave import MemoryConfig, MemWeave, store
        from memweave.chunking.markdown import MarkdownChunk

        self._config, self._weave, self._chunk = MemoryConfig, MemWeave, MarkdownChunk
        store.chunk_markdown = self._sections  # the chunker is no setting
        self._loop = asyncio.new_event_loop()

    def _sections(self, content: str, **_: int) -> list[Any]:
        lines = content.split("\n")
        starts = [number for number, line in enumerate(lines) if line.startswith("## ")]
        ends = [*starts[1:], len(lines)]
        return [self._chunk(a + 1, b, "\n".join(lines[a:b])) for a, b in zip(starts, ends, strict=True)]

    def _make(self, task: Task) -> Any:
        # It looks into the folder "memory" of its workspace.
        place = task.place(self)
        place.mkdir(exist_ok=True)
        if not (place / "memory").exists():
            (place / "memory").symlink_to(task.notes, target_is_directory=True)
        return self._weave(
            self._config(workspace_dir=str(place), progress=False), embedding_provider=_Provider(Given(task))
        )

    def build(self, task: Task) -> None:
        async def run() -> None:
            memory = self._make(task)
            await memory.index()
            await memory.close()

        self._loop.run_until_complete(run())

    def open(self, task: Task) -> None:
        self._questions, self._k = task.questions(), task.k
        self._memory = self._make(task)
        self._loop.run_until_complete(self._memory.open())

    def search(self, number: int) -> Sequence[int]:
        asked = self._memory.search(self._questions[number], max_results=self._k, min_score=0.0)
        return [section(hit.snippet) for hit in self._loop.run_until_complete(asked)]


class _Provider:
    """What memweave calls an embedding provider, over given vectors."""

    def __init__(self, given: Given) -> None:
        self._given = given

    async def embed_query(self, text: str) -> list[float]:
        return list(self._given.row(text).tolist())

    async def embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._given.row(text).tolist() for text in texts]
