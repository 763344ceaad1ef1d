"""The tokeniser: every script, compounds whole and in parts, and tokens that full text stores and finds verbatim."""

from __future__ import annotations

import re
import sqlite3
import string
import time
import unicodedata
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vademecum.text import tokens
from vademecum.text.query import match_expression, query_terms
from vademecum.text.tokens import MAX_TOKEN_LENGTH, TOKENIZER_ID, fold, tokenize

#: Text that resembles notes: words and marks of many scripts, compounds, rubbish.
PIECES = (
    "the", "Café", "NAÏVE", "Straße", "İstanbul", "don’t", "C++", "C#", "v1.0.21", "2026-03-31", "$1,200.50", "5 %",
    "foo:bar", "__init__", "user@example.com", "and/or", "用户的风险偏好", "王", "カタカナ", "ｶﾞ", "게임", "हिन्दी",
    "ภาษาไทย", "ភាសាខ្មែរ", "မြန်မာ", "مُحَمَّد", "می‌خواهم", "שָׁלוֹם", "Ёлка", "🎉", "👨‍👩‍👧", "…", "：", "\"", "'", "*", "#",
    " ", "\n", "\t", "\x00", "\ud800", "e\u0301", "\u00ad", "\u200b", "\ufeff", "½", "①", "-", "_", ".", "/",
)  # fmt: skip
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join))


@contextmanager
def stored(*texts: str) -> Iterator[sqlite3.Connection]:
    """A full-text table as the index has it: our tokens, split at spaces only."""
    marks = string.punctuation.replace("'", "''").replace('"', '""')
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute(f"CREATE VIRTUAL TABLE words USING fts5(body, tokenize=\"ascii tokenchars '{marks}'\")")
        except sqlite3.OperationalError as error:
            pytest.skip(f"this SQLite has no full text: {error}")
        rows = [(number, " ".join(tokenize(text))) for number, text in enumerate(texts)]
        connection.executemany("INSERT INTO words(rowid, body) VALUES (?, ?)", rows)
        yield connection


def found(connection: sqlite3.Connection, terms: tuple[str, ...]) -> set[int]:
    expression = match_expression(terms)
    if not expression:
        return set()
    return {row for (row,) in connection.execute("SELECT rowid FROM words WHERE words MATCH ?", (expression,))}


@given(TEXTS)
def test_any_text_gives_tokens_that_hold_no_space_no_control_and_no_surrogate_and_are_bounded(text: str) -> None:
    for token in tokenize(text):
        assert 0 < len(token) <= MAX_TOKEN_LENGTH
        assert not any(c.isspace() or unicodedata.category(c) in ("Cc", "Cs") for c in token)
        token.encode()


@given(TEXTS)
def test_every_token_is_found_verbatim_in_full_text(text: str) -> None:
    with stored(text) as connection:
        for token in set(tokenize(text)):
            assert found(connection, (token,)) == {0}, token


@given(TEXTS, TEXTS)
def test_a_query_finds_a_text_exactly_if_they_share_a_term(text: str, query: str) -> None:
    terms = query_terms(query).terms
    with stored(text) as connection:
        assert found(connection, terms) == ({0} if set(terms) & set(tokenize(text)) else set())


@given(st.text(st.characters(max_codepoint=127)))
def test_the_short_cut_for_ascii_gives_the_same_tokens_as_the_long_way(text: str) -> None:
    long_way = tokenize(text + " ×")  # the last character is no word
    assert tokenize(text) == long_way


@given(TEXTS)
def test_text_in_composed_and_decomposed_form_has_the_same_tokens(text: str) -> None:
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert tokenize(composed) == tokenize(decomposed)


def test_the_id_changes_with_the_unicode_version() -> None:
    assert unicodedata.unidata_version in TOKENIZER_ID


@pytest.mark.parametrize(
    ("compound", "expected"),
    [
        ("C++", ["c++", "c"]),
        ("C#", ["c#", "c"]),
        ("2026-03-31", ["2026-03-31", "2026", "03", "31"]),
        ("v1.0.21", ["v1.0.21", "1.0.21", "v1", "0", "21"]),
        ("don't", ["don't", "don", "t"]),
        ("don’t", ["don't", "don", "t"]),
        ("foo:bar", ["foo:bar", "foo", "bar"]),
        ("file_name", ["file_name", "file", "name"]),
        ("user@example.com", ["user@example.com", "user", "example.com", "example", "com"]),
        ("real-time", ["real-time", "real", "time"]),
        ("real‑time", ["real-time", "real", "time"]),
        ("and/or", ["and/or", "and", "or"]),
        ("key=value", ["key=value", "key", "value"]),
        ("AT&T", ["at&t", "at", "t"]),
        ("5%", ["5%", "5"]),
        ("5 %", ["5%", "5"]),
        ("#tag", ["#tag", "tag"]),
        ("@bob", ["@bob", "bob"]),
        ("__init__", ["init"]),
        ("$1,200.50", ["$1,200.50", "1,200.50", "1200.50", "1", "200", "50"]),
        ("192.168.1.1:8080", ["192.168.1.1:8080", "192.168.1.1", "8080", "192", "168", "1"]),
        ("gpt-4.1-mini", ["gpt-4.1-mini", "4.1", "gpt", "mini", "4", "1"]),
        (
            "memory/2026-03-31.md",
            ["memory/2026-03-31.md", "memory", "2026-03-31.md", "2026-03-31", "md", "2026", "03", "31"],
        ),
    ],
)
def test_a_compound_is_found_as_typed_and_by_its_parts(compound: str, expected: list[str]) -> None:
    assert tokenize(compound) == expected


