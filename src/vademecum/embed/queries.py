"""Vectors of questions: remembered, since the same one is often asked again, and guarded against outages."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from vademecum.embed.boundary import unit_rows
from vademecum.embed.breaker import Breaker
from vademecum.embed.foreign import own_errors
from vademecum.errors import ProviderDownError, ProviderError
from vademecum.providers.deadline import within

if TYPE_CHECKING:
    from vademecum.ports import Embedder
    from vademecum.types import Calibration, Fingerprint, Matrix, Vector

T = TypeVar("T")

#: How long the search that finds out whether an outage is over may be slowed by it.
_PATIENCE_S = 2.0


class CachedQueries:
    """An Embedder that keeps the last ``size`` query vectors of another one; thread-safe.

    Returned vectors are shared and read-only. Failures are not kept, but open :attr:`breaker`: until it closes, only
    what is remembered is answered. Two threads that ask the same new question at once may both call the model: waiting
    for each other would let one hanging call hold up all.
    """

    def __init__(self, embedder: Embedder, size: int = 256, breaker: Breaker | None = None) -> None:
        self.breaker = breaker or Breaker()
        self._embedder = embedder
        self._size = size
        self._vectors: OrderedDict[str, Vector] = OrderedDict()
        self._knows_itself = False
        self._lock = threading.Lock()

    @property
    def embedder(self) -> Embedder:
        """The wrapped one, which asks its provider every time."""
        return self._embedder

    @property
    def fingerprint(self) -> Fingerprint:
        """The wrapped embedder's. The first time it may have to ask the provider, and is guarded like a question."""
        if self._knows_itself:
            with own_errors():
                return self._embedder.fingerprint
        found = self._ask(lambda: self._embedder.fingerprint)
        self._knows_itself = True
        return found

    @property
    def calibration(self) -> Calibration:
        """The wrapped embedder's."""
        with own_errors():
            return self._embedder.calibration

    @property
    def batch_size(self) -> int:
        """The wrapped embedder's."""
        with own_errors():
            return self._embedder.batch_size

    def embed_query(self, text: str) -> Vector:
        """One read-only unit vector, from memory if the question is among the last ``size`` different ones.

        Raises ProviderDownError at once during an outage; the call that tries whether it is over waits two seconds.
        """
        with self._lock:
            known = self._vectors.get(text)
            if known is not None:
                self._vectors.move_to_end(text)
                return known
        return self._ask(partial(self._embed, text))

    def _embed(self, text: str) -> Vector:
        vector: Vector = unit_rows([self._embedder.embed_query(text)], "the embedder")[0]
        vector.flags.writeable = False
        with self._lock:
            self._vectors[text] = vector
            self._vectors.move_to_end(text)
            while len(self._vectors) > self._size:
                self._vectors.popitem(last=False)
        return vector

    def _ask(self, work: Callable[[], T]) -> T:
        if self.breaker.admit():
            return self._report(work)
        try:
            # What comes later is still remembered, and closes the breaker.
            return within(_PATIENCE_S, lambda _: self._report(work))
        except TimeoutError:
            raise ProviderDownError(f"the provider has not answered again within {_PATIENCE_S:g} s", "late") from None

    def _report(self, work: Callable[[], T]) -> T:
        try:
            with own_errors():
                found = work()
        except ProviderError as error:
            self.breaker.failed(error)
            raise
        self.breaker.worked()
        return found

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """Passed on; documents have a cache of their own, the vectors' table."""
        return self._embedder.embed_documents(texts)

    def close(self) -> None:
        """Close the wrapped embedder's connections, where it has any."""
        close = getattr(self._embedder, "close", None)
        if callable(close):
            close()
