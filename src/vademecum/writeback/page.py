"""MEMORY.md as a model sees it: numbered list items, around which everything else stays as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vademecum.text.markdown import Block, scan

_MARK = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")


@dataclass(frozen=True, slots=True)
class Item:
    """A list item of MEMORY.md: ``id`` is "M" and its number from 1, ``text`` its words without the mark.

    One that is ``fixed`` holds code, a table or paragraphs, which no sentence can take the place of: it stays.
    """

    id: str
    text: str
    heading: str
    line: int
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """The text of MEMORY.md and where its items are."""

    text: str
    items: tuple[Item, ...]
    blocks: tuple[Block, ...]

    @classmethod
    def read(cls, text: str) -> Page:
        """Items are those at the top level of lists; what is nested under one belongs to it."""
        items: list[Item] = []
        blocks: list[Block] = []
        heading = ""
        inside = False  # whether the last item may go on
        for block in scan(text):
            if inside and block.kind not in ("heading", "rule") and _indent(text, block) > _indent(text, blocks[-1]):
                blocks[-1] = blocks[-1]._replace(end=block.end, end_line=block.end_line)
                fixed = items[-1].fixed or block.kind != "item"
                items[-1] = replace(items[-1], text=_words(text, blocks[-1]), fixed=fixed)
                continue
            inside = block.kind == "item"
            if block.kind == "heading":
                heading = block.title
            elif inside:
                items.append(Item(f"M{len(items) + 1}", _words(text, block), heading, block.start_line))
                blocks.append(block)
        return cls(text, tuple(items), tuple(blocks))

    def rewritten(self, changed: Mapping[str, str | None], added: Sequence[tuple[str, str]]) -> str:
        """The page with items replaced (by id; None takes one out) and ``added`` (heading, text) put in.

        A new item comes last in the list under its heading, or under a new heading at the end of the page. Whatever is
        no item (headings, prose, code, tables, front matter) stays, byte for byte.
        """
        newline = "\r\n" if self.text.count("\r\n") * 2 > self.text.count("\n") else "\n"
        parts: list[str] = []
        at = 0
        for item, block in zip(self.items, self.blocks, strict=True):
            if item.id not in changed:
                continue
            new = changed[item.id]
            parts.append(self.text[at : block.start])
            if new is None:
                at = _line_end(self.text, block.end)
            else:
                mark = _MARK.match(self.text[block.start : block.end])
                parts.append(f"{mark[0] if mark else '- '}{new}")
                at = block.end
        text = "".join([*parts, self.text[at:]])
        for heading, item_text in added:
            text = _with_item(text, heading, item_text, newline)
        return text


def _indent(text: str, block: Block) -> int:
    """Columns of white space before a block."""
    line = text[block.start : block.end]
    return len(line[: len(line) - len(line.lstrip(" \t"))].expandtabs(4))


def _words(text: str, block: Block) -> str:
    return _MARK.sub("", text[block.start : block.end].replace("\r\n", "\n"), count=1).strip()


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end + 1


def _with_item(text: str, heading: str, item: str, newline: str) -> str:
    wanted = heading.strip().casefold()
    title: Block | None = None
    page = Page.read(text)
    lists = zip(page.items, page.blocks, strict=True)
    last = next((b for i, b in reversed([*lists]) if not wanted or i.heading.casefold() == wanted), None)
    for block in scan(text):
        if block.kind == "heading" and block.title.casefold() == wanted and title is None:
            title = block
    line = f"- {item}{newline}"
    if last is not None:
        return _inserted(text, _line_end(text, last.end), line, newline)
    if title is not None:
        return _inserted(text, _line_end(text, title.end), f"{newline}{line}", newline)
    ended = text if not text or text.endswith("\n") else text + newline
    gap = newline if ended.strip() and not ended.endswith(newline * 2) else ""
    return f"{ended}{gap}## {heading.strip()}{newline}{newline}{line}" if wanted else f"{ended}{gap}{line}"


def _inserted(text: str, position: int, line: str, newline: str) -> str:
    before = text[:position]
    return f"{before}{'' if before.endswith(chr(10)) or not before else newline}{line}{text[position:]}"
