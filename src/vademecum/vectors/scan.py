"""Exact top-k over a lane's rows, read through SQL in slices."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vademecum.types import Lane

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vademecum.types import Vector

#: Rows in memory at a time; more than a processor's cache holds would be slower.
_SLICE = 256


def top_texts(
    connection: sqlite3.Connection, lane: Lane, query: Vector, k: int, allowed: str, parameters: Sequence[str]
) -> list[tuple[int, float]]:
    """The k text ids with the highest cosine, best first, ties by id.

    ``allowed`` is a SELECT of the text ids that may be found; filters act before ranking, never after.
    """
    import numpy as np

    from vademecum import kernels

    cursor = connection.execute(
        f"SELECT id, vec FROM vectors.v{lane.id:d} WHERE id IN ({allowed}) ORDER BY id",  # noqa: S608
        parameters,
    )
    best_ids = np.empty(0, np.int64)
    best_scores = np.empty(0, np.float32)
    while rows := cursor.fetchmany(_SLICE):
        ids, matrix = as_matrix(rows, lane.dims)
        indices, scores = kernels.top_k(matrix, query[None, :], k)
        found = indices[0] >= 0
        best_ids = np.concatenate([best_ids, ids[indices[0][found]]])
        best_scores = np.concatenate([best_scores, scores[0][found]])
        order = np.lexsort((best_ids, -best_scores))[:k]
        best_ids, best_scores = best_ids[order], best_scores[order]
    return list(zip(best_ids.tolist(), best_scores.tolist(), strict=True))


def score_texts(connection: sqlite3.Connection, lane: Lane, text_ids: Sequence[int], query: Vector) -> dict[int, float]:
    """Cosine of the given texts; those without a vector are left out."""
    from vademecum import kernels

    if not text_ids:
        return {}
    rows = connection.execute(
        f"SELECT id, vec FROM vectors.v{lane.id:d} WHERE id IN ({', '.join('?' * len(text_ids))})",  # noqa: S608
        list(text_ids),
    ).fetchall()
    if not rows:
        return {}
    ids, matrix = as_matrix(rows, lane.dims)
    return dict(zip(ids.tolist(), kernels.scores(matrix, query).tolist(), strict=True))


def as_matrix(rows: Sequence[tuple[int, bytes]], dims: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Rows of (id, vec) as ids (n,) and vectors (n, dims)."""
    import numpy as np

    ids = np.array([text_id for text_id, _ in rows], np.int64)
    return ids, np.frombuffer(b"".join(blob for _, blob in rows), "<f4").reshape(len(ids), dims)
