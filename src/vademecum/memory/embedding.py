"""Which model makes a memory's vectors, and which one answers for it until they are complete."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from vademecum.embed import (
    CachedQueries,
    RemoteEmbedder,
    Resolution,
    document_batches,
    held_back,
    older_embedder,
    resolve,
)
from vademecum.errors import IndexUnavailableError, ProviderError
from vademecum.ports import Embedder, IndexBackend
from vademecum.search import QueryVector
from vademecum.settings import EmbeddingSettings
from vademecum.sync import VectorFiller
from vademecum.types import Fingerprint, Lane


class Embedding:
    """The embedder that the settings or the program ask for, and older ones. Safe to share between threads.

    ``found`` is what they ask for; ``embedder`` is what is used: the same, or None while `settle` holds it back.
    """

    def __init__(self, settings: EmbeddingSettings, environ: Mapping[str, str], given: Embedder | None) -> None:
        self._settings = settings
        self._environ = environ
        self._given = given
        found = resolve(settings, environ) if given is None else Resolution(given, "given by the program")
        self._resolved, self.reason = found, found.reason
        self.found = None if found.embedder is None else CachedQueries(found.embedder)
        self._older: dict[str, tuple[CachedQueries | None, str]] = {}
        self.settle(None)

    @property
    def state(self) -> str:
        """The fingerprint of the embedder in use, or why there is none."""
        if self.embedder is None:
            return self.used_reason
        try:
            return self.embedder.fingerprint.key
        except ProviderError as error:
            return f"failed: {error}"

    def settle(self, serving: Lane | None) -> None:
        """Choose, knowing which lane serves."""
        used = self._resolved
        known = None if serving is None else Fingerprint.of(serving.fingerprint)
        if self._given is None and known is not None:
            used = held_back(used, self._settings, self._environ, known)
        if isinstance(used.embedder, RemoteEmbedder) and known is not None:
            used.embedder.presume(known)
        self.embedder = None if used.embedder is None else self.found
        self.used_reason = used.reason
        self.query_vector = QueryVector(self.embedder, used.reason, self.older)
        self.query_vector.expect(serving)

    def older(self, key: str, wanted: Fingerprint) -> tuple[CachedQueries | None, str]:
        """The embedder of the lane with this fingerprint, or None and why; ``wanted`` is the one in use."""
        if key not in self._older:
            found = older_embedder(key, wanted, self._settings, self._environ)
            self._older[key] = (None if found.embedder is None else CachedQueries(found.embedder), found.reason)
        return self._older[key]

    def ask_again(self) -> None:
        """Forget outages: somebody wants to know now."""
        for cached in self._all():
            cached.breaker.worked()

    def close(self) -> None:
        """Close connections; the program's own embedder is the program's to close."""
        for cached in self._all():
            if cached.embedder is not self._given:
                cached.close()

    def _all(self) -> list[CachedQueries]:
        older = [cached for cached, _ in list(self._older.values())]
        return [cached for cached in (self.found, *older) if cached is not None]

    def filler(self, index: IndexBackend) -> VectorFiller | None:
        """What embeds the index's texts; None without an embedder."""
        if self.embedder is None:
            return None
        batches = document_batches(self.embedder, index)
        return VectorFiller(index, self.embedder, batches, partial(self._older_filler, index))

    def _older_filler(self, index: IndexBackend) -> VectorFiller | None:
        wanted = self.query_vector.wanted()
        serving = serving_lane(index)
        if wanted is None or serving is None or serving.fingerprint == wanted.key:
            return None
        older = self.older(serving.fingerprint, wanted)[0]
        return None if older is None else VectorFiller(index, older, document_batches(older, index))


def serving_lane(index: IndexBackend) -> Lane | None:
    """The lane that answers queries; None before the first, and where that cannot be read: who needs it will see."""
    try:
        with index.reader() as reader:
            return next((lane for lane in reader.lanes() if lane.state == "serving"), None)
    except IndexUnavailableError:
        return None
