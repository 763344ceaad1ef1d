"""What all memories of one root share: its index, its sync, its embedder."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path

from vademecum.chunk import CHUNKER_ID
from vademecum.errors import (
    IndexCorruptError,
    IndexReplacedError,
    IndexUnavailableError,
    ProviderMissingError,
    SettingsError,
    StoreError,
)
from vademecum.history import HISTORY_FILE, HistoryFile
from vademecum.memory import opening
from vademecum.memory.embedding import Embedding, serving_lane
from vademecum.memory.watching import Watching
from vademecum.ports import Embedder, IndexBackend, Progress
from vademecum.settings import Settings
from vademecum.store.layout import detect
from vademecum.store.places import Places
from vademecum.store.root import PRIVATE, check_mounted, identity
from vademecum.sync import Filled, Sessions, Syncer
from vademecum.text.tokens import TOKENIZER_ID
from vademecum.types import Hit, IndexSpec, SyncReport

#: After the provider failed, only an explicit sync asks it again within this time.
_RETRY_SECONDS = 30.0


#: A look that takes no longer costs no more than to ask the watcher.
_CHEAP_LOOK_S = 0.001


@dataclass(frozen=True, slots=True)
class Refreshed:
    """Whether the index is up to date, and what stands in the way: (path or "", text), for those who may know."""

    fresh: bool
    notices: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Seen:
    """What decides whether vectors are complete: the state of the files' rows, and which lane serves."""

    generation: int
    serving: int | None


