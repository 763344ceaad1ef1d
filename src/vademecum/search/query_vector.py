"""The query's side of the vector channel: its vector in the space of the lane that serves, or why there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from vademecum.errors import ProviderError, ProviderReplyError
from vademecum.ports import Embedder
from vademecum.providers.deadline import within
from vademecum.types import ChannelState, Fingerprint, Lane

if TYPE_CHECKING:
    from vademecum.types import Vector

_WAY_OUT = "`vademecum sync` completes them, `vademecum sync --switch-now` does not wait for that"

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

    def expect(self, serving: Lane | None) -> None:
        """Embed for this lane from now on; None: for the embedder's own."""
        self._serving = None if serving is None else serving.fingerprint

    def embed(self, query: str, within_s: float | None = None) -> Asked:
        """The query's vector in the space of the lane expected to serve; waits for it no longer than ``within_s``."""
        if self._embedder is None:
            return Asked(None, self._reason)
        embedder, serving = self._embedder, self._serving
        try:
            if within_s is None:
                return self._ask(embedder, query, serving)
            # What comes too late for this search is in the embedder's memory for the next one.
            return within(within_s, lambda _: self._ask(embedder, query, serving))
        except ProviderError as error:
            return Asked(None, f"failed: {error}", serving)
        except TimeoutError:
            return Asked(None, f"failed: the query had no vector within {within_s:g} s", serving)

    def _ask(self, embedder: Embedder, query: str, serving: str | None) -> Asked:
        wanted = embedder.fingerprint
        if serving is None or serving == wanted.key:
            return Asked(_embedded(embedder, query, wanted), "ok", wanted.key)
        return self._stand_in(query, serving, wanted)

    def _stand_in(self, query: str, serving: str, wanted: Fingerprint) -> Asked:
        older, reason = self._find_older(serving, wanted)
        if older is None:
            state = f"off: the vectors of {wanted.key} are not complete yet, and those of {serving} cannot be asked"
            return Asked(None, f"{state}: {reason}; {_WAY_OUT}", serving)
        notice = f"the vectors of {serving} answer until those of {wanted.key} are complete; {_WAY_OUT}"
        return Asked(_embedded(older, query, older.fingerprint), "ok", serving, notice)

    def _find_older(self, serving: str, wanted: Fingerprint) -> tuple[Embedder | None, str]:
        return (None, "its model is gone") if self._older is None else self._older(serving, wanted)

    def wanted(self) -> Fingerprint | None:
        """The embedder's own space; None without an embedder and while it cannot say."""
        try:
            return None if self._embedder is None else self._embedder.fingerprint
        except ProviderError:
            return None

    def has_stand_in(self) -> bool:
        """Whether an older model answers, so that nobody need wait for the vectors of the new one."""
        serving, wanted = self._serving, self.wanted()
        if serving is None or wanted is None or serving == wanted.key:
            return False
        return self._find_older(serving, wanted)[0] is not None


def _embedded(embedder: Embedder, query: str, space: Fingerprint) -> Vector:
    vector = embedder.embed_query(query)
    if vector.shape != (space.dims,):
        raise ProviderReplyError(f"the embedder gave a vector of shape {vector.shape}, not of {space.dims} dimensions")
    return vector
