"""Batches as large as a provider takes, and texts that it will not take. No model, no network."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedders import HashedEmbedder, embed_all
from vademecum.embed import DocumentBatches, Limits
from vademecum.embed.batching import batches
from vademecum.embed.boundary import unit_rows
from vademecum.embed.limits import LEAST_TEXT_BYTES
from vademecum.embed.pieces import pieces
from vademecum.errors import (
    ProviderDownError,
    ProviderMissingError,
    ProviderRefusedError,
    ProviderReplyError,
)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))), st.integers(1, 9), st.integers(1, 30))
def test_batches_are_all_texts_in_order_none_too_large(texts: list[str], items: int, most: int):
    parts = list(batches(texts, items, most))
    assert [text for part in parts for text in part] == texts
    sizes = [sum(len(text.encode()) for text in part) for part in parts]
    assert all(len(part) == 1 or (len(part) <= items and size <= most) for part, size in zip(parts, sizes, strict=True))
    for part, size, after in zip(parts, sizes, parts[1:], strict=False):
        assert len(part) == items or size + len(after[0].encode()) > most, "the batch had room for more"


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(4, 40))
def test_pieces_are_the_whole_text_and_none_is_too_long(text: str, most: int):
    parts = pieces(text, most)
    assert "".join(parts) == text
    assert all(0 < len(part.encode()) <= most for part in parts)


def test_pieces_end_at_lines_or_else_at_words():
    assert pieces("one two\nthree four five", 12) == ["one two\n", "three four ", "five"]
    assert pieces("利率" * 5, 12) == ["利率利率", "利率利率", "利率"]


@given(st.lists(st.booleans(), max_size=33))
def test_poisonous_texts_are_named_and_fail_nobody_else(poisonous: list[bool]):
    texts = [f"{'poison' if bad else 'note'} number {i}" for i, bad in enumerate(poisonous)]
    embedder = HashedEmbedder(batch_size=64, poison={"poison"})
    rows, refused = embed_all(DocumentBatches(embedder), texts)
    assert [position for position, _ in refused] == [i for i, bad in enumerate(poisonous) if bad]
    assert all(reason == "test: this input is refused" for _, reason in refused)
    for text, bad, row in zip(texts, poisonous, rows, strict=True):
        if bad:
            assert row is None
        else:
            np.testing.assert_array_equal(row, embedder.embed_documents([text])[0])


def test_one_poisonous_text_among_64_costs_few_calls():
    embedder = HashedEmbedder(batch_size=64, poison={"poison"})
    embed_all(
        DocumentBatches(embedder), [*(f"note {i}" for i in range(40)), "poison", *(f"note {i}" for i in range(23))]
    )
    assert len(embedder.batches) <= 2 + 2 * 6


def test_a_healthy_batch_is_one_call():
    embedder = HashedEmbedder()
    rows, refused = embed_all(DocumentBatches(embedder), ["a", "b", "c"])
    assert (len(rows), refused, len(embedder.batches)) == (3, [], 1)
    assert embed_all(DocumentBatches(embedder), []) == ([], [])
    assert len(embedder.batches) == 1


@pytest.mark.parametrize("error", [ProviderRefusedError("wrong key"), ProviderReplyError("wrong count")])
def test_a_provider_that_refuses_everything_is_raised_not_blamed_on_the_texts(error: Exception):
    embedder = HashedEmbedder(batch_size=64)
    embedder.fail(error)
    with pytest.raises(type(error)) as caught:
        embed_all(DocumentBatches(embedder), [f"note {i}" for i in range(64)])
    assert caught.value is error
    assert len(embedder.batches) == 2


@pytest.mark.parametrize(
    "error",
    [
        ProviderDownError("nobody there", "unreachable"),
        ProviderDownError("slow down", "rate"),
        ProviderRefusedError("wrong key", "key"),
        ProviderRefusedError("no credit", "quota"),
        ProviderRefusedError("no such model", "model"),
        ProviderMissingError("no package"),
    ],
)
def test_what_no_text_can_be_blamed_for_stops_at_once(error: Exception):
    embedder = HashedEmbedder(batch_size=64)
    embedder.fail(error)
    with pytest.raises(type(error)):
        embed_all(DocumentBatches(embedder), [f"note {i}" for i in range(64)])
    assert len(embedder.batches) == 1


def test_an_outage_during_the_check_is_an_outage():
    class Failing(HashedEmbedder):
        def embed_documents(self, texts):
            if len(self.batches) == 1:
                self.fail(ProviderDownError("503"))
            return super().embed_documents(texts)

    with pytest.raises(ProviderDownError):
        embed_all(DocumentBatches(Failing(poison={"bad"})), ["bad", "good"])


def test_one_poisonous_reply_is_isolated_like_a_refusal():
    class NanForOne(HashedEmbedder):
        def embed_documents(self, texts):
            rows = super().embed_documents(texts)
            rows[["odd" in text for text in texts]] = np.nan
            return unit_rows(rows, "nan server")

    rows, refused = embed_all(DocumentBatches(NanForOne()), ["a", "b", "odd", "c"])
    assert [row is None for row in rows] == [False, False, True, False]
    assert refused == [(2, "nan server: the vector of text 0 is zero or not finite")]


class Server(HashedEmbedder):
    """A provider with caps that it does not declare, and texts that it cannot bear."""

    def __init__(self, *, cap: int = 64, longest: int = 1 << 30, breaks: str = "\0", slow: int = 1 << 30) -> None:
        super().__init__(batch_size=64)
        self.cap, self.longest, self.breaks, self.slow = cap, longest, breaks, slow

    def embed_documents(self, texts: Sequence[str]):
        rows = super().embed_documents(texts)
        if len(texts) > self.cap or any(len(text.encode()) > self.longest for text in texts):
            raise ProviderRefusedError("nein")
        if any(self.breaks in text for text in texts):
            raise ProviderDownError("HTTP 500")
        if len(texts) > self.slow:
            raise ProviderDownError("no answer within 60 s", "late")
        return rows


@given(st.integers(1, 64), st.integers(0, 200))
def test_a_cap_is_found_by_halving_and_then_kept(cap: int, count: int):
    server, texts = Server(cap=cap), [f"note {n}" for n in range(count)]
    embed_texts = DocumentBatches(server)
    rows, refused = embed_all(embed_texts, texts)
    assert refused == []
    assert all(row is not None for row in rows)
    failed = [len(batch) for batch in server.batches if len(batch) > cap]
    assert failed == [size for size in (64, 32, 16, 8, 4, 2) if cap < size <= count] or count < 64
    server.batches.clear()
    embed_all(embed_texts, texts)
    assert all(len(batch) <= cap for batch in server.batches), "the cap was found out again"


def test_what_was_learnt_outlives_the_process_that_learnt_it_for_a_month():
    kept: dict[str, str] = {}
    texts = [f"note {n}" for n in range(100)]

    def sizes(day: int) -> list[int]:
        server, now = Server(cap=10), float(day * 24 * 3600)
        limits = Limits(server, lambda: kept.get("x"), lambda text: kept.update(x=text), lambda: now)
        embed_all(DocumentBatches(server, limits), texts)
        return [len(batch) for batch in server.batches]

    assert sizes(0)[:4] == [64, 1, 32, 16]
    assert json.loads(kept["x"])["items"] == 8
    assert sizes(29) == [8] * 12 + [4]
    assert sizes(31)[:4] == [64, 1, 32, 16], "a server that stumbled once is not slow for ever"
    assert sizes(60) == [8] * 12 + [4]


@pytest.mark.parametrize("recorded", ["", "no json", "[8]", "null", '{"items": 8}', '{"items": 0, "until": 1e18}'])
def test_a_record_that_is_not_ours_is_no_limit(recorded: str):
    assert Limits(HashedEmbedder(batch_size=32), lambda: recorded).items == 32


def test_one_bad_text_is_not_taken_for_a_cap():
    server = Server()
    server.poison = {"poison"}
    embed_texts = DocumentBatches(server)
    texts = [*(f"note {n}" for n in range(63)), "poison"]
    embed_all(embed_texts, texts)
    server.batches.clear()
    embed_all(embed_texts, texts[:63])
    assert [len(batch) for batch in server.batches] == [63]


def test_a_text_that_crashes_the_server_does_not_hold_up_those_behind_it():
    server = Server(breaks="crash")
    texts = [*(f"note {n}" for n in range(20)), "crash", *(f"note {n}" for n in range(100))]
    rows, refused = embed_all(DocumentBatches(server), texts)
    assert refused == [(20, "HTTP 500")]
    assert sum(row is not None for row in rows) == 120
    (crashed,) = DocumentBatches(server)(["crash"])
    assert not crashed.lasting, "it may be taken another time"


def test_a_server_that_fails_on_everything_is_left_alone():
    server = Server(breaks="")
    with pytest.raises(ProviderDownError):
        server.fail(ProviderDownError("HTTP 500"))
        embed_all(DocumentBatches(server), [f"note {n}" for n in range(64)])
    assert (len(server.batches), len(server.queries)) == (1, 1)


def test_a_slow_server_gets_smaller_batches_for_now():
    server, kept = Server(slow=20), []
    embed_texts = DocumentBatches(server, Limits(server, lambda: None, kept.append))
    rows, refused = embed_all(embed_texts, [f"note {n}" for n in range(64)])
    assert (refused, len(rows), kept) == ([], 64, [])
    assert [len(batch) for batch in server.batches] == [64, 32, 16, 16, 16, 16]


LONG = " ".join(f"word{n}" for n in range(400))


def test_a_text_that_is_too_long_is_embedded_in_pieces_and_named():
    server = Server(longest=1000)
    server.max_text_bytes = 1000
    (done,) = DocumentBatches(server)([LONG])
    parts = [text for batch in server.batches for text in batch]
    assert "".join(parts) == LONG
    mean = sum(len(part) * server.embed_query(part) for part in parts)
    np.testing.assert_allclose(done.vectors[0], mean / np.linalg.norm(mean), rtol=1e-5)
    assert done.note == f"a text of {len(LONG):,} bytes is longer than the model takes: embedded in 4 pieces"


def test_an_undeclared_length_is_found_by_halving_and_then_kept():
    server, kept = Server(longest=1500), []
    embed_texts = DocumentBatches(server, Limits(server, lambda: None, kept.append))
    texts = [*(f"note {n}" for n in range(40)), LONG, *(f"note {n}" for n in range(23))]
    _, refused = embed_all(embed_texts, texts)
    assert refused == []
    longest = json.loads(kept[-1])["text_bytes"]
    assert 1500 <= longest < len(LONG)
    server.batches.clear()
    embed_all(embed_texts, texts)
    assert all(len(text.encode()) <= longest for batch in server.batches for text in batch)


def test_one_dense_text_does_not_have_all_others_cut_up():
    server, kept = Server(longest=LEAST_TEXT_BYTES // 2), []
    embed_texts = DocumentBatches(server, Limits(server, lambda: None, kept.append))
    _, refused = embed_all(embed_texts, ["x" * (LEAST_TEXT_BYTES - 10)])
    assert (refused, kept) == ([], [])


def test_finished_batches_are_given_before_an_outage_is_raised():
    server = HashedEmbedder(batch_size=10)
    given = []
    with pytest.raises(ProviderDownError):
        for done in DocumentBatches(server)([f"note {n}" for n in range(40)]):
            given.append(done)
            if len(given) == 2:
                server.fail(ProviderDownError("gone", "unreachable"))
    assert [(done.first, len(done.vectors)) for done in given] == [(0, 10), (10, 10)]
