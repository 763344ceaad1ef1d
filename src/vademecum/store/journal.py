"""What every page was before it was changed: kept before the change, so that nothing that was known can be lost.

``.vademecum/journal/journal.sqlite`` holds one entry for each change, the compressed content of the page before and
after it (each content once, by its hash), and who wrote which line. An entry is committed before the page is touched
and stays *open* until somebody finds out whether the change came about: whoever holds the root's lock next sees it
from the page itself.
"""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from vademecum.errors import IndexFormatError, StoreError, UsageError, WriteError
from vademecum.settings import JournalSettings
from vademecum.sqlite import Connection, connect, damaged, exclusive, migrate, quarantine
from vademecum.store.disk import CREATE
from vademecum.store.origins import keep_origins, origins_schema
from vademecum.store.root import check_private, private_folder
from vademecum.types import LogEntry, Origin

FOLDER, FILE = "journal", "journal.sqlite"
_MEGABYTE = 1_000_000
_DAY = 86_400.0
#: What is left of the largest size after it was passed, so that not every write has to make room.
_AFTER_PRUNING = 0.8
_COLUMNS = "id, at, origin, why, path, moved_from, undoes, before, after"


@dataclass(frozen=True, slots=True)
class Draft:
    """A change that is about to be made: the page's bytes before and after it, None where there is no page.

    ``moved_from`` is the old path of a page that moves. ``undoes`` is the entry that it takes back.
    """

    path: str
    before: bytes | None
    after: bytes | None
    by: Origin
    why: str = ""
    moved_from: str | None = None
    undoes: int | None = None


def content_hash(data: bytes) -> str:
    """SHA-256 of a page's bytes, 64 hexadecimal digits; the same as the fingerprint of its source."""
    return sha256(data).hexdigest()


