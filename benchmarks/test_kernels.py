"""Each native kernel beside its plain twin and beside what one would write without either."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from vademecum.kernels import reference

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
