"""Idle connections for readers: as many as there are readers at once, reused, closed together."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vademecum.errors import IndexUnavailableError
from vademecum.sqlite.connection import Connection, snapshot

#: What is said to whoever uses an index after its end.
CLOSED = "the memory has been closed; open it again"
#: Readers at once, further ones wait; and connections kept for the next ones. Each holds a few descriptors.
MOST_READERS, MOST_IDLE = 16, 4


class ReaderPool:
    """Hands out connections inside a read transaction. Safe to share between threads."""

    def __init__(self, open_connection: Callable[[], Connection]) -> None:
        self._open = open_connection
        self._idle: list[Connection] = []
        self._slots = threading.BoundedSemaphore(MOST_READERS)
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def reader(self) -> Iterator[Connection]:
        """A connection that sees one state of the database until the context ends."""
        with self._slots:
            connection = self._take()
            try:
                with snapshot(connection):
                    yield connection
            except sqlite3.Error:
                connection.close()
                raise
            except BaseException:
                self.give_back(connection)
                raise
            self.give_back(connection)

    def _take(self) -> Connection:
        with self._lock:
            if self._closed:
                raise IndexUnavailableError(CLOSED)
            if self._idle:
                return self._idle.pop()
        return self._open()

    def give_back(self, connection: Connection) -> None:
        """Keep a connection that nobody uses any more for the next reader."""
        with self._lock:
            if not self._closed and len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close idle connections now and the others as they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