class Journal:
    """The journal of one root, opened when it is first needed. Changes are made under the root's lock only.

    Raises StoreError for a journal that cannot be read, and WriteError for one that cannot be written.
    """

    def __init__(self, root: Path) -> None:
        """Does not touch the disk."""
        self._root = root
        self._path = root / ".vademecum" / FOLDER / FILE
        self._opened: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            self._opened.close()

    # -- writing ------------------------------------------------------------------------------------------------

    def begin(self, draft: Draft, content: Callable[[str], bytes | None]) -> int:
        """Put a change on record before it is made, and return its id. ``content`` reads a page, None if missing."""
        with self._translated(WriteError, draft.path):
            try:
                return self._begin(draft, content)
            except sqlite3.DatabaseError:
                if not self._set_aside():
                    raise
                return self._begin(draft, content)

    def _begin(self, draft: Draft, content: Callable[[str], bytes | None]) -> int:
        with exclusive(self._connection()) as connection:
            _settle(connection, content)
            hashes = [_keep(connection, data) for data in (draft.before, draft.after)]
            keep_origins(connection, draft.path, draft.before, draft.after, draft.by, draft.moved_from, draft.undoes)
            row = (time.time(), draft.by, draft.why, draft.path, draft.moved_from, draft.undoes, *hashes)
            cursor = connection.execute(
                "INSERT INTO entries(at, origin, why, path, moved_from, undoes, before, after) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            )
            assert cursor.lastrowid is not None
            return cursor.lastrowid

    def drop(self, entry: int) -> None:
        """Strike out a change that did not come about."""
        with self._translated(WriteError), exclusive(self._connection()) as connection:
            connection.execute("DELETE FROM entries WHERE id = ?", (entry,))

    def settle(self, content: Callable[[str], bytes | None]) -> None:
        """Strike out what a killed process put on record and did not do. For holders of the root's lock."""
        if self.exists():
            with self._translated(WriteError), exclusive(self._connection()) as connection:
                _settle(connection, content)

    def prune(self, settings: JournalSettings, now: float) -> None:
        """Forget entries older than ``keep_days``, and the oldest ones while all is larger than ``max_mb``.

        The newest entry stays. ``now`` is a Unix time. For holders of the root's lock.
        """
        with self._translated(WriteError):
            connection = self._connection()
            oldest = now - settings.keep_days * _DAY
            limit = settings.max_mb * _MEGABYTE
            (aged,) = connection.execute("SELECT EXISTS (SELECT 1 FROM entries WHERE at < ?)", (oldest,)).fetchone()
            if not aged and _size(connection) <= limit:
                return
            with exclusive(connection):
                _forget(connection, "at < ? AND id < (SELECT max(id) FROM entries)", (oldest,))
                if _size(connection) > limit:
                    _shrink(connection, int(limit * _AFTER_PRUNING))

    # -- reading ------------------------------------------------------------------------------------------------

    def exists(self) -> bool:
        """Whether anything has been put on record."""
        return self._path.exists()

    def entries(self, path: str | None = None) -> Iterator[LogEntry]:
        """What is on record, newest first; with ``path``, what happened to that page under its present name and
        under the names it had before."""
        if not self.exists():
            return
        with self._translated(StoreError):
            rows = self._connection().execute(f"SELECT {_COLUMNS} FROM entries ORDER BY id DESC").fetchall()  # noqa: S608
        for row in rows:
            entry = _entry(row)
            if path is None or entry.path == path:
                yield entry
                path = entry.moved_from if path is not None and entry.moved_from is not None else path

    def entry(self, number: int) -> LogEntry:
        """One entry. Raises UsageError if there is none with that number."""
        found = None
        if self.exists():
            with self._translated(StoreError):
                sql = f"SELECT {_COLUMNS} FROM entries WHERE id = ?"  # noqa: S608
                found = self._connection().execute(sql, (number,)).fetchone()
        if found is None:
            raise UsageError(f"{number}: there is no such entry in the journal; `vademecum log` lists them")
        return _entry(found)

    def content(self, content: str) -> bytes:
        """The bytes that a page had, by their hash. Raises StoreError if they are not what they should be."""
        with self._translated(StoreError):
            row = self._connection().execute("SELECT data FROM images WHERE hash = ?", (bytes.fromhex(content),))
            found = row.fetchone()
        try:
            data = b"" if found is None else zlib.decompress(found[0])
        except zlib.error:
            data = b""
        if found is None or content_hash(data) != content:
            raise StoreError(f"{self._path}: the content {content[:12]} is missing or damaged there")
        return data

    # -- the file -----------------------------------------------------------------------------------------------

    def _connection(self) -> Connection:
        if self._opened is None:
            self._opened = self._open(self._folder())
        return self._opened

    def _set_aside(self) -> bool:
        """Move a damaged journal out of the way, kept under another name; False if it is not damaged."""
        if not damaged(self._path):
            return False
        if self._opened is not None:
            self._opened.close()
            self._opened = None
        quarantine(self._path, time.time())
        return True

    def _folder(self) -> Path:
        folder = private_folder(self._root) / FOLDER
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except FileExistsError:
            pass  # and is no folder, which the check names
        except OSError as error:
            raise WriteError(f"{folder}: the journal cannot be made: {error.strerror}") from error
        check_private(folder, FILE)
        return folder

    def _open(self, folder: Path) -> Connection:
        file = folder / FILE
        if not file.exists():
            # SQLite gives the files beside a database the database's mode.
            with suppress(FileExistsError):
                os.close(os.open(file, CREATE, 0o600))
        connection = connect(file, wal=False)
        try:
            migrate(connection, file, (_schema,))
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _translated(self, kind: type[StoreError], page: str = "") -> Iterator[None]:
        where = f"{page}: {self._path}" if page else str(self._path)
        hint = "; nothing was changed" if kind is WriteError else ""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise kind(f"{where}: the journal cannot be used: {reason}{hint}") from error
        except IndexFormatError as error:
            raise kind(f"{where}: the journal was written by a newer vademecum; upgrade vademecum") from error


def _schema(connection: sqlite3.Connection) -> None:
    connection.execute(
        "CREATE TABLE entries(id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, origin TEXT NOT NULL, "
        "why TEXT NOT NULL, path TEXT NOT NULL, moved_from TEXT, undoes INTEGER, before BLOB, after BLOB, "
        "open INTEGER NOT NULL DEFAULT 1)"
    )
    connection.execute("CREATE INDEX open_entries ON entries(id) WHERE open")
    connection.execute("CREATE TABLE images(hash BLOB PRIMARY KEY, data BLOB NOT NULL)")
    origins_schema(connection)


def _keep(connection: Connection, data: bytes | None) -> bytes | None:
    """Store a content, and return its hash."""
    if data is None:
        return None
    digest = sha256(data).digest()
    if not connection.execute("SELECT EXISTS (SELECT 1 FROM images WHERE hash = ?)", (digest,)).fetchone()[0]:
        connection.execute("INSERT INTO images VALUES (?, ?)", (digest, zlib.compress(data)))
    return digest


def _settle(connection: Connection, content: Callable[[str], bytes | None]) -> None:
    """Find out what became of open entries. A page that is still as before was not changed by its entry."""
    rows = connection.execute("SELECT id, path, moved_from, before, after FROM entries WHERE open").fetchall()
    for number, path, moved_from, before, after in rows:
        data = content(path if moved_from is None else moved_from)
        now = None if data is None else sha256(data).digest()
        # A page that moved is gone from its old path.
        undone = now is not None if moved_from is not None else now == before and now != after
        connection.execute(
            "DELETE FROM entries WHERE id = ?" if undone else "UPDATE entries SET open = 0 WHERE id = ?", (number,)
        )


def _forget(connection: Connection, condition: str, values: tuple[object, ...]) -> None:
    connection.execute(f"DELETE FROM entries WHERE {condition}", values)  # noqa: S608
    connection.execute(
        "DELETE FROM images WHERE NOT EXISTS (SELECT 1 FROM entries WHERE hash IN (entries.before, entries.after))"
    )


def _shrink(connection: Connection, size: int) -> None:
    """Forget the oldest entries, a tenth at a time, until what is left takes at most ``size`` bytes."""
    while _size(connection) > size:
        (count,) = connection.execute("SELECT count(*) FROM entries").fetchone()
        if count < 2:
            return
        sql = "id IN (SELECT id FROM entries ORDER BY id LIMIT ?)"
        _forget(connection, sql, (min(count - 1, count // 10 + 1),))


def _size(connection: Connection) -> int:
    """Bytes in use; pages that were freed are used again."""
    pages, free, page_size = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * page_size


def _entry(row: tuple[Any, ...]) -> LogEntry:
    number, at, origin, why, path, moved_from, undoes, before, after = row
    return LogEntry(
        number,
        at,
        origin,
        why,
        path,
        moved_from,
        undoes,
        None if before is None else before.hex(),
        None if after is None else after.hex(),
    )
