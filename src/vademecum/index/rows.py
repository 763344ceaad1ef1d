"""Rows of sources and chunks: written one source at a time, read back by id."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from vademecum.index.schema import DISTRUSTED, bump_generation, bump_stamps, stored_words
from vademecum.sqlite import Connection
from vademecum.types import Chunk, ChunkRow, Source

_SOURCE_COLUMNS = "path, scope, kind, date, stat, fingerprint, settled, tags"
_IDENTITY = tuple[str, bytes, int]

#: Chunks of a file that start in certain lines.
IN_LINES = "file_id = ? AND start_line >= ? AND start_line < ?"
_FAR = 2**62


def load_sources(connection: sqlite3.Connection) -> dict[str, Source]:
    """All sources by path."""
    rows = connection.execute(f"SELECT {_SOURCE_COLUMNS} FROM files")  # noqa: S608
    return {
        path: Source(path, scope, kind, date, stat, fingerprint, bool(settled), unpack(tags))
        for path, scope, kind, date, stat, fingerprint, settled, tags in rows
    }


class Lines(NamedTuple):
    """Lines of a source: from ``first``, up to but without ``until`` (None: to the end)."""

    first: int = 1
    until: int | None = None

    @property
    def bounds(self) -> tuple[int, int]:
        """The parameters of IN_LINES that follow the file's id."""
        return self.first, _FAR if self.until is None else self.until


def replace_source(
    connection: sqlite3.Connection,
    source: Source,
    chunks: Sequence[Chunk],
    lines: Lines = Lines(),  # noqa: B008
) -> int:
    """Make ``chunks`` the only rows of ``source`` that start in ``lines``; returns its file id. Call in a transaction.

    A chunk whose identity (heading, hash, occurrence) was there before keeps its id and its words, unless the
    source is distrusted: then all its rows are written anew.
    """
    file_id, trusted = _upsert_file(connection, source)
    if not trusted:
        _delete_chunks(connection, _chunk_ids(connection, file_id))
    old = {
        (heading, digest, occurrence): (chunk_id, start, end, scope, kind, date)
        for chunk_id, heading, digest, occurrence, start, end, scope, kind, date in connection.execute(
            "SELECT id, heading, hash, occurrence, start_line, end_line, scope, kind, date"  # noqa: S608
            f" FROM chunks WHERE {IN_LINES}",
            (file_id, *lines.bounds),
        )
    }
    new: list[tuple[_IDENTITY, Chunk]] = []
    moved = []
    for chunk in chunks:
        identity = (_pack(chunk.heading), chunk.hash, chunk.occurrence)
        date = chunk.date or source.date
        known = old.pop(identity, None)
        if known is None:
            new.append((identity, chunk))
        elif known[1:] != (chunk.start_line, chunk.end_line, source.scope, source.kind, date):
            moved.append((chunk.start_line, chunk.end_line, source.scope, source.kind, date, known[0]))
    _delete_chunks(connection, [row[0] for row in old.values()])
    connection.executemany(
        "UPDATE chunks SET start_line = ?, end_line = ?, scope = ?, kind = ?, date = ? WHERE id = ?", moved
    )
    _insert_chunks(connection, file_id, source, new)
    bump_generation(connection)
    return file_id


def _upsert_file(connection: sqlite3.Connection, source: Source) -> tuple[int, bool]:
    """The file's id, and whether rows that it had before may be kept."""
    values = _source_values(source)
    row = connection.execute("SELECT id, fingerprint FROM files WHERE path = ?", (source.path,)).fetchone()
    if row is None:
        cursor = connection.execute(
            f"INSERT INTO files({_SOURCE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
            values,
        )
        return int(cursor.lastrowid or 0), True
    connection.execute(
        f"UPDATE files SET ({_SOURCE_COLUMNS}) = (?, ?, ?, ?, ?, ?, ?, ?) WHERE id = ?",  # noqa: S608
        (*values, row[0]),
    )
    return int(row[0]), row[1] != DISTRUSTED


