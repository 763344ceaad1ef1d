"""``index.md`` as it stands: what it shows of the pages that there are, and where. Pure."""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from vademecum.knowledge.markup import Heading, Item, Link, read_markup
from vademecum.knowledge.rewriting import Edit, edited
from vademecum.knowledge.targets import SUFFIX, Pages, fold
from vademecum.store.layout import INDEX

_BEFORE_LINK = re.compile(r"[\s>]*(?:[-*+]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?[*_~]*").fullmatch
_SEPARATORS = re.compile(r"[-_\s]+")


@dataclass(frozen=True, slots=True)
class Shelf:
    """What the index has to show.

    ``home`` is the folder, with "/" at its end; ``listed`` are the paths of its pages, whose titles ``title`` tells.
    ``pages`` are all that a link may lead to. Links to what ``exists`` although it is no page stay, and so do those to
    what may exist below the ``unreadable`` paths.

    What has just happened: ``moves`` gives the new paths by the old ones, ``removed`` are the paths of deleted pages,
    and ``retitled`` has the former titles of pages that got another one.
    """

    home: str
    listed: frozenset[str]
    title: Callable[[str], str]
    pages: Pages
    exists: Callable[[str], bool]
    unreadable: tuple[str, ...] = ()
    moves: Mapping[str, str] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    retitled: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """Where the index is."""
        return self.home + INDEX

    def category(self, path: str) -> str:
        """The folder of a page below ``home``, "" for ``home`` itself."""
        return posixpath.dirname(path.removeprefix(self.home))


class IndexView:
    """One state of the text, parsed."""

    def __init__(self, text: str, shelf: Shelf) -> None:
        self.text = text
        self.shelf = shelf
        self.markup = read_markup(text)
        # Of items that begin in one line, the innermost.
        self._items = {item.first: item for item in self.markup.items}
        self._section_ends = [heading.end for heading in self.markup.headings]

    @cached_property
    def _before(self) -> Pages:
        return Pages(self.shelf.pages.paths | self.shelf.removed)

    def changed(self, edits: Sequence[Edit], end: str | None = None) -> IndexView:
        """The index after some edits, ending with ``end`` if that is given."""
        if not edits:
            return self
        text = edited(self.text, edits)
        return IndexView(text if end is None else text.rstrip("\n") + end, self.shelf)

    @cached_property
    def targets(self) -> tuple[str | None, ...]:
        """Where each link leads."""
        return tuple(self.shelf.pages.resolve(self.shelf.path, link) for link in self.markup.links)

    @cached_property
    def entries(self) -> tuple[tuple[Link, Item, str], ...]:
        """The list items that begin with a link, with that link and the path that it leads to."""
        found = ((link, self.item(link), path) for link, path in zip(self.markup.links, self.targets, strict=True))
        return tuple((link, item, path) for link, item, path in found if item is not None and path is not None)

    @cached_property
    def by_section(self) -> dict[int, list[str]]:
        """The categories of the entries of each section."""
        sections: dict[int, list[str]] = defaultdict(list)
        for _, item, path in self.entries:
            sections[self.section(item.first)].append(self.shelf.category(path))
        return sections

    def missing(self) -> list[str]:
        """The pages that no link leads to, sorted."""
        shown = {path for link, path in zip(self.markup.links, self.targets, strict=True) if not link.image}
        return sorted(self.shelf.listed - shown)

    def dead(self) -> list[Link]:
        """The links to pages in the folder that are not there."""
        return [link for link in self.markup.links if self.is_dead(link)]

    def is_dead(self, link: Link) -> bool:
        shelf = self.shelf
        path = shelf.pages.resolve(shelf.path, link)
        if path is None:
            return link.style == "wiki" and not shelf.unreadable and _names_a_page(link.target)
        if path in shelf.pages.paths or any(f"{path}/".startswith(f"{gap}/") for gap in shelf.unreadable):
            return False
        return not shelf.exists(path) and fold(path).startswith(fold(shelf.home)) and path.lower().endswith(SUFFIX)

    def removed(self, link: Link) -> bool:
        return bool(self.shelf.removed) and self._before.resolve(self.shelf.path, link) in self.shelf.removed

    def offset(self, line: int) -> int:
        return self.markup.offsets[line]

    def blank(self, line: int) -> bool:
        """Whether a line is blank, or below the last one."""
        return not "".join(
            self.text[start:end] for start, end in pairwise(self.markup.offsets[line : line + 2])
        ).strip()

    def without(self, item: Item) -> Edit:
        """Takes an item away, and of the blank lines that then meet, one."""
        last = len(self.markup.offsets) - 1
        meet = item.end < last and self.blank(item.end) and (item.first == 0 or self.blank(item.first - 1))
        return Edit(self.offset(item.first), self.offset(item.end + meet), "")

    def item(self, link: Link) -> Item | None:
        """The list item that begins with a link."""
        item = self._items.get(link.line - 1)
        begins = item is not None and _BEFORE_LINK(self.text[self.offset(item.first) : link.span.start])
        return item if begins else None

    def nests(self, item: Item) -> bool:
        """Whether there is a list in an item."""
        return any(inner.first > item.first and inner.end <= item.end for inner in self.markup.items)

    def outermost(self, item: Item) -> Item:
        return next(outer for outer in self.markup.items if outer.first <= item.first and item.end <= outer.end)

    def section(self, line: int) -> int:
        """The number of the heading above a line, -1 if there is none."""
        return bisect_right(self._section_ends, line) - 1

    def section_of(self, category: str) -> int | None:
        """The number of the heading of a category: its path, or its name below the heading of what it is in.

        Pages without category stand below the title; -1 if there is none.
        """
        if not category:
            return 0 if self.markup.headings and self.markup.headings[0].level == 1 else -1
        above: list[Heading] = []
        for number, heading in enumerate(self.markup.headings):
            above = [*(outer for outer in above if outer.level < heading.level), heading]
            names = [key(outer.title) for outer in above]
            parts = [key(part) for part in category.split("/")]
            if heading.level > 1 and (names[-1] == key(category) or names[-len(parts) :] == parts):
                return number
        return None

    def bounds(self, section: int) -> tuple[int, int]:
        """The lines of a section, without its heading and without the sections in it."""
        headings = self.markup.headings
        first = headings[section].end if section >= 0 else 0
        last = headings[section + 1].first if section + 1 < len(headings) else len(self.markup.offsets) - 1
        return first, last


def _names_a_page(name: str) -> bool:
    suffix = posixpath.splitext(name.strip())[1].lower()
    return suffix in ("", SUFFIX) or not suffix[1:].isalnum() or len(suffix) > 5


def key(title: str) -> str:
    """What a heading and the category that it means have in common."""
    return _SEPARATORS.sub(" ", fold(title)).strip()
