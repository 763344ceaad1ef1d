"""One root's synchronisation: files first, so that text is searchable at once, then vectors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from stat import S_ISREG

from vademecum.chunk import chunk_markdown
from vademecum.errors import HistoryError, MissingFileError, ProviderError, StoreError
from vademecum.ports import IndexBackend, Progress
from vademecum.settings import ChunkSettings
from vademecum.store.places import Places
from vademecum.store.scan import FileStat, Scan
from vademecum.sync.flight import SingleFlight
from vademecum.sync.plan import Plan, plan
from vademecum.sync.sessions import Sessions
from vademecum.sync.vectors import Filled, VectorFiller
from vademecum.types import Source, SyncReport

#: What a search reads by itself, beside a watcher: so many changed pages, each of at most so many bytes.
_AT_ONCE, _SMALL_BYTES = 8, 65_536


@dataclass
class _Tally:
    chunks: int = 0
    writes: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    touched: list[Source] = field(default_factory=list)
    notices: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A look that found the index equal to the folder: of which sources it was told, and a glance from before it."""

    found: Scan = field(default_factory=lambda: Scan(()))
    known: Mapping[str, Source] = field(default_factory=dict)
    glance: bytes | None = None
    report: SyncReport = field(default_factory=SyncReport)


class Syncer:
    """Keeps one index equal to its folders. Safe to share between threads; ``clock`` gives Unix seconds."""

    def __init__(
        self,
        places: Places,
        index: IndexBackend,
        chunk_settings: ChunkSettings,
        filler: VectorFiller | None,
        clock: Callable[[], float],
        sessions: Sessions | None = None,
    ) -> None:
        """``sessions`` reads conversations; without it there are none in the index."""
        self._places = places
        self._sessions = sessions
        self._index = index
        self._chunk_settings = chunk_settings
        self._filler = filler
        self._clock = clock
        self._stop = threading.Event()
        self._progress: Progress | None = None
        self._applying = threading.Lock()
        #: How long the last look at the folder took, in seconds.
        self.last_look_s = 0.0
        #: Whether a page had another name when the folder was last looked at, see `Scan`.
        self.linked = False
        self._seen = _Seen()
        self.files: SingleFlight[SyncReport] = SingleFlight("vademecum-files", self._sync_files)
        self.vectors: SingleFlight[Filled] = SingleFlight("vademecum-vectors", self._fill_vectors)

    def look(self, within_s: float | None) -> SyncReport | None:
        """A report if the index already equals the folder, else None: the usual case before a search, and cheap.

        None, too, while a sync runs, and when the last look at so large a folder took longer than ``within_s``.
        """
        if self.files.busy or (within_s is not None and self.last_look_s > within_s):
            return None
        began = time.monotonic()
        report = self._glance()
        self.last_look_s = time.monotonic() - began
        return report

    def _glance(self) -> SyncReport | None:
        """What was found the last time if nothing has changed since, else what a scan finds now."""
        before, known = self._seen, self._index.fingerprints()
        # Taken before the scan, so that what changes meanwhile is seen the next time.
        glance = self._places.glance(before.found) if before.found.folders else None
        if glance is not None and self._sessions is not None:
            glance += self._sessions.elsewhere().encode()
        if glance is not None and glance == before.glance and known is before.known:
            return before.report
        found = self.scan()
        self.linked = found.linked
        todo = plan(found, known)
        if not todo.empty or todo.verify:
            self._seen = _Seen()
            return None
        report = SyncReport(kept=todo.kept, notices=found.notices)
        covered = found.folders == before.found.folders and not found.unreadable
        self._seen = _Seen(found, known, glance if covered else None, report)
        return report

    def plan(self) -> Plan:
        """What is to be done now."""
        return plan(self.scan(), self._index.fingerprints())

    def scan(self) -> Scan:
        """Every file that is to be indexed. Raises StoreError when the memory's own folder cannot be scanned."""
        found = self._places.scan()
        return found if self._sessions is None else self._sessions.listed(found)

    def run(self, progress: Progress | None = None) -> SyncReport:
        """Sync files, then vectors, and wait for both. Failures are counted and named, never fatal."""
        self._progress = progress
        try:
            return self.fill(self.read())
        finally:
            self._progress = None

    def read(self) -> SyncReport:
        """Sync files and wait for it; vectors stay as they are."""
        return self.files.wait(self.files.request()) or SyncReport()

    def fill(self, report: SyncReport) -> SyncReport:
        """Sync vectors and wait for it; returns ``report`` with what came of it."""
        if self._filler is None:
            return report
        filled = self.vectors.wait(self.vectors.request()) or Filled(0, ())
        problem = () if filled.problem is None else (("embedding", str(filled.problem)),)
        return replace(
            report,
            embedded=filled.embedded,
            failed=(*report.failed, *filled.failed, *problem),
            notices=(*report.notices, *filled.notices),
            pending=self.missing_vectors(),
        )

    def missing_vectors(self) -> int:
        """How many texts still wait for a vector; 0 without an embedder, all while it cannot say which lane is its."""
        if self._filler is None:
            return 0
        try:
            return self._index.count_missing(self._filler.lane())
        except ProviderError:
            return self._index.health().chunks

    def read_pages(self, paths: Collection[str]) -> int | None:
        """Bring the index up to pages that have changed, at once; returns in how many writes.

        None, for a look at the folder, if that would take long, or if a page cannot be read or has other names.
        """
        if len(paths) > _AT_ONCE:
            return None
        for path in paths:
            try:
                path.encode()
                layout, inner = self._places.locate(path)
                state = (layout.root / inner).lstat()
            except FileNotFoundError:
                continue
            except (OSError, ValueError, StoreError):
                return None
            if not S_ISREG(state.st_mode) or state.st_nlink > 1 or state.st_size > _SMALL_BYTES:
                return None
        try:
            return self.index_file(*paths)
        except StoreError:
            return None

    def index_file(self, *paths: str) -> int | None:
        """Bring some files' text up to date at once, for what this process has just written, moved or removed.

        Returns how many writes of the index that took, None if a file could not be read.
        Raises StoreError when it cannot be told whether a file is part of the memory.
        """
        tally = _Tally()
        with self._applying:
            known = self._index.fingerprints()
            for path in paths:
                if self._places.absent(path):
                    tally.writes += bool(self._index.delete([path]))
                elif self._places.belongs(path):
                    self._apply_file(FileStat(path, "", 0), known, tally)
        return None if tally.failed else tally.writes

    def _sync_files(self) -> SyncReport:
        known = self._index.fingerprints()
        found = self.scan()
        self.linked = found.linked
        todo = plan(found, known)
        tally = _Tally()
        moved = self._move(todo.moved)
        to_read = [file for file in todo.to_read if file.path not in moved]
        # Notes first: a long transcript must not keep them waiting, nor their vectors.
        for done, file in enumerate(sorted(to_read, key=lambda file: file.spoken), 1):
            if self._stop.is_set():
                break
            # File by file, so that what this process writes meanwhile need not wait for all of them.
            if file.spoken:
                self._hear(file, known, tally)
            else:
                with self._applying:
                    self._apply_file(file, known, tally)
            if self._progress is not None:
                self._progress("files", done, len(to_read))
        if tally.touched:
            self._index.touch(tally.touched)
        old = set(moved.values())
        gone = [path for path in todo.removed if path not in old and self._absent(path, known[path])]
        removed = self._index.delete(gone) if gone else 0
        return SyncReport(
            added=len(todo.added),
            changed=len(todo.changed),
            removed=removed + len(moved),
            kept=todo.kept + len(todo.verify),
            chunks=tally.chunks,
            failed=tuple(tally.failed),
            notices=(*found.notices, *tally.notices),
        )

    def _move(self, moved: Mapping[str, str]) -> Mapping[str, str]:
        """Call the rows of files by their new paths, where those say the same of them; returns for which it was so."""
        places = self._places
        done = {
            new: old
            for new, old in moved.items()
            if places.absent(old) and places.classify(new) == places.classify(old)
        }
        if done:
            self._index.move({old: new for new, old in done.items()})
        return done

    def _absent(self, path: str, source: Source) -> bool:
        if source.kind != "session":
            return self._places.absent(path)
        return self._sessions is None or self._sessions.absent(path)

    def _hear(self, file: FileStat, known: Mapping[str, Source], tally: _Tally) -> None:
        if self._sessions is None:
            return
        try:
            heard = self._sessions.apply(self._index, file, known, self._clock(), self._applying, self._stop)
        except MissingFileError:
            return
        except (StoreError, HistoryError) as error:
            tally.failed.append((file.path, str(error)))
            return
        tally.chunks += heard.chunks
        tally.notices += heard.notices

    def _apply_file(self, file: FileStat, known: Mapping[str, Source], tally: _Tally) -> None:
        try:
            page = self._places.load(file, self._clock())
        except MissingFileError:
            return  # gone since the scan: the next one sees it
        except StoreError as error:
            tally.failed.append((file.path, str(error)))
            return
        source, before = page.source, known.get(file.path)
        if before is not None and before == replace(source, stat=before.stat, settled=before.settled):
            if before != source:
                tally.touched.append(source)
            return
        chunks = chunk_markdown(page.text, self._chunk_settings)
        self._index.replace_source(source, chunks)
        tally.writes += 1
        tally.chunks += len(chunks)

    def _fill_vectors(self) -> Filled:
        if self._filler is None:
            return Filled(0, ())
        return self._filler.run(self._stop, self._progress)

    def close(self) -> None:
        """Stop after the file or batch at hand and wait for it."""
        self._stop.set()
        self.files.close()
        self.vectors.close()
