"""Watching in tests: what was told, and patience that ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from memories import PATIENT
from vademecum import Settings
from vademecum.settings import EmbeddingSettings, WatchSettings
from vademecum.types import WatchRound

#: Much longer than anything takes on a busy machine; only a test that fails waits for it.
PATIENCE_S = 30.0

#: Nothing but events can make these watchers look: the next regular look is tomorrow.
BY_EVENTS = WatchSettings(debounce_ms=20, heartbeat_s=86_400, poll_s=86_400)
#: These look all the time.
BY_LOOKING = WatchSettings(debounce_ms=20, heartbeat_s=0.05, poll_s=0.05)


def settings(watch: WatchSettings = BY_EVENTS) -> Settings:
    return Settings(embedding=EmbeddingSettings(provider="none"), search=PATIENT.search, watch=watch)


def until(happened: Callable[[], object]) -> None:
    """Wait until ``happened`` is true."""
    end = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


class Told:
    """What a watcher told, in order."""

    def __init__(self) -> None:
        self.rounds: list[WatchRound] = []

    def __call__(self, news: WatchRound) -> None:
        self.rounds.append(news)

    @property
    def causes(self) -> list[str]:
        return [news.cause for news in self.rounds]

    def started(self) -> None:
        until(lambda: self.rounds)


def descriptors() -> int:
    """How many files this process has open, but for databases, whose connections are kept for the next reader."""
    links: list[str] = []
    for file in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            links.append(str(file.readlink()))
    return sum(1 for link in links if ".sqlite" not in link and not link.endswith(".md"))
