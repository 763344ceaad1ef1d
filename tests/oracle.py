"""The index port in plain Python: dicts, loops and textbook formulas. It is what the real backends must equal."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vademecum.types import (
    Calibration,
    Chunk,
    ChunkRow,
    Collected,
    Condition,
    Finding,
    Fingerprint,
    Frequencies,
    Health,
    Lane,
    MissingText,
    Scored,
    Source,
    Where,
)

COMPARE = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "in": lambda a, b: a in b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "prefix": lambda a, b: a.startswith(b),
    "glob": lambda a, b: any(fnmatch.fnmatchcase(a, glob) for glob in ((b,) if isinstance(b, str) else b)),
    "has": lambda a, b: b in a,
}


@dataclass
class Row:
    id: int
    source: Source
    chunk: Chunk

    @property
    def tokens(self) -> list[str]:
        return self.chunk.heading_words.split() + self.chunk.words.split()

    def field(self, name: str) -> Any:
        if name == "date":
            return self.chunk.date or self.source.date
        if name == "heading":
            return [title.casefold() for title in self.chunk.heading]
        return self.source.tags if name == "tag" else getattr(self.source, name)

    def meets(self, where: Where) -> bool:
        return all(self._meets(condition) for condition in where)

    def _meets(self, condition: Condition) -> bool:
        value = self.field(condition.field)
        wanted = condition.value.casefold() if condition.field == "heading" else condition.value  # type: ignore[union-attr]
        return value is not None and COMPARE[condition.op](value, wanted)


@dataclass
class MemoryIndex:
    """Implements IndexBackend and IndexReader at once: there is nothing to isolate."""

    sources: dict[str, Source] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    lane_list: list[Lane] = field(default_factory=list)
    vectors: dict[int, dict[bytes, np.ndarray]] = field(default_factory=dict)
    count: int = 0
    last_id: int = 0
    distrusted: set[str] = field(default_factory=set)
    now: float = 2.0
    last_lane: int = 0
    used: dict[int, float] = field(default_factory=dict)
    made: dict[bytes, float] = field(default_factory=dict)
    recorded: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def reader(self) -> Iterator[MemoryIndex]:
        yield self

    def fingerprints(self) -> Mapping[str, Source]:
        return dict(self.sources)

    def replace_source(self, source: Source, chunks: Sequence[Chunk], first: int = 1, until: int | None = None) -> None:
        def inside(row: Row) -> bool:
            line = row.chunk.start_line
            return row.source.path == source.path and first <= line and (until is None or line < until)

        old = {(r.chunk.heading, r.chunk.hash, r.chunk.occurrence): r.id for r in self.rows if inside(r)}
        others = [r for r in self.rows if not inside(r)]
        if source.path in self.distrusted:
            old, others = {}, [r for r in others if r.source.path != source.path]
            self.distrusted.discard(source.path)
        self.rows = others
        for chunk in chunks:
            known = old.get((chunk.heading, chunk.hash, chunk.occurrence))
            if known is None:
                self.last_id += 1
            self.rows.append(Row(known or self.last_id, source, chunk))
        self.rows.sort(key=lambda r: r.id)
        self.sources[source.path] = source
        self.count += 1

    def touch(self, sources: Sequence[Source]) -> None:
        for source in sources:
            self.sources[source.path] = source

    def move(self, paths: Mapping[str, str]) -> None:
        for old, new in paths.items():
            if old in self.sources and new not in self.sources:
                moved = self.sources[new] = replace(self.sources.pop(old), path=new)
                for row in self.rows:
                    row.source = moved if row.source.path == old else row.source
        self.count += 1

    def delete(self, paths: Collection[str]) -> int:
        found = [path for path in paths if self.sources.pop(path, None)]
        self.rows = [r for r in self.rows if r.source.path not in found]
        self.count += bool(found)
        return len(found)

    def lanes(self) -> Sequence[Lane]:
        return self.lane_list

    def lane(self, fingerprint: Fingerprint, prior: Calibration) -> Lane:
        for lane in self.lane_list:
            if lane.fingerprint == fingerprint.key:
                return lane
        self.last_lane += 1
        state = "building" if any(lane.state == "serving" for lane in self.lane_list) else "serving"
        lane = Lane(self.last_lane, fingerprint.key, fingerprint.dims, prior, state)
        self.lane_list.append(lane)
        self.vectors[lane.id] = {}
        self.used[lane.id] = self.now
        return lane

    def serve(self, lane: Lane) -> None:
        for place, other in enumerate(self.lane_list):
            if other.id == lane.id or other.state == "serving":
                state = "serving" if other.id == lane.id else "kept"
                self.lane_list[place] = replace(other, state=state)
                self.used[other.id] = self.now

    def calibrate(self, lane: Lane) -> None:
        """The prior is good enough for a handful of vectors."""

    def collect(self, keep: Collection[str] | None, before: float, dry_run: bool = False) -> Collected:
        doomed = [
            lane
            for lane in self.lane_list
            if keep is not None and lane.state != "serving" and lane.fingerprint not in keep
            if self.used[lane.id] < before
        ]
        live = {r.chunk.hash for r in self.rows}
        orphans = {digest for digest, made in self.made.items() if digest not in live and made < before}
        counted = sum(len(self.vectors[lane.id]) for lane in doomed) + sum(
            digest in self.vectors[lane.id] for lane in self.lane_list if lane not in doomed for digest in orphans
        )
        if not dry_run:
            self.lane_list = [lane for lane in self.lane_list if lane not in doomed]
            for digest in orphans:
                del self.made[digest]
                for vectors in self.vectors.values():
                    vectors.pop(digest, None)
        return Collected(dry_run, tuple(lane.fingerprint for lane in doomed), len(orphans), counted)

    def vector_state(self, lane: Lane) -> str:
        return "ok"

    def notes(self) -> Mapping[str, str]:
        return {}

    def missing_vectors(self, lane: Lane, limit: int) -> Sequence[MissingText]:
        missing = {r.chunk.hash: r.id for r in reversed(self.rows) if r.chunk.hash not in self.vectors[lane.id]}
        firsts = [r for r in self.rows if missing.get(r.chunk.hash) == r.id]
        return [MissingText(r.chunk.hash, r.chunk.heading, r.chunk.text, r.source.path) for r in firsts[:limit]]

    def count_missing(self, lane: Lane) -> int:
        return len({r.chunk.hash for r in self.rows} - self.vectors[lane.id].keys())

    def put_vectors(self, lane: Lane, hashes: Sequence[bytes], vectors: np.ndarray) -> None:
        self.vectors[lane.id].update(zip(hashes, vectors, strict=True))
        for digest in hashes:
            self.made.setdefault(digest, self.now)

    def recall(self, key: str) -> str | None:
        return self.recorded.get(key)

    def record(self, key: str, value: str) -> None:
        self.recorded[key] = value

    def examine(self, fix: bool) -> Sequence[Finding]:
        return []

    def distrust(self) -> None:
        self.distrusted = set(self.sources)
        self.sources = {path: _distrusted(source) for path, source in self.sources.items()}

    def generation(self) -> int:
        return self.count

    def health(self) -> Health:
        counts = {
            lane.fingerprint: sum(r.chunk.hash in self.vectors[lane.id] for r in self.rows) for lane in self.lane_list
        }
        return Health(
            "memory", len(self.sources), len(self.rows), counts, self.count, "scan", lanes=tuple(self.lane_list)
        )

    def close(self) -> None:
        pass

    def search_keyword(self, terms: Sequence[str], k: int, where: Where) -> Sequence[Scored]:
        """BM25 with k1 = 1.2 and b = 0.75 as in sqlite.org/fts5.html; statistics over all rows, not the filtered."""
        if not terms or k <= 0:
            return []
        average = sum(len(r.tokens) for r in self.rows) / max(1, len(self.rows))
        hits = []
        for row in self.rows:
            if not row.meets(where) or not set(terms) & set(row.tokens):
                continue
            score = 0.0
            for term in dict.fromkeys(terms):
                frequency = row.tokens.count(term)
                holders = sum(term in r.tokens for r in self.rows)
                idf = max(math.log((len(self.rows) - holders + 0.5) / (holders + 0.5)), 1e-6)
                norm = 1.2 * (0.25 + 0.75 * len(row.tokens) / average)
                score += idf * frequency * 2.2 / (frequency + norm)
            hits.append(Scored(row.id, score))
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:k]

    def search_vector(self, lane: Lane, query: np.ndarray, k: int, where: Where) -> Sequence[Scored]:
        scores = self.score_vectors(lane, [r.id for r in self.rows if r.meets(where)], query)
        return sorted((Scored(i, s) for i, s in scores.items()), key=lambda hit: (-hit.score, hit.id))[: max(k, 0)]

    def score_vectors(self, lane: Lane, ids: Sequence[int], query: np.ndarray) -> Mapping[int, float]:
        stored = self.vectors[lane.id]
        return {
            r.id: float(np.dot(stored[r.chunk.hash].astype(np.float64), query.astype(np.float64)))
            for r in self.rows
            if r.id in set(ids) and r.chunk.hash in stored
        }

    def vectors_of(self, lane: Lane, ids: Sequence[int]) -> Mapping[int, np.ndarray]:
        stored = self.vectors[lane.id]
        return {r.id: stored[r.chunk.hash] for r in self.rows if r.id in set(ids) and r.chunk.hash in stored}

    def typical_cosine(self, lane: Lane, query: np.ndarray) -> float | None:
        return None

    def document_frequencies(self, terms: Sequence[str], where: Where) -> Frequencies:
        rows = [r for r in self.rows if r.meets(where)]
        return Frequencies(len(rows), {term: sum(term in r.tokens for r in rows) for term in terms})

    def get(self, ids: Sequence[int]) -> Sequence[ChunkRow]:
        by_id = {r.id: r for r in self.rows}
        return [_row(by_id[i]) for i in ids if i in by_id]

    def held(self, ids: Sequence[int], terms: Sequence[str]) -> Mapping[int, bytes]:
        return {r.id: bytes(min(r.tokens.count(term), 255) for term in terms) for r in self.rows if r.id in set(ids)}

    def of_source(self, path: str) -> Sequence[ChunkRow]:
        return [
            _row(r)
            for r in sorted((r for r in self.rows if r.source.path == path), key=lambda r: (r.chunk.start_line, r.id))
        ]

    def permitted(self, ids: Sequence[int], where: Where) -> frozenset[int]:
        return frozenset(r.id for r in self.rows if r.id in set(ids) and r.meets(where))


def _row(row: Row) -> ChunkRow:
    c, s = row.chunk, row.source
    return ChunkRow(
        row.id, s.path, s.scope, s.kind, row.field("date"), c.heading, c.start_line, c.end_line, c.text, c.words,
        c.heading_words,
    )  # fmt: skip


def _distrusted(source: Source) -> Source:
    return Source(source.path, source.scope, source.kind, source.date, "", "", source.settled, source.tags)
