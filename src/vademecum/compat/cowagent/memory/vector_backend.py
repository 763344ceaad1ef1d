"""Where the vectors of a `MemoryStorage` are: an interface for hosts that keep them elsewhere, and SQLite."""

from __future__ import annotations

import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vademecum.errors import UsageError, shown

_FIELDS = ("id", "user_id", "scope", "source", "path")


@dataclass
class VectorRecord:
    """A vector to be kept."""

    id: str
    embedding: Sequence[float]
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class VectorMatch:
    """A vector that was found; ``score`` is the cosine."""

    id: str
    score: float
    metadata: dict[str, Any] = field(default_factory=dict)


class VectorBackend(ABC):
    """Filters are equalities of id, user_id, scope, source and path; ``scopes`` is a list of permitted scopes, and when
    searching ``user_id`` lets through what is shared as well."""

    @abstractmethod
    def upsert(self, records: Sequence[VectorRecord]) -> None:
        """Keep vectors, in the place of those with equal ids."""

    @abstractmethod
    def delete(self, ids: Sequence[str] | None = None, metadata_filter: Mapping[str, Any] | None = None) -> None:
        """Drop vectors by id, by filter, or by both."""

    @abstractmethod
    def search(
        self, embedding: Sequence[float], limit: int = 10, metadata_filter: Mapping[str, Any] | None = None
    ) -> list[VectorMatch]:
        """The nearest vectors with a positive cosine, best first."""


class SQLiteVectorBackend(VectorBackend):
    """The column ``chunks.embedding`` of a `MemoryStorage`, whose transactions it takes part in: it never commits."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn

    def upsert(self, records: Sequence[VectorRecord]) -> None:
        """See `VectorBackend`. The chunks must be there."""
        given = [(encoded(record.embedding), record.id) for record in records]
        self.conn.executemany("UPDATE chunks SET embedding = ? WHERE id = ?", given)

    def delete(self, ids: Sequence[str] | None = None, metadata_filter: Mapping[str, Any] | None = None) -> None:
        """See `VectorBackend`. The chunks stay."""
        if ids is None and not metadata_filter:
            raise UsageError("delete: give ids or a filter; without both, everything would go")
        where, values = conditions({**(metadata_filter or {}), **({} if ids is None else {"ids": list(ids)})})
        self.conn.execute(f"UPDATE chunks SET embedding = NULL WHERE {where}", values)  # noqa: S608 - our own names

    def search(
        self, embedding: Sequence[float], limit: int = 10, metadata_filter: Mapping[str, Any] | None = None
    ) -> list[VectorMatch]:
        """See `VectorBackend`. Vectors of other dimensions are passed over."""
        import numpy as np

        query = np.asarray(embedding, dtype=np.float32)
        where, values = conditions(metadata_filter or {}, searching=True)
        found = self.conn.execute(
            f"SELECT id, embedding, path, source, scope, user_id FROM chunks WHERE embedding IS NOT NULL AND {where}"  # noqa: S608
            " ORDER BY n",
            values,
        ).fetchall()
        rows = [row for row in found if len(row[1]) == query.nbytes]
        if not rows or limit <= 0 or not query.any():
            return []
        matrix = np.frombuffer(b"".join(row[1] for row in rows), dtype="<f4").reshape(len(rows), -1)
        lengths = np.linalg.norm(matrix, axis=1) * np.linalg.norm(query)
        scores = np.divide(matrix @ query, lengths, out=np.zeros(len(rows), np.float32), where=lengths > 0)
        best = np.argsort(-scores, kind="stable")[:limit]
        names = ("path", "source", "scope", "user_id")
        return [
            VectorMatch(rows[i][0], float(scores[i]), dict(zip(names, rows[i][2:], strict=True)))
            for i in best
            if scores[i] > 0
        ]


def conditions(given: Mapping[str, Any], *, searching: bool = False) -> tuple[str, list[Any]]:
    """A filter as SQL and its values. Raises UsageError for names that are none."""
    parts, values = ["1"], []
    for name, value in given.items():
        if name in ("ids", "scopes"):
            column = "id" if name == "ids" else "scope"
            parts.append(f"{column} IN ({', '.join('?' * len(value))})")
            values += list(value)
        elif name == "user_id" and searching:
            parts.append("(scope = 'shared' OR user_id = ?)")
            values.append(value)
        elif name in _FIELDS:
            parts.append(f"{name} IS ?")
            values.append(value)
        else:
            raise UsageError(f"filter {shown(name)}: expected one of {', '.join((*_FIELDS, 'scopes'))}")
    return " AND ".join(parts), values


def encoded(embedding: Sequence[float]) -> bytes:
    """A vector as it is stored: float32, little-endian."""
    import numpy as np

    return np.asarray(embedding, dtype="<f4").tobytes()


def decoded(stored: object) -> list[float] | None:
    """A stored vector; older stores hold JSON. None for what is neither."""
    import numpy as np

    if isinstance(stored, bytes) and stored and len(stored) % 4 == 0 and stored[:1] != b"[":
        return [float(value) for value in np.frombuffer(stored, dtype="<f4")]
    try:
        values = json.loads(stored) if isinstance(stored, str | bytes) else None
        return [float(value) for value in values] if isinstance(values, list) and values else None
    except (ValueError, TypeError):
        return None
