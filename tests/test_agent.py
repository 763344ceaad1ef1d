"""A scripted agent: a real client of a chat API, and a model that calls tools. What one run learns, the next uses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the package openai is not installed (vademecum[openai])")
pytest.importorskip("mcp", reason="the package mcp is not installed (vademecum[mcp])")

import openai

from loopback import Behaviour, Loopback, answer
from mcp_clients import Served, StdioByHand
from memories import PATIENT
from vademecum.tools import Tools, openai_tools

Call = Callable[[str, dict[str, Any]], str]


@contextmanager
def directly(root: Path) -> Iterator[Call]:
    with Tools.open(root, settings=PATIENT) as tools:
        yield lambda name, arguments: tools.call(name, arguments).text


@contextmanager
def over_stdio(root: Path) -> Iterator[Call]:
    root.mkdir(exist_ok=True)
    with StdioByHand(root) as client:
        yield client.call


@contextmanager
def over_http(root: Path) -> Iterator[Call]:
    root.mkdir(exist_ok=True)
    server = Served(root)
    with ExitStack() as stack:
        stack.callback(server.end)
        with server.client() as client:
            yield client.call


def calls(name: str, arguments: dict[str, Any]) -> Behaviour:
    """The model asks for a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    asked = {"tool_calls": [{"id": "call_1", "type": "function", "function": function}]}
    return answer("", finish="tool_calls", message=asked)


def says_what_it_was_told(messages: list[dict[str, str]]) -> str:
    """The model repeats the line with a percentage from the last tool's answer, as a real one would use it."""
    told = [line for line in messages[-1]["content"].splitlines() if "%" in line]
    return f"Your rule: {told[0]}" if messages[-1]["role"] == "tool" and told else "I do not know your rule."


def run_agent(server: Loopback, call: Call, question: str) -> str:
    """Ask, do what the model wants done, until it answers."""
    client = openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0)
    messages: list[Any] = [{"role": "user", "content": question}]
    with client:
        while True:
            reply = client.chat.completions.create(
                model="loopback",
                messages=messages,
                tools=openai_tools(),  # type: ignore[arg-type]
            ).choices[0]
            if reply.finish_reason != "tool_calls":
                return reply.message.content or ""
            messages.append(reply.message.model_dump(exclude_none=True))
            for asked in reply.message.tool_calls or ():
                assert asked.type == "function"
                result = call(asked.function.name, json.loads(asked.function.arguments))
                messages.append({"role": "tool", "tool_call_id": asked.id, "content": result})


@pytest.mark.parametrize("through", [directly, over_stdio, over_http])
def test_a_rule_that_one_run_remembers_is_used_by_the_next(tmp_path: Path, through: Any) -> None:
    root = tmp_path / "notes"
    question = "May I put 20 % into one share?"
    search = calls("memory_search", {"query": "limit for a single position"})
    with Loopback() as server:
        server.always_say(answer(says_what_it_was_told))
        with through(root) as call:
            server.say(search)
            assert run_agent(server, call, question) == "I do not know your rule."
            server.say(calls("memory_update", {"content": "A single position stays under 5 % of the portfolio."}))
            run_agent(server, call, "Remember: a single position stays under 5 % of the portfolio.")
        with through(root) as call:
            server.say(search)
            assert "stays under 5 %" in run_agent(server, call, question)
        assert {tool["function"]["name"] for tool in server.chats[0]["tools"]} >= {"memory_search", "memory_update"}
    assert "- A single position stays under 5 % of the portfolio." in (root / "MEMORY.md").read_text()
