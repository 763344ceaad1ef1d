"""The half of `Memory` for whoever keeps whole pages in it: listed, read, replaced, moved and deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from vademecum.errors import MissingFileError, PackageMissingError, StoreError
from vademecum.memory.writing import Writing
from vademecum.store.files import read_text
from vademecum.store.pages import change_page, move_pages, remove_pages, unified
from vademecum.store.paths import resolve
from vademecum.store.scan import FileStat, scan
from vademecum.types import Edited


class Paging(Writing):
    """What `Memory` can do with whole pages. Every change is undone like any other."""

    def files(self, folder: str = "") -> tuple[FileStat, ...]:
        """The pages below ``folder`` (relative to the root, "" for all) that this viewer may read, by path.

        Raises StoreError when the root cannot be listed.
        """
        self._core.check_root()
        below = f"{folder.strip('/')}/".removeprefix("/")
        found = scan(self._core.layout).files
        return tuple(file for file in found if file.path.startswith(below) and self._may_read(file.path))

    def read(self, path: str) -> str:
        """The whole text of a page, without byte order mark, each line ended by "\\n".

        Raises MissingFileError, UnreadableFileError and PathError.
        """
        return unified(read_text(resolve(self._core.root, self._own_path(path))).text)

    def rewrite(self, path: str, change: Callable[[str | None], str]) -> Edited:
        """Make ``change`` of a page's text its text; None is given where there is no page, which is then made.

        No other writer comes between. The text has "\\n" line ends; what ``change`` raises leaves everything as it
        is. ``Edited.lines`` are not told. Raises StoreError kinds and UsageError.
        """
        edited = change_page(
            self._core.root, self._own_path(path), change,
            by=self._origin, redactor=self._redactor, limits=self.settings.context,
        )  # fmt: skip
        self._changed(edited.path)
        return edited

    def move(self, moves: Mapping[str, str]) -> int | None:
        """Give pages other paths, all or none; returns the number of a change by which all of it is undone.

        Links to knowledge pages are not rewritten: `Memory.knowledge` does that. Raises MissingFileError,
        ConflictError if a new path is taken, PathError, and StoreError kinds.
        """
        named = {self._own_path(old): self._own_path(new) for old, new in moves.items()}
        batch, made = move_pages(self._core.root, named, by=self._origin)
        return self._rearranged({*named, *named.values()}, batch, [change.entry for change in made])

    def remove(self, paths: Iterable[str]) -> int | None:
        """Delete pages, all or none; returns as `move`. Raises MissingFileError, PathError and StoreError kinds."""
        named = list(dict.fromkeys(map(self._own_path, paths)))
        if not named:
            raise MissingFileError("no page was named: nothing was deleted")
        batch, made = remove_pages(self._core.root, named, by=self._origin)
        return self._rearranged(set(named), batch, [change.entry for change in made])

    def _rearranged(self, paths: set[str], batch: int, entries: list[int | None]) -> int | None:
        self._changed(*paths)
        with suppress(StoreError, PackageMissingError):  # the next change of such a page will do it
            self.knowledge.follow(paths, batch)
        return entries[0] if entries else None
