"""Conversations of other systems: what is read of them, what is read again, and that nothing of theirs is touched."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from store_support import environment, python
from transcripts import Counted, Cow, Reader, beside, chat, nested, plain, told
from vademecum.errors import MissingFileError, UnreadableFileError
from vademecum.history import Conversations, HistoryFile, json_lines, paths
from vademecum.history.chat_file import ChatFile
from vademecum.history.index_db import IndexDb
from vademecum.history.json_lines import JsonLines
from vademecum.history.own import OwnHistory
from vademecum.history.said import Said, moment, rendered, said, turns

MB = 1 << 20
SHARED = "shared"


def lines_of(file: Path, most_bytes: int = 64 * MB) -> JsonLines:
    return JsonLines("x.jsonl", SHARED, lambda: file.open("rb"), most_bytes)


def all_said(source: JsonLines) -> list[tuple[int, str, str]]:
    reader = Reader()
    reader.follow(source)
    return [(one.position, one.role, one.text) for one in reader.said()["x.jsonl"]]


# -- lines -------------------------------------------------------------------------------------------------------------


def test_plain_and_nested_lines_are_understood_and_only_what_was_said(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text(
        plain("system", "You are helpful.")
        + plain("user", "a question")
        + plain("assistant", [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "an answer"}])
        + plain("tool", "output of a tool")
        + plain("human", "another")
        + plain("ai", "one more\r\nline")
        + nested("user", "from a nested line")
        + nested("assistant", [{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "1", "name": "ls"}])
        + nested("user", [{"type": "tool_result", "tool_use_id": "1", "content": "files"}])
        + nested("user", "put in", isMeta=True)
        + nested("assistant", "of a helper", isSidechain=True)
        + nested("user", "a summary", isCompactSummary=True)
        + nested("user", "<command-name>/clear</command-name>")
        + '{"type": "summary", "summary": "of all"}\n'
        + '{"type": "user", "message": {"content": "role by type"}}\n'
        + '{"content": "of nobody"}\n[1, "content"]\n"content"\n\n'
    )
    assert all_said(lines_of(file)) == [
        (2, "user", "a question"),
        (3, "assistant", "an answer"),
        (5, "user", "another"),
        (6, "assistant", "one more\nline"),
        (7, "user", "from a nested line"),
        (8, "assistant", "I look."),
        (15, "user", "role by type"),
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-01-03T10:00:00Z", datetime(2026, 1, 3, 10, tzinfo=UTC)),
        ("2026-01-03T10:00:00.250+08:00", datetime(2026, 1, 3, 10, 0, 0, 250_000, timezone(timedelta(hours=8)))),
        ("2026-01-03 10:00", datetime.fromisoformat("2026-01-03T10:00")),
        (1_767_400_000, datetime.fromtimestamp(1_767_400_000, UTC)),
        (1_767_400_000_000, datetime.fromtimestamp(1_767_400_000, UTC)),
        (1_767_400_000.5, datetime.fromtimestamp(1_767_400_000.5, UTC)),
        *((wrong, None) for wrong in ("soon", "", None, True, [], -1, 0, float("nan"), 1e300, 10**400)),
    ],
)
def test_a_time_is_understood_in_the_usual_forms(value: object, expected: datetime | None) -> None:
    assert moment(value) == expected


def test_a_message_without_a_time_has_that_of_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text(plain("user", "a") + plain("user", "b", "2026-01-03T10:00:00Z") + plain("assistant", "c"))
    reader = Reader()
    reader.follow(lines_of(file))
    assert [one.time and one.time.day for one in reader.said()["x.jsonl"]] == [None, 3, 3]


def test_lines_that_cannot_be_read_are_named_and_cost_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "LONGEST_LINE", 200)
    file = tmp_path / "x.jsonl"
    deep = '{"role": "user", "content": ' + "[" * 60 + "\n"
    file.write_text(plain("user", "one") + deep + plain("user", "x" * 300) + plain("user", "four") + '{"content": "ha')
    reader = Reader()
    reader.follow(lines_of(file))
    assert reader.texts() == ["one", "four"]
    assert told(reader.stretches) == [
        "x.jsonl: line 2 is no JSON, and is passed over",
        "x.jsonl: line 3 is longer than 0 MB, and is passed over",
    ], "the last line may be half written, and is no fault"
    with file.open("a") as stream:
        stream.write('lf"}\n' + plain("user", "six"))
    reader.follow(lines_of(file))
    assert reader.texts() == ["one", "four", "six"]


def test_text_that_utf_8_cannot_hold_is_replaced() -> None:
    one = said(1, "user", "half \ud800 of a pair, \0 nothing, \U0001f600", None)
    assert one is not None
    assert one.text == "half \ufffd of a pair,  nothing, \U0001f600"
    assert said(1, "user", " \r\n\t", None) is None


def big(file: Path, turns: int) -> None:
    with file.open("w") as stream:
        for number in range(turns):
            stream.write(plain("user", f"question {number} " + "x" * 900))
            stream.write(plain("assistant", f"answer {number} " + "y" * 900))


def test_an_appended_line_costs_a_look_at_a_few_parts_of_a_long_file(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    big(file, 6000)  # about 11 MB
    counted, reader = Counted(file), Reader()
    source = JsonLines("x.jsonl", SHARED, counted, 64 * MB)
    reader.follow(source)
    assert len(reader.texts()) == 12_000
    for number in range(3):
        counted.read_bytes = 0
        with file.open("a") as stream:
            stream.write(plain("user", f"late {number}"))
        reader.follow(source)
        assert reader.texts()[-1] == f"late {number}"
        assert counted.read_bytes < 12 * json_lines.PART
        assert sum(len(stretch.said) for stretch in reader.stretches) < 150
    assert file.stat().st_size > 80 * json_lines.PART


def test_of_a_file_that_was_changed_elsewhere_only_the_changed_part_is_written_again(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    big(file, 3000)
    reader = Reader()
    reader.follow(lines_of(file))
    data = file.read_bytes()
    at = data.index(b"question 1500 ")
    file.write_bytes(data[:at] + b"QUESTION 1500 " + data[at + 14 :])
    reader.follow(lines_of(file))
    assert len([stretch for stretch in reader.stretches if stretch.said]) == 1
    assert any(text.startswith("QUESTION 1500") for text in reader.texts())
    with file.open("rb+") as stream:
        stream.truncate(at - at % 10)
    reader.follow(lines_of(file))
    assert len([stretch for stretch in reader.stretches if stretch.said]) == 1
    fresh = Reader()
    fresh.follow(lines_of(file))
    assert reader.said() == fresh.said()


def test_only_the_end_of_a_very_long_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    big(file, 3000)
    counted, reader = Counted(file), Reader()
    source = JsonLines("x.jsonl", SHARED, counted, MB)
    reader.follow(source)
    first = reader.said()["x.jsonl"][0].position
    assert 0.9 * MB < sum(len(line) for line in file.read_bytes().splitlines(True)[first - 1 :]) <= MB
    with file.open("a") as stream:
        stream.write("".join(plain("user", f"late {number} " + "z" * 900) for number in range(1000)))
    counted.read_bytes = 0
    reader.follow(source)
    assert counted.read_bytes < 3 * MB
    fresh = Reader()
    fresh.follow(lines_of(file, MB))
    assert reader.said() == fresh.said()
    assert reader.states == fresh.states


LINES = st.one_of(
    st.integers(0, 30).map(lambda n: plain("user", f"q{n}")),
    st.integers(0, 30).map(lambda n: plain("assistant", "a" * n)),
    st.just("no json\n"),
    st.just("\n"),
    st.integers(1, 400).map(lambda n: plain("user", "long" * n)),
)
EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(LINES, min_size=1, max_size=8).map("".join)),
        st.tuples(st.just("write"), st.lists(LINES, max_size=12).map("".join)),
        st.tuples(st.just("exchange"), st.lists(LINES, max_size=12).map("".join)),
        st.tuples(st.just("cut"), st.integers(0, 100)),
        st.tuples(st.just("insert"), st.integers(0, 100)),
        st.tuples(st.just("unfinished"), st.integers(1, 20)),
        st.tuples(st.just("killed"), st.integers(0, 4)),
        st.tuples(st.just("follow"), st.just(0)),
    ),
    min_size=1,
    max_size=12,
)


def edit(file: Path, action: str, value: object, time: int) -> None:
    """Change a file at a time of its own: clocks of file systems are coarse."""
    change(file, action, value)
    os.utime(file, ns=(time, time))


def change(file: Path, action: str, value: object) -> None:
    data = file.read_bytes()
    if action == "append":
        file.write_bytes(data + str(value).encode())
    elif action == "write":
        file.write_bytes(str(value).encode())
    elif action == "exchange":
        other = file.with_suffix(".new")
        other.write_bytes(str(value).encode())
        other.replace(file)
    elif action == "cut":
        file.write_bytes(data[: len(data) * int(str(value)) // 100])
    elif action == "insert":
        at = len(data) * int(str(value)) // 100
        file.write_bytes(data[:at] + plain("user", "in between").encode() + data[at:])
    elif action == "unfinished":
        file.write_bytes(data + plain("user", "soon")[: int(str(value))].encode())


LONG = plain("user", "long" * 40)


@settings(max_examples=300)
@example(edits=[("append", LONG), ("cut", 57), ("follow", 0), ("unfinished", 1)], most_parts=3, part=64)
@example(edits=[("append", "\n\n" + LONG * 2), ("follow", 0), ("insert", 0)], most_parts=3, part=64)
@example(edits=[("append", LONG), ("follow", 0), ("append", LONG), ("killed", 1)], most_parts=3, part=64)
@given(edits=EDITS, most_parts=st.sampled_from([3, 1000]), part=st.sampled_from([64, 256]))
def test_whatever_happens_to_a_file_what_is_held_is_what_a_fresh_reading_gives(
    edits: list[tuple[str, object]], most_parts: int, part: int
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_lines, "PART", part)
        patched.setattr(json_lines, "LONGEST_LINE", 1000)
        file = Path(folder, "x.jsonl")
        file.write_bytes(b"")
        reader = Reader()
        source = JsonLines("x.jsonl", SHARED, lambda: file.open("rb"), most_parts * part)
        for time, (action, value) in enumerate([*edits, ("follow", 0)], 1):
            if action == "killed":
                reader.follow(source, int(str(value)))
            elif action == "follow":
                reader.follow(source)
                fresh = Reader()
                fresh.follow(source)
                assert reader.said() == fresh.said()
                assert reader.states == fresh.states
                whole = list(source.read("x.jsonl", 1))
                start = fresh.said()["x.jsonl"][0].position if fresh.texts() else 10**9
                assert [one._replace(time=None) for one in whole if one.position >= start] == [
                    one._replace(time=None) for one in fresh.said()["x.jsonl"]
                ]
                late = list(source.read("x.jsonl", 4))
                assert [one[:3] for one in late] == [one[:3] for one in whole if one.position >= 4]
                assert source.last("x.jsonl") == len(file.read_bytes().splitlines())
            else:
                edit(file, action, value, time)


def test_a_change_of_equal_size_at_the_same_time_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    big(file, 3000)
    os.utime(file, ns=(1, 1))
    reader = Reader()
    reader.follow(lines_of(file))
    data = file.read_bytes()
    file.write_bytes(data.replace(b"question 1500 ", b"QUESTION 1500 "))
    os.utime(file, ns=(1, 1))
    reader.follow(lines_of(file))
    assert any(text.startswith("QUESTION 1500") for text in reader.texts())


# -- Dexter ------------------------------------------------------------------------------------------------------------


def chat_file(file: Path, most_bytes: int = MB) -> ChatFile:
    return ChatFile("sessions/chat_history.json", SHARED, file.read_bytes, most_bytes)


DAY = "2026-01-{:02}T10:00:00.000Z"


def test_the_oldest_exchange_has_the_first_number_and_keeps_it(tmp_path: Path) -> None:
    file = tmp_path / "chat_history.json"
    exchanges = [(DAY.format(day), f"question {day}", f"answer {day}") for day in range(1, 4)]
    file.write_text(chat(*exchanges))
    reader = Reader()
    reader.follow(chat_file(file))
    held = reader.said()["sessions/chat_history.json"]
    assert [(one.position, one.text) for one in held[:2]] == [(1, "question 1"), (1, "answer 1")]
    file.write_text(chat(*exchanges, (DAY.format(4), "question 4", None)))
    reader.follow(chat_file(file))
    assert reader.said()["sessions/chat_history.json"][:6] == held
    assert reader.texts()[-1] == "question 4"
    file.write_text(chat(*exchanges, (DAY.format(4), "question 4", "answer 4")))
    reader.follow(chat_file(file))
    assert reader.texts()[-1] == "answer 4"
    assert chat_file(file).last("") == 4
    assert [one.text for one in chat_file(file).read("", 4)] == ["question 4", "answer 4"]


def test_a_new_exchange_on_top_of_many_writes_one_block_again(tmp_path: Path) -> None:
    file = tmp_path / "chat_history.json"
    exchanges = [(f"2026-01-01T10:{n // 60:02}:{n % 60:02}Z", f"question {n}", f"answer {n}") for n in range(500)]
    reader = Reader()
    for count in (490, 491, 500):
        file.write_text(chat(*exchanges[:count]))
        reader.follow(chat_file(file))
    assert [(stretch.first, len(stretch.said)) for stretch in reader.stretches] == [(449, 104)]
    file.write_text(chat(*exchanges[:100]))
    reader.follow(chat_file(file))
    assert len(reader.texts()) == 200


def test_a_file_with_the_oldest_first_is_understood_too(tmp_path: Path) -> None:
    file = tmp_path / "chat_history.json"
    entries = json.loads(chat((DAY.format(1), "one", None), (DAY.format(2), "two", None)))["messages"]
    file.write_text(json.dumps(entries[::-1]))
    reader = Reader()
    reader.follow(chat_file(file))
    assert reader.texts() == ["one", "two"]


@pytest.mark.parametrize("wrong", ['{"messages": [{"id"', '{"messages": 7}', "[" * 100_000, "\xff"])
def test_a_file_that_is_no_json_now_is_refused_by_name(tmp_path: Path, wrong: str) -> None:
    file = tmp_path / "chat_history.json"
    file.write_bytes(wrong.encode("latin-1"))
    with pytest.raises(UnreadableFileError, match=r"sessions/chat_history\.json: .*is kept"):
        list(chat_file(file).changed({}))


@pytest.mark.parametrize("odd", ["", "{}", '{"messages": null}', '{"messages": [7, {}, {"userMessage": 3}]}'])
def test_a_file_without_exchanges_holds_none(tmp_path: Path, odd: str) -> None:
    file = tmp_path / "chat_history.json"
    file.write_text(odd)
    reader = Reader()
    reader.follow(chat_file(file))
    assert reader.texts() == []


def test_a_file_that_is_too_large_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "chat_history.json"
    file.write_text(chat((DAY.format(1), "x" * 1000, None)))
    with pytest.raises(UnreadableFileError, match=r"sessions\.max_mb"):
        list(chat_file(file, 500).changed({}))


# -- CowAgent ----------------------------------------------------------------------------------------------------------

COW = "memory/long-term/index.db"


@pytest.fixture
def cow(tmp_path: Path) -> Iterator[Cow]:
    made = Cow(tmp_path / "index.db")
    yield made
    made.close()


def test_sessions_of_a_running_program_are_read_with_what_stands_in_its_wal(cow: Cow) -> None:
    cow.say("web/1", "user", [{"type": "text", "text": "zebra?"}])
    cow.say("web/1", "assistant", [{"type": "tool_use", "id": "1", "name": "x", "input": {}}])
    cow.say("web/1", "user", [{"type": "tool_result", "tool_use_id": "1", "content": "rows"}])
    cow.say("web/1", "assistant", "Striped.")
    cow.say("two", "user", "other")
    before, reader = beside(cow.file), Reader()
    reader.follow(IndexDb(COW, cow.file))
    assert {path: [(one.position, one.text) for one in held] for path, held in reader.said().items()} == {
        f"{COW}/two": [(1, "other")],
        f"{COW}/web%2F1": [(1, "zebra?"), (4, "Striped.")],
    }
    assert beside(cow.file) == before
    assert [one.text for one in IndexDb(COW, cow.file).read(f"{COW}/web%2F1", 2)] == ["Striped."]
    assert IndexDb(COW, cow.file).last(f"{COW}/web%2F1") == 4
    cow.db.execute("BEGIN IMMEDIATE")
    cow.say("two", "user", "not committed")
    reader.follow(IndexDb(COW, cow.file))
    assert "not committed" not in reader.texts()
    cow.db.execute("COMMIT")
    reader.follow(IndexDb(COW, cow.file))
    assert "not committed" in reader.texts()


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_nothing_is_made_beside_a_database_that_nobody_has_open(tmp_path: Path, journal: str) -> None:
    made = Cow(tmp_path / "index.db", journal=journal)
    made.say("one", "user", "zebra?")
    made.close()
    before, reader = {part.name: part.read_bytes() for part in tmp_path.iterdir()}, Reader()
    reader.follow(IndexDb(COW, made.file))
    assert reader.texts() == ["zebra?"]
    assert {part.name: part.read_bytes() for part in tmp_path.iterdir()} == before


def test_what_a_crash_left_is_refused_by_name_and_not_touched(tmp_path: Path) -> None:
    code = """