class Core:
    """One per root and process. Safe to share between threads."""

    def __init__(self, root: Path, settings: Settings, embedder: Embedder | None, environ: Mapping[str, str]) -> None:
        self.root = root
        self._identity = identity(root)
        self.settings = settings
        self.layout = detect(root, settings.layout)
        self.places = Places(self.layout, settings.extra_folders(), spoken=settings.index_sessions)
        self._environ = environ
        self.given = embedder
        self.notices: tuple[tuple[str, str], ...] = ()
        self.history = HistoryFile(
            root / PRIVATE / HISTORY_FILE,
            prepare=partial(opening.history_folder, root),
            keep_days=settings.history.max_age_days,
        )
        self._zone = settings.zone
        self.sessions: Sessions | None = None
        if settings.index_sessions:
            most_bytes = settings.sessions.max_mb << 20
            self.sessions = Sessions(self.places, self.history, settings.chunk, self._zone, most_bytes)
        self._begin()

    def _begin(self) -> None:
        """Everything that holds a lock, a thread or a connection; also for a child process, which inherits none."""
        self.embedding = Embedding(self.settings.embedding, self._environ, self.given)
        self.index: IndexBackend | None = None
        self.syncer: Syncer | None = None
        self.disabled: str | None = None
        self._opening = threading.RLock()
        self.watching = Watching(self)
        self._retry_at = 0.0
        self._embedding_problem: str | None = None
        self._pid = os.getpid()
        self._open()

    # -- opening and healing ------------------------------------------------------------------------------------

    def _open(self, anew: bool = False) -> None:
        """Open the index, or note why there is none: memory works without it, search does not."""
        self._filled: _Seen | None = None
        #: A run that fills in vectors, and for which state of the rows.
        self._begun: tuple[int, int] | None = None
        chunk = self.settings.chunk
        spec = IndexSpec(TOKENIZER_ID, f"{CHUNKER_ID}/{chunk.tokens}/{chunk.overlap_tokens}/{self.layout.name}")
        try:
            self.index, notices = opening.open_index(self.state_folder(), spec, self.settings.ann, anew)
        except (IndexUnavailableError, StoreError) as error:
            self.index, self.syncer, self.disabled = None, None, str(error)
            return
        self.notices += tuple(("", notice) for notice in notices)
        self.disabled = None
        self.embedding.settle(serving_lane(self.index))
        filler = self.embedding.filler(self.index)
        self.syncer = Syncer(self.places, self.index, chunk, filler, time.time, self.sessions)

    def state_folder(self) -> Path:
        """Where the index lies. Raises IndexUnavailableError and StoreError."""
        return opening.state_folder(self.root, self._environ)

    def open_index(self) -> IndexBackend:
        """The index, or IndexUnavailableError with the reason why there is none."""
        index = self._settled()[0]
        if index is None:
            raise IndexUnavailableError(self.disabled or "the index is not open")
        return index

    def open_syncer(self) -> Syncer:
        syncer = self._settled()[1]
        if syncer is None:
            raise IndexUnavailableError(self.disabled or "the index is not open")
        return syncer

    def _settled(self) -> tuple[IndexBackend | None, Syncer | None]:
        if self._pid != os.getpid():
            # A child must not touch its parent's connections, threads and locks, nor let them be collected. (Forking
            # while another thread is inside SQLite is beyond help: its mutexes stay locked in the child.)
            _inherited.append((self.index, self.syncer, self.embedding, self.watching))
            self._begin()
        if self.index is None:
            with self._opening:  # somebody may be opening it anew right now
                return self.index, self.syncer
        return self.index, self.syncer

    def heal(self, broken: IndexBackend | None) -> None:
        """Open anew in place of ``broken``; what proves damaged then is set aside and built again from Markdown.

        Raises StoreError when the folder itself is away.
        """
        with self._opening:
            if self.index is broken:
                self.check_root()
                self._close_index()
                self.watching.forget()
                self._open()

    def check_root(self) -> None:
        """Raises StoreError when the folder is away and there is nothing, or only a mount's empty place, instead."""
        if identity(self.root) != self._identity:
            check_mounted(self.root)

    def mend(self) -> None:
        """Set aside whatever of the index is damaged, which reads all of it, and open what is left."""
        with self._opening:
            self._close_index()
            self.notices += tuple(("", notice) for notice in opening.set_aside(self.state_folder()))
            self._open()

    def distrust(self) -> None:
        """Have the next sync write every row anew; an index that could not be opened is set aside and begun anew."""
        if self.index is None:
            with self._opening:
                self._open(anew=True)
        self.open_index().distrust()

    # -- time ---------------------------------------------------------------------------------------------------

    def now(self) -> datetime:
        """The time in the user's zone."""
        return datetime.now(UTC).astimezone(self._zone)

    def today(self) -> date:
        """The day in the user's zone."""
        return self.now().date()

    # -- freshness ----------------------------------------------------------------------------------------------

    def sync(self, progress: Progress | None, switch_now: bool = False) -> SyncReport:
        """A whole sync: files, then vectors; waits for both.

        ``switch_now`` lets the embedder's vectors answer from now on, complete or not; raises ProviderError.
        """
        index = self.open_index()
        self.embedding.ask_again()
        try:
            if switch_now:
                self._switch(index)
            report = self.open_syncer().run(progress)
        except (IndexCorruptError, IndexReplacedError):
            self.heal(index)
            report = self.open_syncer().run(progress)
        self._note_filled(report)
        return report

    def read_files(self) -> SyncReport:
        """Bring the text up to date and leave vectors for later."""
        index = self.open_index()
        try:
            return self.open_syncer().read()
        except (IndexCorruptError, IndexReplacedError):
            self.heal(index)
            return self.open_syncer().read()

    def embed(self) -> SyncReport:
        """Fetch the vectors that are missing, unless the provider has failed a moment ago."""
        if time.monotonic() < self._retry_at:
            return SyncReport()
        report = self.open_syncer().fill(SyncReport())
        self._note_filled(report)
        return report

    def _switch(self, index: IndexBackend) -> None:
        embedder = self.embedding.found
        if embedder is None:
            raise ProviderMissingError(f"there is no model to switch to: {self.embedding.reason}")
        index.serve(index.lane(embedder.fingerprint, embedder.calibration))
        if self.embedding.embedder is None:  # it had been held back
            self.heal(index)

    def _note_filled(self, report: SyncReport) -> None:
        problems = [reason for path, reason in report.failed if path == "embedding"]
        if problems:
            self._embedding_failed(problems[0])
        else:
            self._embedding_problem = None
            self._filled = self._seen()

    def refresh(self, wait_s: float | None) -> Refreshed:
        """Bring the index up to date within ``wait_s`` seconds (None: however long it takes; 0: do not even look).

        Raises StoreError when the folder itself cannot be read, and IndexUnavailableError.
        """
        syncer = self.open_syncer()
        deadline = None if wait_s is None else time.monotonic() + wait_s
        try:
            report = self._read(syncer, wait_s)
        except (IndexCorruptError, IndexReplacedError):
            raise
        except IndexUnavailableError as error:
            # It cannot be written now (a full disk, another program's lock), but what it holds can be read.
            return Refreshed(False, (*self.notices, ("", f"the index could not be brought up to date: {error}")))
        if report is None:
            why = "changes on disk are still being indexed"
            if wait_s == 0:
                why = "the disk was not looked at, because no time was given for it"
            return Refreshed(False, (("", why),))
        return self._refresh_vectors(syncer, (*self.notices, *report.notices, *report.failed), deadline)

    def _read(self, syncer: Syncer, wait_s: float | None) -> SyncReport | None:
        """Bring the text up to date, by the way that costs least; None if there was no time for it."""
        if wait_s != 0 and syncer.last_look_s < _CHEAP_LOOK_S:
            report = syncer.look(wait_s)
            if report is not None:
                return report
        mark = self.watching.mark()
        report = self.watching.known(mark)
        if report is not None or wait_s == 0:
            return report
        report = self.watching.catch_up(wait_s)
        if report is None:
            report = syncer.look(wait_s) or syncer.files.wait(syncer.files.request(), wait_s)
            if report is not None:
                self.watching.note(mark, report, syncer.linked)
        return report

    def _refresh_vectors(
        self, syncer: Syncer, notices: tuple[tuple[str, str], ...], deadline: float | None
    ) -> Refreshed:
        if self.embedding.embedder is None:
            return Refreshed(True, notices)
        seen = self._seen()
        if seen != self._filled and time.monotonic() >= self._retry_at:
            # Where an older model answers, nobody waits for the new one: a run begun earlier is only looked after.
            aside = self.embedding.query_vector.has_stand_in()
            begun = self._begun if aside else None
            ticket, generation = begun or (syncer.vectors.request(), seen.generation)
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            filled = syncer.vectors.wait(ticket, 0.0 if aside else left)
            self._begun = (ticket, generation) if filled is None else None
            if filled is not None:
                notices += self._note_run(filled, generation)
            elif not aside:
                return Refreshed(False, (*notices, ("", "some texts still wait for their vectors")))
        if self._embedding_problem is not None:
            notices += (("", f"some texts have no vector yet: {self._embedding_problem}"),)
        return Refreshed(True, notices)

    def _note_run(self, filled: Filled, generation: int) -> tuple[tuple[str, str], ...]:
        if filled.problem is not None:
            self._embedding_failed(str(filled.problem))
        else:
            self._filled, self._embedding_problem = replace(self._seen(), generation=generation), None
        return tuple((path, f"{path}: a text has no vector: {reason}") for path, reason in filled.failed)

    def _embedding_failed(self, reason: str) -> None:
        self._embedding_problem = reason
        self._retry_at = time.monotonic() + _RETRY_SECONDS

    def _seen(self) -> _Seen:
        """The index as it is now; queries are embedded for the lane that serves in it."""
        with self.open_index().reader() as reader:
            generation = reader.generation()
            serving = next((lane for lane in reader.lanes() if lane.state == "serving"), None)
        self.embedding.query_vector.expect(serving)
        return _Seen(generation, None if serving is None else serving.id)

    def gone(self, hit: Hit) -> bool:
        """Whether the file of a hit is certainly not there any more."""
        if hit.kind != "session":
            return self.places.gone(hit.path)
        return self.sessions is not None and self.sessions.gone(hit.path)

    def index_file(self, *paths: str) -> None:
        """Make what was just written searchable, and what was removed not. A failure is left to the next sync, which
        names it."""
        with suppress(IndexUnavailableError, StoreError):
            self.watching.following(lambda: self.open_syncer().index_file(*paths))

    def close(self) -> None:
        """Stop work after the file or batch at hand and release everything."""
        self.watching.close()
        self._close_index()
        self.embedding.close()
        self.history.close()

    def _close_index(self) -> None:
        syncer, index = self.syncer, self.index
        self.syncer = self.index = None
        self.disabled = "the memory has been closed"
        if syncer is not None:
            syncer.close()
        if index is not None:
            index.close()


