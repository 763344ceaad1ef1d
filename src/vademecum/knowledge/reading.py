"""The pages of a memory, read and parsed; what was parsed once is remembered until the file is touched."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from vademecum.errors import MissingFileError, StoreError
from vademecum.knowledge.links import Web
from vademecum.knowledge.markup import Markup, read_markup
from vademecum.knowledge.targets import Pages
from vademecum.store.files import Document, read_text
from vademecum.store.layout import Layout, is_hidden
from vademecum.store.paths import Location
from vademecum.store.scan import FileStat, Scan, scan
from vademecum.types import Scope

#: A stamp that is younger than this many seconds may also be that of another content.
_SETTLE_S = 2.0
_NOTHING = Markup(None, (), (), (), (0,))


class ReadPage(NamedTuple):
    """A page and what stands in it."""

    path: str
    document: Document


@dataclass(frozen=True, slots=True)
class Found:
    """All pages, whoever owns them, and those that could not be read, with the reason."""

    scan: Scan
    markups: Mapping[str, Markup]
    notices: tuple[tuple[str, str], ...]


class Reader:
    """Reads the pages of one memory. Safe to share between threads."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._known: dict[str, tuple[str, Markup]] = {}

    def scan(self) -> Scan:
        """The pages that are there now."""
        return scan(self.layout)

    def exists(self, path: str) -> bool:
        """Whether there is any file or folder at a path relative to the root; links are not followed."""
        try:
            (self.layout.root / path).lstat()
        except (OSError, ValueError):
            return False
        return not any(is_hidden(part) for part in path.split("/"))

    def documents(self, found: Scan, notices: list[tuple[str, str]]) -> Iterator[ReadPage]:
        """The pages of a scan, one after the other; why one cannot be read is added to ``notices``."""
        for file in found.files:
            try:
                yield ReadPage(file.path, read_text(Location(file.path, self.layout.root / file.path)))
            except MissingFileError:
                continue
            except StoreError as error:
                notices.append((file.path, str(error)))

    def read(self, wanted: Callable[[str], bool]) -> Found:
        """All pages, those whose path is ``wanted`` parsed."""
        found = self.scan()
        markups: dict[str, Markup] = {}
        notices = list(found.notices)
        for file in found.files:
            if wanted(file.path):
                try:
                    markups[file.path] = self.markup(file)
                except MissingFileError:
                    continue
                except StoreError as error:
                    notices.append((file.path, str(error)))
        return Found(found, markups, tuple(notices))

    def markup(self, file: FileStat) -> Markup:
        """One page of a scan, parsed. Raises MissingFileError or UnreadableFileError."""
        stamp, markup = self._known.get(file.path, ("", _NOTHING))
        if stamp == file.stamp:
            return markup
        text = read_text(Location(file.path, self.layout.root / file.path)).text
        title_counts = self.layout.classify(file.path).kind == "knowledge"
        markup = read_markup(text) if title_counts or "[" in text else _NOTHING
        if _age(file.stamp) > _SETTLE_S:
            self._known[file.path] = (file.stamp, markup)
        return markup

    def web(self, scopes: tuple[Scope, ...]) -> tuple[Web, tuple[tuple[str, str], ...]]:
        """The links between all pages of some scopes, and what kept pages of theirs out of it."""

        def visible(path: str) -> bool:
            return self.layout.classify(path).scope in scopes

        found = self.read(visible)
        web = Web(self.layout, scopes, found.markups, Pages(found.markups), self.exists)
        return web, tuple((path, text) for path, text in found.notices if visible(path))

    def folders(self, home: str) -> list[str]:
        """The folders below ``home`` that may hold pages, relative to it, each after the one that it is in."""
        folders, number = [""], 0
        while number < len(folders):
            folder = folders[number]
            number += 1
            try:
                with os.scandir(self.layout.root / home / folder) as entries:
                    names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
            except OSError:
                continue
            paths = [f"{folder}/{name}" if folder else name for name in names if not is_hidden(name)]
            folders += [path for path in paths if self.layout.indexes(home + path)]
        return sorted(folders[1:])


def _age(stamp: str) -> float:
    """How long ago a file with this stamp was written, in seconds."""
    return time.time() - int(stamp.split(":")[2]) / 1e9
