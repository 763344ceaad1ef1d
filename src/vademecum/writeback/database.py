"""What the writers of memory must not forget between two runs: ``.vademecum/writeback.sqlite``."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vademecum.errors import IndexFormatError, IndexUnavailableError, StoreError, WriteError
from vademecum.sqlite import Connection, connect, damaged, migrate, quarantine
from vademecum.store.disk import CREATE
from vademecum.store.root import check_private, private_folder

FILE = "writeback.sqlite"


class Database:
    """The file of one root; opened for each use, so that it is safe to share and survives a fork."""

    def __init__(self, root: Path) -> None:
        """Does not touch the disk."""
        self._root = root
        self._path = root / ".vademecum" / FILE

    def exists(self) -> bool:
        """Whether anything was ever kept."""
        return self._path.exists()

    @contextmanager
    def open(self) -> Iterator[Connection]:
        """A connection, made with its file if need be; a damaged file is set aside first. Raises StoreError kinds."""
        folder = private_folder(self._root)
        check_private(folder, FILE)
        try:
            with suppress(FileExistsError):
                # SQLite gives the files beside a database the database's mode.
                os.close(os.open(self._path, CREATE, 0o600))
            connection = self._connected()
            try:
                yield connection
            finally:
                connection.close()
        except IndexFormatError as error:
            raise StoreError(f"{self._path}: was written by a newer vademecum; upgrade vademecum") from error
        except (sqlite3.Error, OSError) as error:
            if self._set_aside():
                raise WriteError(f"{self._path}: was damaged and has been set aside; try again") from error
            raise WriteError(f"{self._path}: the record of flushes and dreams cannot be used: {error}") from error

    def _connected(self) -> Connection:
        try:
            return self._migrated()
        except (sqlite3.DatabaseError, IndexUnavailableError):
            if not self._set_aside():
                raise
            return self._migrated()

    def _migrated(self) -> Connection:
        connection = connect(self._path, wal=False)
        try:
            migrate(connection, self._path, (_schema,))
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_aside(self) -> bool:
        """Move a damaged file out of the way, kept under another name: what it held costs no new note."""
        if not damaged(self._path):
            return False
        quarantine(self._path, time.time())
        return True


@contextmanager
def process_lock(root: Path, name: str, timeout_s: float) -> Iterator[None]:
    """A lock of its own among threads and processes; one that is killed lets go by itself. Raises TimeoutError."""
    from filelock import FileLock

    folder = private_folder(root)
    check_private(folder, name)
    with FileLock(folder / name, timeout=timeout_s, poll_interval=0.02):  # its Timeout is a TimeoutError
        yield


def _schema(connection: sqlite3.Connection) -> None:
    connection.execute(
        "CREATE TABLE jobs(id TEXT PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, path TEXT NOT NULL, "
        "heading TEXT NOT NULL, session TEXT, messages BLOB NOT NULL, outcome TEXT)"
    )
    connection.execute("CREATE INDEX pending ON jobs(at) WHERE outcome IS NULL")
    connection.execute(
        "CREATE TABLE seen(kind TEXT, owner TEXT, message TEXT, job TEXT, PRIMARY KEY (kind, owner, message)) "
        "WITHOUT ROWID"
    )
    connection.execute("CREATE TABLE dreamt(path TEXT PRIMARY KEY, content TEXT NOT NULL)")
    connection.execute(
        "CREATE TABLE dreams(scope TEXT, day TEXT, attempts INTEGER NOT NULL DEFAULT 0, "
        "done INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (scope, day))"
    )
    connection.execute("CREATE TABLE nights(day TEXT PRIMARY KEY)")
    connection.execute("CREATE TABLE summarised(session TEXT PRIMARY KEY, seq INTEGER NOT NULL)")