import os, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from transcripts import Cow
cow = Cow(Path(sys.argv[1]))
cow.say("one", "user", "zebra?")
os._exit(0)
"""
    file = tmp_path / "index.db"
    python(code, file, Path(__file__).parent)
    (tmp_path / "index.db-shm").unlink()
    before = beside(file)
    with pytest.raises(UnreadableFileError, match="left by a crash"):
        list(IndexDb(COW, file).changed({}))
    assert beside(file) == before
    Cow(file).close()
    reader = Reader()
    reader.follow(IndexDb(COW, file))
    assert reader.texts() == ["zebra?"]


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_locks_that_this_process_holds_on_the_database_survive_our_reading(tmp_path: Path, journal: str) -> None:
    """Closing any descriptor of a file drops all of a process's locks on it, unless SQLite does it."""
    made = Cow(tmp_path / "index.db", journal=journal)
    made.say("one", "user", "zebra?")
    made.db.execute("BEGIN IMMEDIATE")
    Reader().follow(IndexDb(COW, made.file))
    code = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    db.execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError as error:
    print(error)
"""
    assert "locked" in python(code, made.file).stdout
    made.db.execute("COMMIT")
    made.close()


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_what_is_read_while_another_process_writes_is_what_was_committed(tmp_path: Path, journal: str) -> None:
    file = tmp_path / "index.db"
    Cow(file, journal=journal).close()
    code = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from transcripts import Cow
for number in range(60):
    cow = Cow(Path(sys.argv[1]), journal=sys.argv[3])
    cow.db.execute("BEGIN IMMEDIATE")
    for half in "ab":
        cow.say("one", "user", f"{number}{half} " + "x" * 3000)
    cow.db.execute("COMMIT")
    if number % 7 == 0:
        cow.close()
"""
    arguments = [sys.executable, "-c", code, str(file), str(Path(__file__).parent), journal]
    with subprocess.Popen(arguments, env=environment()) as writer:
        while writer.poll() is None:
            with suppress(UnreadableFileError):  # written all the time, or locked
                held = Reader()
                held.follow(IndexDb(COW, file))
                numbers = [text.split()[0] for text in held.texts()]
                assert numbers == [f"{n}{half}" for n in range(len(numbers) // 2) for half in "ab"]
    assert writer.returncode == 0
    held = Reader()
    held.follow(IndexDb(COW, file))
    assert len(held.texts()) == 120


def test_only_blocks_that_changed_are_read_again(cow: Cow) -> None:
    for number in range(200):
        cow.say("one", "user", f"message {number}")
    reader = Reader()
    reader.follow(IndexDb(COW, cow.file))
    cow.say("one", "user", "late")
    reader.follow(IndexDb(COW, cow.file))
    assert [(stretch.first, len(stretch.said)) for stretch in reader.stretches] == [(193, 9)]
    cow.db.execute("DELETE FROM messages WHERE seq BETWEEN 60 AND 70")
    reader.follow(IndexDb(COW, cow.file))
    assert [stretch.first for stretch in reader.stretches] == [1, 65]
    assert len(reader.texts()) == 190
    cow.db.execute("DELETE FROM messages WHERE seq >= 64")
    cow.say("two", "user", "other")
    reader.follow(IndexDb(COW, cow.file))
    assert len(reader.texts()) == 61
    cow.db.execute("DELETE FROM messages WHERE session_id = 'one'")
    reader.follow(IndexDb(COW, cow.file))
    assert reader.said().keys() == {f"{COW}/two"}


def test_conversations_of_one_agent_are_that_agents(tmp_path: Path) -> None:
    made = Cow(tmp_path / "index.db", agents=True)
    made.say("im", "user", "to the default agent")
    made.say("im", "user", "to bob", agent="bob")
    reader = Reader()
    reader.follow(IndexDb(COW, made.file))
    assert {stretch.path: stretch.scope for stretch in reader.stretches} == {
        f"{COW}/im": SHARED,
        f"agents/bob/{COW}/im": "agent:bob",
    }
    assert [one.text for one in IndexDb(COW, made.file).read(f"agents/bob/{COW}/im", 1)] == ["to bob"]
    made.close()


def test_what_a_scheduler_put_in_is_passed_over_and_nothing_that_only_looks_like_it(cow: Cow) -> None:
    cow.say("one", "user", "[SCHEDULED] remind me")
    cow.say("one", "assistant", "Reminder.")
    cow.say("one", "user", "Scheduled task ideas, please")
    cow.say("one", "assistant", "Here they are.")
    reader = Reader()
    reader.follow(IndexDb(COW, cow.file))
    assert reader.texts() == ["Scheduled task ideas, please", "Here they are."]


@pytest.mark.parametrize("statement", ["CREATE TABLE x(y)", "CREATE TABLE messages(id, body)"])
def test_a_database_without_conversations_has_none(tmp_path: Path, statement: str) -> None:
    file = tmp_path / "index.db"
    with closing(sqlite3.connect(file)) as db:
        db.execute(statement)
    assert list(IndexDb(COW, file).changed({})) == []
    assert IndexDb(COW, file).gone({}) == []


def test_a_database_that_is_none_or_not_there_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "index.db"
    with pytest.raises(MissingFileError, match=COW):
        list(IndexDb(COW, file).changed({}))
    file.write_bytes(b"not a database at all" * 100)
    with pytest.raises(UnreadableFileError, match=COW):
        list(IndexDb(COW, file).changed({}))


@pytest.mark.parametrize("name", ["plain", "a/b", "..", ".hidden", "x.md", "", "微信", "a b\n", "%2F", "users/ann"])
def test_a_conversations_path_is_its_own_and_no_pages(name: str) -> None:
    path = paths.of("@v/memory/long-term/index.db", "user:ann", name)
    assert path.startswith("@v/users/ann/memory/long-term/index.db/")
    rest = path.removeprefix("@v/users/ann/memory/long-term/index.db/")
    assert "/" not in rest
    assert rest
    assert not rest.startswith(".")
    assert not rest.endswith(".md")
    assert paths.file_of(path) == "@v/memory/long-term/index.db"
    assert paths.file_of("memory/long-term/index.db") is None
    assert paths.file_of("notes/page.md") is None


# -- our own -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path: Path) -> Iterator[HistoryFile]:
    file = HistoryFile(tmp_path / "history.sqlite")
    yield file
    file.close()


def test_our_own_history_is_read_by_owner_and_without_what_a_scheduler_put_in(own: HistoryFile) -> None:
    Conversations(own, "shared").append("s", [{"role": "user", "content": "for all"}])
    Conversations(own, "shared").append("s", [{"role": "user", "content": "by a clock"}], scheduled=True)
    Conversations(own, "user:ann").append("s", [{"role": "user", "content": "of ann"}])
    Conversations(own, "user:ann agent:bot").append("s", [{"role": "user", "content": "of ann and bot"}])
    Conversations(own, "agent:bot").append("s", [{"role": "user", "content": "of bot"}])
    reader = Reader()
    reader.follow(OwnHistory(own))
    assert {path: held[0].text for path, held in reader.said().items()} == {
        "history.sqlite/s": "for all",
        "users/ann/history.sqlite/s": "of ann",
        "users/ann/history.sqlite/bot/s": "of ann and bot",
        "agents/bot/history.sqlite/s": "of bot",
    }
    assert "by a clock" not in reader.texts()
    scopes = {stretch.path: stretch.scope for stretch in reader.stretches}
    assert scopes["users/ann/history.sqlite/bot/s"] == "user:ann"


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.sampled_from("abc"), st.integers(1, 80)),
        st.tuples(st.just("turn"), st.sampled_from("abc"), st.integers(0, 300)),
        st.tuples(st.just("delete"), st.sampled_from("abc"), st.just(0)),
        st.tuples(st.just("follow"), st.just(""), st.just(0)),
    ),
    max_size=10,
)


