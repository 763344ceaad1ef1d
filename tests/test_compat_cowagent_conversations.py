"""`ConversationStore` as a host uses it."""

from __future__ import annotations

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cowagent_contract import covers
from cowagent_support import (
    digests,
    install_shim,  # noqa: F401 - a fixture
)
from store_support import python
from transcripts import Cow
from vademecum.errors import UsageError

_TOOL_TURN = [
    {"role": "user", "content": [{"type": "text", "text": "What is the price?"}]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Look it up."},
            {"type": "text", "text": "Looking."},
            {"type": "tool_use", "id": "t1", "name": "price", "input": {"of": "fund"}},
        ],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "12.5"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "It is 12.5."}]},
]


def _said(*texts: str) -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]


@pytest.fixture
def store(tmp_path: Path) -> Any:
    from agent.memory import ConversationStore

    made = ConversationStore(tmp_path / "cow/memory/long-term/index.db")
    yield made
    made.close()


@covers("agent.memory", "ConversationStore")
@covers(
    "agent.memory.conversation_store",
    "ConversationStore ConversationStore#_db_path ConversationStore.append_messages ConversationStore.load_messages"
    " ConversationStore.load_history_page ConversationStore.attach_extras_to_last_assistant"
    " ConversationStore.list_session_ids ConversationStore.get_stats ConversationStore.get_latest_pair_seqs",
)
def test_what_was_said_comes_back_for_the_model_and_for_display(tmp_path: Path, conf: dict[str, Any]) -> None:
    from agent.memory import ConversationStore

    store = ConversationStore(tmp_path / "cow/memory/long-term/index.db")
    assert store._db_path == tmp_path / "cow/memory/long-term/index.db"
    extra = {**_TOOL_TURN[3], "extras": {"usage": 7}}
    assert store.append_messages("s", [*_TOOL_TURN[:3], extra], channel_type="web") is True
    loaded = store.load_messages("s")
    assert loaded[0] == _TOOL_TURN[0]
    assert [block["type"] for block in loaded[1]["content"]] == ["text", "tool_use"]  # no thoughts
    assert store.load_messages("s", max_turns=0) == []
    assert store.attach_extras_to_last_assistant("s", {"audio": "a.mp3"}) == 3
    page = store.load_history_page("s")
    question, answer = page["messages"]
    assert (question["role"], question["content"], question["_seq"]) == ("user", "What is the price?", 0)
    assert (answer["content"], answer["extras"], answer["_seq"]) == (
        "It is 12.5.",
        {"usage": 7, "audio": "a.mp3"},
        3,
    )
    assert [step["type"] for step in answer["steps"]] == ["content", "tool", "content"]
    tool = answer["steps"][1]
    assert (tool["name"], tool["arguments"], tool["result"], tool["is_error"]) == (
        "price",
        {"of": "fund"},
        "12.5",
        False,
    )
    assert (page["total"], page["has_more"], page["context_start_seq"]) == (2, False, 0)
    conf["enable_thinking"] = True
    steps = store.load_history_page("s")["messages"][1]["steps"]
    assert steps[0] == {"type": "thinking", "content": "Look it up."}
    assert store.list_session_ids() == ["s"]
    assert store.get_stats() == {"total_sessions": 1, "total_messages": 4, "by_channel": {"web": 1}}
    assert store.get_latest_pair_seqs("s") == {"user_seq": 0, "bot_seq": 3}
    assert store.get_latest_pair_seqs("none") == {"user_seq": None, "bot_seq": None}
    assert not store._db_path.exists()
    store.close()


def test_a_reply_to_a_session_that_somebody_deleted_makes_no_new_one(store: Any) -> None:
    assert store.append_messages("gone", _said("", "late reply")[1:], create_if_missing=False) is False
    assert store.list_session_ids() == []
    assert store.append_messages("there", _said("hello")) is True
    assert store.append_messages("there", _said("", "late reply")[1:], create_if_missing=False) is True


