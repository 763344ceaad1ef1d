"""`vademecum history`: what each command prints, to whom, and with which exit code."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from conversations import answered, anthropic_tools, exchange, said
from vademecum.cli import main
from vademecum.memory import Memory


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out.count("\n") == 1, "one JSON object on one line"
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Memory:
    monkeypatch.setenv("VADEMECUM_TIMEZONE", "Asia/Shanghai")
    with Memory.open(tmp_path / "notes") as opened:
        monkeypatch.chdir(opened.root)
        yield opened


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], memory: Memory) -> Run:
    def run_here(*argv: object) -> Ran:
        code = main(["history", *map(str, argv)])
        return Ran(code, *capfd.readouterr())

    return run_here


def test_sessions_are_listed_with_title_count_time_and_channel(run: Run, memory: Memory) -> None:
    memory.history.append("chat-1", exchange(1), channel="web", at=1_700_000_000.0)
    memory.history.append("chat-2", [said("evil \x1b[2J title")], at=1_700_000_100.0)
    memory.history.pin("chat-1")
    ran = run("list")
    assert ran.out == (
        "chat-1  question 1\n  2 messages · 2023-11-15 06:13 · web · pinned\n"
        "chat-2  evil [2J title\n  1 messages · 2023-11-15 06:15\n"
        "2 of 2 sessions\n"
    )
    found = run("list", "--channel", "web", "--json").json
    assert [session["id"] for session in found["sessions"]] == ["chat-1"]
    assert "--page shows more" in run("list", "--size", 1).out


def test_a_session_is_shown_turn_by_turn_or_raw(run: Run, memory: Memory) -> None:
    messages = [*anthropic_tools("look", 1, "a lighthouse"), *exchange(2)]
    memory.history.append("s", messages, at=1_700_000_000.0)
    memory.history.append("s", [said("tick"), answered("tock")], scheduled=True, at=1_700_000_000.0)
    time = "2023-11-15 06:13"
    assert run("show", "s", "--size", 2).out == (
        f"4 · {time}\nquestion 2\nanswer 2\n\n6 · {time} · scheduled\ntick\ntock\n\n"
        "3 turns; --page 2 shows earlier ones\n"
    )
    assert '→ look({"at": 0}) seen\n' in run("show", "s", "--steps").out
    assert "(hm)\n" in run("show", "s", "--steps").out
    assert [json.loads(line) for line in run("show", "s", "--raw").out.splitlines()][:6] == messages
    shown = run("show", "s", "--json").json
    assert [turn["question"] for turn in shown["turns"]] == ["look", "question 2", "tick"]
    memory.history.clear_context("s")
    assert "not in the context" in run("show", "s").out


def test_messages_are_appended_from_a_file_or_standard_input(
    run: Run, memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "\n".join(json.dumps(message) for message in exchange(1))
    (tmp_path / "turn.jsonl").write_text(f"\ufeff{lines}\n\n", encoding="utf-8")
    ran = run("append", "s", tmp_path / "turn.jsonl", "--channel", "cli", "--json")
    assert [message["seq"] for message in ran.json["messages"]] == [0, 1]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    assert run("append", "s", "--scheduled").out == "2 messages stored\n"
    assert [turn.scheduled for turn in memory.history.turns("s")] == [False, True]
    (tmp_path / "bad.jsonl").write_text(f"{lines}\nnot json\n", encoding="utf-8")
    ran = run("append", "s", tmp_path / "bad.jsonl")
    assert (ran.code, "line 3 is not JSON" in ran.err) == (2, True)
    assert run("append", "s", tmp_path / "none.jsonl").code == 2
    assert memory.history.totals().messages == 4


def test_sessions_are_titled_pinned_and_cleared(run: Run, memory: Memory) -> None:
    memory.history.append("s", exchange(1))
    assert run("title", "s", "-5 degrees", "--json").json["title"] == "-5 degrees"
    assert run("pin", "s", "--json").json["pinned"] is True
    assert run("pin", "s", "--off", "--json").json["pinned"] is False
    assert run("clear", "s", "--json").json == {"session": "s", "context_start": 2}
    assert "still here" in run("clear", "s").out
    assert len(memory.history.messages_after("s")) == 2


def test_turns_and_sessions_are_deleted(run: Run, memory: Memory) -> None:
    for number in range(4):
        memory.history.append("s", exchange(number))
    assert run("delete", "s", "--turn", 0).out == "2 messages deleted\n"
    assert run("delete", "s", "--turn", 2, "--answer", "--json").json == {"deleted": 1}
    assert run("delete", "s", "--turn", 4, "--onward").out == "4 messages deleted\n"
    assert run("delete", "s", "--turn", 77).code == 1
    assert run("delete", "s", "--onward").code == 2
    assert run("delete", "s").out == "1 messages deleted\n"
    assert memory.history.ids() == []


def test_pruning_tells_first_what_would_go(run: Run, memory: Memory) -> None:
    memory.history.append("old", exchange(1), at=1e9)
    memory.history.append("web", exchange(1), at=1e9, channel="web")
    memory.history.append("new", exchange(1))
    assert run("prune", "--days", 30, "--dry-run").out.endswith("1 sessions would be deleted\n")
    assert memory.history.ids() == ["new", "old", "web"]
    gone = run("prune", "--days", 30, "--keep-channel", "cli", "--json").json
    assert sorted(session["id"] for session in gone["sessions"]) == ["old", "web"]
    memory.history.append("new", [said("tick"), answered("tock")], scheduled=True)
    assert run("prune", "--scheduled", "new", "--keep", 0).out == "2 messages deleted\n"
    assert run("prune").code == run("prune", "--days", "many").code == run("prune", "--days", "-1").code == 2


@pytest.mark.parametrize(
    "command",
    [("show", "x"), ("title", "x", "t"), ("pin", "x"), ("clear", "x"), ("delete", "x"), ("prune", "--scheduled", "x")],
)
def test_a_session_that_is_not_there_is_named(run: Run, command: tuple[str, ...]) -> None:
    ran = run(*command)
    assert (ran.code, ran.out) == (1, "")
    assert "x: there is no such session" in ran.err


def test_a_damaged_history_is_mended_and_the_damaged_file_named(run: Run, memory: Memory) -> None:
    memory.history.append("s", exchange(1))
    assert run("repair").out == "nothing is wrong with it\n"
    memory.close()
    file = memory.root / ".vademecum" / "history.sqlite"
    file.write_bytes(b"?" * 9000)
    ran = run("list")
    assert (ran.code, "`vademecum history repair`" in ran.err) == (1, True)
    assert re.search(r"the damaged file is kept as .*history\.sqlite\.corrupt-", run("repair").out)
    assert run("repair", "--json").json == {"kept": None, "sessions": 0, "messages": 0, "lost": 0}
    assert run("list").out == "0 of 0 sessions\n"


def test_each_user_sees_only_their_own(run: Run, memory: Memory) -> None:
    memory.history.append("s", exchange(1))
    assert run("list", "--user", "ann").out == "0 of 0 sessions\n"
    assert run("delete", "s", "--user", "ann").code == 1
    assert memory.history.ids() == ["s"]


def test_a_group_without_a_command_is_wrong_usage_and_has_help(run: Run) -> None:
    assert run().code == 2
    assert "prune" in run("--help").out
    assert "vademecum history prune --days 90 --dry-run" in run("prune", "--help").out
