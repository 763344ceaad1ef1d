"""A user's words never break full text, and find what is there."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_text_tokens import TEXTS, found, stored
from vademecum.text.query import MAX_TERMS, match_expression, query_terms
from vademecum.text.tokens import tokenize


@pytest.mark.parametrize("typed", ["2026-03-31", "real-time", "v1.0.21", "C++", "user@example.com", "don't", "foo:bar"])
def test_what_breaks_a_raw_full_text_query_is_found_as_typed(typed: str) -> None:
    with stored(f"Before {typed} after", "something else entirely") as connection:
        with pytest.raises(sqlite3.OperationalError):
            connection.execute("SELECT rowid FROM words WHERE words MATCH ?", (typed,)).fetchall()
        assert found(connection, query_terms(typed).terms) == {0}


@pytest.mark.parametrize(
    ("typed", "terms"),
    [
        ("text:secret", ("text:secret", "text", "secret")),
        ("NEAR(a b)", ("near", "b")),
        ("invest*", ("invest",)),
        ("rain NOT sun", ("rain", "not", "sun")),
        ('"quoted phrase"', ("quoted", "phrase")),
        ("-minus ^caret {col}", ("minus", "caret", "col")),
    ],
)
def test_operators_are_only_words(typed: str, terms: tuple[str, ...]) -> None:
    assert query_terms(typed).terms == terms


@pytest.mark.parametrize("typed", ["", "   ", "\n\t", '"', "()", "*", "\0", "。！？", "🎉", "\ud800"])
def test_a_query_without_words_has_no_terms_and_no_expression(typed: str) -> None:
    query = query_terms(typed)
    assert (query.terms, query.words, query.fallback) == ((), (), ())
    assert match_expression(query.terms) == ""


@given(TEXTS)
def test_no_query_can_break_full_text(typed: str) -> None:
    query = query_terms(typed)
    with stored("a note") as connection:
        for terms in (query.terms, query.words, query.fallback):
            found(connection, terms)


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1), min_size=1))
def test_any_term_is_quoted_so_that_it_cannot_act_as_an_operator(terms: list[str]) -> None:
    with stored("a note") as connection:
        connection.execute("SELECT rowid FROM words WHERE words MATCH ?", (match_expression(terms),)).fetchall()


def test_thousands_of_terms_are_one_valid_expression() -> None:
    with stored("needle", "hay") as connection:
        assert found(connection, (*(f"w{number}" for number in range(5000)), "needle")) == {0}


@given(TEXTS)
def test_terms_are_tokens_of_the_same_text_and_none_comes_twice(text: str) -> None:
    query = query_terms(text)
    held = set(tokenize(text))
    for terms in (query.terms, query.words, query.fallback):
        assert set(terms) <= held
        assert len(set(terms)) == len(terms)
    assert set(query.words) <= set(query.terms)
    assert bool(query.words) == bool(query.terms) == bool(held)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("The user prefers low-risk bonds.", "what bonds does the user prefer?"),
        ("The budget review was moved.", "meeting budget review"),
        ("云工开物 300 元学生券", "云工开物 优惠券"),
        ("那个教程的链接在这里", "我上次说的那个教程链接呢"),
        ("他喜欢吃水果，最喜欢桃子", "喜欢什么水果"),
        ("Встреча перенесена на среду", "встреча отменена"),
        ("Η συνάντηση αναβλήθηκε", "συνάντηση σήμερα"),
        ("הפגישה נדחתה", "הפגישה בוטלה"),
        ("الاجتماع تأجل", "الاجتماع غدا"),
        ("बैठक स्थगित हुई", "बैठक कब"),
        ("การประชุมเลื่อน", "ประชุม พรุ่งนี้"),
        ("Über die Brücke", "uber brucke"),
    ],
)
def test_a_query_finds_a_text_that_holds_only_some_of_its_words(text: str, query: str) -> None:
    with stored(text) as connection:
        assert found(connection, query_terms(query).terms) == {0}


def test_runs_without_spaces_are_sought_by_pairs_and_fall_back_on_single_characters() -> None:
    query = query_terms("风险偏好 x 王")
    assert query.terms == ("风险", "险偏", "偏好", "x", "王")
    assert query.fallback == ("风", "险", "偏", "好")


def test_empty_words_go_unless_there_is_nothing_else() -> None:
    assert query_terms("What is the position limit?").terms == ("position", "limit")
    assert query_terms("to be or not to be").terms == ("not",)
    assert query_terms("what is it").terms == ("what", "is", "it")
    assert query_terms("是什么").terms == ("是什",)
    assert query_terms("什么").terms == ("什么",)


def test_letters_that_are_words_are_not_taken_for_clipped_ones() -> None:
    assert query_terms("vitamin D").terms == ("vitamin", "d")
    assert query_terms("Lin's plan").terms == ("lin's", "lin", "plan")
    assert query_terms("I don't smoke").terms == ("smoke",)


def test_a_compound_counts_by_its_parts_when_asking_whether_every_word_is_there() -> None:
    assert query_terms("real-time file_name").words == ("real", "time", "file", "name")
    assert set(query_terms("real-time updates").words) <= set(tokenize("updates in real time"))
    assert query_terms("C++ or C#").words == ("c++", "c#")
    assert query_terms("don't").words == ("don't",)


def test_a_pasted_page_asks_for_no_more_terms_than_an_index_can_look_up() -> None:
    terms = query_terms(" ".join(f"word{number}" for number in range(5000)) + " 风险偏好" * 5)
    assert len(terms.terms) == len(terms.words) == MAX_TERMS
    assert len(terms.fallback) <= MAX_TERMS
