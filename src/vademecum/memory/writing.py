"""The half of `Memory` that writes: pages are changed, and changes are looked at and taken back."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING

from vademecum.errors import PackageMissingError, StoreError, UsageError
from vademecum.memory import arguments
from vademecum.memory.core import Core
from vademecum.memory.reading import Reading
from vademecum.settings import Settings
from vademecum.store import undo
from vademecum.store.edit import edit
from vademecum.store.journal import prune
from vademecum.store.layout import keeps_itself
from vademecum.store.remember import remember
from vademecum.text.redact import Redactor
from vademecum.types import Diff, Edited, LogEntry, Origin, Viewer, Written

if TYPE_CHECKING:
    from vademecum.knowledge import Knowledge


class Writing:
    """What `Memory` can do to pages. Every change is made on behalf of the memory's ``origin`` and can be undone."""

    settings: Settings
    _core: Core
    _reading: Reading
    _origin: Origin
    _viewer: Viewer
    _redactor: Redactor

    def remember(self, text: str, *, daily: bool = False, file: str | None = None) -> Written:
        """Append ``text`` to MEMORY.md, to today's daily file, or to ``file``; returns where it stands.

        A single plain line becomes a list item. What stands there already, word for word, is not written again
        (``Written.existed``). The text is searchable in the next call. Raises UsageError for blank text, PathError for
        a file outside the viewer's memory, and StoreError kinds when writing fails.
        """
        if daily and file is not None:
            raise UsageError("daily and file are both given: choose one")
        target = file if file is not None else "daily" if daily else "long_term"
        written = remember(
            self._core.layout, text, self._own_path(target),
            by=self._origin, redactor=self._redactor, limits=self.settings.context,
        )  # fmt: skip
        self._changed(written.path)
        return written

    def edit(
        self,
        path: str,
        old: str,
        new: str,
        *,
        all: bool = False,
        lines: tuple[int, int] | None = None,
        expect: str | None = None,
    ) -> Edited:
        """Put ``new`` in the place of ``old`` on the page at ``path``, which may be "long_term" or "daily".

        ``old`` is taken literally and must stand there once, or anywhere if ``all``; ``lines`` (first and last, from
        1) narrows where. An empty ``new`` deletes. ``expect`` is the hash that the page had when it was read, or its
        first 12 digits or more. Raises MatchError (nothing there, or too much; names the lines), ConflictError (the
        page has changed since), MissingFileError, PathError and UsageError; nothing is changed then.
        """
        every = arguments.flag("all", all)
        edited = edit(
            self._core.root, self._own_path(path), old, new,
            every=every, lines=lines, expect=expect,
            by=self._origin, redactor=self._redactor, limits=self.settings.context,
        )  # fmt: skip
        self._changed(edited.path)
        return edited

    def forget(
        self,
        path: str,
        text: str,
        *,
        all: bool = False,
        lines: tuple[int, int] | None = None,
        expect: str | None = None,
    ) -> Edited:
        """Delete ``text`` from the page at ``path``; everything else as for `edit`.

        A line of which nothing is left, or only its list marker, goes with it.
        """
        return self.edit(path, text, "", all=all, lines=lines, expect=expect)

    def log(self, path: str | None = None) -> tuple[LogEntry, ...]:
        """What was changed in the pages that this viewer may read, newest first; or only the page at ``path``.

        Changes made by other programs are not in it; what a page was before an entry is.
        """
        return undo.log(self._core.root, self._visible_entry, None if path is None else self._own_path(path))

    def diff(self, id: int) -> Diff:
        """What the change with that number in the log did. Raises UsageError if the log does not show it."""
        return undo.diff(self._core.root, self._visible_entry, arguments.positive("id", id))

    def undo(self, id: int | None = None) -> LogEntry:
        """Take back the change with that number, or the newest one that is neither taken back nor takes one back.

        What was changed together with it, as the links to a page that moved, is taken back too.
        What was written since stays where it is; if it stands in the way, ConflictError says which lines, and nothing
        is changed. Returns the entry of the undo, which can be undone by its number. Raises UsageError if there is
        nothing to undo.
        """
        number = None if id is None else arguments.positive("id", id)
        entries = undo.undo(self._core.root, self._visible_entry, number, self._origin, keeps_itself)
        self._changed(*(path for entry in entries for path in (entry.path, entry.moved_from) if path))
        self._mend_indexes(entries)
        return entries[0]

    def _mend_indexes(self, entries: Sequence[LogEntry]) -> None:
        """Have the indexes of knowledge pages follow an undo, where they were not simply taken back too."""
        if entries[0].batch is not None:
            with suppress(StoreError, PackageMissingError):  # the next change of such a page will do it
                self.knowledge.follow({entry.path for entry in entries}, entries[0].batch)

    @cached_property
    def knowledge(self) -> Knowledge:
        """The pages of knowledge by category, with their index, links and graph."""
        from vademecum.knowledge import Knowledge

        # Without a reference to this memory, which must end as soon as nobody else has one.
        changed = partial(note_changes, self._core, self.settings)
        return Knowledge(
            self._core.layout, self._viewer,
            by=self._origin, redactor=self._redactor, clock=self._core.now, changed=changed,
        )  # fmt: skip

    def _changed(self, *paths: str) -> None:
        note_changes(self._core, self.settings, paths)

    def _visible_entry(self, entry: LogEntry) -> bool:
        return all(self._may_read(path) for path in (entry.path, entry.moved_from) if path is not None)

    def _may_read(self, path: str) -> bool:
        return self._reading.may_read(path)

    def _own_path(self, target: str) -> str:
        self._core.check_root()
        return self._reading.own_page(target)


def note_changes(core: Core, settings: Settings, paths: Iterable[str]) -> None:
    """Make what was written searchable, and keep the journal within its bounds."""
    core.index_file(*paths)
    with suppress(StoreError):  # the next change will do it
        prune(core.root, settings.journal, time.time())
