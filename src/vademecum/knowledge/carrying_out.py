"""Carrying out a plan: each step may already have been taken by a process that was killed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from vademecum.errors import ConflictError, MissingFileError, StoreError, WriteError
from vademecum.knowledge import plan as plans
from vademecum.knowledge.index_page import revise
from vademecum.knowledge.index_view import Shelf
from vademecum.knowledge.markup import read_markup
from vademecum.knowledge.plan import Plan, Rewrite
from vademecum.knowledge.reading import Reader
from vademecum.knowledge.rewriting import Move, edited, link_edits
from vademecum.knowledge.targets import Pages, stem
from vademecum.settings import RedactSettings
from vademecum.store import files
from vademecum.store.files import Change, Document
from vademecum.store.layout import INDEX, LOG, keeps_itself
from vademecum.store.paths import Location, resolve
from vademecum.store.scan import Scan
from vademecum.text.redact import Redactor

_LOG_TITLE = "# Log\n\n"
_MOST_NAMED = 8
#: What to do about secrets in new pages was decided when the plan was made; lines in which a link changes are not new.
_LEAVES_ALL = Redactor(RedactSettings(models="off", persons="off"))


class Carrier:
    """Carries out one plan, under the root's lock. ``touched`` are the paths whose content is another afterwards."""

    def __init__(self, reader: Reader, plan: Plan) -> None:
        self.reader = reader
        self.root = reader.layout.root
        self.plan = plan
        self._record: dict[str, Any] = {"by": plan.by, "why": f"knowledge: {plan.verb}", "batch": plan.batch}
        self.touched: list[str] = []
        self.rewritten: list[str] = []
        self.removed: list[str] = []
        self.notices: list[tuple[str, str]] = []
        self._failures: list[StoreError] = []

    def run(self, contents: Mapping[str, Document] | None = None) -> None:
        """Do what is left to do; ``contents`` are the pages to be written, None when somebody else began.

        When a page cannot be moved, all are moved back and nothing has changed. When one cannot be written or removed,
        what was done is finished: the index is true. The error is raised in both cases.
        """
        self._make_moves()
        for path, page in (contents or {}).items():
            self._try(partial(self._write, path, page))
        for path, content in self.plan.removes.items():
            self._try(partial(self._remove, path, content))
        for path, rewrite in self.plan.rewrites.items():
            if path != self._index:
                self._adapt(path, rewrite)
        for old, new in self.plan.folders:
            self._empty(old, new)
        self._refresh_index()
        self._log(resumed=contents is None)
        plans.clear(self.root)
        if self._failures:
            raise self._failures[0]

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except StoreError as error:
            self._failures.append(error)

    def _rewrite(self, location: Location, change: Callable[[Document | None], Document]) -> Change:
        return files.rewrite(self.root, location, change, redactor=_LEAVES_ALL, **self._record)

    # -- pages --------------------------------------------------------------------------------------------------

    def _make_moves(self) -> None:
        made: list[tuple[str, str]] = []
        try:
            for old, new in self.plan.moves.items():
                if self._there(old):
                    self._move(old, new)
                    made.append((old, new))
                self.touched += [old, new]
        except StoreError:
            for old, new in reversed(made):
                self._move(new, old)
            plans.clear(self.root)
            raise

    def _move(self, old: str, new: str) -> None:
        files.move(self.root, self._place(old), self._place(new), **self._record)

    def _write(self, path: str, page: Document) -> None:
        def change(old: Document | None) -> Document:
            if old is not None and path not in self.plan.retitled:
                raise ConflictError(f"{path}: another program has just made this page; look at it first")
            return page

        self._rewrite(self._place(path), change)
        self.touched.append(path)

    def _remove(self, path: str, content: str) -> None:
        if self._there(path):
            files.remove(self.root, self._place(path), expect=content, **self._record)
            self.removed.append(path)
        self.touched.append(path)

    def _adapt(self, path: str, rewrite: Rewrite) -> None:
        """Adapt the links of one page; if that cannot be done, the page is named and the others go on."""

        def change(old: Document | None) -> Document:
            if old is None:
                raise MissingFileError(f"{path}: there is no such file")
            return replace(old, text=self._adapted(path, old, rewrite))

        try:
            done = self._rewrite(self._place(path), change)
        except MissingFileError:
            return
        except StoreError as error:
            self.notices.append((path, f"links could not be adapted: {error}"))
            return
        if done.entry is not None:
            self.touched.append(path)
            self.rewritten.append(path)

    def _adapted(self, path: str, page: Document, rewrite: Rewrite) -> str:
        if page.hash == rewrite.after:
            return page.text
        if page.hash == rewrite.before:
            return edited(page.text, rewrite.edits)
        # Somebody has changed the page since the plan was made.
        old = {new: old for old, new in self.plan.moves.items()}.get(path, path)
        return edited(page.text, link_edits(page.text, read_markup(page.text), old, self._moved))

    @cached_property
    def _moved(self) -> Move:
        after = Pages(file.path for file in self.reader.scan().files)
        back = {new: old for old, new in self.plan.moves.items()}
        return Move(self.plan.moves, after.moved(back), after)

    def _there(self, path: str) -> bool:
        return (self.root / path).is_file()

    def _place(self, path: str) -> Location:
        # The plan's own spelling: on a disk that ignores case, a look would bring back the old one.
        resolve(self.root, path)
        return Location(path, self.root / path)

    # -- folders, index and log ---------------------------------------------------------------------------------

    def _empty(self, old: str, new: str) -> None:
        """Take away what is empty below a folder, and make it below ``new`` if that is given."""
        kept = 0
        for folder, _, names in os.walk(self.root / old, topdown=False):
            kept += len(names)
            below = os.path.relpath(folder, self.root / old)
            try:
                os.rmdir(folder)  # noqa: PTH106 - os.walk gives texts
            except OSError:
                continue
            if new:
                (self.root / new / below).mkdir(parents=True, exist_ok=True)
        if kept:
            noun = "file that is no page stays" if kept == 1 else "files that are no pages stay"
            self.notices.append((f"{old}/", f"{old}: {kept} {noun} there"))

    @property
    def _index(self) -> str:
        return self.plan.home + INDEX

    def _refresh_index(self) -> None:
        shelf = shelf_of(self.reader, self.plan.home, self.reader.scan())
        shelf = replace(shelf, moves=self.plan.moves, removed=frozenset(self.plan.removes), retitled=self.plan.retitled)

        def change(old: Document | None) -> Document:
            page = old or Document("")
            adapting = self.plan.rewrites.get(self._index)
            text = self._adapted(self._index, page, adapting) if adapting and old else page.text
            return replace(page, text=revise(text, shelf))

        self._write_own(self._index, change)

    def _log(self, *, resumed: bool) -> None:
        told = self._told()
        if not told:
            return
        line = f"- {self.plan.at} {self.plan.verb} {told}\n"

        def change(old: Document | None) -> Document:
            if old is not None and resumed and line.strip() in old.text[-len(line) - 2 :]:
                return old
            return files.extended(old, line if old and old.text.strip() else _LOG_TITLE + line)

        self._write_own(self.plan.home + LOG, change)

    def _told(self) -> str:
        """What the log says of the operation, from what is really there."""
        if self.plan.what:
            return self.plan.what
        home = self.plan.home
        names = [f"{code(old, home)} → {code(new, home)}" for old, new in self.plan.moves.items()]
        names += [code(path, home) for path in self.plan.removes if not self._there(path)]
        names += [code(path, home) for path, content in self.plan.writes.items() if self._holds(path, content)]
        return named(names)

    def _holds(self, path: str, content: str) -> bool:
        try:
            return files.read_text(self._place(path)).hash == content
        except StoreError:
            return False

    def _write_own(self, path: str, change: Callable[[Document | None], Document]) -> None:
        def act() -> None:
            done = self._rewrite(resolve(self.root, path), change)
            if done.entry is not None:
                self.touched.append(path)

        self._try(act)


