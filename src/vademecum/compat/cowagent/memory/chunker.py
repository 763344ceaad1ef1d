"""Cutting a text as the index cuts pages."""

from __future__ import annotations

from dataclasses import dataclass

from vademecum.chunk import chunk_markdown
from vademecum.settings import ChunkSettings


@dataclass
class TextChunk:
    """A slice of a text; lines are 1-based and inclusive."""

    text: str
    start_line: int
    end_line: int


class TextChunker:
    """Cuts Markdown at its structure into pieces of ``max_tokens``, estimated by script. Raises SettingsError."""

    def __init__(self, max_tokens: int = 500, overlap_tokens: int = 50) -> None:
        self.max_tokens = max_tokens
        self.overlap_tokens = overlap_tokens
        self._settings = ChunkSettings(max_tokens, overlap_tokens)

    def chunk_text(self, text: str) -> list[TextChunk]:
        """The pieces in order; none for a blank text."""
        chunks = chunk_markdown(text, self._settings)
        return [TextChunk(chunk.text, chunk.start_line, chunk.end_line) for chunk in chunks]

    def chunk_markdown(self, text: str) -> list[TextChunk]:
        """The same: every text is taken for Markdown."""
        return self.chunk_text(text)
