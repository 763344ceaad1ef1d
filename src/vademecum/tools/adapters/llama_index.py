"""LlamaIndex: a retriever over a memory's search, and a block of long-term memory for its chat memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from vademecum.errors import IndexUnavailableError
from vademecum.memory import Memory
from vademecum.tools.adapters import missing
from vademecum.tools.answers import searched
from vademecum.types import Hit

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.memory import BaseMemoryBlock
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ImportError as error:
    raise missing("llama-index-core", "llama-index") from error


class MemoryRetriever(BaseRetriever):
    """`Memory.search` as a retriever: a node for each hit, best first, with its place as metadata.

    ``options`` are arguments of `Memory.search`. Raises UsageError for wrong ones, and IndexUnavailableError if the
    memory cannot be searched.
    """

    def __init__(self, memory: Memory, **options: Any) -> None:
        super().__init__()
        self._memory = memory
        self._options = options

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        result = self._memory.search(query_bundle.query_str, **self._options)
        if result.disabled is not None:
            raise IndexUnavailableError(result.disabled)
        return [_node(hit) for hit in result]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node(hit: Hit) -> NodeWithScore:
    place = {
        "path": hit.path,
        "start_line": hit.start_line,
        "end_line": hit.end_line,
        "heading": " / ".join(hit.heading),
        "date": hit.date,
        "origin": hit.origin,
    }
    name = f"{hit.path}:{hit.start_line}-{hit.end_line}"
    return NodeWithScore(node=TextNode(id_=name, text=hit.text, metadata=place), score=hit.score)


class MemoryBlock(BaseMemoryBlock[str]):
    """For ``Memory.from_defaults(memory_blocks=[MemoryBlock(memory=memory)])``.

    Gives the model what a search for the last question finds, set apart as data, or what should be known at the start
    of a session where there is no question yet; at most ``max_tokens`` by our estimate. Messages that leave the short
    term are kept in `Memory.history` under ``session``, where the settings decide whether searches find them.
    """

    memory: Memory
    name: str = "long_term_memory"
    session: str = "llama-index"
    max_tokens: int = 2_000
    options: Mapping[str, Any] | None = None

    async def _aget(self, messages: list[Any] | None = None, **_: Any) -> str:
        asked = [str(message.content or "") for message in messages or () if message.role == "user"]
        return await asyncio.to_thread(self._recalled, asked[-1] if asked else "")

    def _recalled(self, question: str) -> str:
        if not question.strip():
            return self.memory.context(max_tokens=self.max_tokens).text
        return searched(self.memory.search(question, **(self.options or {})), self.max_tokens).text

    async def _aput(self, messages: list[Any]) -> None:
        said = [{"role": str(message.role.value), "content": str(message.content or "")} for message in messages]
        await asyncio.to_thread(self.memory.history.append, self.session, said, channel="llama-index")
