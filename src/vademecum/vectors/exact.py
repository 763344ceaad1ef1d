"""Exact search over one lane, by the shortest way there is: the mapped file, else SELECT. Both give equal results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from vademecum.sqlite import Connection
from vademecum.types import Lane
from vademecum.vectors import scan
from vademecum.vectors.allowed import Allowed
from vademecum.vectors.mapped import MappedLane, MappedRows, VectorMap

if TYPE_CHECKING:
    from vademecum.types import Vector

Way = Literal["map", "select"]

#: How many times as many as wanted are looked at before all that is allowed is listed.
_DEEPER = 4


class ExactSearch:
    """Reads of one snapshot. ``way`` is how the last of them was made, None before the first."""

    def __init__(self, connection: Connection, vector_map: VectorMap) -> None:
        self._connection = connection
        self._map = vector_map
        self._lanes: dict[int, MappedLane | None] = {}
        self.way: Way | None = None

    def mapped(self, lane: Lane) -> MappedLane | None:
        """The lane where it lies in the mapped file; None if it has to be read by SELECT now."""
        if lane.id not in self._lanes:
            self._lanes[lane.id] = self._map.lane(self._connection, lane)
        return self._lanes[lane.id]

    def top_texts(self, lane: Lane, query: Vector, k: int, allowed: Allowed) -> list[tuple[int, float]]:
        """The k allowed text ids with the highest cosine, best first, ties by id."""
        mapped = self.mapped(lane)
        found = None if mapped is None else self._top_mapped(mapped, lane, query, k, allowed)
        self.way = "select" if found is None else "map"
        if found is None:
            return scan.top_texts(self._connection, lane, query, k, allowed.every, allowed.parameters)
        return found

    def score_texts(self, lane: Lane, text_ids: Sequence[int], query: Vector) -> dict[int, float]:
        """Cosine of the given texts; those without a vector are left out."""
        mapped = self.mapped(lane)
        scores = None if mapped is None else mapped.scores(text_ids, query)
        self.way = "select" if scores is None else "map"
        return scan.score_texts(self._connection, lane, text_ids, query) if scores is None else scores

    def _top_mapped(
        self, mapped: MappedLane, lane: Lane, query: Vector, k: int, allowed: Allowed
    ) -> list[tuple[int, float]] | None:
        def listed() -> MappedRows:
            return mapped.among(allowed.ids())

        files, key = ("main", "vectors"), ("listed", lane.id, allowed.every, allowed.parameters)
        if self._connection.noted(files, key, lambda: None) is None:
            # To list all that is allowed takes several times as long as a search, and most of the best are, as a rule.
            for depth in (k, _DEEPER * k):
                best = mapped.top(mapped.every, query, depth)
                if best is None:
                    return None
                used = allowed.chunks(text_id for text_id, _ in best)
                found = [hit for hit in best if hit[0] in used]
                if len(found) >= k or len(best) < depth:
                    return found[:k]
        return mapped.top(self._connection.noted(files, key, listed), query, k)
