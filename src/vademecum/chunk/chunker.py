"""A document as chunks, and what makes a chunk the same chunk as before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from hashlib import sha256

from vademecum.chunk.packing import pack
from vademecum.chunk.pieces import Unit
from vademecum.chunk.sections import Path, group_sections, outline, path_title
from vademecum.settings import ChunkSettings
from vademecum.text.estimate import WEIGHT_PER_TOKEN
from vademecum.text.markdown import scan
from vademecum.text.tokens import tokenize
from vademecum.types import Chunk

#: Names the rules by which texts are cut and chunks are hashed; together with the settings, indexes depend on it.
CHUNKER_ID = "markdown-1"

_SEPARATOR = " › "
# Enough characters to hold the headings with which a chunk may begin.
_HEAD = 512


def embedding_text(heading: tuple[str, ...], text: str) -> str:
    """What is embedded and hashed: the heading path on a line of its own, then the text.

    Headings with which the text itself begins are not said twice.
    """
    if not heading:
        return text
    titles = set()
    if heading[-1] in text[:_HEAD]:
        for block in scan(text[:_HEAD]):
            if block.kind != "heading":
                break
            titles.add(path_title(block.title))
    rest = len(heading)
    while rest and heading[rest - 1] in titles:
        rest -= 1
    return f"{_SEPARATOR.join(heading[:rest])}\n{text}" if rest else text


def spans(text: str, settings: ChunkSettings) -> Iterator[tuple[Path, Unit]]:
    """Where the chunks stand, in order, each with its heading path."""
    budget = settings.tokens * WEIGHT_PER_TOKEN
    shared = settings.overlap_tokens * WEIGHT_PER_TOKEN
    for group in group_sections(outline(text, scan(text)), budget // 4, budget - shared):
        if group.weight <= budget:
            first, last = group.units[0], group.units[-1]
            yield group.path, Unit(first.start, last.end, first.start_line, last.end_line, group.weight, first.kind)
        else:
            yield from ((group.path, span) for span in pack(text, group.units, budget, shared))


def chunk_markdown(text: str, settings: ChunkSettings) -> list[Chunk]:
    """Cut a document into chunks, in order.

    Every line that is not blank and not front matter is in at least one chunk; a text of blank lines gives none. Each
    chunk's text is an exact slice. ``heading`` is the deepest path under which all text of the chunk stands (headings
    with nothing under them do not count). Equal texts give equal chunks, whatever else the document holds.
    """
    heading_words = cache(lambda path: " ".join(tokenize(" ".join(path))))
    seen: Counter[tuple[Path, bytes]] = Counter()
    chunks: list[Chunk] = []
    for path, span in spans(text, settings):
        piece = text[span.start : span.end]
        digest = sha256(embedding_text(path, piece).encode("utf-8", "surrogatepass")).digest()
        chunks.append(
            Chunk(
                text=piece,
                start_line=span.start_line,
                end_line=span.end_line,
                heading=path,
                hash=digest,
                occurrence=seen[path, digest],
                words=" ".join(tokenize(piece)),
                heading_words=heading_words(path),
            )
        )
        seen[path, digest] += 1
    return chunks
