"""The default index: index.sqlite and vectors.sqlite, read together through one connection.

The two files need no common transaction. Vectors are content-addressed and committed first; the index then notes
which text id a chunk's text has. A crash in between leaves rows that the next link finds by their hash.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.backends.examination import Examination
from vademecum.backends.snapshot import EmbeddedReader
from vademecum.backends.sweep import Sweep, reclaim
from vademecum.errors import IndexReplacedError, IndexUnavailableError
from vademecum.index import conditions, rows, schema
from vademecum.settings import AnnSettings
from vademecum.sqlite import CLOSED, Connection, ReaderPool, connect, exclusive, migrate, snapshot, translated
from vademecum.types import (
    Calibration,
    Chunk,
    Collected,
    Finding,
    Fingerprint,
    Health,
    IndexSpec,
    Lane,
    MissingText,
    Source,
)
from vademecum.vectors import calibration, notes, store
from vademecum.vectors.graphs import Graphs
from vademecum.vectors.mapped import VectorMap

if TYPE_CHECKING:
    from vademecum.types import Matrix

_SNAPSHOT_TRIES = 3
#: Pages, so 4 MiB of log, for transactions that write no vectors.
_INDEX_LOG = 1000
#: Sources kept in mind until somebody asks for all; where more were written, all are read.
_MOST_WRITTEN = 64
INDEX_FILE, VECTORS_FILE, GRAPHS_FOLDER = "index.sqlite", "vectors.sqlite", "ann"

#: Memory that a connection may fill with pages of the index: what a search reads of 5,000 chunks or so.
_CACHE_KB = 16_384

_LIVE = "SELECT text_id FROM chunks"

_LINK = "UPDATE chunks SET text_id = (SELECT t.id FROM vectors.texts t WHERE t.hash = chunks.hash) WHERE {which}"
# The plus keeps the planner from walking all unlinked chunks to find one file's.
_OF_FILE, _OF_HASH = f"{rows.IN_LINES} AND +text_id IS NULL", "hash = ? AND text_id IS NULL"


class EmbeddedIndex:
    """An `IndexBackend` in a folder of its own. Safe to share between threads and processes."""

    def __init__(
        self,
        folder: Path,
        spec: IndexSpec,
        ann: AnnSettings | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open or create both files. ``clock`` gives Unix seconds.

        Raises IndexUnavailableError and its kinds, naming the file.
        """
        self._folder = folder
        self._clock = clock
        self._path = folder / INDEX_FILE
        self._files = (str(folder / INDEX_FILE), str(folder / VECTORS_FILE))
        self._writing = threading.RLock()
        self._sources: tuple[int, Mapping[str, Source]] = (-1, {})
        #: Sources written since, from one count of changes to the next, so that not all need be read again.
        self._written: list[tuple[int, Source]] = []
        self._writer: Connection | None = None
        self._closed = False
        self._identity: tuple[object, ...] | None = None
        self._readers = ReaderPool(self._connect)
        self._graphs = Graphs(folder / GRAPHS_FOLDER, ann or AnnSettings(), self._read, _LIVE)
        vectors_path = folder / VECTORS_FILE
        with translated(vectors_path):
            self._map = VectorMap(vectors_path, store.connect_alone(vectors_path))
        try:
            with translated(self._path):
                first = self._connect()
                self._readers.give_back(first)
                migrate(first, self._path, schema.MIGRATIONS)
                self._adopt(first, spec)
            self._identity = self._on_disk()
        except BaseException:
            self.close()
            raise

    def _on_disk(self) -> tuple[object, ...]:
        states = [os.stat(file) for file in self._files]  # noqa: PTH116 - asked several times in each search
        return tuple((state.st_dev, state.st_ino) for state in states)

    def _check_files(self) -> None:
        """Connections opened before and after somebody deleted or exchanged a file would read different worlds."""
        try:
            same = self._on_disk() == self._identity
        except OSError:
            same = False
        if not same:
            raise IndexReplacedError(f"{self._folder}: the index was deleted or replaced while it was open")

    def _connect(self) -> Connection:
        connection = connect(self._path)
        try:
            conditions.prepare(connection)
            connection.execute("ATTACH DATABASE ? AS vectors", (str(self._folder / VECTORS_FILE),))
            connection.execute(f"PRAGMA main.cache_size = {-_CACHE_KB:d}")
            connection.execute("PRAGMA vectors.synchronous = NORMAL")
            # A scan copies each vector once instead of twice.
            connection.execute(f"PRAGMA vectors.mmap_size = {store.MMAP_SIZE:d}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _adopt(self, connection: Connection, spec: IndexSpec) -> None:
        """Rows made by other rules go; ids given by another vectors file are forgotten and found again by hash.

        Writes only if there is something to mend: an open must not wait for another process's transaction.
        """
        with snapshot(connection):
            uid = store.read_uid(connection)
            ours = schema.has_spec(connection, spec) and schema.vectors_uid(connection) == uid
            unlinked = connection.execute(
                "SELECT 1 FROM chunks WHERE text_id IS NULL AND hash IN (SELECT hash FROM vectors.texts) LIMIT 1"
            ).fetchone()
        if ours and unlinked is None:
            return
        with exclusive(connection):
            schema.adopt_spec(connection, spec)
            if schema.vectors_uid(connection) != uid:
                connection.execute("UPDATE chunks SET text_id = NULL")
                connection.execute("UPDATE main.meta SET value = ? WHERE key = 'vectors_uid'", (uid,))
            connection.execute(_LINK.format(which="text_id IS NULL"))

    @contextmanager
    def _transaction(self, log_pages: int = store.AUTOCHECKPOINT) -> Iterator[Connection]:
        self._check_files()
        with self._writing, translated(self._path):
            if self._closed:
                raise IndexUnavailableError(CLOSED)
            if self._writer is None:  # many who open a memory only read
                self._writer = self._connect()
            # This holds for all files of a connection, although the pages of one are 16 times as large.
            self._writer.execute(f"PRAGMA wal_autocheckpoint = {log_pages:d}")
            with exclusive(self._writer) as connection:
                yield connection

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        self._check_files()
        with translated(self._path), self._readers.reader() as connection:
            yield connection

    @contextmanager
    def reader(self) -> Iterator[EmbeddedReader]:
        """A snapshot of both files; the index is pinned before the vectors.

        While others commit, a snapshot whose vectors stand in the file itself may take another try.
        """
        for tries_left in reversed(range(_SNAPSHOT_TRIES)):
            with self._read() as connection:
                reader = EmbeddedReader(connection, self._map, self._graphs)
                if tries_left == 0 or self._map.settled(connection):
                    yield reader
                    return

    def fingerprints(self) -> Mapping[str, Source]:
        """Every source in the index, by path. Asked before every search, so kept until one changes."""
        with self._read() as connection:
            version = schema.counter(connection, "stamps")
            known, written = self._sources, self._written
            if known[0] != version:
                if [count for count, _ in written] == [*range(known[0] + 1, version + 1)]:
                    sources = {**known[1], **{source.path: source for _, source in written}}
                else:
                    sources = rows.load_sources(connection)
                known = self._sources = version, sources
                self._written = []
            return known[1]

    def replace_source(self, source: Source, chunks: Sequence[Chunk], first: int = 1, until: int | None = None) -> None:
        """Make ``chunks`` the only rows of the source, or of that range of its lines, in one transaction."""
        lines = rows.Lines(first, until)
        with self._transaction(_INDEX_LOG) as connection:
            file_id = rows.replace_source(connection, source, chunks, lines)
            connection.execute(_LINK.format(which=_OF_FILE), (file_id, *lines.bounds))
            count = schema.counter(connection, "stamps")
        self._written = [*self._written[-_MOST_WRITTEN:], (count, source)]

    def touch(self, sources: Sequence[Source]) -> None:
        """Record new stamps for sources whose content did not change."""
        with self._transaction(_INDEX_LOG) as connection:
            rows.touch_sources(connection, sources)

    def move(self, paths: Mapping[str, str]) -> None:
        """Call each source by another path, unless a source has that; its rows stay as they are. One transaction."""
        with self._transaction(_INDEX_LOG) as connection:
            rows.move_sources(connection, paths)

    def delete(self, paths: Collection[str]) -> int:
        """Remove sources with all their rows; returns how many existed."""
        with self._transaction(_INDEX_LOG) as connection:
            return rows.delete_sources(connection, paths)

    def lane(self, fingerprint: Fingerprint, prior: Calibration) -> Lane:
        """The lane of this fingerprint, created with ``prior`` if it is new: serving if it is the first."""
        with self._read() as connection:
            known = [lane for lane in store.load_lanes(connection) if lane.fingerprint == fingerprint.key]
        if known:
            return known[0]
        with self._transaction() as connection:
            return store.ensure_lane(connection, fingerprint, prior, self._clock())

    def serve(self, lane: Lane) -> None:
        """Let the lane answer in the place of the one that did, in one step."""
        with self._transaction() as connection:
            store.serve(connection, lane, self._clock())

    def calibrate(self, lane: Lane) -> None:
        """Measure what the lane's cosines mean, if it has enough vectors, or many more than when that was last done."""
        with self._read() as connection:
            found = calibration.measured(connection, lane, _LIVE)
        if found is not None:
            with self._transaction() as connection:
                store.set_calibration(connection, lane, *found)

    def missing_vectors(self, lane: Lane, limit: int) -> Sequence[MissingText]:
        """Up to ``limit`` distinct texts that live chunks use and that have no vector in the lane."""
        with self._read() as connection:
            found = connection.execute(
                f"SELECT c.hash, c.heading, c.text, f.path FROM ({_missing(lane)}) m"  # noqa: S608
                " JOIN chunks c ON c.id = m.id JOIN files f ON f.id = c.file_id ORDER BY c.id LIMIT ?",
                (limit,),
            )
            return [MissingText(digest, rows.unpack(heading), text, path) for digest, heading, text, path in found]

    def count_missing(self, lane: Lane) -> int:
        """How many distinct texts still lack a vector in the lane."""
        with self._read() as connection:
            (count,) = connection.execute(f"SELECT count(*) FROM ({_missing(lane)})").fetchone()  # noqa: S608
            return int(count)

    def put_vectors(self, lane: Lane, hashes: Sequence[bytes], vectors: Matrix) -> None:
        """Store one unit vector per text hash; row i of ``vectors`` belongs to ``hashes[i]``."""
        with self._transaction() as connection:
            store.put(connection, lane, hashes, vectors, self._clock())
        with self._transaction() as connection:
            connection.executemany(_LINK.format(which=_OF_HASH), [(digest,) for digest in hashes])

    def recall(self, key: str) -> str | None:
        """What was recorded under ``key``."""
        with self._read() as connection:
            return notes.recall(connection, key)

    def record(self, key: str, value: str) -> None:
        """Keep ``value`` under ``key``, beside the vectors."""
        with self._transaction() as connection:
            notes.record(connection, key, value)

    def collect(self, keep: Collection[str] | None, before: float, dry_run: bool = False) -> Collected:
        """Remove lanes that nobody has used since ``before``, and texts of that age that no chunk has any more."""
        sweep = Sweep(self._read, self._transaction, None if keep is None else frozenset(keep), before)
        lanes, of_lanes = sweep.lanes(not dry_run)
        texts, of_texts = sweep.texts(not dry_run, lanes)
        with self._read() as connection:
            numbers = [lane.id for lane in store.load_lanes(connection) if not dry_run or lane not in lanes]
        files = self._graphs.discard(numbers, dry_run)
        freed, kept = (0, ()) if dry_run else self._reclaim()
        names = tuple(lane.fingerprint for lane in lanes)
        return Collected(dry_run, names, texts, of_lanes + of_texts, files, freed, kept)

    def _reclaim(self) -> tuple[int, tuple[tuple[str, str], ...]]:
        try:
            with translated(self._path), closing(self._connect()) as connection:
                return reclaim(connection), ()
        except IndexUnavailableError as error:
            return 0, ((VECTORS_FILE, f"the room won inside the file stays there for now: {error}"),)

    def examine(self, fix: bool) -> Sequence[Finding]:
        """Look for what is wrong in both files, and mend it if ``fix``; reads all of them."""
        return list(Examination(self._read, self._transaction, _LINK.format(which="text_id IS NULL")).run(fix))

    def distrust(self) -> None:
        """Have every source written anew when it is next replaced; until then the old rows answer."""
        with self._transaction(_INDEX_LOG) as connection:
            schema.distrust(connection)

    def health(self) -> Health:
        """Counts, and what is wrong."""
        with self._read() as connection:
            generation = schema.counter(connection, "generation")
            counts = {table: _count(connection, f"SELECT count(*) FROM {table}") for table in ("files", "chunks")}  # noqa: S608
            vectors, ann = {}, {}
            lanes = store.load_lanes(connection)
            for lane in lanes:
                join = f"SELECT count(*) FROM chunks c JOIN vectors.c{lane.id:d} v ON v.id = c.text_id"  # noqa: S608
                vectors[lane.fingerprint] = _count(connection, join)
                ann[lane.fingerprint] = self._graphs.state(lane, vectors[lane.fingerprint])
            full_text = schema.has_full_text(connection)
        problems = () if full_text else ("this SQLite library has no FTS5: keyword search scans every row",)
        return Health(
            str(self._folder),
            counts["files"],
            counts["chunks"],
            vectors,
            generation,
            "fts5" if full_text else "scan",
            (*problems, *self._graphs.problems),
            ann,
            tuple(lanes),
        )

    def close(self) -> None:
        """Release files and connections. A second call does nothing."""
        self._graphs.close()
        self._readers.close()
        self._map.close()
        with self._writing:
            self._closed = True
            if self._writer is not None:
                self._writer.close()


def _missing(lane: Lane) -> str:
    """One chunk per text without a vector: texts that no lane has seen, then those that only others have.

    Codes stand for the vectors beside which they are: they are on a quarter of the pages.
    """
    return (
        "SELECT min(id) AS id FROM chunks WHERE text_id IS NULL GROUP BY hash"  # noqa: S608
        " UNION ALL SELECT min(id) FROM chunks WHERE text_id IN (SELECT t.text_id FROM"
        " (SELECT DISTINCT text_id FROM chunks WHERE text_id NOT NULL) t"
        f" WHERE NOT EXISTS (SELECT 1 FROM vectors.c{lane.id:d} v WHERE v.id = t.text_id)) GROUP BY text_id"
    )


def _count(connection: sqlite3.Connection, query: str) -> int:
    (count,) = connection.execute(query).fetchone()
    return int(count)
