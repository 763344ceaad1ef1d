"""A file of vectors and their codes as the store keeps them, mapped into memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vademecum._native import rowmap
from vademecum.kernels import encode

Places: TypeAlias = NDArray[np.int64]

_PAGE_SIZE = 65536


class VectorFile:
    """Where ``rows`` lie in a new database at ``path``: row i has id i + 1.

    ``row_ids`` and ``row_offsets`` are in the order of the rows' addresses; ``code_offsets``, ``code_ids`` and
    ``rows_of_codes`` (where the row of each code begins) in that of the codes'.
    """

    def __init__(self, path: Path, rows: NDArray[np.float32]) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA page_size = {_PAGE_SIZE}")
            roots = [
                _fill(connection, "v1", (row.tobytes() for row in rows)),
                _fill(connection, "c1", (code.tobytes() for code in encode(rows))),
            ]
        self.dims = rows.shape[1]
        self.map = memoryview(rowmap.FileMap(path))
        vectors = rowmap.walk(self.map, roots[0], 1, 4 * self.dims)
        codes = rowmap.walk(self.map, roots[1], 1, self.dims + 8)
        self.row_ids, self.row_offsets = vectors.rowids, vectors.offsets
        self.code_ids, self.code_offsets = codes.rowids, codes.offsets
        self.rows_of_codes = vectors.offsets[np.argsort(vectors.rowids)[codes.rowids - 1]]

    def span(self, offsets: Places, row_bytes: int) -> NDArray[np.int64]:
        """All bytes from the first row to the last, to be read once: as aligned integers, which add up fastest."""
        start, end = int(offsets[0]) // 64 * 64, (int(offsets[-1]) + row_bytes) // 64 * 64
        return np.frombuffer(self.map[start:end], np.int64)


def _fill(connection: sqlite3.Connection, table: str, blobs: Iterable[bytes]) -> int:
    """Write a table of blobs and return its root page."""
    connection.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, value BLOB)")
    connection.executemany(f"INSERT INTO {table} (value) VALUES (?)", ((blob,) for blob in blobs))
    connection.commit()
    (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    return int(root)
