"""What became of a query's candidates and of what was expected: each way to be absent is told apart."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from embedders import HashedEmbedder
from memories import PATIENT, OpenMemory, paths, write
from vademecum import Memory, cli
from vademecum.diagnose import InspectedQuery
from vademecum.errors import PathError, UsageError
from vademecum.settings import SearchSettings

PAGES = {
    "MEMORY.md": "# Accounts\n\nThe broker is Fidelity.\n",
    "tea.md": "Tea at five, every day.\n",
    "memory/2026-01-02.md": "Asked the broker about fees.\n",
    "memory/users/bob/MEMORY.md": "The broker of Bob is Schwab.\n",
}


@pytest.fixture
def memory(open_memory: OpenMemory) -> Memory:
    return open_memory(PAGES)


def why(memory: Memory, query: str, expect: str, **options: object) -> str:
    """The only reason why what was expected is absent."""
    expected = memory.inspect_query(query, expect=expect, **options).expected
    assert expected is not None
    assert expected.hit is None
    (reason,) = expected.reasons
    return reason


def test_every_candidate_is_told_with_its_evidence_and_its_places(open_memory: OpenMemory) -> None:
    memory = open_memory(PAGES, embedder=HashedEmbedder())
    result = memory.search("which broker?", max_results=2)
    found = memory.inspect_query("which broker?", max_results=2)
    assert [(c.path, c.fate) for c in found.candidates[:2]] == [(h.path, f"hit {n}") for n, h in enumerate(result, 1)]
    for candidate, hit in zip(found.candidates, result, strict=False):
        assert (candidate.vector, candidate.keyword, candidate.fused) == (
            hit.trace.vector,
            hit.trace.keyword,
            hit.trace.fused,
        )
        assert candidate.score == hit.score
    assert found.stages["hits"] == 2
    assert found.stages["fused"] == len(found.candidates) == 3
    assert found.channels == {"keyword": "ok", "vector": "ok"}
    assert found.terms["broker"] == 2
    assert found.lane == "test|hashed|64|||unit"
    counts = [found.stages[name] for name in ("fused", "above_floor", "aged", "diversity", "picked", "hits")]
    assert counts == sorted(counts, reverse=True)


def test_a_hit_that_was_expected_has_its_rank_and_no_reason(memory: Memory) -> None:
    expected = memory.inspect_query("broker Fidelity", expect="MEMORY.md:3").expected
    assert expected is not None
    assert (expected.hit, expected.reasons) == (1, ())
    expected = memory.inspect_query("broker Fidelity", expect="long_term").expected
    assert expected is not None
    assert (expected.path, expected.hit) == ("MEMORY.md", 1)


def test_what_is_not_there_or_no_page_is_said(memory: Memory) -> None:
    write(
        memory.root, {"drafts/x.md": "broker", ".vademecumignore": "drafts/\n", "memory/dreams/2026-01-01.md": "broker"}
    )
    assert why(memory, "broker", "nope.md") == "not indexed: nope.md: there is no such file"
    assert why(memory, "broker", "drafts/x.md").endswith("is kept out of the memory by .vademecumignore")
    assert "diary folder" in why(memory, "broker", "memory/dreams/2026-01-01.md")
    assert why(memory, "broker", "MEMORY.md:99").startswith("MEMORY.md:99: no chunk holds this line")
    write(memory.root, {"bad.md": b"broker \xff", "empty.md": "\n"})
    assert "bad.md: is not valid UTF-8" in why(memory, "broker", "bad.md")
    assert why(memory, "broker", "empty.md") == "empty.md: is indexed, and holds no text"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"kind": "daily"}, "kept out by the filter kind in daily"),
        ({"path": "memory/*"}, "kept out by the filter path glob memory/*"),
        ({"since": "2026-01-01", "tag": "x"}, "kept out by the filter date ge 2026-01-01 and the filter tag has x"),
        ({"heading": "Nowhere"}, "kept out by the filter heading"),
    ],
)
def test_a_filter_that_kept_it_out_is_named(memory: Memory, options: dict[str, object], reason: str) -> None:
    assert reason in why(memory, "broker", "MEMORY.md", **options)


def test_words_that_are_missing_are_named(memory: Memory) -> None:
    reason = why(memory, "which broker?", "tea.md")
    assert "it holds none of the query's words (broker)" in reason
    assert "vector is off: embedding.provider is none" in reason


def test_words_too_common_to_be_asked_for_are_named(open_memory: OpenMemory) -> None:
    settings = replace(PATIENT, search=replace(PATIENT.search, postings_budget=5))
    memory = open_memory({f"{n}.md": f"broker number{n}" for n in range(30)}, settings=settings)
    assert "it holds only broker, too common to be asked for" in why(memory, "broker number7", "8.md")


def test_a_place_behind_the_candidates_is_found_out(open_memory: OpenMemory) -> None:
    memory = open_memory({f"{n:02d}.md": "broker " + "filler " * n for n in range(30)}, embedder=HashedEmbedder())
    reason = why(memory, "broker", "29.md", max_results=1)
    assert "by keyword it has place 30 (it holds broker), and 4 are looked at" in reason
    assert "by vector it has place 30" in reason


def test_the_floor_is_named_with_both_numbers(open_memory: OpenMemory) -> None:
    memory = open_memory(PAGES, embedder=HashedEmbedder(256))
    reason = why(memory, "the broker Fidelity", "tea.md", min_score=0.5)
    assert "below the floor: relevance 0.0" in reason
    assert "less than min_score 0.5" in reason


def test_diversity_names_the_hit_that_it_is_like(open_memory: OpenMemory) -> None:
    same = "the broker is Fidelity and the fee is five a month whatever is bought or sold there"
    memory = open_memory({"a.md": same, "b.md": f"{same} now", "c.md": "Fidelity takes five", "d.md": "five"})
    query = "broker Fidelity fee five"
    settings = replace(memory.settings.mmr, lambda_=0.2)
    memory.settings = replace(memory.settings, mmr=settings)
    assert paths(memory.search(query, max_results=2)) == ["a.md", "c.md"]
    reason = why(memory, query, "b.md", max_results=2)
    assert "pushed out by diversity from place 2: it shares 9" in reason
    assert reason.endswith("of its words with a.md:1-1")


def test_beyond_the_last_place_is_said(open_memory: OpenMemory) -> None:
    memory = open_memory({f"{n}.md": "broker " + "filler " * n for n in range(8)})
    assert "3.md:1-1: place 4: only the first 3 are returned" in why(memory, "broker", "3.md", max_results=3, mmr=False)
    reason = why(memory, "broker", "7.md", max_results=2, mmr=False)
    assert "place 8 by relevance, kind and age: only the first 4 go on to diversity" in reason


def test_a_text_without_a_vector_is_said(open_memory: OpenMemory) -> None:
    embedder = HashedEmbedder(poison={"Tea"})
    memory = open_memory(PAGES, embedder=embedder)
    assert "it has no vector yet" in why(memory, "broker", "tea.md")


def test_a_page_that_is_somebody_elses_is_not_looked_into(open_memory: OpenMemory, memory: Memory) -> None:
    for call in (
        lambda: memory.inspect_query("broker", expect="memory/users/bob/MEMORY.md:1"),
        lambda: memory.inspect_chunks("memory/users/bob/MEMORY.md"),
    ):
        with pytest.raises(PathError, match="somebody else's"):
            call()
    assert "bob" not in str(memory.inspect_query("broker Schwab"))
    bob = open_memory(user="bob")
    assert bob.inspect_chunks("long_term").scope == "user:bob"


@pytest.mark.parametrize("expect", ["", "../x.md", "x.md:0", 7, "x\0.md"])
def test_an_expectation_that_cannot_be_meant_is_refused(memory: Memory, expect: object) -> None:
    with pytest.raises((UsageError, PathError)):
        memory.inspect_query("broker", expect=expect)  # type: ignore[arg-type]


def test_a_blank_query_asks_no_provider(open_memory: OpenMemory) -> None:
    embedder = HashedEmbedder()
    with pytest.raises(UsageError, match="query is empty"):
        open_memory(PAGES, embedder=embedder).inspect_query(" \n")
    assert embedder.queries == []


# chunks


def test_chunks_of_a_page_are_told_with_lines_headings_tokens_and_vectors(open_memory: OpenMemory) -> None:
    filler = "Fidelity keeps it all.\n" * 197
    page = f"---\ntags: [money]\n---\n# Accounts\n\n{filler}\n## Fees\n\nFive.\n"
    memory = open_memory({"a.md": page}, embedder=HashedEmbedder(poison={"Five"}))
    memory.sync()
    found = memory.inspect_chunks("a.md")
    assert (found.state, found.why, found.scope, found.kind, found.tags) == (
        "indexed",
        "",
        "shared",
        "memory",
        ("money",),
    )
    first, last = found.chunks[0], found.chunks[-1]
    assert (first.start_line, first.heading, last.heading) == (4, ("Accounts",), ("Accounts", "Fees"))
    assert (list(first.vectors.values()), list(last.vectors.values())) == ([True], [False])
    assert all(c.tokens > 0 and c.text in page for c in found.chunks)


def test_a_page_that_changed_since_says_so(memory: Memory) -> None:
    memory.sync()
    write(memory.root, {"tea.md": "Tea at six."})
    found = memory.inspect_chunks("tea.md")
    assert (found.state, found.chunks[0].text) == ("behind", "Tea at five, every day.")
    assert "has changed since it was indexed" in found.why
    (memory.root / "tea.md").unlink()
    assert memory.inspect_chunks("tea.md").why == "tea.md: there is no such file"
    assert memory.inspect_chunks("new.md").state == "missing"


# conversations


def test_conversations_are_looked_into_like_pages(memory: Memory) -> None:
    said = [{"role": "user", "content": "Which broker?"}, {"role": "assistant", "content": "Fidelity, as before."}]
    memory.history.append("chat", said)
    memory.sync()
    page = memory.inspect_chunks("history.sqlite/chat")
    assert (page.state, page.kind, [(c.start_line, c.end_line) for c in page.chunks]) == (
        "indexed",
        "session",
        [(1, 2)],
    )
    expected = memory.inspect_query("Fidelity before", expect="history.sqlite/chat:2").expected
    assert expected is not None
    assert expected.hit is not None
    assert "kept out by the filter kind" in why(memory, "Fidelity", "history.sqlite/chat", kind="daily")
    assert memory.inspect_chunks("history.sqlite/other").why == "history.sqlite/other: there is no such conversation"
    memory.history.append("chat", said)
    assert memory.inspect_chunks("history.sqlite/chat").state == "behind"
    assert "1 changes are not indexed yet" in str(memory.doctor())
    memory.sync()
    assert [finding for finding in memory.doctor() if finding.state not in {"ok", "skipped"}] == []


# on the command line


def test_the_commands_print_what_was_found_and_say_by_their_code_whether_it_was_expected(
    memory: Memory, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(memory.root)
    assert cli.main(["inspect", "query", "which broker?", "--expect", "MEMORY.md:3", "--root", root]) == 0
    out = capsys.readouterr().out
    assert "MEMORY.md:1-3 hit" in out
    assert "expected MEMORY.md:3: it is hit" in out
    assert cli.main(["inspect", "query", "which broker?", "--expect", "tea.md", "--root", root]) == 1
    assert "expected tea.md, which is not among the hits: tea.md:1-1: no candidate" in capsys.readouterr().out
    assert cli.main(["inspect", "query", "broker", "--kind", "daily", "--json", "--root", root]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [candidate["path"] for candidate in answer["candidates"]] == ["memory/2026-01-02.md"]
    assert cli.main(["inspect", "chunks", "MEMORY.md", "--root", root]) == 0
    assert "1-3: " in capsys.readouterr().out
    assert cli.main(["inspect", "chunks", "nope.md", "--root", root]) == 1
    assert "nope.md: there is no such file" in capsys.readouterr().err
    assert cli.main(["inspect", "chunks", "nope.md", "--json", "--root", root]) == 1
    assert json.loads(capsys.readouterr().out)["state"] == "missing"
    assert cli.main(["inspect", "query", "", "--root", root]) == 2


def test_inspecting_and_searching_agree_on_anything(open_memory: OpenMemory) -> None:
    memory = open_memory(
        {f"{n}.md": f"# Page {n}\n\nbroker {'fund ' * (n % 5)} number{n}\n" for n in range(40)},
        embedder=HashedEmbedder(),
    )
    for query in ("broker", "fund number7", "Page 3", "nothing at all", "number1 number2"):
        for options in ({}, {"mmr": False}, {"max_results": 3, "fusion": "rrf"}, {"path": "1*.md", "min_score": 0.3}):
            found: InspectedQuery = memory.inspect_query(query, **options)
            hits = [c for c in found.candidates if "hits" in c.places]
            assert [(c.path, c.score) for c in hits] == [(h.path, h.score) for h in memory.search(query, **options)]


def test_settings_of_search_are_those_of_the_memory(open_memory: OpenMemory) -> None:
    settings = replace(PATIENT, search=SearchSettings(max_results=1, wait_ms=60_000))
    assert open_memory(PAGES, settings=settings).inspect_query("broker").stages["hits"] == 1
