"""What somebody probably meant who asked for a text that is not there."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from difflib import SequenceMatcher
from heapq import nlargest
from typing import NamedTuple

from vademecum.text.markdown import split_lines
from vademecum.text.tokens import fold, tokenize

_LONGEST = 2_000
_CANDIDATES = 50
_ENOUGH = 0.6
_collapse = re.compile(r"\s+").sub


class NearMiss(NamedTuple):
    """The line (from 1) where something like the text begins, that line, and in what it differs ("" if in words)."""

    line: int
    text: str
    difference: str


def nearest(text: str, wanted: str) -> NearMiss | None:
    """The place in ``text`` that is most like ``wanted``, None if none is alike."""
    lines = split_lines(text)
    height = max(len(split_lines(wanted.strip("\r\n"))), 1)
    windows = ["".join(lines[first : first + height]) for first in range(len(lines))]
    for key, difference in (
        (_composed, "in another Unicode normalisation"),
        (_spaceless, "with other white space"),
        (_folded, "with other letter case, width or white space"),
    ):
        number = _first(windows, wanted, key)
        if number is not None:
            return NearMiss(number + 1, lines[number].strip(), difference)
    number = _most_alike(windows, wanted)
    return None if number is None else NearMiss(number + 1, lines[number].strip(), "")


def _first(windows: list[str], wanted: str, key: Callable[[str], str]) -> int | None:
    needle = key(wanted)
    return next((number for number, window in enumerate(windows) if needle and needle in key(window)), None)


def _most_alike(windows: list[str], wanted: str) -> int | None:
    needle = _folded(wanted)[:_LONGEST]
    words = set(tokenize(wanted[:_LONGEST]))
    shared = [len(words.intersection(tokenize(window[:_LONGEST]))) for window in windows]
    best, best_share = None, _ENOUGH
    for number in nlargest(_CANDIDATES, range(len(windows)), key=lambda number: (shared[number], -number)):
        blocks = SequenceMatcher(
            None, needle, _folded(windows[number])[:_LONGEST], autojunk=False
        ).get_matching_blocks()
        share = sum(block.size for block in blocks if block.size > 1) / max(len(needle), 1)
        if share > best_share:
            best, best_share = number, share
    return best


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _spaceless(text: str) -> str:
    return _collapse(" ", _composed(text)).strip()


def _folded(text: str) -> str:
    return _collapse("", fold(text))
