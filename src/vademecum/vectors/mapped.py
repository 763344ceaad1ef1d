"""A lane's rows where they lie: in the memory-mapped database file.

The map shows the file, not the write-ahead log. It is used only inside a read transaction of the connection that
asks, and only after a checkpoint by a second connection has found the whole log moved into the file. While that
transaction lasts, no checkpoint can pass its mark, so the file holds exactly the transaction's snapshot and stays as
it is (DESIGN 6). In any other case the caller reads by SELECT.
"""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vademecum.errors import IndexCorruptError
from vademecum.sqlite import Connection, connect
from vademecum.types import Lane
from vademecum.vectors.store import AUTOCHECKPOINT, CODE_EXTRA, PAGE_SIZE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vademecum.types import Vector

    #: Text ids or byte offsets, shape (n,).
    Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class MappedRows:
    """Some rows of a lane. The three arrays belong together and are in the order of the codes' addresses.

    ``codes`` and ``rows`` are byte offsets into the mapped file of each text's int8 code and float32 vector.
    """

    ids: Longs
    codes: Longs
    rows: Longs


@dataclass(frozen=True, slots=True, eq=False)
class MappedLane:
    """All rows of a lane, and ``base``, a buffer of the whole file. Good only within the transaction it was asked in.

    ``order`` sorts ``every.ids``.
    """

    base: Any
    every: MappedRows
    order: Longs

    def among(self, allowed: Longs) -> MappedRows:
        """The rows whose text id is in ``allowed``."""
        import numpy as np

        every = self.every
        if not every.ids.size:
            return every
        place = np.searchsorted(every.ids, allowed, sorter=self.order)
        place = self.order[np.minimum(place, every.ids.size - 1)]
        found = np.sort(place[every.ids[place] == allowed])
        if found.size == every.ids.size:
            return every
        return MappedRows(every.ids[found], every.codes[found], every.rows[found])

    def top(self, rows: MappedRows, dims: int, query: Vector, k: int) -> list[tuple[int, float]]:
        """The k of these rows with the highest cosine, best first, ties by id."""
        from vademecum import kernels

        ids, scores, _ = kernels.search_codes(self.base, rows.codes, rows.rows, rows.ids, dims, query, k)
        return [(text_id, score) for text_id, score in zip(ids.tolist(), scores.tolist(), strict=True) if text_id >= 0]


class VectorMap:
    """The mapped vectors file of one index. Safe to share between threads."""

    def __init__(self, path: Path) -> None:
        """Make it right after the first connection: the file there now is the one that connections read."""
        self._path = path
        state = path.stat()
        self._identity = (state.st_dev, state.st_ino)
        self._lock = threading.Lock()
        self._checkpointer: Connection | None = None
        self._map: Any = None
        self._unmappable = False

    def lane(self, connection: Connection, lane: Lane) -> MappedLane | None:
        """The lane as of the connection's open read transaction, which has already read the vectors file.

        None when the file cannot be mapped now, or when rows lie in overflow pages.
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
                self._checkpointer = connect(self._path, page_size=PAGE_SIZE, autocheckpoint=AUTOCHECKPOINT)
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
    import numpy as np

    names = (f"v{lane.id:d}", f"c{lane.id:d}")
    roots = dict(
        connection.execute("SELECT name, rootpage FROM vectors.sqlite_schema WHERE name IN (?, ?)", names).fetchall()
    )
    rows = file_map.walk(roots[names[0]], 1, 4 * lane.dims)
    codes = file_map.walk(roots[names[1]], 1, lane.dims + CODE_EXTRA)
    if rows.elsewhere.size or codes.elsewhere.size or rows.rowids.size != codes.rowids.size:
        return None
    rows_by_id, codes_by_id = np.argsort(rows.rowids), np.argsort(codes.rowids)
    if not np.array_equal(rows.rowids[rows_by_id], codes.rowids[codes_by_id]):
        return None
    offsets = np.empty_like(rows.offsets)
    offsets[codes_by_id] = rows.offsets[rows_by_id]
    return MappedLane(file_map, MappedRows(codes.rowids, codes.offsets, offsets), codes_by_id)
