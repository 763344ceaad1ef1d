"""Conversations through the library's face: whose they are, where they are kept, that nothing goes by itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from conversations import answered, exchange, said, texts
from memories import PATIENT, OpenMemory
from store_support import python
from vademecum import AsyncMemory, Memory, Settings
from vademecum.errors import HistoryError, SettingsError, StoreError, UsageError
from vademecum.settings import HistorySettings


def _file(memory: Memory) -> Path:
    return memory.root / ".vademecum" / "history.sqlite"


def test_conversations_are_kept_beside_the_index(open_memory: OpenMemory) -> None:
    memory = open_memory()
    assert memory.history.ids() == []
    assert not _file(memory).exists()
    memory.history.append("s", exchange(1), channel="cli")
    assert _file(memory).exists()
    assert texts(memory.history.load("s")) == ["question 1", "answer 1"]


def test_each_viewer_has_conversations_of_its_own(open_memory: OpenMemory) -> None:
    for user, agent in ((None, None), ("ann", None), (None, "ann"), ("ann", "coach")):
        memory = open_memory(user=user, agent=agent)
        assert memory.history.ids() == []
        memory.history.append("s", [said(f"{user} {agent}")])
    assert texts(open_memory(user="ann").history.load("s")) == ["ann None"]
    assert texts(open_memory(user="ann", agent="coach").history.load("s")) == ["ann coach"]


def test_neither_rebuilding_nor_a_damaged_index_touches_conversations(open_memory: OpenMemory) -> None:
    memory = open_memory({"MEMORY.md": "- a note\n"})
    memory.history.append("s", exchange(1))
    memory.rebuild()
    memory.close()
    for file in (memory.root / ".vademecum").glob("index.sqlite*"):
        file.write_bytes(b"damaged")
    again = open_memory()
    assert again.search("note").hits
    assert texts(again.history.load("s")) == ["question 1", "answer 1"]


def test_a_damaged_history_costs_no_search_and_is_not_replaced(open_memory: OpenMemory) -> None:
    memory = open_memory({"MEMORY.md": "- a note\n"})
    _file(memory).write_bytes(b"no database" * 1000)
    with pytest.raises(HistoryError, match="left as it is"):
        memory.history.append("s", exchange(1))
    assert memory.search("note").hits
    assert memory.status().disabled is None
    assert _file(memory).read_bytes() == b"no database" * 1000


def test_a_damaged_history_can_be_mended_and_the_damaged_file_is_kept(open_memory: OpenMemory) -> None:
    memory = open_memory()
    memory.history.append("s", exchange(1))
    assert memory.repair_history().kept is None
    memory.close()
    damaged = _file(memory).read_bytes()[:4096] + b"?" * 4096
    _file(memory).write_bytes(damaged)
    memory = open_memory()
    saved = memory.repair_history()
    assert saved.kept is not None
    assert saved.kept.read_bytes() == damaged
    memory.history.append("s", exchange(2))
    assert len(memory.history.load("s")) == 2


def test_a_backup_that_was_put_back_and_went_on_differently_is_what_is_found(open_memory: OpenMemory) -> None:
    memory = open_memory()
    memory.history.append("s", [said("amber")])
    memory.close()
    backup = _file(memory).read_bytes()
    memory = open_memory()
    memory.history.append("s", [said("cobalt")])
    assert memory.search("cobalt").hits
    memory.close()
    _file(memory).write_bytes(backup)
    memory = open_memory()
    memory.history.append("s", [said("indigo")])
    assert [hit.text for hit in memory.search("indigo").hits] == ["User: indigo"]
    assert not any("cobalt" in hit.text for hit in memory.search("cobalt").hits)


def test_a_link_in_the_place_of_the_history_is_not_followed(open_memory: OpenMemory, tmp_path: Path) -> None:
    memory = open_memory()
    (tmp_path / "elsewhere.sqlite").touch()
    _file(memory).symlink_to(tmp_path / "elsewhere.sqlite")
    for call in (memory.history.ids, lambda: memory.history.append("s", exchange(1))):
        with pytest.raises(StoreError, match="symbolic link"):
            call()
    assert (tmp_path / "elsewhere.sqlite").stat().st_size == 0


def test_all_memories_of_a_root_share_one_history(open_memory: OpenMemory) -> None:
    first, second = open_memory(), open_memory()
    first.history.append("s", exchange(1))
    assert len(second.history.load("s")) == 2
    first.close()
    second.history.append("s", exchange(2))
    kept = second.history
    second.close()
    with pytest.raises(HistoryError, match="has been closed"):
        kept.load("s")


def test_sessions_go_by_themselves_only_if_the_settings_say_so(open_memory: OpenMemory) -> None:
    settings = Settings(embedding=PATIENT.embedding, history=HistorySettings(max_age_days=30))
    memory = open_memory(settings=settings)
    memory.history.append("old", exchange(1), at=1e9)
    memory.history.append("new", exchange(1))
    assert memory.history.ids() == ["new", "old"]  # looked for once a day, and "old" was the one just written
    memory.close()
    memory = open_memory(settings=settings)
    memory.history.append("new", exchange(2))
    assert memory.history.ids() == ["new"]
    with pytest.raises(SettingsError, match=r"history\.max_age_days = 0"):
        HistorySettings(max_age_days=0)


def test_the_age_can_be_set_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VADEMECUM_HISTORY__MAX_AGE_DAYS", "2.5")
    with Memory.open(tmp_path / "notes") as memory:
        assert memory.settings.history.max_age_days == 2.5


def test_asyncio_programs_do_the_same(tmp_path: Path) -> None:
    async def talk() -> None:
        async with await AsyncMemory.open(tmp_path / "notes", settings=PATIENT, user="ann") as memory:
            history = memory.history
            await asyncio.gather(*(history.append("s", exchange(number)) for number in range(8)))
            assert len(await history.load("s", 3)) == 6
            assert len(await history.recap("s", 2)) == 4
            assert (await history.page("s", 1, 3)).total == 8
            assert len(await history.turns("s")) == 8
            assert (await history.latest("s")).answer == 15
            assert [message.seq for message in await history.messages_after("s", 13)] == [14, 15]
            assert await history.rename("s", "talk")
            assert await history.pin("s")
            assert await history.annotate("s", {"a": 1}) == 15
            session = await history.session("s")
            assert session is not None
            assert (session.title, session.pinned, session.owner) == ("talk", True, "user:ann")
            assert (await history.sessions()).sessions == (session,)
            assert (await history.totals()).messages == 16
            assert await history.delete_turn("s", 0) == 2
            assert await history.clear_context("s") == await history.context_start("s") == 16
            await history.append("s", [said("tick"), answered("tock")], scheduled=True)
            assert await history.prune_scheduled("s", 0) == 2
            assert await history.prune(0, dry_run=True) == ()
            assert await history.last_messages("s", 1) == [await history.pop("s")]
            assert await history.delete("s")
            assert await history.ids() == []
            assert (await history.restore([(session, [])])).sessions == 1
            with pytest.raises(UsageError, match="max_turns"):
                await history.load("s", -1)

    asyncio.run(talk())


def test_a_memory_that_cannot_be_written_says_so_when_a_message_comes(tmp_path: Path) -> None:
    python(
        """
import sys
from vademecum import Memory
from vademecum.errors import VademecumError
from vademecum.memory import init
from pathlib import Path
root = Path(sys.argv[1])
init(root)
(root / ".vademecum").chmod(0o555)
try:
    with Memory.open(root) as memory:
        assert memory.history.ids() == []
        try:
            memory.history.append("s", [{"role": "user", "content": "x"}])
        except VademecumError as error:
            assert ".vademecum" in str(error), error
        else:
            raise AssertionError("stored where nothing can be stored")
finally:
    (root / ".vademecum").chmod(0o755)
""",
        tmp_path / "notes",
        unprivileged=True,
    )
