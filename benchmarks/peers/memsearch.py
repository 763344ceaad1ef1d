"""memsearch: Markdown and Milvus Lite."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from benchmarks.peers.protocol import Given, Task, section

REQUIRES = ("numpy", "memsearch")
NEEDS = (3, 11)


class Hybrid:
    """Defaults. Built, closed and opened again: right after loading Milvus Lite is several times slower."""

    def __init__(self) -> None:
        from memsearch import chunker, core

        self._chunk, self._core = chunker.chunk_markdown, core
        self._loop = asyncio.new_event_loop()

    def _make(self, task: Task) -> Any:
        provider = _Provider(Given(task), task.dims)
        self._core.get_provider = lambda *_, **__: provider  # an embedder of one's own is no setting
        return self._core.MemSearch([str(task.notes)], milvus_uri=str(task.place(self) / "milvus.db"))

    def build(self, task: Task) -> None:
        # What `index` does, without a commit and a search for old chunks per file, which take it many minutes.
        memory = self._make(task)
        memory._store._ensure_collection_for_write()
        chunks = [
            chunk
            for path in sorted(task.notes.glob("*.md"))
            for chunk in self._chunk(path.read_text(encoding="utf-8"), source=str(path))
        ]
        self._loop.run_until_complete(memory._embed_and_store(chunks))
        memory.close()

    def open(self, task: Task) -> None:
        self._questions, self._k = task.questions(), task.k
        self._memory = self._make(task)

    def search(self, number: int) -> Sequence[int]:
        asked = self._memory.search(self._questions[number], top_k=self._k)
        return [section(hit["content"]) for hit in self._loop.run_until_complete(asked)]


class _Provider:
    """What memsearch calls an embedding provider, over given vectors."""

    model_name, batch_size = "given", 1024

    def __init__(self, given: Given, dims: int) -> None:
        self._given, self.dimension = given, dims

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._given.row(text).tolist() for text in texts]
