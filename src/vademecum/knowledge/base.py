"""`Knowledge`: pages by category, with an index, a log and links that stay true through every change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime

from vademecum.errors import UsageError, VademecumError
from vademecum.knowledge.changing import Changes, Existing
from vademecum.knowledge.names import Folder
from vademecum.knowledge.reading import Reader
from vademecum.knowledge.records import Changed, Check, Graph, PageLinks, Tree
from vademecum.knowledge.view import View
from vademecum.store.layout import Layout, home
from vademecum.text.redact import Redactor
from vademecum.types import SHARED, Excerpt, Origin, Scope, Viewer


class Knowledge:
    """The knowledge pages of a memory, as one viewer sees them. Safe to share between threads and processes.

    Pages are named by their path below the knowledge folder ("finance/etf.md") or below the root, as search prints it
    ("knowledge/finance/etf.md"); answers always have the latter. A category is a folder, named likewise, without ".md".

    Every change is whole: the page, the links to it on all pages of the memory, index.md, and a line in log.md. It is
    written down before it begins, so that the next call finishes what a killed process did not. Text in index.md that
    somebody wrote stays; index.md and log.md themselves are changed by other means only.

    Methods raise PathError for names that cannot be, MissingFileError, ConflictError for names that are taken,
    UsageError, other StoreError kinds when files cannot be read or written, and PackageMissingError without the extra
    ``knowledge``.
    """

    def __init__(
        self,
        layout: Layout,
        viewer: Viewer,
        *,
        by: Origin,
        redactor: Redactor,
        clock: Callable[[], datetime],
        changed: Callable[[list[str]], None],
        scope: Scope = SHARED,
    ) -> None:
        """``redactor`` decides about secrets in new pages, ``clock`` tells the user's time, and ``changed`` is told the
        paths whose content is another after a change."""
        reader = Reader(layout)
        folder = Folder(layout, layout.knowledge(scope))
        self._changes = Changes(reader, folder, viewer.scopes, by, redactor, clock, changed)
        self._home = folder.home
        self._view = View(reader, folder, viewer.scopes)
        own = home(viewer)
        self._private: Knowledge | None = None
        if scope == SHARED != own:
            self._private = Knowledge(layout, viewer, by=by, redactor=redactor, clock=clock, changed=changed, scope=own)

    @property
    def private(self) -> Knowledge:
        """The viewer's own pages, which others do not see. Raises UsageError if the memory was opened for nobody."""
        if self._private is None:
            raise UsageError("only a memory that was opened for a user or an agent has private pages")
        return self._private

    # -- looking ------------------------------------------------------------------------------------------------

    def tree(self) -> Tree:
        """All categories, empty ones too, and their pages."""
        self.finish()
        return self._view.tree()

    def read(self, path: str, *, start: int = 1, lines: int | None = None) -> Excerpt:
        """``lines`` lines (None: all) of a page, of index.md or of log.md, from line ``start`` on."""
        return self._view.read(path, start, lines)

    def links(self, path: str) -> PageLinks:
        """The links of a page and those to it. ``path`` may also be that of any other page of the memory."""
        self.finish()
        return self._view.links(path)

    def graph(self, *, everything: bool = False) -> Graph:
        """The knowledge pages that the viewer may read and the links between them; with ``everything``, all pages."""
        self.finish()
        return self._view.graph(everything=everything)

    def check(self, *, fix: bool = False) -> Check:
        """What is wrong with links and index, on all pages that the viewer may read; ``fix`` first mends the index."""
        if fix:
            self._changes.fix_index(self._is_true)
        self.finish()
        return self._view.check()

    def _is_true(self) -> bool:
        return self._view.index_faults() == ((), ())

    # -- changing -----------------------------------------------------------------------------------------------

    def create(self, path: str, text: str, *, overwrite: bool = False) -> Changed:
        """Make a page, with its category if need be. Raises ConflictError if it exists, unless ``overwrite``."""
        return self._changes.create(path, text, overwrite=overwrite)

    def import_files(
        self, category: str, files: Iterable[tuple[str, bytes | str]], *, existing: Existing = "skip"
    ) -> Changed:
        """Make pages of files, given as name and content; ``.txt`` becomes ``.md``.

        All names and contents are checked before the first page is written. ``existing`` says what happens to a file
        whose name is taken: it is left out ("skip"), replaces the page ("overwrite") or gets a number ("rename"). At
        most 100 files of 10 MiB and 200 MiB together.
        """
        return self._changes.import_files(category, files, existing)

    def create_category(self, name: str) -> Changed:
        """Make a folder for pages."""
        return self._changes.create_category(name)

    def move(self, paths: str | Iterable[str], category: str) -> Changed:
        """Bring pages into a category, made if need be; "" is the knowledge folder itself. All of them or none."""
        return self._changes.move(paths, category)

    def rename(self, path: str, new: str) -> Changed:
        """Give a page or a category another name or place.

        A ``new`` without "/" is a name in the same folder; with one, a path below the knowledge folder. Files that are
        no pages stay where they are, and links to them are adapted.
        """
        return self._changes.rename(path, new)

    def delete(self, paths: str | Iterable[str], *, recursive: bool = False) -> Changed:
        """Delete pages and categories, those with pages in them only if ``recursive``. The journal keeps the pages.

        Links to them stay, except in index.md, and are named in ``broken``.
        """
        return self._changes.delete(paths, recursive=recursive)

    def follow(self, paths: Iterable[str], batch: int) -> None:
        """Bring index.md up to pages that were changed otherwise, as part of the same ``batch`` of the journal."""
        if any(path.startswith(self._home) for path in paths):
            self._changes.fix_index(self._is_true, batch)
        if self._private is not None:
            self._private.follow(paths, batch)

    def finish(self) -> None:
        """Finish what a killed process began; nothing is raised, for whoever changes something next will be told."""
        with suppress(VademecumError):
            self._changes.finish(timeout=0)
