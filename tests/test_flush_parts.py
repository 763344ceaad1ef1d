"""The parts of a flush, each by itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vademecum.text.estimate import estimate_tokens
from vademecum.writeback.reply import clean, fact, items, news, says_nothing
from vademecum.writeback.transcript import windows
from vademecum.writeback.trigger import FlushTrigger, should_flush


@given(st.lists(st.text(alphabet="ab 长😀\n", max_size=300)), st.integers(1, 200))
def test_windows_hold_everything_in_order_within_the_budget(lines, budget):
    found = windows(lines, budget)
    assert "".join(found).replace("\n\n", "") == "".join(lines).replace("\n\n", "")
    assert all(estimate_tokens(window) <= max(budget + 2 * window.count("\n\n"), 2) for window in found)


@given(st.text(max_size=200))
def test_no_answer_whatever_breaks_the_reading_of_it(text):
    cleaned = clean(text, "a prompt that says what to do")
    for item in items(cleaned):
        assert item and not says_nothing(item)


def test_another_number_sign_negation_name_or_order_is_another_fact():
    pairs = [
        ("Limit is 5 %", "Limit is 8 %"),
        ("Limit ≤ 5 %", "Limit ≥ 5 %"),
        ("Anna eats fish", "Anna never eats fish"),
        ("Anna eats fish", "Anne eats fish"),
        ("Anna owes Bert 5 €", "Bert owes Anna 5 €"),
        ("他吃鱼", "他不吃鱼"),
    ]
    for one, other in pairs:
        assert fact(one) != fact(other)
        assert news([other], [f"- {one}"]) == (other,)


def test_case_light_words_and_full_stops_make_no_other_fact():
    assert news(["the user has a Limit of 5 %."], ["* User has limit of 5 %"]) == ()
    assert news(["he likes tea", "Likes tea!"], []) == ("he likes tea",)


def test_the_trigger_asks_once_for_each_compaction():
    assert not should_flush(95_000) and should_flush(95_001)
    assert should_flush(5_000, 8_000) and not should_flush(3_000, 8_000)
    trigger = FlushTrigger(128_000)
    assert trigger.due(100_000)
    trigger.flushed()
    assert not trigger.due(120_000)
    trigger.compacted()
    assert trigger.due(100_000) and trigger.owed == 0
    trigger.compacted()
    assert trigger.owed == 1
