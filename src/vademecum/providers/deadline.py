"""A limit on a whole call. Socket timeouts bound single steps, not their sum, and name look-up not at all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, work: Callable[[float], T]) -> T:
    """``work(expires)`` in a thread of its own; TimeoutError once ``seconds`` have passed.

    ``expires`` is the moment, on the monotonic clock, from which nobody waits for the result. ``work`` has to stop
    by itself soon after it, because a thread cannot be stopped from outside.
    """
    outcome: Future[T] = Future()
    expires = time.monotonic() + seconds

    def run() -> None:
        try:
            outcome.set_result(work(expires))
        except BaseException as error:  # carried over to the caller's thread
            outcome.set_exception(error)

    threading.Thread(target=run, name="vademecum-provider", daemon=True).start()
    return outcome.result(timeout=seconds)
