"""Single flight: many callers, one run at a time, and nobody gets a run that began before they asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from vademecum.errors import IndexUnavailableError

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Runs ``job`` in a thread of its own on request. Safe to share between threads.

    The thread ends when nothing is wanted, so an idle object holds none.
    """

    def __init__(self, name: str, job: Callable[[], T]) -> None:
        self._name = name
        self._job = job
        self._changed = threading.Condition()
        self._wanted = self._started = self._finished = 0
        self._thread: threading.Thread | None = None
        self._outcome: T | None = None
        self._error: BaseException | None = None
        self._closed = False

    def request(self) -> int:
        """Ask for a run that starts after this moment; returns its ticket."""
        with self._changed:
            self._wanted = self._started + 1
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
                self._thread.start()
            return self._wanted

    def wait(self, ticket: int, timeout: float | None = None) -> T | None:
        """The outcome of that run or a later one; None if it has not finished in ``timeout`` seconds.

        Raises what the run raised, and IndexUnavailableError when it will never run.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while self._finished < ticket and not self._closed:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return None
                self._changed.wait(left)
            if self._finished < ticket:
                raise IndexUnavailableError("the memory was closed meanwhile")
            if self._error is not None:
                raise self._error
            return self._outcome

    @property
    def busy(self) -> bool:
        """Whether a run is under way or wanted."""
        with self._changed:
            return self._finished < self._wanted

    def _loop(self) -> None:
        while True:
            with self._changed:
                if self._closed or self._started >= self._wanted:
                    self._thread = None
                    return
                self._started += 1
                run = self._started
            outcome: T | None = None
            error: BaseException | None = None
            try:
                outcome = self._job()
            except BaseException as raised:
                error = raised
            with self._changed:
                self._outcome, self._error, self._finished = outcome, error, run
                self._changed.notify_all()

    def close(self, timeout: float = 2.0) -> None:
        """Start no more runs and wait for the current one, but not for a provider that hangs."""
        with self._changed:
            self._closed = True
            thread = self._thread
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
