"""Language models over the ``/chat/completions`` call of the OpenAI protocol."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from json import loads as parse
from typing import TYPE_CHECKING, Any

from vademecum.errors import ProviderMissingError, ProviderRefusedError, ProviderReplyError, UsageError, shown
from vademecum.providers import INSTALL_OPENAI, is_installed, openai_client
from vademecum.providers.endpoint import Endpoint, find_endpoint
from vademecum.providers.sendable import sendable
from vademecum.types import ChatReply

if TYPE_CHECKING:
    from vademecum.ports import ChatModel
    from vademecum.providers.openai import OpenAIClient
    from vademecum.settings import ChatSettings

_ROLES = ("system", "user", "assistant")
_RETRIES = 2
#: What OpenAI's newer models call "max_tokens", which they refuse.
_NEW_LENGTH = "max_completion_tokens"
#: What the servers call an answer that was cut off; everything else that holds a text is "stop".
_CUT = frozenset({"length", "max_tokens", "model_length"})
_WITHHELD = frozenset({"content_filter", "safety", "sensitive"})
#: Local models write their reasoning into the answer; it may be cut off before it ends.
_REASONING = re.compile(r"\A\s*<think>.*?(?:</think>\s*|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ChatResolution:
    """``reason`` says which model was taken, or "off: …" and what would turn it on."""

    model: ChatModel | None
    reason: str


def resolve_chat(settings: ChatSettings, environ: Mapping[str, str]) -> ChatResolution:
    """The language model that ``settings`` ask for. Nothing is imported, loaded or called for it, and nothing raised.

    ``environ`` is where the key (``settings.api_key_env``, usually OPENAI_API_KEY) and OPENAI_BASE_URL are looked up.
    """
    if settings.model is None:
        return ChatResolution(None, "off: chat.model is not set")
    try:
        endpoint = find_endpoint("chat", settings.base_url, settings.api_key_env, environ)
    except ProviderMissingError as error:
        return ChatResolution(None, f"off: {error}")
    if not is_installed("openai"):
        return ChatResolution(None, f"off: the package openai is not installed; {INSTALL_OPENAI}")
    model = RemoteChat(endpoint, settings.model, timeout_s=settings.timeout_s, max_tokens=settings.max_tokens)
    return ChatResolution(model, f"{settings.model} at {endpoint.base_url}")


class RemoteChat:
    """ChatModel port over HTTP; thread-safe. Nothing is loaded or called before the first use.

    ``timeout_s`` bounds a whole call, retries and waits included. What a server refuses to be told (a JSON mode, the
    length under its old name) is left out, and remembered, for as long as this object lives.
    """

    def __init__(
        self, endpoint: Endpoint, model: str, *, timeout_s: float = 120.0, max_tokens: int | None = None
    ) -> None:
        self._endpoint = endpoint
        self._model = model
        self._timeout_s = timeout_s
        self._max_tokens = max_tokens
        self._length_field = "max_tokens"
        self._json_mode = True
        self._client: OpenAIClient | None = None
        self._lock = threading.Lock()

    @property
    def model(self) -> str:
        """The model's name."""
        return self._model

    def complete(
        self, messages: Sequence[Mapping[str, str]], *, max_tokens: int | None = None, json: bool = False
    ) -> ChatReply:
        """The model's answer to ``messages``, without the reasoning that some models put before it.

        ``text`` may be empty, above all when ``finish_reason`` is "length". Raises UsageError for messages of another
        shape; ProviderRefusedError (key, quota, model, input, an answer that the server withholds), ProviderDownError
        or ProviderReplyError; ProviderMissingError without the package ``openai``.
        """
        body: dict[str, Any] = {"model": self._model, "messages": _checked(messages)}
        length = self._max_tokens if max_tokens is None else max_tokens
        if length is not None:
            body[self._length_field] = length
        # OpenAI refuses the mode to a conversation without the word.
        if json and self._json_mode and any("json" in message["content"].lower() for message in body["messages"]):
            body["response_format"] = {"type": "json_object"}
        expires, refused = time.monotonic() + self._timeout_s, False
        while True:
            try:
                reply = self._ask(body, expires)
            except ProviderRefusedError as error:
                if error.about != "input":
                    raise
                if "max_tokens" in body and _NEW_LENGTH in str(error):
                    self._length_field = _NEW_LENGTH
                    body[_NEW_LENGTH] = body.pop("max_tokens")
                elif body.pop("response_format", None) is not None:
                    refused = True  # by these words or others: if it is answered without, it was that
                else:
                    raise
            else:
                self._json_mode = self._json_mode and not refused
                return reply

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _ask(self, body: Mapping[str, Any], expires: float) -> ChatReply:
        with self._lock:
            if self._client is None:
                here = self._endpoint
                self._client = openai_client(here.base_url, here.api_key, here.key_name, "chat")
            client = self._client
        left = max(0.0, expires - time.monotonic())
        reply = client.post("/chat/completions", body, deadline=left, retries=_RETRIES)
        try:
            return _read(reply)
        except ProviderReplyError as error:
            raise ProviderReplyError(f"{client.base_url}: {error}") from None
        except ProviderRefusedError as error:
            raise ProviderRefusedError(f"{client.base_url}: {error}", error.about) from None


def _checked(messages: Sequence[object]) -> list[dict[str, str]]:
    if not messages:
        raise UsageError("messages is empty: a model needs something to answer")
    checked: list[dict[str, str]] = []
    for message in messages:
        role, content = (message.get("role"), message.get("content")) if isinstance(message, Mapping) else ("", "")
        if role not in _ROLES or not isinstance(content, str):
            raise UsageError(f"{shown(message)}: expected a role ({', '.join(_ROLES)}) and a text as its content")
        checked.append({"role": role, "content": sendable(content)})
    return checked


def _read(body: bytes | bytearray) -> ChatReply:
    try:
        reply = parse(body)
    except (ValueError, RecursionError) as error:
        raise ProviderReplyError("the reply is not JSON; check chat.base_url") from error
    choices = reply.get("choices") if isinstance(reply, Mapping) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        raise ProviderReplyError("the reply has no choice with a message; check chat.base_url")
    finish = str(choice.get("finish_reason"))
    content, refusal = message.get("content"), message.get("refusal")
    if finish in _WITHHELD or (refusal and not content):
        raise ProviderRefusedError(f"the answer is withheld ({shown(refusal or finish)})", "answer")
    if not isinstance(content, str | None):
        raise ProviderReplyError("the reply's message is not a text")
    usage = reply.get("usage")
    counts = usage if isinstance(usage, Mapping) else {}
    return ChatReply(
        _REASONING.sub("", sendable(content or "")),
        "length" if finish in _CUT else "stop",
        _count(counts.get("total_tokens")),
        _count(counts.get("completion_tokens")),
    )


def _count(value: object) -> int:
    return value if type(value) is int and value > 0 else 0
