"""The optional graph of neighbours: when it answers, that its answers hold, and that it can be lost at any time."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from embedders import HashedEmbedder
from memories import PATIENT, OpenMemory
from store_support import environment
from vademecum.backends import EmbeddedIndex
from vademecum.errors import SettingsError
from vademecum.settings import AnnSettings
from vademecum.types import Calibration, Chunk, Condition, Fingerprint, IndexSpec, Lane, Source
from vademecum.vectors import graph_trial, graph_upkeep, hnsw
from vademecum.vectors.allowed import Allowed
from vademecum.vectors.graph_files import Card, GraphFiles

SPEC = IndexSpec("test", "test")
DIMS, ROWS, THRESHOLD = 32, 600, 200
FINGERPRINT = Fingerprint("test", "ann", DIMS)
EVENTUALLY_S = 60.0
LIVE = "SELECT text_id FROM chunks"
AMONG = "SELECT chunks.id, text_id FROM chunks JOIN json_each(?) j ON text_id = j.value"

with_hnswlib = pytest.mark.skipif(find_spec("hnswlib") is None, reason="hnswlib is not installed: pip install '.[ann]'")


def clustered(count: int, seed: int = 0, dims: int = DIMS) -> np.ndarray:
    """Unit rows about 40 centres, the same for every seed."""
    centres = np.random.default_rng(99).standard_normal((40, dims))
    random = np.random.default_rng(seed)
    rows = centres[random.integers(40, size=count)] + 0.9 * random.standard_normal((count, dims))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def chunk(name: str) -> Chunk:
    return Chunk(name, 1, 1, (), hashlib.sha256(name.encode()).digest(), 0, name, "")


class Store:
    """A real index whose pages hold one text for each vector."""

    def __init__(self, folder: Path, ann: AnnSettings) -> None:
        self.index = EmbeddedIndex(folder, SPEC, ann)
        self.lane: Lane = self.index.lane(FINGERPRINT, Calibration(0, 1))

    def write(self, page: str, vectors: np.ndarray, scope: str = "shared", names: str = "") -> None:
        chunks = [chunk(f"{names or page} {i}") for i in range(len(vectors))]
        self.index.put_vectors(self.lane, [c.hash for c in chunks], vectors)
        self.index.replace_source(Source(page, scope, "memory", None, "1", page), chunks)

    def search(self, query: np.ndarray, k: int = 10, where: tuple[Condition, ...] = ()) -> tuple[str, list[str]]:
        """How the vectors were read, and the texts found."""
        with self.index.reader() as reader:
            hits = reader.search_vector(self.lane, query, k, where)
            assert [(hit.score, -hit.id) for hit in hits] == sorted(((h.score, -h.id) for h in hits), reverse=True)
            rows = {row.id: row.text for row in reader.get([hit.id for hit in hits])}
            return reader.notes()["vectors"], [rows[hit.id] for hit in hits]

    def exact(self, query: np.ndarray, k: int = 10) -> list[str]:
        with self.index.reader() as reader:
            live = Allowed(reader._connection, LIVE, AMONG)
            ids = [i for i, _ in reader._exact.top_texts(self.lane, query, k, live)]
            rows = dict(reader._connection.execute("SELECT text_id, text FROM chunks"))
            return [rows[i] for i in ids]

    def state(self) -> str:
        return self.index.health().ann[FINGERPRINT.key]

    def until(self, pattern: str) -> str:
        """Search until the state is as wanted, as a host would go on searching."""
        end = time.monotonic() + EVENTUALLY_S
        query = clustered(1, seed=5)[0]
        while not re.search(pattern, state := self.state()):
            assert time.monotonic() < end and not state.startswith("failed"), f"still {state!r}"
            self.search(query)
            time.sleep(0.01)
        if state.startswith("ready"):
            self.rest()
        return state

    def rest(self) -> None:
        """Wait until the thread has nothing to do."""
        while (thread := self.index._graphs._thread) is not None:
            thread.join(EVENTUALLY_S)

    def held(self) -> int:
        """Rows in the graph."""
        self.rest()
        serving = self.index._graphs.serving(self.lane)
        assert serving is not None
        return len(serving[0].ids)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_upkeep, "PAUSE_S", 0.0)
    monkeypatch.setattr(graph_upkeep, "WAIT_S", 0.02)


def unwanted(*_: object) -> None:
    raise AssertionError("this was not to be called")


OpenStore = Callable[..., Store]


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[OpenStore]:
    with ExitStack() as stack:

        def opened(threshold: int = THRESHOLD, min_recall: float = 0.98) -> Store:
            store = Store(tmp_path, AnnSettings(threshold, min_recall))
            stack.callback(store.index.close)
            return store

        yield opened


@pytest.fixture
def ready(open_store: OpenStore) -> Store:
    """A store whose graph serves."""
    store = open_store()
    store.write("page.md", clustered(ROWS))
    store.until("^ready")
    return store


# -- when it answers ----------------------------------------------------------------------------------------------


@with_hnswlib
@pytest.mark.kernels
def test_it_takes_over_by_itself_and_finds_what_the_exact_scan_finds(open_store: OpenStore) -> None:
    store = open_store()
    store.write("page.md", clustered(ROWS))
    way, before = store.search(clustered(1, seed=7)[0])
    assert way in ("map", "select")
    state = store.until("^ready")
    assert re.fullmatch(r"ready: 600 rows, \d+ MB, ef \d+, recall (1\.000|0\.9[89]\d)", state)
    found = 0
    for query in clustered(100, seed=7):
        way, texts = store.search(query)
        assert way == "ann"
        found += len(set(texts) & set(store.exact(query)))
    assert found >= 0.98 * 1000
    assert store.search(clustered(1, seed=7)[0]) == ("ann", before)


@with_hnswlib
def test_a_store_at_the_threshold_has_no_graph(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    store.write("page.md", clustered(THRESHOLD))
    assert store.search(clustered(1)[0])[0] != "ann"
    store.rest()
    assert store.state() == "off: 200 rows, begins above 200"
    assert not (tmp_path / "ann").exists()


@with_hnswlib
def test_texts_that_no_chunk_uses_do_not_count_towards_the_threshold(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    store.write("page.md", clustered(ROWS))
    store.write("page.md", clustered(50, seed=1), names="new")
    store.index._graphs.review(store.lane)
    store.rest()
    assert store.state() == "off: 50 rows, begins above 200"
    assert not (tmp_path / "ann").exists()


def test_without_hnswlib_the_scan_answers_and_status_says_why(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "hnswlib", None)
    store = open_store()
    store.write("page.md", clustered(ROWS))
    assert store.search(clustered(ROWS)[3], 1) == (store.search(clustered(1)[0])[0], ["page.md 3"])
    assert store.search(clustered(1)[0])[0] != "ann"
    assert store.state() == "off: hnswlib is not installed"
    assert store.index._graphs._thread is None


@with_hnswlib
def test_a_memory_tells_of_it_in_trace_and_status(open_memory: OpenMemory) -> None:
    settings = dataclasses.replace(PATIENT, ann=AnnSettings(threshold=20))
    pages = {f"topic-{i}.md": f"# Topic {i}\n\nNote number {i} about subject{i} and matter{i}." for i in range(60)}
    memory = open_memory(pages, settings=settings, embedder=HashedEmbedder())
    end = time.monotonic() + EVENTUALLY_S
    while (result := memory.search("subject7 matter7", max_results=1)).explanation["vectors"] != "ann":
        assert time.monotonic() < end
    assert result[0].path == "topic-7.md"
    index = memory.status().index
    assert index is not None
    assert [state.split(",")[0] for state in index.ann.values()] == ["ready: 60 rows"]


@with_hnswlib
def test_a_low_recall_is_refused_once_and_remembered(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_trial, "EFS", (10,))
    monkeypatch.setattr("vademecum.vectors.graph_files.EFS", (10,))
    store = open_store(min_recall=1.0)
    scattered = np.random.default_rng(3).standard_normal((ROWS, DIMS))
    store.write("page.md", (scattered / np.linalg.norm(scattered, axis=1, keepdims=True)).astype(np.float32))
    state = store.until("^refused")
    assert re.fullmatch(r"refused: recall 0\.\d{3} below 1 at ef 10: exact scan stays", state)
    assert store.search(clustered(1)[0])[0] != "ann"
    store.rest()
    store.index.close()

    monkeypatch.setattr(graph_upkeep.Upkeep, "_build", unwanted)
    again = open_store(min_recall=1.0)
    assert again.until("^refused") == state
    again.rest()
    assert again.state() == state


@with_hnswlib
def test_a_graph_that_will_not_do_is_not_built_to_the_end(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_upkeep, "_EARLY", 300)
    monkeypatch.setattr(graph_upkeep, "_BATCH", 32)
    monkeypatch.setattr(graph_trial.Trial, "recall", lambda *_: 0.5)
    store = open_store()
    store.write("page.md", clustered(ROWS))
    added: list[int] = []
    add = hnsw.Graph.add
    monkeypatch.setattr(hnsw.Graph, "add", lambda *given: (added.append(len(given[1])), add(*given)))
    store.until("^refused: recall 0.500 below 0.98 at ef 800")
    assert 300 < sum(added) < 400


# -- that its answers hold ----------------------------------------------------------------------------------------


@with_hnswlib
def test_a_new_text_is_found_at_once_and_added_later(ready: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    query = clustered(1, seed=31)[0]
    with monkeypatch.context() as patch:
        patch.setattr(ready.index._graphs, "extend", lambda *_: None)
        ready.write("new.md", query[None])
        assert ready.search(query, 1) == ("ann", ["new.md 0"])
        assert ready.held() == ROWS
    ready.search(query)
    assert ready.held() == ROWS + 1
    assert ready.search(query, 1) == ("ann", ["new.md 0"])


@with_hnswlib
def test_a_text_that_gets_its_vector_late_is_not_missed_for_its_low_id(open_store: OpenStore) -> None:
    store = open_store()
    late = chunk("late")
    other = store.index.lane(Fingerprint("test", "other", 2), Calibration(0, 1))
    store.index.put_vectors(other, [late.hash], np.array([[1, 0]], np.float32))
    store.write("page.md", clustered(ROWS))
    store.index.replace_source(Source("late.md", "shared", "memory", None, "1", "f"), [late])
    store.until("^ready")
    query = clustered(1, seed=32)[0]
    store.index.put_vectors(store.lane, [late.hash], query[None])
    assert store.search(query, 1) == ("ann", ["late"])
    assert store.held() == ROWS + 1


@with_hnswlib
def test_what_was_deleted_is_not_returned(ready: Store) -> None:
    ready.write("gone.md", clustered(30, seed=33))
    query = clustered(30, seed=33)[4]
    assert ready.search(query, 1) == ("ann", ["gone.md 4"])
    ready.held()
    ready.index.delete(["gone.md"])
    way, texts = ready.search(query, 60)
    assert way == "ann"
    assert len(texts) == 60
    assert not [text for text in texts if text.startswith("gone.md")]


@with_hnswlib
def test_a_filter_is_met_and_a_narrow_one_leads_to_the_exact_scan(open_store: OpenStore) -> None:
    store = open_store()
    rows = clustered(ROWS)
    store.write("a/wide.md", rows[:300])
    store.write("b/rest.md", rows[300:550])
    store.write("c/narrow.md", rows[550:])
    store.until("^ready")
    for query in clustered(20, seed=8):
        way, texts = store.search(query, 10, (Condition("path", "prefix", "a/"),))
        assert way == "ann"
        expected = [text for text in store.exact(query, ROWS) if text.startswith("a/wide.md")][:10]
        assert len(set(texts) & set(expected)) >= 9
        way, texts = store.search(query, 10, (Condition("path", "prefix", "c/"),))
        assert way != "ann"
        assert texts == [text for text in store.exact(query, ROWS) if text.startswith("c/narrow.md")][:10]


@with_hnswlib
@pytest.mark.parametrize("k", [1, 60, 61, ROWS, ROWS + 5])
def test_however_many_are_wanted_so_many_come(ready: Store, k: int) -> None:
    way, texts = ready.search(clustered(1, seed=9)[0], k)
    assert (way == "ann") == (k * 10 <= ROWS)
    assert len(set(texts)) == len(texts) == min(k, ROWS)


@with_hnswlib
def test_a_graph_that_has_come_apart_leads_to_the_exact_scan(ready: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    query = clustered(1, seed=10)[0]
    monkeypatch.setattr(hnsw.Graph, "nearest", lambda *_: np.empty(0, np.int64))
    way, texts = ready.search(query)
    assert way != "ann"
    assert texts == ready.exact(query)


@with_hnswlib
def test_without_a_map_the_same_answers_come_by_select(ready: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready.index._graphs, "extend", lambda *_: None)
    ready.write("new.md", clustered(40, seed=34))
    queries = [*clustered(10, seed=11), *clustered(40, seed=34)[:3]]
    by_map = [ready.search(query) for query in queries]
    monkeypatch.setattr(ready.index._map, "lane", lambda *_: None)
    assert [ready.search(query) for query in queries] == by_map
    assert {way for way, _ in by_map} == {"ann"}


@with_hnswlib
def test_searches_go_on_while_rows_are_added(ready: Store) -> None:
    failures: list[BaseException] = []
    done = threading.Event()

    def look() -> None:
        try:
            for query in clustered(10_000, seed=12):
                if done.is_set():
                    return
                assert len(ready.search(query)[1]) == 10
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    rows = clustered(500, seed=35)
    for start in range(0, 500, 50):
        ready.write(f"{start}.md", rows[start : start + 50])
        assert ready.search(rows[start], 1)[1] == [f"{start}.md 0"]
    done.set()
    for thread in threads:
        thread.join()
    assert not failures
    end = time.monotonic() + EVENTUALLY_S
    while ready.held() < ROWS + 500:  # what was asked for during other work is asked for again
        assert time.monotonic() < end
        ready.search(rows[0])


@with_hnswlib
def test_queries_do_not_wait_for_a_long_addition() -> None:
    graph = hnsw.Graph(DIMS, 10)
    rows = clustered(6000, seed=14)
    graph.add(np.arange(1, 101), rows[:100])
    adding = threading.Thread(target=graph.add, args=(np.arange(101, 6001), rows[100:]))
    adding.start()
    answered = 0
    while adding.is_alive():
        assert len(graph.nearest(rows[0], 10)) == 10
        answered += 1
        time.sleep(0.001)
    assert answered > 10
    assert len(graph.ids) == 6000


# -- upkeep -------------------------------------------------------------------------------------------------------


@with_hnswlib
def test_it_is_built_anew_when_much_of_it_is_dead(ready: Store) -> None:
    ready.write("page.md", clustered(ROWS)[: ROWS * 3 // 4])
    ready.search(clustered(1)[0])
    assert ready.held() == ROWS * 3 // 4


@with_hnswlib
def test_a_few_dead_rows_are_left_where_they_are(ready: Store) -> None:
    ready.write("page.md", clustered(ROWS)[: ROWS * 9 // 10])
    ready.search(clustered(1)[0])
    assert ready.held() == ROWS


@with_hnswlib
def test_its_recall_is_measured_again_when_it_has_grown(ready: Store) -> None:
    before = ready.index._graphs.serving(ready.lane)
    ready.write("more.md", clustered(ROWS, seed=36))
    ready.search(clustered(1)[0])
    assert ready.held() == 2 * ROWS
    after = ready.index._graphs.serving(ready.lane)
    assert before is not None
    assert after is not None
    assert (before[1].measured, after[1].measured) == (ROWS, 2 * ROWS)


@with_hnswlib
def test_it_is_given_up_when_the_store_has_shrunk(ready: Store) -> None:
    ready.write("page.md", clustered(50))
    assert ready.search(clustered(1)[0])[0] != "ann"
    ready.rest()
    assert ready.state() == "off: 50 rows, begins above 200"


@with_hnswlib
def test_closing_does_not_wait_for_the_build(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    store.write("page.md", clustered(8000))
    store.until("^building: [1-9]")
    thread = store.index._graphs._thread
    began = time.monotonic()
    store.index.close()
    assert time.monotonic() - began < 5
    assert thread is not None
    assert not thread.is_alive()
    assert not list((tmp_path / "ann").glob("lane*"))


@with_hnswlib
def test_a_folder_that_cannot_be_used_costs_the_graph_and_nothing_else(open_store: OpenStore, tmp_path: Path) -> None:
    (tmp_path / "ann").write_text("in the way")
    store = open_store()
    store.write("page.md", clustered(ROWS))
    assert str(tmp_path / "ann") in store.until("^failed: .*: exact scan stays$")
    assert store.search(clustered(ROWS)[5], 1)[1] == ["page.md 5"]


@with_hnswlib
def test_what_could_not_be_saved_serves_all_the_same(open_store: OpenStore, tmp_path: Path) -> None:
    (tmp_path / "ann" / "lane1.hnsw.new").mkdir(parents=True)
    store = open_store()
    store.write("page.md", clustered(ROWS))
    store.until("^ready")
    assert store.search(clustered(ROWS)[5], 1) == ("ann", ["page.md 5"])
    assert any("lane1.hnsw.new" in problem for problem in store.index.health().problems)


# -- on disk ------------------------------------------------------------------------------------------------------


def reopen(store: Store, open_store: OpenStore) -> Store:
    store.rest()
    store.index.close()
    return open_store()


@with_hnswlib
def test_it_is_saved_and_loaded_and_not_built_again(
    ready: Store, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = ready.state()
    expected = [ready.search(query) for query in clustered(20, seed=13)]
    monkeypatch.setattr(graph_upkeep.Upkeep, "_build", unwanted)
    again = reopen(ready, open_store)
    assert again.state() == "waiting: the next search has it made"
    again.until("^ready")
    assert again.state() == state
    assert [again.search(query) for query in clustered(20, seed=13)] == expected


@with_hnswlib
def test_what_came_while_it_was_closed_is_found_at_once(
    ready: Store, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_upkeep.Upkeep, "_build", unwanted)
    query = clustered(1, seed=37)[0]
    ready.rest()
    ready.index.close()
    away = open_store(threshold=10**6)
    away.write("away.md", query[None])
    again = reopen(away, open_store)
    assert again.search(query, 1)[1] == ["away.md 0"]
    again.until("^ready")
    assert again.search(query, 1) == ("ann", ["away.md 0"])
    assert again.held() == ROWS + 1


def flip(data: bytearray) -> bytearray:
    data[len(data) // 2] ^= 1
    return data


@with_hnswlib
@pytest.mark.parametrize(
    "damage", [flip, lambda data: data[:-100], lambda data: data[:50], lambda data: b"", lambda data: data + b"more"],
    ids=["a bit", "the end", "nearly all", "all", "too much"],
)  # fmt: skip
def test_a_damaged_file_is_built_anew_and_named(
    ready: Store, open_store: OpenStore, tmp_path: Path, damage: Callable[[bytearray], bytes]
) -> None:
    ready.rest()
    ready.index.close()
    file = tmp_path / "ann" / "lane1.hnsw"
    file.write_bytes(damage(bytearray(file.read_bytes())))
    again = open_store()
    again.until("^ready")
    assert again.search(clustered(ROWS)[5], 1) == ("ann", ["page.md 5"])
    again.rest()
    assert any("was damaged" in problem for problem in again.index.health().problems)
    once_more = reopen(again, open_store)
    once_more.until("^ready")
    assert not once_more.index.health().problems


@with_hnswlib
@pytest.mark.parametrize(
    "change",
    [
        {"uid": "another file's"}, {"lane": 2}, {"dims": 16}, {"library": "0.7.0"}, {"recall": 0.9}, {"ef": 7},
        {"rows": "many"}, {"recall": None}, {"digest": None}, {"surplus": 1},
    ],
    ids=str,
)  # fmt: skip
def test_a_card_that_does_not_fit_is_not_believed(
    ready: Store, open_store: OpenStore, tmp_path: Path, change: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    ready.rest()
    ready.index.close()
    file = tmp_path / "ann" / "lane1.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    monkeypatch.setattr(GraphFiles, "load", unwanted)
    again = open_store()
    again.until("^ready")
    assert again.held() == ROWS


@pytest.fixture(scope="module")
def graph_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("graph") / "file"
    graph = hnsw.Graph(DIMS, ROWS)
    graph.add(np.arange(1, ROWS + 1), clustered(ROWS))
    graph.save(file)
    return file


def crafted(file: Path, target: Path, change: Callable[[bytearray, int, int], None]) -> Path:
    """A copy of a graph file, changed by ``change(data, bytes of a row at the bottom, place of the upper links)``."""
    data = bytearray(file.read_bytes())
    (size,) = struct.unpack_from("<Q", data, 24)
    (rows,) = struct.unpack_from("<Q", data, 16)
    change(data, size, 96 + rows * size)
    target.write_bytes(data)
    return target


def first_upper(data: bytearray, place: int) -> int:
    while struct.unpack_from("<I", data, place) == (0,):
        place += 4
    return place


CRAFTED: dict[str, Callable[[bytearray, int, int], None]] = {
    "a link at the bottom leads outside": lambda d, size, up: struct.pack_into("<I", d, 96 + 5 * size + 4, ROWS),
    "too many links at the bottom": lambda d, size, up: struct.pack_into("<I", d, 96 + 5 * size, 33),
    "a row is marked as deleted": lambda d, size, up: struct.pack_into("<B", d, 96 + 5 * size + 2, 1),
    "the entry is outside": lambda d, size, up: struct.pack_into("<I", d, 52, ROWS),
    "the entry is not at the top": lambda d, size, up: struct.pack_into("<i", d, 48, 9),
    "a row is longer": lambda d, size, up: struct.pack_into("<Q", d, 24, size + 4),
    "the links begin elsewhere": lambda d, size, up: struct.pack_into("<Q", d, 0, 8),
    "the id is elsewhere": lambda d, size, up: struct.pack_into("<Q", d, 32, size),
    "the levels grow without limit": lambda d, size, up: struct.pack_into("<d", d, 80, 1e300),
    "an upper link leads outside": lambda d, size, up: struct.pack_into("<I", d, first_upper(d, up) + 8, ROWS),
    "too many upper links": lambda d, size, up: struct.pack_into("<I", d, first_upper(d, up) + 4, 17),
    "upper links of a wrong length": lambda d, size, up: struct.pack_into("<I", d, first_upper(d, up), 64),
    "upper links beyond the end": lambda d, size, up: struct.pack_into("<I", d, first_upper(d, up), 68 * 10**6),
    "an upper link leads to a row that is not so high": lambda d, size, up: struct.pack_into(
        "<II", d, first_upper(d, up) + 4, 1, (first_upper(d, up) - up) // 4 - 1
    ),
}


@with_hnswlib
@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_file_is_not_given_to_hnswlib(graph_file: Path, tmp_path: Path, name: str) -> None:
    """Its digest would fit: whoever made the file made the card, too."""
    assert hnsw.sound(graph_file, DIMS, ROWS)
    assert not hnsw.sound(crafted(graph_file, tmp_path / "crafted", CRAFTED[name]), DIMS, ROWS)


@with_hnswlib
def test_a_graph_in_a_folder_with_any_name_can_be_saved_and_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "Gedächtnis 記憶 \udcff"
    folder.mkdir()
    graph = hnsw.Graph(DIMS, 4)
    graph.add(np.arange(1, 101), clustered(100))
    files = GraphFiles(folder)
    card = files.save(Card("uid", 1, DIMS, hnsw.version(), 100, 100, 50, 1.0, 100, None), graph)
    assert files.card(1) == card
    loaded = files.load(card)
    assert loaded is not None
    assert set(loaded.nearest(clustered(100)[7], 5)) == set(graph.nearest(clustered(100)[7], 5))


PROCESS = """
import sys, time
from pathlib import Path
import test_ann as t
built = []
add = t.hnsw.Graph.add
t.hnsw.Graph.add = lambda *given: (built.append(len(given[1])), add(*given))[1]
store = t.Store(Path(sys.argv[1]), t.AnnSettings(t.THRESHOLD))
store.until("^ready")
store.rest()
print(sum(built), store.search(t.clustered(t.ROWS)[5], 1))
store.index.close()
"""


@with_hnswlib
def test_of_two_processes_one_builds_and_both_answer(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store(threshold=10**6)
    store.write("page.md", clustered(ROWS))
    environ = environment() | {"PYTHONPATH": os.pathsep.join((environment()["PYTHONPATH"], str(Path(__file__).parent)))}
    running = [
        subprocess.Popen([sys.executable, "-c", PROCESS, str(tmp_path)], env=environ, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = sorted(process.communicate(timeout=EVENTUALLY_S)[0].strip() for process in running)
    assert answers == ["0 ('ann', ['page.md 5'])", f"{ROWS} ('ann', ['page.md 5'])"]


@with_hnswlib
def test_while_another_process_has_the_turn_it_waits_and_says_so(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    store.write("page.md", clustered(ROWS))
    with GraphFiles(tmp_path / "ann").turn() as mine:
        assert mine
        store.until("^waiting: another process")
        assert store.search(clustered(ROWS)[5], 1)[1] == ["page.md 5"]
    store.until("^ready")


@pytest.mark.parametrize("wrong", [{"threshold": 0}, {"threshold": 1.5}, {"min_recall": 1.01}, {"min_recall": "high"}])
def test_settings_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=f"ann.{next(iter(wrong))}"):
        AnnSettings(**wrong)  # type: ignore[arg-type]
