"""A circuit breaker: who has just failed is left alone for a while, so that an outage does not slow every search."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from vademecum.errors import ProviderDownError, ProviderError, ProviderRefusedError

#: Pauses after one failure, two in a row, … the last one for all that follow.
_PAUSES_S = (30.0, 60.0, 120.0)


class Breaker:
    """Thread-safe. Closed at first; each failure opens it for a pause, after which one caller may try.

    A key, a quota or a model that was refused counts as a failure; a text that was refused does not.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failure: ProviderError | None = None
        self._failures = 0
        self._until = 0.0
        self._trying = False

    def admit(self) -> bool:
        """Whether the provider was well when last heard of (True) or this call is to find out (False).

        Raises ProviderDownError, with the last failure's words, for everybody else.
        """
        with self._lock:
            if self._failure is None:
                return True
            if self._clock() < self._until:
                raise ProviderDownError(f"{self._failure} (not asked again for a moment)")
            # Whoever tries says how it went; if that is never heard of, the next pause ends all the same.
            self._until, self._trying = self._clock() + self._pause(), True
            return False

    def failed(self, failure: ProviderError) -> None:
        """Leave the provider alone for a pause."""
        if isinstance(failure, ProviderRefusedError) and failure.about == "input":
            return
        with self._lock:
            if self._failure is None or self._trying:  # calls that were under way together fail together
                self._failures += 1
            self._failure, self._trying = failure, False
            self._until = self._clock() + self._pause()

    def worked(self) -> None:
        """The provider has just been heard of."""
        with self._lock:
            self._failure, self._failures, self._trying = None, 0, False

    def _pause(self) -> float:
        return _PAUSES_S[min(self._failures, len(_PAUSES_S)) - 1]
