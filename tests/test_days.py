"""One "today", the user's, and calendar days whatever the clocks do: some days have 23 hours, some 25, some none."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vademecum
from memories import PATIENT, OpenMemory, paths, set_clock
from vademecum import Memory
from vademecum.rank.decay import factor
from vademecum.settings import DecaySettings

# Zones whose clocks change at midnight, by half an hour, or by a whole day.
ZONES = (
    "UTC", "America/New_York", "Europe/Berlin", "Asia/Shanghai", "Pacific/Kiritimati", "Pacific/Pago_Pago",
    "America/Sao_Paulo", "Asia/Beirut", "Africa/Cairo", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu",
)  # fmt: skip
#: Moments at which the clocks changed in one of these zones.
CHANGES = [
    datetime(2026, 3, 8, 7, tzinfo=UTC),  # New York, 02:00 becomes 03:00
    datetime(2026, 11, 1, 6, tzinfo=UTC),  # and 02:00 becomes 01:00
    datetime(2026, 3, 29, 1, tzinfo=UTC),  # Berlin
    datetime(2018, 11, 4, 3, tzinfo=UTC),  # São Paulo: midnight becomes 01:00
    datetime(2018, 2, 18, 2, tzinfo=UTC),  # and midnight becomes 23:00 of the day before
    datetime(2026, 3, 28, 22, tzinfo=UTC),  # Beirut: midnight becomes 01:00
    datetime(2026, 4, 23, 22, tzinfo=UTC),  # Cairo: midnight becomes 01:00
    datetime(2026, 4, 4, 15, tzinfo=UTC),  # Lord Howe: half an hour back
    datetime(2011, 12, 30, 10, tzinfo=UTC),  # Apia: Thursday is followed by Saturday
]
NEAR = st.builds(
    lambda change, minutes: change + timedelta(minutes=minutes),
    st.sampled_from(CHANGES),
    st.integers(-36 * 60, 36 * 60),
)
MOMENTS = st.one_of(NEAR, st.datetimes(datetime(1990, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001


@pytest.fixture(scope="module")
def memories() -> Iterator[dict[str, Memory]]:
    """An open memory for each zone."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        yield {
            zone: stack.enter_context(Memory.open(Path(folder, str(number)), settings=replace(PATIENT, timezone=zone)))
            for number, zone in enumerate(ZONES)
        }


@settings(max_examples=60)
@given(zone=st.sampled_from(ZONES), moment=MOMENTS)
def test_every_part_means_the_same_day_at_every_moment(
    memories: dict[str, Memory], zone: str, moment: datetime
) -> None:
    day = moment.astimezone(ZoneInfo(zone)).date()
    before = day - timedelta(days=1)
    memory = memories[zone]
    with pytest.MonkeyPatch.context() as patch:
        set_clock(patch, moment)
        for page in memory.root.glob("memory/*.md"):
            page.unlink()
        (memory.root / f"memory/{before}.md").write_text("a zebra of yesterday")
        written = memory.remember("a zebra of today", daily=True)
        assert written.path == memory.get("daily").path == f"memory/{day}.md"
        assert memory.status().today == day.isoformat()
        assert memory.context().files == (f"memory/{day}.md", f"memory/{before}.md")
        assert paths(memory.search("zebra", since="today")) == [written.path]
        assert paths(memory.search("zebra", until="yesterday")) == [f"memory/{before}.md"]
        assert len(memory.search("zebra", since="1d", until="0d")) == 2
        decay = {hit.date: hit.trace.decay for hit in memory.search("zebra")}
        assert decay == {
            day.isoformat(): 1.0,
            before.isoformat(): factor(before.isoformat(), day, memory.settings.decay),
        }


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.strftime("%Y-%m-%d"))
@pytest.mark.parametrize("zone", ZONES)
def test_a_memory_that_stays_open_goes_over_to_the_next_day(
    memories: dict[str, Memory], monkeypatch: pytest.MonkeyPatch, zone: str, change: datetime
) -> None:
    """Every quarter of an hour round a change of the clocks: days follow one another and none is begun twice."""
    begun: list[date] = []
    for quarter in range(-4 * 30, 4 * 30):
        set_clock(monkeypatch, change + timedelta(minutes=15 * quarter))
        today = memories[zone]._core.today()
        if begun[-1:] != [today]:
            begun.append(today)
    # Only São Paulo's clocks ever went back over midnight: there the evening came twice, and so did its day.
    twice = zone == "America/Sao_Paulo" and change == datetime(2018, 2, 18, 2, tzinfo=UTC)
    assert begun == sorted(set(begun)) or twice
    assert {later - sooner for sooner, later in pairwise(begun)} <= {
        timedelta(days=1),
        *([timedelta(days=2)] if zone == "Pacific/Apia" else []),
        *([timedelta(days=-1)] if twice else []),
    }


def test_a_day_more_is_a_day_older_whatever_its_hours() -> None:
    policy = DecaySettings(half_life_days=1, floor=0)
    days = [date(2026, 1, 1) + timedelta(days=number) for number in range(366)]
    assert {factor(day.isoformat(), day + timedelta(days=1), policy) for day in days} == {0.5}
    assert {factor(day.isoformat(), day - timedelta(days=1), policy) for day in days} == {1.0}


def test_without_a_setting_the_systems_zone_counts(open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = datetime(2026, 3, 4, 19, 53, tzinfo=UTC)
    set_clock(monkeypatch, moment)
    memory = open_memory(settings=PATIENT)
    assert memory.remember("a zebra", daily=True).path == f"memory/{moment.astimezone().date()}.md"


def test_nobody_else_looks_at_the_calendar() -> None:
    """A second idea of "today" is how daily files got the wrong name elsewhere."""
    found = set()
    source = Path(vademecum.__file__).parent
    for file in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr in ("now", "today", "utcnow", "localtime", "ctime"):
                owner = ast.unparse(called.value)
                if owner.split(".")[-1] in ("datetime", "date", "time"):
                    found.add((file.relative_to(source).as_posix(), f"{owner}.{called.attr}"))
    # What a provider's Retry-After leaves to wait for is a span, when something was written is a moment, and a method
    # without a memory knows no zone but the system's.
    others = ("providers/openai.py", "tools/adapters/langgraph.py", "compat/cowagent/memory/summarizer.py")
    zoneless = "compat/cowagent/memory/manager.py"
    assert found == {(file, "datetime.now") for file in ("memory/core.py", *others, zoneless)}
