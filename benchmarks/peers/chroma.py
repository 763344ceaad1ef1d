"""chromadb, embedded and persistent: an approximate graph beside SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.peers.protocol import Task

REQUIRES = ("numpy", "chromadb")
NEEDS = (3, 11)


class Collection:
    """The defaults but for the metric."""

    def __init__(self) -> None:
        import chromadb
        from chromadb.config import Settings

        self._library, self._settings = chromadb, Settings(anonymized_telemetry=False)

    def _client(self, task: Task) -> Any:
        return self._library.PersistentClient(str(task.place(self)), settings=self._settings)

    def build(self, task: Task) -> None:
        client, rows = self._client(task), task.rows()
        collection = client.create_collection("rows", configuration={"hnsw": {"space": "ip"}}, embedding_function=None)
        batch = client.get_max_batch_size()
        for start in range(0, len(rows), batch):
            part = rows[start : start + batch]
            collection.add(ids=[str(number) for number in range(start, start + len(part))], embeddings=part)

    def open(self, task: Task) -> None:
        self._queries, self._k = task.queries(), task.k
        self._collection = self._client(task).get_collection("rows", embedding_function=None)

    def search(self, number: int) -> Sequence[int]:
        found = self._collection.query(self._queries[number : number + 1], n_results=self._k, include=[])
        return [int(name) for name in found["ids"][0]]
