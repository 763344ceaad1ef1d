"""What can be wrong with the lanes of vectors.sqlite. Every check works in the caller's transaction."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator

from vademecum.types import Lane
from vademecum.vectors import store

_TABLE = re.compile(r"[vc](\d+)")
#: Rows in memory at a time.
_SLICE = 512


def stray_tables(connection: sqlite3.Connection) -> tuple[list[str], list[int]]:
    """Tables of vectors that no lane has, and numbers of lanes that lack a table."""
    found = connection.execute("SELECT name FROM vectors.sqlite_schema WHERE type = 'table'")
    tables = {name for (name,) in found if _TABLE.fullmatch(name)}
    lanes = {number for (number,) in connection.execute("SELECT id FROM vectors.lanes")}
    stray = sorted(name for name in tables if int(name[1:]) not in lanes)
    return stray, sorted(number for number in lanes if not {f"v{number}", f"c{number}"} <= tables)


def bad_rows(connection: sqlite3.Connection, lane: Lane) -> list[int]:
    """Ids of rows of a lane that no search should meet: without text or code, of another length, not of unit length,
    or whose code is another vector's. Reads all vectors."""
    v, c = f"vectors.v{lane.id:d}", f"vectors.c{lane.id:d}"
    lost = connection.execute(
        f"SELECT id FROM {v} WHERE id NOT IN (SELECT id FROM vectors.texts) OR id NOT IN (SELECT id FROM {c})"  # noqa: S608
        f" UNION SELECT id FROM {c} WHERE id NOT IN (SELECT id FROM {v})"
    )
    bad = {text_id for (text_id,) in lost}
    cursor = connection.execute(f"SELECT v.id, v.vec, c.code FROM {v} v JOIN {c} c ON c.id = v.id")  # noqa: S608
    while rows := cursor.fetchmany(_SLICE):
        bad.update(_unsound(rows, lane.dims))
    return sorted(bad)


def _unsound(rows: list[tuple[int, bytes, bytes]], dims: int) -> Iterator[int]:
    import numpy as np

    from vademecum import kernels

    whole = [row for row in rows if len(row[1]) == 4 * dims and len(row[2]) == dims + store.CODE_EXTRA]
    yield from {row[0] for row in rows} - {row[0] for row in whole}
    if not whole:
        return
    vectors = np.frombuffer(b"".join(vec for _, vec, _ in whole), "<f4").reshape(len(whole), dims)
    codes = np.frombuffer(b"".join(code for _, _, code in whole), np.uint8).reshape(len(whole), -1)
    with np.errstate(all="ignore"):
        unit = np.abs(np.linalg.norm(vectors.astype(np.float64), axis=1) - 1) < 1e-3
    same = np.zeros(len(whole), bool)
    if unit.any():
        same[unit] = (kernels.encode(np.ascontiguousarray(vectors[unit])) == codes[unit]).all(axis=1)
    yield from (row[0] for row, sound in zip(whole, unit & same, strict=True) if not sound)
