"""A bar on standard error while a long sync runs; nothing when nobody watches."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from vademecum.ports import Progress

_WIDTH = 30
_REDRAW_S = 0.05


@contextmanager
def progress_bar() -> Iterator[Progress | None]:
    """A callback that draws, erased at the end; None unless standard error is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = _Bar(sys.stderr)
    try:
        yield bar
    finally:
        bar.erase()


class _Bar:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._stage = ""
        self._drawn_at = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if stage == self._stage and done < total and now - self._drawn_at < _REDRAW_S:
            return
        self._stage, self._drawn_at = stage, now
        filled = _WIDTH * done // total if total else _WIDTH
        self._write(f"\r{stage:<8}[{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{total}\x1b[K")

    def erase(self) -> None:
        self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
