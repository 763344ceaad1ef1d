"""The watcher of a root: shared by all memories of it in this process, and asked by their searches."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from vademecum.settings import WatchSettings
from vademecum.sync import SingleFlight
from vademecum.types import SyncReport, WatchRound

if TYPE_CHECKING:
    from vademecum.memory.core import Core
    from vademecum.sync.watch import Watcher

Tell = Callable[[WatchRound], None]


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment, by how often the folder and the index had changed until then, and what is elsewhere.

    Where the index is known at a mark, all pages that have not changed since are right in it.
    """

    changes: int
    generation: int
    elsewhere: str


class Watching:
    """Starts a watcher for the first who wants one and stops it after the last. Safe to share between threads."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._lock = threading.Lock()
        self._listeners: dict[int, Tell] = {}
        self._watcher: Watcher | None = None
        self._known: tuple[Mark, SyncReport] | None = None
        self._catching: SingleFlight[SyncReport | None] = SingleFlight("vademecum-pages", self._catch_up)

    def add(self, tell: Tell, settings: WatchSettings) -> Callable[[], None]:
        """Watch from now on; returns what ends it. The first one's ``settings`` are those of all."""
        from vademecum.sync.watch import Watcher

        with self._lock:
            number = max(self._listeners, default=0) + 1
            self._listeners[number] = tell
            if self._watcher is None:
                core = self._core
                self._watcher = Watcher(core.places, settings, core.read_files, core.embed, self._elsewhere, self._tell)
        return lambda: self._remove(number)

    def _remove(self, number: int) -> None:
        with self._lock:
            self._listeners.pop(number, None)
            watcher = None if self._listeners else self._watcher
            if watcher is not None:
                self._watcher = self._known = None
        if watcher is not None:
            watcher.close()

    def close(self) -> None:
        """Stop for all."""
        with self._lock:
            watcher, self._watcher, self._known = self._watcher, None, None
            self._listeners.clear()
        self._catching.close()
        if watcher is not None:
            watcher.close()

    @property
    def mode(self) -> Literal["events", "polling", "off"]:
        """How changes are noticed just now."""
        watcher = self._watcher
        return "off" if watcher is None else watcher.changes.mode

    @property
    def notices(self) -> tuple[str, ...]:
        """What is to be said about watching."""
        watcher = self._watcher
        return () if watcher is None else watcher.notices

    def mark(self) -> Mark | None:
        """This moment, or None if nobody can say for certain what has happened until now."""
        watcher = self._watcher
        changes = None if watcher is None else watcher.changes.certain()
        if changes is None:
            return None
        return Mark(changes, self._generation(), self._elsewhere())

    def known(self, mark: Mark | None) -> SyncReport | None:
        """What was reported when the index was seen to equal the folder, if neither has changed since."""
        known = self._known
        return None if known is None or known[0] != mark else known[1]

    def catch_up(self, wait_s: float | None) -> SyncReport | None:
        """The same after reading a few pages that have changed since; None if that is not enough or takes too long."""
        if self._known is None:
            return None
        return self._catching.wait(self._catching.request(), wait_s)

    def _catch_up(self) -> SyncReport | None:
        mark, known, watcher = self.mark(), self._known, self._watcher
        if mark is None or known is None or watcher is None:
            return None
        seen, report = known
        if (seen.generation, seen.elsewhere) != (mark.generation, mark.elsewhere):
            return None
        pages = watcher.changes.pages_since(seen.changes)
        writes = None if pages is None else self._core.open_syncer().read_pages(pages)
        if writes is None:
            return None
        self._advance(known, replace(mark, generation=mark.generation + writes))
        return report

    def following(self, write: Callable[[], int | None]) -> None:
        """Call ``write``, which brings the index up to pages that this process has changed, and tells in how many
        writes. What is known of all others stays known."""
        known = self._known
        before = None if known is None else self._generation()
        writes = write()
        if known is not None and known[0].generation == before and writes is not None:
            self._advance(known, replace(known[0], generation=before + writes))

    def _advance(self, known: tuple[Mark, SyncReport], to: Mark) -> None:
        """The index is known to be as good at another moment, unless somebody else has changed it too."""
        if self._generation() == to.generation:
            with self._lock:
                if self._known is known:
                    self._known = to, known[1]

    def forget(self) -> None:
        """The index is another one now."""
        self._known = None

    def note(self, mark: Mark | None, report: SyncReport, linked: bool) -> None:
        """The folder was looked at after ``mark``, with this result.

        It counts if the index was not changed meanwhile, by whomever. ``linked`` pages can be written under another
        name, of which the system does not tell.
        """
        as_good = mark is not None and not linked and not report.failed and mark.generation == self._generation()
        self._known = (mark, report) if mark is not None and as_good else None

    def _elsewhere(self) -> str:
        sessions = self._core.sessions
        return "" if sessions is None else sessions.elsewhere()

    def _generation(self) -> int:
        with self._core.open_index().reader() as reader:
            return reader.generation()

    def _tell(self, told: WatchRound) -> None:
        with self._lock:
            listeners = list(self._listeners.values())
        for tell in listeners:
            try:
                tell(told)
            except Exception:  # the host's own fault, shown as one of a thread; the others are told all the same
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


class Watch:
    """A running watch of a memory. Ends when it or the memory is closed; use it as a context manager."""

    def __init__(self, memory: object, watching: Watching, tell: Tell, settings: WatchSettings) -> None:
        """Use `Memory.watch`."""
        self._memory = memory  # not to be collected as long as this is in use
        self._watching = watching
        self._end = weakref.finalize(self, watching.add(tell, settings))

    @property
    def mode(self) -> Literal["events", "polling", "off"]:
        """ "events" where the system tells of changes, "polling" where the folder is looked at, "off" once closed."""
        return self._watching.mode if self._end.alive else "off"

    @property
    def notices(self) -> tuple[str, ...]:
        """What is to be said about watching, such as why it polls."""
        return self._watching.notices if self._end.alive else ()

    def close(self) -> None:
        """End this watch; the last one of a root releases its threads and descriptors."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
