"""Conversations: what is stored, given to the model, shown and deleted. Faults of the stores it takes over from."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations import (
    Clock,
    answered,
    anthropic_tools,
    conversations,
    exchange,
    openai_tools,
    said,
    texts,
)
from store_support import python, small_disk
from vademecum.errors import HistoryBusyError, HistoryCorruptError, HistoryError, UsageError
from vademecum.history import Conversations, HistoryFile, Latest, Message, Session, Step, owner_of, scope_of, viewer_of
from vademecum.types import Viewer

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def history(tmp_path: Path, clock: Clock) -> Iterator[Conversations]:
    file = HistoryFile(tmp_path / "history.sqlite", clock=clock)
    yield Conversations(file, "shared")
    file.close()


# what is stored comes back


@pytest.mark.parametrize("made", [anthropic_tools, openai_tools])
def test_messages_of_each_api_come_back_exactly(history: Conversations, made: Any) -> None:
    messages = made("what is there?", 3, "a lighthouse")
    history.append("s", messages)
    assert history.load("s", thinking=True) == messages
    assert [message.body for message in history.messages_after("s")] == messages


@pytest.fixture(scope="module")
def long_history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conversations]:
    history = conversations(tmp_path_factory.mktemp("long"))
    yield history
    history._file.close()


@given(message=st.dictionaries(st.text(max_size=5), JSON, max_size=4), beside=st.dictionaries(st.text(), JSON))
def test_whatever_is_json_comes_back_exactly(
    long_history: Conversations, message: dict[str, Any], beside: dict[str, Any]
) -> None:
    body = {**message, "role": "user"}
    (stored,) = long_history.append("s", [body], extras=[beside])
    assert repr(stored.body) == repr(body)
    (found,) = long_history.messages_after("s", stored.seq - 1)
    assert (repr(found.body), repr(found.extras), found.id) == (repr(body), repr(beside), stored.id)
    long_history.page("s")
    long_history.recap("s")


def test_half_a_surrogate_pair_is_kept(history: Conversations) -> None:
    history.append("s", [said("caf\udce9.txt")])
    assert texts(history.load("s")) == ["caf\udce9.txt"]


class _Block:
    def model_dump(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ({"role": "user", "content": {"when": {1, 2}}}, r"messages\[1\]\.content\.when = \{1, 2\}: set is not JSON"),
        ({"role": "assistant", "content": [_Block()]}, r"messages\[1\]\.content\[0\].*model_dump\(mode=\"json\"\)"),
        ({"role": "user", "content": float("nan")}, r"messages\[1\]\.content = nan: JSON"),
        ({"role": "user", "content": 10**5000}, r"messages\[1\]\.content = a very long number"),
        ({"role": "user", "content": {1: "x"}}, r"messages\[1\]\.content: the key 1 is no text"),
        ({"role": "user", "content": (1, 2)}, r"messages\[1\]\.content = \(1, 2\): tuple is not JSON"),
        ({"role": "user", "content": b"x"}, "bytes is not JSON"),
        ({"content": "hello"}, r'messages\[1\].*expected a message with a "role"'),
        ("hello", r"messages\[1\] = 'hello': expected a message as a dict"),
    ],
)
def test_what_json_cannot_keep_is_refused_by_name_and_nothing_is_stored(
    history: Conversations, message: object, named: str
) -> None:
    with pytest.raises(UsageError, match=named):
        history.append("s", [said("fine"), message])
    assert history.ids() == []


def test_a_list_within_itself_is_refused(history: Conversations) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(UsageError, match="nested more than 200 deep"):
        history.append("s", [{"role": "user", "content": endless}])


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("append", ("s", "hello")),
        ("append", ("s", said("one message, not a list"))),
        ("append", ("", [])),
        ("append", ("a\x1b[2Jb", [])),
        ("append", (7, [])),
        ("load", ("s", -1)),
        ("load", ("s", True)),
        ("page", ("s", 0)),
        ("page", ("s", 1, 0)),
        ("messages_after", ("s", -2)),
        ("rename", ("s", " \n ")),
        ("pin", ("s", 1)),
        ("delete_turn", ("s", -1)),
        ("prune_scheduled", ("s", -1)),
        ("prune", (-1,)),
        ("prune", (float("nan"),)),
        ("annotate", ("s", {"f": object()})),
    ],
)
def test_arguments_that_cannot_be_meant_are_named(history: Conversations, method: str, arguments: Any) -> None:
    with pytest.raises(UsageError, match=r"expected|JSON"):
        getattr(history, method)(*arguments)


def test_extras_come_one_for_each_message(history: Conversations) -> None:
    stored = history.append("s", exchange(1), extras=[None, {"usage": {"tokens": 3}}])
    assert [message.extras for message in stored] == [{}, {"usage": {"tokens": 3}}]
    with pytest.raises(UsageError, match="extras has 1 items for 2 messages"):
        history.append("s", exchange(2), extras=[None])


def test_reading_makes_no_file(history: Conversations, tmp_path: Path) -> None:
    assert not history.sessions().sessions
    assert history.load("s") == []
    assert history.page("s").turns == ()
    assert history.latest("s") == Latest(None, None)
    assert history.context_start("s") == 0
    assert history._file.stamp() == ""
    assert list(tmp_path.iterdir()) == []


# turns


def test_turns_and_not_messages_are_counted(history: Conversations) -> None:
    for number in range(5):
        history.append("s", anthropic_tools(f"question {number}", 20, f"answer {number}"))
    loaded = history.load("s", 2)
    assert loaded[0]["content"][0]["text"] == "question 3"
    assert len(loaded) == 2 * 42
    assert len(history.load("s")) == 5 * 42


@pytest.mark.parametrize("made", [anthropic_tools, openai_tools])
def test_a_turn_is_shown_with_its_steps_and_their_results(history: Conversations, made: Any, clock: Clock) -> None:
    history.append("s", made("what is there?", 1, "a lighthouse"))
    (turn,) = history.page("s").turns
    assert (turn.question, turn.answer, turn.at) == ("what is there?", "a lighthouse", clock.now)
    assert (turn.seq, turn.answer_seq) == (0, 3)
    thoughts = [Step("thinking", "hm")] if made is anthropic_tools else []
    called = Step("tool", call="tool0", name="look", arguments={"at": 0}, result="seen")
    assert list(turn.steps) == [*thoughts, called, Step("text", "a lighthouse")]


def test_items_of_the_responses_api_are_a_turn_too(history: Conversations) -> None:
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "how many?"}]},
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "count them"}]},
        {"type": "function_call", "call_id": "c", "name": "count", "arguments": "not JSON"},
        {"type": "function_call_output", "call_id": "c", "output": "7"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "seven"}]},
    ]
    history.append("s", items)
    assert history.load("s") == items
    (turn,) = history.page("s").turns
    assert (turn.question, turn.answer) == ("how many?", "seven")
    called = Step("tool", call="c", name="count", arguments="not JSON", result="7")
    assert turn.steps[:2] == (Step("thinking", "count them"), called)


def test_a_picture_is_a_question_and_a_blank_text_is_none(history: Conversations) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}
    history.append("s", [said("  \n"), {"role": "user", "content": [picture]}, answered("a cat")])
    (turn,) = history.page("s").turns
    assert (turn.seq, turn.question, turn.answer) == (1, "", "a cat")


def test_a_result_with_a_remark_stays_with_its_call(history: Conversations) -> None:
    messages = anthropic_tools("look", 1, "done")
    messages[2]["content"].append({"type": "text", "text": "be brief"})
    history.append("s", [*exchange(0), *messages])
    assert history.load("s", 1, thinking=True) == messages


def test_an_agent_that_speaks_first_opens_a_turn(history: Conversations) -> None:
    history.append("s", [{"role": "system", "content": "be kind"}, answered("Hello!"), *exchange(1)])
    assert [(turn.question, turn.answer) for turn in history.page("s").turns] == [
        (None, "Hello!"),
        ("question 1", "answer 1"),
    ]
    assert len(history.load("s")) == 4


def test_thinking_is_left_out_of_what_the_model_gets(history: Conversations) -> None:
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]}
    history.append("s", [said("hello"), thought, answered("hi")])
    assert texts(history.load("s")) == ["hello", "hi"]
    assert len(history.load("s", thinking=True)) == 3


def test_a_recap_is_question_and_answer_only(history: Conversations) -> None:
    history.append("s", [*exchange(1), *anthropic_tools("look", 3, "a lighthouse")])
    assert history.recap("s", 1) == [said("look"), answered("a lighthouse")]
    assert history.recap("s", 0) == []


def test_pages_go_from_the_newest_back_and_miss_nothing(history: Conversations) -> None:
    for number in range(7):
        history.append("s", exchange(number))
    pages = [history.page("s", number, 3) for number in (1, 2, 3, 4)]
    assert [[turn.question for turn in page.turns] for page in pages] == [
        ["question 4", "question 5", "question 6"],
        ["question 1", "question 2", "question 3"],
        ["question 0"],
        [],
    ]
    assert [(page.total, page.more) for page in pages] == [(7, True), (7, True), (7, False), (7, False)]


def test_scrolling_back_shows_no_turn_twice_while_new_ones_come(history: Conversations) -> None:
    for number in range(4):
        history.append("s", exchange(number))
    first = history.page("s", size=2)
    history.append("s", exchange(4))
    second = history.page("s", size=2, before=first.turns[0].seq)
    assert [turn.question for turn in second.turns] == ["question 0", "question 1"]
    assert (second.total, second.more) == (2, False)


def test_what_a_scheduler_injects_in_the_middle_parts_no_call_from_its_result(history: Conversations) -> None:
    messages = anthropic_tools("look", 1, "a lighthouse")
    history.append("s", messages[:2])
    history.append("s", [said("every hour"), answered("tick")], scheduled=True)
    history.append("s", messages[2:])
    assert history.load("s", thinking=True) == [*messages, said("every hour"), answered("tick")]
    asked, scheduled = history.page("s").turns
    assert (asked.answer, asked.scheduled, asked.steps[1].result) == ("a lighthouse", False, "seen")
    assert (scheduled.answer, scheduled.scheduled) == ("tick", True)


# context, titles, pins, extras


def test_a_cleared_context_is_shown_and_not_loaded(history: Conversations) -> None:
    history.append("s", exchange(1))
    assert history.clear_context("s") == history.context_start("s") == 2
    assert history.load("s") == history.recap("s") == []
    history.append("s", exchange(2))
    assert texts(history.load("s")) == ["question 2", "answer 2"]
    assert [turn.in_context for turn in history.page("s").turns] == [False, True]
    assert history.clear_context("nobody") is None


def test_a_reply_to_what_was_cleared_is_cleared_with_it(history: Conversations) -> None:
    messages = anthropic_tools("look", 1, "a lighthouse")
    history.append("s", messages[:2])
    history.clear_context("s")
    history.append("s", messages[2:])
    assert history.load("s") == []


def test_a_session_is_titled_by_the_first_line_of_its_first_question(history: Conversations) -> None:
    history.append("s", [said("[tick]")], scheduled=True)
    history.append("s", [answered("hello"), said(f"\n  Where\tis \x07it? \n{'x' * 99}"), said("second")])
    history.append("t", [said("漫" * 80)])
    titles = {session.id: session.title for session in history.sessions().sessions}
    assert titles == {"s": "Where is it?", "t": "漫" * 50}
    assert history.rename("s", "My  lighthouse 👨‍👩‍👧\n")
    history.append("s", exchange(9))
    assert history.session("s").title == "My lighthouse 👨‍👩‍👧"  # type: ignore[union-attr]
    assert not history.rename("nobody", "x")


def test_pinned_sessions_come_first_then_the_latest(history: Conversations, clock: Clock) -> None:
    for name in ("a", "b", "c"):
        clock.now += 1
        history.append(name, exchange(1), channel="web" if name == "b" else "")
    history.pin("a")
    assert [session.id for session in history.sessions().sessions] == ["a", "c", "b"]
    assert [session.id for session in history.sessions(channel="web").sessions] == ["b"]
    page = history.sessions(number=2, size=2)
    assert ([session.id for session in page.sessions], page.total, page.more) == (["b"], 3, False)
    history.pin("a", False)
    assert [session.id for session in history.sessions().sessions] == ["c", "b", "a"]
    assert not history.pin("nobody")


def test_extras_are_merged_beside_the_last_answer(history: Conversations) -> None:
    history.append("s", [*exchange(1), said("and?")], extras=[None, {"a": 1, "b": 1}, None])
    assert history.annotate("s", {"b": 2}) == 1
    assert history.annotate("s", {"file": "x.png"}, seq=2) == 2
    assert history.page("s").turns[0].extras == {"a": 1, "b": 2}
    assert [message.extras for message in history.messages_after("s", 1)] == [{"file": "x.png"}]
    assert texts(history.load("s")) == ["question 1", "answer 1", "and?"]
    assert history.annotate("s", {"b": 2}, seq=7) is None
    assert history.annotate("nobody", {"b": 2}) is None


def test_the_latest_exchange_is_that_of_a_person(history: Conversations) -> None:
    history.append("s", anthropic_tools("look", 2, "a lighthouse"))
    history.append("s", [said("every hour"), answered("tick")], scheduled=True)
    assert history.latest("s") == Latest(0, 7)


def test_totals_are_counted_by_channel(history: Conversations) -> None:
    history.append("a", exchange(1), channel="web")
    history.append("b", exchange(1), channel="cli")
    history.append("c", exchange(1), channel="cli")
    totals = history.totals()
    assert (totals.sessions, totals.messages) == (3, 6)
    assert list(totals.by_channel.items()) == [("cli", 2), ("web", 1)]


# deleting


def test_a_turn_is_deleted_with_its_answer_or_without_its_question(history: Conversations) -> None:
    for number in range(4):
        history.append("s", exchange(number))
    assert history.delete_turn("s", 1, following=True) == 0  # an answer opens no turn
    assert history.delete_turn("s", 2) == 2
    assert texts(history.load("s")) == [text for n in (0, 2, 3) for text in (f"question {n}", f"answer {n}")]
    assert history.delete_turn("s", 6, question=False) == 1
    history.append("s", [answered("better")])
    assert history.page("s").turns[-1].answer == "better"
    assert history.delete_turn("s", 4, following=True) == 4
    assert texts(history.load("s")) == ["question 0", "answer 0"]
    assert history.session("s").messages == 2  # type: ignore[union-attr]
    assert history.delete_turn("nobody", 0) == 0


def test_only_old_turns_of_the_scheduler_are_pruned(history: Conversations) -> None:
    for number in range(5):
        history.append("s", [said(f"tick {number}"), answered("tock")], scheduled=True)
        history.append("s", exchange(number))
    assert history.prune_scheduled("s", 2) == 6
    assert [turn.question for turn in history.page("s").turns if turn.scheduled] == ["tick 3", "tick 4"]
    assert history.prune_scheduled("s", 2) == 0
    assert history.prune_scheduled("s", 0) == 4
    assert len(history.load("s")) == 10
    assert history.prune_scheduled("nobody", 0) == 0


def test_a_deleted_session_leaves_no_text_and_no_number_is_given_again(history: Conversations, tmp_path: Path) -> None:
    history.append("s", [said("the word is tohuwabohu"), answered("noted")])
    before = history.session("s")
    assert history.delete("s")
    assert not history.delete("s")
    assert history.load("s") == []
    stored = history.append("s", exchange(1))
    assert [message.seq for message in stored] == [2, 3]
    assert history.messages_after("s", 1) == list(stored)
    assert history.session("s").uid != before.uid  # type: ignore[union-attr]
    history._file.close()
    assert b"tohuwabohu" not in (tmp_path / "history.sqlite").read_bytes()


def test_old_sessions_are_pruned_but_pinned_and_web_ones(history: Conversations, clock: Clock) -> None:
    for name, channel in (("old", "cli"), ("pinned", "cli"), ("web", "web")):
        history.append(name, exchange(1), channel=channel)
    history.pin("pinned")
    clock.now += 30 * 86_400
    history.append("new", exchange(1), channel="cli")
    assert history.prune(31) == ()
    assert [session.id for session in history.prune(29, dry_run=True)] == ["old"]
    assert history.ids() == ["new", "old", "pinned", "web"]
    assert [session.id for session in history.prune(29)] == ["old"]
    assert [session.id for session in history.prune(29, keep_channels=())] == ["web"]
    assert history.ids() == ["new", "pinned"]


# whose


def test_nobody_sees_or_changes_somebody_elses_sessions(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "history.sqlite")
    viewers = [Viewer(), Viewer("ann"), Viewer("bob"), Viewer(agent="ann"), Viewer("ann", "a"), Viewer("ann", "b")]
    all_of_them = [Conversations(file, owner_of(viewer)) for viewer in viewers]
    for number, mine in enumerate(all_of_them):
        mine.append("s", exchange(number))
    for number, mine in enumerate(all_of_them):
        assert texts(mine.load("s")) == [f"question {number}", f"answer {number}"]
        assert mine.totals().sessions == 1
    assert all_of_them[1].delete("s")
    assert all_of_them[1].prune(0) == ()
    assert [len(mine.ids()) for mine in all_of_them] == [1, 0, 1, 1, 1, 1]
    assert [viewer_of(mine.owner) for mine in all_of_them] == viewers
    assert file.owners() == sorted(mine.owner for mine in all_of_them if mine.ids())
    assert [scope_of(mine.owner) for mine in all_of_them] == [
        *("shared", "user:ann", "user:bob", "agent:ann", "user:ann", "user:ann")
    ]
    file.close()


# restoring


def test_a_copy_made_by_restoring_is_the_same(history: Conversations, tmp_path: Path) -> None:
    history.append("s", [{"role": "system", "content": "be kind"}, *anthropic_tools("look", 1, "done")[:2]])
    history.append("s", [said("tick"), answered("tock")], scheduled=True, at=5.5)
    history.append("s", anthropic_tools("look", 1, "done")[2:], extras=[None, {"a": 1}])
    history.append("t", exchange(1), channel="web")
    history.append("s", exchange(1))
    history.delete_turn("s", history.page("s").turns[-1].seq)
    history.append("s", exchange(2))
    history.clear_context("s")
    history.rename("s", "a title")
    history.pin("t")
    sessions = history.sessions().sessions
    copy = conversations(tmp_path / "copy")
    done = copy.restore((session, history.messages_after(session.id)) for session in sessions)
    assert (done.sessions, done.messages, done.known, done.refused) == (2, 11, 0, ())
    for session in sessions:
        twin = copy.session(session.id)
        assert twin == replace(session, uid=twin.uid, stamp=twin.stamp)  # type: ignore[union-attr]
        mine, theirs = history.messages_after(session.id), copy.messages_after(session.id)
        assert [replace(message, id="") for message in theirs] == [replace(message, id="") for message in mine]
    again = copy.restore((session, history.messages_after(session.id)) for session in sessions)
    assert (again.sessions, again.messages, again.known) == (0, 0, 11)
    copy._file.close()


def _message(seq: int, text: str) -> Message:
    return Message("", seq, 0, False, False, "", float(seq), said(text))


def test_a_restore_continues_a_session_and_refuses_another_one(history: Conversations) -> None:
    session = Session("s", "", "web", "", False, 1.0, 2.0, 0)
    other = replace(session, id="t")
    history.append("t", exchange(1))
    first = [_message(3, "three"), _message(7, "seven")]
    done = history.restore([(other, [_message(0, "elsewhere")]), (session, first)])
    assert [name for name, _ in done.refused] == ["t"]
    assert "message 0 is another one" in done.refused[0][1]
    assert history.restore([(session, [*first, _message(8, "eight")])]).messages == 1
    assert [message.seq for message in history.messages_after("s")] == [3, 7, 8]
    assert [message.at for message in history.messages_after("s")] == [3.0, 7.0, 8.0]
    assert texts(history.load("t")) == ["question 1", "answer 1"]
    found = history.session("s")
    assert found is not None
    assert (found.title, found.channel, found.created_at, found.messages) == ("three", "web", 1.0, 3)


def test_numbers_go_on_after_what_was_restored_and_what_was_deleted(history: Conversations) -> None:
    history.append("gone", [said(str(number)) for number in range(50)])
    history.delete("gone")
    session = Session("s", "", "", "", False, 1.0, 2.0, 0)
    assert history.restore([(session, [_message(3, "three")])]).messages == 1
    assert history.restore([(session, [_message(4, "four")])]).messages == 1
    assert [message.seq for message in history.append("s", [said("five")])] == [50]
    history.restore([(replace(session, id="t", context_start=90), [_message(3, "three")])])
    assert [message.seq for message in history.append("t", [said("four")])] == [90]
    assert texts(history.load("t")) == ["four"]


def test_a_session_that_cannot_be_meant_is_refused_and_the_others_are_taken(history: Conversations) -> None:
    session = Session("s", "", "", "", False, 1.0, 2.0, 0)
    done = history.restore(
        [
            (replace(session, id="bad\n"), []),
            (replace(session, id="twice"), [_message(1, "a"), _message(1, "b")]),
            (replace(session, id="odd"), [replace(_message(1, "a"), body={"role": "user", "content": object()})]),
            (session, [_message(1, "a")]),
        ]
    )
    assert [name for name, _ in done.refused] == ["bad\n", "twice", "odd"]
    assert history.ids() == ["s"]


# the file


def test_a_damaged_file_is_named_and_left_as_it_is(history: Conversations, tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    file.write_bytes(b"this is no database, but it was somebody's only copy" * 100)
    before = file.read_bytes()
    for call in (history.sessions, lambda: history.append("s", exchange(1))):
        with pytest.raises(HistoryCorruptError, match=r"history\.sqlite: .*left as it is"):
            call()
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["history.sqlite"]


def test_a_file_of_a_newer_version_or_another_program_is_refused(history: Conversations, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "history.sqlite")) as db:
        db.execute("CREATE TABLE sessions(a)")
    with pytest.raises(HistoryError, match="database of another program"):
        history.append("s", exchange(1))
    with closing(sqlite3.connect(tmp_path / "history.sqlite")) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(HistoryError, match="newer vademecum"):
        history.load("s")


def test_a_full_disk_loses_nothing_that_was_there(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "400k") as disk:
        (disk / "filler").write_bytes(bytes(100_000))
        history = conversations(disk)
        stored = 0
        with pytest.raises(HistoryError, match=r"history\.sqlite: .*full"):
            for _ in range(1000):
                stored += len(history.append("s", [said("x" * 5000), answered("y" * 5000)]))
        assert stored > 4
        assert len(history.messages_after("s")) == stored
        (disk / "filler").unlink()
        assert history.append("s", exchange(1))
        assert history.delete("s")
        history._file.close()


def test_a_child_process_uses_no_connection_of_its_parent(tmp_path: Path) -> None:
    python(
        """
