"""Ranking stages: what each may change and what it must leave alone."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vademecum.rank import Candidate, Query, Ranked, above_floor, decay, diversify, fuse, newer_first
from vademecum.rank.decay import factor
from vademecum.rank.fusion import text_share
from vademecum.settings import DecaySettings
from vademecum.types import Calibration, ChunkRow

TODAY = date(2026, 11, 30)
CALIBRATION = Calibration(0.0, 1.0)


def row(number: int, words: str = "", day: str | None = None) -> ChunkRow:
    return ChunkRow(number, f"{number}.md", "shared", "memory", day, (), 1, 1, words, words, "")


def candidate(
    number: int,
    cosine: float | None = None,
    coverage: float = 0.0,
    *,
    words: str = "",
    day: str | None = None,
    bm25: float | None = None,
    holds_all: bool = False,
    ranks: tuple[int | None, int | None] = (1, 1),
) -> Candidate:
    return Candidate(row(number, words, day), cosine, bm25, coverage, holds_all, *ranks)


def ranked(number: int, value: float, **options: object) -> Ranked:
    clipped = min(max(value, 0.0), 1.0)
    return Ranked(candidate(number, **options), clipped, value, clipped)  # type: ignore[arg-type]


def ids(items: list[Ranked]) -> list[int]:
    return [item.candidate.row.id for item in items]


def test_weighted_fusion_tells_strong_keyword_matches_from_weak_ones() -> None:
    strong, weak = candidate(1, 0.2, bm25=4.2), candidate(2, 0.2, bm25=0.5)
    first, second = fuse([weak, strong], "weighted", Query(0.7, 0.3, CALIBRATION))
    assert first.candidate is strong
    assert first.value == pytest.approx(0.7 * 0.2 + 0.3 * (0.3 + 0.69 * 4.2 / 5.2))
    assert second.value == pytest.approx(0.7 * 0.2 + 0.3 * (0.3 + 0.69 * 0.5 / 1.5))


def test_a_channel_without_candidates_leaves_its_weight_to_the_other() -> None:
    only_words = candidate(1, bm25=1e6, ranks=(None, 1))
    assert fuse([only_words], "weighted", Query(0.7, 0.3, None))[0].value == pytest.approx(0.99)
    only_vector = candidate(1, 0.8, ranks=(1, None))
    assert fuse([only_vector], "weighted", Query(0.7, 0.3, CALIBRATION))[0].value == pytest.approx(0.8)
    assert fuse([only_words], "rrf", Query(0.7, 0.3, None))[0].value == pytest.approx(1.0)


def test_first_in_both_lists_is_one_by_reciprocal_rank() -> None:
    best, other = candidate(1, 0.9, bm25=1.0), candidate(2, 0.8, bm25=0.9, ranks=(2, 2))
    items = fuse([other, best], "rrf", Query(0.7, 0.3, CALIBRATION))
    assert ids(items) == [1, 2]
    assert items[0].value == pytest.approx(1.0)
    assert items[1].value == pytest.approx(61 / 62)


@given(
    st.lists(
        st.tuples(st.none() | st.floats(-1, 1), st.floats(0, 1), st.none() | st.floats(0, 50)), min_size=1, max_size=20
    ),
    st.sampled_from(["calibrated", "weighted", "rrf"]),
    st.floats(0, 5),
    st.floats(0.01, 5),
)
def test_every_fusion_reports_within_zero_and_one_and_orders_by_score_then_id(
    evidence: list[tuple[float | None, float, float | None]], method: str, vector_weight: float, text_weight: float
) -> None:
    items = [
        candidate(
            number,
            cosine,
            coverage,
            bm25=bm25,
            ranks=(None if cosine is None else number + 1, None if bm25 is None else number + 1),
        )
        for number, (cosine, coverage, bm25) in enumerate(evidence)
    ]
    fused = fuse(items, method, Query(vector_weight, text_weight, CALIBRATION))  # type: ignore[arg-type]
    assert sorted(ids(fused)) == list(range(len(items)))
    assert all(0 <= item.fused <= 1 for item in fused)
    assert [item.sort_key for item in fused] == sorted(item.sort_key for item in fused)


def test_the_floor_keeps_what_holds_every_word() -> None:
    weak, exact = ranked(1, 0.05), ranked(2, 0.05, holds_all=True)
    assert above_floor([weak, exact, ranked(3, 0.1)], 0.1)[0] is exact
    assert ids(above_floor([weak, exact, ranked(3, 0.1)], 0.1)) == [2, 3]


def test_a_floor_of_zero_drops_nothing() -> None:
    assert ids(above_floor([ranked(1, 0.0), ranked(2, -0.5)], 0.0)) == [1, 2]


def test_decay_halves_the_fading_part_each_half_life() -> None:
    settings = DecaySettings(half_life_days=30, floor=0.4)
    assert factor("2026-10-31", TODAY, settings) == pytest.approx(0.4 + 0.6 / 2)
    assert factor("2026-10-01", TODAY, settings) == pytest.approx(0.4 + 0.6 / 4)
    assert factor("1990-01-01", TODAY, settings) == pytest.approx(0.4)
    assert factor("2026-10-31", TODAY, DecaySettings(floor=0)) == pytest.approx(0.5)


def test_evergreen_and_future_notes_do_not_fade() -> None:
    assert factor(None, TODAY, DecaySettings()) == 1
    assert factor("2027-01-01", TODAY, DecaySettings()) == 1
    assert factor("2026-11-30", TODAY, DecaySettings()) == 1


def test_the_newer_of_two_equals_comes_first_and_the_score_says_the_factor() -> None:
    old, new = ranked(1, 0.6, day="2026-10-31"), ranked(2, 0.6, day="2026-11-30")
    items = decay([old, new], TODAY, DecaySettings())
    assert ids(items) == [2, 1]
    assert items[1].score == pytest.approx(0.6 * items[1].decay)
    assert items[1].decay < 1


@given(st.floats(-0.5, 1.5), st.integers(0, 4000))
def test_age_never_raises_a_note(order: float, age: int) -> None:
    day = (TODAY - timedelta(days=age)).isoformat()
    today, before = (
        decay([ranked(1, order)], TODAY, DecaySettings()),
        decay([ranked(1, order, day=day)], TODAY, DecaySettings()),
    )
    assert before[0].sort_key >= today[0].sort_key
    assert before[0].score <= today[0].score


@pytest.mark.kernels
def test_a_newer_note_with_one_changed_number_takes_the_place_of_the_older_one() -> None:
    old = ranked(1, 0.70, day="2026-10-01", words="the emergency fund target is 36000 dollars now")
    new = ranked(2, 0.64, day="2026-11-01", words="the emergency fund target is 54000 dollars now")
    other = ranked(3, 0.68, day="2026-11-20", words="lunch with the tax adviser on friday")
    items = newer_first(decay([old, other, new], TODAY, DecaySettings()))
    assert ids(items).index(2) < ids(items).index(1)
    lifted = next(item for item in items if item.candidate is new.candidate)
    assert lifted.score == pytest.approx(old.score * factor("2026-10-01", TODAY, DecaySettings()))
    assert ids(newer_first([old, other])) == [1, 3]


def test_the_text_side_weighs_nothing_when_words_match_by_chance_only() -> None:
    chance = Query(0.7, 0.3, CALIBRATION, mass=20.0, known_mass=20.0, chunks=200)
    assert text_share([candidate(1, 0.5, 0.0)], chance) == 0
    assert text_share([candidate(1, 0.5, 0.15)], chance) < 0.03
    assert text_share([candidate(1, 0.5, 0.9)], chance) > 0.7
    assert text_share([candidate(1, 0.5, 0.9)], Query(1.0, 0.0, CALIBRATION, 20.0, 20.0, 200)) == 0
    assert text_share([candidate(1, 0.5, 0.0)], Query(0.0, 1.0, CALIBRATION, 20.0, 20.0, 200)) == 1


def test_without_vectors_words_that_occur_nowhere_do_not_press_an_exact_hit_down() -> None:
    query = Query(0.7, 0.3, None, mass=40.0, known_mass=4.0, chunks=100)
    (item,) = fuse([candidate(1, coverage=0.1, bm25=2.0, ranks=(None, 1))], "calibrated", query)
    assert item.fused == pytest.approx(1.0)


def test_without_vectors_a_page_about_a_word_ranks_above_one_that_mentions_it() -> None:
    query = Query(0.7, 0.3, None, mass=4.0, known_mass=4.0, chunks=100)
    items = [candidate(n, coverage=1.0, bm25=bm25, ranks=(None, n)) for n, bm25 in ((1, 3.0), (2, 1.0), (3, 0.2))]
    ranked = fuse(items, "calibrated", query)
    assert ids(ranked) == [1, 2, 3]
    assert len({item.score for item in ranked}) == 3
    assert min(item.score for item in ranked) > 0.7


@pytest.mark.kernels
def test_a_near_copy_gives_way_to_a_different_note() -> None:
    copy = "standup at ten in the small room bring your notes"
    items = [ranked(1, 0.9, words=copy), ranked(2, 0.89, words=f"{copy} please"), ranked(3, 0.7, words="room changed")]
    assert ids(diversify([*items, ranked(4, 0.1, words="else")], 2, 0.7)) == [1, 3]
    assert ids(diversify([*items, ranked(4, 0.1, words="else")], 2, 1.0)) == [1, 2]


@pytest.mark.kernels
def test_two_texts_without_words_are_not_copies_of_each_other() -> None:
    items = [ranked(1, 0.9, words=""), ranked(2, 0.8, words=""), ranked(3, 0.3, words="word")]
    assert ids(diversify(items, 3, 0.7)) == [1, 2, 3]


@pytest.mark.kernels
@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.lists(st.sampled_from("abcdef"), max_size=5).map(" ".join)),
        max_size=12,
    ),
    st.integers(0, 15),
    st.floats(0, 1),
)
def test_diversity_only_picks_and_numbers(items: list[tuple[float, str]], k: int, lambda_: float) -> None:
    pool = sorted(
        (ranked(number, order, words=words) for number, (order, words) in enumerate(items)),
        key=lambda item: item.sort_key,
    )
    picked = diversify(pool, k, lambda_)
    assert len(picked) == min(k, len(pool))
    assert len(set(ids(picked))) == len(picked)
    assert [item.position for item in picked] == list(range(1, len(picked) + 1))
    if picked and lambda_ > 0.01:
        assert ids(picked[:1]) == ids(pool[:1])
