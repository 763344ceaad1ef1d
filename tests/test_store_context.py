"""What an agent is told at the start: never over budget, never without MEMORY.md, and honest about what was cut."""

from __future__ import annotations

import os
import re
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vademecum.errors import UsageError
from vademecum.settings import ContextSettings
from vademecum.store.condense import condense, water_fill
from vademecum.store.context import Note, assemble, gather, over_budget
from vademecum.store.layout import Layout, detect
from vademecum.store.root import create
from vademecum.text.estimate import WEIGHT_PER_TOKEN, estimate_tokens, weigh
from vademecum.types import Context, Viewer

DAY = date(2026, 3, 1)


LOOSE = ContextSettings(max_lines=10**6, max_bytes=10**9)


def bullets(word: str, count: int) -> str:
    return "\n".join(f"- {word} {number}" for number in range(count))


def memory(text: str) -> Note:
    return Note("MEMORY.md", text, evergreen=True)


def daily(text: str, day: int = 1) -> Note:
    return Note(f"memory/2026-03-{day:02}.md", text, evergreen=False)


def test_what_fits_is_there_whole_and_in_order() -> None:
    context = assemble([memory("# Memory\r\n\r\n- a\r\n"), daily("- b\n"), daily(" \n", 2), daily("- c", 3)], 2000)
    text = (
        "~~~ MEMORY.md\n# Memory\n\n- a\n~~~\n\n~~~ memory/2026-03-01.md\n- b\n~~~\n\n"
        "~~~ memory/2026-03-03.md\n- c\n~~~"
    )
    assert context == Context(
        text, estimate_tokens(text), ("MEMORY.md", "memory/2026-03-01.md", "memory/2026-03-03.md"), ()
    )


def test_what_fits_exactly_is_not_cut() -> None:
    notes = [memory("# Memory\n\n- a fact"), daily("- b")]
    whole = assemble(notes, 2000)
    assert assemble(notes, whole.tokens) == whole
    assert assemble(notes, whole.tokens - 1).cut != ()


def test_nothing_to_tell_is_an_empty_text() -> None:
    assert assemble([], 10) == assemble([memory(" \n")], 10) == Context("", 0, (), ())


@pytest.mark.parametrize("budget", [0, -1, True, 1.5, "9", None])
def test_a_budget_below_one_is_refused_by_name(budget: object) -> None:
    with pytest.raises(UsageError, match="max_tokens"):
        assemble([], budget)  # type: ignore[arg-type]


def test_a_huge_memory_leaves_its_share_to_the_days() -> None:
    context = assemble(
        [memory(bullets("fact", 5000)), daily(bullets("today", 5000), 2), daily(bullets("gone", 9))], 1000, LOOSE
    )
    parts = context.text.split("~~~ ")[1:]
    tokens = [estimate_tokens(part) for part in parts]
    assert context.files == ("MEMORY.md", "memory/2026-03-02.md", "memory/2026-03-01.md")
    assert 650 <= tokens[0] <= 710
    assert "- gone 0\n" in parts[2]
    assert 990 <= context.tokens <= 1000


def test_what_the_days_do_not_need_goes_to_the_memory_and_the_other_way_round() -> None:
    huge = bullets("word", 5000)
    alone = assemble([memory(huge)], 1000, LOOSE)
    with_a_day = assemble([memory(huge), daily("- b")], 1000, LOOSE)
    assert alone.tokens > 990
    assert with_a_day.tokens > 990
    assert assemble([memory("- a"), daily(huge)], 1000).tokens > 990
    assert "- b" in with_a_day.text


def test_a_section_that_does_not_fit_keeps_its_heading_and_its_newest_items() -> None:
    text = f"# Memory\n\n## Long\n\n{bullets('old', 400)}\n\n## Short\n\n- stays\n"
    context = assemble([memory(text)], 200)
    assert "## Long\n- old " in context.text
    assert "- old 399\n" in context.text
    assert "- old 0\n" not in context.text
    assert "## Short\n\n- stays\n" in context.text
    kept = context.text.count("- old ")
    assert context.cut == (f"MEMORY.md: {400 - kept} of 404 items cut from Long",)
    assert context.text.endswith(f"\n\n… {400 - kept} of 404 items cut from Long (memory_get MEMORY.md)\n~~~")


def test_an_item_that_is_too_long_does_not_keep_out_the_others() -> None:
    text = f"## A\n\n- first\n- {'long ' * 5000}\n- last\n\n## B\n\n- other\n"
    context = assemble([memory(text)], 300)
    for item in ("- first", "- last", "- other"):
        assert f"{item}\n" in context.text
    assert "long long" in context.text
    assert context.tokens > 250


@pytest.mark.parametrize("text", ["x" * 30_000, "word " * 6000, "- 中文" * 6000, "# T\n\n" + "a b " * 9000])
def test_one_endless_line_is_cut_short_rather_than_left_out(text: str) -> None:
    context = assemble([memory(text), daily("- today")], 500)
    assert 480 <= context.tokens <= 500
    assert "…\n\n… 1 of " in context.text
    assert "- today" in context.text


