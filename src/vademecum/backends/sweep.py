"""What the embedded index no longer needs: lanes of models that nobody uses, and texts that stand nowhere any more.

Whether something is needed is asked again in the transaction that removes it, because others write meanwhile.
Readers keep the state that they began with. Ids are never given again, so what is removed cannot be mistaken.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from vademecum.errors import IndexReplacedError
from vademecum.index import schema
from vademecum.sqlite import Connection
from vademecum.types import Lane
from vademecum.vectors import store

#: Texts looked through in one read, and removed in one transaction: other writers wait for milliseconds.
_LISTED, _REMOVED = 20_000, 500
#: The file is written anew when this share of it, and at least so many bytes, hold nothing.
_SLACK, _LEAST_SLACK = 0.25, 1 << 20

_UNUSED = (
    "t.made < ? AND NOT EXISTS (SELECT 1 FROM main.chunks c WHERE c.text_id = t.id)"
    " AND NOT EXISTS (SELECT 1 FROM main.chunks c WHERE c.text_id IS NULL AND c.hash = t.hash)"
)

Access = Callable[[], AbstractContextManager[Connection]]


@dataclass(frozen=True, slots=True)
class Sweep:
    """One collection. ``read`` and ``write`` begin transactions; what is younger than ``before``, a Unix time, stays.

    ``keep`` are fingerprints of lanes that stay whatever their age, beside the one that serves; None keeps all.
    """

    read: Access
    write: Access
    keep: frozenset[str] | None
    before: float

    def lanes(self, remove: bool) -> tuple[tuple[Lane, ...], int]:
        """The lanes that nobody uses, and how many vectors they have; removed one by one if ``remove``."""
        with self.read() as connection:
            doomed = self._doomed(connection)
            vectors = sum(store.count_rows(connection, lane) for lane in doomed)
        if not remove:
            return doomed, vectors
        gone = []
        for lane in doomed:
            with self.write() as connection:
                if lane.id in {still.id for still in self._doomed(connection)}:
                    store.drop_lane(connection, lane)
                    gone.append(lane)
        return tuple(gone), vectors

    def _doomed(self, connection: sqlite3.Connection) -> tuple[Lane, ...]:
        if self.keep is None:
            return ()
        idle = {
            lane_id for (lane_id,) in connection.execute("SELECT id FROM vectors.lanes WHERE used < ?", (self.before,))
        }
        return tuple(
            lane
            for lane in store.load_lanes(connection)
            if lane.id in idle and lane.state != "serving" and lane.fingerprint not in self.keep
        )

    def texts(self, remove: bool, doomed: Sequence[Lane]) -> tuple[int, int]:
        """How many texts stand nowhere any more, and how many vectors they have in lanes that are not ``doomed``."""
        texts = vectors = 0
        for ids in self._orphans():
            with (self.write if remove else self.read)() as connection:
                still = self._still(connection, ids)
                lanes = [lane for lane in store.load_lanes(connection) if lane.id not in {lane.id for lane in doomed}]
                vectors += (store.drop_texts if remove else store.count_texts)(connection, lanes, still)
            texts += len(still)
        return texts, vectors

    def _orphans(self) -> Iterator[list[int]]:
        """Ids that seem unused, few at a time, from reads of their own."""
        last: int | None = 0
        while last is not None:
            with self.read() as connection:
                page = connection.execute(
                    "SELECT id FROM vectors.texts WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?", (last, _LISTED)
                ).fetchone()
                end = page[0] if page is not None else None
                found = connection.execute(
                    f"SELECT t.id FROM vectors.texts t WHERE t.id > ? AND (? IS NULL OR t.id <= ?) AND {_UNUSED}",  # noqa: S608
                    (last, end, end, self.before),
                )
                ids = [text_id for (text_id,) in found]
            for start in range(0, len(ids), _REMOVED):
                yield ids[start : start + _REMOVED]
            last = end

    def _still(self, connection: sqlite3.Connection, ids: Sequence[int]) -> list[int]:
        if schema.vectors_uid(connection) != store.read_uid(connection):
            raise IndexReplacedError("vectors.sqlite was replaced while the index was open")
        found = connection.execute(
            f"SELECT t.id FROM vectors.texts t WHERE t.id IN ({', '.join('?' * len(ids))}) AND {_UNUSED}",  # noqa: S608
            (*ids, self.before),
        )
        return [text_id for (text_id,) in found]


def reclaim(connection: sqlite3.Connection) -> int:
    """Write the vectors file anew if much of it holds nothing; returns the bytes won. Not within a transaction.

    Others read meanwhile, and writers wait. Raises sqlite3.OperationalError when another process writes for too long.
    """
    (pages,) = connection.execute("PRAGMA vectors.page_count").fetchone()
    (free,) = connection.execute("PRAGMA vectors.freelist_count").fetchone()
    if free < _SLACK * pages or free * store.PAGE_SIZE < _LEAST_SLACK:
        return 0
    connection.execute("VACUUM vectors")
    # The file shrinks when its log has been moved, which a reader may put off.
    connection.execute("PRAGMA vectors.wal_checkpoint(TRUNCATE)")
    (left,) = connection.execute("PRAGMA vectors.page_count").fetchone()
    return int((pages - left) * store.PAGE_SIZE)
