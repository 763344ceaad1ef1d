"""How much of the truth a graph finds: measured on the rows it was made of, while it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.vectors.hnsw import Graph

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vademecum.types import Matrix

#: Questions asked, and how many of the nearest rows count.
QUESTIONS, NEAREST = 200, 10
#: How many rows a search keeps in view to find ten (HNSW's ef), tried in turn.
EFS = (50, 70, 100, 140, 200, 280, 400, 560, 800)


class Trial:
    """Questions near a store's own rows, and the exact answers among the rows seen so far.

    A row itself would be too easy a question: the search ends at its node, whose links are the answer. Each is moved by
    a step of its own length in a random direction, to a cosine of 0.7 with what it was; on clustered data the recall
    of such questions is that of paraphrases and of new texts, or a little lower.
    """

    def __init__(self, rows: Matrix) -> None:
        """``rows``: float32 (n, dims), unit length."""
        import numpy as np

        steps = np.random.default_rng(len(rows)).standard_normal(rows.shape)
        moved = rows + steps / np.linalg.norm(steps, axis=1, keepdims=True)
        self._questions = np.ascontiguousarray(moved / np.linalg.norm(moved, axis=1, keepdims=True), np.float32)
        self._ids = np.empty((len(rows), 0), np.int64)
        self._scores = np.empty((len(rows), 0), np.float32)

    def see(self, ids: NDArray[np.int64], rows: Matrix) -> None:
        """Let more rows take part in the answers."""
        import numpy as np

        from vademecum import kernels

        places, scores = kernels.top_k(rows, self._questions, NEAREST)
        every_id = np.hstack([self._ids, ids[places]])
        every_score = np.hstack([self._scores, scores])
        best = np.argsort(-every_score, axis=1, kind="stable")[:, :NEAREST]
        self._ids = np.take_along_axis(every_id, best, axis=1)
        self._scores = np.take_along_axis(every_score, best, axis=1)

    def recall(self, graph: Graph, ef: int) -> float:
        """The share of the exact answers that the graph finds."""
        import numpy as np

        pairs = zip(self._questions, self._ids, strict=True)
        found = [np.isin(ids, graph.nearest(question, ef)).mean() for question, ids in pairs]
        return float(np.mean(found))

    def least_ef(self, graph: Graph, recall: float) -> tuple[int, float]:
        """The least ef that finds this share, or else the greatest; and the share that it finds."""
        for ef in EFS:
            found = self.recall(graph, ef)
            if found >= recall:
                break
        return ef, found
