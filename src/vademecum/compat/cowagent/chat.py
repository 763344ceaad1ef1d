"""The host's language model, as flush and dream want it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vademecum.compat.cowagent.host import host
from vademecum.errors import ProviderDownError, ProviderError, ProviderReplyError
from vademecum.types import ChatReply, FinishReason

_CUT = ("length", "max_tokens")


class HostChat:
    """The port `ChatModel` over an object with ``call(request)``.

    The answer may be Claude's or OpenAI's, as a dict or as an object of their packages, or a stream of pieces.
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def complete(
        self, messages: Sequence[Mapping[str, str]], *, max_tokens: int | None = None, json: bool = False
    ) -> ChatReply:
        """See `ChatModel`. Raises ProviderError kinds, whatever the host's model raises."""
        fields: dict[str, Any] = {
            "messages": [dict(message) for message in messages if message["role"] != "system"],
            "temperature": 0,
            "stream": False,
        }
        system = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
        if system:
            fields["system"] = system
        if max_tokens is not None:
            fields["max_tokens"] = max_tokens
        try:
            answer = self.model.call(host().request_class()(**fields))
            text, reason = _read(answer)
        except ProviderError:
            raise
        except Exception as error:
            raise ProviderDownError(f"the host's language model failed: {error}") from error
        if not text.strip():
            raise ProviderReplyError("the host's language model gave an empty answer")
        return ChatReply(text, reason)


def _read(answer: Any) -> tuple[str, FinishReason]:
    plain = _plain(answer)
    if isinstance(plain, str):
        return plain, "stop"
    if isinstance(plain, Mapping):
        return _said(plain)
    if isinstance(plain, Iterable):
        pieces = [_said(piece) if isinstance(piece := _plain(part), Mapping) else (str(piece), "") for part in plain]
        cut = any(reason == "length" for _, reason in pieces)
        return "".join(text for text, _ in pieces), "length" if cut else "stop"
    raise ProviderReplyError(f"the host's language model answered with a {type(answer).__name__}")


def _plain(answer: Any) -> Any:
    """The objects of the vendors' packages as dicts."""
    dump = getattr(answer, "model_dump", None)
    return dump() if callable(dump) else answer


def _said(answer: Mapping[str, Any]) -> tuple[str, FinishReason]:
    if answer.get("error"):
        raise ProviderDownError(f"the host's language model failed: {answer.get('message') or answer['error']}")
    choices = answer.get("choices")
    if choices:
        choice = _plain(choices[0])
        message = _plain(choice.get("message") or choice.get("delta") or {})
        return _text(message.get("content")), _reason(choice.get("finish_reason"))
    return _text(answer.get("content")), _reason(answer.get("stop_reason"))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "".join(block.get("text") or "" for block in map(_plain, blocks) if isinstance(block, Mapping))


def _reason(reason: object) -> FinishReason:
    return "length" if reason in _CUT else "stop"
