"""The index of a workspace, as hosts look at it through ``manager.storage``."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vademecum.compat.cowagent.desk import Desk
from vademecum.compat.cowagent.memory.storage import MemoryChunk, MemoryStorage, SearchResult, snippet_of
from vademecum.embed.boundary import unit_rows
from vademecum.errors import UsageError
from vademecum.settings import Settings
from vademecum.types import ChunkRow, Condition, Hit, Kind, Scope

_SOURCES: Mapping[Kind, str] = {"memory": "memory", "daily": "memory", "knowledge": "knowledge", "session": "session"}
_METADATA = "metadata: "


class IndexView:
    """What `MemoryStorage` offers, of an index that holds what the pages hold.

    It cannot be written chunk by chunk: write a page. Chunks are named by numbers, as text.
    """

    fts5_available = True
    trigram_fts5_available = True
    vector_backend = None

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._connection: sqlite3.Connection | None = None

    @property
    def conn(self) -> sqlite3.Connection:
        """A connection that only reads; the tables are ours (``chunks``, ``files``, ``words``)."""
        if self._connection is None:
            with self._desk.lend() as memory:
                memory.search("-", wait_ms=1)
            file = self._desk.root / ".vademecum" / "index.sqlite"
            self._connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, check_same_thread=False)
        return self._connection

    def get_stats(self) -> dict[str, int]:
        """How many chunks, files and chunks with vectors there are."""
        with self._desk.lend() as memory:
            health = memory.status().index
        if health is None:
            return {"chunks": 0, "files": 0, "embedded": 0}
        return {"chunks": health.chunks, "files": health.sources, "embedded": max(health.vectors.values(), default=0)}

    def vector_dims(self) -> int | None:
        """How many numbers the vectors have that answer now; None if there are none."""
        with self._desk.lend() as memory, memory._core.open_index().reader() as reader:
            return next((lane.dims for lane in reader.lanes() if lane.state == "serving"), None)

    def get_file_hash(self, path: str) -> str | None:
        """SHA-256 of the page as it was indexed."""
        with self._desk.lend() as memory:
            source = memory._core.open_index().fingerprints().get(path)
        return None if source is None else source.fingerprint

    def get_chunk(self, chunk_id: str) -> MemoryChunk | None:
        """The chunk with that number, without its vector."""
        if not chunk_id.isdecimal():
            return None
        with self._desk.lend() as memory, memory._core.open_index().reader() as reader:
            rows = reader.get([int(chunk_id)])
        return _chunk(rows[0]) if rows else None

    def delete_by_path(self, path: str) -> None:
        """Look at the page again: what is gone from disk is gone from the index, and nothing else."""
        with self._desk.lend() as memory:
            memory._core.index_file(path)

    def search_keyword(
        self, query: str, user_id: str | None = None, scopes: Sequence[str] | None = None, limit: int = 10
    ) -> list[SearchResult]:
        """The best chunks by words alone."""
        with self._desk.lend(_viewer(user_id, scopes), words_only(self._desk.settings())) as memory:
            hits = memory.search(query, max_results=limit, min_score=0, decay=False, mmr=False)
        return [result_of(hit) for hit in hits]

    def search_vector(
        self,
        query_embedding: Sequence[float],
        user_id: str | None = None,
        scopes: Sequence[str] | None = None,
        limit: int = 10,
    ) -> list[SearchResult]:
        """The nearest chunks; none for a vector of other dimensions than the index has."""
        vector = unit_rows([list(query_embedding)], "query_embedding")[0]
        with self._desk.lend(_viewer(user_id, scopes)) as memory, memory._core.open_index().reader() as reader:
            lane = next((lane for lane in reader.lanes() if lane.state == "serving" and lane.dims == vector.size), None)
            if lane is None:
                return []
            found = reader.search_vector(lane, vector, limit, (Condition("scope", "in", memory._viewer.scopes),))
            scores = {scored.id: scored.score for scored in found if scored.score > 0}
            rows = reader.get(list(scores))
        return [_row_result(row, scores[row.id]) for row in rows]

    def save_chunk(self, chunk: MemoryChunk) -> None:
        """Refused: a chunk without a page would be lost with the next rebuild. Raises UsageError."""
        self.save_chunks_batch([chunk])

    def save_chunks_batch(self, chunks: Sequence[MemoryChunk]) -> None:
        """Refused likewise."""
        raise UsageError(f"{len(chunks)} chunks: the index holds what the pages hold; write a page, or use add_memory")

    def update_file_metadata(self, path: str, source: str, file_hash: str, mtime: int, size: int) -> None:
        """Refused likewise."""
        raise UsageError(f"{path}: what was indexed of a page is noted by the index itself ({source}, {size} bytes)")

    def reset_fts5(self) -> None:
        """Write the index anew; vectors stay."""
        with self._desk.lend() as memory:
            memory.rebuild()

    def close(self) -> None:
        """Close the reading connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    compute_hash = staticmethod(MemoryStorage.compute_hash)


