"""Recipes of docs/recipes as programs: their Python blocks, one after another, against a scripted model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from loopback import Behaviour, Exchange, Loopback

RECIPES = Path(__file__).resolve().parents[1] / "docs" / "recipes"
_blocks = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL).findall

RULE = "Single positions stay under 5 % of the portfolio."


def follow(name: str, folder: Path, server: Loopback, patch: pytest.MonkeyPatch, **given: Any) -> dict[str, Any]:
    """Run a recipe in ``folder`` with the clients' environment set to ``server``; returns its variables.

    ``given`` are variables that it takes for granted.
    """
    text = (RECIPES / f"{name}.md").read_text(encoding="utf-8")
    patch.chdir(folder)
    for variable, value in {
        "ANTHROPIC_API_KEY": "key",
        "ANTHROPIC_BASE_URL": server.base_url.removesuffix("/v1"),
        "OPENAI_API_KEY": "key",
        "OPENAI_BASE_URL": server.base_url,
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
    }.items():
        patch.setenv(variable, value)
    variables: dict[str, Any] = {"__name__": "recipe", **given}
    blocks = _blocks(text)
    assert blocks
    for block in blocks:
        exec(compile(block, f"{name}.md", "exec"), variables)
    return variables


def claude(*content: dict[str, Any] | Callable[[str], str]) -> Behaviour:
    """A reply on the wire of Anthropic's messages; a function makes a text of everything that was asked."""

    def speak(exchange: Exchange) -> None:
        asked = json.dumps(exchange.request.body["messages"], ensure_ascii=False)
        blocks = [{"type": "text", "text": block(asked)} if callable(block) else block for block in content]
        called = any(block["type"] == "tool_use" for block in blocks)
        exchange.send(
            200,
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": exchange.request.body["model"],
                "content": blocks,
                "stop_reason": "tool_use" if called else "end_turn",
                "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            },
        )

    return speak


def gpt(content: str | Callable[[str], str] = "", calls: Sequence[tuple[str, dict[str, Any]]] = ()) -> Behaviour:
    """A reply on the wire of OpenAI's chat completions, with calls of tools."""

    def speak(exchange: Exchange) -> None:
        body = exchange.request.body
        asked = json.dumps(body["messages"], ensure_ascii=False)
        message: dict[str, Any] = {"role": "assistant", "content": content(asked) if callable(content) else content}
        if calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{len(body['messages'])}_{number}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for number, (name, arguments) in enumerate(calls)
            ]
        exchange.send(
            200,
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 1,
                "model": body["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            },
        )

    return speak


def recalled(asked: str) -> str:
    """An answer that only a model which was shown the rule can give; the question does not say it."""
    assert RULE in asked, "the model was not shown what was remembered"
    return f"You said: {RULE}"
