"""What each part of CowAgent does with its memory, in the order in which it does it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from cowagent_support import (
    HostProvider,
    install_shim,  # noqa: F401 - a fixture
)
from loopback import Loopback
from memories import write
from test_compat_cowagent_summaries import ITEM, SAID, Model, _claude

MEMORY = "# Memory\n\n- The broker is Fidelity.\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    write(tmp_path / "cow", {"MEMORY.md": MEMORY, "knowledge/etf.md": "# ETF\n\nA fund.\n"})
    return tmp_path / "cow"


def test_agent_initializer_opens_memory_syncs_and_ends_the_day(workspace: Path, conf: dict[str, Any]) -> None:
    pytest.importorskip("openai")
    from agent.memory import (
        MemoryConfig,
        MemoryManager,
        create_default_embedding_provider,
        get_conversation_store,
        get_default_memory_config,
        register_memory_config,
    )
    from agent.tools.memory import MemoryGetTool, MemorySearchTool

    with Loopback(dims=1536) as server:
        conf.update(open_ai_api_key="key", open_ai_api_base=server.base_url)
        config = MemoryConfig(workspace_root=str(workspace))
        register_memory_config(config)
        assert get_default_memory_config() is config
        manager = MemoryManager(config, embedding_provider=create_default_embedding_provider())
        thread = threading.Thread(target=lambda: asyncio.run(manager.sync()))  # in the background, as it does
        thread.start()
        thread.join(60)
        assert manager.storage.get_stats()["embedded"] > 0
        manager.flush_manager.llm_model = Model(lambda _: _claude(f"- {ITEM}"))
        tools = [MemorySearchTool(manager), MemoryGetTool(manager)]
        assert "Fidelity" in tools[0].execute({"query": "broker"}).result
        assert str(config.get_workspace()) == str(workspace)
        store = get_conversation_store(str(workspace))
        assert store.load_messages("s", max_turns=5) == []
        assert manager.flush_manager.create_daily_summary(SAID) is True
        manager.flush_manager._last_flush_thread.join(60)
        assert manager.flush_manager.deep_dream() is False  # the model's answer is none for a dream
        assert (workspace / "MEMORY.md").read_text() == MEMORY
        manager.close()


def test_agent_bridge_keeps_conversations(workspace: Path) -> None:
    from agent.memory import get_conversation_store

    store = get_conversation_store(str(workspace))
    assert store.append_messages("s", SAID, channel_type="web", create_if_missing=True)
    store.append_messages("s", [{"role": "user", "content": "[SCHEDULED] x"}, {"role": "assistant", "content": "y"}])
    assert store.prune_scheduled_messages("s", keep_last_n=0) == 2
    assert store.load_messages("s", max_turns=10**6) == SAID
    store.clear_session("s")
    assert store.load_messages("s", max_turns=10**6) == []


def test_agent_stream_flushes_an_overflow_twice_and_gets_its_summary(workspace: Path) -> None:
    from agent.memory import MemoryConfig, MemoryManager

    manager = MemoryManager(
        MemoryConfig(workspace_root=str(workspace)), llm_model=Model(lambda _: _claude(f"- {ITEM}"))
    )
    told: list[str] = []
    manager.flush_memory(messages=SAID, user_id=None, reason="overflow", max_messages=0)
    manager.flush_memory(
        messages=SAID, user_id=None, reason="trim", max_messages=0, context_summary_callback=told.append
    )
    manager.flush_manager._last_flush_thread.join(60)
    assert told == [f"- {ITEM}"]
    manager.close()


def test_agent_compact_writes_the_summary_that_it_was_given(workspace: Path) -> None:
    from agent.memory import MemoryConfig, MemoryManager

    manager = MemoryManager(
        MemoryConfig(workspace_root=str(workspace)), llm_model=Model(lambda _: _claude(f"- {ITEM}"))
    )
    flushes = manager.flush_manager
    summary = flushes._clean_summary_output(flushes._summarize_messages(SAID))
    assert flushes.write_daily_summary(summary, user_id=None, reason="compact")
    assert ITEM in flushes.get_today_memory_file().read_text()
    manager.close()


def test_tools_that_write_and_edit_mark_what_they_changed(workspace: Path) -> None:
    from agent.memory import MemoryConfig, MemoryManager

    manager = MemoryManager(MemoryConfig(workspace_root=str(workspace)))
    assert asyncio.run(manager.search("Schwab")) == []
    write(workspace, {"MEMORY.md": "- The broker is Schwab.\n"})
    manager.mark_dirty()
    assert asyncio.run(manager.search("Schwab"))
    manager.close()


def test_tool_manager_embeds_descriptions_of_tools(conf: dict[str, Any]) -> None:
    pytest.importorskip("openai")
    from agent.memory.embedding import create_default_embedding_provider

    with Loopback(dims=1536) as server:
        conf.update(open_ai_api_key="key", open_ai_api_base=server.base_url)
        provider = create_default_embedding_provider()
        one = provider.embed("a tool")
        assert provider.embed_batch(["a tool", "another"])[0] == pytest.approx(one)


def test_evolution_asks_where_things_are(workspace: Path) -> None:
    from agent.memory import MemoryConfig, MemoryManager, get_default_memory_config

    manager = MemoryManager(MemoryConfig(workspace_root=str(workspace)))
    assert manager.config.get_workspace() == get_default_memory_config().get_workspace() == workspace
    assert manager.config.get_skills_dir() == workspace / "skills"
    manager.close()


def test_consoles_list_conversations_memories_and_knowledge(workspace: Path) -> None:
    pytest.importorskip("markdown_it")
    from agent.knowledge.service import KnowledgeService
    from agent.memory import get_conversation_store
    from agent.memory.service import MemoryService

    store = get_conversation_store(str(workspace))
    store.append_messages("s", SAID, channel_type="web")
    assert store.list_sessions(channel_type="web")["total"] == 1
    assert store.load_history_page("s")["total"] == 2
    assert MemoryService(str(workspace)).dispatch("list", {"page": 1})["payload"]["total"] == 1
    service = KnowledgeService(str(workspace))
    assert service.dispatch("list")["payload"]["stats"]["pages"] == 1
    assert len(b"x") < KnowledgeService.MAX_IMPORT_FILE_SIZE <= KnowledgeService.MAX_IMPORT_TOTAL_SIZE
    service.close()


def test_cow_cli_shows_status_and_rebuilds_the_index(workspace: Path) -> None:
    from agent.memory import MemoryConfig, MemoryManager
    from agent.memory.embedding import EMBEDDING_VENDORS, detect_index_dim, rebuild_in_process
    from agent.memory.summarizer import MemoryFlushManager

    manager = MemoryManager(MemoryConfig(workspace_root=str(workspace)))
    assert manager.config.get_db_path().name == "index.db"
    assert sorted(manager.storage.get_stats()) == ["chunks", "embedded", "files"]
    assert EMBEDDING_VENDORS["openai"]["default_dimensions"] == 1536
    manager.embedding_provider = HostProvider()
    assert rebuild_in_process(manager).ok
    assert detect_index_dim(manager.storage) == HostProvider.dimensions
    flushes = MemoryFlushManager(workspace)
    assert flushes.deep_dream(lookback_days=3, force=True) is False  # no model
    flushes.close()
    manager.close()


def test_the_hosts_tests_clean_up_between_them(workspace: Path) -> None:
    from agent.memory import (
        clear_conversation_store_cache,
        get_conversation_store,
        get_default_memory_config,
        register_memory_config,
        reset_memory_configs,
    )
    from agent.memory.config import MemoryConfig

    register_memory_config(MemoryConfig(workspace_root=str(workspace), max_results=1))
    get_conversation_store(str(workspace))
    reset_memory_configs()
    clear_conversation_store_cache()
    assert get_default_memory_config().max_results == 10
