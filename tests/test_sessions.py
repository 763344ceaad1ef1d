"""Conversations in the index: found with the notes, dated by themselves, true to their files, and only for who may."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedders import HashedEmbedder
from memories import PATIENT, OpenMemory, paths, query, rows, set_clock, texts, write
from test_sync import Bench
from transcripts import Cow, chat, nested, plain
from vademecum import Memory
from vademecum.errors import MissingFileError, PathError
from vademecum.history import Conversations, HistoryFile, json_lines
from vademecum.settings import SessionSettings

DAY = "2026-01-{:02}T10:00:00.000Z"
DEXTER = "sessions/chat_history.json"
COW = "memory/long-term/index.db"


@pytest.fixture
def dexter(tmp_path: Path) -> Iterator[Memory]:
    """Dexter's memory folder as a root; its chats stand beside it, in a folder that is not there yet."""
    root = tmp_path / ".dexter" / "memory"
    write(root, {"2026-01-01.md": "A note on gold.\n"})
    with Memory.open(root, settings=replace(PATIENT, timezone="UTC")) as memory:
        yield memory


def say(memory: Memory, *exchanges: tuple[str, str, str | None]) -> None:
    folder = memory.root.parent / "messages"
    folder.mkdir(exist_ok=True)
    (folder / "chat_history.json").write_text(chat(*exchanges))


def test_d32_chats_are_found_although_their_folder_was_not_there_at_the_start(dexter: Memory) -> None:
    assert paths(dexter.search("umbrella")) == []
    say(dexter, (DAY.format(2), "where is the umbrella?", "In the hall."))
    (hit,) = dexter.search("umbrella")
    assert (hit.path, hit.start_line, hit.kind, hit.date) == (DEXTER, 1, "session", "2026-01-02T10:00:00")
    assert hit.text == "User: where is the umbrella?\n\nAssistant: In the hall."
    say(dexter, (DAY.format(2), "where is the umbrella?", "In the hall."), (DAY.format(3), "and the hat?", None))
    assert [hit.start_line for hit in dexter.search("hat")] == [2]


@pytest.mark.parametrize("talk", ["chat", "history", "cow", "transcript"])
def test_a_watched_memory_hears_of_every_conversation(dexter: Memory, talk: str) -> None:
    """Chats beside the root and our own history stand where no event tells of them."""
    cow = Cow(dexter.root / COW)
    with dexter.watch():
        for number in range(3):
            assert paths(dexter.search(f"umbrella{number}")) == []
            if talk == "chat":
                say(dexter, *((DAY.format(n + 1), f"umbrella{n}", None) for n in range(number + 1)))
            elif talk == "history":
                dexter.history.append("s", [{"role": "user", "content": f"umbrella{number}"}])
            elif talk == "cow":
                cow.say("s", "user", f"umbrella{number}")
            else:
                with (dexter.root / "talk.jsonl").open("a") as stream:
                    stream.write(plain("user", f"umbrella{number}"))
            assert len(dexter.search(f"umbrella{number}")) == 1
    cow.close()


