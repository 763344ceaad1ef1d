"""LangChain: the tools of memory, and a retriever over its search."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from vademecum.errors import IndexUnavailableError
from vademecum.memory import Memory
from vademecum.store.prompt import Language
from vademecum.tools.adapters import missing
from vademecum.tools.handlers import Tools
from vademecum.tools.specs import ToolSpec
from vademecum.types import Hit

try:
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.tools import BaseTool, StructuredTool, ToolException
except ImportError as error:
    raise missing("langchain-core", "langchain") from error


def langchain_tools(tools: Tools, language: Language = "en") -> list[BaseTool]:
    """The tools for an agent or ``bind_tools``, of the profile of ``tools``.

    The model gets the text of an answer, the message's artifact is the same as data. Calls that come to nothing
    become messages with status "error".
    """
    return [_tool(tools, spec, language) for spec in tools.specs.values()]


def _tool(tools: Tools, spec: ToolSpec, language: Language) -> BaseTool:
    def call(**arguments: Any) -> tuple[str, dict[str, Any]]:
        answer = tools.call(spec.name, arguments)
        if answer.error:
            raise ToolException(answer.text)
        return answer.text, dict(answer.data)

    async def acall(**arguments: Any) -> tuple[str, dict[str, Any]]:
        return await asyncio.to_thread(call, **arguments)

    return StructuredTool.from_function(
        func=call,
        coroutine=acall,
        name=spec.name,
        description=spec.description[language],
        args_schema=spec.schema(language),
        infer_schema=False,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


class MemoryRetriever(BaseRetriever):
    """`Memory.search` as a retriever: a document for each hit, best first.

    ``options`` are arguments of `Memory.search`, such as ``max_results``, ``since`` or ``kind``. Raises UsageError for
    wrong ones, and IndexUnavailableError if the memory cannot be searched.
    """

    memory: Memory
    options: Mapping[str, Any] | None = None

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:  # noqa: ARG002
        result = self.memory.search(query, **(self.options or {}))
        if result.disabled is not None:
            raise IndexUnavailableError(result.disabled)
        return [_document(hit) for hit in result]


def _document(hit: Hit) -> Document:
    return Document(
        page_content=hit.text,
        id=f"{hit.path}:{hit.start_line}-{hit.end_line}",
        metadata={
            "source": hit.path,
            "path": hit.path,
            "start_line": hit.start_line,
            "end_line": hit.end_line,
            "heading": list(hit.heading),
            "date": hit.date,
            "kind": hit.kind,
            "origin": hit.origin,
            "score": hit.score,
        },
    )