@settings(max_examples=40)
@given(steps=STEPS)
def test_whatever_happens_to_a_history_what_is_held_is_what_a_fresh_reading_gives(
    steps: list[tuple[str, str, int]],
) -> None:
    with TemporaryDirectory() as folder:
        file = HistoryFile(Path(folder, "history.sqlite"))
        talks, reader = Conversations(file, "shared"), Reader()
        for number, (action, session, count) in enumerate(steps):
            if action == "say":
                talks.append(session, [{"role": "user", "content": f"{number}.{n}"} for n in range(count)])
            elif action == "turn":
                talks.delete_turn(session, count, following=count % 2 == 0)
            elif action == "delete":
                talks.delete(session)
            else:
                reader.follow(OwnHistory(file))
        reader.follow(OwnHistory(file))
        fresh = Reader()
        fresh.follow(OwnHistory(file))
        assert reader.said() == fresh.said()
        assert reader.states == fresh.states
        file.close()


# -- turns as texts ----------------------------------------------------------------------------------------------------


def test_a_turn_is_a_question_with_its_answers() -> None:
    spoken = [Said(1, "assistant", "hello"), Said(2, "user", "a"), Said(3, "assistant", "b"), Said(4, "user", "c")]
    assert [[one.text for one in turn] for turn in turns(spoken)] == [["hello"], ["a", "b"], ["c"]]


def test_a_rendered_turn_keeps_structure_and_knows_where_each_line_was_said() -> None:
    turn = [Said(2, "user", "How?"), Said(3, "assistant", "```\ncode\n```"), Said(5, "assistant", "Done.")]
    text, positions = rendered(turn)
    assert text == "User: How?\n\nAssistant:\n```\ncode\n```\n\nDone."
    assert positions == [2, 3, 3, 3, 3, 3, 5, 5]


def test_what_is_cut_off_while_it_is_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    big(file, 300)

    def cut() -> Callable[..., object]:
        shutil.copy(file, tmp_path / "copy")
        stream = (tmp_path / "copy").open("rb")
        size = os.fstat(stream.fileno()).st_size

        class Stream:
            def __getattr__(self, name: str) -> object:
                os.truncate(tmp_path / "copy", size // 2) if name == "readline" else None
                return getattr(stream, name)

            def __enter__(self) -> Stream:
                return self

            def __exit__(self, *_: object) -> None:
                stream.close()

        return Stream()  # type: ignore[return-value]

    with pytest.raises(UnreadableFileError, match="cut off"):
        list(JsonLines("x.jsonl", SHARED, cut, MB).changed({}))  # type: ignore[arg-type]
