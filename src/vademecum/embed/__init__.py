"""Text to unit vectors: embedders over providers and offline models, and how one is chosen."""

from vademecum.embed.batching import batches, embed_isolating
from vademecum.embed.queries import CachedQueries
from vademecum.embed.registry import Resolution, resolve

__all__ = ["CachedQueries", "Resolution", "batches", "embed_isolating", "resolve"]
