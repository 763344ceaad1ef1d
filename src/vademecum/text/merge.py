"""Two changes of one text, line by line: what differs, and both changes in one text if they do not collide."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from vademecum.text.markdown import split_lines


class _Hunk(NamedTuple):
    """Lines ``start`` to ``end`` (exclusive, from 0) of the base have become ``lines``."""

    start: int
    end: int
    lines: list[str]

    def collides(self, other: _Hunk) -> bool:
        """Whether both touch the same lines, or put lines in the same gap. Neighbours do not collide: a line that goes
        and one that comes right behind it are two changes."""
        same_gap = self.start == self.end == other.start == other.end
        return same_gap or (self.start < other.end and other.start < self.end)


class Collision(NamedTuple):
    """Where two changes touch the same place: lines (from 1, inclusive) of ours, 0 for a gap before the first line."""

    start_line: int
    end_line: int


def merge(base: str, ours: str, theirs: str) -> str | Collision:
    """``ours`` with the change from ``base`` to ``theirs`` made to it too; every line that only ours has stays.

    Lines are compared with their ends. Returns the first Collision instead when both change the same lines in
    different ways.
    """
    lines = split_lines(base)
    mine, yours = _hunks(lines, split_lines(ours)), _hunks(lines, split_lines(theirs))
    merged = sorted(mine, key=lambda hunk: (hunk.start, hunk.end))
    for hunk in yours:
        if hunk in mine:
            continue
        for other in mine:
            if hunk.collides(other):
                return _place(other, mine)
        merged.append(hunk)
    return "".join(_applied(lines, merged))


def unified(before: str, after: str, old_name: str, new_name: str) -> str:
    """The difference as ``diff -u`` shows it; "" if there is none."""
    old, new = split_lines(before.replace("\r\n", "\n")), split_lines(after.replace("\r\n", "\n"))
    missing = "\n\\ No newline at end of file\n"
    lines = difflib.unified_diff(old, new, old_name, new_name)
    return "".join(line if line.endswith("\n") else line + missing for line in lines)


def equal_ends(old: list[str], new: list[str]) -> tuple[int, int]:
    """How many lines at the beginning and, of the others, at the end are the same."""
    head = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    pairs = zip(reversed(old[head:]), reversed(new[head:]), strict=False)
    return head, sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _hunks(old: list[str], new: list[str]) -> list[_Hunk]:
    """How ``new`` differs from ``old``. Equal ends are set aside first: comparing takes quadratic time at worst."""
    head, tail = equal_ends(old, new)
    middle, other = old[head : len(old) - tail], new[head : len(new) - tail]
    codes = difflib.SequenceMatcher(None, middle, other, autojunk=False).get_opcodes()
    return [_Hunk(head + a, head + b, other[c:d]) for kind, a, b, c, d in codes if kind != "equal"]


def _applied(lines: list[str], hunks: list[_Hunk]) -> Iterator[str]:
    done = 0
    for hunk in sorted(hunks, key=lambda hunk: (hunk.start, hunk.end)):
        yield from lines[done : hunk.start]
        yield from hunk.lines
        done = hunk.end
    yield from lines[done:]


def _place(hunk: _Hunk, mine: list[_Hunk]) -> Collision:
    shift = sum(len(other.lines) - (other.end - other.start) for other in mine if other.start < hunk.start)
    first = hunk.start + shift
    return Collision(first + 1, first + len(hunk.lines)) if hunk.lines else Collision(first, first)
