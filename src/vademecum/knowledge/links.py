"""Who links to whom: references, backlinks, broken links, orphans and the graph. Pure, but for ``exists``."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from vademecum.knowledge.markup import Markup
from vademecum.knowledge.records import Edge, Graph, Node, PageLinks, Reference
from vademecum.knowledge.targets import SUFFIX, Pages, stem
from vademecum.store.layout import Layout, keeps_itself, knowledge_of
from vademecum.types import Scope


@dataclass(frozen=True, slots=True)
class Web:
    """The pages that a viewer may read, parsed, and the links between them.

    ``exists`` tells of a path relative to the root whether there is any file.
    """

    layout: Layout
    scopes: tuple[Scope, ...]
    markups: Mapping[str, Markup]
    pages: Pages
    exists: Callable[[str], bool]

    def references(self, page: str) -> Iterator[Reference]:
        """The links of a page, in order; those that lead out of the memory are left out.

        Uses of a definition count with the definition.
        """
        for link in self.markups[page].links:
            if link.style == "reference":
                continue
            path = self.pages.resolve(page, link)
            label = " ".join(link.label.split())
            if path is not None:
                missing = path not in self.pages.paths and not self._is_file(path)
                yield Reference(page, link.line, path, label, missing)
            elif link.style == "wiki" and posixpath.splitext(link.target)[1].lower() in ("", SUFFIX):
                yield Reference(page, link.line, link.target, label, True)

    def _is_file(self, path: str) -> bool:
        return self.layout.classify(path).scope in self.scopes and self.exists(path)

    def all_references(self) -> Iterator[Reference]:
        """The links of all pages, page by page."""
        for page in sorted(self.markups):
            yield from self.references(page)

    def of(self, page: str) -> PageLinks:
        """The links of a page and those to it from others."""
        incoming = (reference for reference in self.all_references() if reference.page != page)
        found = tuple(reference for reference in incoming if reference.target == page)
        return PageLinks(page, tuple(self.references(page)), found)

    def broken(self) -> tuple[Reference, ...]:
        """Links that lead to nothing."""
        return tuple(reference for reference in self.all_references() if reference.missing)

    def orphans(self, home: str) -> tuple[str, ...]:
        """Pages of ``home`` to which no other page leads, its index and log apart."""
        linked = {
            reference.target
            for reference in self.all_references()
            if reference.page != reference.target and not keeps_itself(reference.page)
        }
        mine = (path for path in self.markups if path.startswith(home) and not keeps_itself(path))
        return tuple(sorted(path for path in mine if path not in linked))

    def title(self, page: str) -> str:
        """The first heading of a page, else its name."""
        return self.markups[page].title or stem(page)

    def graph(self, *, everything: bool) -> Graph:
        """The knowledge pages, or all pages, and the links between them; index and log are left out."""
        nodes = []
        for path in sorted(self.markups):
            kind = self.layout.classify(path).kind
            if (kind == "knowledge" or everything) and not keeps_itself(path):
                nodes.append(Node(path, self.title(path), self._category(path), kind))
        known = {node.id for node in nodes}
        count = Counter(
            (page, reference.target)
            for page in sorted(known)
            for reference in self.references(page)
            if reference.target in known and reference.target != page
        )
        edges = tuple(Edge(source, target, times) for (source, target), times in sorted(count.items()))
        return Graph(tuple(nodes), edges, tuple(sorted({node.category for node in nodes})))

    def _category(self, path: str) -> str:
        home = knowledge_of(path)
        return posixpath.dirname(path.removeprefix(home)) if path.startswith(home) else ""
