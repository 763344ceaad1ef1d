"""Making a Markdown text shorter: headings first, then the newest items of every section.

All sizes are weights in the sense of ``text.estimate.weigh``: additive, so that sums are exact.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from vademecum.text.estimate import weigh
from vademecum.text.markdown import Block, scan

_MORE = "…"
_MOST_TITLES, _LONGEST_TITLE = 3, 30
_last_word_sub = re.compile(r"\s\S{0,30}\Z").sub
_find_fence = re.compile(r"^([ \t]*).*?(`{3,}|~{3,})", re.MULTILINE).search


class Condensed(NamedTuple):
    """The shorter text, how many of how many items are not, or not whole, in it, and the titles of their sections.

    What stands before the first heading is the section "".
    """

    text: str
    lost: int
    total: int
    sections: tuple[str, ...]


@dataclass(slots=True)
class _Item:
    """A heading, or a block with all that is indented below it. ``text`` begins with the line ends before it."""

    text: str
    kept: bool = False


@dataclass(slots=True)
class _Section:
    heading: _Item | None = None
    items: list[_Item] = field(default_factory=list)

    def price(self, item: _Item) -> int:
        """What it takes to keep an item, which is worth little without its heading."""
        return weigh(item.text) + (weigh(self.heading.text) if self.heading and not self.heading.kept else 0)

    def fill(self, room: int) -> int:
        """Keep the newest items that fit in ``room``; returns how much they take."""
        taken = 0
        for item in reversed(self.items):
            price = self.price(item)
            if not item.kept and taken + price <= room:
                taken += price
                item.kept = True
                if self.heading:
                    self.heading.kept = True
        return taken

    @property
    def title(self) -> str:
        return self.heading.text.strip().strip("#=- \n").strip() if self.heading else ""

    @property
    def lost(self) -> int:
        return sum(not part.kept for part in self.parts())

    def parts(self) -> Iterator[_Item]:
        """The heading, then the items."""
        if self.heading:
            yield self.heading
        yield from self.items


def water_fill(needs: Sequence[int], weights: Sequence[float], room: int) -> list[int]:
    """Share ``room`` in proportion to ``weights``; what one does not need goes to the others."""
    shares = [0] * len(needs)
    waiting = set(range(len(needs)))
    while waiting:
        unit = max(room, 0) / sum(weights[i] for i in waiting)
        content = {i for i in waiting if needs[i] <= unit * weights[i]}
        for i in content or waiting:
            shares[i] = needs[i] if content else int(unit * weights[i])
        room -= sum(shares[i] for i in content)
        waiting = waiting - content if content else set()
    return shares


def condense(
    text: str, room: int, source: str, max_lines: int | None = None, max_bytes: int | None = None
) -> Condensed:
    """The best part of a text in which it weighs at most ``room``; "" if there is no room for a single word.

    Headings are kept first, in at most half of the room. Then every section keeps its newest items, which are the
    last, in equal shares; an item that is too long does not keep out the others. If much room is left, one item is
    cut short. A last line says how much was cut, from which sections, and where all of it is.
    """
    while True:
        condensed = _condense(text, room, source)
        lines, size = condensed.text.count("\n") + 1, len(condensed.text.encode())
        excess = max(lines / (max_lines or lines), size / (max_bytes or size or 1))
        if excess <= 1 or not condensed.text:
            return condensed
        room = min(int(weigh(condensed.text) / excess), room - 1)


def _condense(text: str, room: int, source: str) -> Condensed:
    sections = _sections(text)
    parts = [part for section in sections for part in section.parts()]
    left = _choose(sections, room - _marker_weight(sections, len(parts), source, room), room)
    lost = sum(section.lost for section in sections)
    if left * 4 > room or not any(item.kept for section in sections for item in section.items):
        _shorten_one(sections, left)
    body = "".join(part.text for part in parts if part.kept).lstrip("\n")
    from_sections = tuple(section.title for section in sections if section.lost)
    if body and lost:
        body += _marker(lost, len(parts), from_sections, source, room)
    return Condensed(body, lost, len(parts), from_sections)


def cut_note(condensed: Condensed) -> str:
    """What was cut, in words."""
    return f"{condensed.lost} of {condensed.total} items cut{_from(condensed.sections)}"


def _from(sections: Sequence[str]) -> str:
    """The first few titles."""
    names = [
        title if len(title) <= _LONGEST_TITLE else f"{title[:_LONGEST_TITLE]}{_MORE}" for title in sections if title
    ]
    if not names:
        return ""
    more = f" and {len(names) - _MOST_TITLES} more sections" if len(names) > _MOST_TITLES else ""
    return f" from {', '.join(names[:_MOST_TITLES])}{more}"


def _marker(lost: int, total: int, sections: Sequence[str], source: str, room: int) -> str:
    """The last line: what was cut, from where, and where it is, unless that takes more than a quarter of the room."""
    counts = f"\n\n{_MORE} {lost} of {total} items cut"
    for marker in (f"{counts}{_from(sections)} ({source})", f"{counts} ({source})"):
        if weigh(marker) * 4 <= room:
            return marker
    return f"\n\n{_MORE}"


def _marker_weight(sections: Sequence[_Section], total: int, source: str, room: int) -> int:
    """No marker of this text will weigh more."""
    titles = sorted((section.title for section in sections), key=weigh, reverse=True)
    return max(weigh(_marker(total, total, some, source, room)) for some in (titles, titles[:_MOST_TITLES], ()))


def _sections(text: str) -> list[_Section]:
    blocks = [block for block in scan(text) if block.kind not in ("rule", "front_matter")]
    sections = [_Section()]
    for number, (block, end) in enumerate(groups := _with_children(text, blocks)):
        tight = number > 0 and text[groups[number - 1][1] : block.start].count("\n") == 1
        item = _Item(("\n" if tight else "\n\n") + text[block.start : end])
        if block.kind == "heading":
            sections.append(_Section(item))
        else:
            sections[-1].items.append(item)
    return sections


def _with_children(text: str, blocks: Sequence[Block]) -> list[tuple[Block, int]]:
    """The blocks with the offset where each ends; what is indented below a list item belongs to it."""
    groups: list[tuple[Block, int]] = []
    depth = -1
    for block in blocks:
        indent = len(text[block.start : block.end]) - len(text[block.start : block.end].lstrip(" \t"))
        if depth >= 0 and indent > depth:
            groups[-1] = (groups[-1][0], block.end)
        else:
            groups.append((block, block.end))
            depth = indent if block.kind == "item" else -1
    return groups


def _choose(sections: list[_Section], left: int, room: int) -> int:
    """Mark what is kept within ``left``; returns what remains of it."""
    for section in sections:
        if section.heading and (price := weigh(section.heading.text)) <= left - room // 2:
            section.heading.kept = True
            left -= price
    needs = [sum(weigh(item.text) for item in section.items) for section in sections]
    for section, share in zip(sections, water_fill(needs, [1.0] * len(needs), left), strict=True):
        left -= section.fill(share)
    for section in sections:
        left -= section.fill(left)
    return left


def _shorten_one(sections: list[_Section], room: int) -> None:
    """Keep the beginning of the first section's newest item that was too long, if need be without its heading."""
    for section in sections:
        for item in reversed(section.items):
            if item.kept:
                continue
            short = _beginning(item.text, room - section.price(item) + weigh(item.text))
            if short and section.heading:
                section.heading.kept = True
            item.text = short or _beginning(item.text, room)
            item.kept = bool(item.text)
            return


def _beginning(text: str, room: int) -> str:
    """As many words of ``text`` as fit, and a sign that there is more; "" if none does."""
    fence = _find_fence(text)
    end = f" {_MORE}" if fence is None else f" {_MORE}\n{fence[1]}{fence[2]}"
    fits = bisect_right(range(len(text)), room - weigh(end), key=lambda size: weigh(text[:size])) - 1
    if fits < 1:
        return ""
    short = _last_word_sub("", text[:fits]).rstrip()
    if not any(map(str.isalnum, short)):
        return ""
    open_fence = fence is not None and scan(f"{short}\n\n{_MORE}")[-1].kind == "fence"
    return short + (end if open_fence else f" {_MORE}")
