"""The OpenAI Agents SDK: its sessions in our history, and the tools of memory in its agents."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from frameworks import need
from loopback import Loopback
from memories import OpenMemory
from recipes import RULE, follow, gpt, recalled
from vademecum import Memory

need("agents", "openai-agents")

from agents.memory import Session as Protocol
from agents.memory import SessionSettings, SQLiteSession

from vademecum.tools import Tools
from vademecum.tools.adapters.openai_agents import Session, function_tools

ITEMS: list[Any] = [
    {"role": "user", "content": "你好"},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
    {"type": "function_call", "call_id": "c1", "name": "memory_search", "arguments": '{"query": "x"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "nothing"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "no", "annotations": []}]},
    {"role": "user", "content": [{"type": "input_image", "image_url": "data:,x", "detail": "auto"}]},
]


async def everything(session: Any) -> list[Any]:
    """What a session answers to calls of all kinds."""
    said = [await session.pop_item(), await session.get_items()]
    await session.add_items([])
    await session.add_items(ITEMS[:4])
    await session.add_items(ITEMS[4:])
    said += [await session.get_items(), await session.get_items(limit=2), await session.get_items(limit=100)]
    said += [await session.pop_item(), await session.get_items()]
    await session.add_items(ITEMS[:1])
    said += [await session.get_items(3)]
    await session.clear_session()
    return [*said, await session.get_items(), await session.pop_item()]


@pytest.mark.parametrize("settings", [None, SessionSettings(limit=2)])
def test_a_session_answers_as_the_sdks_own(open_memory: OpenMemory, settings: SessionSettings | None) -> None:
    ours = Session(open_memory(), "s", settings)
    assert isinstance(ours, Protocol)
    theirs = SQLiteSession("s", session_settings=settings)
    try:
        assert asyncio.run(everything(ours)) == asyncio.run(everything(theirs))
    finally:
        theirs.close()


def test_a_session_is_its_owners_and_lasts(open_memory: OpenMemory) -> None:
    asyncio.run(Session(open_memory(user="ann"), "s").add_items(ITEMS))
    assert asyncio.run(Session(open_memory(user="ann"), "s").get_items()) == ITEMS
    assert asyncio.run(Session(open_memory(user="bob"), "s").get_items()) == []


@pytest.mark.parametrize("arguments", ["{", "[]", '{"query": 7}', '{"no": "such"}', "null", "", '{"query": "\\u0000"}'])
def test_a_tool_tells_the_model_what_was_wrong(open_memory: OpenMemory, arguments: str) -> None:
    tools = {tool.name: tool for tool in function_tools(Tools(open_memory(), profile="reader"))}
    assert "memory_update" not in tools
    assert asyncio.run(tools["memory_search"].on_invoke_tool(None, arguments)).startswith("Error: ")


def test_an_agent_remembers_in_one_run_and_knows_in_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked_before(asked: str) -> str:
        assert "How large may a single position be?" in asked
        assert '"content": "Remember: ' not in asked, "another conversation is no part of this one"
        return "How large a position may be."

    with Loopback() as server:
        server.say(
            gpt(calls=[("memory_update", {"content": RULE})]),
            gpt("Noted."),
            gpt(calls=[("memory_search", {"query": "limit for single positions"})]),
            gpt(recalled),
            gpt(asked_before),
        )
        said = follow("openai-agents", tmp_path, server, monkeypatch)
        names = [tool["function"]["name"] for tool in server.chats[0]["tools"]]
    assert names == ["memory_search", "memory_get", "memory_context", "memory_update", "memory_undo"]
    assert [said["first"], said["second"], said["third"]] == [
        "Noted.", f"You said: {RULE}", "How large a position may be."
    ]  # fmt: skip
    with Memory.open(tmp_path / "notes") as memory:
        kept = json.dumps([message.body for message in memory.history.messages_after("tuesday")])
    assert "memory_search" in kept
