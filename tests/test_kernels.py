"""Each kernel on every instruction set of this machine, and the plain twin that defines it."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vademecum.errors import UsageError
from vademecum.kernels import reference

try:
    from vademecum._native import cosine, similarity
except ImportError:
    if os.environ.get("VADEMECUM_KERNELS") == "native":
        raise
    cosine = similarity = None

pytestmark = pytest.mark.kernels

needs_native = pytest.mark.skipif(cosine is None, reason="the native core is not built")
INSTRUCTION_SETS = cosine.available_instruction_sets() if cosine else ["native"]


@pytest.fixture(scope="module", params=[*(pytest.param(n, marks=needs_native) for n in INSTRUCTION_SETS), "reference"])
def scorer(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The native dot products on each instruction set, then the plain ones."""
    if request.param == "reference":
        yield reference
        return
    best = cosine.instruction_set()
    cosine.use_instruction_set(request.param)
    yield cosine
    cosine.use_instruction_set(best)


@pytest.fixture(scope="module", params=[pytest.param("native", marks=needs_native), "reference"])
def sets_twin(request: pytest.FixtureRequest) -> ModuleType:
    return similarity if request.param == "native" else reference


def at_offset(array: np.ndarray, offset: int) -> np.ndarray:
    """The same floats, ``offset`` bytes off an aligned address."""
    return np.frombuffer(bytes(offset) + array.tobytes(), np.float32, offset=offset).reshape(array.shape)


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


seeds = st.integers(0, 2**32 - 1)
offsets = st.integers(0, 7)
dims = st.one_of(st.integers(0, 40), st.sampled_from([64, 100, 384, 513]))


# --- scores and top_k ---


@given(seeds, st.integers(0, 100), dims, st.integers(0, 9), st.integers(0, 120), offsets)
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


@given(seeds, st.integers(1, 100), dims, st.integers(1, 9), st.integers(1, 40), offsets)
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


@given(seeds, st.integers(2, 120), st.integers(1, 530), st.integers(1, 5), offsets)
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


@needs_native
def test_the_best_instruction_set_is_chosen_at_import() -> None:
    code = "from vademecum._native import cosine as c; print(c.instruction_set() == c.available_instruction_sets()[0])"
    assert run(code).stdout == "True\n"
    with pytest.raises(UsageError, match="'mmx'"):
        cosine.use_instruction_set("mmx")


# --- token sets ---

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" "), max_size=20)
texts = st.lists(words, max_size=60).map(" ".join)
vocabulary = st.lists(st.sampled_from("abcdefghijk"), max_size=12).map(" ".join)


