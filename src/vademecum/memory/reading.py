"""Lines of whatever a search can find: pages of the memory and of its extra folders, and conversations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import date

from vademecum.errors import PathError
from vademecum.store.excerpt import read_lines
from vademecum.store.layout import Layout
from vademecum.store.origins import UNKNOWN
from vademecum.store.paths import resolve
from vademecum.store.places import Places
from vademecum.store.trust import Trust
from vademecum.sync import Sessions
from vademecum.types import Excerpt, Viewer


class Reading:
    """What one viewer may touch, and how it is read. ``today`` gives the day in the user's zone."""

    def __init__(
        self, layout: Layout, places: Places, sessions: Sessions | None, viewer: Viewer, today: Callable[[], date]
    ) -> None:
        self._layout = layout
        self._places = places
        self._sessions = sessions
        self._viewer = viewer
        self._today = today
        self.trust = Trust(layout.root)

    def may_read(self, path: str) -> bool:
        """Whether a path of the index is the viewer's to see."""
        return self._layout.classify(path).scope in self._viewer.scopes

    def visible(self, notices: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        """What the viewer may be told: nothing about a file that it may not read."""
        return tuple(text for path, text in notices if self.may_read(path))

    def pages(self) -> tuple[str, ...]:
        """All pages that the viewer may read, as the index spells them. Raises StoreError."""
        files = self._places.scan().files
        return tuple(sorted(file.path for file in files if not file.spoken and self.may_read(file.path)))

    def own_page(self, target: str) -> str:
        """``target``, or the page an alias stands for, spelled as on disk. It need not exist.

        Raises PathError for what is no page of the memory itself or not the viewer's.
        """
        if self._places.is_extra(target):
            raise PathError(f"{target!r}: belongs to a folder of the setting roots, which is read and never written")
        return self._allowed(target, self._layout, self._layout.alias(target, self._viewer, self._today()))

    def page(self, target: str) -> str:
        """``target``, or the page an alias stands for, as the index spells it; also of an extra folder, also a
        conversation.

        It need not exist. Raises PathError for what cannot be found by a search or is not the viewer's.
        """
        if self._sessions is not None and self._sessions.is_conversation(target):
            if not self.may_read(target):
                raise PathError(f"{target!r}: belongs to somebody else's memory")
            return target
        if not self._places.is_extra(target):
            return self.own_page(target)
        layout, path = self._places.locate(target)
        prefix = target.removesuffix(path)
        return prefix + self._allowed(target, layout, path, prefix)

    def excerpt(self, target: str, start: int, lines: int | None) -> Excerpt:
        """``lines`` lines (None: all) from line ``start`` on. Raises StoreError kinds, HistoryError and UsageError."""
        if self._sessions is not None and self._sessions.is_conversation(target):
            return replace(self._sessions.excerpt(self.page(target), start, lines), origin=UNKNOWN)
        if not self._places.is_extra(target):
            return self.trust.excerpt(read_lines(self._layout.root, self.own_page(target), start, lines))
        layout, path = self._places.locate(target)
        prefix = target.removesuffix(path)
        found = self._allowed(target, layout, path, prefix)
        return replace(read_lines(layout.root, found, start, lines), path=prefix + found)

    def _allowed(self, target: str, layout: Layout, path: str, prefix: str = "") -> str:
        found = resolve(layout.root, path).path
        if not self.may_read(prefix + found):
            raise PathError(f"{target!r}: belongs to somebody else's memory")
        return found
