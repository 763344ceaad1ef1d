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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Self

from vademecum.errors import IndexFormatError, StoreError, UsageError, WriteError
from vademecum.settings import JournalSettings
from vademecum.sqlite import Connection, connect, damaged, exclusive, migrate, quarantine
from vademecum.store.disk import CREATE
from vademecum.store.journal_rows import (
    COLUMNS,
    Content,
    add_batches,
    as_entry,
    forget,
    is_done,
    keep,
    schema,
    settle,
    shrink,
    size,
)
from vademecum.store.lock import root_lock
from vademecum.store.origins import keep_origins, origins_of
from vademecum.store.root import check_private, private_folder
from vademecum.types import LogEntry, Origin

FOLDER, FILE = "journal", "journal.sqlite"
_MEGABYTE = 1_000_000
_DAY = 86_400.0
#: What is left of the largest size after it was passed, so that not every write has to make room.
_AFTER_PRUNING = 0.8


@dataclass(frozen=True, slots=True)
class Draft:
    """A change that is about to be made: the page's bytes before and after it, None where there is no page.

    ``moved_from`` is the old path of a page that moves. ``undoes`` is the entry that it takes back. Changes with the
    same ``batch`` are one operation.
    """

    path: str
    before: bytes | None
    after: bytes | None
    by: Origin
    why: str = ""
    moved_from: str | None = None
    undoes: int | None = None
    batch: int | None = None


def new_batch() -> int:
    """A number for the changes of one operation; to be asked for under the root's lock."""
    return time.time_ns() // 1_000


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

    def begin(self, draft: Draft, content: Content) -> int:
        """Put a change on record before it is made, and return its id. ``content`` reads a page, None if missing."""
        with self._translated(WriteError, draft.path):
            try:
                return self._begin(draft, content)
            except sqlite3.DatabaseError:
                if not self._set_aside():
                    raise
                return self._begin(draft, content)

    def _begin(self, draft: Draft, content: Content) -> int:
        with exclusive(self._connection()) as connection:
            settle(connection, content)
            hashes = [keep(connection, data) for data in (draft.before, draft.after)]
            keep_origins(connection, draft.path, draft.before, draft.after, draft.by, draft.moved_from, draft.undoes)
            row = (draft.by, draft.why, draft.path, draft.moved_from, draft.undoes, *hashes, draft.batch)
            cursor = connection.execute(
                "INSERT INTO entries(at, origin, why, path, moved_from, undoes, before, after, batch) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (time.time(), *row),
            )
            assert cursor.lastrowid is not None
            return cursor.lastrowid

    def drop(self, entry: int) -> None:
        """Strike out a change that did not come about."""
        with self._translated(WriteError), exclusive(self._connection()) as connection:
            connection.execute("DELETE FROM entries WHERE id = ?", (entry,))

    def settle(self, content: Content) -> None:
        """Strike out what a killed process put on record and did not do. For holders of the root's lock."""
        if self.exists():
            with self._translated(WriteError), exclusive(self._connection()) as connection:
                settle(connection, content)

    def prune(self, settings: JournalSettings, now: float) -> None:
        """Forget entries older than ``keep_days``, and the oldest ones while all is larger than ``max_mb``.

        The newest entry stays. ``now`` is a Unix time. For holders of the root's lock.
        """
        with self._translated(WriteError):
            connection = self._connection()
            oldest = now - settings.keep_days * _DAY
            limit = settings.max_mb * _MEGABYTE
            (aged,) = connection.execute("SELECT EXISTS (SELECT 1 FROM entries WHERE at < ?)", (oldest,)).fetchone()
            if not aged and size(connection) <= limit:
                return
            with exclusive(connection):
                forget(connection, "at < ? AND id < (SELECT max(id) FROM entries)", (oldest,))
                if size(connection) > limit:
                    shrink(connection, int(limit * _AFTER_PRUNING))

    # -- reading ------------------------------------------------------------------------------------------------

    def exists(self) -> bool:
        """Whether anything has been put on record."""
        return self.state() is not None

    def state(self) -> os.stat_result | None:
        """The state of the journal's file, which changes with every entry; None if there is none."""
        try:
            return self._path.stat()
        except OSError:
            return None

    def entries(self, path: str | None = None, content: Content | None = None) -> Iterator[LogEntry]:
        """What is on record, newest first; with ``path``, what happened to that page under its present name and
        under the names it had before. With ``content``, without what was announced and not done."""
        if not self.exists():
            return
        with self._translated(StoreError):
            rows = self._connection().execute(f"SELECT {COLUMNS}, open FROM entries ORDER BY id DESC").fetchall()  # noqa: S608
        for *row, is_open in rows:
            entry = as_entry(row)
            if path is not None and entry.path != path:
                continue
            if content is not None and is_open and not is_done(content, entry.path, entry.moved_from, *row[-2:]):
                continue
            yield entry
            path = entry.moved_from if path is not None and entry.moved_from is not None else path

    def entry(self, number: int) -> LogEntry:
        """One entry. Raises UsageError if there is none with that number."""
        found = None
        if self.exists():
            with self._translated(StoreError):
                sql = f"SELECT {COLUMNS} FROM entries WHERE id = ?"  # noqa: S608
                found = self._connection().execute(sql, (number,)).fetchone()
        if found is None:
            raise UsageError(f"{number}: there is no such entry in the journal; `vademecum log` lists them")
        return as_entry(found)

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

    def origins(self, path: str) -> Mapping[bytes, Origin]:
        """Who wrote the lines of a page that no person wrote, by ``origins.line_key``."""
        if not self.exists():
            return {}
        with self._translated(StoreError):
            return origins_of(self._connection(), path)

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
            migrate(connection, file, (schema, add_batches))
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


def prune(root: Path, settings: JournalSettings, now: float) -> None:
    """Keep the journal of a root within its bounds: see `Journal.prune`."""
    with root_lock(root), Journal(root) as journal:
        if journal.exists():
            journal.prune(settings, now)
