"""The real openai client against a server that misbehaves in every way real ones do."""

from __future__ import annotations

import threading
import time
import traceback
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

pytest.importorskip("openai", reason="the package openai is not installed (vademecum[openai])")

import httpx2
import openai

from embedders import hashed_row
from loopback import (
    Behaviour,
    Loopback,
    break_off,
    disconnect,
    hang,
    raw,
    status,
    trickle,
    vectors,
)
from vademecum.embed.vendors import VENDORS
from vademecum.errors import (
    ProviderDownError,
    ProviderError,
    ProviderMissingError,
    ProviderRefusedError,
    ProviderReplyError,
)
from vademecum.providers import embeddings, openai_client
from vademecum.providers.openai import OpenAIClient, _retry_after, _wait

KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with Loopback() as running:
        yield running


@pytest.fixture
def client(server: Loopback):
    made = openai_client(server.base_url, KEY, "OPENAI_API_KEY")
    yield made
    made.close()


def embed(client: OpenAIClient, *texts: str, dimensions: int | None = None, deadline: float = 5.0, retries: int = 0):
    path, body = VENDORS["openai"].request(texts, "m", dimensions, question=False)
    reply = client.post(path, body, deadline=deadline, retries=retries)
    return embeddings.rows_of(client.base_url, reply, len(texts), dimensions)


def test_rows_are_the_servers_in_the_order_of_the_texts(client, server):
    rows = embed(client, "alpha beta", "gamma", "利率")
    assert rows == [[float(x) for x in hashed_row(text, 64)] for text in ("alpha beta", "gamma", "利率")]


def test_a_shuffled_reply_is_put_back_by_index(client, server):
    straight = embed(client, "one", "two", "three")
    server.always(vectors(shuffled=True))
    assert embed(client, "one", "two", "three") == straight


def test_a_server_that_needs_no_key_gets_a_placeholder_and_never_the_environments_key(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin")
    keyless = openai_client(server.base_url, None, "OPENAI_API_KEY")
    embed(keyless, "x")
    keyless.close()
    assert server.requests[0].headers["authorization"] == "Bearer none"


@pytest.mark.parametrize(("key_name", "told"), [("OPENAI_API_KEY", True), ("GOOGLE_API_KEY", False)])
def test_what_the_environment_says_of_openai_is_told_to_no_other_vendor(server, monkeypatch, key_name: str, told: bool):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: s3cret")
    named = openai_client(server.base_url, KEY, key_name)
    embed(named, "x")
    named.close()
    headers = server.requests[0].headers
    seen = [headers.get(name) for name in ("openai-organization", "openai-project", "x-gateway")]
    assert seen == (["org-1", "proj-1", "s3cret"] if told else [None, None, None])


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (vectors(extra=-1), "2 vectors came back for 3 texts"),
        (vectors(extra=1), "4 vectors came back for 3 texts"),
        (vectors(indices=lambda i: 0), "indices"),
        (vectors(indices=lambda i: i + 1), "indices"),
        (vectors(indices=lambda i: None), "indices"),
        (vectors(indices=lambda i: True), "indices"),
        (vectors(first=[1.0] * 63), "dimensions"),
        (vectors(first=[float("nan")] * 64), "text 0 holds a number that is not finite"),
        (vectors(first=[float("inf")] * 64), "not finite"),
        (vectors(first="AAAAAA=="), "text 0 is not a list of numbers"),
        (vectors(first=["1.0"] * 64), "not a list of numbers"),
        (vectors(first=[]), "not a list of numbers"),
        (raw(b"<html>Sign in to the hotel's network</html>"), "not JSON"),
        (raw(b"\xff\xfe\x00"), "not JSON"),
        (raw(b'{"object": "list"}', content_type="application/json"), 'no list "data"'),
        (raw(b"[1, 2]", content_type="application/json"), 'no list "data"'),
        (raw(b'{"data": [1, 2, 3]}', content_type="application/json"), "indices"),
        (raw(b"", content_type="application/json"), "not JSON"),
        (raw(b"[" * 100_000, content_type="application/json"), "not JSON"),
    ],
)
def test_a_reply_that_is_not_what_was_asked_for_is_refused_whole(client, server, behaviour: Behaviour, words: str):
    server.always(behaviour)
    with pytest.raises(ProviderReplyError, match=words) as caught:
        embed(client, "one", "two", "three", retries=2)
    assert server.base_url in str(caught.value)
    assert server.count == 1, "a wrong reply is not asked for again"


