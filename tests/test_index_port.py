"""One conformance suite for the index port; every implementation passes it, the plain one in oracle.py included."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oracle import MemoryIndex
from vademecum.backends import EmbeddedIndex
from vademecum.errors import UsageError
from vademecum.index import schema
from vademecum.ports import IndexBackend
from vademecum.types import Calibration, Chunk, Collected, Condition, Fingerprint, IndexSpec, Source

SPEC = IndexSpec("test", "test")
FINGERPRINT = Fingerprint("test", "model", 4)
PRIOR = Calibration(0.1, 0.9)


def source(path: str = "a.md", **changes: object) -> Source:
    fields = {"scope": "shared", "kind": "memory", "date": None, "stat": "1", "fingerprint": "f"}
    return Source(path, **(fields | changes))  # type: ignore[arg-type]


def chunk(text: str, heading: tuple[str, ...] = (), occurrence: int = 0, line: int = 1) -> Chunk:
    digest = hashlib.sha256("\n".join((*heading, text)).encode()).digest()
    return Chunk(text, line, line, heading, digest, occurrence, text.lower(), " ".join(heading).lower())


def unit(*values: float) -> np.ndarray:
    row = np.array(values, np.float32)
    return row / np.linalg.norm(row)


@pytest.fixture(params=["embedded", "embedded without FTS5", "oracle"])
def make(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], IndexBackend]]:
    if request.param == "embedded without FTS5":
        monkeypatch.setattr(schema, "fts5_available", lambda: False)
    with ExitStack() as stack:

        def new() -> IndexBackend:
            if request.param == "oracle":
                return MemoryIndex()
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            folder.mkdir()
            index = EmbeddedIndex(folder, SPEC)
            stack.callback(index.close)
            return index

        yield new


@pytest.fixture
def index(make: Callable[[], IndexBackend]) -> IndexBackend:
    return make()


def found(index: IndexBackend, *terms: str, k: int = 10, where: tuple[Condition, ...] = ()) -> list[str]:
    with index.reader() as reader:
        return [row.text for row in reader.get([hit.id for hit in reader.search_keyword(terms, k, where)])]


def test_a_new_index_is_empty_and_answers_nothing(index: IndexBackend) -> None:
    assert index.fingerprints() == {}
    assert found(index, "word") == []
    with index.reader() as reader:
        assert reader.lanes() == []
        assert reader.document_frequencies(["word"], ()).by_term == {"word": 0}
        assert reader.get([1, 2]) == []
    assert index.health().chunks == 0


def test_rows_come_back_as_written(index: IndexBackend) -> None:
    written = source("memory/2026-01-02.md", kind="daily", date="2026-01-02", tags=("a", "b"))
    index.replace_source(written, [chunk("Fidelity is the broker", ("Accounts", "Broker"), line=7)])
    assert index.fingerprints() == {written.path: written}
    with index.reader() as reader:
        (hit,) = reader.search_keyword(["broker"], 5, ())
        (row,) = reader.get([hit.id])
    assert (row.path, row.scope, row.kind, row.date) == (written.path, "shared", "daily", "2026-01-02")
    assert (row.heading, row.start_line, row.end_line) == (("Accounts", "Broker"), 7, 7)
    assert (row.text, row.words, row.heading_words) == (
        "Fidelity is the broker",
        "fidelity is the broker",
        "accounts broker",
    )


def test_a_replaced_text_leaves_no_word_behind(index: IndexBackend) -> None:
    index.replace_source(source(), [chunk("the broker is Fidelity")])
    index.replace_source(source(), [chunk("the broker is Schwab")])
    assert found(index, "fidelity") == []
    assert found(index, "schwab") == ["the broker is Schwab"]
    with index.reader() as reader:
        assert reader.document_frequencies(["fidelity", "broker"], ()).by_term == {"fidelity": 0, "broker": 1}


def test_what_a_chunk_holds_is_told_term_by_term(index: IndexBackend) -> None:
    index.replace_source(source(), [chunk("the broker is Fidelity", line=1), chunk("nothing of it not it", line=2)])
    with index.reader() as reader:
        assert reader.held([1, 2, 99], ["fidelity", "schwab", "it"]) == {1: b"\1\0\0", 2: b"\0\0\2"}
        assert reader.held([1], []) == {1: b""}
        assert reader.held([], ["it"]) == {}


def test_an_unchanged_chunk_keeps_its_id_when_it_moves(index: IndexBackend) -> None:
    index.replace_source(source(), [chunk("one", line=1), chunk("two", line=2)])
    with index.reader() as reader:
        before = {row.text: row.id for row in reader.get([1, 2])}
    index.replace_source(source(), [chunk("zero", line=1), chunk("one", line=2), chunk("two", line=3)])
    with index.reader() as reader:
        after = {row.text: (row.id, row.start_line) for row in reader.get(range(1, 9))}
    assert after["one"] == (before["one"], 2)
    assert after["two"] == (before["two"], 3)


def test_ids_are_never_reused(index: IndexBackend) -> None:
    index.replace_source(source(), [chunk("one")])
    index.delete(["a.md"])
    index.replace_source(source(), [chunk("two")])
    with index.reader() as reader:
        assert [hit.id for hit in reader.search_keyword(["two"], 1, ())] == [2]


def test_equal_pieces_of_one_file_are_separate_rows(index: IndexBackend) -> None:
    index.replace_source(source(), [chunk("same", occurrence=0), chunk("same", occurrence=1, line=5)])
    assert found(index, "same") == ["same", "same"]


def test_the_same_text_in_two_files_is_two_rows_and_one_vector(index: IndexBackend) -> None:
    for path in ("a.md", "b.md"):
        index.replace_source(source(path), [chunk("shared text")])
    lane = index.lane(FINGERPRINT, PRIOR)
    assert index.count_missing(lane) == 1
    assert [text.text for text in index.missing_vectors(lane, 10)] == ["shared text"]
    index.put_vectors(lane, [chunk("shared text").hash], unit(1, 0, 0, 0)[None, :])
    with index.reader() as reader:
        hits = reader.search_vector(lane, unit(1, 0, 0, 0), 10, ())
        paths = [row.path for row in reader.get([hit.id for hit in hits])]
    assert paths == ["a.md", "b.md"]
    index.delete(["b.md"])
    assert found(index, "shared") == ["shared text"]
    assert index.count_missing(lane) == 0


def test_a_range_of_lines_is_replaced_and_the_rest_stays(index: IndexBackend) -> None:
    def texts() -> list[tuple[int, str]]:
        with index.reader() as reader:
            return sorted((row.start_line, row.text) for row in reader.get(range(1, 99)))

    index.replace_source(source(), [chunk(f"line {line}", line=line) for line in (1, 5, 9, 13)])
    kept = found(index, "13")
    index.replace_source(source(fingerprint="g"), [chunk("line 5", line=5), chunk("new", line=6)], 5, 13)
    assert texts() == [(1, "line 1"), (5, "line 5"), (6, "new"), (13, "line 13")]
    assert index.fingerprints()["a.md"].fingerprint == "g"
    assert found(index, "9") == []
    assert found(index, "13") == kept
    index.replace_source(source(), [], 6)
    assert texts() == [(1, "line 1"), (5, "line 5")]
    index.distrust()
    index.replace_source(source(), [chunk("line 1", line=1)], 1, 2)
    assert texts() == [(1, "line 1")], "rows of a distrusted source go, whatever is replaced"


def test_a_source_that_moves_keeps_its_rows_and_never_takes_anothers_place(index: IndexBackend) -> None:
    index.replace_source(source("a/x.md"), [chunk("one")])
    index.replace_source(source("a/y.md"), [chunk("two")])
    index.replace_source(source("b/y.md"), [chunk("three")])
    with index.reader() as reader:
        before, (kept,) = reader.generation(), reader.search_keyword(["one"], 5, ())
    index.move({"a/x.md": "b/x.md", "a/y.md": "b/y.md", "never.md": "b/never.md"})
    assert sorted(index.fingerprints()) == ["a/y.md", "b/x.md", "b/y.md"]
    assert index.fingerprints()["b/x.md"] == source("b/x.md")
    with index.reader() as reader:
        assert reader.generation() > before
        assert [hit.id for hit in reader.search_keyword(["one"], 5, ())] == [kept.id]
        assert reader.get([kept.id])[0].path == "b/x.md"
        assert found(index, "three", where=(Condition("path", "prefix", "b/"),)) == ["three"]


def test_deleting_names_only_what_existed(index: IndexBackend) -> None:
    index.replace_source(source(), [chunk("one")])
    assert index.delete(["a.md", "never.md"]) == 1
    assert index.delete(["a.md"]) == 0
    assert found(index, "one") == []


def test_the_generation_grows_with_content_and_not_with_stamps(index: IndexBackend) -> None:
    def now() -> int:
        with index.reader() as reader:
            return reader.generation()

    start = now()
    index.replace_source(source(), [chunk("one")])
    written = now()
    index.touch([source(stat="2")])
    assert index.fingerprints()["a.md"].stat == "2"
    assert start < written == now()
    index.delete(["a.md"])
    assert now() > written


def test_a_rarer_word_ranks_above_a_common_one(index: IndexBackend) -> None:
    index.replace_source(source(), [chunk(f"common number{i}") for i in range(8)] + [chunk("common rare")])
    assert found(index, "common", "rare")[0] == "common rare"


def test_operators_of_the_full_text_language_are_plain_words(index: IndexBackend) -> None:
    texts = ['a "quoted" b', "NEAR( b", "foo:bar c", "x* d", "c++ e", "2026-03-31 f", "it's g", "- h", "and or not"]
    index.replace_source(source(), [chunk(text) for text in texts])
    for word in ('"quoted"', "near(", "foo:bar", "x*", "c++", "2026-03-31", "it's", "-", "not"):
        assert len(found(index, word)) == 1, word


def test_vectors_survive_their_text_and_come_back_with_it(index: IndexBackend) -> None:
    lane = index.lane(FINGERPRINT, PRIOR)
    index.replace_source(source(), [chunk("one")])
    index.put_vectors(lane, [chunk("one").hash], unit(0, 1, 0, 0)[None, :])
    index.delete(["a.md"])
    with index.reader() as reader:
        assert reader.search_vector(lane, unit(0, 1, 0, 0), 5, ()) == []
    index.replace_source(source("b.md"), [chunk("one")])
    assert index.count_missing(lane) == 0
    with index.reader() as reader:
        assert reader.search_vector(lane, unit(0, 1, 0, 0), 5, ())[0].score == pytest.approx(1)


def test_lanes_do_not_see_each_other(index: IndexBackend) -> None:
    index.replace_source(source(), [chunk("one")])
    first = index.lane(FINGERPRINT, PRIOR)
    second = index.lane(Fingerprint("test", "other", 4), Calibration(0.2, 0.8))
    assert index.lane(FINGERPRINT, Calibration(0, 1)) == first
    index.put_vectors(first, [chunk("one").hash], unit(1, 0, 0, 0)[None, :])
    assert (index.count_missing(first), index.count_missing(second)) == (0, 1)
    with index.reader() as reader:
        assert reader.search_vector(second, unit(1, 0, 0, 0), 5, ()) == []
        assert [lane.calibration for lane in reader.lanes()] == [PRIOR, Calibration(0.2, 0.8)]


def states(index: IndexBackend) -> dict[str, str]:
    with index.reader() as reader:
        return {lane.fingerprint.split("|")[1]: lane.state for lane in reader.lanes()}


def test_the_first_lane_serves_and_another_one_takes_over_in_one_step(index: IndexBackend) -> None:
    first = index.lane(FINGERPRINT, PRIOR)
    second = index.lane(Fingerprint("test", "other", 8), PRIOR)
    assert states(index) == {"model": "serving", "other": "building"}
    index.serve(second)
    assert states(index) == {"model": "kept", "other": "serving"}
    index.serve(second)
    index.serve(first)
    assert states(index) == {"model": "serving", "other": "kept"}
    assert index.lane(FINGERPRINT, PRIOR).state == "serving"


ALL_TIME = 1e12


def test_a_collection_takes_idle_lanes_and_lost_texts_and_nothing_else(index: IndexBackend) -> None:
    kept, serving, idle = (index.lane(Fingerprint("test", name, 4), PRIOR) for name in ("kept", "serving", "idle"))
    index.serve(serving)
    index.replace_source(source(), [chunk("stays"), chunk("goes")])
    for lane in (kept, serving, idle):
        index.put_vectors(lane, [chunk("stays").hash, chunk("goes").hash], np.stack([unit(1, 0, 0, 0)] * 2))
    index.replace_source(source(), [chunk("stays")])
    assert index.collect([kept.fingerprint], before=1.0) == Collected(False)
    assert index.collect(None, before=ALL_TIME, dry_run=True).lanes == ()
    planned = index.collect([kept.fingerprint], before=ALL_TIME, dry_run=True)
    assert (planned.lanes, planned.texts, planned.vectors) == ((idle.fingerprint,), 1, 4)
    assert set(states(index)) == {"kept", "serving", "idle"}
    done = index.collect([kept.fingerprint], before=ALL_TIME)
    assert (done.lanes, done.texts, done.vectors) == (planned.lanes, planned.texts, planned.vectors)
    assert states(index) == {"kept": "kept", "serving": "serving"}
    assert (index.count_missing(kept), index.count_missing(serving)) == (0, 0)
    with index.reader() as reader:
        assert len(reader.search_vector(serving, unit(1, 0, 0, 0), 9, ())) == 1
    assert index.collect([kept.fingerprint], before=ALL_TIME) == Collected(False)
    # Numbers are not given again, and what was removed can come back.
    assert index.lane(Fingerprint("test", "idle", 4), PRIOR).id > idle.id
    index.replace_source(source(), [chunk("stays"), chunk("goes")])
    assert [text.text for text in index.missing_vectors(serving, 9)] == ["goes"]


def test_vectors_of_equal_cosine_come_in_order_of_id(index: IndexBackend) -> None:
    texts = [f"text {i}" for i in range(20)]
    index.replace_source(source(), [chunk(text) for text in texts])
    lane = index.lane(FINGERPRINT, PRIOR)
    index.put_vectors(lane, [chunk(text).hash for text in texts], np.stack([unit(1, 1, 0, 0)] * 20))
    with index.reader() as reader:
        assert [hit.id for hit in reader.search_vector(lane, unit(1, 0, 0, 0), 7, ())] == [1, 2, 3, 4, 5, 6, 7]


def test_scores_of_given_chunks_leave_out_those_without_a_vector(index: IndexBackend) -> None:
    index.replace_source(source(), [chunk("one"), chunk("two")])
    lane = index.lane(FINGERPRINT, PRIOR)
    index.put_vectors(lane, [chunk("two").hash], unit(3, 4, 0, 0)[None, :])
    with index.reader() as reader:
        assert reader.score_vectors(lane, [1, 2, 99], unit(1, 0, 0, 0)) == {2: pytest.approx(0.6)}


def test_filters_act_before_ranking(index: IndexBackend) -> None:
    lane = index.lane(FINGERPRINT, PRIOR)
    for number in range(30):
        index.replace_source(source(f"loud{number}.md"), [chunk(f"bond bond bond {number}")])
    index.replace_source(source("quiet/one.md"), [chunk("a bond among many other words of a long text")])
    texts = index.missing_vectors(lane, 99)
    index.put_vectors(
        lane,
        [text.hash for text in texts],
        np.stack([unit(1, 1, 1, 1) if "among" in text.text else unit(1, 0, 0, 0) for text in texts]),
    )
    where = (Condition("path", "prefix", "quiet/"),)
    assert found(index, "bond", k=1, where=where) == ["a bond among many other words of a long text"]
    with index.reader() as reader:
        assert len(reader.search_vector(lane, unit(1, 0, 0, 0), 1, where)) == 1


ROWS = [
    source("MEMORY.md"),
    source("memory/2026-01-01.md", kind="daily", date="2026-01-01"),
    source("memory/2026-02-01.md", kind="daily", date="2026-02-01", tags=("work", "100%")),
    source("memory/users/ann/MEMORY.md", scope="user:ann"),
    source("knowledge/x_y/[1].md", kind="knowledge", tags=("home",)),
]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Condition("scope", "in", ("shared",)), "01 2 4"),
        (Condition("scope", "in", ("shared", "user:ann")), "01234"),
        (Condition("scope", "eq", "user:bob"), ""),
        (Condition("kind", "ne", "daily"), "034"),
        (Condition("kind", "in", ("daily", "knowledge")), "124"),
        (Condition("date", "ge", "2026-02-01"), "2"),
        (Condition("date", "gt", "2026-01-01"), "2"),
        (Condition("date", "le", "2026-01-31"), "1"),
        (Condition("date", "lt", "2026-01-01"), ""),
        (Condition("path", "glob", "memory/*.md"), "123"),
        (Condition("path", "glob", "memory/2026-0[!2]-??.md"), "1"),
        (Condition("path", "glob", "Memory/*"), ""),
        (Condition("path", "glob", ("knowledge/*", "MEMORY.md")), "04"),
        (Condition("path", "prefix", "knowledge/x_y/["), "4"),
        (Condition("path", "prefix", "knowledge/x%"), ""),
        (Condition("path", "eq", "MEMORY.md"), "0"),
        (Condition("tag", "has", "work"), "2"),
        (Condition("tag", "has", "100%"), "2"),
        (Condition("tag", "has", "wor"), ""),
        (Condition("heading", "has", "Head 3"), "3"),
        (Condition("heading", "has", "hEAD 3"), "3"),
        (Condition("heading", "has", "Head"), ""),
    ],
)
def test_each_condition_admits_exactly_its_rows(index: IndexBackend, condition: Condition, expected: str) -> None:
    for number, row in enumerate(ROWS):
        index.replace_source(row, [chunk(f"word {number}", (f"Head {number}",))])
    assert sorted(text[-1] for text in found(index, "word", where=(condition,))) == list(expected.replace(" ", ""))


def test_rows_of_a_source_come_in_the_order_of_its_lines_and_can_be_filtered(index: IndexBackend) -> None:
    index.replace_source(source("a.md"), [chunk("later", line=9), chunk("first", line=2)])
    index.replace_source(source("b.md", kind="daily", date="2026-01-01"), [chunk("other")])
    with index.reader() as reader:
        assert [row.text for row in reader.of_source("a.md")] == ["first", "later"]
        assert list(reader.of_source("c.md")) == []
        ids = [row.id for path in ("a.md", "b.md") for row in reader.of_source(path)]
        (daily,) = (row.id for row in reader.of_source("b.md"))
        assert reader.permitted(ids, (Condition("kind", "eq", "daily"),)) == {daily}
        assert reader.permitted([*ids, 99], ()) == set(ids)
        assert reader.permitted([], ()) == set()


def test_conditions_are_joined_by_and(index: IndexBackend) -> None:
    for number, row in enumerate(ROWS):
        index.replace_source(row, [chunk(f"word {number}")])
    where = (Condition("kind", "eq", "daily"), Condition("date", "ge", "2026-01-15"))
    assert found(index, "word", where=where) == ["word 2"]


def test_text_shared_by_two_users_is_shown_to_each_in_their_own_file_only(index: IndexBackend) -> None:
    lane = index.lane(FINGERPRINT, PRIOR)
    for user in ("ann", "bob"):
        index.replace_source(source(f"memory/users/{user}/MEMORY.md", scope=f"user:{user}"), [chunk("secret plan")])
    index.put_vectors(lane, [chunk("secret plan").hash], unit(1, 0, 0, 0)[None, :])
    where = (Condition("scope", "in", ("shared", "user:bob")),)
    with index.reader() as reader:
        ids = [hit.id for hit in reader.search_vector(lane, unit(1, 0, 0, 0), 10, where)]
        assert [row.path for row in reader.get(ids)] == ["memory/users/bob/MEMORY.md"]


def test_words_of_others_are_not_counted_for_a_viewer(index: IndexBackend) -> None:
    index.replace_source(source("memory/users/bob/MEMORY.md", scope="user:bob"), [chunk("divorce hello")])
    index.replace_source(source("MEMORY.md"), [chunk("hello there"), chunk("nothing")])
    where = (Condition("scope", "in", ("shared", "user:ann")),)
    with index.reader() as reader:
        found = reader.document_frequencies(["divorce", "hello"], where)
        assert (found.total, dict(found.by_term)) == (2, {"divorce": 0, "hello": 1})
        assert reader.document_frequencies(["hello"], ()).by_term == {"hello": 2}


def test_what_is_recorded_is_recalled_under_its_own_key_only(index: IndexBackend) -> None:
    assert index.recall("limits") is None
    index.record("limits", "1")
    index.record("limits", "2")
    index.record("uid", "3")
    assert (index.recall("limits"), index.recall("uid"), index.recall("limit")) == ("2", "3", None)


def test_after_distrust_every_row_is_new_when_its_source_comes_again(index: IndexBackend) -> None:
    index.replace_source(source(), [chunk("one")])
    index.distrust()
    assert found(index, "one") == ["one"]
    assert index.fingerprints()["a.md"] != source()
    index.replace_source(source(), [chunk("one")])
    with index.reader() as reader:
        assert [hit.id for hit in reader.search_keyword(["one"], 5, ())] == [2]


@pytest.mark.parametrize(
    "condition",
    [
        Condition("tag", "eq", "x"),
        Condition("kind", "has", "x"),
        Condition("size", "eq", "x"),
        Condition("kind", "like", "x"),
    ],  # type: ignore[arg-type]
)
def test_a_condition_that_means_nothing_is_refused(tmp_path: Path, condition: Condition) -> None:
    index = EmbeddedIndex(tmp_path, SPEC)
    index.replace_source(source(), [chunk("one")])
    with pytest.raises(UsageError):
        found(index, "one", where=(condition,))
    index.close()


WORDS = ("bond", "fund", "broker", "cash", "the")
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
EDITS = st.lists(
    st.tuples(st.sampled_from(["a.md", "b.md", "c.md"]), st.none() | st.lists(TEXTS, max_size=4)), max_size=8
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(edits=EDITS, asked=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4, unique=True))
def test_any_sequence_of_edits_gives_the_oracles_answers(
    make: Callable[[], IndexBackend], edits: list[tuple[str, list[str] | None]], asked: list[str]
) -> None:
    index, oracle = make(), MemoryIndex()
    for backend in (index, oracle):
        lane = backend.lane(FINGERPRINT, PRIOR)
        for path, texts in edits:
            if texts is None:
                backend.delete([path])
            else:
                seen: dict[str, int] = {}
                chunks = []
                for text in texts:
                    chunks.append(chunk(text, occurrence=seen.get(text, 0)))
                    seen[text] = seen.get(text, 0) + 1
                backend.replace_source(source(path, fingerprint=str(texts)), chunks)
        missing = backend.missing_vectors(lane, 99)
        rows = [unit(len(text.text), text.text.count("o"), text.text.count("b"), 1) for text in missing]
        if rows:
            backend.put_vectors(lane, [text.hash for text in missing], np.stack(rows))
    with index.reader() as reader:
        assert index.fingerprints() == oracle.fingerprints()
        got, expected = reader.search_keyword(asked, 20, ()), oracle.search_keyword(asked, 20, ())
        assert [hit.id for hit in got] == [hit.id for hit in expected]
        assert [hit.score for hit in got] == pytest.approx([hit.score for hit in expected], rel=1e-6, abs=1e-9)
        assert reader.document_frequencies(asked, ()) == oracle.document_frequencies(asked, ())
        assert reader.get(range(1, 99)) == oracle.get(range(1, 99))
        query = unit(3, 1, 2, 1)
        near, nearest = reader.search_vector(lane, query, 5, ()), oracle.search_vector(lane, query, 5, ())
        assert [hit.score for hit in near] == pytest.approx([hit.score for hit in nearest], abs=1e-5)
    if not isinstance(index, MemoryIndex):
        index.close()
