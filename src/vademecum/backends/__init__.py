"""Implementations of the index port."""

from vademecum.backends.embedded import EmbeddedIndex

__all__ = ["EmbeddedIndex"]
