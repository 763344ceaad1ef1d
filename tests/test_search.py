"""The funnel over both implementations of the index port, stage by stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embedders import HashedEmbedder
from oracle import MemoryIndex
from vademecum.backends import EmbeddedIndex
from vademecum.chunk import chunk_markdown
from vademecum.errors import ProviderDownError
from vademecum.ports import IndexBackend
from vademecum.search import Answer, QueryVector, Request, search
from vademecum.search.recall import affordable, idf
from vademecum.settings import ChunkSettings, DecaySettings, MmrSettings, SearchSettings
from vademecum.types import Frequencies, IndexSpec, Source

TODAY = date(2026, 11, 30)
PLAIN = SearchSettings(min_score=0)
NO_DECAY, NO_MMR = DecaySettings(enabled=False), MmrSettings(enabled=False)


@pytest.fixture(params=["embedded", "oracle"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[IndexBackend]:
    if request.param == "oracle":
        yield MemoryIndex()
        return
    embedded = EmbeddedIndex(tmp_path, IndexSpec("test", "test"))
    yield embedded
    embedded.close()


def fill(index: IndexBackend, pages: dict[str, str], embedder: HashedEmbedder | None = None) -> None:
    for path, text in pages.items():
        day = path.removeprefix("memory/")[:10] if path.startswith("memory/2") else None
        source = Source(path, "shared", "daily" if day else "memory", day, "1", "1")
        index.replace_source(source, chunk_markdown(text, ChunkSettings()))
    if embedder is not None:
        embed(index, embedder)


def embed(index: IndexBackend, embedder: HashedEmbedder) -> None:
    lane = index.lane(embedder.fingerprint, embedder.calibration)
    missing = index.missing_vectors(lane, 999)
    for start in range(0, len(missing), embedder.batch_size):
        batch = missing[start : start + embedder.batch_size]
        index.put_vectors(lane, [m.hash for m in batch], embedder.embed_documents([m.text for m in batch]))


def ask(
    index: IndexBackend,
    query: str,
    embedder: HashedEmbedder | None = None,
    settings: SearchSettings = PLAIN,
    decay: DecaySettings = NO_DECAY,
    mmr: MmrSettings = NO_MMR,
) -> Answer:
    request = Request(query, (), TODAY, settings, decay, mmr)
    return search(index, QueryVector(embedder, "off: no embedder in this test"), request)


def paths(answer: Answer) -> list[str]:
    return [hit.path for hit in answer.hits]


def test_each_stage_can_be_switched_off_and_the_trace_says_what_was_on(index: IndexBackend) -> None:
    fill(index, {"memory/2026-01-01.md": "bond fund sold", "a.md": "bond"}, HashedEmbedder())
    bare = ask(index, "bond", HashedEmbedder())
    assert {hit.trace.decay for hit in bare.hits} == {1.0}
    assert {hit.trace.mmr for hit in bare.hits} == {None}
    full = ask(index, "bond", HashedEmbedder(), decay=DecaySettings(), mmr=MmrSettings())
    assert [hit.trace.mmr for hit in full.hits] == [1, 2]
    assert full.hits[1].trace.decay == pytest.approx(0.9, abs=0.01)


def test_a_chunk_found_by_one_channel_is_scored_by_the_other_too(index: IndexBackend) -> None:
    embedder = HashedEmbedder()
    pages = {f"{number}.md": f"bond bond filler{number}" for number in range(60)}
    fill(index, pages | {"far.md": "something else altogether with a bond in it somewhere near the very end"}, embedder)
    (hit,) = [hit for hit in ask(index, "altogether", embedder).hits if hit.path == "far.md"]
    assert hit.trace.vector is not None
    assert hit.trace.keyword == 1.0


def test_a_chunk_without_a_vector_keeps_its_keyword_relevance(index: IndexBackend) -> None:
    embedder = HashedEmbedder()
    fill(index, {"old.md": "passport in the drawer"}, embedder)
    fill(index, {"new.md": "passport renewed"})
    answer = ask(index, "passport", embedder)
    late = next(hit for hit in answer.hits if hit.path == "new.md")
    assert late.trace.vector is None
    assert late.score == pytest.approx(late.trace.keyword)


def test_a_weight_of_zero_switches_its_channel_off_and_says_so(index: IndexBackend) -> None:
    embedder = HashedEmbedder()
    fill(index, {"a.md": "bond"}, embedder)
    text_only = ask(index, "bond", embedder, replace(PLAIN, vector_weight=0.0))
    assert text_only.channels == {"keyword": "ok", "vector": "off: search.vector_weight is 0"}
    assert text_only.hits[0].trace.vector is None
    assert embedder.queries == []
    vector_only = ask(index, "bond", embedder, replace(PLAIN, text_weight=0.0))
    assert vector_only.channels["keyword"] == "off: search.text_weight is 0"
    assert vector_only.hits[0].trace.channels == ("vector",)


def test_channels_tell_off_from_failed(index: IndexBackend) -> None:
    embedder = HashedEmbedder()
    fill(index, {"a.md": "bond"})
    assert ask(index, "bond").channels["vector"] == "off: no embedder in this test"
    assert "no text has been embedded" in ask(index, "bond", embedder).channels["vector"]
    embedder.fail(ProviderDownError("timeout"))
    assert ask(index, "bond", embedder).channels["vector"] == "failed: timeout"
    assert paths(ask(index, "bond", embedder)) == ["a.md"]


@pytest.mark.parametrize("fusion", ["calibrated", "weighted", "rrf"])
def test_every_fusion_finds_the_exact_word_first(index: IndexBackend, fusion: str) -> None:
    embedder = HashedEmbedder()
    fill(index, {f"{number}.md": f"plain text number{number}" for number in range(30)}, embedder)
    answer = ask(index, "number17", embedder, SearchSettings(fusion=fusion))  # type: ignore[arg-type]
    assert paths(answer)[0] == "17.md"


def test_natural_questions_find_notes_that_hold_only_some_of_their_words(index: IndexBackend) -> None:
    fill(index, {"a.md": "The user prefers low-risk bonds", "b.md": "The cat sleeps"})
    assert paths(ask(index, "what bonds does the user prefer?"))[0] == "a.md"


def test_any_part_of_a_chinese_run_is_found_and_a_missing_part_ranks_lower(index: IndexBackend) -> None:
    fill(index, {"a.md": "用户的风险偏好是保守的", "b.md": "云工开物 300 元学生券", "c.md": "今天玩成语接龙游戏"})
    assert paths(ask(index, "风险偏好")) == ["a.md"]
    assert paths(ask(index, "云工开物 优惠券")) == ["b.md"]
    for part in ("接龙", "游戏", "成语接龙", "玩", "今天"):
        assert paths(ask(index, part)) == ["c.md"], part


def test_the_rarest_words_are_asked_and_what_was_left_out_is_said(index: IndexBackend) -> None:
    fill(index, {f"{number}.md": f"common word{number}" for number in range(40)})
    answer = ask(index, "common word7", settings=replace(PLAIN, postings_budget=10))
    assert paths(answer) == ["7.md"]
    assert answer.explanation["left_out"] == ["common"]


def test_common_words_that_were_left_out_still_choose_among_what_the_rare_ones_find(index: IndexBackend) -> None:
    pages = {f"{number:03d}.md": "rare filler" for number in range(60)}
    pages |= {f"{number:03d}.md": "common other" for number in range(60, 140)}
    pages |= {f"{number:03d}.md": "filler other" for number in range(140, 200)}
    pages |= {f"{number:03d}.md": "rare common" for number in (50, 52, 54, 56, 58)}
    fill(index, pages)
    answer = ask(index, "rare common", settings=replace(PLAIN, postings_budget=60))
    assert answer.explanation["left_out"] == ["common"]
    assert paths(answer)[:5] == ["050.md", "052.md", "054.md", "056.md", "058.md"]


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(0, 50), max_size=8), st.integers(1, 60))
def test_the_budget_keeps_the_rarest_word_and_never_more_than_it_can_pay(counts: dict[str, int], budget: int) -> None:
    asked, left_out = affordable(Frequencies(50, counts), budget)
    assert set(asked) | set(left_out) == {term for term, count in counts.items() if count}
    assert sum(counts[term] for term in asked) <= max(budget, min((c for c in counts.values() if c), default=0))
    assert all(counts[kept] <= counts[dropped] for kept in asked for dropped in left_out)


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_idf_is_positive_and_falls_with_frequency(total: int, count: int) -> None:
    count = min(count, total)
    weights = idf(Frequencies(total, {"rarer": count // 2, "commoner": count}))
    assert 0 <= weights["commoner"] <= weights["rarer"]


WORDS = ("bond", "fund", "broker", "cash", "plan", "风险", "偏好")
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join), min_size=1, max_size=12)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=TEXTS, query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4, unique=True).map(" ".join))
def test_both_implementations_of_the_port_give_the_same_answer(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: str
) -> None:
    embedder = HashedEmbedder()
    pages = {f"memory/2026-0{1 + n % 9}-1{n % 10}.md" if n % 2 else f"{n}.md": text for n, text in enumerate(texts)}
    answers = []
    real = EmbeddedIndex(tmp_path_factory.mktemp("index"), IndexSpec("test", "test"))
    for index in (real, MemoryIndex()):
        fill(index, pages, embedder)
        answers.append(ask(index, query, embedder, SearchSettings(), DecaySettings(), MmrSettings()))
    real.close()
    ours, expected = answers
    assert [round(hit.score, 4) for hit in ours.hits] == [round(hit.score, 4) for hit in expected.hits]
    assert ours.channels == expected.channels
    assert ours.explanation["terms"] == expected.explanation["terms"]
