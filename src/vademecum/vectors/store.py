"""Tables of vectors.sqlite and how vectors get into them.

The file is attached to index.sqlite's connections under the name ``vectors``. ``texts.id`` is never reused, so an id
kept in the index can only mean the text it was given for, or nothing. Lane tables are named by number; the number is
an integer that we made, never input.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.errors import IndexReplacedError, ProviderReplyError
from vademecum.sqlite import Connection, connect, migrate
from vademecum.types import Calibration, Fingerprint, Lane, LaneState

if TYPE_CHECKING:
    from vademecum.types import Matrix

#: No vector up to 16,000 dimensions spills into overflow pages, so that all can be read in place.
PAGE_SIZE = 65536
#: Pages, so 4 MiB of log.
AUTOCHECKPOINT = 64
#: Bytes of a code beside one per dimension: its scale and the norm of its residual, float32 each.
CODE_EXTRA = 8
#: Bytes of the file that SQLite may read in place.
MMAP_SIZE = 1 << 36


def _first(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
    connection.execute("INSERT INTO meta VALUES ('uid', ?)", (secrets.token_hex(16),))
    connection.execute("CREATE TABLE texts(id INTEGER PRIMARY KEY AUTOINCREMENT, hash BLOB NOT NULL UNIQUE)")
    connection.execute(
        "CREATE TABLE lanes(id INTEGER PRIMARY KEY AUTOINCREMENT, fingerprint TEXT NOT NULL UNIQUE,"
        " dims INTEGER NOT NULL, state TEXT NOT NULL, lo REAL NOT NULL, hi REAL NOT NULL)"
    )


def _second(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE texts ADD COLUMN made REAL NOT NULL DEFAULT 0")
    connection.execute("ALTER TABLE lanes ADD COLUMN used REAL NOT NULL DEFAULT 0")
    connection.execute("ALTER TABLE lanes ADD COLUMN measured INTEGER NOT NULL DEFAULT 0")
    connection.execute("UPDATE lanes SET state = iif(id = (SELECT max(id) FROM lanes), 'serving', 'kept')")


MIGRATIONS = (_first, _second)


def connect_alone(path: Path) -> Connection:
    """A connection to the vectors file alone, which is created or brought to the newest schema. Raises sqlite3 errors
    as they are, and IndexFormatError."""
    connection = connect(path, page_size=PAGE_SIZE, autocheckpoint=AUTOCHECKPOINT)
    try:
        migrate(connection, path, MIGRATIONS)
    except BaseException:
        connection.close()
        raise
    return connection


def read_uid(connection: sqlite3.Connection) -> str:
    """Which vectors file this is; the first read of a snapshot, which pins it."""
    (uid,) = connection.execute("SELECT value FROM vectors.meta WHERE key = 'uid'").fetchone()
    return str(uid)


def load_lanes(connection: sqlite3.Connection) -> list[Lane]:
    """All lanes in order of creation."""
    rows = connection.execute("SELECT id, fingerprint, dims, lo, hi, state, measured FROM vectors.lanes ORDER BY id")
    return [
        Lane(lane_id, key, dims, Calibration(lo, hi), state, measured)
        for lane_id, key, dims, lo, hi, state, measured in rows
    ]


def ensure_lane(connection: sqlite3.Connection, fingerprint: Fingerprint, prior: Calibration, now: float) -> Lane:
    """The lane of ``fingerprint``, created if new: the first one serves, a later one is built. In a transaction."""
    lanes = load_lanes(connection)
    for lane in lanes:
        if lane.fingerprint == fingerprint.key:
            return lane
    state: LaneState = "building" if any(lane.state == "serving" for lane in lanes) else "serving"
    cursor = connection.execute(
        "INSERT INTO vectors.lanes(fingerprint, dims, state, lo, hi, used) VALUES (?, ?, ?, ?, ?, ?)",
        (fingerprint.key, fingerprint.dims, state, prior.lo, prior.hi, now),
    )
    lane_id = int(cursor.lastrowid or 0)
    connection.execute(f"CREATE TABLE vectors.v{lane_id:d}(id INTEGER PRIMARY KEY, vec BLOB NOT NULL)")
    connection.execute(f"CREATE TABLE vectors.c{lane_id:d}(id INTEGER PRIMARY KEY, code BLOB NOT NULL)")
    return Lane(lane_id, fingerprint.key, fingerprint.dims, prior, state)


def serve(connection: sqlite3.Connection, lane: Lane, now: float) -> None:
    """Let the lane answer from now on, in the place of the one that did. In a transaction.

    ``used`` is when a lane was created, or last began or ceased to serve. Raises IndexReplacedError if it is gone.
    """
    done = connection.execute(
        "UPDATE vectors.lanes SET used = :now, state = iif(id = :lane, 'serving', 'kept')"
        " WHERE (id = :lane OR state = 'serving') AND :lane IN (SELECT id FROM vectors.lanes)",
        {"now": now, "lane": lane.id},
    )
    if not done.rowcount:
        raise IndexReplacedError(f"the vectors of {lane.fingerprint} were removed meanwhile")


def set_calibration(connection: sqlite3.Connection, lane: Lane, calibration: Calibration, measured: int) -> None:
    """Record what was measured on so many vectors. In a transaction."""
    connection.execute(
        "UPDATE vectors.lanes SET lo = ?, hi = ?, measured = ? WHERE id = ?",
        (calibration.lo, calibration.hi, measured, lane.id),
    )


def put(connection: sqlite3.Connection, lane: Lane, hashes: Sequence[bytes], vectors: Matrix, now: float) -> None:
    """Store one row and its code per hash. Call in a transaction. Rows must be finite and of unit length."""
    import numpy as np

    from vademecum import kernels

    if vectors.shape != (len(hashes), lane.dims):
        raise ProviderReplyError(
            f"vectors of shape {vectors.shape} do not fit {len(hashes)} texts in a lane of {lane.dims} dimensions"
        )
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    wrong = np.flatnonzero(~(np.abs(lengths - 1) < 1e-3))
    if wrong.size:
        raise ProviderReplyError(f"vector {wrong[0]} has length {lengths[wrong[0]]}: expected 1")
    connection.executemany(
        "INSERT OR IGNORE INTO vectors.texts(hash, made) VALUES (?, ?)", ((digest, now) for digest in hashes)
    )
    rows = np.ascontiguousarray(vectors, dtype="<f4")
    for table, blobs in ((f"v{lane.id:d}(id, vec)", rows), (f"c{lane.id:d}(id, code)", kernels.encode(rows))):
        connection.executemany(
            f"INSERT OR REPLACE INTO vectors.{table} SELECT id, ? FROM vectors.texts WHERE hash = ?",  # noqa: S608
            ((blob.tobytes(), digest) for blob, digest in zip(blobs, hashes, strict=True)),
        )


def drop_lane(connection: sqlite3.Connection, lane: Lane) -> None:
    """Remove a lane with all its vectors; its number is never given again. In a transaction."""
    connection.execute("DELETE FROM vectors.lanes WHERE id = ?", (lane.id,))
    for kind in "vc":
        connection.execute(f"DROP TABLE vectors.{kind}{lane.id:d}")


def drop_texts(connection: sqlite3.Connection, lanes: Sequence[Lane], ids: Sequence[int]) -> int:
    """Remove texts and their vectors in all of their ``lanes``; returns how many vectors. In a transaction."""
    count = count_texts(connection, lanes, ids)
    for table in (*(f"{kind}{lane.id:d}" for lane in lanes for kind in "vc"), "texts"):
        connection.execute(f"DELETE FROM vectors.{table} WHERE id IN ({', '.join('?' * len(ids))})", ids)  # noqa: S608
    return count


def count_texts(connection: sqlite3.Connection, lanes: Sequence[Lane], ids: Sequence[int]) -> int:
    """How many vectors these texts have in these lanes."""
    marks = ", ".join("?" * len(ids))
    counts = (f"(SELECT count(*) FROM vectors.c{lane.id:d} WHERE id IN ({marks}))" for lane in lanes)  # noqa: S608
    return sum(connection.execute(f"SELECT {count}", ids).fetchone()[0] for count in counts)


def count_rows(connection: sqlite3.Connection, lane: Lane) -> int:
    """How many vectors the lane has."""
    (count,) = connection.execute(f"SELECT count(*) FROM vectors.c{lane.id:d}").fetchone()  # noqa: S608
    return int(count)