def words_only(settings: Settings) -> Settings:
    """The settings with the vector channel off: no model is asked."""
    return replace(settings, search=replace(settings.search, vector_weight=0, text_weight=1))


def result_of(hit: Hit, root: Path | None = None) -> SearchResult:
    """A hit as the host knows it, with the page's metadata if ``root`` says where it is."""
    metadata = {} if root is None else metadata_of(root / hit.path)
    return SearchResult(
        hit.path,
        hit.start_line,
        hit.end_line,
        hit.score,
        snippet_of(hit.text),
        _SOURCES[hit.kind],
        user_of(hit.scope),
        chunk_name(hit.path, hit.start_line, hit.end_line, hit.text),
        metadata,
        hit.date,
    )


def chunk_name(path: str, start_line: int, end_line: int, text: str = "") -> str:
    """Names a chunk by its place and what it says, so that pieces of one line have names of their own."""
    return MemoryStorage.compute_hash(f"{path}:{start_line}:{end_line}:{text}")[:32]


def user_of(scope: Scope) -> str | None:
    """The user whose scope it is."""
    kind, _, owner = scope.partition(":")
    return owner if kind == "user" else None


def with_metadata(content: str, metadata: Mapping[str, Any] | None) -> str:
    """A page that says what is known about it in front."""
    if not metadata:
        return content
    return f"---\n{_METADATA}{json.dumps(metadata, ensure_ascii=False, sort_keys=True)}\n---\n{content}"


def metadata_of(page: Path) -> dict[str, Any]:
    """What `with_metadata` put in front of a page; empty for any other."""
    try:
        with page.open(encoding="utf-8") as lines:
            if lines.readline() != "---\n":
                return {}
            line = lines.readline(65_536)
        found = json.loads(line.removeprefix(_METADATA)) if line.startswith(_METADATA) else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _viewer(user_id: str | None, scopes: Sequence[str] | None) -> str | None:
    if scopes is not None and "user" in scopes and user_id is None:
        raise UsageError("scopes holds 'user', but user_id says of nobody: it would be everybody's")
    return user_id


def _chunk(row: ChunkRow) -> MemoryChunk:
    return MemoryChunk(
        str(row.id),
        user_of(row.scope),
        "shared" if user_of(row.scope) is None else "user",
        _SOURCES[row.kind],
        row.path,
        row.start_line,
        row.end_line,
        row.text,
        None,
        MemoryStorage.compute_hash(row.text),
        {"heading": list(row.heading), "date": row.date},
    )


def _row_result(row: ChunkRow, score: float) -> SearchResult:
    chunk = _chunk(row)
    return SearchResult(
        row.path,
        row.start_line,
        row.end_line,
        score,
        snippet_of(row.text),
        chunk.source,
        chunk.user_id,
        chunk.id,
        chunk.metadata or {},
        row.date,
    )
