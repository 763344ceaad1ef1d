"""The rows of a journal: entries, what is kept of pages, and what is forgotten first."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, TypeAlias

from vademecum.sqlite import Connection
from vademecum.store.origins import origins_schema
from vademecum.types import LogEntry

COLUMNS = "id, at, origin, why, path, moved_from, undoes, batch, before, after"

#: Reads a page by its path; None if it cannot be had.
Content: TypeAlias = Callable[[str], bytes | None]


def schema(connection: sqlite3.Connection) -> None:
    """Make the tables."""
    connection.execute(
        "CREATE TABLE entries(id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, origin TEXT NOT NULL, "
        "why TEXT NOT NULL, path TEXT NOT NULL, moved_from TEXT, undoes INTEGER, before BLOB, after BLOB, "
        "open INTEGER NOT NULL DEFAULT 1)"
    )
    connection.execute("CREATE INDEX open_entries ON entries(id) WHERE open")
    connection.execute("CREATE TABLE images(hash BLOB PRIMARY KEY, data BLOB NOT NULL)")
    origins_schema(connection)


def add_batches(connection: sqlite3.Connection) -> None:
    """Entries of one operation know of each other."""
    connection.execute("ALTER TABLE entries ADD COLUMN batch INTEGER")


def keep(connection: Connection, data: bytes | None) -> bytes | None:
    """Store a content, and return its hash."""
    if data is None:
        return None
    digest = sha256(data).digest()
    if not connection.execute("SELECT EXISTS (SELECT 1 FROM images WHERE hash = ?)", (digest,)).fetchone()[0]:
        connection.execute("INSERT INTO images VALUES (?, ?)", (digest, zlib.compress(data)))
    return digest


def settle(connection: Connection, content: Content) -> None:
    """Find out what became of open entries. A page that is still as before was not changed by its entry."""
    rows = connection.execute("SELECT id, path, moved_from, before, after FROM entries WHERE open").fetchall()
    for number, *change in rows:
        verdict = "UPDATE entries SET open = 0" if is_done(content, *change) else "DELETE FROM entries"
        connection.execute(f"{verdict} WHERE id = ?", (number,))


def is_done(
    content: Content,
    path: str,
    moved_from: str | None,
    before: bytes | None,
    after: bytes | None,
) -> bool:
    """Whether a change on record came about: it did unless the page is still as before, or still at its old path."""
    if moved_from is not None:
        return content(moved_from) is None
    data = content(path)
    return before == after or (None if data is None else sha256(data).digest()) != before


def forget(connection: Connection, condition: str, values: tuple[object, ...]) -> None:
    """Delete entries, and the contents that no other entry needs."""
    connection.execute(f"DELETE FROM entries WHERE {condition}", values)  # noqa: S608
    connection.execute(
        "DELETE FROM images WHERE hash NOT IN (SELECT before FROM entries WHERE before IS NOT NULL "
        "UNION SELECT after FROM entries WHERE after IS NOT NULL)"
    )


def shrink(connection: Connection, most: int) -> None:
    """Forget the oldest entries, a tenth at a time, until what is left takes at most ``most`` bytes."""
    while size(connection) > most:
        (count,) = connection.execute("SELECT count(*) FROM entries").fetchone()
        if count < 2:
            return
        sql = "id IN (SELECT id FROM entries ORDER BY id LIMIT ?)"
        forget(connection, sql, (min(count - 1, count // 10 + 1),))


def size(connection: Connection) -> int:
    """Bytes in use; pages that were freed are used again."""
    pages, free, page_size = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * page_size


def as_entry(row: Sequence[Any]) -> LogEntry:
    """A row of COLUMNS."""
    number, at, origin, why, path, moved_from, undoes, batch, before, after = row
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
        batch,
    )
