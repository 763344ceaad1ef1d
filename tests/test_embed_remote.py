"""The remote embedder: the real openai client against a real server."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

pytest.importorskip("openai", reason="the package openai is not installed (vademecum[openai])")

from embedders import embed_all
from loopback import Loopback, hang, status, vectors
from vademecum.embed import DocumentBatches
from vademecum.embed.remote import RemoteEmbedder
from vademecum.embed.vendors import VENDORS
from vademecum.errors import ProviderDownError, ProviderRefusedError, ProviderReplyError, UsageError
from vademecum.types import Calibration


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with Loopback() as running:
        yield running


@pytest.fixture
def make(server: Loopback):
    made: list[RemoteEmbedder] = []

    def maker(**options) -> RemoteEmbedder:
        made.append(RemoteEmbedder(**{"base_url": server.base_url, "model": "m", "query_timeout_s": 2.0} | options))
        return made[-1]

    yield maker
    for embedder in made:
        embedder.close()


def test_documents_and_queries_are_unit_vectors_that_find_each_other(make, server):
    server.always(vectors(scale=17.5))
    embedder = make()
    rows = embedder.embed_documents(["bond fund sold in march", "the cat sat on the mat"])
    query = embedder.embed_query("when was the bond fund sold")
    assert (rows.shape, rows.dtype, query.shape) == ((2, 64), np.float32, (64,))
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-6)
    assert rows[0] @ query > rows[1] @ query


def test_texts_are_cleaned_and_cut_before_they_are_sent(make, server):
    make().embed_documents(["a\0b", "", "\ud800x", "利" * 10_000])
    sent = server.inputs[0]
    assert sent[:3] == ["ab", " ", "x"]
    assert len(sent[3].encode()) <= VENDORS["openai"].text_bytes
    assert set(sent[3]) == {"利"}


def test_the_fingerprint_learns_its_dimensions_from_the_first_reply(make, server):
    embedder = make()
    embedder.embed_query("x")
    assert embedder.fingerprint.key == f"openai|m|64|{server.base_url}||unit"
    assert server.count == 1


def test_the_fingerprint_asks_once_if_nothing_was_embedded_yet(make, server):
    embedder = make()
    assert embedder.fingerprint == embedder.fingerprint
    assert embedder.fingerprint.dims == 64
    assert server.count == 1


def test_dimensions_by_setting_or_by_openais_own_models_take_no_call(make, server):
    assert make(dimensions=32).fingerprint.dims == 32
    assert RemoteEmbedder(model="text-embedding-3-small").fingerprint.dims == 1536
    assert RemoteEmbedder(model="text-embedding-3-large").fingerprint.dims == 3072
    assert RemoteEmbedder(model="text-embedding-3-large", dimensions=256).fingerprint.dims == 256
    assert make(model="text-embedding-3-small").fingerprint.dims == 64, "a name proves nothing at another address"


def test_vectors_of_another_size_are_never_mixed_in(make, server):
    embedder = make()
    embedder.embed_query("x")
    server.always(vectors(dims=96))
    with pytest.raises(ProviderReplyError, match="96 dimensions, 64 were expected"):
        embedder.embed_documents(["x"])
    assert embedder.fingerprint.dims == 64


def test_a_zero_vector_is_refused_by_its_position(make, server):
    server.always(vectors(first=[0.0] * 64))
    with pytest.raises(ProviderReplyError, match="text 0 is zero"):
        make().embed_documents(["x", "y"])


def test_long_texts_are_spread_over_requests_in_order(make, server):
    texts = [f"word{n} " + "x" * 7_900 for n in range(60)]
    rows = make(batch_size=64).embed_documents(texts)
    assert rows.shape == (60, 64)
    assert [text for part in server.inputs for text in part] == texts
    assert server.count == 2
    assert all(sum(len(text) for text in part) <= VENDORS["openai"].request_bytes for part in server.inputs)


def test_no_documents_are_no_rows(make):
    assert make(dimensions=32).embed_documents([]).shape == (0, 32)


def test_more_texts_than_a_batch_are_refused_before_any_call(make, server):
    with pytest.raises(UsageError):
        make(batch_size=2).embed_documents(["a", "b", "c"])
    assert server.count == 0


def test_a_query_ends_at_its_own_deadline(make, server):
    server.always(hang())
    embedder = make(query_timeout_s=0.4, timeout_s=60)
    embedder._connected()
    started = time.monotonic()
    with pytest.raises(ProviderDownError, match=r"within 0\.4 s"):
        embedder.embed_query("x")
    assert time.monotonic() - started < 1.4


def test_documents_outlast_a_rate_limit(make, server):
    limit = status(429, headers={"Retry-After": "0.1"})
    server.next(limit, limit, limit)
    assert make().embed_documents(["x"]).shape == (1, 64)


def test_one_poisonous_text_does_not_fail_the_others(make, server):
    server.always(vectors(refuses=lambda text: "poison" in text))
    texts = [*(f"note {n}" for n in range(20)), "poison", *(f"note {n}" for n in range(20, 40))]
    rows, refused = embed_all(DocumentBatches(make()), texts)
    assert [position for position, _ in refused] == [20]
    assert "input was rejected" in refused[0][1]
    assert sum(row is not None for row in rows) == 40


def test_a_batch_that_is_too_large_for_the_provider_still_ends_embedded(make, server):
    server.always(vectors(max_inputs=10))
    embedder = make()
    texts = [f"note {n}" for n in range(64)]
    rows, refused = embed_all(DocumentBatches(embedder), texts)
    assert refused == []
    for text, row in zip(texts, rows, strict=True):
        np.testing.assert_array_equal(row, embedder.embed_query(text))


def test_a_wrong_key_is_not_blamed_on_64_texts(make, server):
    server.always(status(401, "no such key"))
    with pytest.raises(ProviderRefusedError, match="refused the key"):
        embed_all(DocumentBatches(make()), [f"note {n}" for n in range(64)])
    assert server.count == 1


def test_priors_follow_the_model():
    assert RemoteEmbedder(model="text-embedding-3-large").calibration == Calibration(0.10, 0.60)
    assert RemoteEmbedder(model="text-embedding-ada-002").calibration == Calibration(0.70, 0.90)
    unknown = RemoteEmbedder(model="whatever").calibration
    assert 0 <= unknown.lo < unknown.hi <= 1


def test_threads_that_start_together_share_one_client(make, server):
    embedder = make()
    gate = threading.Barrier(8)
    clients: list[object] = []

    def start() -> None:
        gate.wait()
        embedder.embed_query("x")
        clients.append(embedder._client)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(clients) == 8
    assert len(set(map(id, clients))) == 1


def test_a_closed_embedder_opens_again(make):
    embedder = make()
    embedder.embed_query("x")
    embedder.close()
    embedder.close()
    assert embedder.embed_query("x").shape == (64,)
