"""`MemoryConfig` and `MemoryManager` as a host uses them."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from cowagent_contract import covers
from cowagent_support import (
    HostProvider,
    digests,
    install_shim,  # noqa: F401 - a fixture
)
from memories import write
from transcripts import Cow
from vademecum.errors import PathError, UsageError

PAGES = {
    "MEMORY.md": "# Memory\n\n- The broker is Fidelity.\n- 用户的风险偏好是保守的。\n",
    "memory/2026-01-31.md": "# Daily Memory: 2026-01-31\n\n- Sold half of the bond fund.\n",
    "memory/dreams/2026-01-31.md": "Dreamt of the broker.\n",
    "memory/users/ann/MEMORY.md": "- Ann's passport number ends in 77.\n",
    "knowledge/finance/etf.md": "# ETF\n\nAn exchange traded fund tracks an index.\n",
}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    write(tmp_path / "cow", PAGES)
    return tmp_path / "cow"


def _search(manager: Any, query: str, **options: Any) -> list[Any]:
    found: list[Any] = asyncio.run(manager.search(query, **options))
    return found


@covers("agent.memory", "MemoryConfig")
@covers(
    "agent.memory.config",
    "MemoryConfig MemoryConfig.get_workspace MemoryConfig.get_memory_dir MemoryConfig.get_db_path"
    " MemoryConfig.get_skills_dir",
)
def test_a_config_says_where_things_are(tmp_path: Path) -> None:
    from agent.memory import MemoryConfig

    config = MemoryConfig()
    assert config.get_workspace() == tmp_path / "cow"
    assert config.get_memory_dir() == tmp_path / "cow/memory"
    assert config.get_db_path() == tmp_path / "cow/memory/long-term/index.db"
    assert config.get_db_path().parent.is_dir()
    assert config.get_skills_dir() == tmp_path / "cow/skills"
    given = MemoryConfig(workspace_root="~/elsewhere", max_results=3)
    assert given.get_workspace() == Path.home() / "elsewhere"
    defaults = (given.chunk_max_tokens, given.chunk_overlap_tokens, given.min_score, given.vector_weight)
    assert (*defaults, given.keyword_weight, given.sync_on_search) == (500, 50, 0.1, 0.7, 0.3, True)
    assert (given.embedding_provider, given.embedding_dim, given.sources) == ("openai", 1536, ["memory", "session"])


@covers(
    "agent.memory",
    "get_default_memory_config register_memory_config reset_memory_configs set_global_memory_config",
)
def test_the_config_of_a_workspace_is_found_however_its_path_is_written(tmp_path: Path) -> None:
    from agent.memory import (
        MemoryConfig,
        get_default_memory_config,
        register_memory_config,
        reset_memory_configs,
        set_global_memory_config,
    )

    (tmp_path / "cow").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "cow")
    own = MemoryConfig(workspace_root=str(tmp_path / "link"), max_results=3)
    register_memory_config(own)
    assert get_default_memory_config() is own
    pinned = MemoryConfig(workspace_root=str(tmp_path / "other"))
    set_global_memory_config(pinned)
    assert get_default_memory_config() is pinned
    set_global_memory_config(None)
    assert get_default_memory_config() is own
    reset_memory_configs()
    assert get_default_memory_config() == MemoryConfig()


@covers("agent.memory", "MemoryManager")
@covers(
    "agent.memory.manager",
    "MemoryManager MemoryManager#config MemoryManager#storage MemoryManager#chunker MemoryManager.embedding_provider"
    " MemoryManager#_dirty MemoryManager#_embedding_cache MemoryManager.search MemoryManager.sync"
    " MemoryManager.get_status MemoryManager.mark_dirty MemoryManager.close",
)
def test_a_workspace_is_searched_by_words_alone_without_a_provider(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent.memory import MemoryConfig, MemoryManager
    from agent.memory.embedding import EmbeddingCache

    monkeypatch.setenv("OPENAI_API_KEY", "of somebody else")
    manager = MemoryManager(MemoryConfig(workspace_root=str(workspace)))
    assert isinstance(manager._embedding_cache, EmbeddingCache)
    assert (manager.embedding_provider, manager.chunker.max_tokens, manager.config.max_results) == (None, 500, 10)
    asyncio.run(manager.sync())
    assert manager._dirty is False
    (hit, *_) = _search(manager, "which broker?")
    assert (hit.path, hit.source, hit.user_id, hit.start_line) == ("MEMORY.md", "memory", None, 1)
    assert hit.score >= 0.1
    assert "Fidelity" in hit.snippet
    assert _search(manager, "风险偏好")[0].path == "MEMORY.md"
    assert _search(manager, "exchange traded fund")[0].source == "knowledge"
    assert _search(manager, "dreamt") == []
    status = manager.get_status()
    assert (status["embedding_enabled"], status["dirty"], status["files"]) == (False, False, 4)
    assert "keyword" in status["search_mode"]
    assert manager.storage.get_stats() == {"chunks": status["chunks"], "files": 4, "embedded": 0}
    manager.mark_dirty()
    assert manager._dirty is True
    manager.close()


def test_a_user_finds_its_own_and_what_is_shared_and_nobody_elses(workspace: Path) -> None:
    from agent.memory import MemoryConfig, MemoryManager

    manager = MemoryManager(MemoryConfig(workspace_root=str(workspace)))
    assert _search(manager, "passport") == []
    (hit,) = _search(manager, "passport", user_id="ann")
    assert (hit.path, hit.user_id) == ("memory/users/ann/MEMORY.md", "ann")
    assert _search(manager, "passport", user_id="bob") == []
    assert [hit.user_id for hit in _search(manager, "passport broker", user_id="ann", include_shared=False)] == ["ann"]
    assert _search(manager, "broker", include_shared=False) == []
    with pytest.raises(UsageError, match="id"):
        _search(manager, "broker", user_id="../../x")
    manager.close()


def test_zero_means_zero(workspace: Path) -> None:
    from agent.memory import MemoryConfig, MemoryManager

    manager = MemoryManager(MemoryConfig(workspace_root=str(workspace)))
    assert _search(manager, "broker", max_results=0) == []
    assert len(_search(manager, "broker fund index", min_score=0)) >= len(_search(manager, "broker fund index"))
    manager.close()


def test_what_changed_on_disk_is_found_without_being_marked(workspace: Path) -> None:
    from agent.memory import MemoryConfig, MemoryManager

    manager = MemoryManager(MemoryConfig(workspace_root=str(workspace)))
    assert _search(manager, "Fidelity")
    write(workspace, {"MEMORY.md": "- The broker is Schwab.\n"})
    assert _search(manager, "Schwab")
    assert _search(manager, "Fidelity") == []
    (workspace / "MEMORY.md").unlink()
    assert _search(manager, "Schwab") == []
    manager.close()


@pytest.mark.parametrize("switch", ["sync_on_search", "enable_auto_sync"])
def test_no_field_of_a_config_is_without_effect(workspace: Path, switch: str) -> None:
    from agent.memory import MemoryConfig, MemoryManager

    manager = MemoryManager(MemoryConfig(workspace_root=str(workspace), **{switch: False}))
    asyncio.run(manager.sync())
    write(workspace, {"MEMORY.md": "- The broker is Schwab.\n"})
    assert _search(manager, "Schwab") == []
    asyncio.run(manager.sync())
    assert _search(manager, "Schwab")
    manager.close()
    without = MemoryManager(MemoryConfig(workspace_root=str(workspace), sources=["session"]))
    assert _search(without, "Schwab") == []
    without.close()


@covers("agent.memory.manager", "MemoryManager.add_memory MemoryManager.search")
def test_an_added_memory_is_a_page_with_its_metadata(workspace: Path) -> None:
    from agent.memory import MemoryConfig, MemoryManager

    manager = MemoryManager(MemoryConfig(workspace_root=str(workspace)))

    async def work() -> list[Any]:
        await manager.add_memory("The kiwi is green.", metadata={"topic": "fruit", "n": 3})
        await manager.add_memory("Ann likes kiwi.", user_id="ann", scope="user")
        await manager.add_memory("First kiwi version.", path="memory/kiwi.md")
        await manager.add_memory("Second.", path="memory/kiwi.md")
        await manager.sync(force=True)
        return list(await manager.search("kiwi", min_score=0))

    hits = asyncio.run(work())
    (hit,) = hits
    assert (hit.metadata, hit.path.startswith("memory/shared/memory_")) == ({"topic": "fruit", "n": 3}, True)
    assert hit.id
    assert (workspace / "memory/kiwi.md").read_text() == "Second.\n"
    assert {hit.user_id for hit in _search(manager, "kiwi", user_id="ann")} == {None, "ann"}
    for wrong in ({"path": "../out.md"}, {"path": "memory/users/ann/x.md"}, {"path": "memory/dreams/x.md"}):
        with pytest.raises(PathError):
            asyncio.run(manager.add_memory("x", **wrong))
    with pytest.raises(UsageError, match="user_id"):
        asyncio.run(manager.add_memory("x", scope="user"))
    manager.close()


@covers("agent.memory.manager", "MemoryManager.embedding_provider")
def test_vectors_come_with_a_provider_and_a_failing_one_costs_only_them(
    workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from agent.memory import MemoryConfig, MemoryManager

    manager = MemoryManager(MemoryConfig(workspace_root=str(workspace)))
    provider = HostProvider()
    manager.embedding_provider = provider
    assert manager.embedding_provider is provider
    asyncio.run(manager.sync())
    stats = manager.storage.get_stats()
    assert stats["embedded"] == stats["chunks"] > 0
    assert _search(manager, "which broker?")[0].path == "MEMORY.md"
    assert "which broker?" in provider.asked
    assert manager.get_status()["embedding_provider"] == "HostProvider"
    words = MemoryManager(MemoryConfig(workspace_root=str(workspace)))  # another session's, without a provider
    asked = len(provider.asked)
    assert _search(words, "Fidelity")
    assert len(provider.asked) == asked
    words.close()
    provider.failure = RuntimeError("rate limit")
    write(workspace, {"memory/new.md": "A pomegranate.\n"})
    with caplog.at_level(logging.WARNING):
        assert _search(manager, "pomegranate")
    assert "rate limit" in caplog.text
    manager.close()


def test_managers_of_one_workspace_share_what_is_open(workspace: Path) -> None:
    from agent.memory import MemoryConfig, MemoryManager

    provider = HostProvider()
    managers = [MemoryManager(MemoryConfig(workspace_root=str(workspace)), provider) for _ in range(3)]
    asyncio.run(managers[0].sync())
    paid = len(provider.asked)
    for manager in managers:
        assert _search(manager, "broker")
    assert len(provider.asked) == paid + 1  # the question, once; no text again
    other = HostProvider()
    other.model, other.dimensions = "other", 32
    managers[1].embedding_provider = other
    asyncio.run(managers[1].sync())
    assert _search(managers[0], "Fidelity")
    for manager in managers:
        manager.close()


@covers(
    "agent.memory.manager",
    "MemoryManager._generate_chunk_id MemoryManager._compute_temporal_decay MemoryManager._merge_results",
)
def test_the_private_names_that_tests_of_the_host_call(workspace: Path) -> None:
    from agent.memory import MemoryConfig, MemoryManager
    from agent.memory.storage import SearchResult

    manager = MemoryManager(MemoryConfig(workspace_root=str(workspace)))
    one, other = (manager._generate_chunk_id("a.md", 1, 1, text) for text in ("piece one", "piece two"))
    assert one != other
    assert manager._generate_chunk_id("a.md", 1, 1) == manager._generate_chunk_id("a.md", 1, 1)
    decay = manager._compute_temporal_decay
    assert 0.9 <= decay("memory/2020-01-01.md") < 0.91
    assert [decay(p) for p in ("MEMORY.md", "knowledge/report-2020-01-01.md", "memory/2999-01-01.md")] == [1, 1, 1]

    def found(path: str, score: float) -> SearchResult:
        return SearchResult(path, 1, 2, score, "text", "memory")

    both = manager._merge_results([found("a.md", 0.8), found("b.md", 0.6)], [found("a.md", 0.5)], 0.7, 0.3)
    assert [(hit.path, round(hit.score, 3)) for hit in both] == [("a.md", 0.71), ("b.md", 0.42)]
    words = manager._merge_results([], [found("a.md", 0.9)], 0.7, 0.3)
    assert words[0].score == pytest.approx(0.9)  # the channel that answered has the full weight
    assert manager._merge_results([], [], 0.7, 0.3) == []
    manager.close()


@covers("agent.memory.embedding", "rebuild_in_process RebuildResult detect_index_dim")
def test_a_rebuild_keeps_the_index_whatever_fails(workspace: Path) -> None:
    from agent.memory import MemoryConfig, MemoryManager
    from agent.memory.embedding import RebuildResult, detect_index_dim, rebuild_in_process

    assert rebuild_in_process(None) == RebuildResult(False, error="memory_manager is None")
    manager = MemoryManager(MemoryConfig(workspace_root=str(workspace)))
    assert rebuild_in_process(manager).error == "embedding_provider is not initialized"
    provider = HostProvider()
    manager.embedding_provider = provider
    first = rebuild_in_process(manager)
    assert (first.ok, first.removed, first.files, first.error) == (True, 0, 4, None)
    assert detect_index_dim(manager.storage) == 64

    async def inside() -> RebuildResult:
        return rebuild_in_process(manager)

    again = asyncio.run(inside())
    assert (again.ok, again.removed, again.chunks) == (True, first.chunks, first.chunks)
    provider.failure = RuntimeError("no route")
    failed = rebuild_in_process(manager)
    assert (failed.ok, "no route" in str(failed.error)) == (False, True)
    assert _search(manager, "Fidelity")
    manager.close()


@covers("agent.memory.rebuild_index", "main")
def test_the_rebuild_command_says_whether_it_was_done(
    workspace: Path, conf: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("openai")
    from agent.memory import rebuild_index

    from loopback import Loopback

    assert rebuild_index.main() == 1
    assert "no embedding provider is configured" in caplog.text
    with Loopback(dims=1536) as server:
        conf.update(open_ai_api_key="k", open_ai_api_base=server.base_url)
        assert rebuild_index.main() == 0
        assert server.count > 0


def test_the_view_of_the_index_answers_and_is_not_written(workspace: Path) -> None:
    from agent.memory import MemoryConfig, MemoryManager

    manager = MemoryManager(MemoryConfig(workspace_root=str(workspace)), HostProvider())
    asyncio.run(manager.sync())
    storage = manager.storage
    (hit,) = storage.search_keyword("Fidelity")
    assert hit.path == "MEMORY.md"
    near = storage.search_vector(HostProvider().embed("The broker is Fidelity."), limit=1)
    assert near[0].path == "MEMORY.md"
    chunk = storage.get_chunk(near[0].id)
    assert (chunk.path, chunk.scope) == ("MEMORY.md", "shared")
    assert storage.get_chunk("999999") is storage.get_chunk("x") is None
    assert storage.search_vector([1.0, 0.0]) == []
    assert storage.get_file_hash("MEMORY.md") == storage.compute_hash(PAGES["MEMORY.md"])
    assert storage.conn.execute("SELECT count(*) FROM chunks").fetchone()[0] == storage.get_stats()["chunks"]
    for refused in (lambda: storage.save_chunk(chunk), lambda: storage.update_file_metadata("a", "memory", "h", 1, 1)):
        with pytest.raises(UsageError):
            refused()
    storage.delete_by_path("MEMORY.md")  # it is still on disk
    assert storage.search_keyword("Fidelity")
    storage.reset_fts5()
    assert storage.search_keyword("Fidelity")
    with pytest.raises(UsageError, match="nobody"):
        storage.search_keyword("Fidelity", scopes=["user"])
    manager.close()


def test_nothing_of_the_workspace_but_our_folder_is_touched(workspace: Path) -> None:
    from agent.memory import MemoryConfig, MemoryManager

    cow = Cow(workspace / "memory/long-term/index.db")
    cow.say("s", "user", "Remember the orchard?")
    cow.say("s", "assistant", "Yes.")
    cow.close()
    before = digests(workspace)
    manager = MemoryManager(MemoryConfig(workspace_root=str(workspace)), HostProvider())
    asyncio.run(manager.sync())
    assert _search(manager, "orchard") == []  # one chat's words are not another's to find
    manager.storage.get_stats()
    manager.get_status()
    manager.close()
    assert digests(workspace) == before


def test_a_callback_of_a_flush_may_search_while_another_session_brings_a_provider(workspace: Path) -> None:
    from agent.memory import MemoryConfig, MemoryManager

    began, go = threading.Event(), threading.Event()

    class Slow:
        def call(self, _: Any) -> str:
            began.set()
            assert go.wait(60)
            return "- The orchard has nine trees."

    manager = MemoryManager(MemoryConfig(workspace_root=str(workspace)), llm_model=Slow())
    found: list[Any] = []
    said = [{"role": "user", "content": "The orchard has nine trees, remember that."}]
    manager.flush_memory(said, context_summary_callback=lambda _: found.extend(_search(manager, "orchard")))
    assert began.wait(60)
    assert _search(manager, "Fidelity")  # nobody waits for a model
    other = threading.Thread(
        target=lambda: MemoryManager(MemoryConfig(workspace_root=str(workspace)), HostProvider()).close()
    )
    other.start()
    go.set()
    manager.flush_manager._last_flush_thread.join(60)
    other.join(60)
    assert not other.is_alive()
    assert "nine trees" in found[0].snippet
    manager.close()


def test_sessions_with_different_providers_do_not_stand_in_each_others_way(workspace: Path) -> None:
    from agent.memory import MemoryConfig, MemoryManager

    failures: list[BaseException] = []

    def session(number: int) -> None:
        provider = HostProvider()
        provider.model, provider.dimensions = ("small", 32) if number % 2 else ("large", 64)
        try:
            for _ in range(3):
                manager = MemoryManager(MemoryConfig(workspace_root=str(workspace)), provider if number % 3 else None)
                assert _search(manager, "which broker?")[0].path == "MEMORY.md"
                manager.close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=session, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert failures == []
