"""Flushes of what no host should hand in, and on a record that is damaged: refused by name, or done; never stuck."""

from __future__ import annotations

from pathlib import Path

import pytest

from memories import PATIENT
from vademecum import Memory
from vademecum.errors import UsageError
from vademecum.settings import RedactSettings
from vademecum.text.redact import Redactor
from vademecum.writeback import rules
from vademecum.writeback.transcript import read_messages

_LOOP: dict[str, object] = {}
_LOOP["a"] = _LOOP
_DEEP: dict[str, object] = {"type": "tool_result", "content": "x"}
for _ in range(3000):
    _DEEP = {"type": "tool_result", "content": [_DEEP]}


class _Broken:
    def model_dump(self) -> object:
        raise RuntimeError("closed")


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with Memory.open(tmp_path / "notes", settings=PATIENT) as opened:
        yield opened


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "my \0 dog"},
        {"role": "user", "content": "my \ud800 dog"},
        {"role": "user", "content": "a dog", "id": "\ud800"},
        {"role": "user", "content": "a dog", "id": "a\0b"},
        {"role": "user", "content": [{"type": ["text"], "text": "a dog"}]},
    ],
)
def test_what_no_page_can_hold_is_left_out_and_no_flush_stays_pending(memory, message):
    report = memory.flush([message], session="a\nb\0c", heading="a\0b")
    assert report.source == "rules"
    assert "dog" in report.summary
    assert memory.flush_pending() == ()
    assert memory.flush([message], session="a\nb\0c").messages == 0


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": "x", "tool_calls": 5},
        {"role": ["user"], "content": "x"},
        _Broken(),
        _Broken,
        {"role": "user", "content": [_DEEP]},
    ],
)
def test_a_message_that_cannot_be_read_is_refused_by_its_position(memory, message):
    with pytest.raises(UsageError, match="message 1"):
        memory.flush([{"role": "user", "content": "x"}, message])
    assert memory.flush_pending() == ()


@pytest.mark.parametrize("arguments", [_LOOP, {(1, 2): 3}])
def test_arguments_that_are_no_json_are_shown_all_the_same(arguments):
    block = {"type": "tool_use", "name": "look", "input": arguments}
    assert "look" in read_messages([{"role": "assistant", "content": [block]}])[0].text


def test_another_conversation_that_counts_from_1_too_is_not_taken_for_the_first(memory):
    memory.flush([{"id": 1, "role": "user", "content": "Rex is my dog."}], session="one")
    other = memory.flush([{"id": 1, "role": "user", "content": "Anna is my sister."}], session="two")
    assert (other.source, other.messages) == ("rules", 1)


def test_a_damaged_record_is_set_aside_and_keeps_nobody_from_anything(memory, tmp_path):
    memory.flush([{"role": "user", "content": "Rex is my dog."}])
    file = tmp_path / "notes/.vademecum/writeback.sqlite"
    file.write_bytes(b"no database " * 1000)
    with Memory.open(tmp_path / "notes", settings=PATIENT) as again:
        assert again.flush([{"role": "user", "content": "Anna is my sister."}]).source == "rules"
        aside = min(file.parent.glob("writeback.sqlite.corrupt-*"))
        assert aside.read_bytes().startswith(b"no database")
        assert [found.where for found in again.doctor() if found.check == "set aside"] == [str(aside)]


def test_a_record_that_cannot_be_used_keeps_no_memory_from_being_opened(memory, tmp_path):
    memory.remember("Rex is my dog.")
    (tmp_path / "notes/.vademecum/writeback.sqlite").mkdir()
    with Memory.open(tmp_path / "notes", settings=PATIENT) as again:
        assert again.search("dog")


def test_rules_see_no_half_of_a_secret():
    key = "sk-" + "a1b2c3d4e5" * 3
    said = read_messages([{"role": "user", "content": f"{'word ' * 20}{key}"}])
    (item,) = rules.summarise(said, Redactor(RedactSettings()).redact)
    assert "sk-" not in item


def test_tens_of_thousands_of_messages_are_flushed_in_one_pass(memory):
    talk = [{"role": "user", "content": f"message {number}"} for number in range(30_000)]
    report = memory.flush(talk)
    assert report.messages == 30_000
    assert report.items[-1] == "message 29999"