def _insert_chunks(
    connection: sqlite3.Connection, file_id: int, source: Source, new: Sequence[tuple[_IDENTITY, Chunk]]
) -> None:
    if not new:
        return
    # AUTOINCREMENT's own counter: ids are never reused, so a cached id cannot come to mean another text.
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'chunks'").fetchone()
    first = (row[0] if row else 0) + 1
    connection.executemany(
        "INSERT INTO chunks(id, file_id, scope, kind, date, heading, hash, occurrence, start_line, end_line, text)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (
                chunk_id,
                file_id,
                source.scope,
                source.kind,
                chunk.date or source.date,
                *identity,
                chunk.start_line,
                chunk.end_line,
                chunk.text,
            )
            for chunk_id, (identity, chunk) in enumerate(new, first)
        ),
    )
    connection.executemany(
        "INSERT INTO words(rowid, heading, body) VALUES (?, ?, ?)",
        ((chunk_id, chunk.heading_words, chunk.words) for chunk_id, (_, chunk) in enumerate(new, first)),
    )


def touch_sources(connection: sqlite3.Connection, sources: Sequence[Source]) -> None:
    """Record new stamps for unchanged content; no generation, because no answer changes."""
    connection.executemany(
        "UPDATE files SET stat = ?, settled = ? WHERE path = ?",
        ((source.stat, source.settled, source.path) for source in sources),
    )
    bump_stamps(connection)


def move_sources(connection: sqlite3.Connection, paths: Mapping[str, str]) -> None:
    """Call each source by another path, unless that is taken. Call in a transaction."""
    connection.executemany(
        "UPDATE OR IGNORE files SET path = ? WHERE path = ?", ((new, old) for old, new in paths.items())
    )
    bump_generation(connection)


def delete_sources(connection: sqlite3.Connection, paths: Collection[str]) -> int:
    """Remove sources and their rows; returns how many existed. Call in a transaction."""
    removed = 0
    for path in paths:
        row = connection.execute("SELECT id FROM files WHERE path = ?", (path,)).fetchone()
        if row is None:
            continue
        _delete_chunks(connection, _chunk_ids(connection, row[0]))
        connection.execute("DELETE FROM files WHERE id = ?", row)
        removed += 1
    if removed:
        bump_generation(connection)
    return removed


def _chunk_ids(connection: sqlite3.Connection, file_id: int) -> list[int]:
    return [chunk_id for (chunk_id,) in connection.execute("SELECT id FROM chunks WHERE file_id = ?", (file_id,))]


def _delete_chunks(connection: sqlite3.Connection, ids: Sequence[int]) -> None:
    keys = [(chunk_id,) for chunk_id in ids]
    connection.executemany("DELETE FROM words WHERE rowid = ?", keys)
    connection.executemany("DELETE FROM chunks WHERE id = ?", keys)


def chunks_of(connection: sqlite3.Connection, path: str) -> list[int]:
    """Ids of the chunks of one source, in the order of its lines."""
    found = connection.execute(
        "SELECT c.id FROM chunks c JOIN files f ON f.id = c.file_id WHERE f.path = ? ORDER BY c.start_line, c.id",
        (path,),
    )
    return [chunk_id for (chunk_id,) in found]


def load_chunks(connection: Connection, ids: Sequence[int]) -> list[ChunkRow]:
    """The rows in the order of ``ids``; ids that do not exist are left out."""
    rows = connection.execute(
        "SELECT c.id, f.path, c.scope, c.kind, c.date, c.heading, c.start_line, c.end_line, c.text, w.body, w.heading"  # noqa: S608
        " FROM json_each(?) j CROSS JOIN chunks c ON c.id = j.value CROSS JOIN files f ON f.id = c.file_id"
        f" CROSS JOIN {stored_words(connection)} w ON w.id = c.id",
        (json.dumps([*ids]),),
    )
    found = {
        chunk_id: ChunkRow(chunk_id, path, scope, kind, date, unpack(heading), first, last, text, body, heading_words)
        for chunk_id, path, scope, kind, date, heading, first, last, text, body, heading_words in rows
    }
    return [found[chunk_id] for chunk_id in ids if chunk_id in found]


def _source_values(source: Source) -> tuple[object, ...]:
    return (
        source.path,
        source.scope,
        source.kind,
        source.date,
        source.stat,
        source.fingerprint,
        source.settled,
        _pack(source.tags),
    )


def _pack(texts: Sequence[str]) -> str:
    return json.dumps(texts, ensure_ascii=False) if texts else "[]"


def unpack(text: str) -> tuple[str, ...]:
    """A list column as the texts it holds."""
    if text == "[]":
        return ()
    # Where nothing is escaped, no quotation mark stands in a text: five times as fast as the parser.
    return tuple(json.loads(text)) if "\\" in text else tuple(text[2:-2].split('", "'))
