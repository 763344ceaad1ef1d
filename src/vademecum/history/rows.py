"""Statements about sessions and messages, and records from their rows. Transactions are the caller's.

Each question is one statement that finds its rows by an index. ``:owner`` and ``:id`` name the session.
"""
# ruff: noqa: S608 - statements are put together from the constants of this module only

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

from vademecum.history.content import decode
from vademecum.history.drafts import Draft, title_of
from vademecum.history.records import Message, Session
from vademecum.history.turns import Threads

_OF_SESSION = "s.owner = :owner AND s.id = :id"
_KEY = f"(SELECT s.key FROM sessions s WHERE {_OF_SESSION})"
_SESSION = (
    "SELECT s.id, s.owner, s.channel, s.title, s.pinned, s.created_at, s.active_at, s.messages, s.context_start,"
    " s.next_seq, s.uid, s.stamp FROM sessions s"
)
_MESSAGES = (
    "SELECT m.seq, m.turn, m.opens, m.scheduled, m.role, m.at, m.body, m.extras, s.uid"
    f" FROM sessions s JOIN messages m ON m.session = s.key WHERE {_OF_SESSION}"
)
_OPENING = "FROM messages o WHERE o.session = s.key AND o.opens = 1"
#: The turn before the message :before that has so many others in between.
_TURN = f"SELECT o.seq {_OPENING} AND o.seq < :before ORDER BY o.seq DESC LIMIT 1 OFFSET"

LOAD = f"{_MESSAGES} AND m.turn >= max(s.context_start, coalesce(({_TURN} :skip), 0)) ORDER BY m.turn, m.seq"
PAGE = f"{_MESSAGES} AND m.turn BETWEEN coalesce(({_TURN} :last), 0) AND ({_TURN} :first) ORDER BY m.turn, m.seq"
PLACE = f"SELECT s.context_start, (SELECT count(*) {_OPENING} AND o.seq < :before) FROM sessions s WHERE {_OF_SESSION}"
TURNS = f"{_MESSAGES} ORDER BY m.turn, m.seq"
AFTER = f"{_MESSAGES} AND m.seq > :seq ORDER BY m.seq LIMIT :limit"
LAST = f"{_MESSAGES} ORDER BY m.seq DESC LIMIT :limit"
LATEST = (
    f"SELECT (SELECT o.seq {_OPENING} AND o.scheduled = 0 AND o.role = 'user' ORDER BY o.seq DESC LIMIT 1),"
    " (SELECT o.seq FROM messages o WHERE o.session = s.key AND o.role = 'assistant' ORDER BY o.seq DESC LIMIT 1)"
    f" FROM sessions s WHERE {_OF_SESSION}"
)
SESSION = f"{_SESSION} WHERE {_OF_SESSION}"
LIST = (
    f"{_SESSION} WHERE s.owner = :owner ORDER BY s.pinned DESC, s.active_at DESC, s.key DESC LIMIT :limit OFFSET :skip"
)
LIST_CHANNEL = LIST.replace("ORDER BY", "AND s.channel = :channel ORDER BY")
COUNT = "SELECT count(*) FROM sessions s WHERE s.owner = :owner"
COUNT_CHANNEL = f"{COUNT} AND s.channel = :channel"
IDS = "SELECT s.id FROM sessions s WHERE s.owner = :owner ORDER BY s.id"
OLD = f"{_SESSION} WHERE s.owner = :owner AND s.pinned = 0 AND s.active_at < :before ORDER BY s.active_at"
TOTALS = "SELECT s.channel, count(*), sum(s.messages) FROM sessions s WHERE s.owner = :owner GROUP BY s.channel"

_IS_TURN = f"EXISTS (SELECT 1 FROM messages o WHERE o.session = {_KEY} AND o.seq = :turn AND o.opens = 1)"
DELETE_TURN = f"DELETE FROM messages WHERE session = {_KEY} AND turn = :turn AND seq >= :first AND {_IS_TURN}"
DELETE_FROM = DELETE_TURN.replace("turn = :turn", "turn >= :turn", 1)
DELETE_MESSAGE = f"DELETE FROM messages WHERE session = {_KEY} AND seq = :seq"
DELETE_SCHEDULED = (
    f"DELETE FROM messages WHERE session = {_KEY} AND scheduled = 1 AND turn <= (SELECT o.seq FROM messages o"
    f" WHERE o.session = {_KEY} AND o.opens = 1 AND o.scheduled = 1 ORDER BY o.seq DESC LIMIT 1 OFFSET :keep)"
)
_ANNOTATED = f"SELECT m.key, m.seq, m.extras FROM messages m WHERE m.session = {_KEY}"
LAST_ANSWER = f"{_ANNOTATED} AND m.role = 'assistant' ORDER BY m.seq DESC LIMIT 1"
ONE_MESSAGE = f"{_ANNOTATED} AND m.seq = :seq"
RENAME = "UPDATE sessions AS s SET title = :title WHERE s.owner = :owner AND s.id = :id"
PIN = "UPDATE sessions AS s SET pinned = :pinned WHERE s.owner = :owner AND s.id = :id"
CLEAR_CONTEXT = f"UPDATE sessions AS s SET context_start = next_seq WHERE {_OF_SESSION}"
CONTEXT_START = f"SELECT s.context_start FROM sessions s WHERE {_OF_SESSION}"