def test_dimensions_that_the_server_ignores_are_noticed(client, server):
    server.always(vectors(honours_dimensions=False))
    with pytest.raises(ProviderReplyError, match="64 dimensions instead of 16"):
        embed(client, "x", dimensions=16)


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (status(401, f"Incorrect API key provided: {KEY}"), "refused the key .*check OPENAI_API_KEY"),
        (status(403, "no access"), "refused the key"),
        (status(402, "pay first"), "quota is used up"),
        (status(404, "The model does not exist"), "no embedding model 'm'.*check embedding.model"),
        (status(429, "You exceeded your quota", error="insufficient_quota"), "quota is used up"),
        (status(400, "too many tokens"), "refused the request .HTTP 400: too many tokens"),
        (status(413, "too large"), "refused the request"),
        (status(422, "单次请求过长"), "单次请求过长"),
    ],
)
def test_a_refusal_is_raised_at_once_and_never_tried_again(client, server, behaviour: Behaviour, words: str):
    server.always(behaviour)
    with pytest.raises(ProviderRefusedError, match=words) as caught:
        embed(client, "x", retries=3)
    assert not caught.value.retryable
    assert server.count == 1


@pytest.mark.parametrize("code", [408, 409, 429, 500, 502, 503])
def test_what_may_pass_is_tried_again_and_then_succeeds(client, server, code: int):
    server.next(status(code, headers={"Retry-After": "0"}), status(code, headers={"retry-after-ms": "1"}))
    assert len(embed(client, "x", retries=2)) == 1
    assert server.count == 3


@pytest.mark.parametrize("code", [429, 500])
def test_retries_end_and_the_failure_is_named(client, server, code: int):
    server.always(status(code, "overloaded", headers={"Retry-After": "0"}))
    with pytest.raises(ProviderDownError, match=f"HTTP {code}: overloaded") as caught:
        embed(client, "x", retries=2)
    assert caught.value.retryable
    assert server.count == 3


def test_retry_after_is_waited_for(client, server):
    server.next(status(429, headers={"Retry-After": "0.4"}))
    started = time.monotonic()
    embed(client, "x", retries=1)
    assert 0.4 <= time.monotonic() - started < 3


def limited(retry_after: str) -> openai.RateLimitError:
    request = httpx2.Request("POST", "http://127.0.0.1/v1")
    response = httpx2.Response(429, headers={"Retry-After": retry_after}, request=request)
    return openai.RateLimitError("slow down", response=response, body=None)


def test_retry_after_may_be_a_date():
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert 50 < _retry_after(limited(date)) <= 60
    assert _retry_after(limited("Wed, 21 Oct 2015 07:28:00 GMT")) == 0


@pytest.mark.parametrize("asked", ["soon", "-5", "nan", ""])
def test_a_retry_after_that_means_no_time_is_as_none(asked: str):
    assert _retry_after(limited(asked)) is None
    assert _wait(limited(asked), 0) <= 0.5


def test_clients_that_were_asked_to_wait_do_not_come_back_at_once():
    waits = {_wait(limited("20"), 0) for _ in range(50)}
    assert len(waits) > 10
    assert all(20 <= wait <= 20.25 for wait in waits)


def test_a_retry_after_beyond_the_deadline_fails_at_once_and_says_when_to_come_back(client, server):
    server.always(status(429, headers={"Retry-After": "90"}))
    started = time.monotonic()
    with pytest.raises(ProviderDownError, match="asks to wait 90 s"):
        embed(client, "x", deadline=2.0, retries=5)
    assert time.monotonic() - started < 1
    assert server.count == 1


def test_without_retry_after_the_wait_grows(client, server):
    server.next(status(500), status(500))
    started = time.monotonic()
    embed(client, "x", retries=2)
    assert 0.375 + 0.75 <= time.monotonic() - started < 4


@pytest.mark.parametrize("behaviour", [disconnect(), break_off()])
def test_a_broken_connection_is_tried_again(client, server, behaviour: Behaviour):
    server.next(behaviour)
    assert len(embed(client, "x", retries=1)) == 1
    assert server.count == 2


