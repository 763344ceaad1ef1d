"""The map of a database file: its bytes as they grow, one descriptor, and no lock lost."""

from __future__ import annotations

import gc
import os
import sqlite3
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from fuzz_rowmap import COLUMN, NBYTES, TABLE, fill, new_database, root_of
from vademecum.errors import IndexCorruptError, UsageError

try:
    from vademecum._native import rowmap
except ImportError:
    if os.environ.get("VADEMECUM_KERNELS") == "native":
        raise
    rowmap = None

pytestmark = [pytest.mark.kernels, pytest.mark.skipif(rowmap is None, reason="the native core is not built")]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """300 rows, no connection open."""
    path = tmp_path / "a.db"
    connection = new_database(path)
    connection.execute(TABLE)
    fill(connection, range(300), 4096)
    connection.close()
    return path


def descriptors_of(path: Path) -> list[str]:
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if entry.samefile(path):
                found.append(entry.name)
        except OSError:
            continue
    return found


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc")


def test_a_map_shows_the_bytes_of_the_file_and_no_half_pages(database: Path) -> None:
    mapped = rowmap.FileMap(database)
    data = database.read_bytes()
    assert bytes(mapped) == data
    assert mapped.size == len(data)
    assert mapped.identity == (database.stat().st_dev, database.stat().st_ino)
    assert np.frombuffer(mapped, np.uint8).tobytes() == data
    with database.open("ab") as file:
        file.write(b"half a page")
    assert mapped.size == len(data) + 11
    assert bytes(mapped) == data
    os.truncate(database, 0)
    assert bytes(mapped) == b""


def test_a_map_cannot_be_written_to(database: Path) -> None:
    mapped = rowmap.FileMap(database)
    assert memoryview(mapped).readonly
    with pytest.raises(TypeError, match="read-write"):
        struct.pack_into("B", mapped, 0, 1)
    with pytest.raises(TypeError):
        memoryview(mapped)[0] = 1


def test_growth_is_seen_and_old_views_stay_good(database: Path) -> None:
    mapped = rowmap.FileMap(database)
    before = memoryview(mapped)
    data = bytes(before)
    connection = sqlite3.connect(database, isolation_level=None)
    expected = fill(connection, range(1000, 3000), 4096)
    found = mapped.walk(root_of(connection), COLUMN, NBYTES)
    assert expected <= set(found.rowids.tolist())
    connection.close()
    assert len(before) == len(data)
    # Far beyond what was reserved; the file has a hole, so it takes no space.
    size = 200 << 20
    os.truncate(database, size)
    with database.open("r+b") as file:
        file.seek(size - 4)
        file.write(b"last")
    after = memoryview(mapped)
    assert len(after) == size
    assert after[-4:] == b"last"
    assert before[:100] == after[:100]
    del mapped, after
    gc.collect()
    assert before[:16] == b"SQLite format 3\0"


def test_threads_may_share_a_map_that_outgrows_itself(database: Path) -> None:
    mapped = rowmap.FileMap(database)
    connection = sqlite3.connect(database)
    root = root_of(connection)
    connection.close()
    expected = mapped.walk(root, COLUMN, NBYTES).offsets.tolist()

    def look(i: int) -> bool:
        if i % 100 == 99:
            os.truncate(database, (i << 20) * 8)
        return mapped.walk(root, COLUMN, NBYTES).offsets.tolist() == expected

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(look, range(400)))


@needs_proc
def test_one_descriptor_serves_all_maps_of_a_file(database: Path) -> None:
    (database.parent / "symbolic").symlink_to(database)
    (database.parent / "hard").hardlink_to(database)
    names = [database, database.parent / "symbolic", database.parent / "hard", str(database)] * 8
    with ThreadPoolExecutor(8) as pool:
        maps = list(pool.map(rowmap.FileMap, names))
    assert len({mapped.identity for mapped in maps}) == 1
    assert len(descriptors_of(database)) == 1
    del maps
    gc.collect()
    assert len(descriptors_of(database)) == 1


WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0)
try:
    connection.execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError as error:
    print(error)
else:
    print("began")