_INSERT = (
    "INSERT INTO messages(session, seq, turn, opens, scheduled, role, at, body, extras)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class Known(NamedTuple):
    """What a writer must know of a session that exists."""

    key: int
    uid: str
    next_seq: int


def message(row: tuple[Any, ...]) -> Message:
    """From the columns of _MESSAGES."""
    seq, turn, opens, scheduled, role, at, body, extras, uid = row[:9]
    return Message(
        f"{uid}-{seq}", seq, turn, bool(opens), bool(scheduled), role, at, decode(body), decode(extras or "{}")
    )


def session(row: tuple[Any, ...]) -> Session:
    """From the columns of _SESSION."""
    name, owner, channel, title, pinned, *rest = row
    return Session(name, owner, channel, title, bool(pinned), *rest)


def find(db: sqlite3.Connection, owner: str, name: str) -> Known | None:
    """The session, if there is one."""
    row = db.execute("SELECT key, uid, next_seq FROM sessions WHERE owner = ? AND id = ?", (owner, name)).fetchone()
    return None if row is None else Known(*row)


def begin(db: sqlite3.Connection, owner: str, name: str, channel: str, at: float) -> Known:
    """A new session without messages."""
    (floor,) = db.execute("SELECT value FROM meta WHERE key = 'floor'").fetchone()
    uid = secrets.token_hex(8)
    cursor = db.execute(
        "INSERT INTO sessions(uid, owner, id, channel, title, pinned, created_at, active_at, messages, next_seq,"
        " context_start, stamp) VALUES (?, ?, ?, ?, '', 0, ?, ?, 0, ?, 0, '')",
        (uid, owner, name, channel, at, at, floor),
    )
    return Known(int(cursor.lastrowid or 0), uid, floor)


def store(db: sqlite3.Connection, known: Known, drafts: Sequence[Draft], active_at: float) -> list[Message]:
    """Store messages, which come in the order of ``seq`` and after all that are there, each in its turn."""
    opened = "SELECT max(seq) FROM messages WHERE session = ? AND opens = 1 AND scheduled = ?"
    threads = Threads(*(db.execute(opened, (known.key, scheduled)).fetchone()[0] for scheduled in (0, 1)))
    stored = []
    for draft in drafts:
        turn, opens = threads.place(draft.seq, draft.body, draft.scheduled)
        place = (draft.seq, turn, opens, draft.scheduled, draft.role, draft.at)
        db.execute(_INSERT, (known.key, *place, draft.text, draft.extras))
        stored.append(Message(f"{known.uid}-{draft.seq}", *place, draft.body, decode(draft.extras or "{}")))
    db.execute(
        "UPDATE sessions SET next_seq = max(next_seq, ?), active_at = max(active_at, ?),"
        " title = CASE title WHEN '' THEN ? ELSE title END WHERE key = ?",
        (max((draft.seq + 1 for draft in drafts), default=0), active_at, title_of(drafts), known.key),
    )
    touch(db, known.key, len(drafts))
    return stored


def touch(db: sqlite3.Connection, key: int | None, added: int) -> None:
    """Note that a session has so many messages more or fewer; None for one that is gone."""
    stamp = secrets.token_hex(8)
    db.execute("UPDATE meta SET value = ? WHERE key = 'stamp'", (stamp,))
    if key is not None:
        db.execute("UPDATE sessions SET messages = messages + ?, stamp = ? WHERE key = ?", (added, stamp, key))


def remove(db: sqlite3.Connection, key: int) -> int:
    """Delete a session with all its messages; returns how many those were."""
    db.execute(
        "UPDATE meta SET value = max(value, (SELECT next_seq FROM sessions WHERE key = ?)) WHERE key = 'floor'", (key,)
    )
    count = db.execute("DELETE FROM messages WHERE session = ?", (key,)).rowcount
    db.execute("DELETE FROM sessions WHERE key = ?", (key,))
    touch(db, None, 0)
    return count
