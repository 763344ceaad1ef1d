"""What a host imports from its ``agent.memory``."""

from vademecum.compat.cowagent.memory.config import (
    MemoryConfig,
    get_default_memory_config,
    register_memory_config,
    reset_memory_configs,
    set_global_memory_config,
)
from vademecum.compat.cowagent.memory.embedding import create_default_embedding_provider, create_embedding_provider
from vademecum.compat.cowagent.memory.manager import MemoryManager
from vademecum.compat.cowagent.memory.vector_backend import (
    SQLiteVectorBackend,
    VectorBackend,
    VectorMatch,
    VectorRecord,
)

__all__ = [
    "MemoryConfig",
    "MemoryManager",
    "SQLiteVectorBackend",
    "VectorBackend",
    "VectorMatch",
    "VectorRecord",
    "create_default_embedding_provider",
    "create_embedding_provider",
    "get_default_memory_config",
    "register_memory_config",
    "reset_memory_configs",
    "set_global_memory_config",
]
