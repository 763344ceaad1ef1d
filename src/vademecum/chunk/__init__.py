"""A document as chunks: exact slices that stay the same when the text around them changes."""

from vademecum.chunk.chunker import CHUNKER_ID, chunk_markdown, embedding_text
from vademecum.chunk.sections import path_title

__all__ = ["CHUNKER_ID", "chunk_markdown", "embedding_text", "path_title"]
