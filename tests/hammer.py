"""Writers that never rest, for the tests of what readers see meanwhile. Run as a program: folder, seed, seconds."""

from __future__ import annotations

import random
import sqlite3
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from vademecum import kernels
from vademecum.sqlite import connect
from vademecum.types import Fingerprint

DIMS = 24
FINGERPRINT = Fingerprint("test", "hammer", DIMS)
CHECKPOINTS = ("PASSIVE", "FULL", "RESTART", "TRUNCATE")


def unit_rows(generator: np.random.Generator, count: int) -> np.ndarray:
    rows = generator.standard_normal((count, DIMS)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class Writer:
    """Inserts, replaces, deletes, rolls back, checkpoints and vacuums the vectors of lane 1, at random."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._db = connect(folder / "vectors.sqlite")
        self._db.execute("PRAGMA busy_timeout = 2000")
        self._random = random.Random(seed)
        self._numbers = np.random.default_rng(seed)

    def step(self) -> None:
        dice = self._random.random()
        with suppress(sqlite3.OperationalError):
            if dice < 0.02:
                self._db.execute("VACUUM")
            elif dice < 0.15:
                self._db.execute(f"PRAGMA wal_checkpoint({self._random.choice(CHECKPOINTS)})").fetchall()
            else:
                self._commit(dice)

    def _commit(self, dice: float) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            if dice < 0.6:
                self._insert(self._random.randint(1, 40))
            else:
                self._delete(self._random.randint(1, 40))
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("ROLLBACK" if dice > 0.95 else "COMMIT")

    def _insert(self, count: int) -> None:
        rows = unit_rows(self._numbers, count)
        ids = [self._random.randint(1, 600) for _ in range(count)]
        for table, blobs in (("v1", rows), ("c1", kernels.encode(rows))):
            self._db.executemany(
                f"INSERT OR REPLACE INTO {table} VALUES (?, ?)",
                ((i, blob.tobytes()) for i, blob in zip(ids, blobs, strict=True)),
            )

    def _delete(self, count: int) -> None:
        ids = [(self._random.randint(1, 600),) for _ in range(count)]
        for table in ("v1", "c1"):
            self._db.executemany(f"DELETE FROM {table} WHERE id = ?", ids)


def main(folder: str, seed: str, seconds: str) -> None:
    writer = Writer(Path(folder), int(seed))
    end = time.monotonic() + float(seconds)
    pause = random.Random(seed)
    while time.monotonic() < end:
        writer.step()
        time.sleep(pause.choice((0, 0.001, 0.004, 0.02)))


if __name__ == "__main__":
    main(*sys.argv[1:])
