"""All folders whose pages a memory finds: its own, and extra ones that it reads and never writes.

The pages of an extra folder are known as ``@<name>/<path>``. Whose a page is depends on the path below the name, as in
the memory itself, so that another memory can be read without publishing what is private in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from vademecum.errors import PathError, StoreError
from vademecum.store.layout import EXTRA, Layout, Place, detect
from vademecum.store.scan import FileStat, Page, Scan, absent, belongs, load, scan


@dataclass(frozen=True, slots=True)
class _Opened:
    """An extra folder at this moment: its layout, or why its pages are not used, or why they cannot be looked at."""

    layout: Layout | None = None
    refused: str = ""
    unreadable: str = ""


class Places:
    """A memory's own folder and its extra ones. Safe to share between threads."""

    def __init__(self, layout: Layout, extras: Mapping[str, Path] | None = None, *, spoken: bool = False) -> None:
        """``extras``: folders by name, absolute. One that is not there now may come later. ``spoken``: files with
        conversations are found, too.
        """
        self._own = layout
        self._spoken = spoken
        self._extras = {f"{EXTRA}{name}": folder for name, folder in (extras or {}).items()}
        self._layouts: dict[Path, Layout] = {}
        self._opened: dict[str, _Opened] = {}

    def scan(self, entering: Callable[[str], None] | None = None) -> Scan:
        """Every page of all folders; reads no page. ``entering`` is told of each folder, see ``store.scan.scan``.

        Raises StoreError when the memory's own folder cannot be scanned. What is wrong with an extra one is a notice;
        while it is missing, unreadable or without any page, as a disk that is not mounted is, its pages count as
        unreadable and not as deleted.
        """
        found = scan(self._own, entering, spoken=self._spoken)
        if not self._extras:
            return found
        opened = self._opened = self._open()
        taken = {str(place.layout.root) for place in opened.values() if place.layout} | {str(self._own.root)}
        parts = [
            found,
            *(_scan(name, place, frozenset(taken), entering, self._spoken) for name, place in opened.items()),
        ]
        return Scan(
            tuple(sorted(file for part in parts for file in part.files)),
            tuple(sorted(notice for part in parts for notice in part.notices)),
            tuple(sorted(gap for part in parts for gap in part.unreadable)),
            any(part.linked for part in parts),
            tuple(folder for part in parts for folder in part.folders),
        )

    def roots(self) -> Mapping[str, Path]:
        """The folders by the first part of their pages' paths: "@name" for an extra one, "" for the memory's own."""
        return {"": self._own.root, **self._extras}

    def glance(self, found: Scan) -> bytes | None:
        """Equal bytes, equal scans: a quick look at the folders of a scan. None if it left anything out."""
        from vademecum import kernels

        if found.unreadable:
            return None
        seen = kernels.glance(b"".join(os.fsencode(folder) + b"\0" for folder in found.folders))
        if seen is None or not self._extras:
            return seen
        leads = [(name, os.path.realpath(folder), self._shadows(name)) for name, folder in self._extras.items()]
        return seen + os.fsencode(repr(leads))

    def load(self, file: FileStat, now: float) -> Page:
        """See ``store.scan.load``."""
        layout, inner = self.locate(file.path)
        return load(layout, file._replace(path=inner), now, file.path.removesuffix(inner))

    def classify(self, path: str) -> Place:
        """What a path of an index says about its page. Raises like `locate`."""
        layout, inner = self.locate(path)
        return layout.classify(inner)

    def absent(self, path: str) -> bool:
        """See ``store.scan.absent``; pages of an extra folder that is no longer used are absent too."""
        try:
            return absent(*self.locate(path))
        except PathError:
            return True
        except StoreError:
            return False

    def gone(self, path: str) -> bool:
        """Whether a page that the index knows is certainly not there any more."""
        try:
            layout, inner = self.locate(path)
            os.lstat(f"{layout.root}{os.sep}{inner}")
        except (FileNotFoundError, NotADirectoryError):
            return True
        except (OSError, StoreError):
            return False
        return False

    def belongs(self, path: str) -> bool:
        """See ``store.scan.belongs``."""
        return belongs(*self.locate(path))

    def locate(self, path: str) -> tuple[Layout, str]:
        """The folder that a path of an index names, and the path in it.

        Raises PathError for an extra folder that may not be used, and StoreError for one that cannot be looked at.
        """
        if not self.is_extra(path):
            return self._own, path
        name, _, inner = path.partition("/")
        place = self._opened.get(name, _Opened())
        if place.layout is None:
            place = self._open()[name]
        if place.layout is None:
            raise (PathError if place.refused else StoreError)(place.refused or place.unreadable)
        return place.layout, inner

    def is_extra(self, path: object) -> bool:
        """Whether a path, whoever gave it, names an extra folder or something in it, which is only read."""
        if not isinstance(path, str):
            return False
        name = path.partition("/")[0]
        return name in self._extras and not self._shadows(name)

    def _shadows(self, name: str) -> bool:
        """Whether the memory itself has something of this name, which then counts."""
        return os.path.lexists(self._own.root / name)

    def _open(self) -> dict[str, _Opened]:
        opened: dict[str, _Opened] = {}
        for name, folder in self._extras.items():
            known = [place.layout.root for place in opened.values() if place.layout is not None]
            opened[name] = self._look_at(name, folder, known)
        return opened

    def _look_at(self, name: str, folder: Path, known: Iterable[Path]) -> _Opened:
        # Anew each time: a link may lead elsewhere now, and a disk may have been mounted.
        real = Path(os.path.realpath(folder))
        way_out = "; take it out of the setting roots"
        if self._shadows(name):
            return _Opened(refused=f"{name}: the memory has a folder of this name; name the extra one NAME={folder}")
        if real.is_relative_to(self._own.root):
            return _Opened(refused=f"{name}: {folder} is part of the memory itself{way_out}")
        if real in known:
            return _Opened(refused=f"{name}: {folder} is there under another name already{way_out}")
        try:
            with os.scandir(real):
                pass
        except OSError as error:
            return _Opened(unreadable=f"{name}: {folder} cannot be read: {error.strerror}; what is known of it is kept")
        if real not in self._layouts:
            self._layouts[real] = detect(real)
        return _Opened(self._layouts[real])


def _scan(
    name: str, place: _Opened, taken: frozenset[str], entering: Callable[[str], None] | None, spoken: bool
) -> Scan:
    if place.layout is None:
        notice = (name, place.refused or place.unreadable)
        return Scan((), (notice,), () if place.refused else (name,))

    def enter(folder: str) -> None:
        if entering is not None:
            entering(f"{name}/{folder}" if folder else name)

    try:
        found = scan(place.layout, enter, taken, spoken)
    except StoreError as error:
        return Scan((), ((name, f"{name}: {error}; what is known of it is kept"),), (name,))
    prefix = f"{name}/"
    files = tuple(file._replace(path=prefix + file.path) for file in found.files)
    notices = tuple((prefix + path, prefix + text) for path, text in found.notices)
    gaps = tuple(prefix + path for path in found.unreadable)
    if not files:
        empty = f"{name}: {place.layout.root} holds no page, as if it were not mounted; what is known of it is kept"
        notices, gaps = (*notices, (name, empty)), (name,)
    return Scan(files, notices, gaps, found.linked, found.folders)