def test_a_chat_fades_by_its_own_time_however_often_it_is_indexed(
    dexter: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clock(monkeypatch, datetime(2026, 3, 3, tzinfo=UTC))
    say(dexter, ("2026-01-02T10:00:00Z", "old umbrella", None), ("2026-03-03T10:00:00Z", "new umbrella", None))
    for _ in range(3):
        dexter.sync()
        decays = {hit.text: hit.trace.decay for hit in dexter.search("umbrella")}
        assert decays["User: new umbrella"] == 1
        assert decays["User: old umbrella"] == pytest.approx(0.9 + 0.1 / 4)


def test_the_day_of_a_chat_is_the_users(tmp_path: Path) -> None:
    root = tmp_path / ".dexter" / "memory"
    root.mkdir(parents=True)
    for zone, day in (("UTC", "2026-01-02"), ("Asia/Shanghai", "2026-01-03")):
        with Memory.open(root, settings=replace(PATIENT, timezone=zone)) as memory:
            say(memory, ("2026-01-02T20:00:00.000Z", "umbrella", None))
            (hit,) = memory.search("umbrella")
            assert (hit.date or "")[:10] == day
            assert paths(memory.search("umbrella", since=day, until=day)) == [DEXTER]


def test_sixty_turns_synced_one_by_one_leave_the_rows_of_a_fresh_index(dexter: Memory) -> None:
    exchanges = [(f"2026-01-01T10:{n:02}:00Z", f"question {n} on gold", f"answer {n}") for n in range(60)]
    for count in range(1, 61):
        say(dexter, *exchanges[:count])
        dexter.sync()
    lived = rows(dexter)
    assert len(lived) == 61
    ids = {text: number for number, text in query(dexter, "SELECT id, text FROM chunks")}
    dexter.rebuild()
    assert rows(dexter) == lived
    say(dexter, *exchanges, ("2026-01-02T10:00:00Z", "one more", None))
    before = {text: number for number, text in query(dexter, "SELECT id, text FROM chunks")}
    dexter.sync()
    after = {text: number for number, text in query(dexter, "SELECT id, text FROM chunks")}
    assert before.items() <= after.items(), "chunks that did not change keep their ids"
    assert len(ids) == 61


def test_a_half_written_chat_file_keeps_what_is_known_and_is_named_until_it_is_whole(dexter: Memory) -> None:
    say(dexter, (DAY.format(2), "where is the umbrella?", None))
    assert len(dexter.search("umbrella")) == 1
    file = dexter.root.parent / "messages" / "chat_history.json"
    whole = chat((DAY.format(2), "where is the umbrella?", None), (DAY.format(3), "and the hat?", None))
    file.write_text(whole[: len(whole) // 2])
    for _ in range(2):
        result = dexter.search("umbrella")
        assert paths(result) == [DEXTER]
        assert any(DEXTER in notice and "is kept" in notice for notice in result.notices)
    report = dexter.sync()
    assert [path for path, _ in report.failed] == [DEXTER]
    file.write_text(whole)
    assert paths(dexter.search("hat")) == [DEXTER]
    assert dexter.sync().failed == ()


def test_conversations_can_be_left_out_and_taken_in_again(tmp_path: Path) -> None:
    root = tmp_path / "notes"
    write(root, {"MEMORY.md": "gold\n", "talk.jsonl": plain("user", "gold talk")})
    for wanted in (True, False, True):
        with Memory.open(root, settings=replace(PATIENT, index_sessions=wanted)) as memory:
            memory.history.append("chat", [{"role": "user", "content": "gold chat"}])
            found = set(paths(memory.search("gold")))
            assert found == {"MEMORY.md"} | ({"talk.jsonl", "history.sqlite/chat"} if wanted else set())
            assert memory.sync().failed == ()
            if not wanted:
                for path in ("talk.jsonl", "history.sqlite/chat"):
                    with pytest.raises(PathError):
                        memory.get(path)


def test_a_deleted_transcript_is_forgotten_and_a_moved_one_is_not_embedded_again(open_memory: OpenMemory) -> None:
    embedder = HashedEmbedder()
    talk = nested("user", "gold?") + nested("assistant", [{"type": "text", "text": "Gold."}])
    memory = open_memory({"a/talk.jsonl": talk}, embedder=embedder)
    memory.sync()
    count = len(embedder.texts)
    (memory.root / "a" / "talk.jsonl").rename(memory.root / "other.jsonl")
    assert paths(memory.search("gold")) == ["other.jsonl"]
    assert len(embedder.texts) == count
    (memory.root / "other.jsonl").unlink()
    assert paths(memory.search("gold")) == []
    assert query(memory, "SELECT count(*) FROM chunks") == [(0,)]


def test_hits_can_be_read_with_what_stands_around_them(open_memory: OpenMemory) -> None:
    lines = [plain("user", f"question {n}") + plain("assistant", f"answer {n}") for n in range(30)]
    memory = open_memory({"talk.jsonl": "".join(lines)})
    (hit,) = [hit for hit in memory.search("question 17") if "question 17" in hit.text]
    assert (hit.start_line, hit.end_line) == (35, 36)
    excerpt = memory.get(hit.path, start=hit.start_line - 2, lines=4)
    assert excerpt.text == "User: question 16\n\nAssistant: answer 16\n\nUser: question 17\n\nAssistant: answer 17"
    assert (excerpt.start_line, excerpt.end_line, excerpt.total_lines, excerpt.truncated) == (33, 36, 60, False)
    beyond = memory.get(hit.path, start=100)
    assert (beyond.text, beyond.end_line, beyond.total_lines) == ("", 0, 60)


def test_reading_a_conversation_ends_at_its_cap_and_can_go_on_from_there(open_memory: OpenMemory) -> None:
    lines = [plain("user", f"question {n} " + "x" * 5000) for n in range(30)]
    memory = open_memory({"talk.jsonl": "".join(lines), "long.jsonl": plain("user", "é" * 100_000)})
    first = memory.get("talk.jsonl")
    assert first.truncated
    assert len(first.text.encode()) <= 65_536
    rest = memory.get("talk.jsonl", start=first.end_line + 1)
    assert rest.text.startswith(f"User: question {first.end_line} ")
    whole = memory.get("long.jsonl")
    assert whole.truncated
    assert len(whole.text.encode()) <= 65_536


@pytest.mark.parametrize(
    "path",
    ["none.jsonl", "messages/chat_history.json", f"{COW}/none", "history.sqlite/none", "users/x/history.sqlite/y"],
)
def test_a_conversation_that_is_not_there_is_an_error(open_memory: OpenMemory, path: str) -> None:
    with pytest.raises((MissingFileError, PathError)):
        open_memory({"MEMORY.md": "x"}).get(path)


@pytest.mark.parametrize("path", ["../x.jsonl", "/etc/x.jsonl", ".vademecum/x.jsonl", "a\\b.jsonl", "x\0.jsonl", COW])
def test_no_other_file_is_read_as_a_conversation(open_memory: OpenMemory, path: str) -> None:
    with pytest.raises(PathError):
        open_memory({"MEMORY.md": "x"}).get(path)


def test_links_to_transcripts_are_not_followed_and_named(open_memory: OpenMemory, tmp_path: Path) -> None:
    memory = open_memory({"MEMORY.md": "gold"})
    write(tmp_path, {"secret.jsonl": plain("user", "gold secret"), "elsewhere/chat_history.json": chat()})
    (memory.root / "talk.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (memory.root / "messages").symlink_to(tmp_path / "elsewhere")
    result = memory.search("gold")
    assert paths(result) == ["MEMORY.md"]
    assert any(notice.startswith("talk.jsonl: skipped") for notice in result.notices)
    assert any(notice.startswith("messages/chat_history.json: skipped") for notice in result.notices)
    for path in ("talk.jsonl", "messages/chat_history.json"):
        with pytest.raises(PathError):
            memory.get(path)


def test_cowagents_sessions_are_found_and_its_index_is_left_alone(open_memory: OpenMemory) -> None:
    memory = open_memory({"memory/2026-01-01.md": "a note"})
    cow = Cow(memory.root / COW)
    cow.say("web/1", "user", [{"type": "text", "text": "where are the zebras?"}], at=1_767_400_000)
    cow.say("web/1", "assistant", [{"type": "text", "text": "In Africa."}], at=1_767_400_009)
    cow.db.execute("INSERT INTO chunks VALUES ('x', 'zebra chunk of the other system')")
    (hit,) = memory.search("zebras")
    assert (hit.path, hit.start_line, hit.end_line) == (f"{COW}/web%2F1", 1, 2)
    assert memory.get(hit.path).text == hit.text == "User: where are the zebras?\n\nAssistant: In Africa."
    cow.say("two", "user", "more zebras")
    assert set(paths(memory.search("zebras"))) == {f"{COW}/web%2F1", f"{COW}/two"}
    cow.db.execute("DELETE FROM messages WHERE session_id = 'web/1'")
    assert paths(memory.search("zebras")) == [f"{COW}/two"]
    assert cow.db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    cow.close()
    assert paths(memory.search("zebras")) == [f"{COW}/two"]
    (memory.root / COW).unlink()
    assert paths(memory.search("zebras")) == []
    assert query(memory, "SELECT path FROM files ORDER BY path") == [("memory/2026-01-01.md",)]


def test_3m_nobody_finds_or_reads_conversations_of_others(open_memory: OpenMemory) -> None:
    shared = open_memory({"memory/users/ann/talk.jsonl": plain("user", "gold of ann")})
    ann, bob = open_memory(user="ann"), open_memory(user="bob")
    both = open_memory(user="ann", agent="bot")
    ann.history.append("s", [{"role": "user", "content": "gold history of ann"}])
    both.history.append("s", [{"role": "user", "content": "gold history of ann and bot"}])
    shared.history.append("s", [{"role": "user", "content": "gold for all"}])
    cow = Cow(shared.root / COW, agents=True)
    cow.say("im", "user", "gold for the agent", agent="bot")
    cow.close()
    private = {"memory/users/ann/talk.jsonl", "users/ann/history.sqlite/s", "users/ann/history.sqlite/bot/s"}
    agents = {f"agents/bot/{COW}/im"}
    everybodys = {"history.sqlite/s"}

    def found(memory: Memory) -> set[str]:
        return set(paths(memory.search("gold", max_results=50)))

    assert found(shared) == found(bob) == everybodys
    assert found(ann) == everybodys | private
    assert found(both) == everybodys | private | agents
    for path in private | agents:
        assert both.get(path).text.startswith("User: gold")
        with pytest.raises(PathError, match="somebody else"):
            bob.get(path)
    assert "ann" not in json.dumps([*bob.search("gold").notices, *bob.status().notices])


def test_our_own_history_is_found_in_the_next_search_and_forgotten_with_its_session(open_memory: OpenMemory) -> None:
    memory = open_memory({"MEMORY.md": "gold"})
    memory.history.append(
        "a/b", [{"role": "user", "content": "a gold question"}, {"role": "assistant", "content": "ok"}]
    )
    hits = memory.search("gold question")
    assert paths(hits)[0] == "history.sqlite/a%2Fb"
    assert memory.get("history.sqlite/a%2Fb").text == "User: a gold question\n\nAssistant: ok"
    memory.history.append("a/b", [{"role": "user", "content": "more gold"}])
    assert "more gold" in texts(memory.search("more gold"))
    memory.history.delete("a/b")
    assert paths(memory.search("gold")) == ["MEMORY.md"]


def test_transcripts_in_extra_folders_are_found_too(open_memory: OpenMemory, tmp_path: Path) -> None:
    vault = tmp_path / "project"
    write(vault, {"one.jsonl": nested("user", "gold in the vault"), "page.md": "x"})
    write(vault, {"messages/chat_history.json": chat((DAY.format(2), "gold in a chat", None))})
    Cow(vault / COW).say("im", "user", "gold for the cow")
    settings_ = replace(PATIENT, roots=(f"p={vault}",))
    memory = open_memory({"MEMORY.md": "x"}, settings=settings_)
    expected = {"@p/one.jsonl", "@p/messages/chat_history.json", f"@p/{COW}/im"}
    assert set(paths(memory.search("gold"))) == expected
    for path in expected:
        assert "gold" in memory.get(path).text
    vault.rename(tmp_path / "away")
    result = memory.search("gold")
    assert set(paths(result)) == expected
    assert any(notice.startswith("@p: ") for notice in result.notices)


def test_a_long_transcript_is_searched_at_its_end_and_that_is_said(open_memory: OpenMemory) -> None:
    lines = [plain("user", f"question {n} " + "x" * 4000) for n in range(600)]
    small = replace(PATIENT, sessions=SessionSettings(max_mb=1))
    memory = open_memory({"talk.jsonl": "".join(lines)}, settings=small)
    result = memory.search("question 599")
    assert paths(result)[:1] == ["talk.jsonl"]
    assert any("only its newest 1 MB are searched" in notice for notice in result.notices)
    assert "question 3 " not in texts(memory.search("question 3", max_results=50))
    assert memory.get("talk.jsonl", start=4, lines=1).text.startswith("User: question 3 ")


def test_a_transcript_without_times_has_the_day_of_its_name(open_memory: OpenMemory) -> None:
    memory = open_memory({"2026-01-11-standup.jsonl": plain("user", "gold"), "talk.jsonl": plain("user", "gold too")})
    assert {hit.path: hit.date for hit in memory.search("gold")} == {
        "2026-01-11-standup.jsonl": "2026-01-11",
        "talk.jsonl": None,
    }


def test_a_page_with_the_ignore_rules_keeps_transcripts_out(open_memory: OpenMemory) -> None:
    memory = open_memory({".vademecumignore": "*.jsonl\n", "talk.jsonl": plain("user", "gold"), "MEMORY.md": "gold"})
    assert paths(memory.search("gold")) == ["MEMORY.md"]


def test_an_index_of_an_older_version_is_brought_up_and_kept(open_memory: OpenMemory, tmp_path: Path) -> None:
    root = tmp_path / "notes"
    write(root, {"MEMORY.md": "gold"})
    with Memory.open(root, settings=PATIENT) as memory:
        memory.sync()
    with closing(sqlite3.connect(root / ".vademecum" / "index.sqlite")) as db:
        db.executescript(
            "DROP INDEX chunks_file; CREATE INDEX chunks_file ON chunks(file_id); PRAGMA user_version = 1;"
        )
    with Memory.open(root, settings=PATIENT) as memory:
        assert memory.sync().chunks == 0
        ((sql,),) = query(memory, "SELECT sql FROM sqlite_master WHERE name = 'chunks_file'")
        assert "start_line" in str(sql)


# -- the index equals the files ----------------------------------------------------------------------------------------


WORDS = st.sampled_from(
    ["gold", "the broker is Fidelity", "the broker is Schwab", "风险偏好", "```\ncode\n```", "# A\n\ntext"]
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("line"), WORDS),
        st.tuples(st.just("cut"), WORDS),
        st.tuples(st.just("chat"), WORDS),
        st.tuples(st.just("half"), WORDS),
        st.tuples(st.just("cow"), WORDS),
        st.tuples(st.just("forget"), WORDS),
        st.tuples(st.just("own"), WORDS),
        st.tuples(st.just("delete"), st.sampled_from(["talk.jsonl", "messages/chat_history.json", "own"])),
        st.tuples(st.just("page"), WORDS),
        st.tuples(st.just("sync"), WORDS),
    ),
    min_size=1,
    max_size=14,
)


class World:
    """What happens to the files of one root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cow = Cow(root / COW)
        self.history = HistoryFile(root / ".vademecum" / "history.sqlite")
        self.chats: list[tuple[str, str, str | None]] = []
        self.count = 0

    def do(self, action: str, value: str) -> None:
        self.count += 1
        talk, messages = self.root / "talk.jsonl", self.root / "messages" / "chat_history.json"
        own = Conversations(self.history, "shared")
        if action == "line":
            role = "user" if self.count % 3 else "assistant"
            with talk.open("a") as stream:
                stream.write(plain(role, value, 1_767_000_000 + self.count))
        elif action == "cut" and talk.exists():
            data = talk.read_bytes()
            talk.write_bytes(data[: len(data) // 2])
        elif action in ("chat", "half"):
            messages.parent.mkdir(exist_ok=True)
            if action == "chat":
                self.chats.append((f"2026-01-01T10:{self.count:02}:00Z", value, None))
            whole = chat(*self.chats)
            messages.write_text(whole if action == "chat" else whole[:-9])
        elif action == "cow":
            self.cow.say(f"s{self.count % 2}", "user", value)
        elif action == "forget":
            self.cow.db.execute("DELETE FROM messages WHERE id = (SELECT min(id) FROM messages)")
        elif action == "own":
            own.append(f"s{self.count % 2}", [{"role": "user", "content": value}], at=1_767_000_000)
        elif action == "delete" and value == "own":
            own.delete("s1")
        elif action == "delete":
            (self.root / value).unlink(missing_ok=True)
            self.chats = [] if "chat" in value else self.chats
        elif action == "page":
            write(self.root, {"MEMORY.md": value})

    def mend(self) -> None:
        """A file that is half written is whole in the end."""
        messages = self.root / "messages" / "chat_history.json"
        if messages.exists():
            messages.write_text(chat(*self.chats))

    def close(self) -> None:
        self.cow.close()
        self.history.close()


@settings(max_examples=80)
@given(steps=STEPS)
def test_after_anything_that_is_said_the_index_equals_a_fresh_build(steps: list[tuple[str, str]]) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_lines, "PART", 128)
        root = Path(folder, "root")
        root.mkdir()
        world = World(root)
        lived = Bench(root, Path(folder, "lived"), HashedEmbedder(), history=world.history)
        for action, value in steps:
            world.do(action, value)
            if action == "sync":
                lived.syncer.run()
        world.mend()
        lived.syncer.run()
        fresh = Bench(root, Path(folder, "fresh"), HashedEmbedder(), history=world.history)
        fresh.syncer.run()
        assert lived.rows() == fresh.rows()
        assert lived.vocabulary() == fresh.vocabulary()
        assert lived.syncer.plan().empty
        assert lived.syncer.missing_vectors() == 0
        lived.sound()
        lived.close()
        fresh.close()
        world.close()


def test_a_damaged_history_costs_no_note_and_is_named(open_memory: OpenMemory) -> None:
    memory = open_memory({"MEMORY.md": "gold"})
    memory.history.append("s", [{"role": "user", "content": "gold talk"}])
    assert len(memory.search("gold")) == 2
    memory.close()
    (memory.root / ".vademecum" / "history.sqlite").write_bytes(b"not a database" * 300)
    again = open_memory()
    result = again.search("gold")
    assert set(paths(result)) == {"MEMORY.md", "history.sqlite/s"}
    assert any("history.sqlite" in notice and "is kept" in notice for notice in result.notices)
