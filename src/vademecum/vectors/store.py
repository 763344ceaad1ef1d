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

from vademecum.errors import ProviderReplyError
from vademecum.sqlite import Connection, connect, migrate
from vademecum.types import Calibration, Fingerprint, Lane

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


MIGRATIONS = (_first,)


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
    rows = connection.execute("SELECT id, fingerprint, dims, lo, hi FROM vectors.lanes ORDER BY id")
    return [Lane(lane_id, key, dims, Calibration(lo, hi)) for lane_id, key, dims, lo, hi in rows]


def ensure_lane(connection: sqlite3.Connection, fingerprint: Fingerprint, prior: Calibration) -> Lane:
    """The lane of ``fingerprint``, created if new. Call in a transaction."""
    for lane in load_lanes(connection):
        if lane.fingerprint == fingerprint.key:
            return lane
    cursor = connection.execute(
        "INSERT INTO vectors.lanes(fingerprint, dims, state, lo, hi) VALUES (?, ?, 'open', ?, ?)",
        (fingerprint.key, fingerprint.dims, prior.lo, prior.hi),
    )
    lane_id = int(cursor.lastrowid or 0)
    connection.execute(f"CREATE TABLE vectors.v{lane_id:d}(id INTEGER PRIMARY KEY, vec BLOB NOT NULL)")
    connection.execute(f"CREATE TABLE vectors.c{lane_id:d}(id INTEGER PRIMARY KEY, code BLOB NOT NULL)")
    return Lane(lane_id, fingerprint.key, fingerprint.dims, prior)


def put(connection: sqlite3.Connection, lane: Lane, hashes: Sequence[bytes], vectors: Matrix) -> None:
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
    connection.executemany("INSERT OR IGNORE INTO vectors.texts(hash) VALUES (?)", ((digest,) for digest in hashes))
    rows = np.ascontiguousarray(vectors, dtype="<f4")
    for table, blobs in ((f"v{lane.id:d}(id, vec)", rows), (f"c{lane.id:d}(id, code)", kernels.encode(rows))):
        connection.executemany(
            f"INSERT OR REPLACE INTO vectors.{table} SELECT id, ? FROM vectors.texts WHERE hash = ?",  # noqa: S608
            ((blob.tobytes(), digest) for blob, digest in zip(blobs, hashes, strict=True)),
        )
