"""Text to unit vectors: embedders over providers and offline models, and how one is chosen."""

from vademecum.embed.batching import DocumentBatches, document_batches
from vademecum.embed.limits import Limits
from vademecum.embed.older import held_back, older_embedder
from vademecum.embed.queries import CachedQueries
from vademecum.embed.registry import Resolution, resolve
from vademecum.embed.remote import RemoteEmbedder

__all__ = [
    "CachedQueries",
    "DocumentBatches",
    "Limits",
    "RemoteEmbedder",
    "Resolution",
    "document_batches",
    "held_back",
    "older_embedder",
    "resolve",
]