def test_pages_hold_the_newest_first_and_no_message_twice(store: Any) -> None:
    store.append_messages("s", _said(*[f"text {n}" for n in range(10)]))
    first, second = store.load_history_page("s", 1, 4), store.load_history_page("s", 2, 4)
    assert [message["content"] for message in first["messages"]] == ["text 6", "text 7", "text 8", "text 9"]
    assert [message["content"] for message in second["messages"]] == ["text 2", "text 3", "text 4", "text 5"]
    assert (first["has_more"], store.load_history_page("s", 3, 4)["has_more"]) == (True, False)


@covers(
    "agent.memory.conversation_store",
    "ConversationStore.clear_context ConversationStore.get_context_start_seq ConversationStore.delete_message_pair"
    " ConversationStore.clear_session",
)
def test_the_context_is_cleared_and_turns_deleted(store: Any) -> None:
    store.append_messages("s", _said("one", "1", "two", "2"))
    assert store.clear_context("s") == store.get_context_start_seq("s") == 4
    assert store.load_messages("s") == []
    store.append_messages("s", _said("three", "3"))
    assert [message["content"] for message in store.load_messages("s")] == ["three", "3"]
    assert store.delete_message_pair("s", 4, delete_user=False) == 1
    assert [message["content"] for message in store.load_messages("s")] == ["three"]
    assert store.delete_message_pair("s", 0, cascade=True) == 5
    store.append_messages("s", _said("four", "4"))
    assert [message["content"] for message in store.load_messages("s")] == ["four", "4"]  # not lost behind the context
    store.clear_session("s")
    assert store.list_session_ids() == []


@covers("agent.memory.conversation_store", "ConversationStore.prune_scheduled_messages")
def test_only_a_schedulers_messages_are_pruned_and_hidden(store: Any) -> None:
    store.append_messages("s", _said("Scheduled task ideas, please", "Some ideas."))
    for n in range(5):
        store.append_messages("s", _said(f"[SCHEDULED] remind {n}", f"Reminder {n}."))
    shown = [message["content"] for message in store.load_history_page("s")["messages"]]
    assert shown[:2] == ["Scheduled task ideas, please", "Some ideas."]
    assert not any("[SCHEDULED]" in text for text in shown)
    assert shown[2:] == [f"Reminder {n}." for n in range(5)]
    assert store.prune_scheduled_messages("s", 2, markers=["Scheduled task"]) == 6
    texts = [message["content"] for message in store.load_messages("s")]
    assert texts[:2] == ["Scheduled task ideas, please", "Some ideas."]
    assert texts[3::2] == ["Reminder 3.", "Reminder 4."]


def test_what_an_agent_did_by_itself_is_marked_and_cleaned(store: Any) -> None:
    text = "[EVOLUTION] Learnt to greet.\n(backup_id: 20260101-1; to undo, restore it)"
    store.append_messages("s", [{"role": "assistant", "content": text}])
    (shown,) = store.load_history_page("s")["messages"]
    assert (shown["kind"], shown["content"]) == ("evolution", "Learnt to greet.")
    assert store.load_messages("s")[0]["content"] == text


@covers(
    "agent.memory.conversation_store",
    "ConversationStore.list_sessions ConversationStore.rename_session ConversationStore.set_pinned"
    " ConversationStore.cleanup_old_sessions",
)
def test_sessions_are_listed_named_pinned_and_cleaned_up(store: Any, conf: dict[str, Any]) -> None:
    store.append_messages("a", _said("First question\nmore", "1"), channel_type="web")
    store.append_messages("b", _said("Second question", "2"), channel_type="cli")
    listed = store.list_sessions()
    assert [(one["session_id"], one["title"], one["msg_count"]) for one in listed["sessions"]] == [
        ("b", "Second question", 2),
        ("a", "First question", 2),
    ]
    assert store.set_pinned("a", True) is store.rename_session("a", "Named") is True
    first = store.list_sessions(page_size=1)
    assert (first["sessions"][0]["title"], first["sessions"][0]["pinned"], first["has_more"]) == ("Named", True, True)
    assert [one["session_id"] for one in store.list_sessions(channel_type="cli")["sessions"]] == ["b"]
    assert store.rename_session("none", "x") is store.set_pinned("none", True) is False
    assert store.cleanup_old_sessions(30) == 0
    conf["conversation_max_age_days"] = 0
    assert store.cleanup_old_sessions() == 1  # zero days are no days; what is pinned or of the web stays
    assert store.list_session_ids() == ["a"]


