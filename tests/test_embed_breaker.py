"""An outage slows one search, not every one. A clock that a test sets, and an embedder that fails on request."""

from __future__ import annotations

import threading

import pytest

from embedders import HashedEmbedder, embed_all
from vademecum.embed import CachedQueries, DocumentBatches, queries
from vademecum.embed.breaker import Breaker
from vademecum.errors import ProviderDownError, ProviderError, ProviderMissingError, ProviderRefusedError

DOWN = ProviderDownError("HTTP 503")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def embedder() -> HashedEmbedder:
    return HashedEmbedder()


@pytest.fixture
def cached(embedder: HashedEmbedder, clock: Clock) -> CachedQueries:
    return CachedQueries(embedder, breaker=Breaker(clock))


def test_after_a_failure_nobody_asks_until_the_pause_is_over(cached, embedder, clock):
    embedder.fail(DOWN)
    with pytest.raises(ProviderDownError, match=r"^HTTP 503$"):
        cached.embed_query("rates")
    for _ in range(5):
        with pytest.raises(ProviderDownError, match=r"^HTTP 503 \(not asked again for a moment\)$"):
            cached.embed_query("rates")
    assert len(embedder.queries) == 1
    embedder.heal()
    clock.now += 31
    assert cached.embed_query("rates").shape == (64,)
    assert cached.embed_query("bonds").shape == (64,)


def test_pauses_grow_while_an_outage_lasts_and_begin_anew_after_it(cached, embedder, clock):
    embedder.fail(DOWN)
    waited = []
    for _ in range(5):
        with pytest.raises(ProviderDownError):
            cached.embed_query("rates")
        count, began = len(embedder.queries), clock.now
        while len(embedder.queries) == count:
            clock.now += 1
            with pytest.raises(ProviderDownError):
                cached.embed_query("rates")
        waited.append(clock.now - began)
    assert waited == [30, 60, 120, 120, 120]
    embedder.heal()
    clock.now += 121
    cached.embed_query("rates")
    embedder.fail(DOWN)
    for _ in range(2):
        with pytest.raises(ProviderDownError):
            cached.embed_query("bonds")
    embedder.heal()
    clock.now += 31
    cached.embed_query("bonds")


def test_calls_that_were_under_way_together_are_one_failure(clock):
    breaker = Breaker(clock)
    for _ in range(8):
        breaker.failed(DOWN)
    clock.now += 31
    assert breaker.admit() is False


def test_one_caller_finds_out_whether_an_outage_is_over_and_the_others_go_on_without(clock):
    breaker = Breaker(clock)
    breaker.failed(DOWN)
    clock.now += 31
    assert breaker.admit() is False
    for _ in range(3):
        with pytest.raises(ProviderDownError):
            breaker.admit()
    clock.now += 31
    assert breaker.admit() is False, "the one that tried was never heard of again"
    breaker.worked()
    assert breaker.admit() is True


def test_a_trial_that_hangs_holds_its_search_up_for_a_moment_and_still_ends_the_outage(
    cached, embedder, clock, monkeypatch
):
    monkeypatch.setattr(queries, "_PATIENCE_S", 0.05)
    embedder.fail(DOWN, times=1)
    with pytest.raises(ProviderDownError):
        cached.embed_query("rates")
    clock.now += 31
    hanging, original = threading.Event(), embedder.embed_query

    def slow(text: str):
        hanging.wait(10)
        return original(text)

    embedder.embed_query = slow
    with pytest.raises(ProviderDownError, match=r"has not answered again within 0\.05 s"):
        cached.embed_query("rates")
    hanging.set()
    for _ in range(500):
        try:
            vector = cached.embed_query("rates")
            break
        except ProviderDownError:
            threading.Event().wait(0.01)
    assert vector.shape == (64,)
    assert len(embedder.queries) == 2, "the late answer was remembered"


def test_what_is_remembered_is_answered_during_an_outage(cached, embedder):
    vector = cached.embed_query("rates")
    embedder.fail(DOWN)
    with pytest.raises(ProviderDownError):
        cached.embed_query("bonds")
    assert cached.embed_query("rates") is vector


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (ProviderRefusedError("wrong key", "key"), 1),
        (ProviderRefusedError("no credit", "quota"), 1),
        (ProviderRefusedError("no model", "model"), 1),
        (ProviderMissingError("no package"), 1),
        (ProviderRefusedError("not this text"), 3),
    ],
)
def test_what_only_a_person_can_mend_is_not_asked_for_every_search(cached, embedder, error: ProviderError, asked: int):
    embedder.fail(error)
    for _ in range(3):
        with pytest.raises(ProviderError):
            cached.embed_query("rates")
    assert len(embedder.queries) == asked


@pytest.mark.parametrize(
    ("error", "questions"),
    [
        (ProviderDownError("nobody there", "unreachable"), 0),
        (ProviderRefusedError("wrong key", "key"), 0),
        (ProviderDownError("slow down", "rate"), 1),
    ],
)
def test_an_outage_met_with_texts_spares_the_questions(embedder, error: ProviderError, questions: int):
    cached = CachedQueries(embedder)
    embedder.fail(error)
    with pytest.raises(ProviderError):
        embed_all(DocumentBatches(embedder, None, cached.breaker), ["a"])
    with pytest.raises(ProviderError):
        cached.embed_query("rates")
    assert len(embedder.queries) == questions


def test_texts_that_are_embedded_end_the_pause(embedder):
    cached = CachedQueries(embedder)
    embedder.fail(DOWN, times=1)
    with pytest.raises(ProviderDownError):
        cached.embed_query("rates")
    embed_all(DocumentBatches(embedder, None, cached.breaker), ["a"])
    assert cached.embed_query("rates").shape == (64,)


def test_a_space_that_has_to_be_asked_for_is_guarded_until_it_is_known(embedder, clock):
    class Asking(HashedEmbedder):
        @property
        def fingerprint(self):
            self.embed_query("dimensions")
            return super().fingerprint

    asking = Asking()
    cached = CachedQueries(asking, breaker=Breaker(clock))
    asking.fail(DOWN)
    for _ in range(3):
        with pytest.raises(ProviderDownError):
            _ = cached.fingerprint
    assert len(asking.queries) == 1
    asking.heal()
    clock.now += 31
    assert cached.fingerprint.dims == 64
    cached.breaker.failed(DOWN)
    assert cached.fingerprint.dims == 64
