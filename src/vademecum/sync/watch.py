"""Watching one root: what changes is indexed a moment later, and what the system fails to tell is found as well."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from math import inf
from typing import Literal, TypeAlias

from vademecum.errors import VademecumError
from vademecum.settings import WatchSettings
from vademecum.store.places import Places
from vademecum.sync.changes import Changes
from vademecum.sync.flight import SingleFlight
from vademecum.types import SyncReport, WatchRound

Cause: TypeAlias = Literal["start", "change", "look", "vectors"]

#: Under constant change the folder is looked at after this many times the debounce.
MOST_DEBOUNCES = 10
#: Regular looks take at most one part in so many of a processor's time, however large the folder.
_IDLE_SHARE = 20
#: Pause after failures in a row: ``poll_s``, doubled each time, up to this.
_LONGEST_PAUSE_S = 300.0


class Watcher:
    """Has an index follow its folder. Safe to share between threads.

    ``read`` brings the text up to date and ``embed`` fetches vectors; both report. Neither is called twice at a time,
    and ``read`` never waits for ``embed``. ``elsewhere`` gives a text that changes with what is to be read and stands
    outside ``places``. ``tell`` gets what is worth telling, from threads of the watcher, and must not raise.
    """

    def __init__(
        self,
        places: Places,
        settings: WatchSettings,
        read: Callable[[], SyncReport],
        embed: Callable[[], SyncReport],
        elsewhere: Callable[[], str],
        tell: Callable[[WatchRound], None],
    ) -> None:
        self._settings = settings
        self._read = read
        self._embed = embed
        self._elsewhere = elsewhere
        self._seen_elsewhere = ""
        self._tell = tell
        self._wake = threading.Condition()
        self._first: float | None = None
        self._last = 0.0
        self._failures = 0
        self._cost_s = 0.0
        self._said: dict[str, tuple[object, ...]] = {"vectors": (None, (), ())}
        self._saying = threading.Lock()
        self._stopped = False
        self.changes = Changes(places, settings.heartbeat_s, self._note_change)
        self._vectors: SingleFlight[None] = SingleFlight("vademecum-watch-vectors", self._embed_round)
        self._thread = threading.Thread(target=self._run, name="vademecum-watch", daemon=True)
        self._thread.start()

    @property
    def notices(self) -> tuple[str, ...]:
        """What is to be said about watching, such as why it polls."""
        reason = self.changes.unreliable
        return () if reason is None else (f"{reason}; the folder is looked at every {self._settings.poll_s:g} s",)

    def close(self, timeout: float = 2.0) -> None:
        """Stop after the round at hand and release everything."""
        with self._wake:
            self._stopped = True
            self._wake.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)
        self._vectors.close(timeout)
        self.changes.close()

    def _note_change(self) -> None:
        with self._wake:
            self._last = time.monotonic()
            if self._first is None:
                # Only the first of many wakes the thread; it looks at the clock by itself then.
                self._first = self._last
                self._wake.notify_all()

    def _run(self) -> None:
        cause: Cause | None = "start"
        while cause is not None:
            self._round(cause)
            cause = self._wait()

    def _wait(self) -> Cause | None:
        """Until something is to be done, and what; None to stop."""
        settings, ended = self._settings, time.monotonic()
        debounce_s = settings.debounce_ms / 1000
        pause = 0.0
        if self._failures:
            pause = min(settings.poll_s * 2.0 ** (self._failures - 1), _LONGEST_PAUSE_S)
        period = settings.heartbeat_s if self.changes.unreliable is None else settings.poll_s
        look_at = ended + max(period, self._cost_s * _IDLE_SHARE, pause)
        while True:
            with self._wake:
                if self._stopped:
                    return None
                change_at = inf
                if self._first is not None:
                    due = min(self._last + debounce_s, self._first + debounce_s * MOST_DEBOUNCES)
                    change_at = max(due, ended + pause)
                now = time.monotonic()
                if now >= change_at:
                    return "change"
                if now >= look_at:
                    return "look"
                told = self._wake.wait(min(change_at, look_at, now + settings.poll_s) - now)
            if not told and self._look_elsewhere() != self._seen_elsewhere:
                self._note_change()

    def _look_elsewhere(self) -> str:
        try:
            return self._elsewhere()
        except Exception as failure:
            return _reason(failure)

    def _round(self, cause: Cause) -> None:
        began = time.monotonic()
        report, error = SyncReport(), None
        try:
            self.changes.prepare()
            with self._wake:
                self._first, before = None, self.changes.count
            elsewhere, self._seen_elsewhere = self._seen_elsewhere, self._look_elsewhere()
            report = self._read()
            if cause == "look" and elsewhere == self._seen_elsewhere and (report.chunks or report.removed):
                self.changes.lost(before)
            self._vectors.request()
        except Exception as failure:  # a watcher that dies unseen is worse than one that says what hit it
            error = _reason(failure)
        self._failures = 0 if error is None else self._failures + 1
        if error is not None:
            self._note_change()  # what was to be read still is
        elapsed_s = time.monotonic() - began
        if not report.chunks:
            self._cost_s = elapsed_s
        self._say(cause, report, elapsed_s, error)

    def _embed_round(self) -> None:
        began = time.monotonic()
        report, error = SyncReport(), None
        try:
            report = self._embed()
        except Exception as failure:
            error = _reason(failure)
        self._say("vectors", report, time.monotonic() - began, error)

    def _say(self, cause: Cause, report: SyncReport, elapsed_s: float, error: str | None) -> None:
        """Tell it, unless nothing was done and nothing is new."""
        what = "vectors" if cause == "vectors" else "text"
        about = () if cause == "vectors" else (self.changes.mode, self.notices)
        told = (error, report.failed, report.notices, *about)
        did = report.chunks or report.removed or report.embedded
        with self._saying:
            if not did and told == self._said.get(what):
                return
            self._said[what] = told
            self._tell(WatchRound(cause, self.changes.mode, report, elapsed_s * 1000, error, self.notices))


def _reason(failure: Exception) -> str:
    return str(failure) if isinstance(failure, VademecumError) else f"{type(failure).__name__}: {failure}"
