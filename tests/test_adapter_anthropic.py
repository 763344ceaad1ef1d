"""Anthropic's memory tool over Markdown: word for word the client's own, whatever the order of commands."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameworks import need
from loopback import Loopback
from memories import OpenMemory, paths
from recipes import RULE, claude, follow, recalled
from vademecum import Memory

need("anthropic", "anthropic")

from anthropic.lib.tools import ToolError
from anthropic.tools import BetaLocalFilesystemMemoryTool

from vademecum.tools.adapters.anthropic_memory import AsyncMemoryTool, MemoryTool


def outcome(tool: Any, command: dict[str, Any]) -> str:
    try:
        return str(tool.call(command))
    except ToolError as error:
        return f"error: {error}"


def without_folder_sizes(answer: str) -> list[str]:
    lines = answer.split("\n")
    if not lines[0].startswith("Here're the files"):
        return lines
    return [
        lines[0],
        lines[1].split("\t")[1],
        *(line.split("\t")[1] if line.endswith("/") else line for line in lines[2:]),
    ]


def create(path: str, text: str) -> dict[str, Any]:
    return {"command": "create", "path": f"/memories/{path}", "file_text": text}


# -- as the client's own tool ---------------------------------------------------------------------------------------

_PATHS = [f"/memories/{name}" for name in ("a.md", "b.md", "d/a.md", "d/e/c.txt", "d/e/f/g.md", "d", "d/e")]
_path = st.sampled_from([*_PATHS, "/memories", "/elsewhere/a.md", "/memories/../a.md"])
_content = st.sampled_from(["", "one\n", "one\ntwo\none", "x\r\ny\n".replace("\r", ""), "one\n\ntwo\n" * 3, "条\n"])
_commands = st.one_of(
    st.fixed_dictionaries(
        {"command": st.just("view"), "path": _path},
        optional={"view_range": st.sampled_from([[1, 2], [2, -1], [0, 9]])},
    ),
    st.fixed_dictionaries({"command": st.just("create"), "path": st.sampled_from(_PATHS[:5]), "file_text": _content}),
    st.fixed_dictionaries(
        {
            "command": st.just("str_replace"),
            "path": _path,
            "old_str": st.sampled_from(["one", "two", "e\nt", "条"]),
            "new_str": st.sampled_from(["", "three", "a\nb"]),
        }
    ),
    st.fixed_dictionaries(
        {"command": st.just("insert"), "path": _path, "insert_line": st.integers(-1, 4), "insert_text": _content}
    ),
    st.fixed_dictionaries({"command": st.just("delete"), "path": st.sampled_from([*_PATHS[:5], "/memories"])}),
    st.fixed_dictionaries(
        {
            "command": st.just("rename"),
            "old_path": st.sampled_from([*_PATHS[:5], "/memories"]),
            "new_path": st.sampled_from(_PATHS[:5]),
        }
    ),
)


@settings(max_examples=10)
@given(st.lists(_commands, min_size=4, max_size=12))
def test_any_commands_are_answered_as_by_the_clients_own_tool(
    tmp_path_factory: pytest.TempPathFactory, commands: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("both")
    theirs = BetaLocalFilesystemMemoryTool(str(folder / "theirs"))
    with Memory.open(folder / "ours", origin="agent") as memory:
        ours = MemoryTool(memory)
        home = Path(theirs.memory_root)
        (home / "MEMORY.md").touch()
        for command in [create("a.md", "one\ntwo\n"), *commands]:
            expected = without_folder_sizes(outcome(theirs, command))
            assert without_folder_sizes(outcome(ours, command)) == expected, command
            # Theirs keeps folders of which nothing is left, and makes them for what it then refuses.
            for empty in sorted((found for found in home.rglob("*") if found.is_dir()), reverse=True):
                if not any(empty.iterdir()):
                    empty.rmdir()


# -- as a memory ----------------------------------------------------------------------------------------------------


def test_what_claude_writes_is_markdown_is_found_and_can_be_taken_back(open_memory: OpenMemory) -> None:
    memory = open_memory(origin="agent")
    tool = MemoryTool(memory)
    outcome(tool, create("rules.txt", "The broker is Nadler.\n"))
    assert (memory.root / "rules.txt.md").read_text() == "The broker is Nadler.\n"
    assert paths(memory.search("Nadler").hits) == ["rules.txt.md"]
    assert memory.search("Nadler").hits[0].origin == "agent"
    assert outcome(tool, {"command": "view", "path": "/memories/rules.txt"}).endswith(
        "1\tThe broker is Nadler.\n     2\t"
    )
    assert "/memories/rules.txt\n" in outcome(tool, {"command": "view", "path": "/memories"}) + "\n"
    memory.undo()
    assert "does not exist" in outcome(tool, {"command": "view", "path": "/memories/rules.txt"})


def test_a_folder_is_moved_deleted_and_taken_back_as_one(open_memory: OpenMemory) -> None:
    memory = open_memory({"d/a.md": "Nadler\n", "d/e/b.md": "Nadler\n", "MEMORY.md": "# Memory\n"}, origin="agent")
    tool = MemoryTool(memory)
    assert outcome(tool, {"command": "rename", "old_path": "/memories/d", "new_path": "/memories/d/e/x"}) == (
        "error: Cannot move /memories/d into itself"
    )
    moved = {"command": "rename", "old_path": "/memories/d", "new_path": "/memories/new"}
    assert outcome(tool, moved) == "Successfully renamed /memories/d to /memories/new"
    assert sorted(paths(memory.search("Nadler").hits)) == ["new/a.md", "new/e/b.md"]
    assert outcome(tool, {"command": "delete", "path": "/memories/new"}) == "Successfully deleted /memories/new"
    assert not memory.search("Nadler").hits
    memory.undo()
    memory.undo()
    assert sorted(paths(memory.search("Nadler").hits)) == ["d/a.md", "d/e/b.md"]
    tool.clear_all_memory()
    assert memory.files() == ()
    memory.undo()
    assert len(memory.files()) == 3


@pytest.mark.parametrize(
    "path",
    [
        "/memoriesX/../etc/passwd",
        "/memories/%2e%2e/secret.md",
        "/memories/%252e%252e%252fsecret.md",
        "/memories/..\\secret.md",
        "/memories/link/secret.md",
        "/memories/.vademecum/index.sqlite",
        "/memories/a\0.md",
        "/memories/" + "a" * 300,
        "/memories/users/bob/MEMORY.md",
        "memories/a.md",
        "",
        None,
        7,
    ],
)
@pytest.mark.parametrize("command", ["view", "create", "str_replace", "insert", "delete", "rename"])
def test_no_path_leads_out_or_to_somebody_else(
    open_memory: OpenMemory, tmp_path: Path, command: str, path: object
) -> None:
    memory = open_memory({"MEMORY.md": "x\n", "users/bob/MEMORY.md": "secret of bob\n"}, user="ann", origin="agent")
    (tmp_path / "secret.md").write_text("secret\n")
    (memory.root / "link").symlink_to(tmp_path)
    given = {
        "command": command, "path": path, "old_path": path, "new_path": "/memories/taken.md",
        "file_text": "x", "old_str": "secret", "new_str": "", "insert_line": 0, "insert_text": "x",
    }  # fmt: skip
    answer = outcome(MemoryTool(memory), given)
    assert answer.startswith("error: ")
    assert "secret of bob" not in answer
    assert (tmp_path / "secret.md").read_text() == "secret\n"
    assert (memory.root / "users/bob/MEMORY.md").read_text() == "secret of bob\n"
    assert memory.log() == ()


def test_the_asynchronous_tool_is_the_same(open_memory: OpenMemory) -> None:
    tool = AsyncMemoryTool(open_memory(origin="agent"), cache_control={"type": "ephemeral"})
    assert tool.to_dict() == {"type": "memory_20250818", "name": "memory", "cache_control": {"type": "ephemeral"}}

    async def work() -> list[str]:
        place = {"path": "/memories/a.md"}
        return [
            str(await tool.call(command))
            for command in (
                create("a.md", "one\n"),
                {"command": "str_replace", **place, "old_str": "one", "new_str": "two"},
                {"command": "insert", **place, "insert_line": 1, "insert_text": "three"},
                {"command": "view", **place},
                {"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/b.md"},
                {"command": "delete", "path": "/memories/b.md"},
            )
        ] + [str(await tool.clear_all_memory())]

    answers = asyncio.run(work())
    assert answers[3].split("\n")[1:3] == ["     1\ttwo", "     2\tthree"]
    assert answers[5:] == ["Successfully deleted /memories/b.md", "All memory cleared"]


def test_claude_remembers_in_one_run_and_knows_in_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def call(number: int, **command: Any) -> dict[str, Any]:
        return {"type": "tool_use", "id": f"toolu_{number}", "name": "memory", "input": command}

    def stored(asked: str) -> str:
        assert "File created successfully" in asked
        return "Noted."

    with Loopback() as server:
        server.say(
            claude(call(1, **create("rules.md", RULE + "\n"))),
            claude(stored),
            claude(call(2, command="view", path="/memories")),
            claude(call(3, command="view", path="/memories/rules.md")),
            claude(recalled),
        )
        said = follow("anthropic", tmp_path, server, monkeypatch)
        assert [chat["tools"] for chat in server.chats] == [[{"type": "memory_20250818", "name": "memory"}]] * 5
    assert (said["first"], said["second"]) == ("Noted.", f"You said: {RULE}")
    assert (tmp_path / "notes" / "rules.md").read_text() == RULE + "\n"