def test_a_fence_that_is_cut_is_closed_again() -> None:
    context = assemble([memory("Intro.\n\n~~~py\n" + "code = 1\n" * 500 + "~~~\n"), daily("- today")], 200)
    assert context.text.startswith("~~~~ MEMORY.md\nIntro.\n\n~~~py\n")
    assert context.text.index("\n~~~\n\n… ") < context.text.index("\n~~~~\n\n~~~ memory/")


@pytest.mark.parametrize(
    "text",
    [
        "# M\n\n" + "\n\n".join(f"## Topic {n}\n\n{bullets('fact', 30)}" for n in range(20)),
        "# M\n\n" + "\n\n".join(f"## Topic {n}\n\n{bullets('fact ' * 60, 9)}" for n in range(20)),
    ],
    ids=["lines", "bytes"],
)
def test_of_a_memory_past_its_lines_or_bytes_every_section_keeps_its_newest(text: str) -> None:
    context = assemble([memory(text), daily("- today")], 1_000_000)
    told = context.text.partition("\n~~~\n")[0].partition("\n")[2]
    assert told.count("\n") < 200
    assert len(told.encode()) <= 25_000
    assert told.count("\n") > 150 or len(told.encode()) > 20_000
    for topic in range(20):
        heading, _, section = told.partition(f"## Topic {topic}\n")[2].partition("## Topic")[0].rpartition("- fact")
        assert heading.count("- fact") >= 2
        assert section
    assert "items cut from Topic 0, Topic 1, Topic 2 and 17 more sections" in context.cut[0]
    assert "items cut from Topic 0, Topic 1, Topic 2 and 17 more sections (memory_get MEMORY.md)" in told
    assert "- today" in context.text


def test_what_is_too_much_is_said_with_the_sections_that_lose() -> None:
    assert over_budget(bullets("fact", 200) + "\n", ContextSettings()) is None
    told = over_budget("# M\n\n## Old\n\n" + bullets("fact", 300) + "\n", ContextSettings())
    assert told is not None
    assert re.match(r"has 304 lines and \d+ bytes; .* 200 lines and 25000 bytes .* items cut from Old; move", told)
    assert over_budget("x" * 25_001, ContextSettings()) is not None


def test_nested_items_stay_with_their_parent() -> None:
    text = "\n".join(f"- parent {number}\n  - child {number}" for number in range(300))
    condensed = condense(text, 300 * WEIGHT_PER_TOKEN, "x")
    lines = condensed.text.splitlines()
    assert lines[0].startswith("- parent ")
    assert condensed.total == 300
    assert condensed.text.count("parent") == condensed.text.count("child") == 300 - condensed.lost


def test_front_matter_is_the_first_to_go() -> None:
    text = f"---\ntags: [{'tag, ' * 100}]\n---\n\n# Memory\n\n- fact\n"
    context = assemble([memory(text)], 40)
    assert context.text == "~~~ MEMORY.md\n# Memory\n\n- fact\n~~~"
    assert context.cut == ()


@pytest.mark.parametrize("budget", range(10, 40))
def test_the_memory_is_never_dropped_whole_for_the_sake_of_a_day(budget: int) -> None:
    text = f"# Memory\n\n## Tastes\n\n{bullets('tea', 90)}"
    context = assemble([memory(text), daily(bullets("today", 90), 2), daily(bullets("gone", 90))], budget)
    assert context.files[0] == "MEMORY.md"
    assert "- tea" in context.text
    assert context.tokens <= budget


def test_what_is_left_out_whole_is_named() -> None:
    context = assemble([memory("- a"), daily("- b")], 1)
    assert context == Context("", 0, (), ("MEMORY.md: left out whole", "memory/2026-03-01.md: left out whole"))


_LINE = st.sampled_from(
    ["# H", "## H2 with words", "- item", "  - child", "- " + "long " * 40, "text", "", "中文" * 30, "```", "~~~~",
     "| a | b |", "---", "> quote", "1. one", "    code", "\t- tab", "😀" * 9, "tags: x", "==="]
)  # fmt: skip
_NOTE = st.builds(Note, st.sampled_from(["MEMORY.md", "memory/2026-03-01.md"]),
                  st.lists(_LINE, max_size=25).map("\n".join), st.booleans())  # fmt: skip


@given(notes=st.lists(_NOTE, max_size=4), budget=st.one_of(st.integers(1, 30), st.integers(1, 800)))
def test_no_context_is_ever_longer_than_its_budget(notes: list[Note], budget: int) -> None:
    context = assemble(notes, budget)
    assert context.tokens == estimate_tokens(context.text) <= budget
    full = [note for note in notes if note.text.strip()]
    assert len(context.files) + sum("left out whole" in cut for cut in context.cut) == len(full)
    if not context.cut:
        lines = {line.strip() for note in full for line in note.text.splitlines()}
        assert lines - {line.strip() for line in context.text.splitlines()} <= {"", "---", "tags: x"}


