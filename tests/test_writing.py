"""Changing pages and taking changes back: literally what was asked, refused when unclear, and never a loss."""

from __future__ import annotations

import json
import os
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memories import OpenMemory, paths, write
from vademecum import Memory
from vademecum.cli import main
from vademecum.errors import ConflictError, MatchError, MissingFileError, PathError, UsageError
from vademecum.store.edit import edit
from vademecum.store.files import append, remove
from vademecum.store.paths import resolve
from vademecum.store.undo import undo

# Read before a test takes such variables away. Every change is flushed to the disk, which takes its time.
STRESS = bool(os.environ.get("VADEMECUM_STRESS"))

LIMITS = "# Memory\n\n- Single positions stay under 5 %.\n- Bonds stay under 5 % too.\n"


def text(memory: Memory, path: str = "MEMORY.md") -> str:
    return (memory.root / path).read_bytes().decode()


def test_an_edit_puts_the_new_text_there_and_the_next_search_finds_it(open_memory: OpenMemory) -> None:
    memory = open_memory({"MEMORY.md": LIMITS})
    edited = memory.edit("long_term", "Single positions stay under 5 %", "Single positions stay under 8 %")
    assert text(memory) == LIMITS.replace("Single positions stay under 5 %", "Single positions stay under 8 %")
    assert (edited.path, edited.lines) == ("MEMORY.md", (3,))
    assert edited.hash == memory.get("long_term").hash
    assert "8 %" in memory.search("single positions")[0].text


def test_a_text_that_stands_there_more_than_once_is_refused_with_all_its_lines(open_memory: OpenMemory) -> None:
    memory = open_memory({"MEMORY.md": LIMITS})
    with pytest.raises(MatchError, match=r"stands there 2 times, in lines 3, 4; .*all of them") as caught:
        memory.edit("MEMORY.md", "under 5 %", "under 8 %")
    assert caught.value.lines == (3, 4)
    assert text(memory) == LIMITS
    assert memory.edit("MEMORY.md", "under 5 %", "under 8 %", lines=(4, 9)).lines == (4,)
    assert memory.edit("MEMORY.md", " %", " percent", all=True).lines == (3, 4)
    assert text(memory).endswith("- Single positions stay under 5 percent.\n- Bonds stay under 8 percent too.\n")


@pytest.mark.parametrize(
    ("old", "hint"),
    [
        ("single positions stay", r"did you mean line 3 holds it with other letter case.*Single positions"),
        ("Single positions remain under 5 %", "did you mean line 3: "),
        ("xylophone", "nor anything like it"),
    ],
)
def test_a_text_that_is_not_there_is_answered_with_the_line_that_was_probably_meant(
    open_memory: OpenMemory, old: str, hint: str
) -> None:
    memory = open_memory({"MEMORY.md": LIMITS})
    with pytest.raises(MatchError, match=hint):
        memory.edit("MEMORY.md", old, "x")
    with pytest.raises(MatchError, match=r"not stand in lines 4-4, but in line 3"):
        memory.edit("MEMORY.md", "Single", "x", lines=(4, 4))
    assert text(memory) == LIMITS


def test_another_unicode_normalisation_is_hinted_at(open_memory: OpenMemory) -> None:
    memory = open_memory({"MEMORY.md": unicodedata.normalize("NFD", "- Lives in Zürich.\n")})
    with pytest.raises(MatchError, match="line 1 holds it in another Unicode normalisation"):
        memory.forget("MEMORY.md", "Zürich")


def test_line_ends_and_byte_order_mark_stay(open_memory: OpenMemory) -> None:
    memory = open_memory({"x.md": b"\xef\xbb\xbf# T\r\n\r\n- one\r\n- two\r\n"})
    memory.edit("x.md", "- one\n- two", "- 1\n- 2\n- 3")
    assert (memory.root / "x.md").read_bytes() == b"\xef\xbb\xbf# T\r\n\r\n- 1\r\n- 2\r\n- 3\r\n"


