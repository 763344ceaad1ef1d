"""Connections and transactions. Every connection of the package is made here."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast

from vademecum.errors import IndexCorruptError, IndexReplacedError, IndexUnavailableError

T = TypeVar("T")
ConnectionT = TypeVar("ConnectionT", bound=sqlite3.Connection)

#: How many notes a connection keeps; the one unused for longest goes first.
MOST_NOTES = 16

#: How long a writer waits for another process's transaction; ours last milliseconds.
BUSY_SECONDS = 30.0


class Connection(sqlite3.Connection):
    """A connection that can keep what was learnt through it for as long as nobody else commits.

    ``PRAGMA data_version`` is comparable only with earlier values of the same connection, so such notes live here.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """See sqlite3.Connection."""
        super().__init__(*arguments, **options)
        self._notes: dict[Hashable, tuple[list[int], Any]] = {}
        self._versions: dict[str, int] = {}

    def begin(self) -> None:
        """Begin a transaction in which versions are asked for once: none changes before its end."""
        self._versions.clear()
        self.execute("BEGIN")

    def noted(self, schemas: Sequence[str], key: Hashable, learn: Callable[[], T]) -> T:
        """``learn()``, or what it gave before if no other connection has committed to ``schemas`` since.

        None is not kept. Call within a transaction that has already read from each of the schemas.
        """
        versions = [self._version(schema) for schema in schemas]
        known = self._notes.pop(key, None)
        value = known[1] if known is not None and known[0] == versions else learn()
        if value is not None:
            self._notes[key] = versions, value
        while len(self._notes) > MOST_NOTES:
            del self._notes[next(iter(self._notes))]
        return cast("T", value)

    def _version(self, schema: str) -> int:
        if schema not in self._versions:
            (self._versions[schema],) = self.execute(f"PRAGMA {schema}.data_version").fetchone()
        return self._versions[schema]


def connect(path: Path, *, page_size: int = 4096, autocheckpoint: int = 1000, wal: bool = True) -> Connection:
    """Open or create a database in WAL mode, in autocommit: transactions are begun by name.

    ``page_size`` (bytes) counts only for a new file. ``autocheckpoint`` counts pages. Without ``wal`` a commit is on
    the disk when it returns, a transaction that fails leaves nothing behind, and readers wait for a writer.
    Raises sqlite3 errors as they are; callers wrap them with `translated`.
    """
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, factory=Connection
    )
    try:
        connection.execute(f"PRAGMA page_size = {page_size:d}")
        if wal:
            _switch_to_wal(connection)
        else:
            connection.execute("PRAGMA journal_mode = TRUNCATE")
        connection.execute(f"PRAGMA synchronous = {'NORMAL' if wal else 'FULL'}")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA wal_autocheckpoint = {autocheckpoint:d}")
    except BaseException:
        connection.close()
        raise
    return connection


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    # The switch ignores the busy handler: two processes opening a new file at once would fail without a retry.
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


@contextmanager
def exclusive(connection: ConnectionT) -> Iterator[ConnectionT]:
    """A write transaction: the write lock is taken at once, so reads inside it stay true until the commit."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


@contextmanager
def snapshot(connection: Connection) -> Iterator[Connection]:
    """A read transaction: everything inside sees one state of each attached file."""
    connection.begin()
    try:
        yield connection
    finally:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")


_BESIDE = ("-wal", "-shm", "-journal")
_STAMP = "%Y%m%dT%H%M%S"
_DAMAGE = ("malformed", "not a database", "corrupt")
# What is said of a file that was deleted or exchanged under an open connection.
_GONE = ("no such table", "unable to open", "disk I/O error")


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn sqlite3 errors into ours, naming the file."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        text = str(error)
        if any(word in text for word in _GONE):
            raise IndexReplacedError(f"{path}: {text}") from error
        if any(word in text for word in _DAMAGE):
            raise IndexCorruptError(f"{path}: {text}; `vademecum rebuild` makes it anew from Markdown") from error
        raise IndexUnavailableError(f"{path}: {text}") from error


def damaged(path: Path) -> bool:
    """Whether an existing file is no sound database. Reads all of it."""
    if not path.exists():
        return False
    try:
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS)
        try:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        finally:
            connection.close()
    except sqlite3.DatabaseError as error:
        return any(word in str(error) for word in _DAMAGE)
    return bool(verdict != "ok")


def quarantine(path: Path, now: float) -> Path:
    """Move a damaged database and what SQLite keeps beside it aside; returns its new name. ``now`` is a Unix time."""

    def aside() -> Path:
        return path.with_name(f"{path.name}.corrupt-{time.strftime(_STAMP, time.gmtime(now))}")

    while aside().exists():  # what was moved aside in the same second
        now += 1
    target = aside()
    for suffix in ("", *_BESIDE):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).replace(target.with_name(target.name + suffix))
    return target


def quarantined(path: Path) -> list[tuple[Path, float]]:
    """What `quarantine` has moved aside of this database, and when, as a Unix time."""
    found = []
    for file in sorted(path.parent.glob(f"{path.name}.corrupt-*")):
        with suppress(ValueError):
            stamp = file.name.removeprefix(f"{path.name}.corrupt-")
            for suffix in _BESIDE:
                stamp = stamp.removesuffix(suffix)
            found.append((file, datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC).timestamp()))
    return found