"""


def other_process_begins(path: Path) -> str:
    return subprocess.run([sys.executable, "-c", WRITER, path], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("begin", ["BEGIN EXCLUSIVE", "BEGIN IMMEDIATE"])
def test_maps_come_and_go_without_losing_a_lock(database: Path, begin: str) -> None:
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute(begin)
    for _ in range(3):
        mapped = rowmap.FileMap(database)
        view = memoryview(mapped)
        mapped.walk(root_of(connection), COLUMN, NBYTES)
        del mapped, view
        gc.collect()
    assert other_process_begins(database) == "database is locked\n"
    # The control: this is what an ordinary descriptor does.
    database.open("rb").close()
    assert other_process_begins(database) == "began\n"
    connection.execute("ROLLBACK")
    connection.close()


FORKING = """
import os, sqlite3, subprocess, sys
from vademecum._native.rowmap import FileMap
path, writer = sys.argv[1:]
connection = sqlite3.connect(path, isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
mapped = FileMap(path)
child = os.fork()
if child == 0:
    same = FileMap(path).identity == mapped.identity and bytes(mapped)[:6] == b"SQLite"
    os._exit(0 if same else 1)
_, status = os.waitpid(child, 0)
sys.stdout.flush()
subprocess.run([sys.executable, "-c", writer, path], check=True)
print(status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_uses_the_map_and_takes_no_lock_with_it(database: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FORKING, database, WRITER], capture_output=True, text=True, check=True)
    assert done.stdout == "database is locked\n0\n"


def test_a_file_that_was_replaced_moved_or_deleted_is_not_the_same(database: Path) -> None:
    mapped = rowmap.FileMap(database)
    assert mapped.same_file(database)
    assert not mapped.same_file(database.parent)
    moved = database.rename(database.with_name("b.db"))
    assert not mapped.same_file(database)
    assert mapped.same_file(moved)
    database.write_bytes(moved.read_bytes())
    assert not mapped.same_file(database)
    moved.unlink()
    assert not mapped.same_file(moved)
    assert bytes(mapped) == database.read_bytes()


@needs_proc
def test_only_the_descriptor_of_a_deleted_file_can_be_forgotten(database: Path) -> None:
    mapped = rowmap.FileMap(database)
    view = memoryview(mapped)
    assert not rowmap.forget(mapped.identity)
    assert not rowmap.forget((0, 0))
    count = len(list(Path("/proc/self/fd").iterdir()))
    database.unlink()
    assert rowmap.forget(mapped.identity)
    assert len(list(Path("/proc/self/fd").iterdir())) == count - 1
    assert view[:6] == b"SQLite"
    assert not rowmap.forget(mapped.identity)
    with pytest.raises(OSError, match="descriptor"):
        memoryview(mapped)


@needs_proc
def test_a_descriptor_closed_by_somebody_else_is_noticed_and_replaced(database: Path) -> None:
    mapped = rowmap.FileMap(database)
    for name in descriptors_of(database):
        os.close(int(name))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(20)]  # some of these get the number
    try:
        with pytest.raises(OSError, match="descriptor"):
            mapped.walk(2, COLUMN, NBYTES)
        assert not mapped.same_file(database)
        assert bytes(rowmap.FileMap(database)) == database.read_bytes()
    finally:
        for fd in held:
            os.close(fd)


def test_what_cannot_be_mapped_is_an_oserror_that_names_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "missing.db"):
        with pytest.raises(OSError, match=r"\w") as caught:
            rowmap.FileMap(path)
        assert caught.value.filename == str(path)
    with pytest.raises(TypeError):
        rowmap.FileMap(3)


NO_SPACE = """
import resource, sys
from vademecum._native.rowmap import FileMap
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
for size in (1 << 20, 1 << 34):
    with open(sys.argv[1], "wb") as file:
        file.truncate(size)
    try:
        print(len(memoryview(FileMap(sys.argv[1]))))
    except OSError as error:
        print(error.strerror, error.filename == sys.argv[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps to RLIMIT_AS")
def test_a_file_too_large_for_the_address_space_is_an_oserror(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_SPACE, tmp_path / "large.db"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "1048576\nCannot allocate memory True\n"


def test_damage_in_a_mapped_file_is_an_error_that_names_the_file(database: Path) -> None:
    mapped = rowmap.FileMap(database)
    with pytest.raises(IndexCorruptError, match=rf"^{database}: page 999: linked.*vademecum rebuild"):
        mapped.walk(999, COLUMN, NBYTES)
    with pytest.raises(UsageError, match="root_page is 0"):
        mapped.walk(0, COLUMN, NBYTES)
