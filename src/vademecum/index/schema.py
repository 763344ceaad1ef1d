"""Tables of index.sqlite.

``chunks.heading`` and ``files.tags`` are JSON arrays of texts. ``words`` has the chunk's id as rowid. It is an
ordinary FTS5 table: contentless ones need the exact old tokens to delete and keep ghosts that the integrity check
does not see. Its tokenizer only splits at spaces, because our own tokens are joined by them.

``meta`` is always named with its database: the attached vectors file has one too, and a connection that has not yet
seen this file's tables would read that one instead.
"""

from __future__ import annotations

import sqlite3
import string
from functools import cache

from vademecum.sqlite import Connection
from vademecum.types import IndexSpec

#: The fingerprint of a source whose rows must not be kept.
DISTRUSTED = ""

_TABLES = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('generation', '0'), ('stamps', '0'), ('spec', ''), ('vectors_uid', '');
CREATE TABLE files(
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, scope TEXT NOT NULL, kind TEXT NOT NULL, date TEXT,
    stat TEXT NOT NULL, fingerprint TEXT NOT NULL, settled INTEGER NOT NULL, tags TEXT NOT NULL);
CREATE TABLE chunks(
    id INTEGER PRIMARY KEY AUTOINCREMENT, file_id INTEGER NOT NULL, scope TEXT NOT NULL, kind TEXT NOT NULL, date TEXT,
    heading TEXT NOT NULL, hash BLOB NOT NULL, occurrence INTEGER NOT NULL, text_id INTEGER,
    start_line INTEGER NOT NULL, end_line INTEGER NOT NULL, text TEXT NOT NULL);
CREATE INDEX chunks_file ON chunks(file_id);
CREATE INDEX chunks_text ON chunks(text_id);
CREATE INDEX chunks_filter ON chunks(scope, kind, date, text_id);
CREATE INDEX chunks_unlinked ON chunks(hash) WHERE text_id IS NULL;
"""

_TOKEN_CHARACTERS = string.punctuation.replace("'", "''")
_FULL_TEXT = """
CREATE VIRTUAL TABLE words USING fts5(heading, body, tokenize = "ascii tokenchars '{marks}'");
CREATE VIRTUAL TABLE vocabulary USING fts5vocab(words, row);
"""
_PLAIN_WORDS = "CREATE TABLE words(rowid INTEGER PRIMARY KEY, heading TEXT NOT NULL, body TEXT NOT NULL);"


@cache
def fts5_available() -> bool:
    """Whether the SQLite library was built with full text."""
    probe = sqlite3.connect(":memory:")
    try:
        probe.execute("CREATE VIRTUAL TABLE probe USING fts5(a)")
    except sqlite3.OperationalError:
        return False
    finally:
        probe.close()
    return True


def has_full_text(connection: sqlite3.Connection) -> bool:
    """Whether this index was created with full text (a later SQLite library may differ)."""
    return connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = 'vocabulary'").fetchone() is not None


def full_text(connection: Connection) -> bool:
    """`has_full_text`, asked once for each state of the index."""
    return connection.noted(("main",), "full text", lambda: has_full_text(connection))


def stored_words(connection: Connection) -> str:
    """Where the chunks' words stand, with columns id, heading and body.

    FTS5 keeps the columns of a table in one of this name (sqlite.org/fts5.html, 9); read there they cost half as much.
    """
    if full_text(connection):
        return "(SELECT id, c0 AS heading, c1 AS body FROM words_content)"
    return "(SELECT rowid AS id, heading, body FROM words)"


def _first(connection: sqlite3.Connection) -> None:
    words = _full_text_tables() if fts5_available() else _PLAIN_WORDS
    for statement in _statements(_TABLES + words):
        connection.execute(statement)


def _full_text_tables() -> str:
    # Inside a double-quoted SQL string a double quote is doubled; inside FTS5's single quotes likewise.
    return _FULL_TEXT.replace("{marks}", _TOKEN_CHARACTERS.replace('"', '""'))


def _statements(script: str) -> list[str]:
    # executescript() would commit the migration's transaction.
    statements, pending = [], ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            statements.append(pending.strip())
            pending = ""
    return statements


def _second(connection: sqlite3.Connection) -> None:
    """A few lines of a long transcript are found without a look at the rest."""
    connection.execute("DROP INDEX chunks_file")
    connection.execute("CREATE INDEX chunks_file ON chunks(file_id, start_line)")


MIGRATIONS = (_first, _second)


def adopt_spec(connection: sqlite3.Connection, spec: IndexSpec) -> bool:
    """Empty the index if its rows were made under another spec; returns whether it was. Call in a transaction."""
    if has_spec(connection, spec):
        return False
    clear(connection)
    connection.execute("UPDATE main.meta SET value = ? WHERE key = 'spec'", (_spec_line(spec),))
    return True


def has_spec(connection: sqlite3.Connection, spec: IndexSpec) -> bool:
    """Whether the rows were made under ``spec``."""
    return _value(connection, "spec") == _spec_line(spec)


def vectors_uid(connection: sqlite3.Connection) -> str:
    """The vectors file whose text ids stand in ``chunks``."""
    return _value(connection, "vectors_uid")


def _spec_line(spec: IndexSpec) -> str:
    return f"{spec.tokenizer}|{spec.chunker}"


def _value(connection: sqlite3.Connection, key: str) -> str:
    (value,) = connection.execute("SELECT value FROM main.meta WHERE key = ?", (key,)).fetchone()
    return str(value)


def clear(connection: sqlite3.Connection) -> None:
    """Delete all sources and rows. Call in a transaction."""
    for table in ("words", "chunks", "files"):
        connection.execute(f"DELETE FROM {table}")  # noqa: S608 - names from the line above
    bump_generation(connection)


def distrust(connection: sqlite3.Connection) -> None:
    """Mark every source so that it is read again and none of its rows is kept; rebuild full text. In a transaction."""
    connection.execute("UPDATE files SET stat = '', fingerprint = ?", (DISTRUSTED,))
    bump_stamps(connection)
    connection.execute("DELETE FROM words WHERE rowid NOT IN (SELECT id FROM chunks)")
    if has_full_text(connection):
        connection.execute("INSERT INTO words(words) VALUES ('rebuild')")


def bump_generation(connection: sqlite3.Connection) -> None:
    """Count one committed change of content."""
    connection.execute("UPDATE main.meta SET value = value + 1 WHERE key IN ('generation', 'stamps')")


def bump_stamps(connection: sqlite3.Connection) -> None:
    """Count one committed change of what is known of files, content or not."""
    connection.execute("UPDATE main.meta SET value = value + 1 WHERE key = 'stamps'")


def counter(connection: sqlite3.Connection, key: str) -> int:
    """How many changes have been committed; the first read of a snapshot, which pins it."""
    return int(_value(connection, key))
