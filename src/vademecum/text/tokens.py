"""One tokeniser for index, query, coverage and diversity.

Text is folded (NFKC, case, diacritics) and cut into words of any script. Compounds are emitted whole and by their
parts. Scripts written without spaces become single characters and overlapping bigrams, so that any substring is
found. ASCII text, the common case, takes a short cut with the same result.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from operator import add

#: Names everything that tokens depend on; indexes built with another value are built anew.
TOKENIZER_ID = f"words-1/unicode-{unicodedata.unidata_version}"

#: No token is longer than this many code points; longer words are cut into pieces from their start.
MAX_TOKEN_LENGTH = 64

# Han, kana, Hangul, Bopomofo; Thai, Lao, Myanmar, Khmer with their marks and digits, without their punctuation.
_UNSPACED = (
    "\u3005-\u3007\u3021-\u302f\u3031-\u3035\u3038-\u303c\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa"
    "\u30fc-\u30ff\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\u1100-\u11ff\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e81-\u0edf"
    "\u1000-\u1049\u1050-\u109d\ua9e0-\ua9fe\uaa60-\uaa7f\u1780-\u17d3\u17d7\u17dc-\u17e9"
)
_unspaced_split = re.compile(f"([{_UNSPACED}]+)").split

# Where combining marks live that belong to a word; only text with such characters pays for the table of marks.
_may_have_marks = re.compile(
    "[\u0483-\u0489\u0591-\u10ff\u1300-\u1dff\u20d0-\u20ff\u2c00-\u2dff\u302a-\u302f\u3099\u309a"
    "\ua600-\uabff\ufb1e\ufe20-\ufe2f\U00010000-\U0001efff]"
).search

# Default-ignorable code points: soft hyphen, joiners, direction marks, variation selectors. (U+200B too: it only
# says where a line may break.)
_ignorable_sub = re.compile(
    "[\u00ad\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]+"
).sub
_may_have_accents = re.compile("[\u00c0-\u058f\u1e00-\u1fff]").search
_accents_sub = re.compile("[\u0300-\u036f]+").sub

_CURRENCY = "$€£¥"
_BEFORE = "#@" + _CURRENCY
_AFTER = "#%+"
_connectors_split = re.compile(rf"[-_'./:@&=+,%#{_CURRENCY}]+").split
# From the loosest connectors to the closest. A dot between digits is the closest of all: gpt-4.1-mini, 192.168.1.1:80.
_split_levels = tuple(re.compile(marks).split for marks in ("[=:@&+]", "/", r"\.(?!\d)|(?<!\d)\.", "[-_']+"))
_find_version = re.compile(r"(?<![\d.,])v?(\d+(?:\.\d+)+)(?![\d.])").search
_is_grouped_number = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?").fullmatch


def _run_pattern(word: str, flags: int = 0) -> re.Pattern[str]:
    """Words joined by single connectors, with what may stand before (``#tag``) and after (``C++``, ``5 %``)."""
    # No possessive groups: Python up to 3.11.4 loses its place in them (https://github.com/python/cpython/issues/106052).
    word = f"{word}{{1,{MAX_TOKEN_LENGTH}}}+"
    return re.compile(
        rf"[{_BEFORE}]?{word}(?:[-'./:@&=+,]{word}){{0,31}}(?:\+\+(?!\w)|#(?!\w)|(?<=\d) ?%)?",
        flags,
    )


_find_ascii_runs = _run_pattern(r"\w", re.ASCII).findall
_find_runs = _run_pattern(r"\w").findall


@cache
def _marks() -> str:
    """All combining marks of this Unicode version as the inside of a character class."""
    ranges: list[list[int]] = []
    for code in range(0x0300, 0x1F000):
        if unicodedata.category(chr(code))[0] == "M":
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


@cache
def _marked_run_pattern() -> re.Pattern[str]:
    return _run_pattern(rf"[\w{_marks()}]")


@cache
def _cluster_pattern() -> re.Pattern[str]:
    # U+17D2 and U+1039 stack the consonant that follows them under the one before.
    return re.compile(f"(?s:.)(?:[\u17d2\u1039].|[{_marks()}])*")


def fold(text: str) -> str:
    """Text as it is compared: NFKC, case-folded, without U+0300-U+036F and ignorable code points, in NFC.

    Typographic apostrophes and hyphens become the ASCII ones, because people type those.
    """
    if text.isascii():
        return text.lower()
    text = _ignorable_sub("", unicodedata.normalize("NFKC", text).casefold())
    if _may_have_accents(text):
        text = unicodedata.normalize("NFC", _accents_sub("", unicodedata.normalize("NFD", text)))
    return text.replace("’", "'").replace("ʼ", "'").replace("‐", "-").replace("–", "-").replace("−", "-")


def word_runs(folded: str) -> list[str]:
    """The words and compounds of folded text without unspaced scripts, in order."""
    if folded.isascii():
        return _find_ascii_runs(folded)
    return (_marked_run_pattern().findall if _may_have_marks(folded) else _find_runs)(folded)


def script_runs(folded: str) -> Iterator[tuple[bool, str]]:
    """Cut folded text into pieces; True marks a run of a script written without spaces."""
    unspaced = False
    for piece in _unspaced_split(folded):
        yield unspaced, piece
        unspaced = not unspaced


def clusters(run: str) -> list[str]:
    """The characters of an unspaced run, each with its combining marks."""
    if not _may_have_marks(run):
        return list(run)
    return [cluster[: MAX_TOKEN_LENGTH // 2] for cluster in _cluster_pattern().findall(run)]


def bigrams(units: list[str]) -> list[str]:
    """Overlapping pairs of neighbours."""
    return list(map(add, units, units[1:]))


def split_parts(run: str) -> list[str]:
    """The smallest parts of a compound: what stands between its connectors."""
    return [part for part in _connectors_split(run.replace(" ", "")) if part]


def expand(run: str) -> list[str]:
    """The tokens of one compound: whole, without decoration, sub-compounds, and parts; no token twice.

    ``memory/2026-03-31.md`` gives itself, ``memory``, ``2026-03-31.md``, ``2026-03-31``, ``md``, ``2026``, ``03`` and
    ``31``.
    """
    whole = run.replace(" ", "").strip("_")
    parts = split_parts(whole)
    if len(parts) == 1 and parts[0] == whole:
        return parts
    core = whole.lstrip(_BEFORE).rstrip(_AFTER)
    tokens = [whole, core]
    if version := _find_version(core):
        tokens.append(version[1])
    if "," in core and _is_grouped_number(core):
        tokens.append(core.replace(",", ""))
    if len(parts) > 2:
        pieces = [core]
        for split in _split_levels:
            pieces = [part for piece in pieces for part in split(piece)]
            tokens += pieces
    tokens += parts
    return [token for token in dict.fromkeys(tokens) if 0 < len(token) <= MAX_TOKEN_LENGTH]


def _append_words(tokens: list[str], folded: str) -> None:
    for run in word_runs(folded):
        if run.isalnum():
            tokens.append(run)
        else:
            tokens += expand(run)


def tokenize(text: str) -> list[str]:
    """The index tokens of a text; repeated words are repeated.

    Tokens are non-empty, hold no white space, control character or lone surrogate, and are at most
    MAX_TOKEN_LENGTH code points long. Any text is accepted; one without words gives an empty list.
    """
    tokens: list[str] = []
    folded = fold(text)
    if folded.isascii():
        _append_words(tokens, folded)
        return tokens
    for unspaced, piece in script_runs(folded):
        if unspaced:
            units = clusters(piece)
            tokens += units
            tokens += bigrams(units)
        elif piece:
            _append_words(tokens, piece)
    return tokens
