"""What one page says: its title, its links with the exact place of each, its headings and list items."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple
from urllib.parse import unquote

from vademecum.knowledge.parser import WIKI_LINK, Piece, Seen, Span, Style, parse, wiki_seen
from vademecum.text.markdown import scan, split_lines

_EXTERNAL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//").match
_ANCHOR = re.compile(r"[#?]|\Z").search


class Link(NamedTuple):
    """A link to somewhere in the memory; web addresses and links within a page are none.

    ``target`` is the path as it is meant, without any encoding, and ``anchor`` what follows it, from "#" or "?" on.
    ``label`` is what a reader sees, as Markdown. ``span`` is the whole link. ``place`` is what has to be replaced when
    the target moves: path and anchor, but the path alone in a wiki link; None where the path does not stand here.
    ``line`` is 1-based.
    """

    style: Style
    target: str
    anchor: str
    label: str
    line: int
    span: Span
    place: Span | None
    image: bool


class Heading(NamedTuple):
    """A heading: its level (1 to 6), its text without markup, and its lines, ``first`` (from 0) up to ``end``."""

    level: int
    title: str
    first: int
    end: int


class Item(NamedTuple):
    """A list item: its lines, ``first`` (from 0) up to ``end``, without the blank ones that follow it."""

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Markup:
    """What is known of one page, in the order of its text. ``title`` is the first heading of level 1, if any.

    ``offsets`` are the positions where the lines begin, and one more for the end. ``head`` counts the lines of front
    matter.
    """

    title: str | None
    links: tuple[Link, ...]
    headings: tuple[Heading, ...]
    items: tuple[Item, ...]
    offsets: tuple[int, ...]
    head: int = 0


def read_markup(text: str) -> Markup:
    """Parse a page. Every text is Markdown: this raises nothing but PackageMissingError."""
    return _Reader(text).read()


class _Reader:
    """One reading of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        lines = split_lines(text)
        self.offsets = tuple(accumulate(map(len, lines), initial=0))
        self.lines = [line.rstrip("\r\n").replace("\0", "\ufffd") for line in lines]
        self.head = _front_matter_lines(text)
        self.cell = (-1, 0)  # where the last cell of a table ended: line and column

    def read(self) -> Markup:
        links, headings, items = list(self._from_front_matter()), [], []
        for piece in parse("\n".join(self.lines)):
            if piece.kind == "item":
                items.append(Item(piece.first, self._without_blanks(piece)))
            elif piece.kind == "heading":
                headings.append(Heading(piece.level, piece.plain, piece.first, piece.end))
            links += self._links(piece)
        title = next((heading.title for heading in headings if heading.level == 1 and heading.title), None)
        links.sort(key=lambda link: link.span)
        return Markup(title, tuple(links), tuple(headings), tuple(items), self.offsets, self.head)

    def _from_front_matter(self) -> Iterator[Link]:
        """Its wiki links. It is no Markdown, so its lines are made blank for the parser."""
        for number, line in enumerate(self.lines[: self.head]):
            for match in WIKI_LINK.finditer(line):
                yield from self._link(wiki_seen(match), self.offsets[number].__add__)
        self.lines[: self.head] = [""] * self.head

    def _without_blanks(self, piece: Piece) -> int:
        end = piece.end
        while end > piece.first + 1 and not self.lines[end - 1].strip():
            end -= 1
        return end

    def _links(self, piece: Piece) -> Iterator[Link]:
        if piece.kind != "cell" and not piece.links:
            return
        content, cell = piece.content, piece.kind == "cell"
        shifts = list(self._shifts(content, piece.first, cell))

        def place(at: int) -> int:
            # In a cell of a table, every "|" was written as "\\|".
            return at + shifts[content.count("\n", 0, at)] + (content.count("|", 0, at) if cell else 0)

        for seen in piece.links:
            yield from self._link(seen, place)

    def _shifts(self, content: str, first: int, cell: bool) -> Iterator[int]:
        """For each line of the content of a piece: the difference between a position in the text and one in it.

        Quote marks, bullets and "#" before the content hold no "[", so the first place at which a line with a link is
        found is the right one. Of a line that goes on, nothing but blanks follows the content: the last place is.
        """
        begin = 0
        for number, line in enumerate(content.split("\n"), first):
            source, bare = self.lines[number], line.lstrip()
            if cell:
                bare = bare.replace("|", "\\|")
                column = source.find(bare, self.cell[1] if self.cell[0] == number else 0)
                self.cell = (number, column + len(bare))
            else:
                column = source.find(bare) if number == first else source.rfind(bare)
            yield self.offsets[number] + column - (len(line) - len(line.lstrip())) - begin
            begin += len(line) + 1

    def _link(self, seen: Seen, place: Callable[[int], int]) -> Iterator[Link]:
        cut = _ANCHOR(seen.target)
        assert cut is not None  # the end of the text is a match
        path, anchor = seen.target[: cut.start()], seen.target[cut.start() :]
        if path and not _EXTERNAL(path):
            span, target = (None if part is None else Span(*map(place, part)) for part in (seen.span, seen.place))
            assert span is not None
            line = bisect_right(self.offsets, span.start)
            path = path if seen.style == "wiki" else unquote(path)
            yield Link(seen.style, path, anchor, seen.label, line, span, target, seen.image)


def _front_matter_lines(text: str) -> int:
    if not text.startswith("---"):
        return 0
    first = scan(text)[0]
    return first.end_line if first.kind == "front_matter" else 0
