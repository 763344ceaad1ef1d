"""vectors.sqlite is damaged: keyword search answers throughout, the file is set aside, and vectors come back."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from embedders import HashedEmbedder
from memories import OpenMemory, paths
from vademecum import Memory
from vademecum.errors import ProviderDownError

PAGES = {f"note{number}.md": f"Words of note number{number}" for number in range(60)}
PAGE = 65536


def _settled(file: Path) -> bytearray:
    """The file with its whole log in it."""
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return bytearray(file.read_bytes())


def _overwrite(file: Path, data: bytes) -> None:
    """In place, as a failing disk does: who cuts a file short that others have mapped kills them (mmap(2), SIGBUS)."""
    with file.open("r+b") as stream:
        stream.write(data)


def rubbish(file: Path) -> None:
    _overwrite(file, (b"this is no database" * len(_settled(file)))[: file.stat().st_size])


def header(file: Path) -> None:
    data = _settled(file)
    data[:100] = b"\xff" * 100
    _overwrite(file, data)


def pages(file: Path) -> None:
    data = _settled(file)
    for start in range(PAGE, len(data), PAGE):
        data[start : start + 64] = b"\xff" * 64
    _overwrite(file, data)


def cut(file: Path) -> None:
    data = _settled(file)
    file.write_bytes(data[: len(data) // 2 // 4096 * 4096])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def random_bytes(file: Path) -> None:
    data = _settled(file)
    for start in range(PAGE + 100, len(data), 997):
        data[start] ^= 0x55
    _overwrite(file, data)


DAMAGES = [rubbish, header, pages, cut, empty, random_bytes]


def found(memory: Memory, number: int) -> None:
    result = memory.search(f"number{number}", max_results=3, wait_ms=200)
    assert result.disabled is None
    assert paths(result)[:1] == [f"note{number}.md"]
    assert result.channels["keyword"] == "ok"


def in_order_again(memory: Memory, embedder: HashedEmbedder) -> None:
    """With the provider well again, all vectors come back, and right ones."""
    embedder.heal()
    memory.sync()
    report = memory.sync()
    assert (report.failed, report.pending) == ((), 0)
    result = memory.search("Words of note number7", wait_ms=-1)
    assert (result[0].path, result[0].trace.vector) == ("note7.md", pytest.approx(1, abs=1e-5))
    index = memory.status().index
    assert index is not None
    assert list(index.vectors.values()) == [len(PAGES)]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_while_nobody_had_it_open(open_memory: OpenMemory, damage: Callable[[Path], None]) -> None:
    embedder = HashedEmbedder()
    with open_memory(PAGES, embedder=embedder) as memory:
        memory.sync()
        state = memory.root / ".vademecum"
    for file in state.glob("vectors.sqlite-*"):
        file.unlink()
    damage(state / "vectors.sqlite")
    embedder.fail(ProviderDownError("test: down"))
    with open_memory(embedder=embedder) as memory:
        for number in range(5):
            found(memory, number)
        if damage is not random_bytes:
            in_order_again(memory, embedder)
        if damage in {rubbish, header, pages, cut}:
            assert list(state.glob("vectors.sqlite.corrupt-*"))


@pytest.mark.parametrize("damage", [rubbish, header, pages])
def test_damaged_while_it_is_searched(open_memory: OpenMemory, damage: Callable[[Path], None]) -> None:
    embedder = HashedEmbedder()
    memory = open_memory(PAGES, embedder=embedder)
    memory.sync()
    found(memory, 1)
    failures: list[BaseException] = []
    stop = threading.Event()

    def searching(number: int) -> None:
        try:
            while not stop.is_set():
                found(memory, number)
        except BaseException as error:  # whatever it is, the test must know
            failures.append(error)

    threads = [threading.Thread(target=searching, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    damage(memory.root / ".vademecum" / "vectors.sqlite")
    for _ in range(20):
        found(memory, 9)
    stop.set()
    for thread in threads:
        thread.join(30)
    assert failures == []
    in_order_again(memory, embedder)
