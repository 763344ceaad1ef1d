"""The OpenAI Agents SDK: a session whose items are kept in a memory's history, and the tools of memory."""

from __future__ import annotations

import asyncio
from typing import Any

from vademecum.memory import Memory
from vademecum.store.prompt import Language
from vademecum.tools.adapters import missing
from vademecum.tools.handlers import Tools
from vademecum.tools.specs import ToolSpec

try:
    from agents import FunctionTool
except ImportError as error:
    raise missing("openai-agents", "openai-agents") from error


class Session:
    """A conversation for ``Runner.run(..., session=Session(memory, "chat-1"))``, as the SDK's protocol has it.

    Items come back exactly as they were given, to whoever opens the memory for the same user and agent; they are in
    `Memory.history` under ``session_id``, where they can be listed, made into notes and, if the settings say so,
    searched. Raises HistoryError and UsageError.
    """

    def __init__(self, memory: Memory, session_id: str, session_settings: Any = None) -> None:
        """``session_settings`` are the SDK's; their ``limit`` is how many items a run is given."""
        self.session_id = session_id
        self.session_settings = session_settings
        self._history = memory.history

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The last ``limit`` items, all of them by default, in the order in which they were added."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        if limit is None:
            found = await asyncio.to_thread(self._history.messages_after, self.session_id)
        else:
            found = await asyncio.to_thread(self._history.last_messages, self.session_id, max(0, limit))
        return [message.body for message in found]

    async def add_items(self, items: list[Any]) -> None:
        """Store items at the end, all or none."""
        await asyncio.to_thread(self._history.append, self.session_id, items, channel="openai-agents")

    async def pop_item(self) -> Any | None:
        """Delete the last item and return it; None if there is none."""
        last = await asyncio.to_thread(self._history.pop, self.session_id)
        return None if last is None else last.body

    async def clear_session(self) -> None:
        """Delete the conversation."""
        await asyncio.to_thread(self._history.delete, self.session_id)


def function_tools(tools: Tools, language: Language = "en") -> list[FunctionTool]:
    """The tools for ``Agent(tools=...)``, of the profile of ``tools``. They never raise: the model is told.

    Not in strict mode, which makes every argument required, so that the smallest call stays small.
    """
    return [_tool(tools, spec, language) for spec in tools.specs.values()]


def _tool(tools: Tools, spec: ToolSpec, language: Language) -> FunctionTool:
    async def invoke(_: Any, arguments: str) -> str:
        return (await asyncio.to_thread(tools.call, spec.name, arguments)).text

    return FunctionTool(
        name=spec.name,
        description=spec.description[language],
        params_json_schema=spec.schema(language),
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )
