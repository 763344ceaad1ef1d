"""The tool ``memory_search``."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, ClassVar

from vademecum.compat.cowagent.host import host

_Tool: Any = host().tool_class()
_NOTHING = (
    "No memories found for '{query}'. This is normal if nothing about it has been stored yet. New memories are made by "
    "writing to MEMORY.md or to memory/YYYY-MM-DD.md."
)


class MemorySearchTool(_Tool):  # type: ignore[misc] # the host's own class, where there is one
    """Searches what is shared, and what is the user's if it was made for one."""

    name = "memory_search"
    description = (
        "Search the agent's long-term memory (notes, preferences, past decisions, knowledge) by meaning and by words. "
        "Always search before answering questions about the past or giving personal advice."
    )
    params: ClassVar = {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for, as a question or in words"},
            "max_results": {"type": "integer", "description": "How many results at most (default 10)", "default": 10},
            "min_score": {"type": "number", "description": "Least relevance, 0 to 1 (default 0.1)", "default": 0.1},
        },
        "required": ["query"],
    }

    def __init__(self, memory_manager: Any, user_id: str | None = None) -> None:
        super().__init__()
        self.memory_manager = memory_manager
        self.user_id = user_id

    def execute(self, args: dict[str, Any]) -> Any:
        """Search; works inside a running event loop too."""
        result, query = host().result_class(), args.get("query")
        if not isinstance(query, str) or not query.strip():
            return result.fail("Error: query parameter is required")
        try:
            found = _run(
                self.memory_manager.search(
                    query=query,
                    user_id=self.user_id,
                    max_results=args.get("max_results", 10),
                    min_score=args.get("min_score", 0.1),
                    include_shared=True,
                )
            )
        except Exception as error:  # a model must be told, whatever a host's manager raises
            return result.fail(f"Error searching memory: {error}")
        if not found:
            return result.success(_NOTHING.format(query=query))
        lines = [f"Found {len(found)} relevant memories:"]
        for number, hit in enumerate(found, 1):
            lines += ["", f"{number}. {hit.path} (lines {hit.start_line}-{hit.end_line})", f"   Score: {hit.score:.3f}"]
            lines.append(f"   Snippet: {hit.snippet}")
        return result.success("\n".join(lines))


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine, in a thread of its own where this one has an event loop already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    answer: list[Any] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            answer.append(asyncio.run(work))
        except BaseException as error:  # carried over to the caller
            failure.append(error)

    thread = threading.Thread(target=run, name="vademecum-search")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return answer[0]
