"""What one would write without any library: a matrix product, a partition, a sort of what is left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.peers.protocol import Task

REQUIRES = ("numpy",)
NEEDS = (3, 11)


class Matmul:
    """All vectors in memory."""

    def build(self, task: Task) -> None:
        """Nothing is kept: the rows are loaded as they are."""

    def open(self, task: Task) -> None:
        self._rows, self._queries, self._k = task.rows(), task.queries(), task.k

    def search(self, number: int) -> Sequence[int]:
        scores = self._rows @ self._queries[number]
        best = np.argpartition(-scores, self._k)[: self._k]
        return list(best[np.argsort(-scores[best], kind="stable")].tolist())
