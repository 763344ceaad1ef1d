"""The walk over a table's pages, native and plain, held against SELECT; and the map of the file."""

from __future__ import annotations

import os
import secrets
import sqlite3
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz_rowmap import COLUMN, NBYTES, TABLE, Case, damaged_case, fill, new_database, root_of, sound_cases
from vademecum.errors import IndexCorruptError, UsageError
from vademecum.kernels import rowmap_reference
from vademecum.kernels.places import ABSENT, ELSEWHERE, RowMap

try:
    from vademecum._native import rowmap
except ImportError:
    if os.environ.get("VADEMECUM_KERNELS") == "native":
        raise
    rowmap = None

pytestmark = pytest.mark.kernels

needs_native = pytest.mark.skipif(rowmap is None, reason="the native core is not built")
PAGE_SIZES = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]
STRESS = bool(os.environ.get("VADEMECUM_STRESS"))


@pytest.fixture(scope="module", params=[pytest.param("native", marks=needs_native), "reference"])
def twin(request: pytest.FixtureRequest) -> ModuleType:
    return rowmap if request.param == "native" else rowmap_reference


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    return sound_cases(tmp_path_factory.mktemp("sound"))


def closed(connection: sqlite3.Connection, path: Path) -> bytes:
    """The file's bytes. Reading a database closes a descriptor of it, so no connection may be open."""
    connection.close()
    return path.read_bytes()


def walk(twin: ModuleType, case: Case) -> RowMap:
    return twin.walk(case.data, case.root_page, case.column, case.nbytes)


def blobs(found: RowMap, data: bytes, nbytes: int = NBYTES) -> dict[int, bytes]:
    """What the map leads to, after a look at what every map has in common."""
    for array in (found.rowids, found.offsets, found.elsewhere):
        assert array.dtype == np.int64
        assert not array.flags.writeable
    assert len(found.rowids) == len(found.offsets)
    assert (np.diff(found.offsets) >= nbytes).all()
    assert found.size == len(data)
    return {
        rowid: data[offset : offset + nbytes]
        for rowid, offset in zip(found.rowids.tolist(), found.offsets.tolist(), strict=True)
    }


def assert_like_select(
    twin: ModuleType, connection: sqlite3.Connection, path: Path, expected: set[int] | None = None
) -> None:
    """Every row is found with its BLOB, or named as being elsewhere; exactly ``expected`` are found, if given."""
    rows = dict(connection.execute("SELECT id, vec FROM t"))
    root = root_of(connection)
    data = closed(connection, path)
    found = twin.walk(data, root, COLUMN, NBYTES)
    there = blobs(found, data)
    assert there == {rowid: rows[rowid] for rowid in there}
    assert sorted([*there, *found.elsewhere.tolist()]) == sorted(rows)
    if expected is not None:
        assert set(there) == expected & set(rows)
    assert_sought(twin, data, root, found)


def assert_sought(twin: ModuleType, data: bytes, root: int, found: RowMap) -> None:
    """Each row is found alone, in any order, where the walk found it; its missing neighbours are not."""
    places = dict(zip(found.rowids.tolist(), found.offsets.tolist(), strict=True))
    places |= dict.fromkeys(found.elsewhere.tolist(), ELSEWHERE)
    beside = {min(max(rowid + step, -(2**63)), 2**63 - 1) for rowid in places for step in (-1, 1)} | {0}
    places = dict.fromkeys(beside, ABSENT) | places
    rowids = np.random.default_rng(1).permutation(np.array(list(places), np.int64))
    offsets = twin.seek(data, root, COLUMN, NBYTES, rowids)
    assert offsets.dtype == np.int64
    assert dict(zip(rowids.tolist(), offsets.tolist(), strict=True)) == places


# --- sound files ---


@pytest.mark.parametrize("auto_vacuum", [0, 1, 2])
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_every_row_is_found_where_sqlite_put_it(
    twin: ModuleType, tmp_path: Path, page_size: int, auto_vacuum: int
) -> None:
    connection = new_database(tmp_path / "a.db", page_size, auto_vacuum)
    connection.execute("CREATE TABLE other(x)")
    connection.execute(TABLE)
    expected = fill(connection, [*range(-100, 500), -(2**63), 2**63 - 1, 2**32, -(2**40)], page_size)
    assert_like_select(twin, connection, tmp_path / "a.db", expected)