import os, sys
from pathlib import Path
from vademecum.history import Conversations, HistoryFile
history = Conversations(HistoryFile(Path(sys.argv[1]) / "history.sqlite"), "shared")
history.append("s", [{"role": "user", "content": "parent"}])
child = os.fork()
if child == 0:
    history.append("s", [{"role": "user", "content": "child"}])
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
history.append("s", [{"role": "user", "content": "parent again"}])
assert [m["content"] for m in history.load("s")] == ["parent", "child", "parent again"]
""",
        tmp_path,
    )


def test_a_writer_that_another_program_keeps_waiting_says_so(history: Conversations, tmp_path: Path) -> None:
    history.append("s", exchange(1))
    with history._file.write() as db:
        db.execute("PRAGMA busy_timeout = 10")
    with closing(sqlite3.connect(tmp_path / "history.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(HistoryBusyError) as busy:
            history.append("s", exchange(2))
        assert busy.value.retryable
        assert len(history.load("s")) == 2
        other.execute("ROLLBACK")
    history.append("s", exchange(2))
    assert len(history.load("s")) == 4


def test_a_closed_history_says_so(history: Conversations) -> None:
    history.append("s", exchange(1))
    history._file.close()
    with pytest.raises(HistoryError, match="has been closed"):
        history.load("s")


# faults of the second seed's store


def test_c45_no_turns_are_no_messages(history: Conversations) -> None:
    history.append("s", exchange(1))
    assert history.load("s", max_turns=0) == []
    assert len(history.load("s", max_turns=1)) == 2


def test_c46_a_chat_goes_on_after_its_context_was_cleared_and_a_turn_deleted(history: Conversations) -> None:
    for number in range(3):
        history.append("s", exchange(number))
    history.clear_context("s")
    history.append("s", exchange(3))
    history.delete_turn("s", 2, following=True)
    history.append("s", exchange(4))
    assert texts(history.load("s")) == ["question 4", "answer 4"]
    history.delete("s")
    history.append("s", exchange(5))
    assert texts(history.load("s")) == ["question 5", "answer 5"]


@pytest.mark.parametrize(
    "text", ["Scheduled task ideas, please", "[SCHEDULED] is a strange word", "[EVOLUTION] of man"]
)
def test_c47_no_text_makes_a_message_a_schedulers(history: Conversations, text: str) -> None:
    history.append("s", [said(text), answered("noted")])
    assert history.prune_scheduled("s", keep=0) == 0
    (turn,) = history.page("s").turns
    assert (turn.question, turn.answer, turn.scheduled) == (text, "noted", False)


@pytest.mark.parametrize("exchanged", ["deleted", "replaced", "overwritten", "emptied"])
def test_c48_a_file_exchanged_while_it_is_open_is_opened_anew(
    history: Conversations, tmp_path: Path, exchanged: str
) -> None:
    other = conversations(tmp_path / "other")
    other.append("there", exchange(1))
    other._file.close()
    history.append("here", exchange(1))
    here, there = tmp_path / "history.sqlite", tmp_path / "other" / "history.sqlite"
    if exchanged == "deleted":
        for file in tmp_path.glob("history.sqlite*"):
            file.unlink()
    elif exchanged == "replaced":
        for file in tmp_path.glob("history.sqlite-*"):
            file.unlink()
        there.replace(here)
    else:  # the same file, and so the same inode, with other content
        with closing(sqlite3.connect(here)) as db:
            if exchanged == "overwritten":
                with closing(sqlite3.connect(there)) as source:
                    source.backup(db)
            else:
                for table in ("sessions", "messages", "meta"):
                    db.execute(f"DROP TABLE {table}")
                db.execute("PRAGMA user_version = 0")
                db.execute("VACUUM")
    survivors = ["there"] if exchanged in ("replaced", "overwritten") else []
    assert history.ids() == survivors
    history.append("next", exchange(2))
    assert history.ids() == sorted([*survivors, "next"])
    assert texts(history.load("next")) == ["question 2", "answer 2"]


def test_c50_sessions_that_outlived_their_days_go_by_themselves(tmp_path: Path, clock: Clock) -> None:
    history = conversations(tmp_path, clock=clock, keep_days=30.0)
    other = Conversations(history._file, "user:ann")
    for mine in (history, other):
        mine.append("old", exchange(1))
        mine.append("web", exchange(1), channel="web")
        mine.append("pinned", exchange(1))
        mine.pin("pinned")
    clock.now += 29 * 86_400
    history.append("now", exchange(1))
    assert "old" in history.ids()
    clock.now += 2 * 86_400
    history.append("now", exchange(1))
    assert (history.ids(), other.ids()) == (["now", "pinned", "web"], ["pinned", "web"])
    history._file.close()


def test_c50_whoever_comes_back_after_all_days_finds_the_session(tmp_path: Path, clock: Clock) -> None:
    history = conversations(tmp_path, clock=clock, keep_days=30.0)
    history.append("s", exchange(1))
    clock.now += 40 * 86_400
    history.append("s", exchange(2))
    assert len(history.load("s")) == 4
    history._file.close()


def test_c50_no_days_are_no_days(history: Conversations, clock: Clock) -> None:
    history.append("s", exchange(1))
    clock.now += 60
    assert [session.id for session in history.prune(0)] == ["s"]


def test_the_file_can_be_copied_with_sqlites_own_means(history: Conversations, tmp_path: Path) -> None:
    history.append("s", exchange(1))
    with closing(sqlite3.connect(tmp_path / "history.sqlite")) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    history._file.close()
    shutil.copy(tmp_path / "history.sqlite", tmp_path / "copy.sqlite")
    copy = Conversations(HistoryFile(tmp_path / "copy.sqlite"), "shared")
    assert texts(copy.load("s")) == ["question 1", "answer 1"]
    copy._file.close()
