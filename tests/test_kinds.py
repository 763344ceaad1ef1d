"""Kinds weigh differently, and however much was said in conversations, no note is crowded out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedders import HashedEmbedder
from memories import PATIENT, OpenMemory, paths
from oracle import MemoryIndex
from vademecum import Memory, Settings
from vademecum.backends import EmbeddedIndex
from vademecum.chunk import chunk_markdown
from vademecum.errors import SettingsError, UsageError
from vademecum.ports import IndexBackend
from vademecum.rank import Candidate, Ranked, newer_first, seat, weigh
from vademecum.search import Answer, QueryVector, Request, search
from vademecum.settings import ChunkSettings, DecaySettings, KindSettings, MmrSettings, SearchSettings
from vademecum.types import ChunkRow, IndexSpec, Kind, Source

TODAY = date(2026, 11, 30)


def ranked(number: int, value: float, kind: Kind = "memory", *, words: str = "", day: str | None = None) -> Ranked:
    row = ChunkRow(number, f"{number}", "shared", kind, day, (), 1, 1, words, words, "")
    clipped = min(max(value, 0.0), 1.0)
    return Ranked(Candidate(row, value, None, 0.0, False, 1, None), clipped, value, clipped)


def ids(items: list[Ranked]) -> list[int]:
    return [item.candidate.row.id for item in items]


def test_conversations_weigh_less_than_notes_by_default() -> None:
    said, written = weigh([ranked(1, 0.8, "session"), ranked(2, 0.6)], KindSettings())[::-1]
    assert (said.score, said.fused, said.weight) == (pytest.approx(0.56), 0.8, 0.7)
    assert (written.score, written.weight) == (0.6, 1.0)


def test_every_kind_has_its_weight_and_what_speaks_against_a_hit_is_not_weakened() -> None:
    kinds = KindSettings(memory=0.5, daily=0.4, knowledge=0.3, session=0.2)
    items = [ranked(n, 1.0, kind) for n, kind in enumerate(("memory", "daily", "knowledge", "session"))]
    assert [item.score for item in weigh(items, kinds)] == pytest.approx([0.5, 0.4, 0.3, 0.2])
    assert weigh([ranked(1, -0.5, "session")], kinds)[0].value == -0.5


@pytest.mark.parametrize("wrong", [{"session": 1.5}, {"memory": -0.1}, {"daily": "a"}, {"session_share": 2}])
def test_a_weight_outside_its_range_is_named(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match=f"kinds.{next(iter(wrong))}"):
        KindSettings(**wrong)


SEATS = st.lists(st.booleans(), max_size=30)


@given(sessions=SEATS, k=st.integers(0, 12), share=st.floats(0, 1))
def test_conversations_take_their_share_of_places_unless_they_alone_answer(
    sessions: list[bool], k: int, share: float
) -> None:
    items = [ranked(n, 1 - n / 100, "session" if said else "memory") for n, said in enumerate(sessions)]
    seated = seat(items, k, share)
    said = [item for item in seated if item.candidate.row.kind == "session"]
    assert ids(seated) == sorted(ids(seated))
    assert len(seated) <= k
    if all(sessions):
        assert ids(seated) == ids(items[:k])
    else:
        assert len(said) <= max(k * share, 1)
        notes = [n for n, is_said in enumerate(sessions) if not is_said]
        free = k - len(said)
        assert [n for n in ids(seated) if not sessions[n]] == notes[:free]


@pytest.mark.kernels
def test_what_was_said_later_does_not_take_the_place_of_the_note_about_it() -> None:
    note = ranked(1, 0.9, "daily", words="the limit is five percent now", day="2026-11-01")
    said = ranked(2, 0.5, "session", words="the limit is five percent now", day="2026-11-02T10:00:00")
    assert ids(newer_first([note, said])) == [1, 2]
    assert newer_first([note, said])[1].value == 0.5


@pytest.fixture(params=["embedded", "oracle"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[IndexBackend]:
    if request.param == "oracle":
        yield MemoryIndex()
        return
    embedded = EmbeddedIndex(tmp_path, IndexSpec("test", "test"))
    yield embedded
    embedded.close()


def fill(index: IndexBackend, notes: int, said: int, embedder: HashedEmbedder) -> None:
    """Notes that mention gold in passing, and conversations about nothing else."""
    for number in range(notes):
        text = f"A note number{number} about many things, among them silver, copper and a little gold at the end."
        index.replace_source(
            Source(f"{number}.md", "shared", "memory", None, "1", "1"), chunk_markdown(text, ChunkSettings())
        )
    for number in range(said):
        index.replace_source(
            Source(f"s/{number}", "shared", "session", None, "1", "1"),
            chunk_markdown(f"gold gold gold turn{number}", ChunkSettings()),
        )
    lane = index.lane(embedder.fingerprint, embedder.calibration)
    missing = index.missing_vectors(lane, 9999)
    for start in range(0, len(missing), embedder.batch_size):
        batch = missing[start : start + embedder.batch_size]
        index.put_vectors(lane, [m.hash for m in batch], embedder.embed_documents([m.text for m in batch]))


def ask(index: IndexBackend, query: str, embedder: HashedEmbedder | None, **kinds: float) -> Answer:
    request = Request(
        query, (), TODAY, SearchSettings(min_score=0), DecaySettings(), MmrSettings(), KindSettings(**kinds)
    )
    return search(index, QueryVector(embedder, "off: no embedder in this test"), request)


@pytest.mark.parametrize("vectors", [True, False])
def test_hundreds_of_conversations_leave_the_notes_their_places(index: IndexBackend, vectors: bool) -> None:
    embedder = HashedEmbedder()
    fill(index, 3, 300, embedder)
    answer = ask(index, "gold", embedder if vectors else None)
    kinds = [hit.kind for hit in answer.hits]
    assert sorted(kinds) == ["memory"] * 3 + ["session"] * 3
    assert {hit.trace.weight for hit in answer.hits if hit.kind == "session"} == {0.7}


def test_notes_are_recalled_as_if_there_were_no_conversation(index: IndexBackend) -> None:
    embedder = HashedEmbedder()
    fill(index, 40, 300, embedder)
    answer = ask(index, "gold", embedder, session=0.0)
    assert [hit.kind for hit in answer.hits] == ["memory"] * 6
    assert answer.explanation["vector_candidates"] > 24


def test_conversations_alone_fill_all_places(index: IndexBackend) -> None:
    embedder = HashedEmbedder()
    fill(index, 0, 30, embedder)
    answer = ask(index, "gold", embedder)
    assert [hit.kind for hit in answer.hits] == ["session"] * 6
    assert answer.explanation["sessions_left_out"] == 0


def test_places_that_conversations_may_not_take_are_counted(index: IndexBackend) -> None:
    embedder = HashedEmbedder()
    fill(index, 1, 30, embedder)
    answer = ask(index, "gold", embedder)
    assert sorted(hit.kind for hit in answer.hits) == ["memory"] + ["session"] * 3
    assert answer.explanation["sessions_left_out"] == 2
    whole = ask(index, "gold", embedder, session_share=1)
    assert len(whole.hits) == 6


# -- filters -----------------------------------------------------------------------------------------------------------

PAGES = {
    "MEMORY.md": "# Accounts\n\nA gold account.\n\n## Éric's Broker\n\nFidelity holds the gold.\n",
    "topic.md": "# Broker\n\nThe broker sells gold. #metal #Mine/Shaft\n",
    "front.md": "---\ntags: [metal]\n---\n\nA page on gold.\n",
}


def found(memory: Memory, **filters: object) -> set[str]:
    return set(paths(memory.search("gold", **filters)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("Broker", {"topic.md"}),
        ("broker", {"topic.md"}),
        ("E\u0301RIC'S BROKER", {"MEMORY.md"}),
        (" accounts › éric's broker ", {"MEMORY.md"}),
        ("Accounts", {"MEMORY.md"}),
        ("Brok", set()),
        ("", set()),
        ("›", set()),
    ],
)
def test_a_heading_narrows_the_search_in_any_spelling(
    open_memory: OpenMemory, heading: str, expected: set[str]
) -> None:
    assert found(open_memory(PAGES, settings=small_chunks()), heading=heading) == expected


def small_chunks() -> Settings:
    return replace(PATIENT, chunk=ChunkSettings(tokens=16, overlap_tokens=0))


def test_a_heading_that_is_no_text_is_refused(open_memory: OpenMemory) -> None:
    with pytest.raises(UsageError, match="heading"):
        open_memory(PAGES).search("gold", heading=7)  # type: ignore[arg-type]


def test_a_tag_counts_in_front_matter_and_in_the_text(open_memory: OpenMemory) -> None:
    memory = open_memory(PAGES)
    assert found(memory, tag="metal") == found(memory, tag="#METAL") == {"front.md", "topic.md"}
    assert found(memory, tag="mine/shaft") == {"topic.md"}
    assert found(memory, tag="metal", heading="broker", path="*.md", kind="memory") == {"topic.md"}
