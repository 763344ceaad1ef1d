"""Faults of the first seed system, Dexter, each with its smallest input. ``faults.toml`` says which is which."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from embedders import HashedEmbedder
from memories import PATIENT, OpenMemory, paths, query, rows, set_clock, texts, write
from vademecum import Memory
from vademecum.errors import MatchError, MissingFileError, PathError, ProviderDownError
from vademecum.memory import core as memory_core
from vademecum.ports import IndexReader
from vademecum.text.estimate import estimate_tokens
from vademecum.types import ChunkRow

LONG_AGO = "2023-01-05"


def test_d1_a_better_keyword_match_scores_higher(open_memory: OpenMemory) -> None:
    filler = " ".join(f"word{n}" for n in range(200))
    memory = open_memory({"much.md": "apple apple apple apple", "little.md": f"apple {filler}"})
    much, little = memory.search("apple", fusion="weighted")
    assert paths((much, little)) == ["much.md", "little.md"]
    assert 1 > much.score > little.score > 0
    assert paths(memory.search("apple", mmr=False)) == ["much.md", "little.md"]


def test_d2_what_was_edited_away_or_deleted_is_not_found(open_memory: OpenMemory) -> None:
    memory = open_memory({"MEMORY.md": "- The broker is Fidelity.\n- The bank is Wells Fargo.\n"})
    assert memory.search("Fidelity")
    write(memory.root, {"MEMORY.md": "- The broker is Schwab.\n"})
    assert "Schwab" in texts(memory.search("Schwab"))
    assert not memory.search("Fidelity")
    assert not memory.search("Wells Fargo")
    assert query(memory, "SELECT count(*) FROM vocabulary WHERE term IN ('fidelity', 'wells')") == [(0,)]


def test_d3_twenty_appends_leave_the_rows_of_a_fresh_index(open_memory: OpenMemory) -> None:
    memory = open_memory()
    for n in range(20):
        memory.remember(f"Fact number {n} about the portfolio.")
        memory.sync()
    grown = rows(memory)
    assert len(memory.search("portfolio")) == len(grown) == 1
    memory.rebuild()
    assert rows(memory) == grown


def test_d4_the_same_paragraph_in_two_files_is_two_hits(open_memory: OpenMemory) -> None:
    paragraph = "The emergency fund covers six months.\n"
    memory = open_memory({"MEMORY.md": paragraph, "memory/2026-01-11.md": paragraph}, embedder=HashedEmbedder())
    assert sorted(paths(memory.search("emergency fund", mmr=False))) == ["MEMORY.md", "memory/2026-01-11.md"]
    (memory.root / "memory" / "2026-01-11.md").unlink()
    assert paths(memory.search("emergency fund")) == ["MEMORY.md"]
    (memory.root / "MEMORY.md").unlink()
    assert not memory.search("emergency fund")


def test_d5_age_is_that_of_the_event_not_of_the_sync_or_the_file(open_memory: OpenMemory) -> None:
    memory = open_memory({f"memory/{LONG_AGO}.md": "Sold the bond fund."})
    before = memory.search("bond fund")[0]
    assert before.date == LONG_AGO
    os.utime(memory.root / "memory" / f"{LONG_AGO}.md")
    for _ in range(3):
        memory.sync()
    assert memory.search("bond fund")[0] == before
    assert before.trace.decay == pytest.approx(PATIENT.decay.floor, abs=1e-3)


def test_d6_newest_first_pages_grow_as_if_written_at_once(open_memory: OpenMemory) -> None:
    embedder = HashedEmbedder()
    memory = open_memory({"log.md": ""}, embedder=embedder)
    page = ""
    for n in range(60):
        page = f"User: question {n} about the plan {n}\nAssistant: answer {n}, {'well considered ' * 30}\n\n{page}"
        write(memory.root, {"log.md": page})
        memory.sync()
    grown, embedded = rows(memory), len(embedder.texts)
    memory.rebuild()
    assert rows(memory) == grown
    assert len(embedder.texts) == embedded
    assert embedded < 4 * 60


def test_d7_without_the_query_vector_keywords_answer(open_memory: OpenMemory) -> None:
    embedder = HashedEmbedder()
    memory = open_memory({"MEMORY.md": "The passport expires in May."}, embedder=embedder)
    memory.sync()
    embedder.fail(ProviderDownError("test: no route"))
    result = memory.search("passport")
    assert paths(result) == ["MEMORY.md"]
    assert result.channels["keyword"] == "ok"
    assert result.channels["vector"].startswith("failed: test: no route")


def test_d8_an_outage_costs_no_text_and_no_finished_batch(open_memory: OpenMemory) -> None:
    embedder = HashedEmbedder(batch_size=2)
    memory = open_memory({f"note{n}.md": f"Text number {n}." for n in range(6)}, embedder=embedder)

    def stop_after_two_batches(stage: str, done: int, total: int) -> None:
        if stage == "vectors" and done == 4:
            embedder.fail(ProviderDownError("test: out of order"))

    report = memory.sync(progress=stop_after_two_batches)
    assert report.pending == 2
    assert ("embedding", "test: out of order") in report.failed
    assert len(memory.search("number", max_results=10)) == 6
    embedder.heal()
    embedder.batches.clear()
    assert memory.sync().pending == 0
    assert len(embedder.texts) == 2


def test_d9_a_page_of_any_name_is_found(open_memory: OpenMemory) -> None:
    memory = open_memory()
    memory.remember("Retire at sixty.", file="goals.md")
    assert paths(memory.search("retire")) == ["goals.md"]


def test_d10_a_long_memory_is_cut_and_not_dropped(open_memory: OpenMemory) -> None:
    line = "- The user prefers index funds over single stocks.\n"
    whole = "# Memory\n\n" + line * (7002 // len(line) + 1)
    context = open_memory({"MEMORY.md": whole}).context(max_tokens=2000)
    assert context.text.count(line.strip()) > 100
    assert context.tokens <= 2000
    assert any("MEMORY.md" in cut for cut in context.cut)


def test_d11_chinese_counts_about_one_token_a_character(open_memory: OpenMemory) -> None:
    assert 5000 <= estimate_tokens("用户偏好低风险的债券" * 690) <= 7000
    context = open_memory({"MEMORY.md": "- 用户偏好低风险的债券。\n" * 600}).context(max_tokens=2000)
    assert 1000 < sum(not character.isascii() for character in context.text) <= 2000


@pytest.mark.parametrize("new", ["$$100", "$&", "$'", "$`", "$1", r"\\1 \\g<0> \\n", "{}", "%s"])
def test_d12_an_edit_is_literal_on_both_sides(open_memory: OpenMemory, new: str) -> None:
    memory = open_memory({"MEMORY.md": "- Costs 5 (or more). [x]* a.c\n"})
    memory.edit("MEMORY.md", "5 (or more). [x]* a.c", new)
    assert (memory.root / "MEMORY.md").read_text() == f"- Costs {new}\n"
    with pytest.raises(MatchError):
        memory.edit("MEMORY.md", "C.sts", "x")


def test_d13_what_stands_there_twice_is_refused_and_no_other_blank_line_goes(open_memory: OpenMemory) -> None:
    page = "I live in New York.\n\n\nYork is nice.\n\n- alone: Delete me.\n- Delete me.\n\n\nEnd.\n"
    memory = open_memory({"MEMORY.md": page})
    with pytest.raises(MatchError, match="2 times, in lines 1, 4"):
        memory.forget("MEMORY.md", "York")
    memory.forget("MEMORY.md", "- Delete me.")
    assert (memory.root / "MEMORY.md").read_text() == page.replace("- Delete me.\n", "")
    memory.forget("MEMORY.md", "York", all=True)
    assert "\n\n\n is nice.\n" in (memory.root / "MEMORY.md").read_text()


def test_d15_only_a_missing_file_is_an_empty_one(open_memory: OpenMemory) -> None:
    damaged = b"- The only copy.\n\xff\xfe\n"
    memory = open_memory({"MEMORY.md": damaged})
    with pytest.raises(Exception, match=r"MEMORY\.md: is not valid UTF-8 at byte 17"):
        memory.remember("Something new.")
    assert (memory.root / "MEMORY.md").read_bytes() == damaged


def test_d16_links_do_not_lead_out_and_dots_in_names_are_no_escape(open_memory: OpenMemory, tmp_path: Path) -> None:
    write(tmp_path, {"outside/secret.md": "The secret ingredient."})
    memory = open_memory({"MEMORY.md": "Nothing."})
    (memory.root / "way.md").symlink_to(tmp_path / "outside" / "secret.md")
    (memory.root / "door").symlink_to(tmp_path / "outside")
    for path in ("way.md", "door/secret.md", "../outside/secret.md"):
        with pytest.raises(PathError):
            memory.get(path)
        with pytest.raises(PathError):
            memory.remember("Overwritten.", file=path)
    assert not memory.search("secret ingredient")
    assert (tmp_path / "outside" / "secret.md").read_text() == "The secret ingredient."
    memory.remember("An ordinary name.", file="..notes.md")
    assert paths(memory.search("ordinary")) == ["..notes.md"]


@pytest.mark.parametrize("path", ["index.sqlite", ".vademecum/index.sqlite", ".vademecum/index.md", "settings.json"])
def test_d17_only_pages_can_be_written(open_memory: OpenMemory, path: str) -> None:
    memory = open_memory({"MEMORY.md": "Still here."})
    memory.sync()
    with pytest.raises(PathError):
        memory.remember("Not a database.", file=path)
    assert paths(memory.search("still")) == ["MEMORY.md"]


def test_d18_yesterday_is_the_day_before_even_when_the_clocks_change(
    open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 23:30 in New York on the day that had 25 hours: 24 hours earlier it was already that day.
    set_clock(monkeypatch, datetime(2026, 11, 2, 4, 30, tzinfo=UTC))
    pages = {f"memory/2026-{day}.md": f"Written on {day}." for day in ("10-30", "10-31", "11-01", "11-02")}
    memory = open_memory(pages, settings=replace(PATIENT, timezone="America/New_York"))
    context = memory.context()
    assert context.files == ("memory/2026-11-01.md", "memory/2026-10-31.md")
    assert context.text.count("Written on") == 2


@pytest.mark.parametrize(("zone", "day"), [("Asia/Shanghai", "2026-03-05"), ("America/New_York", "2026-03-04")])
def test_d19_one_clock_names_the_day_everywhere(
    open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch, zone: str, day: str
) -> None:
    set_clock(monkeypatch, datetime(2026, 3, 4, 19, 53, tzinfo=UTC))
    memory = open_memory(settings=replace(PATIENT, timezone=zone))
    written = memory.remember("Sold half of the bond fund.", daily=True)
    assert written.path == f"memory/{day}.md"
    assert memory.get("daily").path == written.path
    assert memory.status().today == day
    hit = memory.search("bond fund", since="today", until="today")[0]
    assert (hit.date, hit.trace.decay) == (day, 1.0)


def test_d20_what_did_not_change_is_not_written_again(open_memory: OpenMemory) -> None:
    sections = {n: f"## Section {n}\n\n{f'Text of section {n}. ' * 60}\n\n" for n in range(30)}
    memory = open_memory({"long.md": "".join(sections.values()), "other.md": "Another page."})
    memory.sync()
    files = [memory.root / ".vademecum" / name for name in ("index.sqlite", "index.sqlite-wal")]
    before = query(memory, "SELECT id, text FROM chunks"), [file.read_bytes() for file in files if file.exists()]
    report = memory.sync()
    after = query(memory, "SELECT id, text FROM chunks"), [file.read_bytes() for file in files if file.exists()]
    assert (report.kept, report.chunks) == (2, 0)
    assert after == before
    write(memory.root, {"long.md": "".join({**sections, 7: "## Section 7\n\nShort now.\n\n"}.values())})
    memory.sync()
    assert len(set(before[0]) - set(query(memory, "SELECT id, text FROM chunks"))) <= 3


def test_d22_one_word_of_a_question_is_enough(open_memory: OpenMemory) -> None:
    memory = open_memory({"MEMORY.md": "The user prefers low-risk bonds"})
    assert paths(memory.search("what bonds does the user prefer?")) == ["MEMORY.md"]


def test_d23_chinese_words_are_found_inside_a_sentence(open_memory: OpenMemory) -> None:
    memory = open_memory({"MEMORY.md": "用户的风险偏好是保守的"})
    assert paths(memory.search("风险偏好")) == ["MEMORY.md"]


@pytest.mark.kernels
def test_d24_an_unrelated_english_page_does_not_pass_a_chinese_answer(open_memory: OpenMemory) -> None:
    pages = {
        "best.md": "用户的风险偏好是保守的，喜欢国债。",
        "second.md": "风险偏好问卷在春天填写。",
        "other.md": "The user asked about 风险 once.",
    }
    assert paths(open_memory(pages).search("用户的风险偏好"))[:2] == ["best.md", "second.md"]


@pytest.mark.kernels
def test_d25_diversity_looks_at_the_whole_text(open_memory: OpenMemory) -> None:
    opening = "Minutes of the weekly meeting about the portfolio. " * 15
    pages = {
        "first.md": opening + "bonds " + " ".join(f"alpha{n}" for n in range(60)),
        "copy.md": opening + "bonds " + " ".join(f"alpha{n}" for n in range(59)) + " again",
        "fresh.md": opening + "bonds " + " ".join(f"omega{n}" for n in range(60)),
    }
    found = paths(open_memory(pages).search("meeting bonds", max_results=2))
    assert len(opening) > 700
    assert "fresh.md" in found


def test_d26_a_hit_keeps_its_own_score_when_another_row_vanishes(
    open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory({f"f{n}.md": f"{'apple ' * n}tree {n}" for n in (1, 2, 3)}, embedder=HashedEmbedder())
    before = {hit.path: hit.trace for hit in memory.search("apple tree", mmr=False)}
    assert len({trace.vector for trace in before.values()}) == 3
    index = memory._core.open_index()
    with index.reader() as reader:
        kind: type[IndexReader] = type(reader)
    complete = kind.get

    def with_a_gap(self: IndexReader, ids: Sequence[int]) -> Sequence[ChunkRow]:
        return [row for row in complete(self, ids) if row.path != "f3.md"]

    monkeypatch.setattr(kind, "get", with_a_gap)
    after = {hit.path: hit.trace for hit in memory.search("apple tree", mmr=False)}
    assert after == {path: trace for path, trace in before.items() if path != "f3.md"}


@pytest.mark.parametrize(
    "page", ["An endless sentence goes on and on and on. " * 116, "- one more bullet of a long list\n" * 300]
)
def test_d27_long_paragraphs_and_lists_become_many_chunks(open_memory: OpenMemory, page: str) -> None:
    memory = open_memory({"long.md": page})
    memory.sync()
    sizes = [len(str(text)) for (text,) in query(memory, "SELECT text FROM chunks")]
    assert len(sizes) > len(page) // 1500
    assert max(sizes) <= 1400


def test_d29_what_is_written_during_a_sync_is_not_lost(open_memory: OpenMemory) -> None:
    memory = open_memory({"a.md": "The old text.", "b.md": "Another page."})

    def edit_behind_its_back(stage: str, done: int, total: int) -> None:
        write(memory.root, {"a.md": "The new text.", "c.md": "A third page."})

    memory.sync(progress=edit_behind_its_back)
    assert paths(memory.search("new")) == ["a.md"]
    assert paths(memory.search("third")) == ["c.md"]
    assert not memory.search("old")


def test_d30_a_start_without_the_embedder_costs_no_vector(open_memory: OpenMemory) -> None:
    pages = {f"note{n}.md": f"Text number {n}." for n in range(5)}
    with open_memory(pages, embedder=HashedEmbedder()) as memory:
        assert memory.sync().embedded == 5
    with open_memory() as memory:
        assert memory.sync().embedded == 0
        assert memory.search("number").channels["vector"].startswith("off: ")
    embedder = HashedEmbedder()
    with open_memory(embedder=embedder) as memory:
        assert memory.search("number").channels["vector"] == "ok"
    assert embedder.texts == []


def test_d31_parallel_first_opens_share_one_core(tmp_path: Path) -> None:
    write(tmp_path, {f"note{n}.md": f"Text number {n}." for n in range(20)})
    embedder = HashedEmbedder()
    ready = threading.Barrier(8)

    def first_call(_: int) -> Memory:
        ready.wait()
        memory = Memory.open(tmp_path, settings=PATIENT, embedder=embedder)
        assert memory.search("number").fresh
        return memory

    with ThreadPoolExecutor(8) as pool:
        memories = list(pool.map(first_call, range(8)))
    assert len({id(memory._core) for memory in memories}) == 1
    assert len(embedder.texts) == 20
    for memory in memories:
        memory.close()
    assert not [root for _, root in memory_core._cores if root == tmp_path.resolve()]


def test_d35_get_knows_aliases_missing_files_and_a_cap(open_memory: OpenMemory) -> None:
    memory = open_memory({"MEMORY.md": "Evergreen.\n", "big.md": "a long line of text\n" * 20_000})
    assert memory.get("long_term").text == "Evergreen."
    with pytest.raises(MissingFileError):
        memory.get("daily")
    with pytest.raises(MissingFileError):
        memory.get("missing.md")
    excerpt = memory.get("big.md")
    assert excerpt.truncated
    assert len(excerpt.text) < 100_000
    assert excerpt.total_lines == 20_000


def test_d36_an_edit_can_delete(open_memory: OpenMemory) -> None:
    memory = open_memory({"MEMORY.md": "- keep\n- gone by now\n"})
    memory.edit("long_term", "- gone by now", "")
    assert (memory.root / "MEMORY.md").read_text() == "- keep\n"
    assert not memory.search("gone")


def test_d37_the_floor_is_about_relevance_and_age_comes_after(open_memory: OpenMemory) -> None:
    settings = replace(PATIENT, decay=replace(PATIENT.decay, floor=0.0))
    memory = open_memory({f"memory/{LONG_AGO}.md": "Sold the bond fund."}, settings=settings)
    (hit,) = memory.search("bond fund", min_score=0.9)
    assert hit.trace.fused >= 0.9
    assert hit.score == pytest.approx(hit.trace.fused * hit.trace.decay)
    assert hit.score < 0.001


def test_d38_searches_can_be_narrowed_and_hits_are_dated(open_memory: OpenMemory) -> None:
    recent = (date.today() - timedelta(days=3)).isoformat()  # noqa: DTZ011 - the user's day, as the library sees it
    pages = {
        "MEMORY.md": "bond fund",
        f"memory/{LONG_AGO}.md": "bond fund",
        f"memory/{recent}.md": "bond fund",
        "knowledge/funds/bond.md": "---\ntags: [fund]\n---\n# Bond fund\n",
    }
    memory = open_memory(pages)

    def found(**narrowing: object) -> set[str]:
        return set(paths(memory.search("bond fund", mmr=False, **narrowing)))  # type: ignore[arg-type]

    assert found() == set(pages)
    assert len(found(max_results=2)) == 2
    assert found(since="30d") == {f"memory/{recent}.md"}
    assert found(until="2023-12-31") == {f"memory/{LONG_AGO}.md"}
    assert found(kind="memory") == {"MEMORY.md"}
    assert found(path="knowledge/*") == found(tag="fund") == {"knowledge/funds/bond.md"}
    dates = {hit.path: hit.date for hit in memory.search("bond fund", mmr=False)}
    assert (dates["MEMORY.md"], dates[f"memory/{recent}.md"]) == (None, recent)
