"""Codes, their bounds, and that the search by codes finds exactly what the full scan finds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_support import SCORERS, cosine, needs_native, normal, scattered, scorer_named, seeds
from vademecum.errors import UsageError
from vademecum.kernels import codes_reference

pytestmark = pytest.mark.kernels

dims = st.one_of(st.integers(0, 40), st.sampled_from([63, 64, 65, 95, 129, 255, 384, 513, 1023, 2047]))
counts = st.one_of(st.integers(0, 8), st.sampled_from([31, 32, 33, 40, 41, 72, 90]))


@pytest.fixture(scope="module", params=SCORERS)
def scorer(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    with scorer_named(request.param) as named:
        yield named


# --- rows and queries that are easy, and such that try to break the bounds ---


def unit(seed: int, n: int, d: int) -> np.ndarray:
    rows = normal(seed, n, d)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-30))


def near_copies(seed: int, n: int, d: int) -> np.ndarray:
    """Scores that differ in their last bits or not at all."""
    draw = np.random.default_rng(seed)
    changes = normal(seed + 1, n, d) * draw.choice(np.array([0, 1e-7, 1e-4, 1e-2], np.float32), (n, 1))
    return unit(seed, 3, d)[draw.integers(0, 3, n)] + changes


def copies(seed: int, n: int, d: int) -> np.ndarray:
    return unit(seed, 2, d)[np.random.default_rng(seed).integers(0, 2, n)]


def zeros(seed: int, n: int, d: int) -> np.ndarray:
    return normal(seed, n, d) * (np.random.default_rng(seed).random((n, 1)) < 0.3)


def one_huge(seed: int, n: int, d: int) -> np.ndarray:
    """A single value takes the whole scale, so that all others are residual."""
    rows = normal(seed, n, d)
    if d:
        rows[np.arange(n), np.random.default_rng(seed).integers(0, d, n)] *= 1e4
    return rows


def halves(seed: int, n: int, d: int) -> np.ndarray:
    """Values halfway between two codes, all off in one direction: the residual is as long as it can be."""
    rows = np.random.default_rng(seed).integers(-127, 127, (n, d)).astype(np.float32) + np.float32(0.4999)
    rows[:, :1] = 127
    return rows / 1000


def any_scale(seed: int, n: int, d: int) -> np.ndarray:
    """From subnormal numbers to those whose products overflow."""
    return normal(seed, n, d) * np.float32(10) ** np.random.default_rng(seed).integers(-46, 39, (n, 1), np.int32)


def any_bits(seed: int, n: int, d: int) -> np.ndarray:
    """All there is, NaN and inf included."""
    return np.random.default_rng(seed).integers(0, 2**32, (n, d), np.uint32).view(np.float32)


def integers(seed: int, n: int, d: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-1, 2, (n, d)).astype(np.float32)


Rows = Callable[[int, int, int], np.ndarray]


def drawn(family: Rows, seed: int, n: int, d: int) -> np.ndarray:
    with np.errstate(all="ignore"):
        return family(seed, n, d).astype(np.float32)


families = st.sampled_from([unit, near_copies, copies, zeros, one_huge, halves, any_scale, any_bits, integers])


def exact_products(rows: np.ndarray, query: np.ndarray) -> list[float]:
    return [math.fsum((row * query.astype(np.float64)).tolist()) for row in rows.astype(np.float64)]


# --- codes ---


@needs_native
@given(seeds, counts, dims, families)
def test_both_twins_write_the_same_codes(seed: int, n: int, d: int, family: Rows) -> None:
    rows = drawn(family, seed, n, d)
    ours, theirs = cosine.encode(rows), codes_reference.encode(rows)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape) == (np.uint8, (n, d + 8))
    assert ours.tobytes() == theirs.tobytes()


@given(seeds, counts, dims, families)
def test_the_norm_in_a_code_covers_the_residual_and_hardly_more(
    scorer: ModuleType, seed: int, n: int, d: int, family: Rows
) -> None:
    rows = drawn(family, seed, n, d)
    codes = scorer.encode(rows)
    for row, values, (scale, norm) in zip(
        rows, codes[:, :d].view(np.int8), codes[:, d:].copy().view(np.float32).tolist(), strict=True
    ):
        if not np.isfinite(row).all():
            assert (values.any(), scale, norm) == (False, 0.0, math.inf)
            continue
        assert np.abs(values.astype(int)).max(initial=0) <= 127
        residual = row.astype(np.float64) - scale * values.astype(np.float64)  # exact up to 2^-53
        exact = math.hypot(*residual.tolist())
        assert exact <= norm <= exact * (1 + 1e-6) + 2.0**-148
        assert exact <= np.abs(row).max(initial=0) / 254 * 1.0001 * math.sqrt(d) or scale < 2.0**-120


def test_a_zero_row_has_a_code_of_zeros(scorer: ModuleType) -> None:
    assert scorer.encode(np.zeros((3, 10), np.float32)).tobytes() == bytes(3 * 18)


@needs_native
def test_scales_that_are_rounded_subnormal_numbers_cut_codes_off_alike() -> None:
    rows = np.arange(1, 2000, dtype=np.uint32).view(np.float32).reshape(-1, 1)  # multiples of 2^-149
    codes = cosine.encode(rows)
    assert codes.tobytes() == codes_reference.encode(rows).tobytes()
    assert (codes[:, 0] == 127).any()


@pytest.mark.parametrize("rows", [normal(1, 4), normal(1, 4, 4).astype(np.float64), normal(1, 4, 8)[:, ::2], None])
def test_rows_of_another_kind_or_shape_are_not_encoded(scorer: ModuleType, rows: object) -> None:
    with pytest.raises((ValueError, TypeError), match=r"\w"):
        scorer.encode(rows)


# --- bounds ---


@given(seeds, counts, dims, families, families)
def test_a_score_is_never_outside_its_bounds(
    scorer: ModuleType, seed: int, n: int, d: int, family: Rows, of_query: Rows
) -> None:
    rows, query = drawn(family, seed, n, d), drawn(of_query, seed + 7, 1, d)[0]
    base, offsets = scattered(scorer.encode(rows), seed)
    lower, upper = scorer.code_bounds(base, offsets, d, query)
    scores = scorer.scores(rows, query).astype(np.float64)
    finite = np.isfinite(scores)
    assert (lower[~finite] == -math.inf).all()
    assert (lower[finite] <= scores[finite]).all()
    assert (scores[finite] <= upper[finite]).all()
    with np.errstate(all="ignore"):
        known = np.flatnonzero(lower > -math.inf)
        exact = exact_products(rows[known], query)
    assert all(low <= value <= high for low, value, high in zip(lower[known], exact, upper[known], strict=True))


@pytest.mark.parametrize("sign", [1, -1])
def test_products_of_codes_never_overflow(scorer: ModuleType, sign: int) -> None:
    # With the finest steps for the query the sum would be 2048 * 127 * 32767, four times 2^31.
    rows, query = np.full((1, 2048), sign, np.float32), np.ones(2048, np.float32)
    lower, upper = scorer.code_bounds(scorer.encode(rows).reshape(-1), np.zeros(1, np.int64), 2048, query)
    assert lower[0] <= sign * 2048 <= upper[0]
    assert upper[0] - lower[0] < 1


@pytest.mark.parametrize("d", [384, 1536])
def test_bounds_are_about_as_close_as_the_residual_allows(scorer: ModuleType, d: int) -> None:
    rows, query = unit(1, 50, d), unit(2, 1, d)[0]
    codes = scorer.encode(rows)
    lower, upper = scorer.code_bounds(codes.reshape(-1), np.arange(50) * (d + 8), d, query)
    norms = codes[:, d:].copy().view(np.float32)[:, 1]
    np.testing.assert_array_less((upper - lower) / 2, norms * 1.05)


# --- search ---


@given(seeds, counts, dims, st.integers(0, 100), families, st.data())
def test_the_search_by_codes_finds_what_the_full_scan_finds(
    scorer: ModuleType, seed: int, n: int, d: int, k: int, family: Rows, data: st.DataObject
) -> None:
    rows = drawn(family, seed, n, d)
    query = drawn(data.draw(st.sampled_from([family, unit, zeros, any_scale, any_bits])), seed + 1, 1, d)[0]
    query = rows[0] if n and data.draw(st.booleans()) else query
    ids = np.random.default_rng(seed).permutation(np.arange(-2, n - 2))
    allowed = np.random.default_rng(seed).random(n) < 0.5 if data.draw(st.booleans()) else None
    code_base, code_offsets = scattered(scorer.encode(rows), seed)
    row_base, row_offsets = scattered(rows, seed + 1)
    both = code_base + row_base
    expected = scorer.top_k_at(row_base, row_offsets, ids, d, query[None], k, allowed=allowed)
    for found in (
        scorer.search_codes(both, code_offsets, row_offsets + len(code_base), ids, d, query, k, allowed=allowed),
        scorer.search_codes(
            code_base, code_offsets, row_offsets, ids, d, query, k, row_base=row_base, allowed=allowed, threads=2
        ),
    ):
        assert (found[0].dtype, found[1].dtype) == (np.int64, np.float32)
        assert found[0].tolist() == expected[0][0].tolist()
        assert found[1].tolist() == expected[1][0].tolist()
        assert found[2] <= n


@given(seeds, counts, dims, st.integers(0, 100), families, st.booleans())
def test_candidates_are_a_superset_of_the_best_and_best_first(
    scorer: ModuleType, seed: int, n: int, d: int, k: int, family: Rows, filtered: bool
) -> None:
    rows, query = drawn(family, seed, n, d), unit(seed + 1, 1, d)[0]
    allowed = (np.random.default_rng(seed).random(n) < 0.5).astype(np.uint8) if filtered else None
    base, offsets = scattered(scorer.encode(rows), seed)
    positions, upper = scorer.bound_codes(base, offsets, d, query, k, allowed=allowed)
    assert (positions.dtype, upper.dtype) == (np.int64, np.float64)
    ranked = list(zip((-upper).tolist(), positions.tolist(), strict=True))
    assert ranked == sorted(ranked)
    assert upper.tolist() == scorer.code_bounds(base, offsets, d, query)[1][positions].tolist()
    assert len(set(positions.tolist())) == len(positions)
    assert allowed is None or allowed[positions].all()
    row_base, row_offsets = scattered(rows, seed)
    best = scorer.top_k_at(row_base, row_offsets, np.arange(n), d, query[None], k, allowed=allowed)[0][0]
    assert set(best.tolist()) - {-1} <= set(positions.tolist())


@pytest.mark.parametrize("ascending", [False, True])
def test_few_rows_are_scored_and_few_are_candidates(scorer: ModuleType, ascending: bool) -> None:
    rows, query, n, d = unit(1, 4000, 96), unit(2, 1, 96)[0], 4000, 96
    if ascending:  # each row is better than all before it, so that each is a candidate for a while
        rows = rows[np.argsort(rows @ query)]
    codes, ids = scorer.encode(rows).reshape(-1), np.arange(n)
    args = codes, ids * (d + 8), ids * 4 * d, ids, d, query, 10
    scored = scorer.search_codes(*args, row_base=rows.reshape(-1).view(np.uint8))[2]
    assert scored == n if scorer.instruction_set() == "python/numpy" else 10 <= scored <= 80
    assert 10 <= len(scorer.bound_codes(codes, ids * (d + 8), d, query, 10)[0]) <= 160


@pytest.mark.parametrize("threads", [2, 3, 64])
def test_threads_change_nothing(scorer: ModuleType, threads: int) -> None:
    # 200 MB to read, but all in the cache: the codes are few.
    d, base = 2000, scorer.encode(unit(1, 30, 2000)).reshape(-1)
    offsets = np.arange(500 if scorer.instruction_set() == "python/numpy" else 100_000) % 30 * (d + 8)
    query = unit(2, 1, d)[0]
    for allowed in (None, np.arange(len(offsets)) % 7 > 0):
        one = scorer.bound_codes(base, offsets, d, query, 20, allowed=allowed)
        many = scorer.bound_codes(base, offsets, d, query, 20, allowed=allowed, threads=threads)
        assert one[0].tolist() == many[0].tolist()
        assert one[1].tolist() == many[1].tolist()


@needs_native
@given(seeds, counts, dims, st.integers(0, 40))
def test_damaged_codes_give_some_answer_and_no_crash(seed: int, n: int, d: int, k: int) -> None:
    draw = np.random.default_rng(seed)
    base, offsets = draw.bytes(n * (d + 8)), np.arange(n) * (d + 8)
    rows = normal(seed, n, d)
    found = cosine.search_codes(
        base, offsets, np.arange(n) * 4 * d, np.arange(n), d, normal(seed, d), k, row_base=rows.tobytes()
    )
    assert found[0].shape == found[1].shape == (min(k, n),)
    assert set(found[0].tolist()) <= {-1, *range(n)}


# --- refusals ---

D, N = 6, 4
CODES, PLACES = bytes(N * (D + 8)), np.arange(N) * (D + 8)
SOUND = {
    "base": CODES,
    "code_offsets": PLACES,
    "row_offsets": np.arange(N) * 4 * D,
    "ids": np.arange(N),
    "dims": D,
    "query": np.zeros(D, np.float32),
    "k": 2,
    "row_base": bytes(N * 4 * D),
}


@pytest.mark.parametrize("name", ["code_offsets", "row_offsets"])
@pytest.mark.parametrize("offset", [-1, 1000, 2**63 - 1, -(2**63)])
def test_what_is_not_all_in_the_buffer_is_refused(scorer: ModuleType, name: str, offset: int) -> None:
    offsets = SOUND[name].copy()
    offsets[2] = offset
    with pytest.raises(UsageError, match=rf"{name}\[2\] is {offset}"):
        scorer.search_codes(**(SOUND | {name: offsets}))


@pytest.mark.parametrize(
    "changed",
    [
        {"base": np.zeros(100, np.float32)},
        {"base": CODES[:-1]},
        {"row_base": bytes(N * 4 * D - 1)},
        {"row_base": None},
        {"code_offsets": PLACES.astype(np.int32)},
        {"code_offsets": PLACES[:3]},
        {"row_offsets": PLACES[:3]},
        {"ids": PLACES[:3]},
        {"dims": -1},
        {"dims": 5},
        {"query": np.zeros((1, D), np.float32)},
        {"query": np.zeros(D)},
        {"k": -1},
        {"threads": 0},
        {"allowed": np.ones(3, bool)},
        {"allowed": np.ones(4)},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_arguments_of_another_kind_or_shape_are_refused(scorer: ModuleType, changed: dict[str, object]) -> None:
    assert scorer.search_codes(**SOUND)[0].tolist() == [0, 1]
    with pytest.raises((ValueError, TypeError), match=r"\w"):
        scorer.search_codes(**(SOUND | changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"base": CODES[:-1]},
        {"offsets": PLACES + 1},
        {"offsets": PLACES.astype(np.int32)},
        {"dims": 7},
        {"query": np.zeros(5, np.float32)},
        {"k": -1},
        {"threads": 0},
        {"allowed": np.ones(3, bool)},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_candidates_are_not_sought_with_such_arguments(scorer: ModuleType, changed: dict[str, object]) -> None:
    sound = {"base": CODES, "offsets": PLACES, "dims": D, "query": np.zeros(D, np.float32), "k": 2}
    assert scorer.bound_codes(**sound)[0].tolist() == [0, 1, 2, 3]
    with pytest.raises((ValueError, TypeError), match=r"\w"):
        scorer.bound_codes(**(sound | changed))