def test_a_concurrent_edit_is_a_conflict_and_not_a_loss(open_memory: OpenMemory) -> None:
    memory = open_memory({"MEMORY.md": LIMITS})
    seen = memory.get("MEMORY.md").hash
    memory.remember("Written by somebody else meanwhile.")
    for work in (
        lambda: memory.edit("MEMORY.md", "Single", "All", expect=seen),
        lambda: memory.forget("MEMORY.md", "Single", expect=seen[:12]),
    ):
        with pytest.raises(ConflictError, match="read it again"):
            work()
    assert "Single" in text(memory)
    memory.edit("MEMORY.md", "Single", "All", expect=memory.get("MEMORY.md").hash)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("MEMORY.md", "", "x"), {}, "old is empty"),
        (("MEMORY.md", "a", "a"), {}, "the same"),
        (("MEMORY.md", "a", "b\0"), {}, "NUL"),
        (("MEMORY.md", 5, "b"), {}, "old 5"),
        (("MEMORY.md", "a", "b"), {"lines": (0, 2)}, "lines"),
        (("MEMORY.md", "a", "b"), {"lines": (3, 2)}, "lines"),
        (("MEMORY.md", "a", "b"), {"lines": 3}, "lines"),
        (("MEMORY.md", "a", "b"), {"all": "yes"}, "all"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(
    open_memory: OpenMemory, arguments: tuple[object, ...], options: dict[str, object], message: str
) -> None:
    memory = open_memory({"MEMORY.md": LIMITS})
    with pytest.raises(UsageError, match=message):
        memory.edit(*arguments, **options)  # type: ignore[arg-type]
    assert text(memory) == LIMITS
    with pytest.raises(MissingFileError):
        memory.edit("gone.md", "a", "b")


# the log, differences, and taking back


def test_the_log_tells_what_was_done_by_whom_and_the_difference_shows_it(open_memory: OpenMemory) -> None:
    memory = open_memory({"MEMORY.md": LIMITS})
    memory.edit("MEMORY.md", "Bonds", "Bond funds")
    open_memory(origin="agent").remember("The user likes tea.")
    agents, own = memory.log()
    assert [(entry.by, entry.path) for entry in (agents, own)] == [("agent", "MEMORY.md"), ("person", "MEMORY.md")]
    diff = memory.diff(own.id)
    assert diff.entry == own
    assert "-- Bonds stay under 5 % too.\n+- Bond funds stay under 5 % too.\n" in diff.text
    assert memory.log("long_term") == memory.log()
    assert memory.log("other.md") == ()
    with pytest.raises(UsageError, match="999: there is no such entry"):
        memory.diff(999)


def test_undo_goes_back_step_by_step_and_an_undo_can_be_undone(open_memory: OpenMemory) -> None:
    memory = open_memory({"MEMORY.md": LIMITS})
    first = memory.forget("MEMORY.md", "- Bonds stay under 5 % too.\n")
    memory.edit("MEMORY.md", "Single", "All")
    memory.undo()
    back = memory.undo()
    assert (back.undoes, text(memory)) == (first.entry, LIMITS)
    assert paths(memory.search("bonds")) == ["MEMORY.md"]
    with pytest.raises(UsageError, match="nothing to undo"):
        memory.undo()
    again = memory.undo(back.id)
    assert "Bonds" not in text(memory)
    assert not memory.search("bonds")
    with pytest.raises(ConflictError, match=f"taken back already, by {again.id}"):
        memory.undo(back.id)
    memory.undo(again.id)
    assert text(memory) == LIMITS


def test_what_was_written_since_survives_an_undo(open_memory: OpenMemory) -> None:
    memory = open_memory()
    memory.remember("Mistaken.")
    memory.remember("Right.")
    mistaken = memory.log()[-1]
    file = memory.root / "MEMORY.md"
    file.write_text(text(memory) + "\nBy hand.\n")
    memory.undo(mistaken.id)
    assert "Mistaken" not in text(memory)
    assert "- Right.\n\nBy hand.\n" in text(memory)


def test_an_undo_that_would_lose_a_later_change_is_refused_and_says_where(open_memory: OpenMemory) -> None:
    memory = open_memory({"MEMORY.md": LIMITS})
    first = memory.edit("MEMORY.md", "Single positions stay under 5 %", "Single positions stay under 8 %")
    later = memory.edit("MEMORY.md", "Single positions stay under 8 %", "Single positions stay under 9 %")
    with pytest.raises(ConflictError, match="lines 3-3 were changed again"):
        memory.undo(first.entry)
    assert "9 %" in text(memory)
    memory.undo(later.entry)
    memory.undo(first.entry)
    assert text(memory) == LIMITS


def test_what_was_made_goes_and_what_was_deleted_comes_back(open_memory: OpenMemory) -> None:
    memory = open_memory()
    memory.remember("A trip to Lyon.", file="travel.md")
    memory.undo()
    assert not (memory.root / "travel.md").exists()
    assert not memory.search("Lyon")
    memory.undo(memory.log()[0].id)
    assert paths(memory.search("Lyon")) == ["travel.md"]
    remove(memory.root, resolve(memory.root, "travel.md"))
    memory.sync()
    removal = memory.log("travel.md")[0]
    write(memory.root, {"travel.md": "Another page."})
    with pytest.raises(ConflictError, match="another page now"):
        memory.undo(removal.id)
    (memory.root / "travel.md").unlink()
    memory.undo(removal.id)
    assert paths(memory.search("Lyon")) == ["travel.md"]


def test_what_is_gone_since_cannot_be_taken_back_and_that_is_said(open_memory: OpenMemory) -> None:
    memory = open_memory()
    memory.remember("One.", file="x.md")
    memory.remember("Two.", file="x.md")
    (memory.root / "x.md").unlink()
    for entry in memory.log():
        with pytest.raises(ConflictError, match=f"x.md: is gone, so change {entry.id} cannot be taken back"):
            memory.undo(entry.id)
    assert not (memory.root / "x.md").exists()


def test_nobody_sees_or_takes_back_what_is_somebody_elses(open_memory: OpenMemory) -> None:
    alice, bob = open_memory(user="alice"), open_memory(user="bob")
    alice.remember("A secret.")
    (entry,) = alice.log()
    assert bob.log() == open_memory().log() == ()
    for work in (bob.diff, bob.undo):
        with pytest.raises(UsageError, match="there is no such entry"):
            work(entry.id)
    with pytest.raises(UsageError, match="nothing to undo"):
        bob.undo()
    with pytest.raises(PathError):
        bob.log(entry.path)
    assert "secret" in alice.search("secret")[0].text


_PAGE = st.lists(st.sampled_from(["- a", "- b", "text", "", "# H", "- a and b", "```"]), max_size=8)


@pytest.mark.stress
@settings(max_examples=500 if STRESS else 40)
@given(
    page=_PAGE,
    newline=st.sampled_from(["\n", "\r\n"]),
    edits=st.lists(
        st.tuples(st.sampled_from(["a", "b", "- a", "text", "\n", "# H"]), st.sampled_from(["", "c", "x\ny"])),
        max_size=4,
    ),
)
def test_any_edits_taken_back_leave_the_original_bytes(
    tmp_path_factory: pytest.TempPathFactory, page: list[str], newline: str, edits: list[tuple[str, str]]
) -> None:
    root = tmp_path_factory.getbasetemp() / "edits"
    root.mkdir(exist_ok=True)
    original = newline.join(page).encode()
    (root / "x.md").write_bytes(original)
    made = []
    for old, new in edits:
        try:
            made.append(edit(root, "x.md", old, new, every=True).entry)
        except MatchError:
            continue
    for entry in reversed(made):
        if entry is not None:
            undo(root, lambda _: True, entry, "person")
    assert (root / "x.md").read_bytes() == original


# the command line


def test_the_commands_edit_forget_log_diff_and_undo(
    open_memory: OpenMemory, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = open_memory({"MEMORY.md": LIMITS}).root
    monkeypatch.chdir(root)

    def run(*argv: str) -> str:
        assert main(argv) == 0, capfd.readouterr().err
        return capfd.readouterr().out

    assert run("edit", "MEMORY.md", "--old", "- Single", "--new", "- All").startswith("MEMORY.md:3")
    assert run("forget", "long_term", "--text", "- Bonds stay under 5 % too.") == "MEMORY.md:3  (change 2)\n"
    assert (root / "MEMORY.md").read_text() == "# Memory\n\n- All positions stay under 5 %.\n"
    lines = run("log").splitlines()
    assert [line.split()[0] for line in lines] == ["2", "1"]
    assert all(word in lines[0] for word in ("person", "MEMORY.md", "changed"))
    assert "-- Bonds stay under 5 % too.\n" in run("diff", "2")
    assert "change 2 is taken back" in run("undo")
    assert json.loads(run("undo", "1", "--json"))["undoes"] == 1
    assert (root / "MEMORY.md").read_text() == LIMITS
    assert [entry["undoes"] for entry in json.loads(run("log", "-n", "2", "--json"))["entries"]] == [1, 2]
    assert json.loads(run("diff", "1", "--json"))["entry"]["id"] == 1


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (("edit", "MEMORY.md", "--old", "under 5 %", "--new", "x"), 1, "lines 3, 4"),
        (("edit", "MEMORY.md", "--old", "x", "--new", "y", "--lines", "a-b"), 2, "--lines a-b"),
        (("forget", "gone.md", "--text", "x"), 1, "gone.md"),
        (("undo",), 2, "nothing to undo"),
        (("diff", "7"), 2, "7: there is no such entry"),
        (("log", "-n", "0"), 2, "-n 0"),
    ],
)
def test_a_mistake_is_one_line_and_an_exit_code(
    open_memory: OpenMemory, capfd: pytest.CaptureFixture[str], argv: tuple[str, ...], code: int, message: str
) -> None:
    root = open_memory({"MEMORY.md": LIMITS}).root
    assert main(["--root", str(root), *argv]) == code
    told = capfd.readouterr()
    assert told.out == ""
    assert message in told.err
    assert told.err.count("\n") == 1


@pytest.mark.stress
@settings(max_examples=300 if STRESS else 6)
@given(steps=st.lists(st.integers(0, 15), max_size=24))
def test_lines_that_were_appended_go_and_come_back_in_any_order_and_take_no_other_along(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int]
) -> None:
    root = tmp_path_factory.mktemp("order")
    page = resolve(root, "x.md")
    page.file.write_text("# By hand\n")
    entries = [append(root, page, f"- {number}").entry for number in range(8)]
    present, undone_by = set(range(8)), {}
    for step in steps:
        number = step % 8
        try:
            if number in present:
                undone_by[number] = undo(root, lambda _: True, entries[number], "person")[0].id
                present.remove(number)
            else:
                entries[number] = undo(root, lambda _: True, undone_by[number], "person")[0].id
                present.add(number)
        except ConflictError:
            assert number not in present, "what was only appended to can always be taken back"
        lines = page.file.read_text().splitlines()
        assert lines[0] == "# By hand"
        assert sorted(lines[1:]) == [f"- {number}" for number in sorted(present)]
