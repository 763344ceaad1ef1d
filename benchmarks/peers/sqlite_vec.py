"""sqlite-vec: exact KNN over a vec0 virtual table."""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.protocol import Task

# Some builds of Python cannot load extensions into their own sqlite3.
REQUIRES = ("numpy", "pysqlite3", "sqlite-vec")
NEEDS = (3, 11)


class Vec0:
    """Cosine distance; the vectors stay in SQLite."""

    def __init__(self) -> None:
        import sqlite_vec

        self._extension = sqlite_vec
        able = hasattr(sqlite3.Connection, "enable_load_extension")
        self._sqlite: Any = sqlite3 if able else importlib.import_module("pysqlite3")

    def _connect(self, path: Path) -> Any:
        connection = self._sqlite.connect(path)
        connection.enable_load_extension(True)
        self._extension.load(connection)
        return connection

    def build(self, task: Task) -> None:
        rows = task.rows()
        connection = self._connect(task.place(self))
        connection.execute(
            f"CREATE VIRTUAL TABLE vectors USING vec0(embedding float[{rows.shape[1]}] distance_metric=cosine)"
        )
        blobs = ((number, row.tobytes()) for number, row in enumerate(rows))
        connection.executemany("INSERT INTO vectors(rowid, embedding) VALUES (?, ?)", blobs)
        connection.commit()
        connection.close()

    def open(self, task: Task) -> None:
        self._queries, self._k = task.queries(), task.k
        self._connection = self._connect(task.place(self))

    def search(self, number: int) -> Sequence[int]:
        found = self._connection.execute(
            "SELECT rowid FROM vectors WHERE embedding MATCH ? AND k = ? ORDER BY distance",
            (self._queries[number].tobytes(), self._k),
        )
        return [rowid for (rowid,) in found]
