"""Dexter's memory over ours: every name that it calls, its folder, its settings and its envelopes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from memories import PATIENT, write
from store_support import environment
from vademecum.cli import main
from vademecum.compat import dexter
from vademecum.compat.dexter import MEMORY_FLUSH_TOKEN, DexterMemory, call_tool, find_folder, read_settings
from vademecum.errors import SettingsError, StoreError
from vademecum.types import ChatReply

RULE = "Single positions stay under 5 % of the portfolio."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / ".dexter"
    chats = [
        {"id": "b", "timestamp": "2026-03-02T10:00:00Z", "userMessage": "Sold ACME?", "agentResponse": "Yes, all."},
        {"id": "a", "timestamp": "2026-03-01T10:00:00Z", "userMessage": "Hello", "agentResponse": None},
    ]
    write(
        home,
        {
            "memory/MEMORY.md": f"# Memory\n\n- {RULE}\n",
            "memory/2026-01-11.md": "- Bought ACME.\n",
            "memory/notes.md": "- A page of any name.\n",
            "memory/index.sqlite": b"theirs",
            "messages/chat_history.json": json.dumps({"messages": chats}),
        },
    )
    return home


@pytest.fixture
def memory(folder: Path) -> Iterator[DexterMemory]:
    with DexterMemory(folder, settings=PATIENT) as opened:
        assert opened.unavailable_reason is None
        yield opened


class Scribe:
    """A model that says what it is told to."""

    def __init__(self, text: str) -> None:
        self.text = text

    def complete(self, messages, *, max_tokens=None, json=False):
        return ChatReply(self.text)


# -- every name that Dexter calls, and the test that calls it ---------------------------------------------------------

CONTRACT = {
    "MemoryManager.get": "test_opening_never_raises_and_says_why_there_is_no_memory",
    "isAvailable": "test_opening_never_raises_and_says_why_there_is_no_memory",
    "getUnavailableReason": "test_opening_never_raises_and_says_why_there_is_no_memory",
    "search": "test_a_hit_has_the_keys_that_dexter_reads",
    "get": "test_lines_are_read_from_one_on",
    "appendMemory": "test_appending_names_the_file_that_was_written",
    "appendDailyMemory": "test_appending_names_the_file_that_was_written",
    "appendLongTermMemory": "test_appending_names_the_file_that_was_written",
    "editMemory": "test_an_edit_is_literal_and_a_deletion_folds_only_what_it_made",
    "deleteMemory": "test_an_edit_is_literal_and_a_deletion_folds_only_what_it_made",
    "listFiles": "test_every_page_is_listed_whatever_its_name",
    "loadSessionContext": "test_the_session_context_has_files_text_and_an_estimate",
    "sync": "test_a_sync_counts_what_it_did",
    "runMemoryFlush": "test_a_flush_lands_under_dexters_heading_and_the_token_means_nothing",
    "shouldRunMemoryFlush": "test_the_flush_is_due_once_near_the_end_of_the_window",
    "MEMORY_FLUSH_TOKEN": "test_a_flush_lands_under_dexters_heading_and_the_token_means_nothing",
    "memory_search": "test_the_three_tools_answer_in_dexters_envelope",
    "memory_get": "test_the_three_tools_answer_in_dexters_envelope",
    "memory_update": "test_the_three_tools_answer_in_dexters_envelope",
    ".dexter/memory": "test_opening_leaves_dexters_own_files_alone",
    ".dexter/messages/chat_history.json": "test_past_conversations_are_found",
    ".dexter/settings.json": "test_settings_take_effect",
}


@pytest.mark.parametrize(("name", "test"), CONTRACT.items())
def test_every_name_of_the_contract_has_its_test(name: str, test: str) -> None:
    assert callable(globals().get(test)), f"{name}: there is no {test}"


def test_opening_never_raises_and_says_why_there_is_no_memory(folder: Path, tmp_path: Path) -> None:
    with DexterMemory(folder, settings=PATIENT) as opened:
        assert opened.available and opened.unavailable_reason is None
    (folder / "settings.json").write_text('{"memory": {"enabled": false}}')
    with DexterMemory(folder) as off:
        assert not off.available and "enabled is false" in str(off.unavailable_reason)
        assert call_tool(off, "memory_search", {"query": "x"}) == (
            {"data": {"results": [], "disabled": True, "error": off.unavailable_reason}},
            True,
        )
        assert call_tool(off, "memory_update", {"content": "x"})[1] is False
        with pytest.raises(StoreError, match="enabled"):
            off.search("x")
    (folder / "settings.json").write_text("{broken")
    with DexterMemory(folder) as broken:
        assert "settings.json" in str(broken.unavailable_reason)
    file = tmp_path / "file"
    file.write_text("")
    with DexterMemory(file / ".dexter") as nowhere:
        assert not nowhere.available


def test_a_hit_has_the_keys_that_dexter_reads(memory: DexterMemory, folder: Path) -> None:
    (hit, *_) = memory.search("limit for single positions")
    assert hit["path"] == "MEMORY.md" and RULE in hit["snippet"]
    assert (hit["startLine"], hit["endLine"]) == (1, 3)
    assert 0 < hit["score"] <= 1 and hit["source"] == "keyword" and hit["contentSource"] == "memory"
    assert hit["updatedAt"] == int((folder / "memory/MEMORY.md").stat().st_mtime * 1000)


def test_a_snippet_is_one_line_of_700_characters(memory: DexterMemory, folder: Path) -> None:
    (folder / "memory/long.md").write_text("walrus " + "word\n" * 300)
    (hit, *_) = memory.search("walrus")
    assert len(hit["snippet"]) == 703 and hit["snippet"].endswith("...") and "\n" not in hit["snippet"]


def test_lines_are_read_from_one_on(memory: DexterMemory) -> None:
    assert memory.get("MEMORY.md", 3, 1) == {"path": "MEMORY.md", "text": f"- {RULE}"}
    assert memory.get("long_term", -2)["text"].startswith("# Memory")
    with pytest.raises(StoreError, match="no such file"):
        memory.get("nothing.md")


def test_appending_names_the_file_that_was_written(memory: DexterMemory, folder: Path) -> None:
    daily = memory.append_daily_memory("Bought bread.")
    assert memory.append_memory("Retire at 60.") == memory.append_long_term_memory("Likes tea.") == "MEMORY.md"
    assert memory.append_memory("Window seat.", "travel.md") == "travel.md"
    assert "Bought bread." in (folder / "memory" / daily).read_text()
    assert "Retire at 60." in memory.search("retire")[0]["snippet"]


def test_an_edit_is_literal_and_a_deletion_folds_only_what_it_made(memory: DexterMemory, folder: Path) -> None:
    assert memory.edit_memory("MEMORY.md", "5 %", "$$100 $& $'") == "MEMORY.md"
    assert "under $$100 $& $' of" in (folder / "memory/MEMORY.md").read_text()
    assert memory.delete_memory("notes.md", "A page of any name.") == "notes.md"
    with pytest.raises(StoreError):
        memory.edit_memory("MEMORY.md", "not there", "x")


def test_every_page_is_listed_whatever_its_name(memory: DexterMemory) -> None:
    assert memory.list_files() == ["2026-01-11.md", "MEMORY.md", "notes.md"]


def test_the_session_context_has_files_text_and_an_estimate(memory: DexterMemory) -> None:
    context = memory.load_session_context()
    assert context["filesLoaded"] == ["MEMORY.md"] and RULE in context["text"]
    assert 0 < context["tokenEstimate"] <= 2000


def test_a_sync_counts_what_it_did(memory: DexterMemory, folder: Path) -> None:
    memory.sync()
    (folder / "memory/new.md").write_text("- new\n")
    assert memory.sync()["added"] == 1


def test_a_flush_lands_under_dexters_heading_and_the_token_means_nothing(folder: Path) -> None:
    talk = [{"role": "user", "content": "I retire at 60."}]
    with DexterMemory(folder, settings=PATIENT, chat=Scribe(f"{MEMORY_FLUSH_TOKEN}.")) as memory:
        assert memory.run_memory_flush(talk).items == ()
    with DexterMemory(folder, settings=PATIENT, chat=Scribe("- The user retires at 60.")) as memory:
        report = memory.run_memory_flush([*talk, {"role": "assistant", "content": "ok"}])
        assert "## Pre-compaction memory flush" in (folder / "memory" / report.written.path).read_text()


def test_the_flush_is_due_once_near_the_end_of_the_window(memory: DexterMemory) -> None:
    assert memory.should_run_memory_flush(95_001) and not memory.should_run_memory_flush(95_000)
    assert not memory.should_run_memory_flush(120_000, 128_000, already_flushed=True)


def test_opening_leaves_dexters_own_files_alone(memory: DexterMemory, folder: Path) -> None:
    before = (folder / "messages/chat_history.json").read_bytes()
    memory.search("ACME")
    memory.append_memory("x")
    assert (folder / "memory/index.sqlite").read_bytes() == b"theirs"
    assert (folder / "messages/chat_history.json").read_bytes() == before


def test_past_conversations_are_found(memory: DexterMemory) -> None:
    found = [hit for hit in memory.search("Sold ACME?") if hit["contentSource"] == "sessions"]
    assert found and "Yes, all." in found[0]["snippet"]


def test_settings_take_effect(folder: Path) -> None:
    given = {
        "embeddingProvider": "none",
        "maxResults": 1,
        "minScore": 0.2,
        "chunkTokens": 200,
        "chunkOverlapTokens": 40,
        "maxSessionContextTokens": 500,
        "watchDebounceMs": 100,
        "temporalDecay": {"enabled": False, "halfLifeDays": 10},
        "mmr": {"enabled": False, "lambda": 0.5},
        "indexSessions": False,
        "colour": "blue",
    }
    (folder / "settings.json").write_text(json.dumps({"memory": given, "model": "x"}))
    settings, enabled, notices = read_settings(folder, PATIENT)
    assert enabled and settings.search.max_results == 1 and settings.search.min_score == 0.2
    assert (settings.chunk.tokens, settings.chunk.overlap_tokens, settings.context.max_tokens) == (200, 40, 500)
    assert (settings.decay.enabled, settings.decay.half_life_days) == (False, 10)
    assert (settings.mmr.enabled, settings.mmr.lambda_, settings.index_sessions) == (False, 0.5, False)
    assert [notice for notice in notices if "colour" in notice]
    with DexterMemory(folder, settings=PATIENT) as memory:
        assert len(memory.search("ACME positions bought")) == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [("vectorWeight", "a"), ("maxResults", -1), ("mmr", {"lambda": 7}), ("embeddingProvider", "x"), ("enabled", "no")],
)
def test_a_setting_that_cannot_be_meant_names_file_and_key(folder: Path, key: str, value: object) -> None:
    (folder / "settings.json").write_text(json.dumps({"memory": {key: value}}))
    with pytest.raises(SettingsError, match=r"settings\.json"):
        read_settings(folder, PATIENT)


def test_the_three_tools_answer_in_dexters_envelope(memory: DexterMemory) -> None:
    found, worked = call_tool(memory, "memory_search", '{"query": "single positions"}')
    assert worked and found["data"]["results"][0]["path"] == "MEMORY.md"
    assert call_tool(memory, "memory_get", {"path": "long_term", "from": 3, "lines": 1}) == (
        {"data": {"path": "MEMORY.md", "text": f"- {RULE}"}},
        True,
    )
    done, worked = call_tool(memory, "memory_update", {"content": "Retire at 60."})
    assert done == {"data": {"success": True, "file": "MEMORY.md", "message": "Appended 13 characters to MEMORY.md."}}
    edit = {"action": "edit", "old_text": "Retire at 60.", "new_text": ""}
    assert call_tool(memory, "memory_update", edit)[0]["data"]["success"] is True
    assert worked


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("memory_update", {}, "content is required"),
        ("memory_update", {"action": "edit", "old_text": "x"}, "old_text and new_text are required"),
        ("memory_update", {"action": "delete"}, "old_text is required"),
        ("memory_update", {"action": "edit", "old_text": "zzz", "new_text": "y"}, "zzz"),
        ("memory_update", {"content": "x", "file": "index.sqlite"}, "outside memory directory"),
        ("memory_get", {"path": "../settings.json"}, "outside memory directory"),
        ("memory_get", {"path": "missing.md"}, "no such file"),
        ("memory_get", {"path": 3}, "wrong type"),
        ("memory_search", {}, "query"),
        ("memory_search", "[1]", "expected an object"),
        ("memory_search", "{", "no JSON"),
        ("memory_search", {"query": "x", "user": "anna"}, "takes no 'user'"),
        ("rm", {}, "there is no tool"),
    ],
)
def test_a_call_that_cannot_be_meant_is_told_in_the_envelope(memory: DexterMemory, name, arguments, said) -> None:
    envelope, worked = call_tool(memory, name, arguments)
    assert not worked and said in envelope["data"]["error"]


def test_the_command_takes_one_json_and_gives_one_json(folder: Path) -> None:
    environ = environment() | {"VADEMECUM_EMBEDDING__PROVIDER": "none"}

    def run(*arguments: str, stdin: str = "") -> tuple[int, dict]:
        command = [sys.executable, "-m", "vademecum", "tool", *arguments]
        done = subprocess.run(
            command, env=environ, cwd=folder.parent, input=stdin, capture_output=True, text=True, check=False
        )
        assert done.stdout.count("\n") == 1, done.stderr
        return done.returncode, json.loads(done.stdout)

    code, found = run("memory_search", '{"query": "single positions"}')
    assert code == 0 and found["data"]["results"][0]["path"] == "MEMORY.md"
    assert run("memory_update", "-", stdin='{"content": "Grüße"}')[1]["data"]["success"] is True
    assert run("memory_get", '{"path": "../x.md"}')[0] == 1


def test_the_folder_is_found_from_where_dexter_runs(folder: Path, tmp_path: Path) -> None:
    assert find_folder(tmp_path) == find_folder(folder / "memory") == find_folder(folder) == folder
    assert find_folder(tmp_path / "..") != folder


def test_without_a_folder_the_command_says_where_it_looked(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VADEMECUM_ROOT", raising=False)
    assert main(["tool", "memory_search", "{}"]) == 2
    assert "vademecum init" in capsys.readouterr().err
    assert dexter.TOOL_NAMES == ("memory_search", "memory_get", "memory_update")
    assert replace(PATIENT) == PATIENT


def test_over_mcp_the_three_tools_have_dexters_names_arguments_and_envelope(folder: Path) -> None:
    from vademecum.compat.dexter_tools import DexterTools

    with DexterTools(DexterMemory(folder, settings=PATIENT)) as tools:
        assert tuple(tools.specs) == dexter.TOOL_NAMES
        assert list(tools.specs["memory_get"].schema()["properties"]) == ["path", "from", "lines"]
        answer = tools.call("memory_get", {"path": "long_term", "from": 3, "lines": 1})
        assert json.loads(answer.text) == {"data": {"path": "MEMORY.md", "text": f"- {RULE}"}}
        assert not answer.error and tools.call("memory_update", {}).error


def test_the_mcp_command_serves_dexters_profile(folder: Path) -> None:
    pytest.importorskip("mcp", reason="the package mcp is not installed (vademecum[mcp])")
    import asyncio

    from mcp import Client, StdioServerParameters

    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "vademecum", "mcp", "--profile", "dexter", "--root", str(folder)],
        env=environment() | {"VADEMECUM_EMBEDDING__PROVIDER": "none"},
    )

    async def talk() -> dict:
        async with Client(server) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == set(dexter.TOOL_NAMES)
            answer = await client.call_tool("memory_search", {"query": "single positions"})
            return json.loads(answer.content[0].text)

    assert asyncio.run(talk())["data"]["results"][0]["path"] == "MEMORY.md"
