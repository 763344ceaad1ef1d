"""The map shows exactly what SELECT shows in the same transaction, whatever other processes do meanwhile."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from hammer import DIMS, FINGERPRINT, Writer, unit_rows
from store_support import environment
from vademecum import kernels
from vademecum.backends import EmbeddedIndex
from vademecum.backends.snapshot import EmbeddedReader
from vademecum.errors import IndexReplacedError
from vademecum.types import Calibration, IndexSpec, Lane
from vademecum.vectors.allowed import Allowed

STRESS = bool(os.environ.get("VADEMECUM_STRESS"))
SEARCHES = 20_000 if STRESS else 2_000
HERE = Path(__file__).parent

pytestmark = [
    pytest.mark.kernels,
    pytest.mark.skipif(kernels.FileMap is None, reason="the native core is not in use: every read is a SELECT"),
]


def every(reader: EmbeddedReader) -> Allowed:
    return Allowed(
        reader._connection,
        "SELECT id AS text_id FROM vectors.v1",
        "SELECT v.id, v.id FROM json_each(?) j JOIN vectors.v1 v ON v.id = j.value",
    )


def new_index(folder: Path) -> tuple[EmbeddedIndex, Lane]:
    index = EmbeddedIndex(folder, IndexSpec("test", "test"))
    lane = index.lane(FINGERPRINT, Calibration(0, 1))
    writer = Writer(folder, 1)
    for _ in range(40):
        writer.step()
    return index, lane


@contextmanager
def writers(folder: Path, count: int, seconds: float = 3600) -> Iterator[None]:
    program = [sys.executable, str(HERE / "hammer.py"), str(folder)]
    environ = environment() | {"PYTHONPATH": f"{environment()['PYTHONPATH']}{os.pathsep}{HERE}"}
    running = [subprocess.Popen([*program, str(seed), str(seconds)], env=environ) for seed in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def differences(index: EmbeddedIndex, lane: Lane, query: np.ndarray, pause: float) -> int | None:
    """How many rows of the map differ in any bit from SELECT's in one transaction; None if SELECT was taken anyway."""
    with index.reader() as reader:
        mapped = reader._exact._map.lane(reader._connection, lane)
        if mapped is None:
            return None
        view = np.frombuffer(mapped.base, np.uint8)
        wrong = 0
        for _ in range(2):
            every = mapped.every
            seen = {
                text_id: (view[row : row + 4 * DIMS].tobytes(), view[code : code + DIMS + 8].tobytes())
                for text_id, row, code in zip(every.ids, mapped.vectors(every.ids.tolist()), every.codes, strict=True)
            }
            selected = reader._connection.execute(
                f"SELECT v.id, v.vec, c.code FROM vectors.v{lane.id} v JOIN vectors.c{lane.id} c USING (id)"
            )
            expected = {text_id: (vector, code) for text_id, vector, code in selected}
            wrong += len(seen.items() ^ expected.items())
            found = mapped.top(every, query, 5)
            rows = np.frombuffer(b"".join(vector for vector, _ in expected.values()), np.float32).reshape(-1, DIMS)
            plain = dict(zip(expected, kernels.scores(rows, query).tolist(), strict=True))
            order = sorted(plain, key=lambda text_id: (-plain[text_id], text_id))[:5]
            wrong += found != [(text_id, plain[text_id]) for text_id in order]
            time.sleep(pause)
        return wrong


def sound(folder: Path) -> bool:
    with closing(sqlite3.connect(folder / "vectors.sqlite")) as db:
        return bool(db.execute("PRAGMA integrity_check").fetchone() == ("ok",))


@pytest.mark.stress
def test_no_search_sees_a_torn_or_foreign_row_while_two_processes_write(tmp_path: Path) -> None:
    index, lane = new_index(tmp_path)
    generator = np.random.default_rng(3)
    found: list[int | None] = []
    with writers(tmp_path, 2):
        for number in range(SEARCHES):
            query = unit_rows(generator, 1)[0]
            found.append(differences(index, lane, query, 0.001 if number % 3 == 0 else 0.0))
    mapped = [wrong for wrong in found if wrong is not None]
    assert sum(mapped) == 0
    assert len(mapped) > SEARCHES / 20, "the map was hardly ever taken"
    assert sound(tmp_path)
    index.close()


