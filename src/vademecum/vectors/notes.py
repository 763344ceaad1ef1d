"""Small facts about models that were dear to learn, kept beside their vectors in ``vectors.meta``."""

from __future__ import annotations

import sqlite3


def recall(connection: sqlite3.Connection, key: str) -> str | None:
    """What was recorded under ``key``."""
    row = connection.execute("SELECT value FROM vectors.meta WHERE key = ?", (f"note {key}",)).fetchone()
    return None if row is None else str(row[0])


def record(connection: sqlite3.Connection, key: str, value: str) -> None:
    """Keep ``value`` under ``key`` in the place of what was there. Call in a transaction."""
    connection.execute("INSERT OR REPLACE INTO vectors.meta VALUES (?, ?)", (f"note {key}", value))