@covers("agent.memory", "get_conversation_store clear_conversation_store_cache")
@covers("agent.memory.conversation_store", "get_conversation_store clear_conversation_store_cache")
def test_one_store_serves_a_workspace(tmp_path: Path) -> None:
    from agent.memory import clear_conversation_store_cache, get_conversation_store

    store = get_conversation_store()
    assert store is get_conversation_store(str(tmp_path / "cow"))
    assert store is not get_conversation_store(tmp_path / "other")
    store.append_messages("s", _said("hello", "hi"))
    clear_conversation_store_cache()
    again = get_conversation_store()
    assert again is not store
    assert [message["content"] for message in again.load_messages("s")] == ["hello", "hi"]
    clear_conversation_store_cache()


# -- what CowAgent stored ----------------------------------------------------------------------------------------------


_SEED = """
PRAGMA journal_mode = WAL;
CREATE TABLE sessions(session_id TEXT PRIMARY KEY, channel_type TEXT NOT NULL DEFAULT '',
    title TEXT NOT NULL DEFAULT '', context_start_seq INTEGER NOT NULL DEFAULT 0, created_at INTEGER NOT NULL,
    last_active INTEGER NOT NULL, msg_count INTEGER NOT NULL DEFAULT 0, pinned INTEGER NOT NULL DEFAULT 0);
CREATE TABLE messages(id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, seq INTEGER NOT NULL,
    role TEXT NOT NULL, content TEXT NOT NULL, created_at INTEGER NOT NULL, extras TEXT NOT NULL DEFAULT '',
    UNIQUE (session_id, seq));
CREATE TABLE chunks(id TEXT PRIMARY KEY, user_id TEXT, scope TEXT, source TEXT, path TEXT, start_line INTEGER,
    end_line INTEGER, text TEXT, embedding BLOB, hash TEXT, metadata TEXT, created_at INTEGER, updated_at INTEGER);
CREATE VIRTUAL TABLE chunks_fts USING fts5(text, id UNINDEXED, content='chunks', content_rowid='rowid');
"""


