"""Which blocks of a document may share a chunk: sections, and small families of sections.

A section never shares a chunk with its neighbours, so an edit in one cannot move the boundaries of another, and the
heading path over a chunk is true for all of it. Two exceptions keep chunks worth reading:

* A section that is small *together with everything below it* stays in one piece, under its own path. Whether that is
  so depends on this family alone. (Packing small siblings until a chunk is full would be denser, but then one more
  line at the top of a page would move every later boundary, and no path would be right for the mixture.)
* A section without text of its own is no chunk: its heading goes to what follows, or, at the very end, to what
  comes before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, takewhile

from vademecum.chunk.pieces import Unit
from vademecum.text.estimate import WEIGHT_OF_ASCII, weigh
from vademecum.text.markdown import Block

#: Longer titles are cut to this many characters in heading paths.
LONGEST_TITLE = 80

Path = tuple[str, ...]


@dataclass(slots=True)
class Section:
    """A heading (none for what stands before the first one) with the blocks up to the next heading.

    ``weight`` counts the units and the blank space before each of them.
    """

    level: int
    path: Path
    units: list[Unit] = field(default_factory=list)
    weight: int = 0

    @property
    def has_text(self) -> bool:
        """Is there anything but the heading?"""
        return len(self.units) > (self.level > 0)


@dataclass(frozen=True, slots=True)
class Group:
    """Units that may share chunks, and the deepest path under which all their text stands."""

    path: Path
    units: list[Unit]
    weight: int
    has_text: bool


def path_title(title: str) -> str:
    """A title as it stands in heading paths."""
    return title[:LONGEST_TITLE].strip()


def outline(text: str, blocks: Iterable[Block]) -> list[Section]:
    """The sections in order; the first is always the one without heading, possibly empty."""
    sections = [Section(0, ())]
    ancestors: list[tuple[int, str]] = []
    end = 0
    for block in blocks:
        if block.kind == "front_matter":
            end = block.end
            continue
        if block.kind == "heading":
            while ancestors and ancestors[-1][0] >= block.level:
                ancestors.pop()
            ancestors.append((block.level, path_title(block.title)))
            sections.append(Section(block.level, tuple(title for _, title in ancestors if title)))
        weight = weigh(text[block.start : block.end])
        sections[-1].units.append(Unit(*block[1:5], weight, block.kind))
        sections[-1].weight += weight + (block.start - end) * WEIGHT_OF_ASCII
        end = block.end
    return sections


def _family_ends(sections: Sequence[Section]) -> list[int]:
    """For each section, the index after its last descendant."""
    ends = [len(sections)] * len(sections)
    ancestors: list[int] = []
    for index, section in enumerate(sections):
        while ancestors and sections[ancestors[-1]].level >= section.level:
            ends[ancestors.pop()] = index
        ancestors.append(index)
    return ends


def _common(paths: Sequence[Path]) -> Path:
    return tuple(titles[0] for titles in takewhile(lambda titles: len(set(titles)) == 1, zip(*paths, strict=False)))


def _family(sections: Sequence[Section], weight: int) -> Group:
    with_text = [section for section in sections if section.has_text]
    path = _common([section.path for section in with_text or sections if section.units])
    return Group(path, [unit for section in sections for unit in section.units], weight, bool(with_text))


def _joined(first: Group, second: Group) -> Group:
    """Two neighbours of which at least one is nothing but headings."""
    paths = [group.path for group in (first, second) if group.has_text] or [first.path, second.path]
    return Group(
        _common(paths), first.units + second.units, first.weight + second.weight, first.has_text or second.has_text
    )


def _without_bare_headings(groups: Iterable[Group], limit: int) -> list[Group]:
    joined: list[Group] = []
    for group in groups:
        last = joined[-1] if joined else None
        if last and not last.has_text and (group.has_text or last.weight + group.weight <= limit):
            joined[-1] = _joined(last, group)
        else:
            joined.append(group)
    if len(joined) > 1 and not joined[-1].has_text and joined[-1].weight <= limit:
        joined[-2:] = [_joined(*joined[-2:])]
    return joined


def group_sections(sections: Sequence[Section], small: int, limit: int) -> list[Group]:
    """Cut the document into groups: families of at most ``small``, other sections alone, headings not alone.

    Headings without text are collected up to ``limit`` before they must do without.
    """
    ends = _family_ends(sections)
    sums = list(accumulate((section.weight for section in sections), initial=0))
    groups: list[Group] = []
    index = 0
    while index < len(sections):
        end = ends[index]
        if sums[end] - sums[index] > small:
            end = index + 1
        if sums[end] > sums[index]:
            groups.append(_family(sections[index:end], sums[end] - sums[index]))
        index = end
    return _without_bare_headings(groups, limit)
