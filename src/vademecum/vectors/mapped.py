"""A lane's rows where they lie: in the memory-mapped database file.

The map shows the file, not the write-ahead log. It is used only inside a read transaction of the connection that
asks, and only after a checkpoint by a second connection has found the whole log moved into the file. While that
transaction lasts, no checkpoint can pass its mark, so the file holds exactly the transaction's snapshot and stays as
it is (DESIGN 6). In any other case the caller reads by SELECT.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vademecum.errors import IndexCorruptError
from vademecum.sqlite import Connection
from vademecum.types import Lane
from vademecum.vectors.store import CODE_EXTRA

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vademecum.types import Vector

    #: Text ids or byte offsets, shape (n,).
    Longs = NDArray[np.int64]


#: Addresses kept at a time, some 15 MB.
_MOST_KNOWN = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class MappedRows:
    """Some rows of a lane: text ids, and byte offsets into the mapped file of their int8 codes, by address."""

    ids: Longs
    codes: Longs


@dataclass(frozen=True, slots=True, eq=False)
class MappedLane:
    """All rows of a lane, and ``base``, a buffer of the whole file. Good only within the transaction it was asked in.

    To know where all vectors lie would mean to look at each of them, which is most of the file. The few that a search
    needs are looked up, from ``root``, the first page of their table; ``known`` are their offsets by text id.
    """

    base: Any
    every: MappedRows
    root: int
    dims: int
    known: dict[int, int] = field(default_factory=dict)

    def among(self, allowed: Longs) -> MappedRows:
        """The rows whose text id is in ``allowed``."""
        import numpy as np

        every = self.every
        found = np.isin(every.ids, allowed)
        return every if found.all() else MappedRows(every.ids[found], every.codes[found])

    def top(self, rows: MappedRows, query: Vector, k: int) -> list[tuple[int, float]] | None:
        """The k of these rows with the highest cosine, best first, ties by id. None: see `vectors`."""
        from vademecum import kernels

        near, _ = kernels.bound_codes(self.base, rows.codes, self.dims, query, k)
        ids = rows.ids[near]
        vectors = self.vectors(ids.tolist())
        if vectors is None or (vectors < 0).any():
            return None
        ids, scores, _ = kernels.search_codes(self.base, rows.codes[near], vectors, ids, self.dims, query, k)
        return [(text_id, score) for text_id, score in zip(ids.tolist(), scores.tolist(), strict=True) if text_id >= 0]

    def scores(self, text_ids: Sequence[int], query: Vector) -> dict[int, float] | None:
        """Cosine of the given texts; those without a vector are left out. None: see `vectors`."""
        import numpy as np

        from vademecum import kernels

        vectors = self.vectors(text_ids)
        if vectors is None:
            return None
        ids, there = np.array(text_ids, np.int64), vectors >= 0
        scores = kernels.scores_at(self.base, vectors[there], self.dims, query)
        return dict(zip(ids[there].tolist(), scores.tolist(), strict=True))

    def vectors(self, ids: Sequence[int]) -> Longs | None:
        """Byte offset of each text's float32 vector, negative for texts without one.

        None when one lies in overflow pages or a page is damaged: then SELECT answers, or says what is wrong.
        """
        import numpy as np

        from vademecum import kernels

        if len(self.known) > _MOST_KNOWN:
            self.known.clear()
        missing = [text_id for text_id in ids if text_id not in self.known]
        if missing:
            try:
                offsets = self.base.seek(self.root, 1, 4 * self.dims, np.array(missing, np.int64)).tolist()
            except (IndexCorruptError, OSError):
                return None
            if kernels.ELSEWHERE in offsets:
                return None
            self.known.update(zip(missing, offsets, strict=True))
        return np.array([self.known[text_id] for text_id in ids], np.int64)

    def every_vector(self) -> tuple[Longs, Longs]:
        """Offsets of all vectors in the order of their addresses, and their text ids."""
        walked = self.base.walk(self.root, 1, 4 * self.dims)
        return walked.offsets, walked.rowids


class VectorMap:
    """The mapped vectors file of one index. Safe to share between threads."""

    def __init__(self, path: Path, checkpointer: Connection) -> None:
        """``checkpointer`` is a connection to the file, to be used for nothing else and closed with the map.

        Make it right after that connection: the file there now is the one that connections read.
        """
        self._path = path
        state = path.stat()
        self._identity = (state.st_dev, state.st_ino)
        self._lock = threading.Lock()
        self._checkpointer: Connection | None = checkpointer
        self._map: Any = None
        self._unmappable = False

    def lane(self, connection: Connection, lane: Lane) -> MappedLane | None:
        """The lane as of the connection's open read transaction, which has already read the vectors file.

        None when the file cannot be mapped now, or when codes lie in overflow pages.
        """
        file_map = self._file_map()
        if file_map is None or not file_map.same_file(self._path) or not self.settled(connection):
            return None

        def walk() -> MappedLane | None:
            try:
                return _walk(connection, file_map, lane)
            except (IndexCorruptError, OSError):
                return None  # SQLite will say what is wrong, if anything is

        return connection.noted(["vectors"], ("rows", lane.id), walk)

    def settled(self, connection: Connection) -> bool:
        """Whether the file shows the connection's snapshot; once true, it stays so while the transaction lasts.

        Worth another try in a new transaction if not. True, too, where nothing can be mapped anyway.
        """
        if self._file_map() is None:
            return True
        return connection.noted(["vectors"], "settled", lambda: self._drained() or None) or False

    def _file_map(self) -> Any:
        with self._lock:
            if self._map is None and not self._unmappable:
                self._map = self._new_map()
                self._unmappable = self._map is None
            return self._map

    def _new_map(self) -> Any:
        from vademecum import kernels

        if kernels.FileMap is None:
            return None
        try:
            found = kernels.FileMap(self._path)
        except OSError:
            return None
        return found if found.identity == self._identity else None

    def _drained(self) -> bool:
        """Whether the whole log is in the file. PASSIVE waits for nobody."""
        with self._lock:
            if self._checkpointer is None:
                return False
            try:
                busy, log, moved = self._checkpointer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            except sqlite3.OperationalError:
                return False
        return not busy and log == moved

    def close(self) -> None:
        """Release the second connection. The file's descriptor stays open: see ext/rowmap.pyx."""
        with self._lock:
            checkpointer, self._checkpointer = self._checkpointer, None
            self._map, self._unmappable = None, True
        if checkpointer is not None:
            checkpointer.close()


def _walk(connection: Connection, file_map: Any, lane: Lane) -> MappedLane | None:
    names = (f"v{lane.id:d}", f"c{lane.id:d}")
    roots = dict(
        connection.execute("SELECT name, rootpage FROM vectors.sqlite_schema WHERE name IN (?, ?)", names).fetchall()
    )
    codes = file_map.walk(roots[names[1]], 1, lane.dims + CODE_EXTRA)
    if codes.elsewhere.size:
        return None
    return MappedLane(file_map, MappedRows(codes.rowids, codes.offsets), roots[names[0]], lane.dims)
