"""Where a text stands in another, literally; and the other without it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import NamedTuple

from vademecum.text.markdown import scan, split_lines

_LINE_END = r"(?:\r\n|(?<!\r)\n|\r(?!\n))"
_split_at_line_ends = re.compile(_LINE_END).split
# What is worth nothing without the words behind it: quote, list, task and heading markers.
_is_bare_marker = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)]|#{1,6})[ \t]*)?(?:\[[ xX]\][ \t]*)?\Z").match
_blank_lines_after = re.compile(rf"(?:[ \t]*{_LINE_END})*").match


class Match(NamedTuple):
    """``text[start:end]``, which stands in these lines (from 1, inclusive)."""

    start: int
    end: int
    start_line: int
    end_line: int


def occurrences(text: str, wanted: str) -> list[Match]:
    """Every place where ``wanted`` stands, overlapping ones too. No character of it is a pattern; a line end matches
    every kind of line end."""
    literal = _LINE_END.join(map(re.escape, _split_at_line_ends(wanted)))
    starts = list(accumulate(map(len, split_lines(text)), initial=0))
    return [
        Match(*found.span(1), bisect_right(starts, found.start(1)), bisect_right(starts, found.end(1) - 1))
        for found in re.finditer(f"(?=({literal}))", text)
    ]


def apart(matches: Sequence[Match]) -> list[Match]:
    """Those of the matches, from the first on, that do not overlap one before them."""
    chosen: list[Match] = []
    for match in matches:
        if not chosen or match.start >= chosen[-1].end:
            chosen.append(match)
    return chosen


class Changed(NamedTuple):
    """A changed text, and for each change the line (from 1) of it where what is new begins."""

    text: str
    lines: tuple[int, ...]


def replaced(text: str, matches: Sequence[Match], new: str) -> Changed:
    """``text`` with ``new`` in the place of matches that do not overlap."""
    return _changed(text, matches, new, lambda _, match: (match.start, match.end))


def without(text: str, matches: Sequence[Match]) -> Changed:
    """``text`` without the matches, which do not overlap.

    A line of which nothing is left, or nothing but a marker, goes with its end; of the blank lines that meet where
    whole lines went, the fewer go too. All other blank lines stay, and those in code always.
    """
    code = [(block.start_line, block.end_line) for block in scan(text) if block.kind == "fence"]
    return _changed(text, matches, "", partial(_span_to_delete, code))


def _changed(text: str, matches: Sequence[Match], new: str, span: Callable[[str, Match], tuple[int, int]]) -> Changed:
    starts, growths = [], []
    for match in reversed(matches):
        start, end = span(text, match)
        text = text[:start] + new + text[end:]
        starts.append(start)
        growths.append(len(new) - (end - start))
    before = accumulate(reversed(growths), initial=0)
    line_starts = list(accumulate(map(len, split_lines(text))))[:-1]
    lines = (
        1 + bisect_right(line_starts, start + shift) for start, shift in zip(reversed(starts), before, strict=False)
    )
    return Changed(text, tuple(lines))


def _span_to_delete(code: Sequence[tuple[int, int]], text: str, match: Match) -> tuple[int, int]:
    start, end = _whole_lines(text, match.start, match.end)
    in_code = any(first < match.start_line and match.end_line < last for first, last in code)
    if starts_line(text, start) and starts_line(text, end) and not in_code:
        return _with_blank_lines(text, start, end)
    return start, end


def _whole_lines(text: str, start: int, end: int) -> tuple[int, int]:
    """The span, grown to whole lines if nothing of worth is left of them."""
    line_start = _line_start(text, start)
    if starts_line(text, end) and line_start == start:
        return start, end
    rest = re.compile(r"[^\r\n]*").match(text, end)
    assert rest is not None
    if _is_bare_marker(text[line_start:start]) is None or rest[0].strip():
        return start, end
    line_end = re.compile(rf"{_LINE_END}?").match(text, rest.end())
    assert line_end is not None
    return line_start, line_end.end()


def starts_line(text: str, offset: int) -> bool:
    """Whether a line begins at ``offset``, or the text ends there."""
    return offset in (0, len(text)) or text[offset - 1] == "\n" or (text[offset - 1] == "\r" and text[offset] != "\n")


def _with_blank_lines(text: str, start: int, end: int) -> tuple[int, int]:
    """The span of whole lines, grown by the blank lines before or after it, whichever are fewer."""
    before, after = _blank_lines_before(text, start), _blank_lines_after(text, end)
    assert after is not None
    at_begin, at_end = before == 0, after.end() == len(text)
    fewer_before = len(split_lines(text[before:start])) <= len(split_lines(after[0]))
    if not at_begin and (at_end or fewer_before):
        return before, end
    return start, after.end()


def _blank_lines_before(text: str, start: int) -> int:
    """Where the blank lines begin that end at ``start``."""
    while start > 0:
        previous = _line_start(text, start - 1 - text.endswith("\r\n", 0, start))
        if text[previous:start].strip():
            break
        start = previous
    return start


def _line_start(text: str, offset: int) -> int:
    line_feed = text.rfind("\n", 0, offset)
    return max(line_feed, text.rfind("\r", line_feed + 1, offset)) + 1
