"""Which names pages and categories may have, and where a named one is."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from unicodedata import category as kind_of
from unicodedata import normalize

from vademecum.errors import ConflictError, MissingFileError, PathError, UsageError
from vademecum.knowledge.targets import SUFFIX, fold
from vademecum.store.ignore import IGNORE_FILE
from vademecum.store.layout import INDEX, KNOWLEDGE, LOG, Layout
from vademecum.store.paths import Location, resolve
from vademecum.store.scan import belongs

_PROTECTED = (INDEX, LOG)
#: No name may hold these on some systems, or they mean something in a path.
_FORBIDDEN = frozenset('<>:"|?*\\')
#: Names of devices on Windows, with any suffix.
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))})
_DEEPEST = 12


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder of knowledge pages that is worked in; ``home`` is its path below the root, with "/" at its end.

    Paths are given relative to the folder, or to the root as search prints them.
    """

    layout: Layout
    home: str

    def any(self, path: str) -> Location:
        """A page that exists or not, index.md and log.md included. Raises PathError for paths out of the folder."""
        return self._at(self._below(path), path)

    def _at(self, below: str, path: str) -> Location:
        location = resolve(self.layout.root, self.home + below)
        if not location.path.startswith(self.home):
            raise PathError(f"{path!r}: leads to {location.path!r}, which is not in {self.home}")
        return location

    def page(self, path: str) -> Location:
        """A page that may be changed. Raises PathError also for index.md and log.md, in any letter case."""
        return self._changeable(self.any(path), path)

    def _changeable(self, location: Location, path: str) -> Location:
        if fold(location.path.removeprefix(self.home)) in _PROTECTED:
            raise PathError(f"{path!r}: {INDEX} and {LOG} of {self.home} are kept by the knowledge base itself")
        return location

    def known(self, paths: Iterable[str]) -> list[Location]:
        """Pages that exist, each once. Raises MissingFileError, and as for ``page``."""
        locations = {location.path: location for location in map(self.page, paths)}
        for location in locations.values():
            if not location.file.is_file():
                raise MissingFileError(f"{location.path}: there is no such page")
        return list(locations.values())

    def new(self, path: str, instead_of: Location | None = None) -> Location:
        """A page that is to be made, or to take the place of one that moves; its folders are spelled as on disk.

        Raises PathError for a name that not every system can hold or that would not be indexed, and ConflictError if
        another spelling of it is taken, because some systems cannot tell the two apart. A page of just this name may
        exist.
        """
        *folders, name = self._below(path).split("/")
        category = self._category(folders, path)
        _check_name(name, path)
        if not name.lower().endswith(SUFFIX):
            raise PathError(f"{path!r}: a page is a Markdown file, so its name must end with {SUFFIX}")
        location = self._changeable(self._at(joined(category, name), path), path)
        self._check_indexed(location.path, path)
        parent, _, found = location.path.rpartition("/")
        if instead_of is not None and instead_of.path == location.path:
            # The disk ignores case, or the name stays.
            return Location(f"{parent}/{name}", location.file.with_name(name))
        for other in self._names(parent):
            moving = instead_of is not None and instead_of.path == f"{parent}/{other}"
            if other != found and fold(other) == fold(found) and not moving:
                raise ConflictError(f"{location.path}: {other!r} is there, which many systems take for the same name")
        return location

    def category(self, name: str) -> str:
        """A category, which exists or not, in the spelling of the folders that do; "" and "/" are the folder itself.

        Raises PathError for a name that not every system can hold or that would not be indexed.
        """
        below = self._below("" if name == "/" else name).removesuffix("/")
        return self._category(below.split("/") if below else [], name)

    def _category(self, parts: list[str], name: str) -> str:
        if len(parts) > _DEEPEST:
            raise PathError(f"{name!r}: categories are at most {_DEEPEST} deep")
        category = ""
        for part in parts:
            _check_name(part, name)
            if part.lower().endswith(SUFFIX):
                raise PathError(f"{name!r}: a category is a folder, so its name must not end with {SUFFIX}")
            if not category and fold(part) == KNOWLEDGE:
                raise PathError(f"{name!r}: a category cannot be called {part!r} like the folder that it is in")
            category = joined(category, self._spelled(category, part))
        self._check_indexed(self._at(joined(category, f"page{SUFFIX}"), name).path, name)
        return category

    def existing_category(self, name: object) -> str:
        """A category that exists. Raises MissingFileError, UsageError for the folder itself, and PathError."""
        if not isinstance(name, str) or not name.strip("/"):
            raise UsageError(f"{name!r}: name a category or a page")
        page = self._at(joined(self._below(name.strip("/")), f"page{SUFFIX}"), name)
        category = page.path.removeprefix(self.home).rpartition("/")[0]
        if not category or not page.file.parent.is_dir():
            raise MissingFileError(f"{name!r}: there is no such category in {self.home}, and a page ends with {SUFFIX}")
        return category

    def _below(self, path: object) -> str:
        if not isinstance(path, str):
            raise UsageError(f"path {path!r:.80}: expected a text")
        below = normalize("NFC", path)
        if fold(f"{below}/").startswith(fold(self.home)):
            below = below[len(normalize("NFC", self.home)) :]
        if below.startswith("/"):
            raise PathError(f"{path!r}: give a path relative to {self.home}")
        return below

    def _check_indexed(self, path: str, given: str) -> None:
        if not belongs(self.layout, path):
            indexed = self.layout.indexes(path.rpartition("/")[0])
            why = f"{IGNORE_FILE} keeps it out" if indexed else "pages in such a folder are not indexed"
            raise PathError(f"{given!r}: {why}, so it would never be found")

    def _spelled(self, parent: str, name: str) -> str:
        """The name of a folder as it is on disk, in whatever letter case."""
        names = self._names(self.home + parent)
        return name if name in names else min((found for found in names if fold(found) == fold(name)), default=name)

    def _names(self, folder: str) -> list[str]:
        try:
            return os.listdir(self.layout.root / folder)  # noqa: PTH208 - a Path for each is slow
        except OSError:
            return []


def joined(category: str, name: str) -> str:
    """``name`` in ``category``, which may be ""."""
    return f"{category}/{name}" if category else name


def _check_name(name: str, whole: str) -> None:
    """Raise PathError for a name that some system cannot hold, or that would be hidden."""
    reason = None
    if not name.strip() or name in (".", ".."):
        reason = "has an empty part, '.' or '..'"
    elif name.startswith("."):
        reason = f"{name!r} is hidden"
    elif name != name.strip() or name.endswith("."):
        reason = f"{name!r} begins or ends with a blank, or ends with a dot"
    elif bad := next((char for char in name if char in _FORBIDDEN or kind_of(char) in ("Cc", "Cs", "Zl", "Zp")), None):
        reason = f"{name!r} holds {bad!r}"
    elif name.partition(".")[0].casefold() in _DEVICES:
        reason = f"{name!r} is the name of a device on Windows"
    if reason is not None:
        raise PathError(f"{whole!r}: {reason}; choose a name that every system can hold")