@pytest.mark.parametrize("reserved", [1, 8, 32])
@pytest.mark.parametrize("page_size", [512, 4096, 65536])
def test_reserved_bytes_at_the_end_of_pages_are_not_rows(
    twin: ModuleType, tmp_path: Path, page_size: int, reserved: int
) -> None:
    connection = new_database(tmp_path / "a.db", page_size, reserved=reserved)
    connection.execute(TABLE)
    expected = fill(connection, range(300), page_size - reserved)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert_like_select(twin, connection, tmp_path / "a.db", expected)


def test_a_deep_table_is_walked_to_its_last_row(twin: ModuleType, tmp_path: Path) -> None:
    connection = new_database(tmp_path / "a.db", 512)
    connection.execute(TABLE)
    expected = fill(connection, np.random.default_rng(1).permutation(12_000).tolist(), 512)
    assert_like_select(twin, connection, tmp_path / "a.db", expected)


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_the_longest_blob_that_fits_its_page_is_found_and_the_next_is_not(
    twin: ModuleType, tmp_path: Path, page_size: int
) -> None:
    connection = new_database(tmp_path / "a.db", page_size)
    connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, vec BLOB)")
    header = 4 if page_size <= 8192 else 5
    longest = page_size - 35 - header
    connection.execute("INSERT INTO t VALUES (1, zeroblob(?)), (2, zeroblob(?))", (longest, longest + 1))
    root = root_of(connection)
    data = closed(connection, tmp_path / "a.db")
    assert twin.walk(data, root, 1, longest).rowids.tolist() == [1]
    assert twin.walk(data, root, 1, longest + 1).elsewhere.tolist() == [1, 2]


@pytest.mark.parametrize("vacuum", ["", "VACUUM", "PRAGMA incremental_vacuum"])
def test_what_deletes_and_vacuum_leave_behind_is_no_row(twin: ModuleType, tmp_path: Path, vacuum: str) -> None:
    connection = new_database(tmp_path / "a.db", 1024, auto_vacuum=2)
    connection.execute(TABLE)
    expected = fill(connection, range(2000), 1024)
    connection.execute("DELETE FROM t WHERE id % 3 = 0 OR id BETWEEN 500 AND 800")
    again = range(400, 600, 3)
    expected = (expected - set(again)) | fill(connection, again, 1024, seed=1)
    connection.execute("UPDATE t SET before = zeroblob(90) WHERE id % 7 = 1")
    connection.execute(vacuum).fetchall()
    assert_like_select(twin, connection, tmp_path / "a.db", expected)


def test_a_checkpointed_log_is_in_the_map(twin: ModuleType, tmp_path: Path) -> None:
    connection = new_database(tmp_path / "a.db", 4096)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(TABLE)
    expected = fill(connection, range(500), 4096)
    busy, log, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    assert (busy, log) == (0, moved)
    assert_like_select(twin, connection, tmp_path / "a.db", expected)


@pytest.mark.parametrize("rowids", [[], [7]])
def test_a_table_of_no_or_one_row_is_walked(twin: ModuleType, tmp_path: Path, rowids: list[int]) -> None:
    connection = new_database(tmp_path / "a.db", 65536)
    connection.execute(TABLE)
    expected = fill(connection, rowids, 65536)
    assert_like_select(twin, connection, tmp_path / "a.db", expected)


def test_rows_from_before_a_column_was_added_are_elsewhere(twin: ModuleType, tmp_path: Path) -> None:
    connection = new_database(tmp_path / "a.db")
    connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
    connection.execute("INSERT INTO t VALUES (1), (2)")
    connection.execute("ALTER TABLE t ADD COLUMN vec BLOB")
    connection.execute("INSERT INTO t VALUES (3, ?)", (b"12345678",))
    root = root_of(connection)
    data = closed(connection, tmp_path / "a.db")
    found = twin.walk(data, root, 1, 8)
    assert blobs(found, data, 8) == {3: b"12345678"}
    assert sorted(found.elsewhere) == [1, 2]
    assert sorted(twin.walk(data, root, 2, 8).elsewhere) == [1, 2, 3]


def test_page_one_holds_a_table_too(twin: ModuleType, tmp_path: Path) -> None:
    connection = new_database(tmp_path / "a.db", 512)
    for i in range(40):  # more than fit, so that page 1 becomes an interior page
        connection.execute(f"CREATE TABLE t{i}(x)")
    data = closed(connection, tmp_path / "a.db")
    assert data[100] == 5
    assert sorted(twin.walk(data, 1, 4, 3).elsewhere) == list(range(1, 41))


