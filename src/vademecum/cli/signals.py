"""How a command that runs until it is stopped is stopped."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stopped_by_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Ctrl-C and SIGTERM call ``stop``; a second one is obeyed at once."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def obey(*_: object) -> None:
        for number in before:
            signal.signal(number, signal.SIG_DFL)
        stop()

    for number in before:
        signal.signal(number, obey)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
