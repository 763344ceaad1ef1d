"""The tools that CowAgent gives its model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cowagent_contract import covers
from cowagent_support import install_shim  # noqa: F401 - a fixture
from memories import write

PAGES = {
    "MEMORY.md": "# Memory\n\n- The broker is Fidelity.\n",
    "memory/2026-01-31.md": "one\ntwo\nthree\n",
    "memory/users/ann/MEMORY.md": "- Ann's passport number ends in 77.\n",
    "knowledge/etf.md": "# ETF\n\nA fund.\n",
    ".env": "KEY=secret\n",
    "AGENT.md": "the agent's own\n",
}


@pytest.fixture
def manager(tmp_path: Path) -> Any:
    from agent.memory import MemoryConfig, MemoryManager

    write(tmp_path / "cow", PAGES)
    made = MemoryManager(MemoryConfig(workspace_root=str(tmp_path / "cow")))
    yield made
    made.close()


@covers(
    "agent.tools.memory",
    "MemorySearchTool MemorySearchTool.name MemorySearchTool.description MemorySearchTool.params"
    " MemorySearchTool.execute",
)
def test_the_search_tool_numbers_what_it_found(manager: Any) -> None:
    from agent.tools.memory import MemorySearchTool

    tool = MemorySearchTool(manager)
    assert (tool.name, list(tool.params["properties"])) == ("memory_search", ["query", "max_results", "min_score"])
    assert tool.params["required"] == ["query"]
    assert "Always search" in tool.description
    found = tool.execute({"query": "which broker?"})
    assert found.status == "success"
    assert found.result.startswith("Found 1 relevant memories:\n\n1. MEMORY.md (lines 1-3)\n   Score: ")
    assert "Snippet: # Memory" in found.result
    none = tool.execute({"query": "zebra"})
    assert (none.status, "This is normal" in none.result) == ("success", True)
    assert tool.execute({"query": "broker", "max_results": 0}).result == none.result.replace("zebra", "broker")


def test_the_search_tool_works_inside_a_running_loop(manager: Any) -> None:
    from agent.tools.memory import MemorySearchTool

    async def work() -> Any:
        return MemorySearchTool(manager).execute({"query": "broker"})

    assert asyncio.run(work()).result.startswith("Found 1")


def test_the_search_tool_is_somebodys_only_if_it_was_made_for_somebody(manager: Any) -> None:
    from agent.tools.memory import MemorySearchTool

    asked = {"query": "passport", "user_id": "ann"}  # a model cannot say whose it is
    assert "77" not in MemorySearchTool(manager).execute(asked).result
    assert "77" in MemorySearchTool(manager, user_id="ann").execute({"query": "passport"}).result


@pytest.mark.parametrize("args", [{}, {"query": " "}, {"query": 3}, {"query": "x", "max_results": "many"}])
def test_the_search_tool_tells_the_model_what_is_wrong(manager: Any, args: dict[str, Any]) -> None:
    from agent.tools.memory import MemorySearchTool

    answer = MemorySearchTool(manager).execute(args)
    assert (answer.status, answer.result.startswith("Error")) == ("error", True)


@covers(
    "agent.tools.memory",
    "MemoryGetTool MemoryGetTool.name MemoryGetTool.description MemoryGetTool.params MemoryGetTool.execute",
)
def test_the_get_tool_reads_lines_as_asked(manager: Any, tmp_path: Path) -> None:
    from agent.tools.memory import MemoryGetTool

    tool = MemoryGetTool(manager)
    assert (tool.name, list(tool.params["properties"])) == ("memory_get", ["path", "start_line", "num_lines"])
    assert "memory_search" in tool.description
    page = "File: memory/2026-01-31.md\nLines: "
    assert tool.execute({"path": "2026-01-31.md"}).result == f"{page}1-3 (total: 3)\n\none\ntwo\nthree"
    asked = {"path": "memory/2026-01-31.md", "start_line": "2", "num_lines": 1}
    assert tool.execute(asked).result == f"{page}2-2 (total: 3)\n\ntwo"
    assert tool.execute({**asked, "num_lines": -1}).result == f"{page}2-3 (total: 3)\n\ntwo\nthree"
    assert tool.execute({**asked, "start_line": 50}).result == f"{page}none (total: 3)\n\n"
    for path in ("MEMORY.md", "knowledge/etf.md", str(tmp_path / "cow/MEMORY.md")):
        assert tool.execute({"path": path}).status == "success"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("memory/../.env", "Access denied"),
        ("memory/../AGENT.md", "Access denied"),
        ("/etc/passwd", "Access denied"),
        ("../../etc/passwd", "Access denied"),
        ("memory/users/ann/MEMORY.md", "Access denied"),
        ("memory/no.md", "File not found"),
        ("", "path parameter is required"),
        (None, "path parameter is required"),
        ("memory/a\0b.md", "Error"),
    ],
)
def test_the_get_tool_reads_nothing_but_the_memory(manager: Any, path: Any, reason: str) -> None:
    from agent.tools.memory import MemoryGetTool

    answer = MemoryGetTool(manager).execute({"path": path})
    assert (answer.status, reason in answer.result, "secret" in answer.result) == ("error", True, False)


def test_the_get_tool_says_when_a_number_is_none_and_when_it_cut(manager: Any, tmp_path: Path) -> None:
    from agent.tools.memory import MemoryGetTool

    write(tmp_path / "cow", {"memory/long.md": "x" * 100_000})
    tool = MemoryGetTool(manager)
    assert "whole number" in tool.execute({"path": "memory/long.md", "num_lines": [1]}).result
    assert "cut here" in tool.execute({"path": "memory/long.md"}).result


@covers(
    "agent.memory.service", "MemoryService MemoryService.list_files MemoryService.get_content MemoryService.dispatch"
)
def test_a_console_lists_and_reads_memory_files(tmp_path: Path) -> None:
    from agent.memory.service import MemoryService

    more = {"memory/2026-02-01.md": "newer\n", "memory/dreams/2026-02-01.md": "a dream\n"}
    write(tmp_path / "cow", {**PAGES, **more})
    service = MemoryService(str(tmp_path / "cow"))
    names = [file["filename"] for file in service.list_files()["list"]]
    assert names == ["MEMORY.md", "2026-02-01.md", "2026-01-31.md"]
    second = service.list_files(page=2, page_size=2)
    assert (second["total"], [file["filename"] for file in second["list"]]) == (3, ["2026-01-31.md"])
    assert second["list"][0]["size"] == len(PAGES["memory/2026-01-31.md"])
    assert service.get_content("2026-02-01.md") == {"filename": "2026-02-01.md", "content": "newer\n"}
    assert service.get_content("2026-02-01.md", "dream")["content"] == "a dream\n"
    with pytest.raises(FileNotFoundError):
        service.get_content("2020-01-01.md")
    answers = {
        name: service.dispatch(action, payload)["code"]
        for name, action, payload in (
            ("list", "list", {"category": "dream"}),
            ("read", "content", {"filename": "MEMORY.md"}),
            ("nothing", "content", {}),
            ("missing", "content", {"filename": "no.md"}),
            ("escape", "content", {"filename": "../.env"}),
            ("folder", "list", {"category": "../.."}),
            ("page", "list", {"page": "x"}),
            ("unknown", "burn", None),
        )
    }
    assert answers == {
        "list": 200,
        "read": 200,
        "nothing": 400,
        "missing": 404,
        "escape": 403,
        "folder": 403,
        "page": 403,
        "unknown": 400,
    }
