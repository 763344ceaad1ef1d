"""usearch: exact search over a matrix."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.peers.protocol import Task

REQUIRES = ("numpy", "usearch")
NEEDS = (3, 11)


class Exact:
    """All vectors in memory."""

    def __init__(self) -> None:
        from usearch import index

        self._library = index

    def build(self, task: Task) -> None:
        """Nothing is kept: the rows are loaded as they are."""

    def open(self, task: Task) -> None:
        self._rows, self._queries, self._k = task.rows(), task.queries(), task.k

    def search(self, number: int) -> Sequence[int]:
        matches = self._library.search(
            self._rows, self._queries[number], self._k, self._library.MetricKind.IP, exact=True, threads=1
        )
        return list(matches.keys.tolist())
