"""Changing knowledge pages: each operation checks everything first, then becomes one plan that is carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Literal, TypeAlias

from vademecum.errors import ConflictError, UsageError
from vademecum.knowledge import plan as plans
from vademecum.knowledge.carrying_out import Carrier, check_own, code, named
from vademecum.knowledge.markup import read_markup
from vademecum.knowledge.names import Folder, joined
from vademecum.knowledge.plan import Plan
from vademecum.knowledge.planning import checked_text, imported, references_to, rewrites
from vademecum.knowledge.reading import Reader
from vademecum.knowledge.records import Changed
from vademecum.knowledge.targets import SUFFIX, fold, stem
from vademecum.store.files import Document, guarded, read_text
from vademecum.store.journal import new_batch
from vademecum.store.lock import root_lock
from vademecum.store.paths import Location
from vademecum.store.warnings import warnings_of
from vademecum.text.redact import Redactor
from vademecum.types import Origin, Scope

#: What to do with a file whose name is taken.
Existing: TypeAlias = Literal["skip", "overwrite", "rename"]
EXISTING: tuple[Existing, ...] = ("skip", "overwrite", "rename")


class Changes:
    """Operations on the pages below one folder. ``changed`` is told the paths whose content is another."""

    def __init__(
        self,
        reader: Reader,
        folder: Folder,
        scopes: tuple[Scope, ...],
        by: Origin,
        redactor: Redactor,
        clock: Callable[[], datetime],
        changed: Callable[[list[str]], None],
    ) -> None:
        self._reader = reader
        self._folder = folder
        self._layout = reader.layout
        self._scopes = scopes
        self._by = by
        self._redactor = redactor
        self._clock = clock
        self._changed = changed

    # -- operations ---------------------------------------------------------------------------------------------

    def create(self, path: str, text: str, *, overwrite: bool) -> Changed:
        with self._changing():
            location = self._folder.new(path)
            exists = location.file.exists()
            if exists and not overwrite:
                raise ConflictError(f"{location.path}: exists already; edit it, or say that it is to be overwritten")
            page = (location, checked_text(location.path, text))
            return self._write("replace" if exists else "create", [page], self._by)

    def import_files(self, category: str, files: Iterable[tuple[str, bytes | str]], existing: Existing) -> Changed:
        if existing not in EXISTING:
            raise UsageError(f"existing = {existing!r}: expected one of {', '.join(EXISTING)}")
        ready = imported(files)
        with self._changing():
            folder = self._folder.category(category)
            pages: dict[str, tuple[Location, str]] = {}
            skipped = []
            for name, text in ready:
                location = self._free(folder, name, existing, pages)
                if location is None:
                    skipped.append(f"{self._folder.home}{joined(folder, name)}")
                elif fold(location.path) in pages:
                    raise UsageError(f"{name!r}: two of the files would become one page; nothing was imported")
                else:
                    pages[fold(location.path)] = (location, text)
            if not pages:
                return Changed(skipped=tuple(skipped))
            return self._write("import", list(pages.values()), "import", skipped=tuple(skipped))

    def _free(self, folder: str, name: str, existing: Existing, taken: Mapping[str, object]) -> Location | None:
        """Where an imported file goes; None if it is left out."""
        path, number = joined(folder, name), 1
        while True:
            try:
                location = self._folder.new(path)
                if existing == "overwrite" or not (location.file.exists() or fold(location.path) in taken):
                    return location
            except ConflictError:
                if existing == "overwrite":
                    raise
            if existing == "skip":
                return None
            number += 1
            path = f"{joined(folder, name)[: -len(SUFFIX)]}-{number}{SUFFIX}"

    def create_category(self, name: str) -> Changed:
        with self._changing():
            category = self._folder.category(name)
            folder = self._layout.root / self._folder.home / category
            if folder.exists():
                raise ConflictError(f"{self._folder.home}{category}: exists already")
            folder.mkdir(parents=True)
            return self._carry_out(self._plan("create", what=f"category {code(category, '')}"))

    def move(self, paths: str | Iterable[str], category: str) -> Changed:
        with self._changing():
            folder = self._folder.category(category)
            moves = {}
            for old in self._folder.known(_names(paths)):
                name = joined(folder, old.path.rpartition("/")[2])
                moves[old.path] = self._folder.new(name, instead_of=old)
            return self._move("move", moves)

    def rename(self, path: str, new: str) -> Changed:
        with self._changing():
            name = new.removeprefix("/") if "/" in new else ""
            if not path.lower().endswith(SUFFIX):
                return self._rename_category(self._folder.existing_category(path), name, new)
            (old,) = self._folder.known([path])
            folder = old.path.removeprefix(self._folder.home).rpartition("/")[0]
            return self._move("rename", {old.path: self._folder.new(name or joined(folder, new), instead_of=old)})

    def _rename_category(self, old: str, name: str, new: str) -> Changed:
        target = self._folder.category(name or joined(old.rpartition("/")[0], new))
        if not target or f"{fold(target)}/".startswith(f"{fold(old)}/"):
            raise UsageError(f"{old!r} cannot become {new!r}: a category cannot go into itself")
        home = self._folder.home
        if (self._layout.root / home / target).exists():
            raise ConflictError(f"{home}{target}: exists already; move the pages into it instead")
        what = f"category {code(old, '')} → {code(target, '')}"
        # A target's name may be one that only pages of other programs have, so it is not checked page by page.
        pages = (file.path for file in self._reader.scan().files if file.path.startswith(f"{home}{old}/"))
        new_paths = {page: f"{home}{target}{page.removeprefix(home + old)}" for page in pages}
        moves = {page: Location(path, self._layout.root / path) for page, path in new_paths.items()}
        return self._move("rename", moves, what=what, folders=((home + old, home + target),))

    def delete(self, paths: str | Iterable[str], *, recursive: bool) -> Changed:
        with self._changing():
            names, home = _names(paths), self._folder.home
            pages = self._folder.known(name for name in names if name.lower().endswith(SUFFIX))
            others = (name for name in names if not name.lower().endswith(SUFFIX))
            folders = [home + self._folder.existing_category(name) for name in others]
            every = [file.path for file in self._reader.scan().files]
            inside = [path for path in every if any(path.startswith(f"{folder}/") for folder in folders)]
            if inside and not recursive:
                raise ConflictError(f"{len(inside)} pages are in it, {inside[0]} is one; delete it recursively")
            doomed = dict.fromkeys((*(page.path for page in pages), *inside))
            removes = {path: read_text(Location(path, self._layout.root / path)).hash for path in doomed}
            broken = tuple(found for found in references_to(self._reader, removes) if self._visible(found.page))
            told = [f"category {code(folder, home)}" for folder in folders] + [code(page.path, home) for page in pages]
            ends = tuple((folder, "") for folder in folders)
            return self._carry_out(self._plan("delete", what=named(told), removes=removes, folders=ends), broken=broken)

    def fix_index(self, true: Callable[[], bool], batch: int | None = None) -> None:
        """Bring the index up to the pages, unless it is ``true``; the log tells of it unless it is part of a batch."""
        with self._changing():
            if not true():
                given: dict[str, Any] = {"what": "brought up to the pages"} if batch is None else {"batch": batch}
                self._carry_out(self._plan("index", **given))

    # -- plans --------------------------------------------------------------------------------------------------

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """The root's lock, after what was begun and not finished has been, and if index and log can be written."""
        with root_lock(self._layout.root):
            self._finish()
            check_own(self._reader, self._folder.home)
            yield

    def finish(self, timeout: float) -> None:
        """Finish what was begun by a process that is gone. Raises LockTimeoutError while one is at work."""
        if plans.pending(self._layout.root):
            with root_lock(self._layout.root, timeout):
                self._finish()

    def _finish(self) -> None:
        if plans.pending(self._layout.root):
            self._run(Carrier(self._reader, plans.load(self._layout.root)), None)

    def _run(self, carrier: Carrier, contents: Mapping[str, Document] | None) -> None:
        try:
            carrier.run(contents)
        finally:
            self._changed(list(dict.fromkeys(carrier.touched)))

    def _plan(self, verb: str, by: Origin | None = None, **given: Any) -> Plan:
        given = {"at": self._clock().strftime("%Y-%m-%d %H:%M"), "batch": new_batch(), "by": by or self._by, **given}
        return Plan(self._folder.home, verb, **given)

    def _write(
        self, verb: str, pages: list[tuple[Location, str]], by: Origin, skipped: tuple[str, ...] = ()
    ) -> Changed:
        contents: dict[str, Document] = {}
        former: dict[str, str] = {}
        notices: list[str] = []
        for location, text in pages:
            old = read_text(location) if location.file.exists() else None
            page = Document(text)
            if old is not None:
                former[location.path] = read_markup(old.text).title or stem(location.path)
                page = Document(text.replace("\n", old.newline), old.bom, old.newline)
            # What is planned must be what will be written, or nobody could tell later whether it was.
            change = guarded(old, page, self._redactor, by)
            notices += warnings_of(location.path, change)
            contents[location.path] = change.after or page
        writes = {path: page.hash for path, page in contents.items()}
        plan = self._plan(verb, by, writes=writes, retitled=former)
        return self._carry_out(plan, contents, skipped=skipped, notices=tuple(notices))

    def _move(self, verb: str, targets: Mapping[str, Location], **given: Any) -> Changed:
        moves = {old: new.path for old, new in targets.items() if old != new.path}
        taken = [path for old, path in moves.items() if targets[old].file.exists() and fold(path) != fold(old)]
        if taken or len(set(map(fold, moves.values()))) < len(moves):
            path = taken[0] if taken else "two of the pages"
            raise ConflictError(f"{path}: such a page exists already, or would exist twice; nothing was moved")
        if not moves and "folders" not in given:
            return Changed()
        changes, notices = rewrites(self._reader, moves)
        told = tuple(text for path, text in notices if self._visible(path))
        return self._carry_out(self._plan(verb, moves=moves, rewrites=changes, **given), notices=told)

    def _carry_out(self, plan: Plan, contents: Mapping[str, Document] | None = None, **given: Any) -> Changed:
        plans.save(self._layout.root, plan)
        carrier = Carrier(self._reader, plan)
        self._run(carrier, contents or {})
        notices = (*given.pop("notices", ()), *(text for path, text in carrier.notices if self._visible(path)))
        return Changed(
            pages=(*plan.writes, *plan.moves.values()),
            removed=(*plan.moves, *plan.removes),
            rewritten=tuple(filter(self._visible, carrier.rewritten)),
            notices=notices,
            **given,
        )

    def _visible(self, path: str) -> bool:
        return self._layout.classify(path).scope in self._scopes


def _names(paths: str | Iterable[str]) -> list[str]:
    names = [paths] if isinstance(paths, str) else list(paths)
    if not names or not all(isinstance(name, str) for name in names):
        raise UsageError("name at least one page")
    return names