# Opening one root twice in a process shares one core. The process id guards against a fork: a child must not use
# its parent's connections.
_cores: dict[tuple[int, Path], tuple[Core, int]] = {}
_cores_lock = threading.Lock()
#: What a child process got from its parent: never used, and never closed by being collected.
_inherited: list[object] = []


def _after_fork() -> None:
    global _cores_lock  # noqa: PLW0603 - another thread may have held it
    _cores_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def acquire(
    root: Path, settings: Settings, embedder: Embedder | None, environ: Mapping[str, str]
) -> tuple[Core, Callable[[], None]]:
    """The core of ``root`` and a function that gives it back; the last one to do so closes it."""
    key = (os.getpid(), root)
    with _cores_lock:
        core, users = _cores.get(key, (None, 0))
        if core is None:
            core = Core(root, settings, embedder, environ)
        elif _shared_part(core.settings) != _shared_part(settings):
            raise SettingsError(
                f"{root} is already open in this process with other layout, timezone, chunk, embedding, ann "
                "or history settings; close it first, or open it with the same ones"
            )
        elif embedder is not None and embedder is not core.given:
            raise SettingsError(f"{root} is already open in this process with another embedder; close it first")
        _cores[key] = (core, users + 1)

    def release() -> None:
        with _cores_lock:
            current, count = _cores.get(key, (None, 0))
            if current is not core:
                return
            if count > 1:
                _cores[key] = (core, count - 1)
                return
            del _cores[key]
        core.close()

    return core, release


def _shared_part(settings: Settings) -> tuple[object, ...]:
    return (
        *(settings.layout, settings.timezone, settings.index_sessions, settings.sessions, settings.roots),
        *(settings.chunk, settings.embedding, settings.ann, settings.history),
    )