class SeedIndex:
    """index.db in the schema of the seed, with sessions, messages and chunks."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.db = sqlite3.connect(file, isolation_level=None)
        self.db.executescript(_SEED)

    def say(self, session: str, *messages: dict[str, Any], **about: Any) -> None:
        given = {"channel_type": "web", "title": session.title(), "context_start_seq": 0, "pinned": 0, **about}
        self.db.execute(
            "INSERT OR IGNORE INTO sessions"
            " VALUES (:id, :channel_type, :title, :context_start_seq, 1700000000, 1700000000, 0, :pinned)",
            {"id": session, **given},
        )
        (seq,) = self.db.execute(
            "SELECT coalesce(max(seq), -1) + 1 FROM messages WHERE session_id = ?", (session,)
        ).fetchone()
        for n, message in enumerate(messages):
            row = (session, seq + n, message["role"], json.dumps(message["content"]), 1_700_000_000 + n)
            extras = json.dumps(message.get("extras")) if "extras" in message else ""
            self.db.execute(
                "INSERT INTO messages(session_id, seq, role, content, created_at, extras) VALUES (?, ?, ?, ?, ?, ?)",
                (*row, extras),
            )


def test_conversations_of_a_workspace_go_on_and_its_database_stays_as_it_is(tmp_path: Path) -> None:
    from agent.memory import ConversationStore

    file = tmp_path / "cow/memory/long-term/index.db"
    seed = SeedIndex(file)
    seed.say("chat", *_TOOL_TURN, {"role": "user", "content": "Thanks"}, pinned=1, title="Prices")
    seed.say("timer", *_said("[SCHEDULED] remind", "Reminder."), channel_type="cli", context_start_seq=2)
    seed.db.close()
    before = digests(tmp_path / "cow")
    store = ConversationStore(file)
    assert store.list_session_ids() == ["chat", "timer"]
    assert store.load_messages("chat")[-1] == {"role": "user", "content": "Thanks"}
    listed = {one["session_id"]: one for one in store.list_sessions()["sessions"]}
    assert (listed["chat"]["title"], listed["chat"]["pinned"], listed["chat"]["channel_type"]) == (
        "Prices",
        True,
        "web",
    )
    assert listed["chat"]["created_at"] == 1_700_000_000
    assert store.load_messages("timer") == []  # behind the start of its context
    assert [one["content"] for one in store.load_history_page("timer")["messages"]] == ["Reminder."]
    store.append_messages("chat", _said("", "You are welcome")[1:])
    store.delete_message_pair("chat", 0)
    store.clear_session("timer")
    store.close()
    assert digests(tmp_path / "cow") == before
    again = ConversationStore(file)
    assert [message["content"] for message in again.load_messages("chat")] == ["Thanks", "You are welcome"]
    assert again.list_session_ids() == ["chat"]  # what was deleted does not come back
    again.close()
    assert digests(tmp_path / "cow") == before


def test_what_the_other_program_says_later_is_taken_over_too(tmp_path: Path) -> None:
    from agent.memory import ConversationStore

    file = tmp_path / "cow/memory/long-term/index.db"
    seed = SeedIndex(file)
    seed.say("chat", *_said("one", "1"))
    store = ConversationStore(file)
    assert len(store.load_messages("chat")) == 2
    store.close()
    seed.say("chat", *_said("two", "2"))
    seed.say("new", *_said("hello", "hi"))
    again = ConversationStore(file)
    assert [message["content"] for message in again.load_messages("chat")] == ["one", "1", "two", "2"]
    assert again.list_session_ids() == ["chat", "new"]
    again.close()
    seed.db.close()


def test_of_a_database_of_several_agents_those_of_no_agent_in_particular_are_taken(tmp_path: Path) -> None:
    from agent.memory import ConversationStore

    file = tmp_path / "cow/memory/long-term/index.db"
    cow = Cow(file, agents=True)
    cow.db.execute("INSERT INTO sessions(session_id, created_at, last_active) VALUES ('s', 1, 1)")
    cow.say("s", "user", "said to the first")
    cow.say("s", "user", "said to the other", agent="other")
    cow.close()
    store = ConversationStore(file)
    assert [message["content"] for message in store.load_messages("s")] == ["said to the first"]
    store.close()


@pytest.mark.parametrize("content", [b"", b"no database at all" * 100])
def test_a_database_that_cannot_be_read_is_told_of_and_left(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    from agent.memory import ConversationStore

    file = tmp_path / "cow/memory/long-term/index.db"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    store = ConversationStore(file)
    store.append_messages("s", _said("hello"))
    assert store.list_session_ids() == ["s"]
    assert ("was not taken over" in caplog.text) == bool(content)
    store.close()
    assert file.read_bytes() == content


def test_arguments_that_cannot_be_meant_are_refused(store: Any) -> None:
    with pytest.raises(UsageError, match="session"):
        store.append_messages("a\nb", _said("x"))
    with pytest.raises(UsageError, match="max_turns"):
        store.load_messages("s", max_turns=-1)


def test_processes_that_begin_at_once_take_everything_over_once_and_lose_nothing(tmp_path: Path) -> None:
    from agent.memory import ConversationStore

    file = tmp_path / "cow/memory/long-term/index.db"
    seed = SeedIndex(file)
    seed.say("chat", *_said(*map(str, range(40))))
    seed.db.close()
    code = """
import sys
import vademecum.compat.cowagent as shim
shim.install(shim.Host())
from agent.memory import ConversationStore
store = ConversationStore(sys.argv[1])
for n in range(10):
    store.append_messages("chat", [{"role": "user", "content": f"{sys.argv[2]} {n}"}])
"""
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda name: python(code, file, name), "abc"))
    store = ConversationStore(file)
    texts = [message["content"] for message in store.load_messages("chat", 10**6)]
    assert texts[:40] == list(map(str, range(40)))
    assert sorted(texts[40:]) == sorted(f"{name} {n}" for name in "abc" for n in range(10))
    store.close()
