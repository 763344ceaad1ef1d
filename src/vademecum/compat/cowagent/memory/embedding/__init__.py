"""Embedding providers, and building an index anew."""

from vademecum.compat.cowagent.memory.embedding.factory import create_default_embedding_provider
from vademecum.compat.cowagent.memory.embedding.provider import (
    EMBEDDING_VENDORS,
    DoubaoEmbeddingProvider,
    EmbeddingCache,
    EmbeddingProvider,
    OpenAIEmbeddingProvider,
    create_embedding_provider,
)
from vademecum.compat.cowagent.memory.embedding.rebuild import (
    RebuildResult,
    cleanup_legacy_state_file,
    clear_index,
    detect_index_dim,
    rebuild_in_process,
)

__all__ = [
    "EMBEDDING_VENDORS",
    "DoubaoEmbeddingProvider",
    "EmbeddingCache",
    "EmbeddingProvider",
    "OpenAIEmbeddingProvider",
    "RebuildResult",
    "cleanup_legacy_state_file",
    "clear_index",
    "create_default_embedding_provider",
    "create_embedding_provider",
    "detect_index_dim",
    "rebuild_in_process",
]
