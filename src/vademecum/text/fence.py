"""Recalled text as data: set apart so that nothing in it can end the setting and speak as somebody else."""

from __future__ import annotations

import re

_runs = re.compile("~+").findall
_unprintable_sub = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+").sub


def fence(text: str, label: str) -> str:
    """``text`` between two lines of tildes, the first of which says where it is from.

    They are longer than any run of tildes in the text, so by CommonMark's rules (fenced code blocks) the text ends
    with the second one and not before. It is not changed, but for line ends at its end.
    """
    line = bar(text)
    return f"{line} {_unprintable_sub(' ', label).strip()}\n{text.rstrip(chr(10))}\n{line}"


def bar(text: str) -> str:
    """The line of tildes that no line of ``text`` can be taken for."""
    return "~" * max(3, max(map(len, _runs(text)), default=0) + 1)
