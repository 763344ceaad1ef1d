"""What is done to an index's graphs: they are loaded, built, measured, extended and saved."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from vademecum.settings import AnnSettings
from vademecum.types import Lane
from vademecum.vectors import hnsw, scan, store
from vademecum.vectors.graph_files import Card, GraphFiles
from vademecum.vectors.graph_trial import EFS, QUESTIONS, Trial

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vademecum.types import Matrix

    #: Text ids, ascending.
    Ids: TypeAlias = NDArray[np.int64]

#: Rows and ids read in one transaction; the thread can stop between two of them.
_BATCH, _LISTED = 256, 20_000
#: A graph is built anew when this share of its rows is dead, or when there are this many times the rows on which its
#: recall was measured; it is saved again when it has grown by this share.
_DEAD, _GROWN, _UNSAVED = 0.2, 1.5, 0.02
#: Recall is first looked at after so many rows, then whenever there are twice as many: it only falls as a graph grows.
_EARLY = 8192
#: A lane for which no graph could be had is tried again when it has this many times the rows.
_TRY_AGAIN = 1.25
#: How long a lane is left alone for which there was nothing to do, and how often to look for another process's work.
PAUSE_S, WAIT_S = 30.0, 0.5


class Stopped(Exception):  # noqa: N818 - tells the one thread that works here to end
    """The index is being closed."""


@dataclass(slots=True)
class Kept:
    """What is known of one lane. ``tried`` is the number of rows at the last attempt that did not end well."""

    ready: tuple[hnsw.Graph, Card] | None = None
    state: str = ""
    tried: int = 0
    quiet_until: float = 0.0

    def pause(self) -> None:
        self.quiet_until = time.monotonic() + PAUSE_S


def off(rows: int, threshold: int) -> str:
    """The state of a lane that has too few live rows."""
    return f"off: {rows:,} rows, begins above {threshold:,}"


class Upkeep:
    """Work for one thread. Everything but a graph's own memory is read and written in small transactions."""

    def __init__(
        self,
        folder: Path,
        settings: AnnSettings,
        read: Callable[[], AbstractContextManager[sqlite3.Connection]],
        live: str,
        stop: threading.Event,
    ) -> None:
        """``read`` begins a read transaction; ``live`` is a SELECT of the ids of texts that chunks use, as text_id.

        Once ``stop`` is set, every method may raise Stopped.
        """
        self.problems: tuple[str, ...] = ()
        self._settings = settings
        self.files = GraphFiles(folder)
        self._read, self._live_texts = read, live
        self._stop = stop

    def _check(self) -> None:
        if self._stop.is_set():
            raise Stopped

    def review(self, lane: Lane, kept: Kept) -> None:
        """Load or build the lane's graph, or bring it up to the lane; whatever it needs, nothing included."""
        uid, live = self._live(lane)
        if len(live) <= self._settings.threshold:
            kept.ready, kept.state = None, off(len(live), self._settings.threshold)
            kept.pause()
            return
        with self._turn(kept):
            self._load(lane, kept, uid)
            if len(live) < _TRY_AGAIN * kept.tried:
                kept.pause()
                return
            if self._worn(kept, live):
                kept.tried = len(live)
                self._build(lane, kept, uid, live)
        self._add(lane, kept, live)

    def extend(self, lane: Lane, kept: Kept, ids: Ids) -> None:
        """Add the vectors of these texts to the lane's graph, or build it anew if they are many."""
        import numpy as np

        if kept.ready is not None:
            graph, card = kept.ready
            if len(np.union1d(graph.ids, ids)) > _GROWN * card.measured:
                self.review(lane, kept)
            else:
                self._add(lane, kept, ids)

    def _worn(self, kept: Kept, live: Ids) -> bool:
        import numpy as np

        if kept.ready is None:
            return True
        graph, card = kept.ready
        dead = 1 - np.isin(graph.ids, live, assume_unique=True).mean()
        return bool(dead > _DEAD or len(live) > _GROWN * card.measured)

    @contextmanager
    def _turn(self, kept: Kept) -> Iterator[None]:
        """Wait until no other process works on the folder: it may be making just what is wanted here."""
        while True:
            with self.files.turn() as mine:
                if mine:
                    yield
                    return
            if kept.ready is None:
                kept.state = "waiting: another process builds it"
            if self._stop.wait(WAIT_S):
                raise Stopped

    # -- what is done to a graph ----------------------------------------------------------------------------------

    def _load(self, lane: Lane, kept: Kept, uid: str) -> None:
        card = self.files.card(lane.id)
        ours = kept.ready[1] if kept.ready is not None else None
        if card is None or card == ours:
            return
        if (card.uid, card.lane, card.dims, card.library) != (uid, lane.id, lane.dims, hnsw.version()):
            return
        if card.digest is None and card.recall < self._settings.min_recall:
            self._refuse(kept, card)
        elif card.digest is not None and card.recall >= self._settings.min_recall:
            kept.state = f"loading: {card.rows:,} rows"
            graph = self.files.load(card)
            if graph is None:
                self._tell(f"the graph of lane {lane.id} in {self.files.folder} was damaged: built anew")
            else:
                self._serve(kept, graph, card)

    def _build(self, lane: Lane, kept: Kept, uid: str, live: Ids) -> None:
        import numpy as np

        drawn = np.random.default_rng(len(live)).choice(live, min(QUESTIONS, len(live)), replace=False)
        trial = Trial(self._rows(lane, np.sort(drawn))[1])
        graph = hnsw.Graph(lane.dims, len(live))
        threads = max(1, (os.cpu_count() or 1) // 2)
        early = _EARLY
        for start in range(0, len(live), _BATCH):
            kept.state = f"building: {start:,} of {len(live):,} rows"
            ids, rows = self._rows(lane, live[start : start + _BATCH])
            graph.add(ids, rows, threads)
            trial.see(ids, rows)
            if len(graph.ids) > early:
                early *= 2
                if trial.recall(graph, EFS[-1]) < self._settings.min_recall:
                    break
        ef, recall = trial.least_ef(graph, self._settings.min_recall)
        highest, measured = int(live[-1]), len(graph.ids)
        card = Card(uid, lane.id, lane.dims, hnsw.version(), len(live), highest, ef, recall, measured, None)
        if recall >= self._settings.min_recall:
            kept.tried = 0
            self._serve(kept, graph, card)
            self._save(kept, graph, card)
        else:
            self._refuse(kept, card)
            with self._reporting():
                self.files.refuse(card)

    def _add(self, lane: Lane, kept: Kept, ids: Ids) -> None:
        """Add what has a vector and is not there yet, and save the graph if that was much."""
        import numpy as np

        if kept.ready is None:
            return
        graph, card = kept.ready
        before = graph.ids
        new = np.setdiff1d(ids, before)
        for start in range(0, len(new), _BATCH):
            graph.add(*self._rows(lane, new[start : start + _BATCH]))
        if graph.ids is before:
            kept.pause()
            return
        self._serve(kept, graph, card)
        if len(graph.ids) > (1 + _UNSAVED) * card.rows:
            with self.files.turn() as mine:
                if mine:
                    self._save(kept, graph, card)

    def _rows(self, lane: Lane, ids: Ids) -> tuple[Ids, Matrix]:
        """Those of the texts that have a vector, ascending, in a transaction of its own."""
        self._check()
        with self._read() as connection:
            found = connection.execute(
                f"SELECT id, vec FROM vectors.v{lane.id:d} WHERE id IN ({', '.join('?' * len(ids))}) ORDER BY id",  # noqa: S608
                ids.tolist(),
            ).fetchall()
        return scan.as_matrix(found, lane.dims)

    def _live(self, lane: Lane) -> tuple[str, Ids]:
        """The uid of the vectors file, and the texts that chunks use and that have a vector in the lane."""
        import numpy as np

        listed: list[int] = []
        while True:
            self._check()
            with self._read() as connection:
                uid = store.read_uid(connection)
                found = connection.execute(
                    f"SELECT c.id FROM vectors.c{lane.id:d} c WHERE c.id > ? AND EXISTS"  # noqa: S608
                    f" (SELECT 1 FROM ({self._live_texts}) WHERE text_id = c.id) ORDER BY c.id LIMIT ?",
                    (listed[-1] if listed else 0, _LISTED),
                ).fetchall()
            listed += (text_id for (text_id,) in found)
            if len(found) < _LISTED:
                return uid, np.array(listed, np.int64)

    # -- what is told and kept ------------------------------------------------------------------------------------

    def _serve(self, kept: Kept, graph: hnsw.Graph, card: Card) -> None:
        kept.ready = graph, card
        size = f"{len(graph.ids):,} rows, {graph.nbytes / 1e6:.0f} MB"
        kept.state = f"ready: {size}, ef {card.ef}, recall {card.recall:.3f}"

    def _refuse(self, kept: Kept, card: Card) -> None:
        kept.ready, kept.tried = None, card.rows
        least = self._settings.min_recall
        kept.state = f"refused: recall {card.recall:.3f} below {least:g} at ef {card.ef}: exact scan stays"

    def _save(self, kept: Kept, graph: hnsw.Graph, card: Card) -> None:
        now = replace(card, rows=len(graph.ids), highest=int(graph.ids[-1]))
        with self._reporting():
            kept.ready = graph, self.files.save(now, graph)

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """What cannot be saved is built again by the next process; this one goes on."""
        try:
            yield
        except OSError as error:
            self._tell(f"the graph of vectors could not be saved: {error}")

    def _tell(self, problem: str) -> None:
        self.problems = tuple(dict.fromkeys((*self.problems, problem)))
