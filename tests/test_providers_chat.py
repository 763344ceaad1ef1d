"""Language models: the real openai client against a server that answers as a test scripts it."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("openai", reason="the package openai is not installed (vademecum[openai])")

from loopback import Loopback, answer, break_off, disconnect, hang, raw, status, trickle
from vademecum import providers
from vademecum.errors import (
    ProviderDownError,
    ProviderError,
    ProviderMissingError,
    ProviderRefusedError,
    ProviderReplyError,
    UsageError,
)
from vademecum.ports import ChatModel
from vademecum.providers import chat
from vademecum.providers.chat import RemoteChat, _read, resolve_chat
from vademecum.providers.endpoint import Endpoint
from vademecum.settings import ChatSettings
from vademecum.types import ChatReply

KEY = "sk-test-0123456789abcdef"
ASK = [{"role": "system", "content": "Answer in JSON."}, {"role": "user", "content": "what is new?"}]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with Loopback() as running:
        yield running


@pytest.fixture
def model(server: Loopback):
    made = RemoteChat(Endpoint(server.base_url, KEY, "OPENAI_API_KEY"), "m", timeout_s=5.0)
    yield made
    made.close()


def test_an_answer_carries_its_end_and_the_servers_counts(model: ChatModel, server):
    server.say("hello there")
    assert model.complete(ASK) == ChatReply("hello there", "stop", 8, 2)
    assert server.chats == [{"model": "m", "messages": ASK}]
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("word", ["length", "max_tokens"])
def test_an_answer_that_was_cut_off_says_so(model, server, word: str):
    server.say(answer("# Facts\n- the fi", finish=word))
    assert model.complete(ASK).finish_reason == "length"


@pytest.mark.parametrize("word", [None, "", "eos", "end_turn"])
def test_servers_call_the_end_of_an_answer_by_many_names(model, server, word: str | None):
    server.say(answer("done", finish=word))
    assert model.complete(ASK).finish_reason == "stop"


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("<think>\nhm\n</think>\n\nyes", "yes"),
        ("  <think>no end", ""),
        ("see <think>this</think>", "see <think>this</think>"),
        ("", ""),
    ],
)
def test_reasoning_before_the_answer_is_not_the_answer(model, server, said: str, text: str):
    server.say(said)
    assert model.complete(ASK).text == text


def test_the_length_of_the_answer_is_bounded_by_the_call_or_else_by_the_setting(server):
    endpoint = Endpoint(server.base_url, None, "OPENAI_API_KEY")
    server.always_say("x")
    for configured, asked in ((None, None), (100, None), (100, 7)):
        model = RemoteChat(endpoint, "m", max_tokens=configured)
        model.complete(ASK, max_tokens=asked)
        model.close()
    assert [body.get("max_tokens") for body in server.chats] == [None, 100, 7]


def test_a_model_that_wants_the_length_under_its_new_name_gets_it_from_then_on(model, server):
    server.always_say(answer("x", length_field="max_completion_tokens"))
    assert [model.complete(ASK, max_tokens=n).text for n in (5, 6)] == ["x", "x"]
    assert [body.get("max_completion_tokens") for body in server.chats] == [None, 5, 6]
    assert all("max_tokens" not in body for body in server.chats[1:])


def test_json_is_asked_for_where_the_server_can(model, server):
    server.always_say("{}")
    model.complete(ASK, json=True)
    model.complete(ASK)
    model.complete([{"role": "user", "content": "without the word OpenAI demands"}], json=True)
    assert [body.get("response_format") for body in server.chats] == [{"type": "json_object"}, None, None]


def test_a_server_without_a_json_mode_answers_all_the_same_and_is_not_asked_again(model, server):
    server.always_say(answer("{}", json_mode=False, length_field="max_completion_tokens"))
    assert model.complete(ASK, json=True, max_tokens=5).text == "{}"
    assert model.complete(ASK, json=True, max_tokens=5).text == "{}"
    assert len(server.chats) == 4
    assert "response_format" not in server.chats[-1]


def test_a_refusal_that_has_nothing_to_do_with_json_costs_one_more_call_and_no_mode(model, server):
    server.say(status(400, "context too long"), status(400, "context too long"), "{}")
    with pytest.raises(ProviderRefusedError, match="context too long"):
        model.complete(ASK, json=True)
    model.complete(ASK, json=True)
    assert "response_format" in server.chats[-1]


@pytest.mark.parametrize(
    ("behaviour", "about", "words"),
    [
        (status(401, f"bad key {KEY}"), "key", "refused the key .*check OPENAI_API_KEY"),
        (status(402, "pay"), "quota", "quota is used up"),
        (status(429, "no more", error="insufficient_quota"), "quota", "quota is used up"),
        (status(404, "gone"), "model", "no chat model 'm'.*check chat.model and chat.base_url"),
        (status(400, "bad"), "input", "refused the request"),
        (answer("", finish="content_filter"), "answer", "withheld"),
        (answer("", message={"content": None, "refusal": "I can't"}), "answer", "withheld .*I can't"),
    ],
)
def test_a_refusal_stops_at_once_and_says_to_what(model, server, behaviour, about: str, words: str):
    server.always_say(behaviour)
    with pytest.raises(ProviderRefusedError, match=words) as caught:
        model.complete(ASK)
    assert caught.value.about == about
    assert server.count == 1
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "behaviour",
    [
        raw(b"<html>"),
        raw(b"[]"),
        raw(b'{"choices": []}'),
        raw(b'{"choices": [1]}'),
        raw(b'{"choices": [{"message": "x"}]}'),
        raw(b'{"choices": [{"message": {"content": [1]}}]}'),
    ],
)
def test_a_reply_that_is_no_answer_is_refused(model, server, behaviour):
    server.always_say(behaviour)
    with pytest.raises(ProviderReplyError, match=r"http://127"):
        model.complete(ASK)
    assert server.count == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["message", "content", "refusal", "finish_reason", "index"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(json_values, json_values)
def test_whatever_a_server_says_is_an_answer_or_an_error_of_ours(message: object, usage: object):
    for reply in (message, {"choices": message}, {"choices": [message]}, {"choices": [{"message": message}]}):
        body = json.dumps({**reply, "usage": usage} if isinstance(reply, dict) else reply).encode()
        with suppress(ProviderReplyError, ProviderRefusedError):
            answered = _read(body)
            assert isinstance(answered.text.encode(), bytes)
            assert answered.finish_reason in {"stop", "length"}


def test_an_answer_can_be_written_whatever_is_in_it(model, server):
    server.say(raw(b'{"choices": [{"message": {"content": "a\\u0000b\\ud800c \\ud83d\\ude00"}}]}'))
    assert model.complete(ASK).text == "abc 😀"


def test_counts_that_are_none_are_zero(model, server):
    server.say(raw(b'{"choices": [{"message": {"content": "x"}}], "usage": {"total_tokens": -1}}'))
    assert model.complete(ASK) == ChatReply("x")


@pytest.mark.parametrize(
    "behaviour", [status(429, headers={"Retry-After": "0"}), status(500), disconnect(), break_off()]
)
def test_what_may_pass_is_tried_again(model, server, behaviour):
    server.say(behaviour, "x")
    assert model.complete(ASK).text == "x"
    assert server.count == 2


@pytest.mark.parametrize("behaviour", [hang(), trickle()], ids=["hang", "trickle"])
def test_the_deadline_holds_for_all_tries_together_and_cancels(server, behaviour):
    server.say(status(400))
    server.always_say(behaviour)
    model = RemoteChat(Endpoint(server.base_url, KEY, "OPENAI_API_KEY"), "m", timeout_s=0.5)
    providers.openai_client(server.base_url, KEY, "OPENAI_API_KEY").close()  # loads the vendor's package
    started = time.monotonic()
    with pytest.raises(ProviderDownError, match="did not answer within") as caught:
        model.complete(ASK, json=True)
    assert time.monotonic() - started < 10
    assert caught.value.about == "late"
    assert server.wait_for(lambda: server.abandoned == 1)
    model.close()


@pytest.mark.parametrize(
    "messages",
    [[], [{}], ["x"], [{"role": "tool", "content": "x"}], [{"role": "user", "content": None}], [{"content": "x"}]],
)
def test_messages_of_another_shape_are_refused_before_any_call(model, server, messages):
    with pytest.raises(UsageError):
        model.complete(messages)
    assert server.count == 0


def test_text_that_no_client_can_send_is_cleaned(model, server):
    server.say("x")
    model.complete([{"role": "user", "content": "a\0b\ud800"}])
    assert server.chats[0]["messages"][0]["content"] == "ab"


def test_threads_share_one_client(model, server):
    server.always_say(answer(lambda messages: messages[0]["content"]))
    said: list[str] = []

    def ask(word: str) -> None:
        said.append(model.complete([{"role": "user", "content": word}]).text)

    threads = [threading.Thread(target=ask, args=(str(n),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said) == [str(n) for n in range(8)]


@pytest.mark.parametrize(
    ("settings", "environ", "reason"),
    [
        ({}, {"OPENAI_API_KEY": KEY}, "off: chat.model is not set"),
        ({"model": "m"}, {}, "off: OPENAI_API_KEY is not set; set it, or chat.base_url for a server that needs no key"),
        ({"model": "m", "api_key_env": "OTHER"}, {"OPENAI_API_KEY": KEY}, "off: OTHER is not set; set it, or"),
        ({"model": "m", "base_url": "nonsense"}, {}, "off: chat.base_url: expected http"),
        ({"model": "m"}, {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "nonsense"}, "off: OPENAI_BASE_URL: expected http"),
        ({"model": "m"}, {"OPENAI_API_KEY": "“sk”"}, "off: OPENAI_API_KEY holds characters"),
    ],
)
def test_without_a_model_the_reason_says_what_to_do(settings, environ, reason: str):
    found = resolve_chat(ChatSettings(**settings), environ)
    assert found.model is None
    assert found.reason.startswith(reason)


@pytest.mark.parametrize(
    ("settings", "environ", "address"),
    [
        ({}, {"OPENAI_API_KEY": KEY}, "https://api.openai.com/v1"),
        ({}, {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://gate.example/v1/"}, "https://gate.example/v1"),
        ({"base_url": "http://localhost:11434/v1"}, {}, "http://localhost:11434/v1"),
        (
            {"api_key_env": "OTHER"},
            {"OTHER": "k", "OPENAI_BASE_URL": "https://gate.example"},
            "https://api.openai.com/v1",
        ),
    ],
)
def test_the_settings_reach_the_model(settings, environ, address: str):
    found = resolve_chat(ChatSettings(model="m", **settings), environ)
    assert isinstance(found.model, RemoteChat)
    assert found.reason == f"m at {address}"
    assert KEY not in repr(found)


def test_without_the_package_the_command_that_helps_is_named(monkeypatch):
    monkeypatch.setattr(chat, "is_installed", lambda name: False)
    found = resolve_chat(ChatSettings(model="m"), {"OPENAI_API_KEY": KEY})
    assert found.reason == "off: the package openai is not installed; pip install 'vademecum[openai]'"
    monkeypatch.setitem(__import__("sys").modules, "vademecum.providers.openai", None)
    with pytest.raises(ProviderMissingError, match=r"pip install 'vademecum\[openai\]'"):
        RemoteChat(Endpoint("http://127.0.0.1:1/v1", None, "K"), "m").complete(ASK)
    assert issubclass(ProviderMissingError, ProviderError)
