"""The file that holds conversations. Unlike an index it cannot be made again, so nothing here ever replaces it."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from vademecum.errors import HistoryBusyError, HistoryCorruptError, HistoryError, IndexUnavailableError
from vademecum.history.schema import MIGRATIONS, VERSION
from vademecum.sqlite import Connection, ReaderPool, connect, exclusive, migrate, quarantine

HISTORY_FILE = "history.sqlite"

_TRIES = 3
_PRIMARY_CODE = 0xFF
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_SECONDS_PER_DAY = 86_400


@dataclass(frozen=True, slots=True)
class _Opened:
    identity: tuple[int, int] | None
    writer: Connection
    readers: ReaderPool


class HistoryFile:
    """history.sqlite: opened when it is first needed, and anew when somebody has exchanged it.

    Safe to share between threads, and between processes that each have their own. What is committed is on disk.
    """

    def __init__(
        self,
        path: Path,
        *,
        prepare: Callable[[], object] | None = None,
        keep_days: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Touches nothing yet. ``prepare`` is called before each opening, to see to the folder. ``keep_days`` is the
        age at which sessions go (None: never); ``clock`` gives Unix seconds.
        """
        self.path = path
        self.clock = clock
        self._prepare = prepare or (lambda: path.parent.mkdir(parents=True, exist_ok=True))
        self._keep_days = keep_days
        self._pruned_at = float("-inf")
        self._lock = threading.RLock()
        self._opened: _Opened | None = None
        self._closed = False
        _files.add(self)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One state of the file; an empty one if there is no file, which is not made. Raises HistoryError kinds."""
        with _translated(self.path):
            if not self.path.exists():
                with closing(connect(Path(":memory:"))) as connection:
                    migrate(connection, self.path, MIGRATIONS)
                    yield connection
                return
            for _ in range(_TRIES):
                with ExitStack() as stack:
                    opened = self._current()
                    try:
                        connection = stack.enter_context(opened.readers.reader())
                    except IndexUnavailableError:  # another thread is just opening the file anew
                        continue
                    if _version(connection) == VERSION:
                        yield connection
                        return
                self._reopen(opened)
            raise HistoryError(f"{self.path}: another program keeps exchanging this file")

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that has the write lock from its beginning; committed when the context ends.

        Raises HistoryError and its kinds; then nothing was written.
        """
        with _translated(self.path), self._lock:
            for _ in range(_TRIES):
                opened = self._current()
                with exclusive(opened.writer) as connection:
                    # Once more: somebody may have exchanged the file while this waited for the lock.
                    if _version(connection) == VERSION and opened.identity == self._identity():
                        yield connection
                        return
                self._reopen(opened)
            raise HistoryError(f"{self.path}: another program keeps exchanging this file")

    def stamp(self) -> str:
        """A text that changes whenever a message of any session was added or deleted; "" while there is no history.

        One indexed read; does not make the file.
        """
        if not self.path.exists():
            return ""
        with self.read() as connection:
            (stamp,) = connection.execute("SELECT value FROM meta WHERE key = 'stamp'").fetchone()
        return str(stamp)

    def owners(self) -> list[str]:
        """Everybody who has conversations, sorted; see `viewer_of`."""
        with self.read() as connection:
            return [owner for (owner,) in connection.execute("SELECT DISTINCT owner FROM sessions ORDER BY owner")]

    def problems(self) -> list[str]:
        """What is wrong with the file, in SQLite's words; empty if it is sound or not there. Reads all of it."""
        try:
            with self.read() as connection:
                found = [str(verdict) for (verdict,) in connection.execute("PRAGMA integrity_check(20)")]
        except HistoryCorruptError as error:
            return [str(error)]
        return [] if found == ["ok"] else found

    def exchange(self, other: Path) -> Path:
        """Put another database in the place of this one; returns the name under which this one is kept."""
        with self._lock:
            self._let_go()
            kept = quarantine(self.path, self.clock())
            other.replace(self.path)
        return kept

    def outlived(self) -> float | None:
        """Once a day the time before which sessions have outlived ``keep_days``; otherwise None."""
        now = self.clock()
        if self._keep_days is None or now - self._pruned_at < _SECONDS_PER_DAY:
            return None
        self._pruned_at = now
        return now - self._keep_days * _SECONDS_PER_DAY

    def close(self) -> None:
        """Release connections; those in use are released by who uses them. A second call does nothing."""
        with self._lock:
            self._closed = True
            self._let_go()

    # -- opening ------------------------------------------------------------------------------------------------

    def _current(self) -> _Opened:
        opened = self._opened
        if opened is not None and opened.identity == self._identity():
            return opened
        return self._reopen(opened)

    def _identity(self) -> tuple[int, int] | None:
        try:
            state = self.path.stat()
        except OSError:
            return None
        return state.st_dev, state.st_ino

    def _reopen(self, stale: _Opened | None) -> _Opened:
        with self._lock:
            if self._opened is not None and self._opened is not stale:
                return self._opened
            self._let_go()
            if self._closed:
                raise HistoryError(f"{self.path}: the memory has been closed; open it again")
            self._prepare()
            writer = connect(self.path)
            try:
                # Conversations exist nowhere else: neither a power cut may take what was told to be kept, nor may
                # what was deleted stay readable in the file.
                writer.execute("PRAGMA synchronous = FULL")
                writer.execute("PRAGMA secure_delete = ON")
                self._check(writer)
                migrate(writer, self.path, MIGRATIONS)
            except BaseException:
                writer.close()
                raise
            self._opened = _Opened(self._identity(), writer, ReaderPool(lambda: connect(self.path)))
            return self._opened

    def _check(self, connection: Connection) -> None:
        version = _version(connection)
        if version > VERSION:
            raise HistoryError(
                f"{self.path}: written by a newer vademecum (schema {version}, this one knows {VERSION}); upgrade it"
            )
        if version == 0 and connection.execute("SELECT 1 FROM sqlite_master").fetchone() is not None:
            raise HistoryError(f"{self.path}: is a database of another program; move it away, it will be made anew")

    def _let_go(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.readers.close()
            opened.writer.close()

    def _forget(self) -> None:
        """In a child process: its parent's connections are neither used nor closed, and its locks may be held."""
        if self._opened is not None:
            _inherited.append(self._opened)
        self._opened = None
        self._lock = threading.RLock()


_files: weakref.WeakSet[HistoryFile] = weakref.WeakSet()
_inherited: list[_Opened] = []


def _after_fork() -> None:
    for file in _files:
        file._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _version(connection: Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
        if code in _BUSY:
            raise HistoryBusyError(f"{path}: another process has been writing for too long; try again") from error
        if code in _DAMAGED:
            raise HistoryCorruptError(
                f"{path}: {error}; it is left as it is: put a backup in its place, or save what can be read with "
                "`vademecum history repair`"
            ) from error
        raise HistoryError(f"{path}: {error}") from error
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror}") from error
