"""What work costs in things that can be counted, the same on every machine. Time is for benchmarks/."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from embedders import HashedEmbedder, hashed_row
from memories import OpenMemory
from vademecum import Memory, kernels
from vademecum.diagnose import bench
from vademecum.sqlite import Connection
from vademecum.vectors import scan

pytestmark = pytest.mark.kernels

VECTOR_READ = re.compile(r"SELECT.*\b(vec|code)\b.*\bFROM (vectors\.)?[vc]\d+\b", re.DOTALL)
WRITE = re.compile(r"\s*(INSERT|UPDATE|DELETE|REPLACE)")
native = pytest.mark.skipif(kernels.NAME != "native", reason="the map needs the native core")


class Bill:
    """Statements that the library sent to SQLite, and the rows that came back."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.rows = 0

    def clear(self) -> None:
        self.statements.clear()
        self.rows = 0


@pytest.fixture
def bill(monkeypatch: pytest.MonkeyPatch) -> Bill:
    """Counts from now on, on every connection."""
    counted = Bill()
    original = Connection.execute

    def row(_cursor: object, values: tuple[object, ...]) -> tuple[object, ...]:
        counted.rows += 1
        return values

    def execute(connection: Connection, statement: str, *parameters: object) -> object:
        counted.statements.append(statement)
        connection.row_factory = row
        return original(connection, statement, *parameters)

    monkeypatch.setattr(Connection, "execute", execute)
    return counted


@contextmanager
def allocations() -> Iterator[list[int]]:
    """The peak of what Python allocated inside the context, in bytes, once it has ended."""
    peak: list[int] = []
    tracemalloc.start()
    try:
        yield peak
        peak.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


def pages(chunks: int) -> dict[str, str]:
    """Ten sections a page, each a chunk with a word of its own and some that others hold too."""
    sections = [
        f"\n## Section {number}\n\nunique{number} bond fund rate{number % 7} {'words of no weight ' * 20}\n"
        for number in range(chunks)
    ]
    return {f"{first:05d}.md": "".join(sections[first : first + 10]) for first in range(0, chunks, 10)}


@pytest.fixture
def quiet(open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Memory]:
    """Makes a memory of so many chunks that is indexed, and whose files count as written long ago."""
    monkeypatch.setattr("vademecum.store.scan.SETTLE_S", -1.0)

    def made(chunks: int) -> Memory:
        memory = open_memory(pages(chunks), embedder=HashedEmbedder())
        assert memory.sync().chunks == chunks
        memory.search("bond fund unique17")
        return memory

    return made


# searching


@native
@pytest.mark.parametrize("chunks", [200, 2000])
def test_a_search_costs_few_statements_and_rows_whatever_the_size(
    bill: Bill, quiet: Callable[[int], Memory], chunks: int
) -> None:
    memory = quiet(chunks)
    bill.clear()
    assert memory.search("bond fund rate3 unique42").hits
    assert len(bill.statements) <= 36
    # Each channel brings up to 24 chunks; a chunk may be asked for three times, and the rest is single values.
    assert bill.rows <= 3 * 48 + 30


@native
def test_a_quiet_search_reads_no_vector_through_sql(bill: Bill, quiet: Callable[[int], Memory]) -> None:
    memory = quiet(200)
    bill.clear()
    assert memory.search("bond fund rate3 unique42").explanation["vectors"] == "map"
    assert [statement for statement in bill.statements if VECTOR_READ.search(statement)] == []


def test_the_pattern_above_knows_a_vector_read(bill: Bill, quiet: Callable[[int], Memory]) -> None:
    memory = quiet(200)
    memory.search("bond")
    bill.clear()
    with memory._core.open_index().reader() as reader:
        (lane,) = reader.lanes()
        scan.score_texts(reader._connection, lane, [1, 2], hashed_row("bond", lane.dims))
    assert len([statement for statement in bill.statements if VECTOR_READ.search(statement)]) == 1


def test_nothing_is_written_where_nothing_changed(bill: Bill, quiet: Callable[[int], Memory]) -> None:
    memory = quiet(200)
    bill.clear()
    memory.search("bond fund rate3 unique42")
    memory.sync()
    assert bill.statements
    assert [statement for statement in bill.statements if WRITE.match(statement)] == []


@native
def test_exact_search_makes_no_python_object_per_row(tmp_path: Path) -> None:
    rows = np.random.default_rng(1).standard_normal((10_000, 32), np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    bench.fill(tmp_path, 32, [rows])
    with bench.opened(tmp_path) as (index, lane):

        def search() -> None:
            with index.reader() as reader:
                assert reader.search_vector(lane, rows[7], 10, ())[0].id == 8

        with allocations() as first:
            search()
        with allocations() as later:
            search()
    # Opening notes ids and addresses: some integers of 8 bytes a row, for moments several times over.
    assert first[0] < 10_000 * 250
    assert later[0] < 50_000


def test_a_whole_search_allocates_no_more_in_a_larger_memory(quiet: Callable[[int], Memory]) -> None:
    memory = quiet(2000)
    with allocations() as peak:
        memory.search("bond fund rate3 unique42")
    assert peak[0] < 1_000_000


def test_the_disk_is_not_waited_for_after_every_few_files(open_memory: OpenMemory) -> None:
    memory = open_memory(pages(3000))
    memory.sync()
    log = memory.root / ".vademecum/index.sqlite-wal"
    assert log.stat().st_size > 900 * 4096, "the log was moved into the file long before it was full"


# embedding


def test_many_small_files_are_embedded_in_full_batches(open_memory: OpenMemory) -> None:
    embedder = HashedEmbedder(batch_size=32)
    notes = {f"{number:03d}.md": f"Note {number} about funds.\n" for number in range(100)}
    memory = open_memory(notes, embedder=embedder)
    assert memory.sync().chunks == 100
    assert [len(batch) for batch in embedder.batches] == [32, 32, 32, 4]


def test_what_has_a_vector_is_not_embedded_again(open_memory: OpenMemory) -> None:
    embedder = HashedEmbedder()
    memory = open_memory(pages(40), embedder=embedder)
    memory.sync()
    embedder.batches.clear()
    memory.sync()
    memory.rebuild()
    assert embedder.batches == []
    page = memory.root / "00010.md"
    page.write_text(page.read_text().replace("unique13 ", "changed13 "))
    memory.sync()
    ((text,),) = embedder.batches
    assert "changed13" in text


def test_a_question_is_embedded_once(open_memory: OpenMemory) -> None:
    embedder = HashedEmbedder()
    memory = open_memory(pages(40), embedder=embedder)
    for _ in range(3):
        memory.search("bond fund")
    assert embedder.queries == ["bond fund"]