@given(text=st.lists(_LINE, max_size=25).map("\n".join), room=st.integers(-50, 3000))
def test_a_condensed_text_keeps_to_its_room_and_invents_nothing(text: str, room: int) -> None:
    condensed = condense(text, room, "all of it")
    assert not condensed.text or weigh(condensed.text) <= room
    invented = {line.rstrip(" …`~\t") for line in condensed.text.splitlines() if not line.startswith("… ")}
    assert all(any(line in original for original in text.splitlines()) for line in invented)


@given(needs=st.lists(st.integers(0, 500), max_size=6), room=st.integers(-10, 1500))
def test_shares_fill_the_room_and_exceed_no_need(needs: list[int], room: int) -> None:
    shares = water_fill(needs, [1.0] * len(needs), room)
    assert all(0 <= share <= need for share, need in zip(shares, needs, strict=True))
    assert sum(shares) <= max(room, 0)
    assert min(sum(needs), max(room, 0)) - sum(shares) <= len(needs)


def test_shares_follow_the_weights() -> None:
    assert water_fill([1000, 1000, 10], [7, 2, 1], 1000) == [770, 220, 10]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = create(tmp_path)
    for path, text in {
        "MEMORY.md": "- shared fact",
        "memory/2026-03-01.md": "- today",
        "memory/2026-02-28.md": "- yesterday",
        "memory/2026-02-27.md": "- long ago",
        "memory/users/al/MEMORY.md": "- al's fact",
        "memory/users/al/2026-03-01.md": "- al's day",
        "memory/users/bo/MEMORY.md": "- bo's secret",
        "memory/agents/x/MEMORY.md": "- the agent's fact",
    }.items():
        (layout.root / path).parent.mkdir(parents=True, exist_ok=True)
        (layout.root / path).write_text(text)
    return layout


def test_a_viewer_is_told_the_shared_and_its_own_pages_of_two_days(layout: Layout) -> None:
    assert gather(layout, Viewer(), DAY, 2000).files == ("MEMORY.md", "memory/2026-03-01.md", "memory/2026-02-28.md")
    assert gather(layout, Viewer(user="al", agent="x"), DAY, 2000).files == (
        "MEMORY.md",
        "memory/users/al/MEMORY.md",
        "memory/agents/x/MEMORY.md",
        "memory/2026-03-01.md",
        "memory/users/al/2026-03-01.md",
        "memory/2026-02-28.md",
    )
    assert "secret" not in gather(layout, Viewer(user="al", agent="bo"), DAY, 2000).text


def test_yesterday_is_a_day_of_the_calendar(layout: Layout) -> None:
    """In New York the night of 2026-11-01 has 25 hours; no arithmetic on hours may decide what yesterday was."""
    (layout.root / "memory" / "2026-11-01.md").write_text("- sunday")
    (layout.root / "memory" / "2026-10-31.md").write_text("- saturday")
    files = gather(layout, Viewer(), date(2026, 11, 1), 2000).files
    assert files == ("MEMORY.md", "memory/2026-11-01.md", "memory/2026-10-31.md")


def test_a_page_that_cannot_be_read_is_named_and_stops_no_other(layout: Layout) -> None:
    (layout.root / "MEMORY.md").write_bytes(b"\xff")
    context = gather(layout, Viewer(), DAY, 2000)
    assert context.files == ("memory/2026-03-01.md", "memory/2026-02-28.md")
    assert len(context.cut) == 1
    assert "MEMORY.md: is not valid UTF-8 at byte 0" in context.cut[0]


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX links")
def test_a_page_that_is_a_link_is_not_followed(layout: Layout, tmp_path: Path) -> None:
    outside = tmp_path.parent / "outside.md"
    outside.write_text("outside")
    (layout.root / "MEMORY.md").unlink()
    (layout.root / "MEMORY.md").symlink_to(outside)
    context = gather(layout, Viewer(), DAY, 2000)
    assert "outside" not in context.text
    assert "MEMORY.md" in context.cut[0]


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX links")
def test_a_private_page_behind_a_link_to_a_shared_folder_is_left_out_and_named(tmp_path: Path) -> None:
    (tmp_path / "pub").mkdir()
    (tmp_path / "pub" / "MEMORY.md").write_text("- planted")
    (tmp_path / "memory" / "users").mkdir(parents=True)
    (tmp_path / "memory" / "users" / "alice").symlink_to("../../pub")
    told = gather(detect(tmp_path), Viewer(user="alice"), DAY, 1000)
    assert "planted" not in told.text
    assert any("memory/users/alice/MEMORY.md" in cut and "pub/MEMORY.md" in cut for cut in told.cut)
