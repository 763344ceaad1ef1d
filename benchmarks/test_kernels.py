"""Each native kernel beside its plain twin and beside what one would write without either."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.vectors import Clustered
from vademecum.kernels import codes_reference, reference

cosine = pytest.importorskip("vademecum._native.cosine", reason="the native core is not built")
similarity = pytest.importorskip("vademecum._native.similarity", reason="the native core is not built")

Floats: TypeAlias = NDArray[np.float32]

K = 10
TEXTS, PICKS, WORDS, LAMBDA = 200, 50, 60, 0.7


def numpy_top_k(rows: Floats, queries: Floats, k: int) -> tuple[NDArray[np.int64], Floats]:
    """A matrix product, a partition, and a sort of what is left."""
    scores = queries @ rows.T
    found = np.argpartition(-scores, k, axis=1)[:, :k]
    best = np.take_along_axis(scores, found, 1)
    order = np.lexsort((found, -best), axis=1)
    return np.take_along_axis(found, order, 1), np.take_along_axis(best, order, 1)


def incremental_mmr(relevance: Sequence[float], each: Sequence[set[int]], lam: float, k: int) -> list[int]:
    """Python sets, and each candidate's greatest similarity kept from step to step."""
    nearest = [0.0] * len(each)
    left = list(range(len(each)))
    picked: list[int] = []
    while left and len(picked) < k:
        best = max(left, key=lambda i: (lam * relevance[i] - (1.0 - lam) * nearest[i], relevance[i], -i))
        left.remove(best)
        picked.append(best)
        for i in left:
            shared = len(each[i] & each[best])
            union = len(each[i]) + len(each[best]) - shared
            nearest[i] = max(nearest[i], shared / union if union else 0.0)
    return picked


def unit_rows(n: int, dims: int, *, seed: int) -> Floats:
    rows = np.random.default_rng(seed).standard_normal((n, dims), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


@pytest.fixture(scope="module", params=[(10_000, 512), (100_000, 384)], ids=lambda size: f"{size[0]}x{size[1]}")
def rows(request: pytest.FixtureRequest) -> Floats:
    n, dims = request.param
    return unit_rows(n, dims, seed=1)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Texts whose words are drawn by Zipf's law from 20,000."""
    draw = random.Random(1)
    vocabulary = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(20_000)]
    weights = [1 / (rank + 5) for rank in range(20_000)]
    return [" ".join(draw.choices(vocabulary, weights, k=WORDS)) for _ in range(TEXTS)]


TOP_K = pytest.mark.parametrize(
    "top_k", [cosine.top_k, reference.top_k, numpy_top_k], ids=["native", "reference", "numpy"]
)


@TOP_K
@pytest.mark.parametrize("batch", [1, 32])
def test_top_k(benchmark: Any, top_k: Callable[..., Any], rows: Floats, batch: int) -> None:
    queries = unit_rows(batch, rows.shape[1], seed=2)
    benchmark.group = f"top {K} of {rows.shape[0]} x {rows.shape[1]}, {batch} queries"
    rounds = 15 if batch == 1 else 3
    indices, _ = benchmark.pedantic(top_k, (rows, queries, K), rounds=rounds, warmup_rounds=1)
    assert indices.tolist() == numpy_top_k(rows, queries, K)[0].tolist()


# --- scans of a mapped file, side by side ---

SCANNED, QUERIES, ROUNDS = 100_000, 32, 9


@pytest.fixture(scope="module", params=[384, 1536])
def scanned(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Floats, Floats]]:
    """A mapped file of vectors, the same vectors in an array, and queries."""
    from benchmarks.vectorfile import VectorFile

    clustered = Clustered(request.param)
    rows = clustered.rows(SCANNED)
    with tempfile.TemporaryDirectory() as folder:
        yield VectorFile(Path(folder) / "vectors.sqlite", rows), rows, clustered.queries(rows, QUERIES)


