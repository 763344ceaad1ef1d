"""Batches as large as a provider takes, and how one text that it will not take is kept from failing its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from vademecum.embed.boundary import unit_rows
from vademecum.embed.breaker import Breaker
from vademecum.embed.foreign import own_errors
from vademecum.embed.limits import Limits
from vademecum.embed.pieces import pieces
from vademecum.errors import ProviderDownError, ProviderError, ProviderRefusedError, ProviderReplyError
from vademecum.providers.sendable import sendable
from vademecum.types import Embedded

if TYPE_CHECKING:
    from vademecum.embed.queries import CachedQueries
    from vademecum.ports import Embedder, IndexBackend
    from vademecum.types import Matrix

#: A text that every model takes: if this is refused too, the texts are not to blame.
_HARMLESS = "hello"
#: Bytes below which a text that is refused is not refused for its length.
_SHORTEST = 256

#: Failures that a text may have caused, by itself or together with its neighbours.
_Failure: TypeAlias = ProviderRefusedError | ProviderReplyError | ProviderDownError
#: Yields what is done; returns whether every text was taken whole.
_Work: TypeAlias = Generator[Embedded, None, bool]


def batches(texts: Sequence[str], items: int, max_bytes: int) -> Iterator[Sequence[str]]:
    """Consecutive slices of at most ``items`` texts and ``max_bytes`` bytes of UTF-8; at least one text each."""
    start = size = 0
    for position, text in enumerate(texts):
        length = _size(text)
        if position > start and (position - start >= items or size + length > max_bytes):
            yield texts[start:position]
            start, size = position, 0
        size += length
    if start < len(texts):
        yield texts[start:]


def document_batches(cached: CachedQueries, notes: IndexBackend) -> DocumentBatches:
    """Batches for the embedder in ``cached``; what is learnt of its provider's limits is kept in ``notes``."""
    embedder = cached.embedder
    address = getattr(embedder, "address", None)  # offline models and a host's own have none
    if address is None:
        return DocumentBatches(embedder, None, cached.breaker)
    key = f"limits of {address}"
    limits = Limits(embedder, partial(notes.recall, key), partial(notes.record, key))
    return DocumentBatches(embedder, limits, cached.breaker)


