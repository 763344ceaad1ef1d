"""A small memory for the vectors of questions: the same one is often asked again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vademecum.embed.boundary import unit_rows
from vademecum.embed.foreign import own_errors

if TYPE_CHECKING:
    from vademecum.ports import Embedder
    from vademecum.types import Calibration, Fingerprint, Matrix, Vector


class CachedQueries:
    """An Embedder that keeps the last ``size`` query vectors of another one; thread-safe.

    Returned vectors are shared and read-only. Failures are not kept. Two threads that ask the same new question at
    once may both call the model: waiting for each other would let one hanging call hold up all.
    """

    def __init__(self, embedder: Embedder, size: int = 256) -> None:
        self._embedder = embedder
        self._size = size
        self._vectors: OrderedDict[str, Vector] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def embedder(self) -> Embedder:
        """The wrapped one, which asks its provider every time."""
        return self._embedder

    @property
    def fingerprint(self) -> Fingerprint:
        """The wrapped embedder's."""
        with own_errors():
            return self._embedder.fingerprint

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
        """One read-only unit vector, from memory if the question is among the last ``size`` different ones."""
        with self._lock:
            known = self._vectors.get(text)
            if known is not None:
                self._vectors.move_to_end(text)
                return known
        with own_errors():
            vector: Vector = unit_rows([self._embedder.embed_query(text)], "the embedder")[0]
        vector.flags.writeable = False
        with self._lock:
            self._vectors[text] = vector
            self._vectors.move_to_end(text)
            while len(self._vectors) > self._size:
                self._vectors.popitem(last=False)
        return vector

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """Passed on; documents have a cache of their own, the vectors' table."""
        return self._embedder.embed_documents(texts)
