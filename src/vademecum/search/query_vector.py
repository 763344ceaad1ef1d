"""The query's side of the vector channel: its vector in the space of the lane that serves, or why there is none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from vademecum.errors import ProviderError, ProviderReplyError
from vademecum.ports import Embedder
from vademecum.types import ChannelState, Fingerprint, Lane

if TYPE_CHECKING:
    from vademecum.types import Vector

#: After a provider was down, queries leave it alone for this long: an outage must not slow every search.
_PAUSE_SECONDS = 30.0

#: Of an older space, by its key, and the one that is to replace it: an embedder, or None and why there is none.
Older: TypeAlias = Callable[[str, Fingerprint], tuple[Embedder | None, str]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A query's unit vector and ``space``, the key of the fingerprint whose lane it can be compared with.

    Without a vector, ``state`` says why. ``notice`` tells of an older model that stands in for the one wanted.
    """

    vector: Vector | None
    state: ChannelState
    space: str | None = None
    notice: str | None = None


class QueryVector:
    """Embeds queries and never raises. Safe to share between threads.

    The lane that serves is the embedder's, or, until that is complete, an older model's: then that model is asked, if
    it can still be had.
    """

    def __init__(self, embedder: Embedder | None, reason: str, older: Older | None = None) -> None:
        """``reason`` says why there is no embedder ("off: …"); unused when there is one."""
        self._embedder = embedder
        self._reason = reason
        self._older = older
        self._serving: str | None = None
        self._lock = threading.Lock()
        self._failed: tuple[float, str] | None = None

    def expect(self, serving: Lane | None) -> None:
        """Embed for this lane from now on; None: for the embedder's own."""
        self._serving = None if serving is None else serving.fingerprint

    def embed(self, query: str) -> Asked:
        """The query's vector in the space of the lane expected to serve."""
        if self._embedder is None:
            return Asked(None, self._reason)
        serving, paused = self._serving, self._paused()
        if paused is not None:
            return Asked(None, f"{paused} (not asked again for a moment)", serving)
        try:
            wanted = self._embedder.fingerprint
            if serving is None or serving == wanted.key:
                return Asked(self._embed(self._embedder, query), "ok", wanted.key)
            return self._stand_in(query, serving, wanted)
        except ProviderError as error:
            return Asked(None, self._note(error), serving)

    def _stand_in(self, query: str, serving: str, wanted: Fingerprint) -> Asked:
        older, reason = self._find_older(serving, wanted)
        if older is None:
            state = f"off: the vectors of {wanted.key} are not complete yet, and those of {serving} cannot be asked"
            return Asked(None, f"{state}: {reason}", serving)
        notice = (
            f"the vectors of {serving} answer until those of {wanted.key} are complete; `vademecum sync` completes them"
        )
        return Asked(self._embed(older, query), "ok", serving, notice)

    def _embed(self, embedder: Embedder, query: str) -> Vector:
        vector = embedder.embed_query(query)
        dims = embedder.fingerprint.dims
        if vector.shape != (dims,):
            raise ProviderReplyError(f"the embedder gave a vector of shape {vector.shape}, not of {dims} dimensions")
        with self._lock:
            self._failed = None
        return vector

    def _find_older(self, serving: str, wanted: Fingerprint) -> tuple[Embedder | None, str]:
        return (None, "its model is gone") if self._older is None else self._older(serving, wanted)

    def wanted(self) -> Fingerprint | None:
        """The embedder's own space; None without an embedder and while it cannot say."""
        if self._embedder is None or self._paused() is not None:
            return None
        try:
            return self._embedder.fingerprint
        except ProviderError as error:
            self._note(error)
            return None

    def has_stand_in(self) -> bool:
        """Whether an older model answers, so that nobody need wait for the vectors of the new one."""
        serving, wanted = self._serving, self.wanted()
        if serving is None or wanted is None or serving == wanted.key:
            return False
        return self._find_older(serving, wanted)[0] is not None

    def _paused(self) -> str | None:
        with self._lock:
            failed = self._failed
        return failed[1] if failed is not None and time.monotonic() < failed[0] else None

    def _note(self, error: ProviderError) -> str:
        state = f"failed: {error}"
        with self._lock:
            self._failed = (time.monotonic() + _PAUSE_SECONDS, state) if error.retryable else None
        return state

    def resume(self) -> None:
        """Ask the provider again at once: it has just been heard of elsewhere."""
        with self._lock:
            self._failed = None