@needs_native
@given(st.lists(texts, max_size=8))
def test_both_twins_hash_alike(each: list[str]) -> None:
    for ours, theirs in zip(similarity.token_sets(each), reference.token_sets(each), strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.tolist() == theirs.tolist()


@given(seeds, st.integers(0, 3000), st.integers(1, 4000))
def test_a_set_has_one_hash_for_each_distinct_token_in_order(
    sets_twin: ModuleType, seed: int, count: int, distinct: int
) -> None:
    tokens = [f"w{i}" * 3 for i in np.random.default_rng(seed).integers(0, distinct, count)]
    hashes, bounds = sets_twin.token_sets([" ".join(tokens), "one"])
    assert bounds.tolist() == [0, len(set(tokens)), len(set(tokens)) + 1]
    assert hashes[: bounds[1]].tolist() == sorted(set(hashes[: bounds[1]].tolist()))


def test_only_spaces_part_tokens_and_empty_ones_do_not_count(sets_twin: ModuleType) -> None:
    hashes, bounds = sets_twin.token_sets(["a b", "  b   a ", "", " ", "a\tb\n\u3000c", "a\0", "a"])
    assert bounds.tolist() == [0, 2, 4, 4, 4, 5, 6, 7]
    assert hashes[:2].tolist() == hashes[2:4].tolist()
    assert len(set(hashes[2:].tolist())) == 4


def test_what_is_not_text_is_refused(sets_twin: ModuleType) -> None:
    with pytest.raises(TypeError, match="text 1 is a bytes"):
        sets_twin.token_sets(["a", b"b"])
    with pytest.raises(UnicodeEncodeError):
        sets_twin.token_sets(["a \ud800"])


@given(st.lists(vocabulary, min_size=1, max_size=6), st.data())
def test_jaccard_is_that_of_the_tokens(sets_twin: ModuleType, each: list[str], data: st.DataObject) -> None:
    i, j = (data.draw(st.integers(0, len(each) - 1)) for _ in range(2))
    a, b = set(each[i].split()), set(each[j].split())
    assert sets_twin.jaccard(sets_twin.token_sets(each), i, j) == (len(a & b) / len(a | b) if a | b else 0.0)


# --- maximal marginal relevance ---


def plain_mmr(relevance: list[float], each: list[set[str]], lam: float, k: int) -> list[int]:
    """The formula again, over the words themselves."""
    picked: list[int] = []
    while len(picked) < min(k, len(each)):
        best: tuple[float, float, int] | None = None
        for i in set(range(len(each))) - set(picked):
            shared = [len(each[i] & each[j]) / max(len(each[i] | each[j]), 1) for j in picked]
            rank = (lam * relevance[i] - (1.0 - lam) * max(shared, default=0.0), relevance[i], -i)
            best = rank if best is None else max(best, rank)
        assert best is not None
        picked.append(-best[2])
    return picked


relevances = st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(-2, 2))
lambdas = st.one_of(st.sampled_from([0.0, 0.5, 0.7, 1.0]), st.floats(0, 1))


@given(st.lists(st.tuples(vocabulary, relevances), max_size=14), lambdas, st.integers(0, 16))
def test_mmr_picks_as_the_formula_says(
    sets_twin: ModuleType, items: list[tuple[str, float]], lam: float, k: int
) -> None:
    each, relevance = [text for text, _ in items], [value for _, value in items]
    picked = sets_twin.mmr(relevance, sets_twin.token_sets(each), lam, k)
    assert picked.dtype == np.int64
    assert picked.tolist() == plain_mmr(relevance, [set(text.split()) for text in each], lam, k)
    assert picked.tolist() == sets_twin.mmr(np.array(relevance), sets_twin.token_sets(each), lam, k).tolist()


@needs_native
@given(seeds, st.integers(1, 60), st.integers(0, 80), lambdas)
def test_both_twins_pick_alike_from_long_texts(seed: int, n: int, length: int, lam: float) -> None:
    draw = np.random.default_rng(seed)
    each = [" ".join(f"w{word}" for word in draw.zipf(1.3, length)) for _ in range(n)]
    relevance, sets = draw.random(n), reference.token_sets(each)
    assert similarity.mmr(relevance, sets, lam, 12).tolist() == reference.mmr(relevance, sets, lam, 12).tolist()


def test_lambda_one_is_a_stable_sort_by_relevance(sets_twin: ModuleType) -> None:
    sets = sets_twin.token_sets(["same words"] * 5)
    assert sets_twin.mmr([0.2, 0.9, 0.2, 0.9, 0.5], sets, 1.0, 9).tolist() == [1, 3, 4, 0, 2]


def test_a_near_copy_gives_way_to_something_new(sets_twin: ModuleType) -> None:
    sets = sets_twin.token_sets(["sold the bond fund", "sold the bond fund again", "rain in lisbon"])
    assert sets_twin.mmr([1.0, 0.9, 0.6], sets, 0.7, 2).tolist() == [0, 2]


def test_a_tie_by_rounding_is_the_same_tie_everywhere(sets_twin: ModuleType) -> None:
    # 0.7 * 0.1 - 0.3 * (1 / 5) = 0.7 * 0.3 - 0.3 * (2 / 3) if each product is rounded; a fused multiply breaks the tie.
    sets = sets_twin.token_sets(["a b", "a p q r", "a b z"])
    assert sets_twin.mmr([1.0, 0.1, 0.3], sets, 0.7, 2).tolist() == [0, 2]


