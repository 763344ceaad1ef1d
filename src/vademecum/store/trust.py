"""On whose behalf the lines of a page were written, for those who are about to believe them."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from vademecum.errors import StoreError
from vademecum.store.disk import stamp
from vademecum.store.files import read_text
from vademecum.store.journal import Journal
from vademecum.store.origins import PERSON, UNKNOWN, least_trusted, line_key
from vademecum.store.paths import resolve
from vademecum.text.markdown import split_lines
from vademecum.types import Excerpt, Hit, Origin

#: Seconds after which an equal stamp proves an equal file: no file system has coarser clocks than this.
_SETTLE_S = 2.0


class Trust:
    """The origins of one root's lines. What the journal does not know was written by a person.

    Safe to share between threads. What was read of the journal is kept for as long as its file stays the same.
    """

    def __init__(self, root: Path) -> None:
        """Does not touch the disk."""
        self._root = root
        self._lock = threading.Lock()
        self._stamp = ""
        self._known: dict[str, Mapping[bytes, Origin]] = {}

    def lines(self, path: str) -> tuple[Origin, ...]:
        """The origin of each line of a page, in order.

        Raises StoreError when page or journal cannot be read, and PathError.
        """
        location = resolve(self._root, path)
        known = self._origins({location.path})[location.path]
        return tuple(known.get(line_key(line), PERSON) for line in split_lines(read_text(location).text))

    def hits(self, hits: Sequence[Hit]) -> tuple[Hit, ...]:
        """The hits, each with the least trusted origin of its lines.

        What stands in a conversation is as little trusted as what was imported. Raises StoreError when the journal
        cannot be read.
        """
        known = self._origins({hit.path for hit in hits})
        told = [(hit, self._origin(hit, known[hit.path])) for hit in hits]
        return tuple(hit if origin == hit.origin else replace(hit, origin=origin) for hit, origin in told)

    def excerpt(self, excerpt: Excerpt) -> Excerpt:
        """The excerpt with the least trusted origin of its lines; what cannot be told is not trusted."""
        try:
            known = self._origins({excerpt.path})[excerpt.path]
        except StoreError:
            return replace(excerpt, origin=UNKNOWN)
        return replace(excerpt, origin=_least_trusted(known, excerpt.text))

    def _origin(self, hit: Hit, known: Mapping[bytes, Origin]) -> Origin:
        if hit.kind == "session" or not known:
            return UNKNOWN if hit.kind == "session" else PERSON
        # A chunk may begin or end within a line; who wrote it is known of whole lines only.
        text = hit.text
        with suppress(StoreError):  # the page may be gone since the search
            lines = split_lines(read_text(resolve(self._root, hit.path)).text)[hit.start_line - 1 : hit.end_line]
            text += "\n" + "".join(lines)
        return _least_trusted(known, text)

    def _origins(self, paths: Set[str]) -> Mapping[str, Mapping[bytes, Origin]]:
        with Journal(self._root) as journal:
            state = journal.state()
            if state is None:
                return {path: {} for path in paths}
            now = stamp(state)
            with self._lock:
                if now != self._stamp:
                    self._stamp, self._known = now, {}
                known = {path: self._known[path] for path in paths & self._known.keys()}
            read = {path: journal.origins(path) for path in paths - known.keys()}
        # A file that has just been written may be written again within the same tick of its clock.
        if time.time() - state.st_mtime > _SETTLE_S:
            with self._lock:
                if self._stamp == now:
                    self._known.update(read)
        return known | read


def _least_trusted(known: Mapping[bytes, Origin], text: str) -> Origin:
    return least_trusted(known.get(line_key(line), PERSON) for line in split_lines(text))
