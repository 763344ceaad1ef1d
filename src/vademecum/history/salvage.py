"""Saving what can be read of a damaged history.sqlite. The damaged file is kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vademecum.errors import HistoryError
from vademecum.history import rows
from vademecum.history.content import decode
from vademecum.history.database import HistoryFile
from vademecum.history.schema import MIGRATIONS
from vademecum.sqlite import Connection, connect, exclusive, migrate

#: Whose the messages are whose session cannot be read: nobody's who could be meant.
FOUND_BY = "agent:salvaged"

#: A damaged page hides its rows, and one that leads to others hides theirs too: so far each number is tried.
_PATIENCE = 200_000
_LARGEST_KEY = 1 << 40

_SESSIONS = "key, uid, owner, id, channel, title, pinned, created_at, active_at, next_seq, context_start"
_MESSAGES = "key, session, seq, turn, opens, scheduled, role, at, body, extras"


@dataclass(frozen=True, slots=True)
class Salvaged:
    """``kept`` is where the damaged file now is, None if there was nothing to mend.

    ``lost`` estimates how many messages could not be read: their numbers are missing from what the sessions count.
    """

    kept: Path | None
    sessions: int = 0
    messages: int = 0
    lost: int = 0


def salvage(file: HistoryFile) -> Salvaged:
    """Put a sound file with all that can be read in the place of a damaged one; does nothing if it is sound.

    Sessions that cannot
    be read, but whose messages can, are found under the owner "agent:salvaged". Raises HistoryError kinds.
    """
    if not file.path.exists() or not file.problems():
        return Salvaged(None)
    fresh = file.path.with_name(f"{file.path.name}.new")
    fresh.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(file.path, isolation_level=None)) as source:
            with suppress(sqlite3.Error):
                source.execute("BEGIN IMMEDIATE")  # writers wait, and then find the new file
            with closing(connect(fresh)) as target:
                migrate(target, fresh, MIGRATIONS)
                with exclusive(target):
                    counts = _copy(source, target)
                target.execute("PRAGMA journal_mode = DELETE")  # one file, so that one rename moves it
            return Salvaged(file.exchange(fresh), *counts)
    except (sqlite3.Error, OSError) as error:
        raise HistoryError(f"{fresh}: cannot be written: {error}; the damaged file is where it was") from error
    finally:
        fresh.unlink(missing_ok=True)


def _copy(source: sqlite3.Connection, target: Connection) -> tuple[int, int, int]:
    """Sessions, messages, and messages that seem to be lost."""
    expected = 0
    for row in _readable(source, "sessions", f"{_SESSIONS}, messages"):
        with suppress(sqlite3.Error, TypeError):
            target.execute(_insert("sessions", f"{_SESSIONS}, messages, stamp"), (*row[:-1], 0, ""))
            expected += row[-1]
    for row in _readable(source, "messages", _MESSAGES):
        if _sound(row):
            with suppress(sqlite3.Error):
                target.execute(_insert("messages", _MESSAGES), row)
    for session, at in target.execute(_ORPHANS).fetchall():
        known = rows.begin(target, FOUND_BY, f"session-{session}", "", at)
        target.execute("UPDATE messages SET session = ? WHERE session = ?", (known.key, session))
    _recount(target, _floor(source))
    (sessions,) = target.execute("SELECT count(*) FROM sessions").fetchone()
    (messages,) = target.execute("SELECT count(*) FROM messages").fetchone()
    return sessions, messages, max(expected - messages, 0)


def _readable(source: sqlite3.Connection, table: str, columns: str) -> Iterator[tuple[Any, ...]]:
    """Every row that can be read, by its number; what cannot is passed over."""
    key, failures, step = 0, 0, 1
    statement = f"SELECT {columns} FROM {table} NOT INDEXED WHERE key > ? ORDER BY key"  # noqa: S608 - names from here
    while key < _LARGEST_KEY:
        try:
            for row in source.execute(statement, (key,)):
                yield row
                key, failures, step = row[0], 0, 1
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
                return  # no database at all, or no such table
            failures += 1
            step = step if failures < _PATIENCE else step * 2
            key += step
        else:
            return


def _sound(row: tuple[Any, ...]) -> bool:
    try:
        return isinstance(decode(row[-2]), dict) and isinstance(decode(row[-1] or "{}"), dict)
    except (ValueError, TypeError):
        return False


def _insert(table: str, columns: str) -> str:
    return f"INSERT INTO {table}({columns}) VALUES ({', '.join('?' * len(columns.split(', ')))})"  # noqa: S608


def _floor(source: sqlite3.Connection) -> int:
    with suppress(sqlite3.Error, TypeError, ValueError):
        return int(source.execute("SELECT value FROM meta WHERE key = 'floor'").fetchone()[0])
    return 0


_ORPHANS = "SELECT session, max(at) FROM messages WHERE session NOT IN (SELECT key FROM sessions) GROUP BY session"


def _recount(target: Connection, floor: int) -> None:
    target.execute(
        "UPDATE sessions SET messages = (SELECT count(*) FROM messages m WHERE m.session = sessions.key), next_seq ="
        " max(next_seq, coalesce((SELECT max(seq) + 1 FROM messages m WHERE m.session = sessions.key), 0))"
    )
    target.execute(
        "UPDATE meta SET value = max(?, coalesce((SELECT max(next_seq) FROM sessions), 0)) WHERE key = 'floor'",
        (floor,),
    )
    for (key,) in target.execute("SELECT key FROM sessions").fetchall():
        rows.touch(target, key, 0)
