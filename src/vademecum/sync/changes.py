"""The changes of one root that the system tells of, counted, and how far that count can be relied upon."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from vademecum.store.ignore import IGNORE_FILE, Ignored, ignored
from vademecum.store.layout import Layout, is_hidden
from vademecum.store.mounts import Mounts
from vademecum.store.places import Places
from vademecum.store.transcripts import may_be_spoken
from vademecum.sync.notify import Notifier, notifier

#: A search waits this long at most for what the system has not told yet, and else looks for itself.
_FENCE_S = 0.05
#: The latest changes, by path. Where there are more, the folder is looked at.
_LATEST = 256
#: Changes that no event told, until events are no longer relied upon.
_MOST_LOST = 3
#: In a folder whose folders come and go all the time, the next round goes on.
_COVERINGS = 3


class Changes:
    """Counts changes of pages, of folders that may hold pages, and of the rules of what to ignore, in all ``places``.

    ``told`` is called after each, with the lock held. Safe to share between threads, but for ``prepare``.
    """

    def __init__(self, places: Places, retry_s: float, told: Callable[[], None]) -> None:
        self._places = places
        self._retry_s = retry_s
        self._told = told
        self._lock = threading.RLock()
        self._mounts = Mounts()
        self._notifier: Notifier | None = None
        self._rules: dict[str, tuple[Layout, Ignored]] = {}
        self._roots: dict[str, object] = {}
        self._covered = self._stale = False
        self._remounted = True
        self._silent: str | None = None
        self._lost = 0
        self._try_at = 0.0
        self._missing = ""
        self._latest: deque[str] = deque(maxlen=_LATEST)
        self.count = 0

    @property
    def mode(self) -> Literal["events", "polling"]:
        """ "events" where the system tells of changes, else "polling"."""
        return "polling" if self._notifier is None else "events"

    @property
    def unreliable(self) -> str | None:
        """Why one must look often all the same."""
        if self._missing:
            return self._missing
        if self._silent is not None:
            return f"{self._silent} does not tell of what others change"
        return "the system does not tell of all changes" if self._lost >= _MOST_LOST else None

    def certain(self) -> int | None:
        """The count, with all that has happened before this call; None if that cannot be known.

        Two equal numbers mean that no page came, went or changed between the calls, unless it was written under a
        second name (a hard link) outside the memory.
        """
        source = self._notifier
        if source is None or not source.exact:
            return None
        self._look_at_roots()
        if self.unreliable is not None or not source.fence(_FENCE_S):
            return None
        with self._lock:
            return self.count if self._covered else None

    def pages_since(self, count: int) -> frozenset[str] | None:
        """The pages that changed since there had been ``count`` changes; None if anything else may have."""
        with self._lock:
            if self.count - count > len(self._latest):
                return None
            latest = frozenset(self._latest[-number] for number in range(1, self.count - count + 1))
        return None if "" in latest else latest

    def prepare(self) -> None:
        """Have events where they can be had, for every folder. Raises StoreError when the root cannot be read."""
        self._look_at_roots()
        self._have_notifier()
        source = self._notifier
        if source is None or self._covered:
            return
        with self._lock:
            remounted, self._remounted = self._remounted, False
        if remounted:
            silent = (self._mounts.silent(Path(os.path.realpath(root))) for root in self._places.roots().values())
            self._silent = next(filter(None, silent), None)
            source.keep(set())  # another folder may stand under a path that is known
        try:
            for _ in range(_COVERINGS):
                if self._cover(source):
                    return
        except OSError as error:
            self._drop(f"no events of the file system: {error.strerror or error}")

    def lost(self, before: int) -> None:
        """Something changed that no event told, unless the count is past ``before`` by now. Begin anew with events."""
        source = self._notifier
        if source is None or (source.exact and not source.fence(1.0)):
            return
        with self._lock:
            if self.count != before:
                return
            self._lost += 1
        self._drop("")
        self._try_at = 0.0
        with self._lock:
            self._add("", folders=True)

    def close(self) -> None:
        """Release everything."""
        self._drop("")
        with self._lock:
            self._mounts.close()

    def _look_at_roots(self) -> None:
        """No event tells of a mount, or of a folder above a root that was exchanged."""
        roots = {name: _identity(folder) for name, folder in self._places.roots().items()}
        with self._lock:
            if self._mounts.changed() or roots != self._roots:
                self._remounted, self._roots = True, roots
                self._add("", folders=True)

    def _have_notifier(self) -> None:
        if self._notifier is not None and not self._notifier.alive():
            self._drop("")
        if self._notifier is None and time.monotonic() >= self._try_at:
            self._try_at = time.monotonic() + self._retry_s
            try:
                self._notifier = notifier(self._changed)
                self._missing = ""
            except ImportError:
                self._missing = "watchdog 7 is not installed (vademecum[watch] brings it)"
            except OSError as error:
                self._missing = f"no events of the file system: {error.strerror or error}"

    def _cover(self, source: Notifier) -> bool:
        """Watch every folder, each before it is listed, so that none slips in between."""
        with self._lock:
            self._stale = False
        entered: set[str] = set()

        def enter(folder: str) -> None:
            layout, inner = self._places.locate(folder)
            if not inner:
                self._rules[folder] = layout, ignored(layout.root)
            source.cover(folder, layout.root / inner)
            entered.add(folder)

        self._places.scan(enter)
        source.keep(entered)
        with self._lock:
            self._covered = not self._stale
            return self._covered

    def _drop(self, missing: str) -> None:
        with self._lock:
            source, self._notifier = self._notifier, None
            self._covered = False
            self._missing = missing
        if source is not None:
            with suppress(OSError):
                source.close()

    def _changed(self, path: str, folder: bool) -> None:
        root, _, inner = path.partition("/") if self._places.is_extra(path) else ("", "", path)
        if self._concerns(root, inner, folder):
            folders = folder or inner == IGNORE_FILE
            with self._lock:
                self._add("" if folders or inner[-3:].lower() != ".md" else path, folders=folders)

    def _add(self, page: str, *, folders: bool) -> None:
        self.count += 1
        self._latest.append(page)
        if folders:
            self._stale, self._covered = True, False
        self._told()

    def _concerns(self, root: str, path: str, folder: bool) -> bool:
        if path in ("", IGNORE_FILE) or root not in self._rules:
            return True
        layout, rules = self._rules[root]
        if folder:
            return layout.indexes(path) and not rules.folder(path)
        parent, _, name = path.rpartition("/")
        page = name[-3:].lower() == ".md" or may_be_spoken(name)
        return page and not is_hidden(name) and layout.indexes(parent) and not rules.hides(path)


def _identity(folder: Path) -> object:
    try:
        state = folder.stat()
    except OSError as error:
        return error.errno
    return state.st_dev, state.st_ino, state.st_mode
