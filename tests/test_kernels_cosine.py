"""Dot products and their top-k on every instruction set of this machine, and the plain twin that defines them."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_support import SCORERS, at_offset, normal, scattered, scorer_named, seeds, shifts
from vademecum.errors import UsageError

pytestmark = pytest.mark.kernels

dims = st.one_of(st.integers(0, 40), st.sampled_from([64, 100, 384, 513]))


@pytest.fixture(scope="module", params=SCORERS)
def scorer(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    with scorer_named(request.param) as named:
        yield named


# --- rows in an array ---


@given(seeds, st.integers(0, 100), dims, st.integers(0, 9), st.integers(0, 120), shifts)
def test_top_k_of_exact_sums_is_the_sorted_list(
    scorer: ModuleType, seed: int, n: int, d: int, q: int, k: int, offset: int
) -> None:
    # Products of small integers add up exactly in any order, and tie often.
    draw = np.random.default_rng(seed).integers
    rows, queries = draw(-1, 2, (n, d)).astype(np.float32), draw(-1, 2, (q, d)).astype(np.float32)
    indices, scores = scorer.top_k(at_offset(rows, offset), queries, k)
    assert indices.dtype == np.int64
    assert scores.dtype == np.float32
    assert indices.shape == scores.shape == (q, min(k, n))
    for query, found, values in zip(queries, indices, scores, strict=True):
        exact = [sum(a * b for a, b in zip(row, query.tolist(), strict=True)) for row in rows.tolist()]
        expected = sorted(range(n), key=lambda i: (-exact[i], i))[:k]
        assert found.tolist() == expected
        assert values.tolist() == [exact[i] for i in expected]


@given(seeds, st.integers(1, 100), dims, st.integers(1, 9), st.integers(1, 40), shifts)
def test_top_k_of_floats_matches_double_precision(
    scorer: ModuleType, seed: int, n: int, d: int, q: int, k: int, offset: int
) -> None:
    rows, queries = normal(seed, n, d), normal(seed + 1, q, d)
    exact = queries.astype(np.float64) @ rows.astype(np.float64).T
    indices, scores = scorer.top_k(at_offset(rows, offset), queries, k)
    tolerance = 1e-6 * max(d, 1)
    np.testing.assert_allclose(scores, np.take_along_axis(exact, indices, 1), atol=tolerance)
    np.testing.assert_allclose(scores, -np.sort(-exact, axis=1)[:, :k], atol=tolerance)
    for found, values in zip(indices.tolist(), scores.tolist(), strict=True):
        assert len(set(found)) == len(found)
        assert found == [i for _, i in sorted(zip([-v for v in values], found, strict=True))]


@pytest.mark.parametrize("n", [1, 31, 32, 33, 97])
@pytest.mark.parametrize("q", [2, 3, 4, 5, 63, 64, 65, 130])
def test_a_batch_gives_what_single_queries_give(scorer: ModuleType, n: int, q: int) -> None:
    rows, queries = normal(n, n, 51), normal(q, q, 51)
    indices, scores = scorer.top_k(rows, queries, 10)
    for i in range(q):
        one_index, one_score = scorer.top_k(rows, queries[i : i + 1], 10)
        assert indices[i].tolist() == one_index[0].tolist()
        assert scores[i].tolist() == one_score[0].tolist()
        assert scores[i].tolist() == scorer.scores(rows, queries[i])[indices[i]].tolist()


@given(seeds, st.integers(2, 120), st.integers(1, 530), st.integers(1, 5), shifts)
def test_equal_rows_tie_exactly_wherever_they_stand(
    scorer: ModuleType, seed: int, n: int, d: int, q: int, offset: int
) -> None:
    originals = normal(seed, 3, d)
    copies = np.random.default_rng(seed).integers(0, 3, n)
    indices, scores = scorer.top_k(at_offset(originals[copies], offset), normal(seed + 1, q, d), n)
    for found, values in zip(indices, scores, strict=True):
        for original in range(3):
            places = np.flatnonzero(copies[found] == original)
            assert len(set(values[places].tolist())) <= 1
            assert found[places].tolist() == np.flatnonzero(copies == original).tolist()


@given(seeds, st.integers(1, 80), st.integers(1, 40), st.integers(1, 5), st.data())
def test_rows_without_a_finite_score_are_never_found(
    scorer: ModuleType, seed: int, n: int, d: int, q: int, data: st.DataObject
) -> None:
    rows, queries = normal(seed, n, d), normal(seed + 1, q, d)
    spoiled = data.draw(st.sets(st.integers(0, n - 1)))
    for i in spoiled:
        rows[i, data.draw(st.integers(0, d - 1))] = data.draw(st.sampled_from([math.nan, math.inf, -math.inf]))
    clean = [i for i in range(n) if i not in spoiled]
    indices, scores = scorer.top_k(rows, queries, n)
    for found, values in zip(indices.tolist(), scores.tolist(), strict=True):
        assert sorted(found[: len(clean)]) == clean
        assert found[len(clean) :] == [-1] * len(spoiled)
        assert values[len(clean) :] == [-math.inf] * len(spoiled)
    assert np.isfinite(scorer.scores(rows, queries[0])).nonzero()[0].tolist() == clean


def test_a_query_that_is_not_finite_finds_nothing(scorer: ModuleType) -> None:
    queries = np.array([[math.nan, 1.0], [math.inf, 1.0], [1.0, 1.0]], np.float32)
    indices, _ = scorer.top_k(np.eye(2, dtype=np.float32), queries, 2)
    assert indices.tolist() == [[-1, -1], [-1, -1], [0, 1]]


def test_zero_rows_score_zero_and_keep_their_order(scorer: ModuleType) -> None:
    rows = np.zeros((40, 7), np.float32)
    rows[5], rows[6] = -1.0, 1.0
    indices, scores = scorer.top_k(rows, np.ones((1, 7), np.float32), 40)
    assert indices[0].tolist() == [6, 0, 1, 2, 3, 4, *range(7, 40), 5]
    assert scores[0, 1:-1].tolist() == [0.0] * 38


def test_parallel_calls_do_not_disturb_each_other(scorer: ModuleType) -> None:
    rows, queries = normal(1, 500, 96), normal(2, 40, 96)
    expected = [scorer.top_k(rows, queries[i : i + 1], 20)[0].tolist() for i in range(40)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: scorer.top_k(rows, queries[i : i + 1], 20)[0].tolist(), range(40)))
    assert found == expected


ROWS, QUERIES = normal(1, 4, 6), normal(2, 2, 6)
NO_ROWS = [
    ROWS.astype(np.float64),
    ROWS.astype(">f4"),
    ROWS[0],
    ROWS[:, ::2],
    np.asfortranarray(ROWS),
    ROWS.tolist(),
    None,
]


@pytest.mark.parametrize("rows", NO_ROWS)
def test_rows_of_another_kind_or_shape_are_refused(scorer: ModuleType, rows: object) -> None:
    with pytest.raises((ValueError, TypeError), match=r"\w"):
        scorer.top_k(rows, QUERIES, 3)
    with pytest.raises((ValueError, TypeError), match=r"\w"):
        scorer.scores(rows, QUERIES[0])


@pytest.mark.parametrize("queries", [QUERIES.astype(np.float64), QUERIES[0], QUERIES[:, :3], QUERIES.tolist(), None])
def test_queries_of_another_kind_or_shape_are_refused(scorer: ModuleType, queries: object) -> None:
    with pytest.raises((ValueError, TypeError), match=r"\w"):
        scorer.top_k(ROWS, queries, 3)


@pytest.mark.parametrize("query", [QUERIES[0].astype(np.float64), QUERIES, QUERIES[0, ::2], [1.0] * 6, None])
def test_a_query_of_another_kind_or_shape_is_refused(scorer: ModuleType, query: object) -> None:
    with pytest.raises((ValueError, TypeError), match=r"\w"):
        scorer.scores(ROWS, query)


@pytest.mark.parametrize("d", [0, 5, 7])
def test_rows_and_queries_of_different_dimensions_are_refused(scorer: ModuleType, d: int) -> None:
    with pytest.raises(UsageError, match=f"6 dimensions and queries have {d}"):
        scorer.top_k(ROWS, normal(1, 2, d), 3)
    with pytest.raises(UsageError, match=f"6 dimensions and queries have {d}"):
        scorer.scores(ROWS, normal(1, d))


def test_a_k_that_is_no_count_is_refused(scorer: ModuleType) -> None:
    with pytest.raises(UsageError, match="k is -1"):
        scorer.top_k(ROWS, QUERIES, -1)
    with pytest.raises(TypeError):
        scorer.top_k(ROWS, QUERIES, 1.5)


# --- rows anywhere in a buffer ---


@given(seeds, st.integers(0, 80), dims, st.integers(0, 4), st.integers(0, 100), st.booleans())
def test_rows_in_a_buffer_are_found_as_in_an_array(
    scorer: ModuleType, seed: int, n: int, d: int, q: int, k: int, filtered: bool
) -> None:
    draw = np.random.default_rng(seed)
    rows = normal(seed, max(n // 2, 1), d)[draw.integers(0, max(n // 2, 1), n)]  # with copies, which tie
    ids = draw.permutation(np.arange(-2, n - 2))
    queries, allowed = normal(seed + 1, q, d), draw.random(n) < 0.5 if filtered else None
    base, offsets = scattered(rows, seed)
    found, best = scorer.top_k_at(base, offsets, ids, d, queries, k, allowed=allowed)
    assert found.shape == best.shape == (q, min(k, n))
    assert (found.dtype, best.dtype) == (np.int64, np.float32)
    for query, each, values in zip(queries, found, best, strict=True):
        scores = scorer.scores(rows, query)
        assert scorer.scores_at(base, offsets, d, query).tolist() == scores.tolist()
        places = np.arange(n) if allowed is None else np.flatnonzero(allowed)
        expected = sorted(zip((-scores[places]).tolist(), ids[places].tolist(), strict=True))[:k]
        padding = min(k, n) - len(expected)
        assert each.tolist() == [i for _, i in expected] + [-1] * padding
        assert values.tolist() == [-score for score, _ in expected] + [-math.inf] * padding


def test_rows_without_a_finite_score_are_not_found_in_a_buffer_either(scorer: ModuleType) -> None:
    rows = normal(1, 40, 5)
    rows[3, 1], rows[4, 0], rows[5] = math.nan, math.inf, 3e38
    base, offsets = scattered(rows, 1)
    found, best = scorer.top_k_at(base, offsets, np.arange(40), 5, np.ones((1, 5), np.float32), 40)
    assert set(range(40)) - set(found[0].tolist()) == {3, 4, 5}
    assert found[0, -3:].tolist() == [-1] * 3
    assert best[0, -3:].tolist() == [-math.inf] * 3


def test_every_kind_of_buffer_serves(scorer: ModuleType) -> None:
    rows, ids, query = normal(1, 50, 24), np.arange(50), normal(2, 24)
    base, offsets = scattered(rows, 1)
    expected = scorer.scores(rows, query).tolist()
    read_only = np.frombuffer(base, np.uint8)
    with mmap.mmap(-1, len(base)) as mapped:
        mapped.write(base)
        for buffer in (base, bytearray(base), memoryview(base), read_only, read_only.copy(), mapped):
            assert scorer.scores_at(buffer, offsets, 24, query).tolist() == expected
            assert sorted(scorer.top_k_at(buffer, offsets, ids, 24, query[None], 50)[0][0].tolist()) == list(range(50))
    offsets.flags.writeable = ids.flags.writeable = False
    assert scorer.top_k_at(base, offsets, ids, 24, query[None], 1)[1][0, 0] == max(expected)


@pytest.mark.parametrize("offset", [-1, -(2**63), 81, 96, 100, 2**63 - 1])
@pytest.mark.parametrize("place", [0, 7, 40])
def test_a_row_that_is_not_all_in_the_buffer_is_refused(scorer: ModuleType, offset: int, place: int) -> None:
    base, offsets, query = bytes(100), np.full(41, 80, np.int64), np.ones(5, np.float32)
    assert scorer.scores_at(base, offsets, 5, query).tolist() == [0.0] * 41
    offsets[place:] = offset
    message = rf"offsets\[{place}\] is {offset}: 20 bytes from there on are not all in the buffer of 100 bytes"
    with pytest.raises(UsageError, match=message):
        scorer.scores_at(base, offsets, 5, query)
    with pytest.raises(UsageError, match=message):
        scorer.top_k_at(base, offsets, offsets, 5, query[None], 3, allowed=np.zeros(41, bool))


def test_a_buffer_shorter_than_a_row_is_refused_unless_there_is_no_row(scorer: ModuleType) -> None:
    query, none = np.ones((1, 5), np.float32), np.empty(0, np.int64)
    for base in (b"", bytes(19)):
        assert scorer.top_k_at(base, none, none, 5, query, 3)[0].shape == (1, 0)
        for offset in (0, 1, -20):
            with pytest.raises(UsageError, match=r"offsets\[0\]"):
                scorer.scores_at(base, np.array([offset]), 5, query[0])


BASE, PLACES = bytes(400), np.arange(0, 400, 100)


@pytest.mark.parametrize(
    "changed",
    [
        {"base": np.zeros(100, np.float32)},
        {"base": np.zeros((20, 20), np.uint8)},
        {"base": np.zeros(800, np.uint8)[::2]},
        {"base": None},
        {"offsets": PLACES.astype(np.int32)},
        {"offsets": PLACES[::2]},
        {"offsets": PLACES[None]},
        {"offsets": PLACES.tolist()},
        {"ids": PLACES[:3]},
        {"ids": PLACES.astype(np.uint64)},
        {"dims": -1},
        {"dims": 7},
        {"queries": np.zeros(6, np.float32)},
        {"queries": np.zeros((1, 6))},
        {"k": -1},
        {"threads": 0},
        {"allowed": np.ones(3, bool)},
        {"allowed": np.ones(4)},
        {"allowed": np.ones((4, 1), bool)},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_arguments_of_another_kind_or_shape_are_refused(scorer: ModuleType, changed: dict[str, object]) -> None:
    sound = {
        "base": BASE, "offsets": PLACES, "ids": PLACES, "dims": 6, "queries": np.zeros((1, 6), np.float32), "k": 2
    }  # fmt: skip
    assert scorer.top_k_at(**sound)[0].tolist() == [[0, 100]]
    with pytest.raises((ValueError, TypeError), match=r"\w"):
        scorer.top_k_at(**(sound | changed))


@pytest.mark.parametrize("threads", [2, 3, 64, 1000])
def test_threads_change_nothing(scorer: ModuleType, threads: int) -> None:
    # 200 MB to read, but all in the cache: the rows overlap.
    base, offsets = normal(1, 300).tobytes(), np.arange(230_000, dtype=np.int64) * 7 % 300
    if scorer.instruction_set() == "python/numpy":
        offsets = offsets[:1000]
    ids = np.random.default_rng(1).permutation(len(offsets))
    for allowed in (None, ids % 3 > 0):
        one = scorer.top_k_at(base[:-1], offsets, ids, 220, normal(2, 3, 220), 50, allowed=allowed)
        many = scorer.top_k_at(base[:-1], offsets, ids, 220, normal(2, 3, 220), 50, allowed=allowed, threads=threads)
        for a, b in zip(one, many, strict=True):
            assert a.tolist() == b.tolist()
