"""Filling in vectors: whatever live text lacks one in the lane gets it, batch by batch.

What is missing is derived from the tables, never from a list kept elsewhere, so a failure, a restart or a file that
nobody touches again all end embedded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from vademecum.chunk import embedding_text
from vademecum.errors import ProviderError
from vademecum.ports import Embedder, IndexBackend, Progress
from vademecum.types import Embedded, Lane, MissingText

#: Embeds texts in batches of its own choice; each record is final when it is given.
EmbedTexts = Callable[[Sequence[str]], Iterator[Embedded]]

#: Texts fetched from the index at a time.
_PAGE = 1024


@dataclass(frozen=True, slots=True)
class Filled:
    """How many texts got a vector, (path, reason) for those that got none, and what ended the run before its time.

    ``notices`` pair a path with what is to be told of a text that did get one.
    """

    embedded: int
    failed: tuple[tuple[str, str], ...]
    problem: ProviderError | None = None
    notices: tuple[tuple[str, str], ...] = ()


class VectorFiller:
    """Embeds what is missing. No lock or transaction is held while the embedder works."""

    def __init__(
        self,
        index: IndexBackend,
        embedder: Embedder,
        embed_texts: EmbedTexts,
        older: Callable[[], VectorFiller | None] = lambda: None,
    ) -> None:
        """``older`` gives the filler of the lane that serves until this one's is complete."""
        self._index = index
        self._embedder = embedder
        self._embed_texts = embed_texts
        #: Texts that got no vector, by hash, and whether that is for good.
        self._set_aside: dict[bytes, bool] = {}
        self._older = older

    def lane(self) -> Lane:
        """The embedder's lane in the index."""
        return self._index.lane(self._embedder.fingerprint, self._embedder.calibration)

    def run(self, stop: threading.Event, progress: Progress | None = None) -> Filled:
        """Embed until nothing is missing, ``stop`` is set or the provider fails; a complete lane then serves.

        Finished batches are kept whatever happens afterwards. A text that the provider refuses is named by its file,
        and not tried again by this object; one that made it fail is tried again by later runs, after all others.
        """
        embedded = 0
        failed: list[tuple[str, str]] = []
        notices: list[tuple[str, str]] = []
        problem: ProviderError | None = None
        try:
            lane = self.lane()
            total = self._index.count_missing(lane)
            for texts, done in self._batches(lane, stop):
                if done.vectors is None:
                    self._set_aside[texts[0].hash] = done.lasting
                    failed.append((texts[0].path, done.note))
                else:
                    self._index.put_vectors(lane, [text.hash for text in texts], done.vectors)
                    embedded += len(texts)
                    if done.note:
                        notices.append((texts[0].path, f"{texts[0].path}: {done.note}"))
                if progress is not None:
                    progress("vectors", embedded + len(failed), total)
        except ProviderError as error:
            problem = error
        if problem is None and not stop.is_set():
            self._complete(anew=embedded > 0)
        return Filled(embedded, tuple(failed), problem, tuple(notices))

    def _complete(self, anew: bool) -> None:
        lane = self.lane()
        if anew:
            self._index.calibrate(lane)
        if lane.state != "serving":
            self._index.serve(lane)

    def _batches(self, lane: Lane, stop: threading.Event) -> Iterator[tuple[Sequence[MissingText], Embedded]]:
        earlier = [digest for digest, lasting in self._set_aside.items() if not lasting]
        yield from self._pages(lane, stop)
        for digest in earlier:
            del self._set_aside[digest]
        if earlier:
            yield from self._pages(lane, stop)

    def _pages(self, lane: Lane, stop: threading.Event) -> Iterator[tuple[Sequence[MissingText], Embedded]]:
        while not stop.is_set():
            older = self._older()
            if older is not None:  # what was written since the model was changed is found by the old one, too
                older.run(stop)
            page = self._index.missing_vectors(lane, _PAGE + len(self._set_aside))
            page = [text for text in page if text.hash not in self._set_aside]
            if not page:
                return
            for done in self._embed_texts([embedding_text(text.heading, text.text) for text in page]):
                yield page[done.first : done.first + (1 if done.vectors is None else len(done.vectors))], done
                if stop.is_set():
                    return
