"""What CowAgent's own code imports, calls and reads of its memory modules; and which test proves each name.

A name is ``module:Name.member``; ``#member`` is an attribute that only instances have.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterable
from importlib import import_module
from types import CodeType, FrameType
from typing import Any

_NAMES = {
    "agent.memory": (
        "MemoryManager MemoryConfig get_default_memory_config register_memory_config reset_memory_configs"
        " set_global_memory_config create_embedding_provider create_default_embedding_provider VectorBackend"
        " SQLiteVectorBackend VectorRecord VectorMatch ConversationStore clear_conversation_store_cache"
        " get_conversation_store ensure_daily_memory_file"
    ),
    "agent.memory.config": (
        "MemoryConfig MemoryConfig.get_workspace MemoryConfig.get_memory_dir MemoryConfig.get_db_path"
        " MemoryConfig.get_skills_dir"
    ),
    "agent.memory.manager": (
        "MemoryManager MemoryManager#config MemoryManager#storage MemoryManager#chunker"
        " MemoryManager.embedding_provider MemoryManager#flush_manager MemoryManager#_dirty"
        " MemoryManager#_embedding_cache MemoryManager.search MemoryManager.add_memory MemoryManager.sync"
        " MemoryManager.flush_memory MemoryManager.get_status MemoryManager.mark_dirty MemoryManager.close"
        " MemoryManager._generate_chunk_id MemoryManager._compute_temporal_decay MemoryManager._merge_results"
    ),
    "agent.memory.storage": (
        "MemoryChunk SearchResult MemoryStorage MemoryStorage#conn MemoryStorage#vector_backend"
        " MemoryStorage#fts5_available MemoryStorage#trigram_fts5_available MemoryStorage.save_chunk"
        " MemoryStorage.save_chunks_batch MemoryStorage.get_chunk MemoryStorage.search_vector"
        " MemoryStorage.search_keyword MemoryStorage.delete_by_path MemoryStorage.get_file_hash"
        " MemoryStorage.update_file_metadata MemoryStorage.get_stats MemoryStorage.reset_fts5 MemoryStorage.close"
        " MemoryStorage.compute_hash"
    ),
    "agent.memory.chunker": "TextChunk TextChunker TextChunker.chunk_text TextChunker.chunk_markdown",
    "agent.memory.vector_backend": (
        "VectorRecord VectorMatch VectorBackend SQLiteVectorBackend SQLiteVectorBackend.upsert"
        " SQLiteVectorBackend.delete SQLiteVectorBackend.search"
    ),
    "agent.memory.embedding": (
        "EMBEDDING_VENDORS EmbeddingProvider EmbeddingProvider.embed_query OpenAIEmbeddingProvider"
        " OpenAIEmbeddingProvider.embed OpenAIEmbeddingProvider.embed_batch OpenAIEmbeddingProvider.embed_query"
        " OpenAIEmbeddingProvider.dimensions DoubaoEmbeddingProvider EmbeddingCache EmbeddingCache.get"
        " EmbeddingCache.put EmbeddingCache.clear create_embedding_provider create_default_embedding_provider"
        " RebuildResult clear_index rebuild_in_process detect_index_dim cleanup_legacy_state_file"
    ),
    "agent.memory.rebuild_index": "main",
    "agent.memory.summarizer": (
        "MemoryFlushManager MemoryFlushManager#memory_dir MemoryFlushManager.llm_model"
        " MemoryFlushManager#last_flush_timestamp MemoryFlushManager#_last_flush_thread"
        " MemoryFlushManager.get_today_memory_file MemoryFlushManager.get_main_memory_file"
        " MemoryFlushManager.get_status MemoryFlushManager.flush_from_messages"
        " MemoryFlushManager.write_daily_summary MemoryFlushManager.create_daily_summary"
        " MemoryFlushManager.deep_dream MemoryFlushManager._summarize_messages"
        " MemoryFlushManager._clean_summary_output create_memory_files_if_needed ensure_daily_memory_file"
    ),
    "agent.memory.service": ("MemoryService MemoryService.list_files MemoryService.get_content MemoryService.dispatch"),
    "agent.memory.conversation_store": (
        "ConversationStore ConversationStore#_db_path ConversationStore.append_messages"
        " ConversationStore.load_messages ConversationStore.load_history_page ConversationStore.clear_context"
        " ConversationStore.get_context_start_seq ConversationStore.clear_session"
        " ConversationStore.get_latest_pair_seqs ConversationStore.delete_message_pair"
        " ConversationStore.prune_scheduled_messages ConversationStore.cleanup_old_sessions"
        " ConversationStore.attach_extras_to_last_assistant ConversationStore.list_sessions"
        " ConversationStore.rename_session ConversationStore.set_pinned ConversationStore.list_session_ids"
        " ConversationStore.get_stats get_conversation_store clear_conversation_store_cache"
    ),
    "agent.knowledge.service": (
        "KnowledgeService KnowledgeService.PROTECTED_FILES KnowledgeService.MAX_IMPORT_FILES"
        " KnowledgeService.MAX_IMPORT_FILE_SIZE KnowledgeService.MAX_IMPORT_TOTAL_SIZE"
        " KnowledgeService#knowledge_dir KnowledgeService._resolve_path KnowledgeService.create_document"
        " KnowledgeService.import_documents KnowledgeService.create_category KnowledgeService.rename_category"
        " KnowledgeService.delete_category KnowledgeService.delete_documents KnowledgeService.move_documents"
        " KnowledgeService.rebuild_index_md KnowledgeService.list_tree KnowledgeService.read_file"
        " KnowledgeService.build_graph KnowledgeService.dispatch"
    ),
    "agent.tools.memory": (
        "MemorySearchTool MemorySearchTool.name MemorySearchTool.description MemorySearchTool.params"
        " MemorySearchTool.execute MemoryGetTool MemoryGetTool.name MemoryGetTool.description MemoryGetTool.params"
        " MemoryGetTool.execute"
    ),
}
NAMES = frozenset(f"{module}:{name}" for module, names in _NAMES.items() for name in names.split())

#: By name, the tests that claim it.
covered: dict[str, list[str]] = {}


def covers(module: str, names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The test proves these names. It fails unless it really ran the code of every function and class among them."""
    wanted = [f"{module}:{name}" for name in names.split()]
    unknown = set(wanted) - NAMES
    assert not unknown, f"not in the contract: {sorted(unknown)}"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        for name in wanted:
            covered.setdefault(name, []).append(test.__name__)

        @functools.wraps(test)
        def traced(*args: Any, **kwargs: Any) -> None:
            ran: set[CodeType] = set()

            before = sys.getprofile()

            def note(frame: FrameType, event: str, _: object) -> None:
                if event == "call":
                    ran.add(frame.f_code)
                if before is not None:
                    before(frame, event, _)

            threading.setprofile(note)
            sys.setprofile(note)
            try:
                test(*args, **kwargs)
            finally:
                sys.setprofile(before)
                threading.setprofile(None)
            idle = [name for name in wanted if not _ran(resolve(name), ran)]
            assert not idle, f"never called: {idle}"

        return traced

    return decorate


def resolve(name: str) -> Any:
    """What a name stands for; for attributes of instances, None. Raises AttributeError or ImportError."""
    module, _, path = name.partition(":")
    found: Any = import_module(module)
    for part in path.partition("#")[0].split("."):
        found = inspect.getattr_static(found, part)
    return None if "#" in path else found


def _ran(thing: Any, ran: Iterable[CodeType]) -> bool:
    if isinstance(thing, property):
        thing = thing.fget
    elif isinstance(thing, staticmethod | classmethod):
        thing = thing.__func__
    elif inspect.isclass(thing):
        thing = thing.__init__ if "__init__" in vars(thing) else None
    code = getattr(thing, "__code__", None)
    return code is None or code in set(ran)
