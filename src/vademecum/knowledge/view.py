"""What can be seen of the knowledge pages without changing any."""

from __future__ import annotations

from contextlib import suppress

from vademecum.errors import MissingFileError, StoreError
from vademecum.knowledge.carrying_out import shelf_of
from vademecum.knowledge.index_page import dead_links, missing
from vademecum.knowledge.names import Folder
from vademecum.knowledge.reading import Reader
from vademecum.knowledge.records import Category, Check, Graph, PageInfo, PageLinks, Reference, Tree
from vademecum.store.excerpt import read_lines
from vademecum.store.files import read_text
from vademecum.store.paths import resolve
from vademecum.types import Excerpt, Scope


class View:
    """The pages below ``home``, for a viewer of ``scopes``. Others' private pages are in no answer."""

    def __init__(self, reader: Reader, folder: Folder, scopes: tuple[Scope, ...]) -> None:
        self._reader = reader
        self._folder = folder
        self._scopes = scopes

    def tree(self) -> Tree:
        found = self._reader.scan()
        shelf = shelf_of(self._reader, self._folder.home, found)
        pages: dict[str, list[PageInfo]] = {}
        for file in found.files:
            if file.path in shelf.listed:
                info = PageInfo(file.path, shelf.title(file.path), file.size)
                pages.setdefault(shelf.category(file.path), []).append(info)
        inner: dict[str, list[Category]] = {}
        # Backwards, so that a category comes after those in it.
        for name in sorted({*self._reader.folders(self._folder.home), *pages} - {""}, reverse=True):
            category = Category(name, tuple(pages.get(name, ())), tuple(inner.get(name, ())))
            inner.setdefault(name.rpartition("/")[0], []).insert(0, category)
        root = Category("", tuple(pages.get("", ())), tuple(inner.get("", ())))
        return Tree(root, len(shelf.listed), sum(page.size for some in pages.values() for page in some))

    def read(self, path: str, start: int, lines: int | None) -> Excerpt:
        return read_lines(self._reader.layout.root, self._folder.any(path).path, start, lines)

    def links(self, path: str) -> PageLinks:
        web, _ = self._reader.web(self._scopes)
        for candidate in (self._folder.home + path, path):
            with suppress(StoreError):
                found = resolve(self._reader.layout.root, candidate).path
                if found in web.markups:
                    return web.of(found)
        raise MissingFileError(f"{path}: there is no such page")

    def graph(self, *, everything: bool) -> Graph:
        return self._reader.web(self._scopes)[0].graph(everything=everything)

    def check(self) -> Check:
        web, notices = self._reader.web(self._scopes)
        unlisted, stale = self.index_faults()
        return Check(web.broken(), web.orphans(self._folder.home), unlisted, stale, tuple(text for _, text in notices))

    def index_faults(self) -> tuple[tuple[str, ...], tuple[Reference, ...]]:
        """Pages that the index does not show, and its links to pages that are not there."""
        shelf = shelf_of(self._reader, self._folder.home, self._reader.scan())
        try:
            text = read_text(resolve(self._reader.layout.root, shelf.path)).text
        except MissingFileError:
            text = ""
        stale = (Reference(shelf.path, link.line, link.target, link.label, True) for link in dead_links(text, shelf))
        return tuple(missing(text, shelf)), tuple(stale)
