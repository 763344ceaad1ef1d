"""What a host imports from its ``agent.memory``."""

from vademecum.compat.cowagent.memory.config import (
    MemoryConfig,
    get_default_memory_config,
    register_memory_config,
    reset_memory_configs,
    set_global_memory_config,
)
from vademecum.compat.cowagent.memory.conversation_store import (
    ConversationStore,
    clear_conversation_store_cache,
    get_conversation_store,
)
from vademecum.compat.cowagent.memory.embedding import create_default_embedding_provider, create_embedding_provider
from vademecum.compat.cowagent.memory.manager import MemoryManager
from vademecum.compat.cowagent.memory.summarizer import ensure_daily_memory_file
from vademecum.compat.cowagent.memory.vector_backend import (
    SQLiteVectorBackend,
    VectorBackend,
    VectorMatch,
    VectorRecord,
)

__all__ = [
    "ConversationStore",
    "MemoryConfig",
    "MemoryManager",
    "SQLiteVectorBackend",
    "VectorBackend",
    "VectorMatch",
    "VectorRecord",
    "clear_conversation_store_cache",
    "create_default_embedding_provider",
    "create_embedding_provider",
    "ensure_daily_memory_file",
    "get_conversation_store",
    "get_default_memory_config",
    "register_memory_config",
    "reset_memory_configs",
    "set_global_memory_config",
]