CONTROL = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import test_consistency as t
from vademecum.sqlite import connection
from vademecum.vectors import mapped
mapped.VectorMap._drained = lambda self: True
mapped.VectorMap.settled = lambda self, connection: True
index, lane = t.new_index(Path(sys.argv[1]))
wrong = taken = 0
with t.writers(Path(sys.argv[1]), 2):
    for _ in range(400):
        rows = index._connect()
        rows.execute("SELECT count(*) FROM vectors.v1").fetchone()
        lane_map = index._map.lane(rows, lane)
        if lane_map is None:
            rows.close()
            continue
        offsets = lane_map.vectors(lane_map.every.ids.tolist())
        if offsets is None or (offsets < 0).any():
            rows.close()
            continue
        taken += 1
        view = t.np.frombuffer(lane_map.base, t.np.uint8)
        t.time.sleep(0.004)
        seen = {int(i): view[o : o + 4 * t.DIMS].tobytes() for i, o in zip(lane_map.every.ids, offsets)}
        expected = dict(rows.execute("SELECT id, vec FROM vectors.v1"))
        wrong += seen != expected
        rows.close()
print(taken, wrong)
sys.exit(3 if wrong else 0)
"""


def test_without_the_protocol_the_same_hammering_shows_wrong_rows_or_kills_the_process(tmp_path: Path) -> None:
    """The control: if this passed, the test above would prove nothing."""
    done = subprocess.run(
        [sys.executable, "-c", CONTROL, str(tmp_path), str(HERE)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 3 or done.returncode < 0, (done.returncode, done.stdout, done.stderr[-2000:])


def test_a_quiet_store_takes_the_map_for_every_search_and_selects_no_vector(tmp_path: Path) -> None:
    index, lane = new_index(tmp_path)
    statements: list[str] = []
    for _ in range(5):
        with index.reader() as reader:
            reader._connection.set_trace_callback(statements.append)
            reader.search_vector(lane, unit_rows(np.random.default_rng(1), 1)[0], 5, ())
            reader._connection.set_trace_callback(None)
            assert reader.notes() == {"vectors": "map"}
    assert not [statement for statement in statements if "vec FROM" in statement or "SELECT id, vec" in statement]
    index.close()


def test_a_log_that_cannot_be_drained_leads_to_select_with_the_same_answer(tmp_path: Path) -> None:
    index, lane = new_index(tmp_path)
    query = unit_rows(np.random.default_rng(1), 1)[0]
    with index.reader() as reader:
        expected = reader._exact.top_texts(lane, query, 9, every(reader))
        assert reader.notes() == {"vectors": "map"}
    with closing(sqlite3.connect(tmp_path / "vectors.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM v1").fetchone()
        writer = Writer(tmp_path, 5)
        writer._db.execute("BEGIN IMMEDIATE")
        writer._db.execute("INSERT INTO meta VALUES ('key', 'value')")
        writer._db.execute("COMMIT")
        with index.reader() as reader:
            assert reader._exact.top_texts(lane, query, 9, every(reader)) == expected
            assert reader.notes() == {"vectors": "select"}
        other.execute("ROLLBACK")
    with index.reader() as reader:
        assert reader._exact.top_texts(lane, query, 9, every(reader)) == expected
        assert reader.notes() == {"vectors": "map"}
    index.close()


def test_a_file_that_was_replaced_is_not_mapped(tmp_path: Path) -> None:
    index, lane = new_index(tmp_path)
    query = unit_rows(np.random.default_rng(1), 1)[0]
    with index.reader() as reader:
        reader.search_vector(lane, query, 5, ())
        data = (tmp_path / "vectors.sqlite").read_bytes()
    (tmp_path / "copy").write_bytes(data)
    (tmp_path / "copy").replace(tmp_path / "vectors.sqlite")
    with pytest.raises(IndexReplacedError, match="replaced"), index.reader():
        pass
    with index._readers.reader() as connection:
        connection.execute("SELECT count(*) FROM vectors.meta").fetchone()
        assert index._map.lane(connection, lane) is None
    index.close()


def test_a_map_is_not_made_of_a_file_that_came_after_the_connection(tmp_path: Path) -> None:
    index, lane = new_index(tmp_path)
    index._map._identity = (0, 0)
    with index.reader() as reader:
        reader.search_vector(lane, unit_rows(np.random.default_rng(1), 1)[0], 5, ())
        assert reader.notes() == {"vectors": "select"}
    index.close()