@pytest.mark.parametrize(
    ("relevance", "lam", "k"),
    [
        ([1.0], 0.5, 2),
        ([[1.0, 2.0]], 0.5, 2),
        ([1.0, math.nan], 0.5, 2),
        ([1.0, math.inf], 0.5, 2),
        ([1.0, 2.0], -0.1, 2),
        ([1.0, 2.0], 1.1, 2),
        ([1.0, 2.0], math.nan, 2),
        ([1.0, 2.0], 0.5, -1),
    ],
)
def test_mmr_refuses_what_it_cannot_rank(sets_twin: ModuleType, relevance: list[float], lam: float, k: int) -> None:
    sets = sets_twin.token_sets(["a", "b"])
    with pytest.raises(ValueError, match=r"\w"):
        sets_twin.mmr(relevance, sets, lam, k)


@pytest.mark.parametrize("bounds", [[], [0], [1, 3], [0, 4], [0, 2, 1, 3], [0, -1, 3], [0, 9, 3]])
def test_bounds_that_leave_the_hashes_are_refused(sets_twin: ModuleType, bounds: list[int]) -> None:
    sets = np.arange(3, dtype=np.uint64), np.array(bounds, np.int64)
    with pytest.raises(UsageError, match="bounds"):
        sets_twin.jaccard(sets, 0, 0)
    with pytest.raises(UsageError, match="bounds"):
        sets_twin.mmr([1.0] * (len(bounds) - 1), sets, 0.5, 1)


@pytest.mark.parametrize(("i", "j"), [(-1, 0), (0, -1), (2, 0), (0, 2)])
def test_a_set_that_is_not_there_is_refused(sets_twin: ModuleType, i: int, j: int) -> None:
    with pytest.raises(UsageError, match="there are 2"):
        sets_twin.jaccard(sets_twin.token_sets(["a", "b"]), i, j)


# --- the choice between the twins ---


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "VADEMECUM_KERNELS"}
    return subprocess.run(
        [sys.executable, "-c", code], env=clean | environment, capture_output=True, text=True, check=False
    )


SHOW = "from vademecum import kernels; print(kernels.NAME, kernels.top_k.__module__, kernels.mmr.__module__)"
WITHOUT_CORE = "import sys; sys.modules['vademecum._native.similarity'] = None; "


@needs_native
def test_the_native_core_serves_where_it_is_installed() -> None:
    expected = "native vademecum._native.cosine vademecum._native.similarity\n"
    assert run(SHOW).stdout == run(SHOW, VADEMECUM_KERNELS="native").stdout == expected


def test_the_twin_serves_when_asked_for_or_when_the_core_is_missing() -> None:
    expected = "reference vademecum.kernels.reference vademecum.kernels.reference\n"
    assert run(SHOW, VADEMECUM_KERNELS="reference").stdout == expected
    assert run(WITHOUT_CORE + SHOW).stdout == expected


def test_a_core_that_is_required_but_missing_is_an_error() -> None:
    assert "KernelError: VADEMECUM_KERNELS is 'native'" in run(WITHOUT_CORE + SHOW, VADEMECUM_KERNELS="native").stderr


def test_an_unknown_choice_is_an_error_that_names_it() -> None:
    assert "KernelError: VADEMECUM_KERNELS is 'fast'" in run(SHOW, VADEMECUM_KERNELS="fast").stderr


def test_kernels_import_nothing_from_above_their_layer() -> None:
    code = "import sys, vademecum.kernels; print(sorted(m for m in sys.modules if m.startswith('vademecum.')))"
    loaded = set(run(code).stdout.translate(str.maketrans("", "", "[]',")).split())
    below = {"vademecum.errors", "vademecum.kernels", "vademecum.kernels.reference", "vademecum._native"}
    assert {"vademecum.errors", "vademecum.kernels"} <= loaded
    assert loaded <= below | {"vademecum._native.cosine", "vademecum._native.similarity"}
