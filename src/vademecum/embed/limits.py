"""How much a provider takes at once: what its embedder declares, and less where it proved too much."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from vademecum.embed.foreign import own_errors

if TYPE_CHECKING:
    from vademecum.ports import Embedder

#: One odd text, dense with tokens, must not have every ordinary one cut up for good.
LEAST_TEXT_BYTES = 1_000
_UNBOUNDED = 1 << 40
_KEPT_S = 30 * 24 * 3600


class Limits:
    """The limits of one embedder; thread-safe. They only fall.

    ``recall`` gives what ``record`` kept, or None: that way a restart does not have to find out again. That is done
    after thirty days: servers change, and one that stumbled once must not be slow for ever. ``clock`` gives Unix
    seconds.
    """

    def __init__(
        self,
        embedder: Embedder,
        recall: Callable[[], str | None] = lambda: None,
        record: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._embedder = embedder
        self._recall = recall
        self._record = record
        self._clock = clock
        self._learnt: dict[str, int] | None = None
        self._for_now = _UNBOUNDED
        self._lock = threading.RLock()

    @property
    def items(self) -> int:
        """The most texts a request."""
        with own_errors():
            declared = max(1, int(self._embedder.batch_size))
        return min(declared, self._known().get("items", _UNBOUNDED), self._for_now)

    @property
    def request_bytes(self) -> int:
        """The most bytes of UTF-8 a request. Not every embedder has a limit: the port does not ask for one."""
        return int(getattr(self._embedder, "max_request_bytes", _UNBOUNDED))

    @property
    def text_bytes(self) -> int:
        """The most bytes of UTF-8 a text; likewise."""
        declared = int(getattr(self._embedder, "max_text_bytes", _UNBOUNDED))
        return min(declared, self._known().get("text_bytes", _UNBOUNDED))

    def lower_items(self, items: int, *, lasting: bool) -> None:
        """``items`` texts were taken where more were not. What is not ``lasting`` ends with this object."""
        if lasting:
            self._lower("items", items)
        else:
            self._for_now = min(self._for_now, items)

    def lower_text(self, size: int) -> None:
        """A text of more than ``size`` bytes was not taken, but its pieces were."""
        if size >= LEAST_TEXT_BYTES:
            self._lower("text_bytes", size)

    def _lower(self, name: str, value: int) -> None:
        with self._lock:
            known = self._known()
            if value < known.get(name, _UNBOUNDED):
                self._learnt = {**known, name: value}
                self._record(json.dumps({**self._learnt, "until": int(self._clock()) + _KEPT_S}))

    def _known(self) -> dict[str, int]:
        with self._lock:
            if self._learnt is None:
                found = _parsed(self._recall())
                self._learnt = found if found.pop("until", 0) > self._clock() else {}
            return self._learnt


def _parsed(text: str | None) -> dict[str, int]:
    """What was recorded; nothing where it is not ours."""
    with suppress(ValueError):
        found = json.loads(text or "{}")
        if isinstance(found, dict):
            return {name: value for name, value in found.items() if type(value) is int and value > 0}
    return {}
