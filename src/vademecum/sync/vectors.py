"""Filling in vectors: whatever live text lacks one in the lane gets it, batch by batch.

What is missing is derived from the tables, never from a list kept elsewhere, so a failure, a restart or a file that
nobody touches again all end embedded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vademecum.chunk import embedding_text
from vademecum.errors import ProviderError
from vademecum.ports import Embedder, IndexBackend, Progress
from vademecum.types import Lane, MissingText

if TYPE_CHECKING:
    from vademecum.types import Vector

#: Embeds texts; gives one vector or None per text, and (position, reason) for each None.
EmbedTexts = Callable[[Sequence[str]], tuple[Sequence["Vector | None"], Sequence[tuple[int, str]]]]

#: Texts fetched from the index at a time.
_PAGE = 1024


@dataclass(frozen=True, slots=True)
class Filled:
    """How many texts got a vector, (path, reason) for those that never will, and what ended the run before its time."""

    embedded: int
    failed: tuple[tuple[str, str], ...]
    problem: ProviderError | None = None


class VectorFiller:
    """Embeds what is missing. No lock or transaction is held while the embedder works."""

    def __init__(self, index: IndexBackend, embedder: Embedder, embed_texts: EmbedTexts) -> None:
        self._index = index
        self._embedder = embedder
        self._embed_texts = embed_texts
        self._refused: dict[bytes, str] = {}
        self._total = 0

    def lane(self) -> Lane:
        """The embedder's lane in the index."""
        return self._index.lane(self._embedder.fingerprint, self._embedder.calibration)

    def run(self, stop: threading.Event, progress: Progress | None = None) -> Filled:
        """Embed until nothing is missing, ``stop`` is set or the provider fails.

        Finished batches are kept whatever happens afterwards. A text that the provider refuses is named by its file,
        and not tried again by this object.
        """
        embedded = 0
        failed: list[tuple[str, str]] = []
        try:
            for done, refused in self._batches(stop):
                embedded += done
                failed += refused
                if progress is not None:
                    progress("vectors", embedded + len(failed), self._total)
        except ProviderError as error:
            return Filled(embedded, tuple(failed), error)
        return Filled(embedded, tuple(failed))

    def _batches(self, stop: threading.Event) -> Iterator[tuple[int, list[tuple[str, str]]]]:
        lane = self.lane()
        self._total = self._index.count_missing(lane)
        while not stop.is_set():
            page = self._index.missing_vectors(lane, _PAGE + len(self._refused))
            page = [text for text in page if text.hash not in self._refused]
            if not page:
                return
            for start in range(0, len(page), self._embedder.batch_size):
                if stop.is_set():
                    return
                yield self._batch(lane, page[start : start + self._embedder.batch_size])

    def _batch(self, lane: Lane, batch: Sequence[MissingText]) -> tuple[int, list[tuple[str, str]]]:
        import numpy as np

        vectors, failures = self._embed_texts([embedding_text(text.heading, text.text) for text in batch])
        pairs = [(text.hash, vector) for text, vector in zip(batch, vectors, strict=True) if vector is not None]
        if pairs:
            self._index.put_vectors(lane, [digest for digest, _ in pairs], np.stack([vector for _, vector in pairs]))
        for position, reason in failures:
            self._refused[batch[position].hash] = reason
        return len(pairs), [(batch[position].path, reason) for position, reason in failures]
