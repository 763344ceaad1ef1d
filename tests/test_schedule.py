"""The nightly work: at the right moment of the user's day, once whatever sleeps, restarts or runs beside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time as clock
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from memories import PATIENT, write
from vademecum import Memory
from vademecum.errors import StoreError, UsageError
from vademecum.writeback import schedule
from vademecum.writeback.schedule import Night, Schedule, due, last_due, time_of_day

BERLIN = ZoneInfo("Europe/Berlin")
AT = time(23, 50)


class Hand:
    """A clock that a test turns; schedules look at it every moment."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "_LOOK_SECONDS", 0.01)


def comes_true(condition: Callable[[], object], seconds: float = 10.0) -> bool:
    end = clock.monotonic() + seconds
    while not condition() and clock.monotonic() < end:
        clock.sleep(0.005)
    return bool(condition())


def test_the_time_is_meant_in_the_users_zone_also_when_the_clocks_change():
    spring, autumn = date(2026, 3, 29), date(2026, 10, 25)
    noon = datetime(2026, 3, 28, 12, tzinfo=BERLIN)
    assert due(spring, time(2, 30), noon).astimezone(UTC) == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert due(autumn, time(2, 30), noon).astimezone(UTC) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert due(spring, AT, noon).astimezone(UTC) == datetime(2026, 3, 29, 21, 50, tzinfo=UTC)
    assert last_due(datetime(2026, 3, 29, 23, 49, tzinfo=BERLIN), AT) == date(2026, 3, 28)
    assert last_due(datetime(2026, 3, 29, 23, 50, tzinfo=BERLIN), AT) == spring


def test_every_night_is_worked_on_once_and_the_first_start_catches_up_with_nothing(tmp_path):
    hand, nights = Hand(datetime(2026, 3, 1, 12, tzinfo=BERLIN)), []
    with Schedule(tmp_path, AT, hand, lambda: nights.append(hand.now.date())):
        clock.sleep(0.1)
        assert nights == []
        for day in range(1, 4):
            hand.now = datetime(2026, 3, day, 23, 51, tzinfo=BERLIN)
            assert comes_true(lambda day=day: len(nights) == day)
        clock.sleep(0.1)
    assert nights == [date(2026, 3, day) for day in range(1, 4)]


def test_a_night_that_was_slept_through_is_caught_up_with_once(tmp_path):
    hand, nights = Hand(datetime(2026, 3, 1, 12, tzinfo=BERLIN)), []
    with Schedule(tmp_path, AT, hand, lambda: nights.append(1)):
        hand.now += timedelta(days=9)
        assert comes_true(lambda: nights)
        clock.sleep(0.1)
    hand.now += timedelta(days=3)
    with Schedule(tmp_path, AT, hand, lambda: nights.append(2)):
        assert comes_true(lambda: 2 in nights)
    assert nights == [1, 2]


