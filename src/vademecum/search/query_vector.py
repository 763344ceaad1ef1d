"""The query's side of the vector channel: its vector, or why there is none."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from vademecum.errors import ProviderError, ProviderReplyError
from vademecum.ports import Embedder
from vademecum.types import ChannelState, Fingerprint

if TYPE_CHECKING:
    from vademecum.types import Vector

#: After a provider was down, queries leave it alone for this long: an outage must not slow every search.
_PAUSE_SECONDS = 30.0


class QueryVector:
    """Embeds queries and never raises. Safe to share between threads."""

    def __init__(self, embedder: Embedder | None, reason: str) -> None:
        """``reason`` says why there is no embedder ("off: …"); unused when there is one."""
        self._embedder = embedder
        self._reason = reason
        self._lock = threading.Lock()
        self._failed: tuple[float, str] | None = None

    def embed(self, query: str) -> tuple[Vector | None, ChannelState]:
        """The query's unit vector with "ok", or None with the reason."""
        if self._embedder is None:
            return None, self._reason
        with self._lock:
            failed = self._failed
        if failed is not None and time.monotonic() < failed[0]:
            return None, f"{failed[1]} (not asked again for a moment)"
        try:
            vector = self._embedder.embed_query(query)
            dims = self._embedder.fingerprint.dims
            if vector.shape != (dims,):
                raise ProviderReplyError(
                    f"the embedder gave a vector of shape {vector.shape}, not of {dims} dimensions"
                )
        except ProviderError as error:
            state = f"failed: {error}"
            with self._lock:
                self._failed = (time.monotonic() + _PAUSE_SECONDS, state) if error.retryable else None
            return None, state
        with self._lock:
            self._failed = None
        return vector, "ok"

    def resume(self) -> None:
        """Ask the provider again at once: it has just been heard of elsewhere."""
        with self._lock:
            self._failed = None

    def fingerprint(self) -> Fingerprint | None:
        """The embedder's space; None without an embedder or while it cannot say."""
        if self._embedder is None:
            return None
        try:
            return self._embedder.fingerprint
        except ProviderError:
            return None
