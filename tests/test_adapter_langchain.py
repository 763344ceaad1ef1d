"""LangChain: the tools of memory in its agents, and search as a retriever."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from frameworks import need
from loopback import Loopback
from memories import OpenMemory
from recipes import RULE, follow, gpt, recalled
from vademecum.errors import IndexUnavailableError, UsageError

need("langchain_core", "langchain")

from chat_models import Scripted
from vademecum.tools import Tools
from vademecum.tools.adapters.langchain import MemoryRetriever, langchain_tools

PAGES = {
    "MEMORY.md": "# Broker\n\nThe broker is Nadler.\n",
    "memory/2026-01-02.md": "Asked the broker about fees.\n",
}


def test_a_retriever_tells_where_each_document_stands(open_memory: OpenMemory) -> None:
    memory = open_memory(PAGES)
    retriever = MemoryRetriever(memory=memory)
    found = retriever.invoke("broker")
    assert [document.metadata["path"] for document in found] == ["MEMORY.md", "memory/2026-01-02.md"]
    assert "The broker is Nadler." in found[0].page_content
    hit = memory.search("broker").hits[0]
    assert found[0].id == f"MEMORY.md:{hit.start_line}-{hit.end_line}"
    assert found[0].metadata["score"] == hit.score
    assert asyncio.run(retriever.ainvoke("broker")) == found
    assert len(MemoryRetriever(memory=memory, options={"max_results": 1}).invoke("broker")) == 1
    with pytest.raises(UsageError):
        MemoryRetriever(memory=memory, options={"max_results": -1}).invoke("broker")


def test_a_memory_that_cannot_be_searched_is_no_empty_answer(
    open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory(PAGES)
    memory.search("broker")
    for file in sorted(memory.root.rglob("*.md")):
        file.unlink()
    memory.root.rename(memory.root.with_name("gone"))
    with pytest.raises(IndexUnavailableError):
        MemoryRetriever(memory=memory).invoke("broker")


def test_a_call_that_comes_to_nothing_is_an_error_to_the_model(open_memory: OpenMemory) -> None:
    tools = {tool.name: tool for tool in langchain_tools(Tools(open_memory(PAGES)))}
    call = {"type": "tool_call", "id": "c1", "name": "memory_get", "args": {"path": "../etc/passwd"}}
    message = tools["memory_get"].invoke(call)
    assert (message.status, message.content[:7]) == ("error", "Error: ")
    found = asyncio.run(tools["memory_search"].ainvoke({**call, "name": "memory_search", "args": {"query": "Nadler"}}))
    assert found.status == "success"
    assert found.artifact["results"][0]["path"] == "MEMORY.md"
    assert tools["memory_search"].args["query"]["type"] == "string"


def test_an_agent_remembers_in_one_run_and_knows_in_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Loopback() as server:
        server.say(
            gpt(calls=[("memory_update", {"content": RULE})]),
            gpt("Noted."),
            gpt(calls=[("memory_search", {"query": "limit for single positions"})]),
            gpt(recalled),
        )
        said = follow("langchain", tmp_path, server, monkeypatch, model=Scripted(address=server.base_url))
    assert (said["first"], said["second"]) == ("Noted.", f"You said: {RULE}")
    assert [document.metadata["path"] for document in said["documents"]] == ["MEMORY.md"]
    assert RULE in (tmp_path / "notes" / "MEMORY.md").read_text()
