"""The same knowledge pages for asyncio programs: each call runs in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vademecum.knowledge import Knowledge
    from vademecum.knowledge.records import Changed, Check, Graph, PageLinks, Tree
    from vademecum.types import Excerpt


class AsyncKnowledge:
    """`Knowledge` whose methods are awaited; arguments and errors are those of its methods of the same name."""

    def __init__(self, knowledge: Knowledge) -> None:
        """Wrap the pages of an open memory."""
        self.knowledge = knowledge

    @property
    def private(self) -> AsyncKnowledge:
        """See `Knowledge.private`."""
        return AsyncKnowledge(self.knowledge.private)

    async def tree(self) -> Tree:
        """See `Knowledge.tree`."""
        return await asyncio.to_thread(self.knowledge.tree)

    async def read(self, path: str, **options: Any) -> Excerpt:
        """See `Knowledge.read`."""
        return await asyncio.to_thread(self.knowledge.read, path, **options)

    async def links(self, path: str) -> PageLinks:
        """See `Knowledge.links`."""
        return await asyncio.to_thread(self.knowledge.links, path)

    async def graph(self, **options: Any) -> Graph:
        """See `Knowledge.graph`."""
        return await asyncio.to_thread(self.knowledge.graph, **options)

    async def check(self, **options: Any) -> Check:
        """See `Knowledge.check`."""
        return await asyncio.to_thread(self.knowledge.check, **options)

    async def create(self, path: str, text: str, **options: Any) -> Changed:
        """See `Knowledge.create`."""
        return await asyncio.to_thread(self.knowledge.create, path, text, **options)

    async def import_files(self, category: str, files: Iterable[tuple[str, bytes | str]], **options: Any) -> Changed:
        """See `Knowledge.import_files`."""
        return await asyncio.to_thread(self.knowledge.import_files, category, files, **options)

    async def create_category(self, name: str) -> Changed:
        """See `Knowledge.create_category`."""
        return await asyncio.to_thread(self.knowledge.create_category, name)

    async def move(self, paths: str | Iterable[str], category: str) -> Changed:
        """See `Knowledge.move`."""
        return await asyncio.to_thread(self.knowledge.move, paths, category)

    async def rename(self, path: str, new: str) -> Changed:
        """See `Knowledge.rename`."""
        return await asyncio.to_thread(self.knowledge.rename, path, new)

    async def delete(self, paths: str | Iterable[str], **options: Any) -> Changed:
        """See `Knowledge.delete`."""
        return await asyncio.to_thread(self.knowledge.delete, paths, **options)
