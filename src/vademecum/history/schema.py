"""Tables of history.sqlite.

``sessions.next_seq`` never goes back, and ``floor`` in ``meta`` is at least as large as that of any session that was
deleted: a new session starts there, so that "everything after message n" stays true even for a session that is
deleted and begun again under the same id. ``stamp`` is a random text that each change of messages replaces, for the
session and for the file; numbers would repeat themselves after a backup was put back.

``messages.turn`` orders a session for the model and for display, ``seq`` is the order of storing.
"""

from __future__ import annotations

import sqlite3

_TABLES = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('stamp', ''), ('floor', 0);
CREATE TABLE sessions(
    key INTEGER PRIMARY KEY AUTOINCREMENT, uid TEXT NOT NULL, owner TEXT NOT NULL, id TEXT NOT NULL,
    channel TEXT NOT NULL, title TEXT NOT NULL, pinned INTEGER NOT NULL, created_at REAL NOT NULL,
    active_at REAL NOT NULL, messages INTEGER NOT NULL, next_seq INTEGER NOT NULL, context_start INTEGER NOT NULL,
    stamp TEXT NOT NULL, UNIQUE (owner, id));
CREATE INDEX sessions_listed ON sessions(owner, pinned, active_at);
CREATE INDEX sessions_by_channel ON sessions(owner, channel, pinned, active_at);
CREATE TABLE messages(
    key INTEGER PRIMARY KEY, session INTEGER NOT NULL, seq INTEGER NOT NULL, turn INTEGER NOT NULL,
    opens INTEGER NOT NULL, scheduled INTEGER NOT NULL, role TEXT NOT NULL, at REAL NOT NULL, body TEXT NOT NULL,
    extras TEXT NOT NULL, UNIQUE (session, seq));
CREATE INDEX messages_by_turn ON messages(session, turn, seq);
CREATE INDEX messages_opening ON messages(session, seq, scheduled) WHERE opens = 1;
CREATE INDEX messages_scheduled ON messages(session, turn) WHERE scheduled = 1;
"""


def _first(connection: sqlite3.Connection) -> None:
    for statement in _TABLES.split(";\n"):
        connection.execute(statement)


MIGRATIONS = (_first,)
VERSION = len(MIGRATIONS)
