"""`MemoryFlushManager`: flush, summaries and dreams, with the host's language model in every shape it may answer in."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cowagent_contract import covers
from cowagent_support import install_shim  # noqa: F401 - a fixture
from memories import PATIENT, write
from store_support import python
from vademecum import Memory

SAID = [
    {"role": "user", "content": "Please book the train to Berlin for Monday."},
    {"role": "assistant", "content": [{"type": "text", "text": "Booked: Monday at nine, seat 61."}]},
]
ITEM = "The train to Berlin is booked for Monday at nine."


class Model:
    """A host's model; ``answer`` makes its answer of the request."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.answer = answer
        self.requests: list[Any] = []

    def call(self, request: Any) -> Any:
        self.requests.append(request)
        return self.answer(request)


class Dumped:
    """An object of a vendor's package."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def model_dump(self) -> dict[str, Any]:
        return self.fields


def _claude(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}


def _openai(text: str) -> dict[str, Any]:
    return {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}


def _stream(text: str) -> Iterator[dict[str, Any]]:
    for letter in text:
        yield {"choices": [{"delta": {"content": letter}, "finish_reason": None}]}


@pytest.fixture
def flushes(tmp_path: Path) -> Any:
    from agent.memory.summarizer import MemoryFlushManager

    made = MemoryFlushManager(tmp_path / "cow", Model(lambda _: _claude(f"- {ITEM}")))
    yield made
    made.close()


def _wait(flushes: Any) -> None:
    flushes._last_flush_thread.join(60)
    assert not flushes._last_flush_thread.is_alive()


@covers("agent.memory", "ensure_daily_memory_file")
@covers(
    "agent.memory.summarizer",
    "MemoryFlushManager MemoryFlushManager#memory_dir MemoryFlushManager.get_today_memory_file"
    " MemoryFlushManager.get_main_memory_file MemoryFlushManager.get_status create_memory_files_if_needed"
    " ensure_daily_memory_file",
)
def test_pages_are_where_they_were(flushes: Any, tmp_path: Path) -> None:
    from agent.memory.summarizer import (
        MemoryFlushManager,
        create_memory_files_if_needed,
        ensure_daily_memory_file,
    )

    MemoryFlushManager(tmp_path / "cow").close()

    root = tmp_path / "cow"
    assert flushes.memory_dir == root / "memory"
    today = flushes.get_today_memory_file()
    assert (today.parent, today.exists()) == (root / "memory", False)
    assert flushes.get_today_memory_file("ann").parent == root / "memory/users/ann"
    assert flushes.get_main_memory_file() == root / "MEMORY.md"
    assert flushes.get_main_memory_file("ann") == root / "memory/users/ann/MEMORY.md"
    assert flushes.get_today_memory_file(ensure_exists=True).read_text() == f"# Daily Memory: {today.stem}\n\n"
    write(root, {f"memory/{today.name}": "kept\n"})
    assert ensure_daily_memory_file(root).read_text() == "kept\n"
    create_memory_files_if_needed(root)
    create_memory_files_if_needed(root, "ann")
    assert (root / "MEMORY.md").read_text() == (root / "memory/users/ann/MEMORY.md").read_text() == ""
    status = flushes.get_status()
    assert (status["last_flush_timestamp"], status["today_file"]) == (None, str(today))
    with pytest.raises(ValueError, match="id"):
        flushes.get_main_memory_file("../../x")


@covers("agent.memory.summarizer", "MemoryFlushManager.flush_from_messages MemoryFlushManager.llm_model")
@pytest.mark.parametrize("shape", [_claude, _openai, _stream, str, lambda text: Dumped(_openai(text))])
def test_a_summary_is_written_and_given_back_whatever_shape_the_answer_has(
    tmp_path: Path, shape: Callable[[str], Any]
) -> None:
    from agent.memory.summarizer import MemoryFlushManager

    flushes = MemoryFlushManager(tmp_path / "cow")
    assert flushes.llm_model is None
    model = flushes.llm_model = Model(lambda _: shape(f"- {ITEM}"))
    told: list[str] = []
    assert flushes.flush_from_messages(SAID, reason="overflow", context_summary_callback=told.append) is True
    _wait(flushes)
    page = flushes.get_today_memory_file().read_text()
    assert (page.count(ITEM), "## Context Overflow Recovery (" in page) == (1, True)
    assert told == [f"- {ITEM}"]
    assert flushes.last_flush_timestamp is not None
    request = model.requests[0]
    assert "Berlin" in str(request.messages)
    assert request.system
    # The second flush of an overflow, with a callback, is no second summary; the first one goes into the context.
    assert flushes.flush_from_messages(SAID, reason="trim", context_summary_callback=told.append) is True
    _wait(flushes)
    assert flushes.get_today_memory_file().read_text() == page
    assert told == [f"- {ITEM}"] * 2
    flushes.close()


def test_only_what_people_said_is_flushed(flushes: Any) -> None:
    timer = [{"role": "user", "content": "[SCHEDULED] remind"}, {"role": "assistant", "content": "Reminder."}]
    assert flushes.flush_from_messages(timer) is False
    assert flushes.flush_from_messages([]) is False
    assert flushes.flush_from_messages([*SAID, *timer], max_messages=2) is False
    assert flushes.llm_model.requests == []


def test_an_answer_that_says_nothing_writes_nothing(tmp_path: Path) -> None:
    from agent.memory.summarizer import MemoryFlushManager

    flushes = MemoryFlushManager(tmp_path / "cow", Model(lambda _: _openai("无。")))
    told: list[str] = []
    flushes.flush_from_messages(SAID, context_summary_callback=told.append)
    _wait(flushes)
    assert (told, flushes.get_today_memory_file().exists()) == ([], False)
    flushes.close()


def test_prompts_are_in_the_hosts_language(tmp_path: Path) -> None:
    from agent.memory.summarizer import MemoryFlushManager

    import vademecum.compat.cowagent as shim

    shim.install(shim.Host(language=lambda: "zh-CN"))
    model = Model(lambda _: _claude(f"- {ITEM}"))
    flushes = MemoryFlushManager(tmp_path / "cow", model)
    flushes._summarize_messages(SAID)
    assert "对话" in model.requests[0].system
    flushes.close()


@pytest.mark.parametrize("answer", [{"error": True, "message": "quota"}, 7, RuntimeError("no route"), ""])
def test_without_a_usable_model_rules_write_the_summary(tmp_path: Path, answer: Any) -> None:
    from agent.memory.summarizer import MemoryFlushManager

    def call(_: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    flushes = MemoryFlushManager(tmp_path / "cow", Model(call))
    flushes.flush_from_messages(SAID)
    _wait(flushes)
    assert "book the train to Berlin" in flushes.get_today_memory_file().read_text()
    flushes.close()


@covers("agent.memory.summarizer", "MemoryFlushManager.create_daily_summary MemoryFlushManager#_last_flush_thread")
def test_a_day_is_summarised_once(flushes: Any) -> None:
    assert flushes._last_flush_thread is None
    assert flushes.create_daily_summary(SAID) is True
    _wait(flushes)
    assert "## Daily Summary (" in flushes.get_today_memory_file().read_text()
    assert flushes.create_daily_summary(SAID) is False
    more = [*SAID, {"role": "user", "content": "And a hotel near the station."}]
    assert flushes.create_daily_summary(more) is True
    _wait(flushes)


@covers(
    "agent.memory.summarizer",
    "MemoryFlushManager.write_daily_summary MemoryFlushManager._summarize_messages"
    " MemoryFlushManager._clean_summary_output MemoryFlushManager#last_flush_timestamp",
)
def test_a_host_may_summarise_clean_and_write_by_itself(flushes: Any) -> None:
    summary = flushes._summarize_messages(SAID)
    assert summary == f"- {ITEM}"
    assert not flushes.get_today_memory_file().exists()
    cleaned = flushes._clean_summary_output(f"```\n{summary}\n```")
    assert cleaned == summary
    assert [flushes._clean_summary_output(text) for text in ("无", "None.", "", None)] == [""] * 4
    assert flushes.write_daily_summary(cleaned, reason="compact") is True
    page = flushes.get_today_memory_file().read_text()
    assert ("## Session Notes (" in page, page.count(ITEM)) == (True, 1)
    assert flushes.last_flush_timestamp is not None
    assert flushes.write_daily_summary("无") is False
    assert flushes._summarize_messages([]) == ""


@covers("agent.memory.summarizer", "MemoryFlushManager.deep_dream")
def test_a_dream_that_loses_memories_is_refused_and_switched_off_ones_do_nothing(
    tmp_path: Path, conf: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    from agent.memory.summarizer import MemoryFlushManager

    memory = "# Memory\n\n" + "".join(f"- Fact number {n} about the user.\n" for n in range(12))
    model = Model(lambda _: _claude("[MEMORY]\n- x"))
    flushes = MemoryFlushManager(tmp_path / "cow", model)
    today = flushes.get_today_memory_file()
    write(tmp_path / "cow", {"MEMORY.md": memory, f"memory/{today.name}": f"- {ITEM}\n"})
    conf["deep_dream_enabled"] = False
    assert flushes.deep_dream() is False
    assert model.requests == []
    conf["deep_dream_enabled"] = True
    with caplog.at_level("INFO", logger="cowagent"):
        assert flushes.deep_dream() is False
        assert flushes.deep_dream(lookback_days=3, force=True) is False
    assert model.requests
    assert "[DeepDream]" in caplog.text
    assert (tmp_path / "cow/MEMORY.md").read_text() == memory
    flushes.close()


def test_a_dream_takes_over_what_the_day_brought_and_can_be_undone(tmp_path: Path) -> None:
    from agent.memory.summarizer import MemoryFlushManager

    said = {"memory": [{"id": "M1"}, {"text": ITEM, "from": ["D1"]}], "dropped": [], "diary": "A journey is planned."}
    flushes = MemoryFlushManager(tmp_path / "cow", Model(lambda _: _openai(json.dumps(said))))
    today = flushes.get_today_memory_file()
    before = "# Memory\n\n- The broker is Fidelity.\n"
    write(tmp_path / "cow", {"MEMORY.md": before, f"memory/{today.name}": f"- {ITEM}\n"})
    assert flushes.deep_dream() is True
    after = (tmp_path / "cow/MEMORY.md").read_text()
    assert ("Fidelity" in after, ITEM in after) == (True, True)
    assert "journey" in (tmp_path / f"cow/memory/dreams/{today.name}").read_text()
    asked = len(flushes.llm_model.requests)
    assert flushes.deep_dream() is False  # once a day
    assert len(flushes.llm_model.requests) == asked
    flushes.close()
    with Memory.open(tmp_path / "cow", settings=PATIENT) as memory:
        dreamt = next(entry for entry in memory.log("MEMORY.md") if entry.by == "dream")
        memory.undo(dreamt.id)
    assert (tmp_path / "cow/MEMORY.md").read_text() == before


def test_a_dream_without_daily_pages_asks_no_model(flushes: Any) -> None:
    assert flushes.deep_dream() is False
    assert flushes.llm_model.requests == []


@covers("agent.memory.manager", "MemoryManager.flush_memory MemoryManager#flush_manager")
def test_a_manager_flushes_and_finds_what_was_flushed(tmp_path: Path) -> None:
    from agent.memory import MemoryConfig, MemoryManager

    manager = MemoryManager(MemoryConfig(workspace_root=str(tmp_path / "cow")))
    manager.flush_manager.llm_model = Model(lambda _: _claude(f"- {ITEM}"))
    told: list[str] = []
    flushed = manager.flush_memory(
        messages=SAID, user_id=None, reason="trim", max_messages=0, context_summary_callback=told.append
    )
    assert flushed is True
    asyncio.run(manager.search("anything"))  # a search in between must not hide what comes
    _wait(manager.flush_manager)
    assert told
    (hit,) = asyncio.run(manager.search("train to Berlin"))
    assert ITEM in hit.snippet
    manager.close()


def test_a_flush_that_was_killed_is_done_when_the_workspace_is_next_used(tmp_path: Path) -> None:
    from agent.memory import MemoryConfig, MemoryManager

    python(
        """
import os, sys, threading
import vademecum.compat.cowagent as shim
shim.install(shim.Host())
from agent.memory import MemoryConfig, MemoryManager
asked = threading.Event()
class Never:
    def call(self, request):
        asked.set()
        threading.Event().wait()
manager = MemoryManager(MemoryConfig(workspace_root=sys.argv[1]), llm_model=Never())
assert manager.flush_memory([{"role": "user", "content": "Please book the train to Berlin for Monday."}])
assert asked.wait(60)
os._exit(0)
""",
        tmp_path / "cow",
    )
    manager = MemoryManager(MemoryConfig(workspace_root=str(tmp_path / "cow")))
    page = manager.flush_manager.get_today_memory_file()
    assert asyncio.run(manager.search("train")) == []  # nothing is written by rules before the host gives its model
    manager.flush_manager.llm_model = Model(lambda _: _claude(f"- {ITEM}"))
    deadline = time.monotonic() + 60
    while not page.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ITEM in page.read_text()
    manager.close()