@given(
    page_size=st.sampled_from(PAGE_SIZES[:5]),
    columns=st.integers(0, 130),
    place=st.integers(0, 130),
    sizes=st.lists(st.sampled_from([0, 1, 5, 6, 7, 57, 58, 400, 3000]), max_size=30),
    wanted=st.sampled_from([0, 5, 6, 58, 400, 3000]),
    seed=st.integers(0, 2**32),
)
def test_random_tables_are_read_as_select_reads_them(
    twin: ModuleType, page_size: int, columns: int, place: int, sizes: list[int], wanted: int, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    place = min(place, columns)
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute(f"PRAGMA page_size = {page_size}")
    connection.execute(f"CREATE TABLE t({', '.join(f'c{i}' for i in range(columns + 1))})")
    fillers = [None, 0, 1, 300, -(2**62), 0.5, "", "word", b"\0\1"]
    for size in sizes:
        row: list[object] = [fillers[i] for i in draw.integers(0, len(fillers), columns)]
        row.insert(place, draw.bytes(size))
        connection.execute(
            f"INSERT OR REPLACE INTO t(rowid, {', '.join(f'c{i}' for i in range(columns + 1))})"
            f" VALUES (?{', ?' * (columns + 1)})",
            (int(draw.integers(-(2**63), 2**63 - 1)), *row),
        )
    rows = dict(connection.execute(f"SELECT rowid, c{place} FROM t"))
    data = connection.serialize()
    found = twin.walk(data, root_of(connection), place, wanted)
    there = blobs(found, data, wanted) if wanted else dict.fromkeys(found.rowids.tolist(), b"")
    connection.close()
    assert there == {rowid: rows[rowid] for rowid in there}
    assert sorted([*there, *found.elsewhere.tolist()]) == sorted(rows)
    if page_size >= 8192:  # nothing spills
        assert set(there) == {rowid for rowid, blob in rows.items() if len(blob) == wanted}


# --- what is no such table ---


def interior(right: int, *left: int, size: int = 512) -> bytes:
    """A page that links to others."""
    cells = b"".join(struct.pack(">IB", page, 1) for page in left)
    header = struct.pack(">BHHHBI", 5, 0, len(left), 0, 0, right)
    pointers = b"".join(struct.pack(">H", size - len(cells) + 5 * i) for i in range(len(left)))
    return (header + pointers).ljust(size - len(cells), b"\0") + cells


def leaf(*cells: bytes, size: int = 512) -> bytes:
    """A page of cells from its end, the first in front."""
    joined = b"".join(cells)
    starts = [size - len(joined) + len(b"".join(cells[:i])) for i in range(len(cells))]
    pointers = b"".join(struct.pack(">H", at) for at in starts)
    header = struct.pack(">BHHHB", 13, 0, len(cells), size - len(joined), 0)
    return (header + pointers).ljust(size - len(joined), b"\0") + joined


def file_of(*pages: bytes, **header: int) -> bytes:
    """A database whose pages from the second on are given."""
    values = {"size": 512, "write": 1, "read": 1, "reserved": 0, "fraction": 64} | header
    head = b"SQLite format 3\0" + struct.pack(">HBBBBBB", *values.values(), 32, 32)
    return head.ljust(512, b"\0") + b"".join(pages)


GOOD = bytes([7, 1, 3, 0, 20, *b"abcd"])
SPOILED_FILES = {
    "page 1: the file is too short to be a database 99": file_of()[:99],
    "page 1: the file does not begin like a database, at byte 6": b"SQLite-format 3\0".ljust(512, b"\0"),
    "page 1: impossible page size 256": file_of(size=256),
    "page 1: impossible page size 1536": file_of(size=1536),
    "page 1: too many reserved bytes 33": file_of(reserved=33),
    "page 1: unknown version of the file format 3": file_of(read=3),
    "page 1: unknown payload fractions 4268064": file_of(fraction=65),
    "page 2: linked, but the file ends with page 1": file_of(leaf()[:511]),
    "page 0: linked, but the file ends with page 2": file_of(interior(0)),
    "page 9: linked, but the file ends with page 3": file_of(interior(3, 9), leaf()),
    "page 2: linked a second time, from page 2": file_of(interior(2)),
    "page 3: linked a second time, from page 2": file_of(interior(3, 3), leaf()),
    "page 2: linked a second time, from page 3": file_of(interior(3), interior(2)),
    "page 2: wrong kind of page for a table at this depth 10": file_of(b"\x0a" + leaf()[1:]),
    "page 3: wrong kind of page for a table at this depth 5": file_of(interior(3, 4), interior(5), leaf(), leaf()),
    "page 4: wrong kind of page for a table at this depth 13": file_of(interior(4, 3), interior(5), leaf(), leaf()),
    "page 21: the table is deeper than any, this page on level 20": file_of(*map(interior, range(3, 40)), leaf()),
    "page 2: more cells than fit 85": file_of(b"\x0d\0\0\0\x55" + leaf()[5:]),
    "page 2: more cells than fit 65535": file_of(b"\x05\0\0\xff\xff" + leaf()[5:]),
    "page 2: a cell lies outside its page, at 9": file_of(leaf(GOOD)[:8] + b"\0\x09" + leaf(GOOD)[10:]),
    "page 2: a cell lies outside its page, at 509": file_of(leaf(GOOD)[:8] + b"\x01\xfd" + leaf(GOOD)[10:]),
    "page 2: a cell lies outside its page, at 508": file_of(interior(3, 3)[:12] + b"\x01\xfc" + bytes(498), leaf()),
    "page 2: a row runs into what follows it, its size is 7": file_of(leaf(GOOD[:-1], GOOD)),
    "page 2: a row runs into what follows it, its size is 0": file_of(leaf(bytes([0x80] * 4))),
    "page 2: a row runs into what follows it, its size is 600": file_of(leaf(b"\x84\x58\x01".ljust(3 + 92 + 3, b"\0"))),
    "page 2: impossible size of a row 2147483648": file_of(leaf(b"\x88\x80\x80\x80\0" + GOOD)),
    "page 2: impossible size of a row -1": file_of(leaf(b"\xff" * 9 + GOOD)),
    "page 2: the header of a record does not fit, its size is 8": file_of(leaf(bytes([7, 1, 8, *range(6)]))),
    "page 2: the header of a record does not fit, its size is 0": file_of(leaf(bytes([3, 1, 0, 0, 0]))),
    "page 2: the header of a record ends within column 1": file_of(leaf(bytes([7, 1, 3, 0, 128, *range(4)]))),
    "page 2: a column has the reserved type 10": file_of(leaf(bytes([7, 1, 3, 10, 20, *range(4)]))),
    "page 2: a column has the reserved type 11": file_of(leaf(bytes([7, 1, 3, 0, 11, *range(4)]))),
    "page 2: a column leaves its record, its type is 22": file_of(leaf(bytes([7, 1, 3, 0, 22, *range(4)]))),
    "page 2: a column leaves its record, its type is -1": file_of(leaf(b"\x0f\1\x0b\0" + b"\xff" * 9 + b"abcd")),
}


@pytest.mark.parametrize("message", SPOILED_FILES)
def test_damage_is_named_with_its_page(twin: ModuleType, message: str) -> None:
    with pytest.raises(IndexCorruptError) as caught:
        twin.walk(SPOILED_FILES[message], 2, 1, 4)
    assert str(caught.value) == message


def test_files_made_by_hand_are_sound_but_for_their_damage(twin: ModuleType) -> None:
    found = twin.walk(file_of(interior(4, 3), leaf(GOOD, GOOD), leaf(GOOD)), 2, 1, 4)
    assert found.offsets.tolist() == [3 * 512 - 2 * 9 + 5, 3 * 512 - 9 + 5, 4 * 512 - 9 + 5]
    deepest = file_of(*map(interior, range(3, 22)), leaf(GOOD))
    assert twin.walk(deepest, 2, 1, 4).rowids.tolist() == [1]
    spilled = file_of(leaf(b"\x84\x58\x01".ljust(3 + 92 + 4, b"\0")))
    assert twin.walk(spilled, 2, 1, 4).elsewhere.tolist() == [1]
    fullest = file_of(leaf(*[bytes([2, 1, 2, 0])] * 84))
    assert len(twin.walk(fullest, 2, 0, 4).elsewhere) == 84


def test_an_index_or_a_table_without_rowids_is_refused(twin: ModuleType, tmp_path: Path) -> None:
    connection = new_database(tmp_path / "a.db")
    connection.execute("CREATE TABLE t(a PRIMARY KEY, vec BLOB) WITHOUT ROWID")
    root = root_of(connection)
    data = closed(connection, tmp_path / "a.db")
    with pytest.raises(IndexCorruptError, match=f"page {root}: wrong kind of page"):
        twin.walk(data, root, 1, 4)


@pytest.mark.parametrize(
    ("request_", "named"), [((0, 1, 4), "root_page is 0"), ((2, -1, 4), "column is -1"), ((2, 1, -4), "nbytes is -4")]
)
def test_a_request_that_no_table_can_meet_is_refused(
    twin: ModuleType, request_: tuple[int, int, int], named: str
) -> None:
    with pytest.raises(UsageError, match=named):
        twin.walk(file_of(leaf(GOOD)), *request_)


def test_no_rows_are_sought_in_vain(twin: ModuleType) -> None:
    none = np.empty(0, np.int64)
    assert twin.seek(file_of(leaf(GOOD)), 2, 1, 4, none).tolist() == []
    with pytest.raises(IndexCorruptError, match="too short"):
        twin.seek(b"", 2, 1, 4, none)


@pytest.mark.parametrize(
    ("message", "data"),
    {
        "page 9: linked, but the file ends with page 3": file_of(interior(3, 9), leaf(GOOD)),
        "page 2: the table is deeper than any, this page on level 20": file_of(interior(2, 2), leaf(GOOD)),
        "page 2: a cell lies outside its page, at 508": file_of(leaf(b"\xff" * 4)),
    }.items(),
)
def test_damage_on_the_way_to_a_row_is_named_with_its_page(twin: ModuleType, message: str, data: bytes) -> None:
    with pytest.raises(IndexCorruptError) as caught:
        twin.seek(data, 2, 1, 4, np.array([1], np.int64))
    assert str(caught.value) == message


@dataclass(frozen=True)
class Twin:
    """One twin's two ways to look for rows, with the file given."""

    walk: Callable[[int, int, int], RowMap]
    seek: Callable[[int, int, int, np.ndarray], np.ndarray]


def outcome(twin: Twin, case: Case) -> tuple[str | dict[str, list[int]], list[str | list[int]]]:
    """What the walk finds, and what is found of some rows sought alone."""
    request = (case.root_page, case.column, case.nbytes)
    sought: list[str | list[int]] = []
    for rowid in (0, 7, 100, 399, 2**40):
        try:
            sought.append(twin.seek(*request, np.array([rowid, rowid + 1], np.int64)).tolist())
        except IndexCorruptError as error:
            sought.append(str(error))
    try:
        found = twin.walk(*request)
    except IndexCorruptError as error:
        return str(error), sought
    return {name: getattr(found, name).tolist() for name in ("rowids", "offsets", "elsewhere")}, sought


@needs_native
@pytest.mark.stress
def test_both_twins_say_the_same_of_any_damage(sound: list[Case], tmp_path: Path) -> None:
    """One file is written over and over: each file mapped keeps a descriptor."""
    path = tmp_path / "damaged.db"
    path.touch()
    mapped = rowmap.FileMap(path)
    first = secrets.randbits(48) if STRESS else 0
    verdicts = []
    for seed in range(first, first + (10_000 if STRESS else 500)):
        case = damaged_case(sound, seed)
        whole = len(case.data) // 512 * 512
        path.write_bytes(case.data)
        native, native_sought = outcome(Twin(mapped.walk, mapped.seek), case)
        data = case.data[:whole]
        plain, plain_sought = outcome(
            Twin(partial(rowmap_reference.walk, data), partial(rowmap_reference.seek, data)), case
        )
        assert native == in_file(path, plain), f"seed {seed}"
        assert native_sought == [in_file(path, each) for each in plain_sought], f"seed {seed}"
        verdicts.append(isinstance(plain, str))
    assert 0.3 < np.mean(verdicts) < 0.7


def in_file(path: Path, verdict: object) -> object:
    return (
        f"{path}: {verdict}; `vademecum rebuild` makes it anew from Markdown" if isinstance(verdict, str) else verdict
    )


def test_sound_files_are_what_they_are_called(twin: ModuleType, sound: list[Case]) -> None:
    assert [len(walk(twin, case).rowids) > 10 for case in sound[::2]] == [True] * 5 + [False]
    assert all(len(walk(twin, replace(case, column=1)).rowids) == 0 for case in sound[::2])
