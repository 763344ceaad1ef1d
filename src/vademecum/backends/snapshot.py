"""Reads of the embedded index, all within one transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from vademecum.index import keyword, rows, schema
from vademecum.index.conditions import to_sql
from vademecum.sqlite import Connection
from vademecum.types import ChunkRow, Condition, Frequencies, Lane, Scored, Where
from vademecum.vectors import calibration, store
from vademecum.vectors.allowed import Allowed
from vademecum.vectors.exact import ExactSearch
from vademecum.vectors.graph_search import GraphSearch
from vademecum.vectors.graphs import Graphs
from vademecum.vectors.mapped import VectorMap

if TYPE_CHECKING:
    from vademecum.types import Vector


class EmbeddedReader:
    """An `IndexReader` over one connection inside a read transaction."""

    def __init__(self, connection: Connection, vector_map: VectorMap, graphs: Graphs) -> None:
        self._connection = connection
        self._exact = ExactSearch(connection, vector_map)
        self._nearest = GraphSearch(connection, self._exact, graphs)
        # Reading pins each file: the index first, so that no chunk refers to a vector of a later time.
        self._generation = schema.counter(connection, "generation")
        self._uid = store.read_uid(connection)

    def generation(self) -> int:
        """Grows with every committed change of sources."""
        return self._generation

    def lanes(self) -> Sequence[Lane]:
        """All lanes in order of creation."""
        return self._connection.noted(("vectors",), "lanes", lambda: store.load_lanes(self._connection))

    def vector_state(self, lane: Lane) -> str:  # noqa: ARG002 - the port asks per lane
        """ "ok", or why this index's text ids mean nothing in this vectors file."""
        expected = self._connection.noted(("main",), "vectors uid", lambda: schema.vectors_uid(self._connection))
        if expected != self._uid:
            return "off: vectors.sqlite was replaced while the index was open; open the memory again"
        return "ok"

    def notes(self) -> Mapping[str, str]:
        """``vectors``: "ann" if a graph answered the last search; else "map" if the last vector read took the mapped
        file, or "select"; absent if there was none."""
        way = "ann" if self._nearest.used else self._exact.way
        return {} if way is None else {"vectors": way}

    def search_keyword(self, terms: Sequence[str], k: int, where: Where) -> Sequence[Scored]:
        """The k best chunks that contain at least one term, by BM25, ties by id."""
        return keyword.search(self._connection, terms, k, self._needed(where))

    def search_vector(self, lane: Lane, query: Vector, k: int, where: Where) -> Sequence[Scored]:
        """The k best chunks by cosine, ties by id."""
        if k <= 0:
            return []
        condition, parameters = to_sql(self._needed(where))
        allowed = Allowed(
            self._connection,
            f"SELECT c.text_id FROM chunks c WHERE {condition} AND c.text_id IS NOT NULL",  # noqa: S608
            # Without a hint the planner takes the index of the filter, and reads most of it.
            "SELECT c.id, c.text_id FROM json_each(?) j CROSS JOIN chunks c INDEXED BY chunks_text"  # noqa: S608
            f" ON c.text_id = j.value WHERE {condition}",
            tuple(parameters),
        )
        texts = dict(self._nearest.top_texts(lane, query, k, allowed))
        # Two users can share a text: the filter acts on its chunks.
        used = allowed.chunks(texts)
        scored = [Scored(chunk_id, texts[text_id]) for text_id, chunks in used.items() for chunk_id in chunks]
        scored.sort(key=lambda hit: (-hit.score, hit.id))
        return scored[:k]

    def score_vectors(self, lane: Lane, ids: Sequence[int], query: Vector) -> Mapping[int, float]:
        """Cosine of the given chunks; chunks without a vector are left out."""
        texts = self._connection.execute(
            "SELECT c.id, c.text_id FROM json_each(?) j CROSS JOIN chunks c ON c.id = j.value"
            " WHERE c.text_id IS NOT NULL",
            (json.dumps([*ids]),),
        ).fetchall()
        cosines = self._exact.score_texts(lane, sorted({text_id for _, text_id in texts}), query)
        return {chunk_id: cosines[text_id] for chunk_id, text_id in texts if text_id in cosines}

    def typical_cosine(self, lane: Lane, query: Vector) -> float | None:
        """The median cosine of the query with texts of the lane, as good as random; None while the lane has few."""
        ids = self._connection.noted(
            ["vectors"], ("strangers", lane.id), lambda: calibration.strangers(self._connection, lane)
        )
        return median(self._exact.score_texts(lane, ids, query).values()) if ids else None

    def document_frequencies(self, terms: Sequence[str], where: Where) -> Frequencies:
        """How many of the chunks that meet ``where`` contain each term, and how many there are."""
        return keyword.document_frequencies(self._connection, terms, self._needed(where))

    def get(self, ids: Sequence[int]) -> Sequence[ChunkRow]:
        """The rows in the order of ``ids``; ids that do not exist are left out."""
        return rows.load_chunks(self._connection, ids)

    def vectors_of(self, lane: Lane, ids: Sequence[int]) -> Mapping[int, Vector]:
        """The vectors of the given chunks; chunks without one are left out."""
        import numpy as np

        found = self._connection.execute(
            f"SELECT c.id, v.vec FROM json_each(?) j CROSS JOIN chunks c ON c.id = j.value"  # noqa: S608 - a number
            f" JOIN vectors.v{lane.id:d} v ON v.id = c.text_id",
            (json.dumps([*ids]),),
        )
        return {chunk_id: np.frombuffer(vector, dtype="<f4") for chunk_id, vector in found}

    def held(self, ids: Sequence[int], terms: Sequence[str]) -> Mapping[int, bytes]:
        """For each chunk that exists a byte for each term: how often text and heading hold it, 255 at most."""
        return keyword.held(self._connection, ids, terms)

    def of_source(self, path: str) -> Sequence[ChunkRow]:
        """All rows of one source, in the order of its lines."""
        return rows.load_chunks(self._connection, rows.chunks_of(self._connection, path))

    def permitted(self, ids: Sequence[int], where: Where) -> frozenset[int]:
        """Those of the given chunks that meet ``where``."""
        condition, parameters = to_sql(where)
        found = self._connection.execute(
            f"SELECT c.id FROM chunks c WHERE c.id IN (SELECT value FROM json_each(?)) AND {condition}",  # noqa: S608
            (json.dumps(list(ids)), *parameters),
        )
        return frozenset(chunk_id for (chunk_id,) in found)

    def _needed(self, where: Where) -> Where:
        """``where`` without a scope condition that every row meets.

        Most memories have one scope only, and the condition would cost a look at each matching row.
        """
        idle: dict[Condition, bool] = self._connection.noted(("main",), "idle", dict)
        for condition in where:
            if condition not in idle:
                idle[condition] = self._is_idle(condition)
        return tuple(condition for condition in where if not idle[condition])

    def _is_idle(self, condition: Condition) -> bool:
        if condition.field != "scope" or condition.op != "in":
            return False
        scope = ""
        while row := self._connection.execute("SELECT min(scope) FROM chunks WHERE scope > ?", (scope,)).fetchone():
            (scope,) = row
            if scope is None:
                return True
            if scope not in condition.value:
                return False
        return True
