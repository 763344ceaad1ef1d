"""The one door to markdown-it-py: a text becomes the pieces that matter here, each with its lines and its links.

Tokens of markdown-it-py do not tell where in the text a link stands, so its rules are wrapped to note it. A rule of our
own knows ``[[x]]``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from vademecum.errors import PackageMissingError

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

#: ``[a](b)``, the use of a definition as in ``[a][b]``, a definition ``[b]: c``, and ``[[b]]``.
Style: TypeAlias = Literal["inline", "reference", "definition", "wiki"]

#: Target, anchor and alias of ``[[target#anchor|alias]]``; in a table the bar is written ``\|``.
WIKI_LINK = re.compile(r"\[\[([^\[\]|#\n\\]+)(#[^\[\]|\n\\]*)?(?:\\?\|([^\[\]\n]*))?\]\](?!\()")
_DEFINED = re.compile(r"\[((?:[^\[\]\\]|\\.)+)\]:[\s>]*", re.DOTALL)


class Span(NamedTuple):
    """``text[start:end]``, in characters."""

    start: int
    end: int


class Seen(NamedTuple):
    """A link and where it stands in the content of its piece.

    ``target`` is where it points to, with anchor, without backslashes and entities but still percent-encoded; ``label``
    is what a reader sees, as Markdown. ``place`` is the part of ``span`` that holds the target (in a wiki link without
    its anchor), None if that stands elsewhere.
    """

    style: Style
    target: str
    label: str
    span: Span
    place: Span | None
    image: bool = False


class Piece(NamedTuple):
    """A heading, a list item (no content: what is in it follows), a cell of a table, a link definition or other text.

    Lines are counted from 0, ``end`` excluded. ``content`` is the text without what makes it this piece, "\\n" between
    lines; ``plain`` is a heading's text without markup, ``level`` its level.
    """

    kind: Literal["heading", "item", "cell", "definition", "text"]
    first: int
    end: int
    content: str = ""
    links: tuple[Seen, ...] = ()
    level: int = 0
    plain: str = ""


def parse(source: str) -> Iterator[Piece]:
    """The pieces of a Markdown text with "\\n" line ends, in order. Raises nothing but PackageMissingError."""
    parser = _parser()
    tokens: list[Token] = []
    environment: dict[str, object] = {}
    parser.block.parse(source, parser, environment, tokens)
    lines = source.split("\n")
    for opener, token in pairwise(chain((None,), tokens)):
        if token is None or token.map is None:
            continue
        first, end = token.map
        if token.type == "list_item_open":
            yield Piece("item", first, end)
        elif token.type == "definition":
            yield _definition(parser, token, "\n".join(lines[first:end]))
        elif token.type == "inline" and opener is not None:
            heading = opener.type == "heading_open"
            # Most of the time is spent on the inside of paragraphs, and most paragraphs have no link.
            known = (
                parser.inline.parse(token.content, parser, environment, []) if heading or "[" in token.content else []
            )
            links = tuple(child.meta["seen"] for child in known if "seen" in child.meta)
            if heading:
                lines_end = opener.map[1] if opener.map else end
                yield Piece("heading", first, lines_end, token.content, links, int(opener.tag[1:]), _plain(known))
            else:
                cell = opener.type in ("th_open", "td_open")
                yield Piece("cell" if cell else "text", first, end, token.content, links)


def _plain(tokens: Sequence[Token]) -> str:
    spoken = {"text", "code_inline", "image", "wikilink", "text_special"}
    parts = (token.content if token.type in spoken else " " if token.type.endswith("break") else "" for token in tokens)
    return " ".join("".join(parts).split())


def _definition(parser: MarkdownIt, token: Token, content: str) -> Piece:
    first, end = token.map or (0, 0)
    label, url = str(token.meta["label"]), str(token.meta["url"])
    match = _DEFINED.search(content)
    place, target, begin = None, url, 0
    if match is not None:
        begin = match.start()
        found = parser.helpers.parseLinkDestination(content, match.end(), len(content))
        if found.ok and parser.normalizeLink(found.str) == url:
            place, target = Span(match.end(), found.pos), found.str
    seen = Seen("definition", target, label, Span(begin, len(content)), place)
    # "[^1]: word" is a footnote in the Markdown of many programs.
    return Piece("definition", first, end, content, () if label.startswith("^") else (seen,))


@cache
def _parser() -> MarkdownIt:
    try:
        from markdown_it import MarkdownIt
        from markdown_it.rules_inline import image, link
    except ImportError:
        raise PackageMissingError(
            "the knowledge base needs the package markdown-it-py: pip install 'vademecum[knowledge]'"
        ) from None
    parser = MarkdownIt("commonmark", {"inline_definitions": True}).enable("table")
    parser.inline.ruler.at("link", _noting(link, image=False))
    parser.inline.ruler.at("image", _noting(image, image=True))
    parser.inline.ruler.before("link", "wikilink", _wiki)
    return parser


def _noting(rule: Callable[[StateInline, bool], bool], *, image: bool) -> Callable[[StateInline, bool], bool]:
    """``rule``, which also notes on its token what it saw where."""

    def noting(state: StateInline, silent: bool) -> bool:
        start, before = state.pos, len(state.tokens)
        if not rule(state, silent):
            return False
        if not silent:
            opening = "image" if image else "link_open"
            token = next(token for token in state.tokens[before:] if token.type == opening)
            token.meta["seen"] = _seen(state, token, start, image)
        return True

    return noting


def _seen(state: StateInline, token: Token, start: int, image: bool) -> Seen:
    helpers, source, whole = state.md.helpers, state.src, Span(start, state.pos)
    label_end = helpers.parseLinkLabel(state, start + image, not image)
    label = source[start + image + 1 : label_end]
    if source[label_end + 1 : label_end + 2] == "(" and state.pos > label_end + 1:
        begin = label_end + 2
        while source[begin].isspace():
            begin += 1
        found = helpers.parseLinkDestination(source, begin, state.posMax)
        end = found.pos if found.ok else begin
        return Seen("inline", found.str, label, whole, Span(begin, end), image)
    target = token.attrs["src" if image else "href"]
    return Seen("reference", str(target), label, whole, None, image)


def _wiki(state: StateInline, silent: bool) -> bool:
    if not state.src.startswith("[[", state.pos):
        return False
    match = WIKI_LINK.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        token = state.push("wikilink", "", 0)
        token.meta["seen"] = seen = wiki_seen(match)
        token.content = seen.label
    state.pos = match.end()
    return True


def wiki_seen(match: re.Match[str]) -> Seen:
    """What a match of `WIKI_LINK` says."""
    target, anchor, alias = match[1], match[2] or "", match[3]
    return Seen("wiki", target.strip() + anchor, alias or target.strip(), Span(*match.span()), Span(*match.span(1)))
