"""Literal matching and deleting: exactly the text that was named, and only the blank lines that its going made."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vademecum.text.merge import Collision, merge, unified
from vademecum.text.near import nearest
from vademecum.text.passage import apart, occurrences, replaced, without


def deleted(text: str, wanted: str) -> str:
    return without(text, apart(occurrences(text, wanted))).text


@pytest.mark.parametrize(
    ("text", "wanted", "lines"),
    [
        ("a.c abc a.c", "a.c", [1, 1]),
        ("aaa", "aa", [1, 1]),
        ("one\r\ntwo\rthree\nfour", "two\nthree", [2]),
        ("one\r\ntwo", "\n", [1]),
        ("a\n\nb", "\n\n", [1]),
        ("x$1\\n(", "$1\\n(", [1]),
        ("Straße", "STRASSE", []),
    ],
)
def test_a_text_is_found_literally_with_any_line_ends(text: str, wanted: str, lines: list[int]) -> None:
    assert [match.start_line for match in occurrences(text, wanted)] == lines


def test_a_match_says_in_which_lines_it_stands() -> None:
    (match,) = occurrences("one\ntwo\nthree\nfour\n", "two\nthree\n")
    assert (match.start_line, match.end_line) == (2, 3)


@pytest.mark.parametrize(
    ("text", "wanted", "left"),
    [
        ("- a\n- York\n- b\n", "York", "- a\n- b\n"),
        ("- a\n- York\n- b\n", "- York\n", "- a\n- b\n"),
        ("1. [x] York\r\n2. b\r\n", "York", "2. b\r\n"),
        ("I live in New York.\n\n\nOther\n", " York", "I live in New.\n\n\nOther\n"),
        ("a\n\nX\n\nb\n", "X", "a\n\nb\n"),
        ("a\n\n\n\nX\n\nb\n\n\nc\n", "X", "a\n\n\n\nb\n\n\nc\n"),
        ("a\n\nX\n", "X", "a\n"),
        ("X\n\nb\n", "X", "b\n"),
        ("a\nX\nb\n", "X\n", "a\nb\n"),
        ("X", "X", ""),
        ("a\n\nX", "X", "a\n"),
        ("```\n\nX\n\n```\n", "X", "```\n\n\n```\n"),
        ("> York\n\nb\n", "York", "b\n"),
        ("- keep York\n", "York", "- keep \n"),
        ("York York\nb\n", "York", "b\n"),
    ],
)
def test_deleting_folds_only_the_blank_lines_that_it_made(text: str, wanted: str, left: str) -> None:
    assert deleted(text, wanted) == left


@given(
    st.text("ab \n\r$\\&", max_size=30), st.text("ab \n$\\&", min_size=1, max_size=3), st.text("ab$&\\'`", max_size=4)
)
def test_replacing_is_what_the_language_does_with_plain_texts(text: str, wanted: str, new: str) -> None:
    if "\r" not in text:
        assert replaced(text, apart(occurrences(text, wanted)), new).text == text.replace(wanted, new)


@given(st.text("ab- \n", max_size=40), st.text("ab", min_size=1, max_size=2))
def test_deleting_takes_nothing_but_the_text_markers_and_white_space(text: str, wanted: str) -> None:
    def words(of: str) -> str:
        return of.replace("-", "").replace(" ", "").replace("\n", "")

    pieces = text.replace(wanted, "\0")
    assert words(deleted(text, wanted)) == words(pieces).replace("\0", "")


def test_where_the_new_text_begins_is_told_in_lines_of_the_new_page() -> None:
    text = "x\na\nx\n"
    assert replaced(text, occurrences(text, "x"), "1\n2").lines == (1, 4)
    text = "- x\n- a\n- x\n- b\n"
    assert without(text, occurrences(text, "x")) == ("- a\n- b\n", (1, 2))


@pytest.mark.parametrize(
    ("text", "wanted", "line", "difference"),
    [
        ("a\nCafe\u0301 au lait\n", "Caf\u00e9", 2, "in another Unicode normalisation"),
        ("a\nb\nlimit  is 5 %\n", "limit is 5 %", 3, "with other white space"),
        ("Uses VIM daily", "uses vim", 1, "with other letter case, width or white space"),
        ("a\n- the position limit is 5 % now\nb", "position limit was 5 %", 2, ""),
        ("你好\n单一持仓上限为百分之五\n", "单一持仓的上限百分之五", 2, ""),
        ("He will recieve it\nno\n", "He will receive it", 1, ""),
    ],
)
def test_a_near_miss_is_named_with_what_differs(text: str, wanted: str, line: int, difference: str) -> None:
    near = nearest(text, wanted)
    assert near is not None
    assert (near.line, near.difference) == (line, difference)


def test_nothing_alike_is_no_near_miss() -> None:
    assert nearest("apples and pears\nbread\n", "zoological xylophone") is None
    assert nearest("", "anything") is None


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged"),
    [
        ("a\nx\n", "a\nx\ny\n", "a\n", "a\ny\n"),
        ("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n"),
        ("a\nb\n", "a\nb\n", "a\nB\n", "a\nB\n"),
        ("a\nb\n", "a\n", "a\n", "a\n"),
        ("a\n", "a\nx\n", "a\ny\n", Collision(2, 2)),
        ("a\nb\nc\n", "a\nours\nc\n", "a\ntheirs\nc\n", Collision(2, 2)),
        ("a\nb\nc\n", "new\na\nc\n", "a\ntheirs\nc\n", Collision(2, 2)),
        ("", "x\n", "", "x\n"),
    ],
)
def test_two_changes_are_merged_or_the_place_where_they_collide_is_named(
    base: str, ours: str, theirs: str, merged: str | Collision
) -> None:
    assert merge(base, ours, theirs) == merged


_LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n"]), max_size=8)


@given(base=_LINES, ours=_LINES, theirs=_LINES)
def test_a_merge_loses_no_line_of_ours_and_keeps_none_that_either_took_away(
    base: list[str], ours: list[str], theirs: list[str]
) -> None:
    mine = [*ours, "only ours\n"]
    result = merge("".join(base), "".join(mine), "".join(theirs))
    assert merge("".join(base), "".join(base), "".join(theirs)) == "".join(theirs)
    assert merge("".join(base), "".join(mine), "".join(base)) == "".join(mine)
    assert isinstance(result, Collision) or "only ours\n" in result


def test_a_difference_is_shown_as_diff_does() -> None:
    assert unified("a\nb", "a\nc\n", "x.md", "y.md") == (
        "--- x.md\n+++ y.md\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n"
    )
    assert unified("a\r\n", "a\n", "x", "x") == ""
