"""The host's embedding provider, as a memory wants it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vademecum.embed.boundary import unit_rows
from vademecum.errors import ProviderDownError, ProviderError, ProviderReplyError
from vademecum.types import Calibration, Fingerprint

if TYPE_CHECKING:
    from vademecum.types import Matrix, Vector

_USUAL_BATCH = 64


class HostEmbedder:
    """The port `Embedder` over an object with ``embed_batch``, ``embed_query`` and ``dimensions``.

    What it raises counts as an outage unless it is an error of ours: search goes on by words.
    """

    def __init__(self, provider: Any) -> None:
        self.provider = provider
        self._lock = threading.Lock()
        self._dims = 0

    @property
    def fingerprint(self) -> Fingerprint:
        """Names the vector space by class, model and dimensions."""
        with self._lock:
            if not self._dims:
                self._dims = int(self._asked(lambda: self.provider.dimensions))
        model, base = (str(getattr(self.provider, name, "") or "") for name in ("model", "api_base"))
        return Fingerprint(f"cowagent:{type(self.provider).__name__}", model, self._dims, base)

    @property
    def calibration(self) -> Calibration:
        """A prior for a model of which nothing is known; measured when there are vectors enough."""
        return Calibration(0.10, 0.70)

    @property
    def batch_size(self) -> int:
        """How many texts the provider says that it takes."""
        return min(int(getattr(self.provider, "max_batch_size", _USUAL_BATCH)), _USUAL_BATCH)

    def embed_query(self, text: str) -> Vector:
        """One unit vector for a question."""
        ask = getattr(self.provider, "embed_query", None) or self.provider.embed
        rows = self._rows([self._asked(lambda: ask(text))], 1)
        first: Vector = rows[0]
        return first

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """One unit row per text."""
        return self._rows(self._asked(lambda: self.provider.embed_batch(list(texts))), len(texts))

    def _rows(self, vectors: Any, count: int) -> Matrix:
        if len(vectors) != count or len({len(vector) for vector in vectors}) > 1:
            raise ProviderReplyError(f"the host's embedding provider gave {len(vectors)} vectors for {count} texts")
        return unit_rows(vectors, "the host's embedding provider")

    def _asked(self, call: Any) -> Any:
        try:
            return call()
        except ProviderError:
            raise
        except Exception as error:
            raise ProviderDownError(f"the host's embedding provider failed: {error}") from error


def same_space(one: Any, other: Any) -> bool:
    """Whether two providers surely give vectors of one space, without asking either."""
    if one is other:
        return True
    names = ("model", "api_base", "api_key", "requested_dimensions")
    return (
        type(one) is type(other)
        and bool(getattr(one, "model", ""))
        and all(getattr(one, name, None) == getattr(other, name, None) for name in names)
    )
