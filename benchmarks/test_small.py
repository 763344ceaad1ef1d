"""A few benchmarks that take seconds: CI runs them so that they cannot rot, and judges no time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import freshness
from benchmarks.corpus import RandomEmbedder, Words, let_settle, write_folder
from benchmarks.vectors import Clustered
from vademecum import Memory, Settings, kernels
from vademecum.diagnose import bench

ROWS, CHUNKS, DIMS, K = 5000, 500, 128, 10


@pytest.fixture(scope="module")
def store() -> Iterator[tuple[Path, Any]]:
    clusters = Clustered(DIMS)
    rows = clusters.rows(ROWS)
    with tempfile.TemporaryDirectory() as name:
        bench.fill(Path(name), DIMS, [rows])
        yield Path(name), clusters.queries(rows, 50)


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with tempfile.TemporaryDirectory() as name:
        write_folder(Path(name), CHUNKS)
        let_settle()
        with Memory.open(name, settings=Settings(), embedder=RandomEmbedder(DIMS)) as opened:
            opened.sync()
            yield opened


def test_small_top_k(benchmark: Any) -> None:
    clusters = Clustered(DIMS)
    rows = clusters.rows(ROWS)
    query = clusters.queries(rows, 1)
    found, _ = benchmark.pedantic(kernels.top_k, (rows, query, K), rounds=20, warmup_rounds=1)
    assert found[0].tolist() == np.argsort(-(rows @ query[0]), kind="stable")[:K].tolist()


def test_small_exact_search(benchmark: Any, store: tuple[Path, Any]) -> None:
    folder, queries = store
    numbers = count()
    with bench.opened(folder) as (index, lane):

        def search() -> None:
            with index.reader() as reader:
                assert len(reader.search_vector(lane, queries[next(numbers) % len(queries)], K, ())) == K

        benchmark.pedantic(search, rounds=50, warmup_rounds=2)


def test_small_open_to_first_answer(benchmark: Any, store: tuple[Path, Any]) -> None:
    folder, queries = store

    def answer() -> None:
        with bench.opened(folder) as (index, lane), index.reader() as reader:
            assert len(reader.search_vector(lane, queries[0], K, ())) == K

    benchmark.pedantic(answer, rounds=10, warmup_rounds=1)


def test_small_hybrid_search(benchmark: Any, memory: Memory) -> None:
    queries = Words(2).queries()
    benchmark.pedantic(lambda: memory.search(next(queries), wait_ms=-1), rounds=50, warmup_rounds=2)


def test_small_no_op_sync(benchmark: Any, memory: Memory) -> None:
    benchmark.pedantic(memory.sync, rounds=10, warmup_rounds=1)


def test_small_freshness() -> None:
    taken = freshness.measure(files=60, sections=2, renamed=20, times=2)
    assert all(min(figures) > 0 for figures in taken.values())


def test_small_edit_to_found(benchmark: Any, memory: Memory) -> None:
    numbers = count()

    def edit() -> None:
        word = f"uniqueword{next(numbers)}"
        with (memory.root / "notes/000/00007.md").open("a", encoding="utf-8") as file:
            file.write(f"- {word}\n")
        assert any(word in hit.text for hit in memory.search(word, wait_ms=-1))

    benchmark.pedantic(edit, rounds=10, warmup_rounds=1)
