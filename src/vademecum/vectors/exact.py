"""Exact search over one lane, by the shortest way there is: the mapped file, else SELECT. Both give equal results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from vademecum.sqlite import Connection
from vademecum.types import Lane
from vademecum.vectors import scan
from vademecum.vectors.mapped import MappedLane, VectorMap

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vademecum.types import Vector

Way = Literal["map", "select"]


class ExactSearch:
    """Reads of one snapshot. ``way`` is how the last of them was made, None before the first."""

    def __init__(self, connection: Connection, vector_map: VectorMap) -> None:
        self._connection = connection
        self._map = vector_map
        self.way: Way | None = None

    def top_texts(
        self, lane: Lane, query: Vector, k: int, allowed: str, parameters: Sequence[str]
    ) -> list[tuple[int, float]]:
        """The k text ids with the highest cosine, best first, ties by id.

        ``allowed`` is a SELECT of the text ids that may be found; filters act before ranking, never after.
        """
        mapped = self._mapped(lane)
        if mapped is None:
            return scan.top_texts(self._connection, lane, query, k, allowed, parameters)
        chosen = self._connection.noted(
            ["main", "vectors"],
            ("chosen", lane.id, allowed, *parameters),
            lambda: mapped.among(self.allowed(allowed, parameters)),
        )
        return mapped.top(chosen, lane.dims, query, k)

    def score_texts(self, lane: Lane, text_ids: Sequence[int], query: Vector) -> dict[int, float]:
        """Cosine of the given texts; those without a vector are left out."""
        mapped = self._mapped(lane)
        if mapped is None:
            return scan.score_texts(self._connection, lane, text_ids, query)
        import numpy as np

        from vademecum import kernels

        wanted = mapped.among(np.array(text_ids, np.int64))
        scores = kernels.scores_at(mapped.base, wanted.rows, lane.dims, query)
        return dict(zip(wanted.ids.tolist(), scores.tolist(), strict=True))

    def _mapped(self, lane: Lane) -> MappedLane | None:
        mapped = self._map.lane(self._connection, lane)
        self.way = "select" if mapped is None else "map"
        return mapped

    def allowed(self, allowed: str, parameters: Sequence[str]) -> NDArray[np.int64]:
        """The text ids that a SELECT of them gives, ascending."""
        import numpy as np

        found = self._connection.execute(f"SELECT DISTINCT text_id FROM ({allowed}) ORDER BY text_id", parameters)  # noqa: S608
        return np.fromiter((text_id for (text_id,) in found), np.int64)