def shelf_of(reader: Reader, home: str, found: Scan) -> Shelf:
    """What the index of ``home`` has to show."""
    by_path = {file.path: file for file in found.files}
    listed = frozenset(path for path in by_path if path.startswith(home) and not keeps_itself(path))

    def title(path: str) -> str:
        with suppress(StoreError):
            return reader.markup(by_path[path]).title or stem(path)
        return stem(path)

    return Shelf(home, listed, title, Pages(by_path), reader.exists, found.unreadable)


def check_own(reader: Reader, home: str) -> None:
    """Raise UnreadableFileError or WriteError if index.md or log.md could not be rewritten, before anything is done."""
    for name in (INDEX, LOG):
        location = resolve(reader.layout.root, home + name)
        with suppress(MissingFileError):
            files.read_text(location)
            if not os.access(location.file, os.W_OK):
                raise WriteError(f"{location.path}: is write-protected; nothing was changed")


def code(path: str, home: str) -> str:
    """A path as Markdown code, so that it can neither be a link nor markup."""
    name = path.removeprefix(home)
    fence = "`"
    while fence in name:
        fence += "`"
    gap = " " if "`" in name else ""
    return f"{fence}{gap}{name}{gap}{fence}"


def named(names: Iterable[str]) -> str:
    """The first of some names, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - _MOST_NAMED} more" if len(every) > _MOST_NAMED else ""
    return ", ".join(every[:_MOST_NAMED]) + more
