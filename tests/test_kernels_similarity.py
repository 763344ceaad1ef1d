"""Token sets, Jaccard and MMR: the native kernels and the plain twins that define them."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_support import needs_native, seeds, similarity
from vademecum.errors import UsageError
from vademecum.kernels import reference

pytestmark = pytest.mark.kernels


@pytest.fixture(scope="module", params=[pytest.param("native", marks=needs_native), "reference"])
def sets_twin(request: pytest.FixtureRequest) -> ModuleType:
    return similarity if request.param == "native" else reference


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


@given(st.lists(texts, max_size=6), st.lists(words, max_size=20), st.data())
def test_a_term_is_held_as_often_as_it_is_one_of_the_tokens(
    sets_twin: ModuleType, each: list[str], terms: list[str], data: st.DataObject
) -> None:
    tokens = [token for text in each for token in text.split(" ")]
    if tokens:
        terms += data.draw(st.lists(st.sampled_from(tokens), max_size=5))
    expected = [bytes(text.split(" ").count(term) if term else 0 for term in terms) for text in each]
    assert sets_twin.held(each, terms) == expected


def test_a_part_of_a_token_is_not_held(sets_twin: ModuleType) -> None:
    text = "seaside the-sea sea8bytes beyond"
    assert sets_twin.held([text, "", "sea"], ["sea", "seaside", "the", "beyond", "beyon", ""]) == [
        b"\0\1\0\1\0\0",
        bytes(6),
        b"\1\0\0\0\0\0",
    ]
    assert sets_twin.held(["a " * 300 + "b b"], ["a", "b"]) == [b"\xff\2"]
    assert sets_twin.held([], ["a"]) == []
    assert sets_twin.held(["a"], []) == [b""]
    with pytest.raises(TypeError, match="is a bytes"):
        sets_twin.held(["a"], [b"a"])
    with pytest.raises(TypeError, match="is a int"):
        sets_twin.held([1], ["a"])
    with pytest.raises(UnicodeEncodeError):
        sets_twin.held(["a \ud800"], ["a"])


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