class DocumentBatches:
    """Embeds any number of texts.

    A batch that is refused, answered wrongly, or fails while the provider is otherwise well is halved until the texts
    to blame stand alone. Where both halves are taken, the batch was too large: later ones are no larger, and
    :class:`~vademecum.embed.limits.Limits` remembers it. Vendors word "too many", "too long", a bad key and a bad text
    alike, in many languages, so words decide nothing; a first refusal is followed by one call with a harmless text, and
    if that is refused as well, the refusal is raised.

    A text longer than the model takes is embedded in pieces: the mean of their vectors, weighed by length, stands for
    it (as in OpenAI's cookbook, "Embedding texts that are longer than the model's maximum context length").
    """

    def __init__(self, embedder: Embedder, limits: Limits | None = None, breaker: Breaker | None = None) -> None:
        """``breaker`` is the questions': it is told of outages and of their end, but does not hold up texts."""
        self._embedder = embedder
        self._limits = limits or Limits(embedder)
        self._breaker = breaker or Breaker()
        self._sound = False

    def __call__(self, texts: Sequence[str]) -> Iterator[Embedded]:
        """What came of ``texts``, in order, as soon as it is there; every text is in exactly one record.

        Raises ProviderError where no text is to blame: ProviderMissingError, a refused key, model or quota, a rate
        limit, an outage. What was given before stays good.
        """
        try:
            yield from self._all(texts)
        except ProviderError as error:
            if _concerns_questions(error):
                self._breaker.failed(error)
            raise

    def _all(self, texts: Sequence[str]) -> Iterator[Embedded]:
        self._sound = False
        texts = [sendable(text) for text in texts]
        start = 0
        while start < len(texts):
            items = self._limits.items  # it may fall while work goes on
            batch = next(batches(texts[start : start + items], items, self._limits.request_bytes))
            short = next((n for n, text in enumerate(batch) if _size(text) > self._limits.text_bytes), len(batch))
            end = start + max(short, 1)
            yield from self._batch(texts, start, end)
            start = end

    def _batch(self, texts: Sequence[str], start: int, end: int) -> _Work:
        if end - start == 1:
            return (yield from self._single(texts[start], start))
        began, outcome = start, self._attempt(partial(self._rows, texts[start:end]))
        if not isinstance(outcome, ProviderError):
            yield Embedded(start, outcome)
            return True
        middle, whole = (start + end) // 2, True
        while start < end:
            stop = min(middle if start < middle else end, start + self._limits.items)
            whole = (yield from self._batch(texts, start, stop)) and whole
            start = stop
        if whole and _is_about_size(outcome):
            self._limits.lower_items(middle - began, lasting=not isinstance(outcome, ProviderDownError))
        return whole

    def _single(self, text: str, position: int) -> _Work:
        size, most = _size(text), self._limits.text_bytes
        failure: _Failure | None = None
        if size <= most:
            outcome = self._attempt(partial(self._rows, [text]))
            if not isinstance(outcome, ProviderError):
                yield Embedded(position, outcome)
                return True
            failure, most = outcome, size // 2
        while most >= _SHORTEST and (failure is None or isinstance(failure, ProviderRefusedError)):
            parts = pieces(text, most)
            outcome = self._attempt(partial(self._mean, parts))
            if not isinstance(outcome, ProviderError):
                if failure is not None:
                    self._limits.lower_text(2 * most - 1)
                note = f"a text of {size:,} bytes is longer than the model takes: embedded in {len(parts)} pieces"
                yield Embedded(position, outcome, note)
                return False
            failure, most = failure or outcome, most // 2
        lasting = not isinstance(failure, ProviderDownError)
        yield Embedded(position, None, str(failure), lasting)
        return False

    def _attempt(self, work: Callable[[], Matrix]) -> Matrix | _Failure:
        """What ``work`` gives, or its failure if texts may be to blame; any other failure is raised."""
        try:
            rows = work()
        except (ProviderRefusedError, ProviderReplyError, ProviderDownError) as error:
            self._excuse_provider(error)
            return error
        self._sound = True
        self._breaker.worked()
        return rows

    def _excuse_provider(self, error: _Failure) -> None:
        """Raise ``error``, or what a harmless text meets with, if the provider is to blame for it."""
        if isinstance(error, ProviderDownError):
            # Some servers answer 500 to one particular text, for ever, or need too long for a whole batch of them.
            if error.about in {"unreachable", "rate"}:
                raise error
            probe: Callable[[], object] = partial(self._embedder.embed_query, _HARMLESS)
        elif isinstance(error, ProviderRefusedError) and error.about != "input":
            raise error
        elif self._sound:
            return
        else:
            probe = partial(self._rows, [_HARMLESS])
        try:
            with own_errors():
                probe()
        except (ProviderRefusedError, ProviderReplyError):
            raise error from None
        self._sound = True

    def _rows(self, texts: Sequence[str]) -> Matrix:
        # The embedder may be the host program's own: what it returns is checked like any other reply.
        with own_errors():
            rows = unit_rows(self._embedder.embed_documents(texts), "the embedder")
        if len(rows) != len(texts):
            raise ProviderReplyError(f"the embedder gave {len(rows)} vectors for {len(texts)} texts")
        return rows

    def _mean(self, parts: Sequence[str]) -> Matrix:
        import numpy as np

        groups = batches(parts, self._limits.items, self._limits.request_bytes)
        rows = np.concatenate([self._rows(group) for group in groups])
        weights = np.array([_size(part) for part in parts], dtype=np.float64)
        return unit_rows(weights[np.newaxis] @ rows, "the embedder")


def _size(text: str) -> int:
    return len(text.encode())


def _is_about_size(failure: _Failure) -> bool:
    """Whether halves that are taken prove that the whole was too large. A failing server may have recovered."""
    return not isinstance(failure, ProviderDownError) or failure.about == "late"


def _concerns_questions(error: ProviderError) -> bool:
    """Whether a question would have met the same. A rate limit or a refusal may be due to how much was sent."""
    if isinstance(error, ProviderReplyError):
        return False
    return getattr(error, "about", "") not in {"rate", "input"}