def test_two_processes_do_the_work_of_one_night_once(tmp_path):
    hand, nights, both = Hand(datetime(2026, 3, 1, 12, tzinfo=BERLIN)), [], threading.Barrier(2)

    def begin(name: str) -> None:
        with Schedule(tmp_path, AT, hand, lambda: nights.append(name)):
            both.wait()
            comes_true(lambda: Night(tmp_path).is_done(date(2026, 3, 1)))
            clock.sleep(0.1)

    threads = [threading.Thread(target=begin, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    clock.sleep(0.05)
    hand.now += timedelta(hours=12)
    for thread in threads:
        thread.join()
    assert len(nights) == 1


@pytest.mark.parametrize("kind", [StoreError, TimeoutError, ZeroDivisionError])
def test_a_night_whose_work_fails_is_tried_again_and_the_reason_is_told(tmp_path, kind):
    hand, tries = Hand(datetime(2026, 3, 1, 12, tzinfo=BERLIN)), []

    def fail() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise kind("the disk is full")

    with Schedule(tmp_path, AT, hand, fail, retry_s=0.05) as running:
        hand.now += timedelta(hours=12)
        assert comes_true(lambda: running.problem == "the disk is full")
        assert comes_true(lambda: len(tries) == 3 and running.problem is None)


@pytest.mark.parametrize("text", ["24:00", "7", "", "noon", "12:60", "-1:00"])
def test_a_time_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match="23:50"):
        time_of_day(text)


class Scribe:
    """A model that keeps every item and takes down what it is shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def complete(self, messages, *, max_tokens=None, json=False):
        from vademecum.types import ChatReply

        self.shown.append(messages[-1]["content"])
        if not json:
            return ChatReply(f"- a talk of {messages[-1]['content'].count('User:')} questions")
        ids = [line.partition(":")[0] for line in self.shown[-1].splitlines() if line.startswith("M")]
        return ChatReply(_json({"memory": [{"id": name} for name in ids], "dropped": [], "diary": "d"}))


_json = json.dumps


def test_what_cannot_be_dreamt_of_for_one_user_keeps_nobody_else_from_it(tmp_path):
    write(tmp_path, {"memory/users/bert/MEMORY.md": "x", "MEMORY.md": "- a\n"})
    (tmp_path / "memory/users/bert/MEMORY.md").write_bytes(b"\xff\xfe\x00broken\xff")
    with Memory.open(tmp_path, settings=replace(PATIENT, timezone="UTC"), chat=Scribe()) as memory:
        today = memory._core.today()
        write(tmp_path, {f"memory/users/{name}/{today}.md": "- note\n" for name in ("bert", "carl")})
        (tmp_path / f"memory/users/carl/{today - timedelta(days=1)}.md").write_bytes(b"\xff\xfe\x00broken\xff")
        reports = memory.nightly()
    assert [report.state for report in reports] == ["nothing new", "failed", "done"]
    assert "user:bert" in reports[1].reason


def test_a_clock_that_was_far_ahead_once_does_not_end_all_nights(tmp_path):
    Night(tmp_path).done(date(2031, 1, 1))
    assert not Night(tmp_path).is_done(date(2026, 3, 1))
    Night(tmp_path).done(date(2026, 3, 2))
    assert Night(tmp_path).is_done(date(2026, 3, 1))


def test_a_night_summarises_sessions_that_went_on_and_dreams_for_everybody(tmp_path):
    scribe = Scribe()
    settings = replace(PATIENT, timezone="UTC")
    with Memory.open(tmp_path, settings=settings, chat=scribe) as memory:
        with Memory.open(tmp_path, user="anna", settings=settings, chat=scribe) as anna:
            anna.remember("Anna's own note.", daily=True)
            anna.history.append("s", [{"role": "user", "content": "one"}, {"role": "assistant", "content": "1"}])
        memory.history.append("s", [{"role": "user", "content": "uno"}, {"role": "assistant", "content": "1"}])
        states = [report.state for report in memory.nightly()]
        assert states == ["done", "done"]
        today = memory._core.today()
        for folder in ("memory", "memory/users/anna"):
            assert "a talk of 1 questions" in (tmp_path / folder / f"{today}.md").read_text()
        assert "uno" in scribe.shown[0] and "uno" not in scribe.shown[1]
        asked = len(scribe.shown)
        memory.nightly()
        assert len(scribe.shown) == asked
        memory.history.append("s", [{"role": "user", "content": "due"}, {"role": "assistant", "content": "2"}])
        memory.nightly()
        assert [text for text in scribe.shown[asked:] if "due" in text] and "uno" not in scribe.shown[asked]


def test_what_a_scheduler_asked_reaches_no_summary_of_the_night(tmp_path):
    scribe = Scribe()
    with Memory.open(tmp_path, settings=replace(PATIENT, timezone="UTC"), chat=scribe) as memory:
        memory.history.append("s", [{"role": "user", "content": "secret timer"}], scheduled=True)
        memory.nightly()
    assert scribe.shown == []


def test_serve_ends_cleanly_when_told_to(tmp_path):
    write(tmp_path, {"MEMORY.md": "x\n"})
    environ = {**os.environ, "VADEMECUM_EMBEDDING__PROVIDER": "none"}
    command = [sys.executable, "-m", "vademecum", "--root", str(tmp_path), "serve", "--nightly", "23:50", "--json"]
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert json.loads(process.stdout.readline())["event"] == "serving"
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, b"")


def test_serve_once_does_the_work_of_a_night_and_says_what_it_lacks(tmp_path, monkeypatch, capsys):
    from vademecum.cli import main

    monkeypatch.setenv("VADEMECUM_EMBEDDING__PROVIDER", "none")
    write(tmp_path, {"MEMORY.md": "x\n"})
    assert main(["--root", str(tmp_path), "serve", "--once"]) == 0
    assert "nothing new" in capsys.readouterr().out
    assert main(["--root", str(tmp_path), "serve", "--nightly", "25:00"]) == 2
    assert Path(tmp_path / "MEMORY.md").read_text() == "x\n"
