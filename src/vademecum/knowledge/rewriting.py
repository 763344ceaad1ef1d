"""Keeping links true when pages move: what has to change in the text of one page. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from vademecum.knowledge.markup import Markup
from vademecum.knowledge.targets import Pages, fold, markdown_link, stem


class Edit(NamedTuple):
    """``text[start:end]`` is to become ``new``."""

    start: int
    end: int
    new: str


@dataclass(frozen=True)
class Move:
    """Pages that get another path: the old paths with the new ones, and all pages before and after."""

    paths: Mapping[str, str]
    before: Pages
    after: Pages

    @cached_property
    def _names(self) -> re.Pattern[str]:
        names = sorted({fold(stem(path)) for pair in self.paths.items() for path in pair}, key=len, reverse=True)
        return re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in names))

    def concerns(self, page: str, text: str) -> bool:
        """False only if no link on a page can need a change; much cheaper than to parse it.

        A link to a page holds the page's name, as a word, unless some of its letters are written in code.
        """
        if "[" not in text:
            return False
        return page in self.paths or any(mark in text for mark in "%&\\") or bool(self._names.search(fold(text)))


def link_edits(text: str, markup: Markup, page: str, move: Move) -> list[Edit]:
    """What must change in ``text``, the page that was at ``page`` before the move, in ascending order.

    Every link then leads to where it led, by the new path if that has moved; this also goes for links to other files
    and to pages that do not exist. A link that need not change is left as it is.
    """
    here = move.paths.get(page, page)
    edits = []
    for link in markup.links:
        target = move.before.resolve(page, link)
        if link.place is None or target is None:
            continue
        wanted = move.paths.get(target, target)
        if wanted == target and move.after.leads(here, link, wanted):
            continue
        new = move.after.written(here, wanted, link)
        edit = Edit(*link.span, markdown_link(here, wanted, link)) if new is None else Edit(*link.place, new)
        if text[edit.start : edit.end] != edit.new:
            edits.append(edit)
    return edits


def edited(text: str, edits: Iterable[Edit]) -> str:
    """``text`` after all ``edits``, which must not overlap; their order does not matter."""
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.new + text[edit.end :]
    return text