@pytest.mark.parametrize("behaviour", [disconnect(), break_off()])
def test_a_connection_that_keeps_breaking_is_a_provider_that_is_down(client, server, behaviour: Behaviour):
    server.always(behaviour)
    with pytest.raises(ProviderDownError, match="cannot be reached"):
        embed(client, "x")


def test_nobody_listening_is_named_with_the_systems_words():
    with Loopback() as gone:
        address = gone.base_url
    client = openai_client(address, KEY, "OPENAI_API_KEY")
    with pytest.raises(ProviderDownError, match=r"cannot be reached: .*refused"):
        embed(client, "x")
    client.close()


@pytest.mark.parametrize("behaviour", [hang(), trickle()], ids=["hang", "trickle"])
def test_the_deadline_holds_and_the_request_is_cancelled(client, server, behaviour: Behaviour):
    server.always(behaviour)
    started = time.monotonic()
    with pytest.raises(ProviderDownError, match=r"did not answer within 0\.5 s"):
        embed(client, "x", deadline=0.5, retries=5)
    assert time.monotonic() - started < 1.5
    assert server.wait_for(lambda: server.abandoned == 1), "the connection stayed open"
    time.sleep(0.3)
    assert server.count == 1, "a retry went on in the background"


def test_retries_and_waits_count_against_the_deadline(client, server):
    server.always(status(500))
    started = time.monotonic()
    with pytest.raises(ProviderDownError):
        embed(client, "x", deadline=1.0, retries=50)
    assert time.monotonic() - started < 1.5
    count = server.count
    time.sleep(0.6)
    assert server.count == count


def test_a_client_is_usable_after_each_failure(client, server):
    for behaviour in (disconnect(), break_off(), hang(), status(401), raw(b"")):
        server.next(behaviour)
        with pytest.raises(ProviderError):
            embed(client, "x", deadline=0.5)
        assert len(embed(client, "x")) == 1


@pytest.mark.parametrize(
    "behaviour",
    [
        status(401, f"bad key {KEY}\nAuthorization: Bearer {KEY}"),
        status(400, f"Incorrect key sk-another-key-000 and {KEY}"),
        status(500, f"crash with {KEY}"),
        status(429, f"{KEY} is too fast", headers={"Retry-After": "90"}),
        raw(f"Bearer {KEY}".encode(), 503, "text/plain"),
    ],
)
def test_no_key_in_a_message_or_its_traceback(client, server, behaviour: Behaviour):
    server.always(behaviour)
    with pytest.raises(ProviderError) as caught:
        embed(client, "x")
    shown = "".join(traceback.format_exception(caught.value))
    assert KEY not in shown
    assert "sk-another" not in shown
    assert "***" in str(caught.value)


def test_a_servers_long_or_html_words_do_not_flood_the_message(client, server):
    server.next(raw(b"<html>" + b"x" * 5000, 502), status(400, "y" * 5000))
    with pytest.raises(ProviderDownError) as html:
        embed(client, "x")
    with pytest.raises(ProviderRefusedError) as long:
        embed(client, "x")
    assert "<html>" not in str(html.value)
    assert len(str(long.value)) < 500


def test_threads_share_one_client(client, server):
    failures: list[BaseException] = []

    def ask(word: str) -> None:
        try:
            assert embed(client, word, deadline=20) == [[float(x) for x in hashed_row(word, 64)]]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask, args=(f"word{n}",)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert server.count == 16


def test_without_the_package_the_command_that_helps_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "vademecum.providers.openai", None)
    with pytest.raises(ProviderMissingError, match=r"pip install 'vademecum\[openai\]'"):
        openai_client("http://127.0.0.1:1/v1", KEY, "OPENAI_API_KEY")


@pytest.mark.parametrize("proxy", ["nonsense://proxy:1", "http://proxy:port"])
def test_a_proxy_that_cannot_be_used_is_an_error_of_our_own(monkeypatch, proxy: str):
    monkeypatch.setenv("HTTP_PROXY", proxy)
    with pytest.raises(ProviderMissingError, match="proxy variables"):
        openai_client("http://provider.example/v1", KEY, "OPENAI_API_KEY")
