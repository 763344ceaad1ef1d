"""`MemoryStorage`: chunks, one by one, in a database of their own.

The memory itself does not use it: its index is made of pages. It is for hosts that keep chunks without pages.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vademecum.compat.cowagent.memory.vector_backend import (
    SQLiteVectorBackend,
    VectorBackend,
    VectorRecord,
    decoded,
)
from vademecum.errors import UsageError
from vademecum.index.schema import fts5_available
from vademecum.sqlite.foreign import ask
from vademecum.text.query import query_terms
from vademecum.text.tokens import tokenize

#: Tells our file from CowAgent's own, which is read once and never written.
_OURS = 0x76616465
_SNIPPET = 500
_TABLES = """
CREATE TABLE IF NOT EXISTS chunks(n INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, user_id TEXT,
    scope TEXT NOT NULL DEFAULT 'shared', source TEXT NOT NULL DEFAULT 'memory', path TEXT NOT NULL,
    start_line INTEGER NOT NULL, end_line INTEGER NOT NULL, text TEXT NOT NULL, embedding BLOB, hash TEXT NOT NULL,
    metadata TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS chunks_path ON chunks(path);
CREATE TABLE IF NOT EXISTS files(path TEXT PRIMARY KEY, source TEXT, hash TEXT NOT NULL, mtime INTEGER, size INTEGER,
    updated_at INTEGER NOT NULL);
"""
_WORDS = "CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(body, tokenize = 'unicode61')"
_COLUMNS = "id, user_id, scope, source, path, start_line, end_line, text, embedding, hash, metadata"


@dataclass
class MemoryChunk:
    """A piece of text with where it is from and whose it is."""

    id: str
    user_id: str | None
    scope: str
    source: str
    path: str
    start_line: int
    end_line: int
    text: str
    embedding: Sequence[float] | None
    hash: str
    metadata: dict[str, Any] | None = None


@dataclass
class SearchResult:
    """A hit. ``id``, ``metadata`` and ``date``, the ISO day of a daily page, tell more than CowAgent's do."""

    path: str
    start_line: int
    end_line: int
    score: float
    snippet: str
    source: str
    user_id: str | None = None
    id: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    date: str | None = None


def snippet_of(text: str) -> str:
    """The beginning of a text."""
    return text if len(text) <= _SNIPPET else f"{text[:_SNIPPET]}..."


class MemoryStorage:
    """Safe to share between threads. ``vector_backend`` keeps the vectors elsewhere.

    For the path of a database that CowAgent made, the chunks are taken over into ``<name>.vademecum.db`` beside it.
    """

    def __init__(self, db_path: str | Path, vector_backend: VectorBackend | None = None) -> None:
        given = Path(db_path)
        foreign = given if _is_foreign(given) else None
        self.db_path = given if foreign is None else given.with_name(f"{given.stem}.vademecum.db")
        self.fts5_available = fts5_available()
        self.trigram_fts5_available = self.fts5_available  # one index serves every script
        self._lock = threading.RLock()
        if str(given) != ":memory:":
            self.db_path.parent.mkdir(parents=True, exist_ok=True)
        fresh = str(given) == ":memory:" or not self.db_path.exists()
        self.conn = sqlite3.connect(self.db_path, check_same_thread=False, isolation_level=None, timeout=5)
        self.conn.execute("PRAGMA journal_mode = WAL")
        self.conn.executescript(_TABLES)
        if self.fts5_available:
            self.conn.execute(_WORDS)
        if fresh:
            self.conn.execute(f"PRAGMA application_id = {_OURS}")
        self.vector_backend = vector_backend or SQLiteVectorBackend(self.conn)
        if fresh and foreign is not None:
            self._take_over(foreign)

    # -- writing ------------------------------------------------------------------------------------------------

    def save_chunk(self, chunk: MemoryChunk) -> None:
        """Keep a chunk, in the place of the one with its id."""
        self.save_chunks_batch([chunk])

    def save_chunks_batch(self, chunks: Sequence[MemoryChunk]) -> None:
        """Keep chunks, all or none."""
        now = int(time.time())
        with self._transaction():
            for chunk in chunks:
                values = (chunk.user_id, chunk.scope, chunk.source, chunk.path, chunk.start_line, chunk.end_line)
                self.conn.execute(
                    "INSERT INTO chunks(user_id, scope, source, path, start_line, end_line, text, hash, metadata,"
                    " created_at, updated_at, id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                    " ON CONFLICT(id) DO UPDATE SET user_id = excluded.user_id, scope = excluded.scope,"
                    " source = excluded.source, path = excluded.path, start_line = excluded.start_line,"
                    " end_line = excluded.end_line, text = excluded.text, hash = excluded.hash, embedding = NULL,"
                    " metadata = excluded.metadata, updated_at = excluded.updated_at",
                    (*values, chunk.text, chunk.hash, _json(chunk.metadata), now, now, chunk.id),
                )
                self._index(chunk.id, chunk.text)
            records = [
                VectorRecord(chunk.id, chunk.embedding, _about(chunk))
                for chunk in chunks
                if chunk.embedding is not None
            ]
            if records:
                self.vector_backend.upsert(records)

    def delete_by_path(self, path: str) -> None:
        """Drop a file's chunks."""
        with self._transaction():
            self.vector_backend.delete(metadata_filter={"path": path})
            if self.fts5_available:
                self.conn.execute("DELETE FROM words WHERE rowid IN (SELECT n FROM chunks WHERE path = ?)", (path,))
            self.conn.execute("DELETE FROM chunks WHERE path = ?", (path,))
            self.conn.execute("DELETE FROM files WHERE path = ?", (path,))

    def update_file_metadata(self, path: str, source: str, file_hash: str, mtime: int, size: int) -> None:
        """Note what a file was when its chunks were kept."""
        with self._transaction():
            self.conn.execute(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)",
                (path, source, file_hash, int(mtime), size, int(time.time())),
            )

    def reset_fts5(self) -> None:
        """Write the index of words anew."""
        if self.fts5_available:
            with self._transaction():
                self.conn.execute("DELETE FROM words")
                for n, text in self.conn.execute("SELECT n, text FROM chunks").fetchall():
                    self.conn.execute("INSERT INTO words(rowid, body) VALUES (?, ?)", (n, _words(tokenize(text))))

    def clear(self) -> int:
        """Drop everything; returns how many chunks there were."""
        with self._transaction():
            (count,) = self.conn.execute("SELECT count(*) FROM chunks").fetchone()
            for (path,) in self.conn.execute("SELECT DISTINCT path FROM chunks").fetchall():
                self.vector_backend.delete(metadata_filter={"path": path})
            self.conn.execute("DELETE FROM chunks")
            self.conn.execute("DELETE FROM files")
            if self.fts5_available:
                self.conn.execute("DELETE FROM words")
        return int(count)

    # -- reading ------------------------------------------------------------------------------------------------

    def get_chunk(self, chunk_id: str) -> MemoryChunk | None:
        """The chunk with that id."""
        row = self._row("SELECT " + _COLUMNS + " FROM chunks WHERE id = ?", chunk_id)  # noqa: S608
        return None if row is None else _chunk(row)

    def get_file_hash(self, path: str) -> str | None:
        """What `update_file_metadata` noted."""
        row = self._row("SELECT hash FROM files WHERE path = ?", path)
        return None if row is None else str(row[0])

    def get_stats(self) -> dict[str, int]:
        """How many chunks, files and chunks with vectors there are."""
        row = self._row("SELECT count(*), count(embedding), (SELECT count(*) FROM files) FROM chunks")
        chunks, embedded, files = row or (0, 0, 0)
        return {"chunks": chunks, "files": files, "embedded": embedded}

    def vector_dims(self) -> int | None:
        """How many numbers a stored vector has; None if there is none here."""
        row = self._row("SELECT length(embedding) / 4 FROM chunks WHERE embedding IS NOT NULL LIMIT 1")
        return None if row is None else int(row[0])

    def search_vector(
        self,
        query_embedding: Sequence[float],
        user_id: str | None = None,
        scopes: Sequence[str] | None = None,
        limit: int = 10,
    ) -> list[SearchResult]:
        """The nearest chunks of the scopes; those of scope "user" only of ``user_id``."""
        permitted = _permitted(scopes, user_id)
        if not permitted:
            return []
        about: dict[str, Any] = {"scopes": permitted}
        if user_id is not None:
            about["user_id"] = user_id
        with self._lock:
            found = self.vector_backend.search(query_embedding, limit, about)
        named = ((self.get_chunk(match.id), match.score) for match in found)
        return [_result(chunk, score) for chunk, score in named if chunk is not None]

    def search_keyword(
        self, query: str, user_id: str | None = None, scopes: Sequence[str] | None = None, limit: int = 10
    ) -> list[SearchResult]:
        """The chunks of the scopes that share words with the query, of whatever script, by BM25."""
        permitted, terms = _permitted(scopes, user_id), query_terms(query).terms
        if not permitted or not terms or limit <= 0:
            return []
        marks = ", ".join("?" * len(permitted))
        whose = f"scope IN ({marks}) AND (scope <> 'user' OR user_id = ?)"
        if self.fts5_available:
            statement = (
                "SELECT id, bm25(words) FROM words JOIN chunks ON n = words.rowid"  # noqa: S608 - our own names
                f" WHERE words MATCH ? AND {whose} ORDER BY 2, n LIMIT ?"
            )
            match = " OR ".join(f'"{word}"' for word in _words(terms).split())
            rows = self._rows(statement, match, *permitted, user_id, limit)
        else:
            wanted = set(terms)
            every = self._rows(f"SELECT id, text FROM chunks WHERE {whose} ORDER BY n", *permitted, user_id)  # noqa: S608
            counted = [(name, -float(len(wanted & set(tokenize(text))))) for name, text in every]
            rows = sorted((row for row in counted if row[1]), key=lambda row: row[1])[:limit]
        named = ((self.get_chunk(name), abs(rank)) for name, rank in rows)
        return [_result(chunk, 0.3 + 0.69 * rank / (1 + rank)) for chunk, rank in named if chunk is not None]

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self.conn.close()

    @staticmethod
    def compute_hash(content: str) -> str:
        """SHA-256 of a text, in hex."""
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()

    # -- rows ---------------------------------------------------------------------------------------------------

    def _index(self, name: str, text: str) -> None:
        if self.fts5_available:
            (n,) = self.conn.execute("SELECT n FROM chunks WHERE id = ?", (name,)).fetchone()
            self.conn.execute("DELETE FROM words WHERE rowid = ?", (n,))
            self.conn.execute("INSERT INTO words(rowid, body) VALUES (?, ?)", (n, _words(tokenize(text))))

    def _take_over(self, foreign: Path) -> None:
        rows = ask(foreign, str(foreign), f"SELECT {_COLUMNS} FROM chunks")  # noqa: S608 - our own names
        self.save_chunks_batch([_chunk(row) for row in rows])

    def _row(self, statement: str, *values: object) -> tuple[Any, ...] | None:
        with self._lock:
            row: tuple[Any, ...] | None = self.conn.execute(statement, values).fetchone()
        return row

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock:
            return self.conn.execute(statement, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            self.conn.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self.conn.execute("ROLLBACK")
                raise
            self.conn.execute("COMMIT")


def _chunk(row: Sequence[Any]) -> MemoryChunk:
    name, user_id, scope, source, path, start, end, text, embedding, digest, metadata = row
    about = json.loads(metadata or "{}")
    return MemoryChunk(name, user_id, scope, source, path, start, end, text, decoded(embedding), digest, about)


def _is_foreign(file: Path) -> bool:
    """Whether another program made the database: it has chunks or sessions, and not our mark."""
    if str(file) == ":memory:" or not file.is_file() or not file.stat().st_size:
        return False
    ((mark,),) = ask(file, str(file), "SELECT * FROM pragma_application_id")
    return bool(mark != _OURS)


def _permitted(scopes: Sequence[str] | None, user_id: str | None) -> list[str]:
    """The scopes that may be looked into. Raises UsageError for private ones of nobody in particular."""
    wanted = list(scopes) if scopes is not None else ["shared", *(["user"] if user_id is not None else [])]
    if "user" in wanted and user_id is None:
        raise UsageError("scopes holds 'user', but user_id says of nobody: it would be everybody's")
    return wanted


def _words(terms: Sequence[str]) -> str:
    # Spelled in letters and digits, so that the full-text parser finds exactly our words again.
    return " ".join(f"x{term.encode().hex()}" for term in terms)


def _about(chunk: MemoryChunk) -> dict[str, Any]:
    return {"path": chunk.path, "source": chunk.source, "scope": chunk.scope, "user_id": chunk.user_id}


def _result(chunk: MemoryChunk, score: float) -> SearchResult:
    return SearchResult(
        chunk.path,
        chunk.start_line,
        chunk.end_line,
        score,
        snippet_of(chunk.text),
        chunk.source,
        chunk.user_id,
        chunk.id,
        chunk.metadata or {},
    )


def _json(metadata: dict[str, Any] | None) -> str | None:
    return None if metadata is None else json.dumps(metadata, ensure_ascii=False)
