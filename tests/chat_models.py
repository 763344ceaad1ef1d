"""A chat model of LangChain over an OpenAI-compatible server, which needs no more than its core."""

from __future__ import annotations

import json
from typing import Any

import openai
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool


class Scripted(BaseChatModel):
    """What the server at ``address`` says."""

    address: str

    @property
    def _llm_type(self) -> str:
        return "loopback"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools])

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, *, tools: Any = (), **options: Any
    ) -> ChatResult:
        with openai.OpenAI(base_url=self.address, api_key="key") as client:
            reply = client.chat.completions.create(
                model="loopback", messages=convert_to_openai_messages(messages), tools=list(tools) or openai.omit
            )
        said = reply.choices[0].message
        calls = [
            {
                "type": "tool_call",
                "id": call.id,
                "name": call.function.name,
                "args": json.loads(call.function.arguments),
            }
            for call in said.tool_calls or ()
        ]
        message = AIMessage(content=said.content or "", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])