def in_turn(contenders: dict[str, Callable[[], Any]]) -> dict[str, dict[str, float]]:
    """Median milliseconds of each, and median ratio to the first in the same round: what disturbs, disturbs all."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS + 1):
        for name, call in contenders.items():
            start = perf_counter()
            call()
            times[name].append(perf_counter() - start)
    first = next(iter(times.values()))
    return {
        name: {
            "ms": round(1000 * median(each[1:]), 2),
            "ratio": round(median(a / b for a, b in zip(each[1:], first[1:], strict=True)), 3),
        }
        for name, each in times.items()
    }


def record(benchmark: Any, group: str, contenders: dict[str, Callable[[], Any]]) -> None:
    benchmark.group = group
    benchmark.extra_info.update(in_turn(contenders))
    benchmark.pedantic(next(iter(contenders.values())), rounds=3)
    print(f"\n{group}", *(f"  {name}: {each}" for name, each in benchmark.extra_info.items()), sep="\n")


def test_one_query_over_the_map(benchmark: Any, scanned: tuple[Any, Floats, Floats]) -> None:
    file, rows, queries = scanned
    query, shuffled = queries[:1], np.random.default_rng(1).permutation(SCANNED)
    every_row, every_code = file.span(file.row_offsets, 4 * file.dims), file.span(file.code_offsets, file.dims + 8)
    by_codes = file.map, file.code_offsets, file.rows_of_codes, file.code_ids, file.dims
    by_rows = file.map, file.row_offsets, file.row_ids, file.dims
    in_disorder = file.map, file.row_offsets[shuffled], file.row_ids[shuffled], file.dims
    expected = cosine.top_k_at(*by_rows, query, K)
    assert expected[0].tolist() == (numpy_top_k(rows, query, K)[0] + 1).tolist()
    assert cosine.search_codes(*by_codes, query[0], K)[0].tolist() == expected[0][0].tolist()
    record(
        benchmark,
        f"top {K} of {SCANNED} x {file.dims} in a mapped file",
        {
            "read all rows once": every_row.sum,
            "native, by rows": lambda: cosine.top_k_at(*by_rows, query, K),
            "native, by rows in disorder": lambda: cosine.top_k_at(*in_disorder, query, K),
            "native, by rows in an array": lambda: cosine.top_k(rows, query, K),
            "numpy, by rows in an array": lambda: numpy_top_k(rows, query, K),
            "read all codes once": every_code.sum,
            "native, by codes": lambda: cosine.search_codes(*by_codes, query[0], K),
            "native, by codes, two threads": lambda: cosine.search_codes(*by_codes, query[0], K, threads=2),
            "native, by rows, two threads": lambda: cosine.top_k_at(*by_rows, query, K, threads=2),
        },
    )


def test_a_batch_of_queries_over_the_map(benchmark: Any, scanned: tuple[Any, Floats, Floats]) -> None:
    file, rows, queries = scanned
    by_rows = file.map, file.row_offsets, file.row_ids, file.dims
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(file.map, np.uint8), 4 * file.dims)

    def copy_and_multiply() -> Any:
        return numpy_top_k(windows[file.row_offsets].view(np.float32), queries, K)

    record(
        benchmark,
        f"top {K} of {SCANNED} x {file.dims} in a mapped file, {QUERIES} queries",
        {
            "native, at once": lambda: cosine.top_k_at(*by_rows, queries, K),
            "native, one by one": lambda: [cosine.top_k_at(*by_rows, query[None], K) for query in queries],
            "numpy, copied to an array": copy_and_multiply,
            "numpy, in an array": lambda: numpy_top_k(rows, queries, K),
        },
    )


def test_how_many_rows_are_scored_in_a_search_by_codes(benchmark: Any, scanned: tuple[Any, Floats, Floats]) -> None:
    file, _, queries = scanned
    codes = file.map, file.code_offsets, file.rows_of_codes, file.code_ids, file.dims
    scored = sorted(cosine.search_codes(*codes, query, K)[2] for query in queries)
    bounded = sorted(len(cosine.bound_codes(file.map, file.code_offsets, file.dims, query, K)[0]) for query in queries)
    for name, counts in (("scored", scored), ("candidates", bounded)):
        benchmark.extra_info[name] = {"median": counts[len(counts) // 2], "p95": counts[int(0.95 * len(counts))]}
    print(f"\n{file.dims}: {benchmark.extra_info}")
    benchmark.pedantic(cosine.search_codes, (*codes, queries[0], K), rounds=5)


@pytest.mark.parametrize("twin", [cosine, codes_reference], ids=["native", "reference"])
def test_encode(benchmark: Any, twin: Any, rows: Floats) -> None:
    benchmark.group = f"codes of 10000 x {rows.shape[1]}"
    benchmark.pedantic(twin.encode, (rows[:10_000],), rounds=5, warmup_rounds=1)


# --- similarity ---


@pytest.mark.parametrize("twin", [similarity, reference], ids=["native", "reference"])
def test_token_sets(benchmark: Any, twin: Any, texts: list[str]) -> None:
    benchmark.group = f"token sets of {TEXTS} texts of {WORDS} words"
    hashes, _ = benchmark.pedantic(twin.token_sets, (texts,), rounds=15, warmup_rounds=1)
    assert hashes.tolist() == reference.token_sets(texts)[0].tolist()


@pytest.mark.parametrize(
    "mmr", [similarity.mmr, reference.mmr, incremental_mmr], ids=["native", "reference", "incremental"]
)
def test_mmr(benchmark: Any, mmr: Callable[..., Any], texts: list[str]) -> None:
    relevance, sets = np.random.default_rng(3).random(TEXTS).tolist(), reference.token_sets(texts)
    benchmark.group = f"mmr, {PICKS} of {TEXTS}"
    each = [set(sets[0][start:end].tolist()) for start, end in pairwise(sets[1].tolist())]
    given = each if mmr is incremental_mmr else sets
    picked = benchmark.pedantic(mmr, (relevance, given, LAMBDA, PICKS), rounds=3, warmup_rounds=1)
    assert list(picked) == incremental_mmr(relevance, each, LAMBDA, PICKS)
