"""Search by a lane's graph where there is one, else by the exact scan. Scores and their order are exact either way."""

from __future__ import annotations

import json
from math import ceil, sqrt
from typing import TYPE_CHECKING

from vademecum.sqlite import Connection
from vademecum.types import Lane
from vademecum.vectors import scan
from vademecum.vectors.allowed import Allowed
from vademecum.vectors.exact import ExactSearch
from vademecum.vectors.graph_trial import NEAREST
from vademecum.vectors.graphs import Graphs
from vademecum.vectors.hnsw import Graph
from vademecum.vectors.mapped import MappedLane, MappedRows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vademecum.types import Vector

#: Below this share of a graph's rows, or this many times the rows wanted, a filter is too narrow for the graph.
_SHARE, _TIMES = 0.2, 10
#: More candidates than these cost more than they save.
_MOST = 8192
#: A graph is compared with its lane when a search without a filter may find only this share of its rows.
_ALIVE = 0.8


class GraphSearch:
    """Reads of one snapshot. ``used`` is whether the last search was answered by a graph."""

    def __init__(self, connection: Connection, exact: ExactSearch, graphs: Graphs) -> None:
        self._connection = connection
        self._exact = exact
        self._graphs = graphs
        self.used = False

    def top_texts(self, lane: Lane, query: Vector, k: int, allowed: Allowed) -> list[tuple[int, float]]:
        """The k text ids with the highest cosine, best first, ties by id; see `ExactSearch.top_texts`.

        By a graph, the share of them that was measured when it was built. Rows that the graph does not hold yet are
        scanned, so that none is missed for being new.
        """
        found = self._by_graph(lane, query, k, allowed)
        self.used = found is not None
        return self._exact.top_texts(lane, query, k, allowed) if found is None else found

    def _by_graph(self, lane: Lane, query: Vector, k: int, allowed: Allowed) -> list[tuple[int, float]] | None:
        (highest,) = self._connection.execute(f"SELECT max(id) FROM vectors.c{lane.id:d}").fetchone()  # noqa: S608
        if not self._graphs.possible(highest or 0):
            return None
        permitted = self._connection.noted(
            ["main", "vectors"],
            ("permitted", allowed.every, allowed.parameters),
            lambda: _Permitted(allowed.ids()),
        )
        serving = self._graphs.serving(lane)
        if serving is None:
            if len(permitted.ids) > self._graphs.threshold:
                self._graphs.review(lane)
            return None
        graph, card = serving
        held = permitted.held_by(graph)
        rows = len(graph.ids)
        if len(permitted.others):
            self._graphs.extend(lane, permitted.others)
        if not allowed.parameters and held < _ALIVE * rows:
            self._graphs.review(lane)
        if held < max(_SHARE * rows, _TIMES * k):
            return None
        # So deep among all rows lie the k that are permitted. Recall is kept where ef grows with the root of the depth:
        # of 100,000 × 384 clustered rows, .993 for k = 10, .993 for 24, .989 for 100.
        depth = max(NEAREST, k * rows / held)
        count = ceil(max(card.ef * sqrt(depth / NEAREST), 2 * depth))
        if count > _MOST:
            return None
        near = permitted.among(graph.nearest(query, count))
        if len(near) < k:
            return None
        scores = self._exact.score_texts(lane, near.tolist(), query)
        scores.update(self._top_others(lane, query, k, permitted))
        return sorted(scores.items(), key=lambda hit: (-hit[1], hit[0]))[:k]

    def _top_others(self, lane: Lane, query: Vector, k: int, permitted: _Permitted) -> list[tuple[int, float]]:
        if not len(permitted.others):
            return []
        mapped = self._exact.mapped(lane)
        found = None if mapped is None else mapped.top(permitted.others_in(mapped), query, k)
        if found is None:
            listed = json.dumps(permitted.others.tolist())
            return scan.top_texts(self._connection, lane, query, k, "SELECT value FROM json_each(?)", [listed])
        return found


class _Permitted:
    """The texts that a filter permits, and those of them that a graph does not hold (``others``), ascending."""

    def __init__(self, ids: NDArray[np.int64]) -> None:
        self.ids = self.others = ids
        self._graph_ids: NDArray[np.int64] | None = None
        self._rows: MappedRows | None = None

    def held_by(self, graph: Graph) -> int:
        """How many of them the graph holds."""
        import numpy as np

        if self._graph_ids is not graph.ids:
            self._graph_ids = graph.ids
            self._rows = None
            self.others = self.ids[~np.isin(self.ids, self._graph_ids, assume_unique=True)]
        return len(self.ids) - len(self.others)

    def others_in(self, mapped: MappedLane) -> MappedRows:
        """The others' rows. The lane is always as it was when this was made: see `Connection.noted`."""
        if self._rows is None:
            self._rows = mapped.among(self.others)
        return self._rows

    def among(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of ``ids`` that are permitted."""
        import numpy as np

        place = np.minimum(np.searchsorted(self.ids, ids), max(0, len(self.ids) - 1))
        permitted: NDArray[np.int64] = ids[self.ids[place] == ids]
        return permitted
