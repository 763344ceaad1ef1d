"""Where things are in a memory folder, and what a path says about its content. Pure but for ``detect``."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal, TypeAlias

from vademecum.errors import UsageError
from vademecum.settings import LayoutName
from vademecum.types import SHARED, Kind, Scope, Viewer

LONG_TERM = "MEMORY.md"
KNOWLEDGE = "knowledge"
#: In the folder of knowledge pages: a list of all of them, and what was done to them.
INDEX, LOG = "index.md", "log.md"
#: In front of the name of an extra folder, as the first part of its pages' paths.
EXTRA = "@"

_ID = re.compile(r"[A-Za-z0-9_@+-][A-Za-z0-9._@+-]{0,127}")
_DATED = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?![0-9])")
_SCOPE_FOLDERS = {"users": "user", "agents": "agent"}
#: Diaries of the dream and evolution jobs: kept, never indexed, since what they found stands in MEMORY.md.
DIARIES = frozenset({"dreams", "evolution"})
FOREIGN = frozenset({"node_modules", "venv"})

Shape: TypeAlias = Literal["workspace", "flat"]


@dataclass(frozen=True, slots=True)
class Place:
    """What a path says: whose document it is, of which kind, and the ISO day from which it fades, if any."""

    scope: Scope
    kind: Kind
    date: str | None


@dataclass(frozen=True, slots=True)
class Layout:
    """A root and how it is arranged. ``root`` is a real path; all paths given out are relative to it, with "/".

    ``workspace`` keeps dailies and private folders under ``memory/``; ``flat`` keeps them at the root. That is where
    new files go. Whose a file is never depends on it: see ``scope_of``.
    """

    root: Path
    name: Shape

    @property
    def base(self) -> str:
        """Prefix of dailies, diaries and private folders: "memory/" or ""."""
        return "memory/" if self.name == "workspace" else ""

    def long_term(self, scope: Scope = SHARED) -> str:
        """Path of the scope's MEMORY.md."""
        return LONG_TERM if scope == SHARED else f"{self._private(scope)}{LONG_TERM}"

    def daily(self, day: date, scope: Scope = SHARED) -> str:
        """Path of the scope's log of ``day``."""
        return f"{self.base if scope == SHARED else self._private(scope)}{day.isoformat()}.md"

    def knowledge(self, scope: Scope = SHARED) -> str:
        """The folder of the scope's knowledge pages, with a "/" at its end."""
        return f"{'' if scope == SHARED else self._private(scope)}{KNOWLEDGE}/"

    def diary(self, day: date, scope: Scope = SHARED) -> str:
        """Path of the scope's dream diary of ``day``, which is not indexed."""
        return f"{self.base if scope == SHARED else self._private(scope)}dreams/{day.isoformat()}.md"

    def owners(self) -> tuple[Viewer, ...]:
        """The users and agents who have a folder of their own here, in order of their ids."""
        found: list[Viewer] = []
        for folder, kind in _SCOPE_FOLDERS.items():
            try:
                with os.scandir(self.root / self.base / folder) as entries:
                    ids = sorted(entry.name for entry in entries if entry.is_dir() and _ID.fullmatch(entry.name))
            except OSError:
                continue
            found += [Viewer(**{kind: name}) for name in ids]
        return tuple(found)

    def alias(self, target: str, viewer: Viewer, today: date) -> str:
        """``long_term`` and ``daily`` become the viewer's own file; any other target is returned as it is.

        Raises UsageError when an id of the viewer is not valid.
        """
        if target == "long_term":
            return self.long_term(home(viewer))
        if target == "daily":
            return self.daily(today, home(viewer))
        return target

    def classify(self, path: str) -> Place:
        """Scope, kind and date of a path relative to the root. Every path has a place; this never raises.

        Scope and kind are the same in every layout.
        """
        scope, rest = _owner(path)
        if rest[0] == KNOWLEDGE and len(rest) > 1:
            return Place(scope, "knowledge", None)
        day = leading_date(rest[-1])
        return Place(scope, "memory" if day is None else "daily", day)

    def indexes(self, folder: str) -> bool:
        """Whether the pages of a folder (relative, "" for the root) are part of the memory, judged by its path."""
        if any(part in FOREIGN or is_hidden(part) for part in folder.split("/")):
            return False
        scope, rest = _owner(folder)
        if scope != SHARED:
            return rest[0] not in DIARIES
        return not folder.startswith(self.base) or folder.removeprefix(self.base).split("/")[0] not in DIARIES

    def _private(self, scope: Scope) -> str:
        kind, _, owner = scope.partition(":")
        folder = next((name for name, known in _SCOPE_FOLDERS.items() if known == kind), None)
        if folder is None:
            raise UsageError(f'scope {scope!r}: expected "shared", "user:<id>" or "agent:<id>"')
        return f"{self.base}{folder}/{valid_id(owner)}/"


