"""A damaged history: what can be read is saved, what cannot is counted, and the damaged file is kept."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversations import conversations, exchange, said
from store_support import python
from vademecum.errors import HistoryCorruptError
from vademecum.history import Conversations, HistoryFile, Message, salvage

PAGE = 4096


def _filled(folder: Path, sessions: int = 20, turns: int = 15) -> dict[tuple[str, str], list[Message]]:
    """Closes the file, and returns what is in it."""
    file = HistoryFile(folder / "history.sqlite")
    stored: dict[tuple[str, str], list[Message]] = {}
    for number in range(sessions):
        owner = ("shared", "user:ann")[number % 2]
        history = Conversations(file, owner)
        for turn in range(turns):
            history.append(f"s{number}", [*exchange(turn), said("long " * 50)])
        stored[owner, f"s{number}"] = history.messages_after(f"s{number}")
    file.close()
    return stored


def _all(file: HistoryFile) -> dict[tuple[str, str], list[Message]]:
    every = [(owner, Conversations(file, owner)) for owner in file.owners()]
    return {(owner, name): history.messages_after(name) for owner, history in every for name in history.ids()}


def _damage(path: Path, *pages: int) -> None:
    raw = bytearray(path.read_bytes())
    for page in pages:
        raw[page * PAGE : (page + 1) * PAGE] = bytes([0xA5]) * PAGE
    path.write_bytes(raw)


def test_a_sound_history_is_left_alone(tmp_path: Path) -> None:
    stored = _filled(tmp_path, 2)
    file = HistoryFile(tmp_path / "history.sqlite")
    before = (tmp_path / "history.sqlite").stat().st_ino
    assert salvage(file).kept is None
    assert salvage(HistoryFile(tmp_path / "none" / "history.sqlite")).kept is None
    assert (tmp_path / "history.sqlite").stat().st_ino == before
    assert _all(file) == stored
    file.close()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[tuple[str, str], list[Message]]]:
    folder = tmp_path_factory.mktemp("sound")
    stored = _filled(folder, 10)
    return (folder / "history.sqlite").read_bytes(), stored


@settings(max_examples=300 if os.environ.get("VADEMECUM_STRESS") else 30)
@given(data=st.data())
def test_whatever_pages_are_damaged_nothing_is_invented_and_the_file_is_kept(
    tmp_path_factory: pytest.TempPathFactory,
    sound: tuple[bytes, dict[tuple[str, str], list[Message]]],
    data: st.DataObject,
) -> None:
    raw, stored = sound
    path = tmp_path_factory.mktemp("damaged") / "history.sqlite"
    path.write_bytes(raw)
    _damage(path, *data.draw(st.sets(st.integers(0, len(raw) // PAGE - 1), min_size=1, max_size=4)))
    damaged = path.read_bytes()
    file = HistoryFile(path)
    problems = file.problems()
    saved = salvage(file)
    assert (saved.kept is None) == (not problems)
    assert file.problems() == []
    if saved.kept is not None:
        assert saved.kept.read_bytes() == damaged
        assert saved.messages == sum(map(len, _all(file).values()))
    known = {one.id: one for messages in stored.values() for one in messages}
    for (owner, name), messages in _all(file).items():
        if owner == "agent:salvaged":
            assert all(one.body in [other.body for other in known.values()] for one in messages)
        else:
            assert messages == [one for one in stored[owner, name] if one in messages]
    assert Conversations(file, "shared").append("s0", exchange(99))
    file.close()
    assert not list(path.parent.glob("*.new*"))


def test_a_damaged_index_costs_no_message(tmp_path: Path) -> None:
    stored = _filled(tmp_path)
    path = tmp_path / "history.sqlite"
    with closing(sqlite3.connect(path)) as db:
        roots = [row[0] for row in db.execute("SELECT rootpage FROM sqlite_master WHERE type = 'index'")]
    _damage(path, *(root - 1 for root in roots))
    file = HistoryFile(path)
    with pytest.raises(HistoryCorruptError, match="vademecum history repair"):
        Conversations(file, "shared").append("s0", exchange(1))
    saved = salvage(file)
    assert (saved.sessions, saved.messages, saved.lost) == (20, 20 * 15 * 3, 0)
    assert _all(file) == stored
    (again,) = Conversations(file, "shared").append("s0", [said("and on")])
    assert again.seq == 45
    file.close()


def test_messages_without_their_session_are_nobodys_who_could_be_meant(tmp_path: Path) -> None:
    stored = _filled(tmp_path, 4)
    path = tmp_path / "history.sqlite"
    with closing(sqlite3.connect(path)) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'sessions'").fetchone()
    _damage(path, root - 1)
    file = HistoryFile(path)
    saved = salvage(file)
    assert (saved.sessions, saved.messages) == (4, 4 * 45)
    assert file.owners() == ["agent:salvaged"]
    bodies = sorted(str([one.body for one in messages]) for messages in _all(file).values())
    assert bodies == sorted(str([one.body for one in messages]) for messages in stored.values())
    file.close()


def test_what_is_no_database_is_kept_and_a_new_one_begun(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    path.write_bytes(b"something else " * 5000)
    file = HistoryFile(path)
    saved = salvage(file)
    assert saved.kept is not None
    assert saved.kept.read_bytes() == b"something else " * 5000
    assert (saved.sessions, saved.messages) == (0, 0)
    Conversations(file, "shared").append("s", exchange(1))
    path.write_bytes(b"and again " * 5000)
    again = salvage(file)
    assert again.kept not in (None, saved.kept)
    assert saved.kept.exists()
    file.close()


def test_another_process_goes_on_in_the_mended_file(tmp_path: Path) -> None:
    _filled(tmp_path, 2)
    other = """
import sqlite3, sys
from pathlib import Path
from vademecum.history import HistoryFile, salvage
path = Path(sys.argv[1])
db = sqlite3.connect(path)
roots = [row[0] for row in db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'messages_by_turn'")]
db.close()
with path.open("r+b") as stream:
    stream.seek((roots[0] - 1) * 4096)
    stream.write(b"x" * 4096)
assert salvage(HistoryFile(path)).kept
"""
    history = conversations(tmp_path)
    assert history.load("s0")
    python(other, tmp_path / "history.sqlite")
    history.append("s0", [said("after")])
    history._file.close()
    again = conversations(tmp_path)
    assert again._file.problems() == []
    assert again.messages_after("s0")[-1].body == said("after")
    again._file.close()