@pytest.mark.parametrize("query", ["1.0.21", '"1.0.21"', "v1.0.21", "V1.0.21"])
def test_a_version_is_found_with_and_without_its_v_and_in_quotes(query: str) -> None:
    assert "1.0.21" in query_terms(query).terms
    assert "1.0.21" in tokenize("Upgraded to v1.0.21 today.")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("CAFÉ", "cafe"), ("Straße", "STRASSE"), ("Ünïcödé", "unicode"), ("ΆΛΦΑ", "αλφα"), ("Ёлка", "елка"),
        ("ﬁnal", "final"), ("ｆｕｌｌ", "full"), ("ｶﾞｽ", "ガス"), ("soft\u00adhyphen", "softhyphen"),
        ("می‌خواهم", "میخواهم"), ("İzmir", "izmir"), ("Zo\u00eb", "Zoe\u0308"),
    ],
)  # fmt: skip
def test_spellings_of_one_word_are_one_token(one: str, other: str) -> None:
    assert tokenize(one) == tokenize(other) != []


@pytest.mark.parametrize("word", ["हिन्दी", "नमस्ते", "مُحَمَّد", "שָׁלוֹם", "བོད", "தமிழ்", "ქართული", "ⵜⴰⵎⴰⵣⵉⵖⵜ"])
def test_combining_marks_stay_in_their_word(word: str) -> None:
    assert tokenize(f"({word}), {word}!") == [unicodedata.normalize("NFKC", word)] * 2


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("今天玩成语接龙游戏", ["成语接龙", "接龙", "今天", "戏", "今天玩成语接龙游戏"]),
        ("用户的风险偏好是保守的", ["风险偏好", "保守", "险"]),
        ("새로운 게임을 시작했다", ["게임", "시작", "임"]),
        ("カタカナとひらがな", ["ひらがな", "タカ", "と"]),
        ("ภาษาไทยไม่มีช่องว่าง", ["ไทย", "ช่องว่าง", "ภาษา"]),
        ("ភាសាខ្មែរ", ["ខ្មែរ", "ភាសា"]),
        ("မြန်မာဘာသာ", ["မာဘာ", "ဘာသာ"]),
        ("王", ["王"]),
        ("𠮷野家", ["𠮷野", "家"]),
    ],
)
def test_any_substring_of_a_script_without_spaces_is_found(text: str, queries: list[str]) -> None:
    held = set(tokenize(text))
    for query in queries:
        terms = query_terms(query).terms
        assert terms
        assert set(terms) <= held, query


@given(st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF), min_size=1), st.data())
def test_every_substring_of_ideographs_is_found(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    assert set(query_terms(text[start:end]).terms) <= set(tokenize(text))


def test_scripts_part_where_they_meet() -> None:
    assert tokenize("买NVDA股票3次") == ["买", "nvda", "股", "票", "股票", "3", "次"]


def test_texts_in_one_script_have_tokens_to_compare_and_no_text_has_none_by_accident() -> None:
    assert set(tokenize("风险偏好")) & set(tokenize("偏好保守"))
    assert tokenize("🎉 … — ！？") == []


def test_a_long_run_is_cut_into_bounded_pieces_and_stays_findable() -> None:
    secret = "QmFzZTY0" * 100
    pieces = tokenize(f"key {secret} end")
    assert len(pieces) > 10
    assert set(tokenize(secret)) <= set(pieces)
    assert set(query_terms(secret).terms) <= set(pieces)


def test_huge_unbroken_lines_are_tokenised_in_linear_time() -> None:
    for unit in ("x", "a.", "_", "-", "#", "a/", "\u0301", "王", "ก้"):
        text = unit * (1_000_000 // len(unit))
        start = time.process_time()
        assert all(len(token) <= MAX_TOKEN_LENGTH for token in tokenize(text))
        assert time.process_time() - start < 5, unit


def test_the_quick_test_for_marks_misses_none() -> None:
    """A mark outside it would fall out of its word."""
    for code in range(0x110000):
        for character in fold(chr(code)):
            if unicodedata.category(character)[0] == "M":
                assert tokens._may_have_marks(character), hex(code)
                assert re.match(f"[{tokens._marks()}]", character), hex(code)


def test_the_quick_test_for_accents_misses_no_letter() -> None:
    for code in range(0x110000):
        if chr(code).isalpha():
            assert not re.search("[\u0300-\u036f]", unicodedata.normalize("NFD", fold(chr(code)))), hex(code)