def detect(root: Path, setting: LayoutName = "auto") -> Layout:
    """The layout of a folder. ``auto``: a ``memory`` folder means workspace, otherwise dated files or somebody's
    private MEMORY.md at the root mean flat.

    A folder that has none of them, or cannot be looked into, is a workspace.
    """
    real = Path(os.path.realpath(root))
    if setting != "auto":
        return Layout(real, setting)
    try:
        if (real / "memory").is_dir():
            return Layout(real, "workspace")
        flat = any(_is_flat(entry) for entry in real.iterdir())
    except OSError:
        flat = False
    return Layout(real, "flat" if flat else "workspace")


def _is_flat(entry: Path) -> bool:
    """Whether an entry of the root shows that dailies and private folders are kept there."""
    if entry.name.casefold() in _SCOPE_FOLDERS:
        return any(entry.glob(f"*/{LONG_TERM}"))
    return leading_date(entry.name) is not None and entry.name.lower().endswith(".md")


def scope_of(path: str) -> Scope:
    """Whose a path relative to a root is, by its spelling alone.

    ``users/<id>/`` and ``agents/<id>/`` are private, at the root and under ``memory/``, in every layout and in any
    letter case: neither a file that comes or goes, a wrong setting, nor a file system that does not tell "Users"
    from "users" may publish them. Deeper down they are ordinary folders. Files of an owner whose id is not valid
    stay private to that id, so that nobody sees them by accident. In an extra folder the rules are the same.
    """
    return _owner(path)[0]


def knowledge_of(path: str) -> str:
    """The folder of the knowledge pages of whoever owns a path, with a "/" at its end."""
    below = "/".join(_owner(path)[1])
    return f"{path[: len(path) - len(below)]}{KNOWLEDGE}/"


def keeps_itself(path: str) -> bool:
    """Whether a page is the index or the log of a folder of knowledge pages, which follow from those pages."""
    home = knowledge_of(path)
    return path.casefold() in (f"{home}{INDEX}".casefold(), f"{home}{LOG}".casefold())


def _owner(path: str) -> tuple[Scope, list[str]]:
    """The scope, and the parts of the path below what says so."""
    parts = path.split("/")
    if parts[0].startswith(EXTRA) and len(parts) > 1:
        parts = parts[1:]
    folded = [part.casefold() for part in parts[:2]]
    depth = 1 if folded[0] == "memory" else 0
    if len(parts) > depth + 2 and folded[depth] in _SCOPE_FOLDERS:
        return f"{_SCOPE_FOLDERS[folded[depth]]}:{parts[depth + 1]}", parts[depth + 2 :]
    return SHARED, parts


def home(viewer: Viewer) -> Scope:
    """The scope that a viewer writes to: its user's, else its agent's, else the shared one."""
    return viewer.scopes[1] if len(viewer.scopes) > 1 else SHARED


def valid_id(owner: object) -> str:
    """The id itself, or UsageError. Ids become folder names, so only harmless ASCII is allowed."""
    if not isinstance(owner, str) or not _ID.fullmatch(owner):
        raise UsageError(f"id {owner!r}: expected 1 to 128 of the characters A-Z a-z 0-9 . _ @ + - and no dot in front")
    return owner


def leading_date(name: str) -> str | None:
    """The ISO day that a file name starts with; None when there is none or the calendar does not have it."""
    match = _DATED.match(name)
    if match is None:
        return None
    try:
        return date.fromisoformat(match[1]).isoformat()
    except ValueError:
        return None


def is_hidden(name: str) -> bool:
    """Dot files and dot folders. ``..notes.md`` is an ordinary name that happens to start with two dots."""
    return name[:1] == "." and name[:2] != ".."
