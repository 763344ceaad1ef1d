"""Cutting what is too long: lines, then sentences, then code points, never inside a character."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from typing import NamedTuple

from vademecum.text.estimate import WEIGHT_OF_ASCII, weigh
from vademecum.text.markdown import BlockKind, split_lines

# A sentence with its closing quotes and the white space after it. Latin marks need white space or the end behind
# them (3.5, e.g.), the full-width ones do not. The lookbehind keeps a run of dots from being tried at every dot.
_sentences = re.compile(
    r"""(?s:.)+?(?:(?<![.!?…])[.!?…]++["'”’)\]]*+(?=\s|\Z)|[。！？；]++["'”’」』）)]*+|\Z)\s*+"""
).finditer

_JOINER = "\u200d"
# A character with more marks than this is not text in any language, and is cut like anything else.
_LONGEST_CHARACTER = 64


class Unit(NamedTuple):
    """A piece of text that goes into a chunk whole: a block, or a part of one that was too long.

    ``weight`` is its own (see text.estimate); ``inner`` is True if it goes on where the unit before it ended.
    """

    start: int
    end: int
    start_line: int
    end_line: int
    weight: int
    kind: BlockKind
    inner: bool = False


def _extends(before: str, character: str) -> bool:
    """Does ``character`` belong to the same user-perceived character as ``before``? (UAX 29, the common cases.)"""
    return (
        unicodedata.category(character)[0] == "M"
        or _JOINER in (before, character)
        or "\U0001f3fb" <= character <= "\U0001f3ff"  # skin tones
        or "\u1160" <= character <= "\u11ff"  # Hangul vowels and finals
        or "\U000e0020" <= character <= "\U000e007f"  # tags of flags
    )


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _is_inside(text: str, position: int, floor: int) -> bool:
    """Would a cut at ``position`` go through a character, if one begins at ``floor``?"""
    if _is_flag_half(text[position]):
        halves = 0
        while position - halves > floor and _is_flag_half(text[position - halves - 1]):
            halves += 1
        return halves % 2 == 1
    return _extends(text[position - 1], text[position])


def _safe_cut(text: str, position: int, start: int, end: int) -> int:
    """The last place between characters from ``start`` to ``position``, or else the first one before ``end``."""
    for cut in range(position, max(start, position - _LONGEST_CHARACTER), -1):
        if not _is_inside(text, cut, start):
            return cut
    for cut in range(position + 1, min(end, start + _LONGEST_CHARACTER)):
        if not _is_inside(text, cut, start):
            return cut
    return end if end - start <= _LONGEST_CHARACTER else position


def _cut_by_weight(text: str, start: int, end: int, limit: int) -> list[tuple[int, int]]:
    """Pieces of at most ``limit``, cut at white space if there is some in the last half, else between characters."""
    pieces = []
    widest = max(limit // WEIGHT_OF_ASCII, 1)
    while start < end:
        window = text[start : min(start + widest, end)]
        length = len(window)
        if weigh(window) > limit:
            length = max(bisect_right(range(length), limit, key=lambda n: weigh(window[:n])) - 1, 1)
        stop = start + length
        if stop < end:
            blank = max(text.rfind(" ", start + length // 2, stop), text.rfind("\t", start + length // 2, stop))
            stop = _safe_cut(text, stop if blank < 0 else blank + 1, start, end)
        pieces.append((start, stop))
        start = stop
    return pieces


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())


def _sentence_spans(text: str, start: int, end: int, limit: int) -> list[tuple[int, int]]:
    """Sentences of one line without the space between them, the over-long ones cut."""
    spans: list[tuple[int, int]] = []
    for match in _sentences(text, start, end):
        left, right = match.span()
        if spans and _extends(text[left - 1], text[left]):
            spans[-1] = (spans[-1][0], right)
        elif weigh(match[0]) > limit:
            spans += _cut_by_weight(text, left, right, limit)
        else:
            spans.append((left, right))
    return [(left, right) for left, right in (_trimmed(text, *span) for span in spans) if left < right]


def split_unit(text: str, unit: Unit, limit: int, *, sentences: bool = False) -> list[Unit]:
    """Cut a unit into lines, and lines heavier than ``limit`` into sentences and then characters.

    ``sentences`` cuts every line into sentences. Blank lines, which only a fence can hold, go to no unit.
    """
    units: list[Unit] = []
    offset = unit.start
    for number, line in enumerate(split_lines(text[unit.start : unit.end]), unit.start_line):
        end = offset + len(line.rstrip("\r\n"))
        weight = weigh(text[offset:end])
        if weight > limit or sentences:
            spans = _sentence_spans(text, offset, end, limit)
            units += [Unit(a, b, number, number, weigh(text[a:b]), unit.kind, inner=True) for a, b in spans]
        elif not line.isspace():
            units.append(Unit(offset, end, number, number, weight, unit.kind, inner=True))
        offset += len(line)
    if units:
        units[0] = units[0]._replace(inner=unit.inner)
    return units
