"""The blocks of a Markdown text, their exact offsets and lines, its front matter and its tags.

A line scanner, not a parser: it knows just enough structure to cut a text in good places. Structure needs explicit
syntax; whatever is not recognised is a paragraph.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias

BlockKind: TypeAlias = Literal["front_matter", "heading", "paragraph", "item", "fence", "table", "rule"]

_BOM = "\ufeff"

# Fence first, so that "- ```" opens a fence and not only an item. "---" may also underline a heading.
_match_marker = re.compile(
    r"""
      [ ]{0,3}(?P<heading>\#{1,6})(?=\s|\Z)
    | (?P<indent>[ \t]*+)(?P<bullets>(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)*)(?P<fence>`{3,}(?=[^`]*\Z)|~{3,})
    | [ ]{0,3}(?P<rule>-(?:[ \t]*+-){2,}|\*(?:[ \t]*+\*){2,}|_(?:[ \t]*+_){2,})\s*\Z
    | [ ]{0,3}(?P<underline>={2,}|--)\s*\Z
    | (?P<item>[ \t]*+(?:[-*+]|\d{1,9}[.)])(?:[ \t]|\s*\Z))
    | (?P<table>[ \t]*+\|)
    """,
    re.VERBOSE,
).match
_closing_hashes_sub = re.compile(r"(?:\A|(?<=[ \t]))#+\Z").sub
_is_yaml_line = re.compile(r"\s*\Z|\s*#|[ \t]+\S|-\s|[^\s:#-][^:]*:(?:\s|\Z)").match
_is_yaml_key = re.compile(r"[^\s:#-][^:]*:(?:\s|\Z)").match


class Block(NamedTuple):
    """``text[start:end]`` without the final line break; lines are 1-based and inclusive.

    ``level`` (1 to 6) and ``title`` belong to headings; others have 0 and "".
    """

    kind: BlockKind
    start: int
    end: int
    start_line: int
    end_line: int
    level: int = 0
    title: str = ""


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The two things that front matter says to us; ``evergreen`` is None when it does not say."""

    tags: tuple[str, ...] = ()
    evergreen: bool | None = None


def split_lines(text: str) -> list[str]:
    r"""The lines with their ends. A line ends with ``\n``, ``\r\n`` or a lone ``\r``, and with nothing else."""
    return list(StringIO(text, newline=""))


class _Scanner:
    """Walks the lines once; ``blocks`` grows, and its last element may still be open for further lines."""

    def __init__(self, text: str) -> None:
        self.lines = split_lines(text)
        self.offsets = list(accumulate(map(len, self.lines), initial=0))
        self.blocks: list[Block] = []
        self.first = 0  # line at which the open block began
        self.kind: BlockKind | None = None  # kind of the open block
        self.in_list = False

    def close(self, end: int) -> None:
        """End the open block before line ``end``."""
        if self.kind is not None:
            self.add(self.kind, self.first, end)
            self.kind = None

    def open(self, kind: BlockKind, number: int) -> None:
        self.close(number)
        self.kind, self.first = kind, number

    def add(self, kind: BlockKind, first: int, end: int, level: int = 0, title: str = "") -> None:
        stop = self.offsets[end] - len(self.lines[end - 1]) + len(self.lines[end - 1].rstrip("\r\n"))
        self.blocks.append(Block(kind, self.offsets[first], stop, first + 1, end, level, title))

    def scan(self, number: int) -> list[Block]:
        """All blocks from line ``number`` on."""
        lines, total = self.lines, len(self.lines)
        while number < total:
            line = lines[number]
            if line[0].isalpha():  # most lines; no marker begins with a letter
                self.text_line(number, line)
                number += 1
            elif line.isspace():
                self.close(number)
                number += 1
            else:
                number = self.marked_line(number, line)
        self.close(total)
        return self.blocks

    def text_line(self, number: int, line: str) -> None:
        """A line without marker goes on with a paragraph or item, or begins a paragraph."""
        if self.kind not in ("paragraph", "item"):
            self.open("paragraph", number)
            self.in_list = self.in_list and line[0] in " \t"

    def marked_line(self, number: int, line: str) -> int:
        """Handle a line that may begin with a marker; returns the number of the next line."""
        match = _match_marker(line)
        marker = match.lastgroup if match else None
        if match is None or marker is None:
            self.text_line(number, line)
        elif marker == "heading":
            self.heading(number, len(match["heading"]), line[match.end() :])
        elif marker == "fence" and (self.in_list or match["bullets"] or len(match["indent"].expandtabs(4)) < 4):
            return self.fence(number, match["fence"], bool(match["bullets"]))
        elif marker in ("rule", "underline") and match[marker][0] in "-=" and self.underline(number, match[marker]):
            pass
        elif marker == "rule":
            self.close(number)
            self.add("rule", number, number + 1)
            self.in_list = False
        elif marker == "item":
            self.open("item", number)
            self.in_list = True
        elif marker == "table":
            if self.kind != "table":
                self.open("table", number)
        else:
            self.text_line(number, line)
        return number + 1

    def heading(self, number: int, level: int, rest: str) -> None:
        self.close(number)
        self.add("heading", number, number + 1, level, _closing_hashes_sub("", rest.strip()).strip())
        self.in_list = False

    def underline(self, number: int, marker: str) -> bool:
        """Setext: turn the open paragraph into a heading if it is one line, as a title is."""
        if self.kind != "paragraph" or number - self.first != 1 or " " in marker or "\t" in marker:
            return False
        title = self.lines[self.first].strip()
        self.kind = None
        self.add("heading", self.first, number + 1, 1 if marker[0] == "=" else 2, title)
        return True

    def fence(self, number: int, marker: str, in_item: bool) -> int:
        """Take all lines up to the closing fence, or to the end; returns the number of the next line."""
        self.close(number)
        self.in_list = self.in_list or in_item
        end = number + 1
        while end < len(self.lines):
            line = self.lines[end].strip()
            end += 1
            if line.startswith(marker) and not line.strip(marker[0]):
                break
        else:
            while not self.lines[end - 1].strip():
                end -= 1
        self.add("fence", number, end)
        return end


