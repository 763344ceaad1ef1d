"""The graphs of one index: which there are, and a thread that keeps them up.

Nothing waits for it: until a graph is ready, and for every row that it does not hold yet, the exact scan answers.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.settings import AnnSettings
from vademecum.types import Lane
from vademecum.vectors import hnsw
from vademecum.vectors.graph_files import Card
from vademecum.vectors.graph_upkeep import Kept, Stopped, Upkeep, off

if TYPE_CHECKING:
    from vademecum.vectors.graph_upkeep import Ids


class Graphs:
    """One for all connections of an index. Safe to share between threads."""

    def __init__(
        self,
        folder: Path,
        settings: AnnSettings,
        read: Callable[[], AbstractContextManager[sqlite3.Connection]],
        live: str,
    ) -> None:
        """``read`` begins a read transaction; ``live`` is a SELECT of the ids of texts that chunks use, as text_id."""
        self.threshold = settings.threshold
        self._stop = threading.Event()
        self._upkeep = Upkeep(folder, settings, read, live, self._stop)
        self._kept: dict[int, Kept] = {}
        #: By lane: texts to add, or None for a comparison of graph and lane.
        self._jobs: dict[int, tuple[Lane, Ids | None]] = {}
        self._busy: int | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @cached_property
    def _installed(self) -> bool:
        return hnsw.installed()  # a look into every folder of the path: not for who has few rows

    # -- asked by searches ----------------------------------------------------------------------------------------

    def possible(self, highest: int) -> bool:
        """Whether a lane with this highest text id may have a graph: a cheap question to begin with."""
        return highest > self.threshold and self._installed

    def serving(self, lane: Lane) -> tuple[hnsw.Graph, Card] | None:
        """The lane's graph and what is known of it, if there is one now."""
        return self._of(lane).ready

    def review(self, lane: Lane) -> None:
        """Have the lane's graph loaded, built, or compared with the lane."""
        self._ask(lane, None)

    def extend(self, lane: Lane, ids: Ids) -> None:
        """Have the vectors of these texts added to the lane's graph."""
        self._ask(lane, ids)

    def discard(self, lanes: Collection[int], dry_run: bool) -> tuple[str, ...]:
        """Forget and delete the graphs of all other lanes than these; returns the names of the files."""
        with self._lock:
            for lane_id in self._kept.keys() - set(lanes):
                if not dry_run:
                    del self._kept[lane_id]
        return self._upkeep.files.discard(lanes, dry_run)

    def state(self, lane: Lane, rows: int) -> str:
        """One line about the graph of a lane that has ``rows`` live rows."""
        if not self._installed:
            return "off: hnswlib is not installed"
        state = self._of(lane).state
        if state:
            return state
        return off(rows, self.threshold) if rows <= self.threshold else "waiting: the next search has it made"

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong on disk."""
        return self._upkeep.problems

    def close(self, timeout: float = 30.0) -> None:
        """Stop after the batch at hand. A second call does nothing."""
        self._stop.set()
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    # -- the thread -----------------------------------------------------------------------------------------------

    def _of(self, lane: Lane) -> Kept:
        with self._lock:
            return self._kept.setdefault(lane.id, Kept())

    def _ask(self, lane: Lane, ids: Ids | None) -> None:
        """Who asks in vain, because the lane is being worked on, asks again with the next search."""
        quiet = time.monotonic() < self._of(lane).quiet_until
        with self._lock:
            if quiet or lane.id == self._busy or self._stop.is_set():
                return
            self._jobs.setdefault(lane.id, (lane, ids))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="vademecum-ann", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if self._stop.is_set() or not self._jobs:
                    self._thread = self._busy = None
                    return
                self._busy, (lane, ids) = self._jobs.popitem()
            kept = self._of(lane)
            try:
                if ids is None:
                    self._upkeep.review(lane, kept)
                else:
                    self._upkeep.extend(lane, kept, ids)
            except Stopped:
                pass
            except Exception as error:  # whatever it is: the exact scan answers, and `status` says why
                kept.ready = None
                kept.state = f"failed: {str(error) or type(error).__name__}: exact scan stays"
                kept.pause()
