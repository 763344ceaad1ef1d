"""When it is time to flush: before a conversation's context is compacted, and once for each compaction."""

from __future__ import annotations

import threading

#: Tokens that the answer and what compaction itself adds may take.
RESERVE_TOKENS = 33_000
#: The window of a model that does not tell its own.
FALLBACK_WINDOW = 128_000


def should_flush(tokens: int, window: int | None = None, *, reserve: int = RESERVE_TOKENS) -> bool:
    """Whether a context of ``tokens`` comes so close to its ``window`` that it will be compacted soon.

    It does above ``window - reserve``, or above half of a window that is smaller than twice the reserve.
    """
    size = FALLBACK_WINDOW if window is None or window <= 0 else window
    return tokens > max(size - reserve, size // 2)


class FlushTrigger:
    """Asks for one flush for each compaction of one conversation. Safe to share between threads.

    ``due`` is true from the moment the context is nearly full until ``flushed`` is called, and again after
    ``compacted``. Compacting without a flush before it, as after an overflow, leaves ``owed`` at more than 0: call
    flush with the original messages then, too.
    """

    def __init__(self, window: int | None = None, *, reserve: int = RESERVE_TOKENS) -> None:
        """``window`` and ``reserve`` in tokens, as for `should_flush`."""
        self._window = window
        self._reserve = reserve
        self._lock = threading.Lock()
        self._done = False
        self.flushes = 0
        self.compactions = 0

    def due(self, tokens: int) -> bool:
        """Whether the conversation should be flushed now."""
        return not self._done and should_flush(tokens, self._window, reserve=self._reserve)

    def flushed(self) -> None:
        """The conversation has been flushed."""
        with self._lock:
            self._done = True
            self.flushes += 1

    def compacted(self) -> None:
        """The context has been compacted or cut."""
        with self._lock:
            self._done = False
            self.compactions += 1

    @property
    def owed(self) -> int:
        """Compactions that no flush went before."""
        return max(0, self.compactions - self.flushes)