def scan(text: str) -> list[Block]:
    """The blocks in order. Blank lines belong to no block, a byte order mark to none either.

    Front matter is a block of its own when the text begins with it. A list item is a block with the lines that go
    on with it; neighbouring table rows that begin with "|" are one block. ``# x`` inside a fence is no heading, and a
    fence that is not closed runs to the end.
    """
    scanner = _Scanner(text)
    if not scanner.lines:
        return []
    bom = scanner.lines[0].startswith(_BOM)
    if bom:
        scanner.lines[0] = scanner.lines[0][1:] or "\n"
    length = _front_matter_lines(scanner.lines)
    if length:
        scanner.add("front_matter", 0, length)
    blocks = scanner.scan(length)
    if bom and blocks and blocks[0].start == 0:
        blocks[0] = blocks[0]._replace(start=1)
    return blocks


def _front_matter_lines(lines: list[str]) -> int:
    """Number of lines that front matter takes, fences included; 0 if there is none.

    Every line must look like YAML and one must be a key, or a text that begins with a thematic break would be taken
    for front matter up to the next one.
    """
    if lines[0].rstrip() != "---":
        return 0
    has_key = False
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() in ("---", "..."):
            return number + 1 if has_key or number == 1 else 0
        if not _is_yaml_line(line):
            return 0
        has_key = has_key or bool(_is_yaml_key(line))
    return 0


_match_field = re.compile(r"(tags|evergreen)[ \t]*:[ \t]*(.*)", re.IGNORECASE).match
_comment_split = re.compile(r"(?:\A|\s)#(?=\s|\Z)").split
_match_list_item = re.compile(r"[ \t]*-[ \t]+(.*)").match


def _plain(value: str) -> str:
    """A YAML scalar without comment, quotes and the tag's "#"."""
    value = value.strip()
    if value[:1] in ("'", '"') and value.find(value[0], 1) > 0:
        return value[1 : value.find(value[0], 1)]
    return _comment_split(value)[0].strip()


def normal_tag(tag: str) -> str:
    """A tag as it is stored and compared: without "#", NFC, case-folded."""
    return unicodedata.normalize("NFC", tag.strip().lstrip("#")).casefold()


def front_matter(text: str) -> FrontMatter:
    """Read ``tags`` (``[a, b]``, ``a, b`` or a list of lines) and ``evergreen`` (true or false).

    Only these simple forms are understood; anything else is passed over. Tags are normal_tag'ed, in order, each once.
    """
    if not text.removeprefix(_BOM).startswith("---"):
        return FrontMatter()
    lines = split_lines(text.removeprefix(_BOM))
    tags: list[str] = []
    evergreen: bool | None = None
    in_tags = False
    for line in lines[1 : max(_front_matter_lines(lines) - 1, 1)]:
        if field := _match_field(line):
            value = field[2].strip()
            in_tags = field[1].lower() == "tags"
            if in_tags:
                inner = value[1 : value.rindex("]")] if value.startswith("[") and "]" in value else value
                tags += map(_plain, inner.split(","))
            else:
                evergreen = {"true": True, "false": False}.get(_plain(value).lower(), evergreen)
        elif in_tags and (item := _match_list_item(line)):
            tags.append(_plain(item[1]))
        elif line.strip() and not line.lstrip().startswith("#"):
            in_tags = False
    return FrontMatter(tuple(dict.fromkeys(tag for tag in map(normal_tag, tags) if tag)), evergreen)


_code_span_sub = re.compile(r"(?<!`)(`+)(?!`).{1,500}?(?<!`)\1(?!`)").sub
# A tag goes on through combining marks, which are not \w; hence what it may not contain is listed.
_find_tags = re.compile(
    r"""(?<![\w#/&])(?<!\]\()#(\w[^\s#,.;:!?…()\[\]{}<>"'`*|\\=+&@%$^~。，、；：！？（）【】「」『』《》“”‘’]*)"""
).findall
_is_hex_colour = re.compile(r"(?:[0-9a-f]{3}|[0-9a-f]{6}|[0-9a-f]{8})\Z", re.IGNORECASE).match


def _tags_in(text: str, blocks: list[Block]) -> Iterator[str]:
    for block in blocks:
        if block.kind in ("fence", "front_matter"):
            continue
        for tag in _find_tags(_code_span_sub("", text[block.start : block.end])):
            if not _is_hex_colour(tag) and any(map(str.isalpha, tag)):
                yield tag.rstrip("/-")


def inline_tags(text: str) -> tuple[str, ...]:
    """``#tag`` in running text, normal_tag'ed, in order, each once.

    Not in code, in link targets or in words; not plain numbers (``#123``) and not hex colours (``#a1b2c3``).
    """
    if "#" not in text:
        return ()
    return tuple(dict.fromkeys(map(normal_tag, _tags_in(text, scan(text)))))
