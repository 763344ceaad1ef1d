"""faiss-cpu: `IndexFlatIP`, exact; it has no other list than ours but for ties."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from benchmarks.peers.protocol import Task

REQUIRES = ("numpy", "faiss-cpu")
NEEDS = (3, 11)


class Flat:
    """Opened with `faiss.read_index`."""

    def __init__(self) -> None:
        import faiss

        self._faiss = faiss
        faiss.omp_set_num_threads(1)

    def _path(self, task: Task) -> Path:
        return task.place(self).with_suffix(".index")

    def build(self, task: Task) -> None:
        rows = task.rows()
        index = self._faiss.IndexFlatIP(rows.shape[1])
        index.add(rows)
        self._faiss.write_index(index, str(self._path(task)))

    def open(self, task: Task) -> None:
        self._queries, self._k = task.queries(), task.k
        self._index = self._faiss.read_index(str(self._path(task)))

    def search(self, number: int) -> Sequence[int]:
        _, found = self._index.search(self._queries[number : number + 1], self._k)
        return list(found[0].tolist())


class FromBlobs(Flat):
    """Opened as a program must whose vectors are BLOBs in SQLite: read them, join them, add them."""

    def build(self, task: Task) -> None:
        """Nothing is kept: the BLOBs are those of our own file."""

    def open(self, task: Task) -> None:
        self._queries, self._k = task.queries(), task.k
        with closing(sqlite3.connect(task.folder / "ours" / "vectors.sqlite")) as connection:
            blobs = [blob for (blob,) in connection.execute("SELECT vec FROM v1 ORDER BY id")]
        rows = np.frombuffer(b"".join(blobs), "<f4").reshape(len(blobs), -1)
        self._index = self._faiss.IndexFlatIP(rows.shape[1])
        self._index.add(rows)
