"""hnswlib: an approximate graph. Install it with HNSWLIB_NO_NATIVE=1, or it compiles for this processor alone."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.peers.protocol import Task

REQUIRES = ("numpy", "hnswlib")
NEEDS = (3, 11)
_LINKS, _EF_BUILD, _EF = 16, 200, 200


class Graph:
    """M = 16, 200 candidates while building and searching; built with every core, asked with one."""

    def __init__(self) -> None:
        import hnswlib

        self._library = hnswlib

    def build(self, task: Task) -> None:
        rows = task.rows()
        index = self._library.Index(space="ip", dim=rows.shape[1])
        index.init_index(max_elements=len(rows), M=_LINKS, ef_construction=_EF_BUILD)
        index.add_items(rows)
        index.save_index(str(task.place(self)))

    def open(self, task: Task) -> None:
        self._queries, self._k = task.queries(), task.k
        self._index = self._library.Index(space="ip", dim=self._queries.shape[1])
        self._index.load_index(str(task.place(self)))
        self._index.set_ef(_EF)

    def search(self, number: int) -> Sequence[int]:
        found, _ = self._index.knn_query(self._queries[number : number + 1], k=self._k, num_threads=1)
        return list(found[0].tolist())
