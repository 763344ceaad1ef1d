"""What can be wrong in index.sqlite, and how it is put right. Every check works in the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from vademecum.index import schema
from vademecum.text.query import match_expression
from vademecum.text.tokens import tokenize

#: Words that are looked up in full text and counted by a scan; rows whose words are made anew and compared.
_WORDS, _ROWS = 24, 200
_NAMED = 3

_GHOSTS = "SELECT rowid FROM words WHERE rowid NOT IN (SELECT id FROM chunks)"
_MUTE = "SELECT c.file_id FROM chunks c WHERE c.id NOT IN (SELECT rowid FROM words)"
_STRAY = "SELECT id FROM chunks WHERE file_id NOT IN (SELECT id FROM files)"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong, and the statements that mend it, run in one write transaction; () where reading all pages anew
    does, which ``distrust`` then asks for."""

    what: str
    statements: tuple[str, ...] = ()
    distrust: bool = False


def sound(connection: sqlite3.Connection, database: str) -> Iterator[Fault]:
    """SQLite's own check of "main" or "vectors"; reads all of it."""
    found = [verdict for (verdict,) in connection.execute(f"PRAGMA {database}.integrity_check({_NAMED})")]
    if found != ["ok"]:
        yield Fault("; ".join(str(verdict).replace("\n", " ") for verdict in found))


def full_text(connection: sqlite3.Connection) -> Iterator[Fault]:
    """FTS5's own check of its index against its rows (sqlite.org/fts5.html#the_integrity_check_command)."""
    if not schema.has_full_text(connection):
        return
    try:
        connection.execute("INSERT INTO words(words) VALUES ('integrity-check')")
    except sqlite3.OperationalError:
        raise  # locked, or cannot be written: that says nothing about the words
    except sqlite3.DatabaseError as error:
        yield Fault(f"the full text does not fit its rows ({error})", _REBUILD)


_REBUILD = ("INSERT INTO words(words) VALUES ('rebuild')",)


def rows(connection: sqlite3.Connection) -> Iterator[Fault]:
    """Rows that belong to nothing, and chunks that keyword search cannot find."""
    ghosts = _count(connection, _GHOSTS)
    if ghosts:
        yield Fault(f"{ghosts} rows of words belong to no chunk", (f"DELETE FROM words WHERE rowid IN ({_GHOSTS})",))  # noqa: S608
    stray = _count(connection, _STRAY)
    if stray:
        delete = (f"DELETE FROM words WHERE rowid IN ({_STRAY})", f"DELETE FROM chunks WHERE id IN ({_STRAY})")  # noqa: S608
        yield Fault(f"{stray} chunks belong to no file", delete)
    mute = _count(connection, _MUTE)
    if mute:
        again = f"UPDATE files SET stat = '', fingerprint = '{schema.DISTRUSTED}' WHERE id IN ({_MUTE})"  # noqa: S608
        yield Fault(f"{mute} chunks have no words", (again,))


def words(connection: sqlite3.Connection) -> Iterator[Fault]:
    """Rows whose words are not those of their text, in a sample of all."""
    (total,) = connection.execute("SELECT count(*) FROM chunks").fetchone()
    step = max(1, total // _ROWS)
    found = connection.execute(
        "SELECT f.path, c.text, w.body FROM chunks c JOIN files f ON f.id = c.file_id JOIN words w ON w.rowid = c.id"
        " WHERE c.id % ? = 0",
        (step,),
    )
    wrong = [path for path, text, body in found if " ".join(tokenize(text)) != body]
    if wrong:
        named = ", ".join(dict.fromkeys(wrong[:_NAMED]))
        yield Fault(
            f"{len(wrong)} of {total // step} chunks have other words than their text, first in {named}", (), True
        )


def lookup(connection: sqlite3.Connection) -> Iterator[Fault]:
    """Words that full text finds in another number of rows than a plain scan does."""
    if not schema.has_full_text(connection):
        return
    wrong = []
    padded = "instr(' ' || heading || ' ' || body || ' ', ?) > 0"
    for word in _sample(connection):
        (scanned,) = connection.execute(f"SELECT count(*) FROM words WHERE {padded}", (f" {word} ",)).fetchone()  # noqa: S608
        (found,) = connection.execute(
            "SELECT count(*) FROM words WHERE words MATCH ?", (match_expression((word,)),)
        ).fetchone()
        if found != scanned:
            wrong.append(f"{word!r} in {found} rows instead of {scanned}")
    if wrong:
        yield Fault(f"full text finds {'; '.join(wrong[:_NAMED])}", _REBUILD)


def _sample(connection: sqlite3.Connection) -> list[str]:
    """Words of rows spread over the index, the first and the last of each."""
    (last,) = connection.execute("SELECT coalesce(max(rowid), 0) FROM words").fetchone()
    step = max(1, last // (_WORDS // 2))
    bodies = connection.execute("SELECT body FROM words WHERE rowid % ? = 0", (step,)).fetchall()
    pairs = ((tokens[0], tokens[-1]) for tokens in (body.split() for (body,) in bodies) if tokens)
    return list(dict.fromkeys(word for pair in pairs for word in pair))[:_WORDS]


def _count(connection: sqlite3.Connection, query: str) -> int:
    (count,) = connection.execute(f"SELECT count(*) FROM ({query})").fetchone()  # noqa: S608
    return int(count)
