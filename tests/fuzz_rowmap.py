"""Databases of every shape, and damaged ones without end, to hold the walkers against.

``python tests/fuzz_rowmap.py COUNT [SEED]`` writes the damaged ones for ``tests/native/fuzz_btree.c``.
"""

from __future__ import annotations

import random
import sqlite3
import struct
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

TABLE = "CREATE TABLE t(before, id INTEGER PRIMARY KEY, n, vec BLOB, after)"
COLUMN = 3
NBYTES = 64
#: One of each type that a record can hold besides text and BLOBs.
NUMBERS = (None, 0, 1, -1, -128, 2**15 - 1, -(2**23), 2**31 - 1, -(2**47), 2**62, 1.5)


def new_database(path: Path, page_size: int = 4096, auto_vacuum: int = 0, reserved: int = 0) -> sqlite3.Connection:
    """An empty database in autocommit and with a rollback journal."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA page_size = {page_size}")
    connection.execute(f"PRAGMA auto_vacuum = {auto_vacuum}")
    connection.execute("PRAGMA user_version = 1")  # writes page 1, so that the settings stay
    if reserved:  # the module has no call for it: end the pages of a file that holds nothing yet earlier
        connection.close()
        data = bytearray(path.read_bytes())
        data[20] = reserved
        data[105:107] = struct.pack(">H", page_size - reserved)
        path.write_bytes(data)
        connection = sqlite3.connect(path, isolation_level=None)
    return connection


def root_of(connection: sqlite3.Connection, table: str = "t") -> int:
    (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    return int(root)


def fill(connection: sqlite3.Connection, rowids: Iterable[int], usable: int, seed: int = 0) -> set[int]:
    """Insert rows of every kind; returns the rowids of those whose BLOB is of NBYTES bytes and on its leaf."""
    draw = random.Random(seed)
    kinds: dict[str, Callable[[], tuple[object, object]]] = {
        "found": lambda: (draw.randbytes(NBYTES), None),
        "found, something follows": lambda: (draw.randbytes(NBYTES), "x" * draw.randrange(100)),
        "spilled behind the BLOB": lambda: (draw.randbytes(NBYTES), bytes(draw.choice([usable, 3 * usable]))),
        "spilled within": lambda: (draw.randbytes(2 * usable), None),
        "shorter": lambda: (draw.randbytes(NBYTES - 1), None),
        "longer": lambda: (draw.randbytes(NBYTES + 1), None),
        "text": lambda: ("x" * NBYTES, None),
        "null": lambda: (None, None),
        "number": lambda: (draw.choice(NUMBERS), None),
    }
    found = set()
    rows = []
    for rowid in rowids:
        kind = draw.choice(["found", "found", "found", *kinds])
        if kind.startswith("found"):
            found.add(rowid)
        before = draw.choice(["", "é" * draw.randrange(70), draw.randbytes(draw.randrange(150)), 7])
        rows.append((before, rowid, draw.choice(NUMBERS), *kinds[kind]()))
    with connection:
        connection.execute("BEGIN")
        connection.executemany("INSERT OR REPLACE INTO t VALUES (?, ?, ?, ?, ?)", rows)
    return found


@dataclass(frozen=True)
class Case:
    """What a walker is asked."""

    data: bytes
    root_page: int
    column: int = COLUMN
    nbytes: int = NBYTES


def sound_cases(folder: Path) -> list[Case]:
    """Small databases without damage."""
    cases = []
    for i, (page_size, auto_vacuum, reserved, count) in enumerate(
        [(512, 0, 0, 400), (512, 1, 32, 150), (1024, 2, 0, 60), (4096, 0, 16, 50), (65536, 0, 0, 200), (512, 0, 0, 0)]
    ):
        path = folder / f"sound{i}.db"
        connection = new_database(path, page_size, auto_vacuum, reserved)
        connection.execute(TABLE)
        fill(connection, range(count), page_size - reserved, seed=i)
        connection.execute("DELETE FROM t WHERE id % 5 = 1")
        root = root_of(connection)
        connection.close()
        cases += [Case(path.read_bytes(), root), Case(path.read_bytes(), 1, 4, 20)]
    return cases


def damaged_case(sound: list[Case], seed: int) -> Case:
    """One of the sound cases with one to four wounds; the same for the same seed."""
    draw = random.Random(seed)
    case = draw.choice(sound)
    data = bytearray(case.data)
    for _ in range(draw.randint(1, 4)):
        draw.choice(_WOUNDS)(data, draw)
    case = replace(case, data=bytes(data))
    if draw.random() < 0.05:
        case = replace(case, root_page=draw.randint(1, 80), column=draw.randrange(7))
    return case


def _page_size(data: bytearray) -> int:
    size = int.from_bytes(data[16:18], "big")
    return 65536 if size == 1 else max(size, 512)


def _page(data: bytearray, draw: random.Random, kinds: bytes = b"\x05\x0d") -> int:
    """Where the b-tree header of some page begins."""
    size = _page_size(data)
    starts = [100, *range(size, len(data) - size + 1, size)]
    wanted = [at for at in starts if data[at : at + 1] in [bytes([kind]) for kind in kinds]]
    return draw.choice(wanted or [0])


def _put(data: bytearray, at: int, new: bytes) -> None:
    new = new[: max(0, len(data) - at)]
    data[at : at + len(new)] = new


def _value(draw: random.Random, size: int) -> bytes:
    most = 256**size - 1
    return draw.choice([0, 1, most, most // 2 + 1, draw.randint(0, most), draw.randrange(64)]).to_bytes(size, "big")


def _flip_bits(data: bytearray, draw: random.Random) -> None:
    for _ in range(draw.randint(1, 8) if data else 0):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def _truncate(data: bytearray, draw: random.Random) -> None:
    del data[draw.choice([draw.randint(0, len(data)), draw.randint(0, len(data) // 512) * 512]) :]


def _insert_garbage(data: bytearray, draw: random.Random) -> None:
    at = draw.randint(0, len(data))
    data[at:at] = draw.randbytes(draw.choice([1, 2, 100, 512]))


def _spoil_file_header(data: bytearray, draw: random.Random) -> None:
    _put(data, draw.choice([*range(16, 24), draw.randrange(100)]), _value(draw, 1))


def _spoil_page_header(data: bytearray, draw: random.Random) -> None:
    _put(data, _page(data, draw) + draw.randrange(12), _value(draw, draw.choice([1, 2])))


def _spoil_pointer(data: bytearray, draw: random.Random) -> None:
    _put(data, _page(data, draw) + 8 + 2 * draw.randrange(20), _value(draw, 2))


def _spoil_link(data: bytearray, draw: random.Random) -> None:
    _put(data, _page(data, draw, b"\x05") + 8, draw.randint(0, len(data) // _page_size(data) + 2).to_bytes(4, "big"))


def _spoil_cell(data: bytearray, draw: random.Random) -> None:
    size = _page_size(data)
    header = _page(data, draw)
    pointer = header + 8 + 2 * draw.randrange(12)
    cell = header // size * size + int.from_bytes(data[pointer : pointer + 2], "big")
    _put(data, cell + draw.randrange(12), _value(draw, draw.choice([1, 1, 2, 8])))


def _copy_page(data: bytearray, draw: random.Random) -> None:
    size = _page_size(data)
    pages = max(1, len(data) // size)
    source = draw.randrange(pages) * size
    _put(data, draw.randrange(pages) * size, bytes(data[source : source + size]))


def _blot(data: bytearray, draw: random.Random) -> None:
    _put(data, draw.randint(0, len(data)), draw.choice([b"\0", b"\xff", b"\x80"]) * draw.choice([4, 40, 600]))


_WOUNDS = (
    *(_flip_bits, _truncate, _insert_garbage, _spoil_file_header, _copy_page, _blot),
    *(_spoil_page_header, _spoil_pointer, _spoil_link, _spoil_cell) * 2,
)


def _frames(count: int, seed: int) -> Iterator[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        sound = sound_cases(Path(folder))
    for case in [*sound, *(damaged_case(sound, seed + i) for i in range(count))]:
        yield struct.pack("=IIII", case.root_page, case.column, case.nbytes, len(case.data)) + case.data


if __name__ == "__main__":
    for frame in _frames(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0):
        sys.stdout.buffer.write(frame)
