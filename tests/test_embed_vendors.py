"""Every vendor of the table: what is sent, and how many requests it takes. The real client against a real server."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("openai", reason="the package openai is not installed (vademecum[openai])")

from embedders import HashedEmbedder
from loopback import Behaviour, Loopback, hang, raw, slow, status, vectors
from vademecum import Memory, Settings
from vademecum.embed import DocumentBatches
from vademecum.embed.e5 import E5Embedder
from vademecum.embed.local import LocalEmbedder
from vademecum.embed.remote import RemoteEmbedder
from vademecum.embed.vendors import VENDORS
from vademecum.errors import ProviderMissingError, ProviderReplyError
from vademecum.settings import PROVIDERS, ChunkSettings, EmbeddingSettings

KEY = "sk-test-0123456789"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TEST_KEY", KEY)
    with Loopback() as running:
        yield running


def embedding(server: Loopback, provider: str, **options: object) -> EmbeddingSettings:
    model = {} if VENDORS[provider].model else {"model": "m"}
    given = {"provider": provider, "base_url": server.base_url, "api_key_env": "TEST_KEY", **model, **options}
    return EmbeddingSettings(**given)


def opened(server: Loopback, root: Path, provider: str = "openai", **options: object) -> Memory:
    settings = Settings(
        embedding=embedding(server, provider, **options), chunk=ChunkSettings(tokens=64, overlap_tokens=0)
    )
    return Memory.open(root, settings=settings)


def notes(root: Path, count: int) -> Path:
    root.mkdir()
    for number in range(count):
        (root / f"{number:03d}.md").write_text(f"Note {number} is about fund{number}.\n")
    return root


def test_the_table_has_every_provider_that_can_be_named():
    assert set(VENDORS) == set(PROVIDERS) - {"auto", "none", "local", "local-e5"}


def test_the_documentation_shows_the_table_as_it_is():
    shown = (Path(__file__).parents[1] / "docs" / "models.md").read_text(encoding="utf-8")
    for vendor in VENDORS.values():
        key = f"`{vendor.keys[0]}`" if vendor.keys else "`embedding.api_key_env`"
        dims = vendor.asks or vendor.dims.get(vendor.model or "", "as served")
        items = vendor.items_of(vendor.model or "")
        model = vendor.model or "yours"
        assert f"| {vendor.name} | {'–' if vendor.name == 'ollama' else key} | {model} | {dims} | {items} |" in shown


PLAIN = {"encoding_format": "float"}


@pytest.mark.parametrize(
    ("provider", "model", "document", "question"),
    [
        ("openai", "text-embedding-3-small", PLAIN, PLAIN),
        ("gemini", "gemini-embedding-001", PLAIN, PLAIN),
        ("linkai", "text-embedding-3-small", PLAIN, PLAIN),
        ("dashscope", "text-embedding-v4", {**PLAIN, "dimensions": 1024}, {**PLAIN, "dimensions": 1024}),
        ("zhipu", "embedding-3", {**PLAIN, "dimensions": 1024}, {**PLAIN, "dimensions": 1024}),
        ("jina", "jina-embeddings-v3", {"task": "retrieval.passage"}, {"task": "retrieval.query"}),
        ("voyage", "voyage-4", {"input_type": "document"}, {"input_type": "query"}),
        ("custom", "m", PLAIN, PLAIN),
    ],
)
def test_each_vendor_gets_its_own_fields_and_no_others(server, provider: str, model: str, document, question):
    server.always(vectors(allows_base64=True))
    embedder = RemoteEmbedder(vendor=VENDORS[provider], base_url=server.base_url, api_key=KEY, model=model)
    embedder.embed_documents(["a", "b"])
    embedder.embed_query("q")
    embedder.close()
    assert server.bodies == [
        {"input": ["a", "b"], "model": model, **document},
        {"input": ["q"], "model": model, **question},
    ]
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(("provider", "field"), [("openai", "dimensions"), ("voyage", "output_dimension")])
def test_the_dimensions_of_the_setting_are_asked_for_by_the_vendors_name(server, provider: str, field: str):
    server.always(vectors(dims=32, allows_base64=True))
    embedder = RemoteEmbedder(vendor=VENDORS[provider], base_url=server.base_url, dimensions=32)
    assert embedder.embed_documents(["a"]).shape == (1, 32)
    embedder.close()
    assert server.bodies[0][field] == 32


def test_ollamas_model_is_told_questions_from_texts(server):
    embedder = RemoteEmbedder(vendor=VENDORS["ollama"], base_url=server.base_url, model="nomic-embed-text:v1.5")
    embedder.embed_documents(["a"])
    embedder.embed_query("q")
    embedder.close()
    assert server.inputs == [["search_document: a"], ["search_query: q"]]


def test_doubaos_multimodal_models_take_one_text_a_call_at_their_own_path(server):
    embedder = RemoteEmbedder(vendor=VENDORS["doubao"], base_url=server.base_url, api_key=KEY)
    assert embedder.batch_size == 1
    row = embedder.embed_documents(["利率"])[0]
    np.testing.assert_array_equal(row, embedder.embed_query("利率"))
    embedder.close()
    assert [request.path for request in server.requests] == ["/v1/embeddings/multimodal"] * 2
    assert server.bodies[0] == {
        "input": [{"type": "text", "text": "利率"}],
        "model": "doubao-embedding-vision-251215",
        "encoding_format": "float",
        "dimensions": 1024,
    }


def test_doubaos_other_models_take_the_usual_path(server):
    embedder = RemoteEmbedder(vendor=VENDORS["doubao"], base_url=server.base_url, model="ep-2025-embedding")
    embedder.embed_documents(["a", "b"])
    embedder.close()
    assert (server.requests[0].path, server.inputs) == ("/v1/embeddings", [["a", "b"]])


def test_one_vector_for_several_texts_is_refused(server):
    server.always(raw(b'{"data": {"embedding": [1.0, 0.0]}}'))
    embedder = RemoteEmbedder(base_url=server.base_url, model="m")
    with pytest.raises(ProviderReplyError, match="1 vectors came back for 2 texts"):
        embedder.embed_documents(["a", "b"])
    embedder.close()


def test_a_vendor_without_a_model_of_its_own_needs_one():
    with pytest.raises(ProviderMissingError, match=r"embedding\.model is not set"):
        RemoteEmbedder(vendor=VENDORS["custom"], base_url="http://127.0.0.1:1/v1")


def test_dimensions_are_known_at_the_vendors_own_address_only():
    for vendor in VENDORS.values():
        if vendor.model and (vendor.dims or vendor.asks):
            assert RemoteEmbedder(vendor=vendor).fingerprint.dims == (vendor.asks or vendor.dims[vendor.model])
    elsewhere = RemoteEmbedder(vendor=VENDORS["voyage"], base_url="http://127.0.0.1:1/v1")
    assert elsewhere._dims is None


@pytest.mark.parametrize("provider", ["local", "local-e5"])
def test_offline_models_have_their_long_texts_in_pieces_too(provider: str):
    made = {"local": LocalEmbedder, "local-e5": E5Embedder}[provider]()
    sizes: list[int] = []

    def embed_documents(texts):
        sizes.extend(len(text.encode()) for text in texts)
        return HashedEmbedder().embed_documents(texts)

    made.embed_documents = embed_documents
    (done,) = DocumentBatches(made)(["利率 " * 4000])
    assert "embedded in" in done.note
    assert (sum(sizes), max(sizes) <= made.max_text_bytes) == (28_000, True)


# a hundred small files, in as few requests as the caps allow


@pytest.mark.parametrize("provider", sorted(VENDORS))
def test_a_hundred_small_files_are_as_few_requests_as_the_vendors_cap_allows(server, tmp_path: Path, provider: str):
    vendor = VENDORS[provider]
    cap = min(64, vendor.items_of(vendor.model or "m"))
    server.always(vectors(allows_base64=True, max_inputs=cap))
    with opened(server, notes(tmp_path / "root", 100), provider, dimensions=32) as memory:
        report = memory.sync()
    assert (report.chunks, report.embedded, report.pending, report.failed) == (100, 100, 0, ())
    assert server.count == math.ceil(100 / cap)


def test_the_setting_can_make_batches_smaller_but_never_larger_than_the_vendor_takes(server, tmp_path: Path):
    with opened(server, notes(tmp_path / "root", 25), "dashscope", dimensions=32, batch_size=2048) as memory:
        memory.sync()
    assert [len(texts) for texts in server.inputs] == [10, 10, 5]
    server.requests.clear()
    with opened(server, notes(tmp_path / "other", 25), "dashscope", dimensions=32, batch_size=8) as memory:
        memory.sync()
    assert [len(texts) for texts in server.inputs] == [8, 8, 8, 1]


def test_an_undeclared_cap_is_learnt_once_per_address_and_kept_through_a_restart(server, tmp_path: Path):
    server.always(vectors(max_inputs=10))
    root = notes(tmp_path / "root", 100)
    with opened(server, root, dimensions=32) as memory:
        report = memory.sync()
    assert (report.embedded, report.failed) == (100, ())
    assert [len(texts) for texts in server.inputs] == [64, 1, 32, 16, *[8] * 8, *[8] * 4, 4]

    server.requests.clear()
    for number in range(100):
        (root / f"{number:03d}.md").write_text(f"Another note {number}.\n")
    with opened(server, root, dimensions=32) as memory:
        assert memory.sync().embedded == 100
    assert [len(texts) for texts in server.inputs] == [*[8] * 12, 4]

    with Loopback() as elsewhere, opened(elsewhere, root, dimensions=32) as memory:
        memory.sync()
        assert max(len(texts) for texts in elsewhere.inputs) == 64, "what one server refuses says nothing of another"


@pytest.mark.parametrize("code", [400, 413, 422])
def test_a_text_longer_than_the_model_takes_is_embedded_in_pieces_and_named(server, tmp_path: Path, code: int):
    server.always(vectors(max_text_bytes=1500, too_long=code))
    root = notes(tmp_path / "root", 10)
    (root / "long.md").write_text(" ".join(f"word{n}" for n in range(600)))
    settings = Settings(embedding=embedding(server, "openai", dimensions=32), chunk=ChunkSettings(tokens=2000))
    with Memory.open(root, settings=settings) as memory:
        report = memory.sync()
        assert (report.embedded, report.pending, report.failed) == (11, 0, ())
        ((path, notice),) = report.notices
        assert path == "long.md"
        assert "long.md: a text of" in notice
        assert "pieces" in notice
        assert memory.search("word500 word501").channels["vector"] == "ok"


def test_a_text_that_crashes_the_server_holds_up_no_other(server, tmp_path: Path):
    server.always(vectors(fails=lambda text: "fund7." in text))
    with opened(server, notes(tmp_path / "root", 20), dimensions=32) as memory:
        report = memory.sync()
        assert (report.embedded, report.pending) == (19, 1)
        ((path, reason),) = report.failed
        assert path == "007.md"
        assert "tokenizer crashed" in reason
        assert memory.search("fund8").channels["vector"] == "ok"
        server.always(vectors())
        assert memory.sync().embedded == 1, "it is tried again"


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (status(401, "invalid key"), "refused the key"),
        (status(429, "out of credit", error="insufficient_quota"), "quota is used up"),
        (status(429, "余额不足或无可用资源包,请充值。", error="1113"), "quota is used up"),
        (status(400, "Access denied, account overdue", error="Arrearage"), "quota is used up"),
        (status(400, "API key not valid. Please pass a valid API key."), "refused the key"),
        (status(404, "no such model"), "no embedding model"),
    ],
)
def test_a_wrong_key_or_an_exhausted_quota_is_one_call_and_one_message(
    server, tmp_path: Path, behaviour: Behaviour, words: str
):
    server.always(behaviour)
    with opened(server, notes(tmp_path / "root", 100), dimensions=32) as memory:
        report = memory.sync()
        assert report.pending == 100
        ((name, reason),) = report.failed
        assert name == "embedding"
        assert words in reason
        for _ in range(5):
            result = memory.search("fund7", wait_ms=-1)
            assert [hit.path for hit in result][:1] == ["007.md"]
            assert words in result.channels["vector"]
    assert server.count == 1, "it was asked again before anybody could have changed anything"


def test_dimensions_are_asked_for_once_and_not_by_every_process(server, tmp_path: Path):
    root = notes(tmp_path / "root", 10)
    with opened(server, root, model="m") as memory:
        memory.sync()
    assert [len(texts) for texts in server.inputs] == [1, 10]
    server.requests.clear()
    with opened(server, root, model="m") as memory:
        assert memory.status().embedding.startswith("openai|m|64|")
        assert memory.search("fund7", wait_ms=-1).channels["vector"] == "ok"
    assert server.inputs == [["fund7"]]


def test_a_model_that_has_changed_under_its_name_gets_vectors_of_its_own(server, tmp_path: Path):
    root = notes(tmp_path / "root", 10)
    with opened(server, root, model="m") as memory:
        memory.sync()
    server.always(vectors(dims=96))
    with opened(server, root, model="m") as memory:
        result = memory.search("fund7", wait_ms=-1)
        assert [hit.path for hit in result][:1] == ["007.md"]
        assert "not of 64 dimensions" in result.channels["vector"]
        memory.sync()
        assert memory.search("fund7", wait_ms=-1).channels["vector"] == "ok"
        assert memory.status().embedding.startswith("openai|m|96|")


def test_an_outage_in_the_middle_keeps_what_was_finished(server, tmp_path: Path):
    server.next(vectors(), *[status(503, headers={"Retry-After": "0"})] * 6)
    with opened(server, notes(tmp_path / "root", 100), dimensions=32) as memory:
        report = memory.sync()
        assert (report.embedded, report.pending) == (64, 36)
        assert memory.sync().embedded == 36


def test_a_hanging_server_is_given_up_and_let_go(server, tmp_path: Path):
    server.always(hang())
    options = {"dimensions": 32, "timeout_s": 0.3, "query_timeout_s": 0.3}
    with opened(server, notes(tmp_path / "root", 10), **options) as memory:
        report = memory.sync()
        assert "did not answer within 0.3 s" in report.failed[0][1]
        assert server.wait_for(lambda: server.abandoned == server.count), "a connection stayed open"


def test_a_search_waits_for_its_vector_no_longer_than_it_was_told_to(server, tmp_path: Path):
    with opened(server, notes(tmp_path / "root", 10), dimensions=32) as memory:
        memory.sync()
        server.always(slow(0.5))
        result = memory.search("fund7", wait_ms=100)
        assert result.channels["vector"] == "failed: the query had no vector within 0.1 s"
        assert [hit.path for hit in result][:1] == ["007.md"]
        assert server.wait_for(lambda: memory.search("fund7", wait_ms=100).channels["vector"] == "ok"), (
            "every answer is too late for its search, but none is thrown away"
        )


def test_an_outage_slows_one_search_and_its_end_is_noticed(server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("vademecum.embed.breaker._PAUSES_S", (0.5,))
    with opened(server, notes(tmp_path / "root", 10), dimensions=32, query_timeout_s=0.5) as memory:
        memory.sync()
        server.always(hang())
        before = server.count
        for number in range(20):
            result = memory.search(f"fund{number}", wait_ms=0)
            assert "did not answer within 0.5 s" in result.channels["vector"]
        assert server.count == before + 1
        server.always(vectors())
        assert server.wait_for(lambda: memory.search("fund7", wait_ms=0).channels["vector"] == "ok")
