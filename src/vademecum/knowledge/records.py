"""What the knowledge base answers with. Paths are relative to the root, as everywhere."""

from __future__ import annotations

from dataclasses import dataclass

from vademecum.types import Kind


@dataclass(frozen=True, slots=True)
class PageInfo:
    """A page: its title is its first heading, else its name. ``size`` is in bytes."""

    path: str
    title: str
    size: int


@dataclass(frozen=True, slots=True)
class Category:
    """A folder of pages; ``name`` is its path below the knowledge folder, "" for that folder itself.

    index.md and log.md of the knowledge folder are not among the pages.
    """

    name: str
    pages: tuple[PageInfo, ...]
    categories: tuple[Category, ...]


@dataclass(frozen=True, slots=True)
class Tree:
    """All categories and pages, with how many pages there are and their size in bytes."""

    root: Category
    pages: int
    size: int


@dataclass(frozen=True, slots=True)
class Changed:
    """What an operation did.

    ``pages`` are those that were written, made or now stand at a new path; ``removed`` are paths that are no longer
    there. ``rewritten`` are pages in which links were adapted, and ``broken`` links that now lead to nothing.
    """

    pages: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()
    broken: tuple[Reference, ...] = ()
    skipped: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reference:
    """A link as found on a page: ``line`` is 1-based, ``label`` its text, ``missing`` says that it leads to nothing."""

    page: str
    line: int
    target: str
    label: str
    missing: bool = False


@dataclass(frozen=True, slots=True)
class PageLinks:
    """The links of a page and those that lead to it."""

    path: str
    outgoing: tuple[Reference, ...]
    incoming: tuple[Reference, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """What is wrong: links that lead to nothing, pages to which no other page leads (index.md and log.md do not count),
    pages that index.md does not show and links of index.md that lead to nothing."""

    broken: tuple[Reference, ...]
    orphans: tuple[str, ...]
    unlisted: tuple[str, ...]
    stale: tuple[Reference, ...]
    notices: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether every link leads somewhere and index.md is true."""
        return not (self.broken or self.unlisted or self.stale)


@dataclass(frozen=True, slots=True)
class Node:
    """A page in the graph; ``id`` is its path."""

    id: str
    label: str
    category: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Edge:
    """One page links to another, ``count`` times."""

    source: str
    target: str
    count: int


@dataclass(frozen=True, slots=True)
class Graph:
    """Pages and the links between them."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    categories: tuple[str, ...]
