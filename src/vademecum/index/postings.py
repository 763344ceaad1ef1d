"""BM25 term by term, kept for questions that ask for the same terms again.

A chunk's BM25 is the sum of what each term gives it, added up in the order of the terms. So what a term gives to each
chunk that holds it need only be asked once until somebody commits, and sums are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from vademecum.types import Scored

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    #: Chunk ids, and what a term gives to each.
    Postings = tuple[NDArray[np.int64], NDArray[np.float64]]

#: Postings kept at a time, 16 bytes each, and terms remembered for having been asked for once.
_MOST_KEPT, _MOST_SEEN = 1_000_000, 10_000


class TermPostings:
    """What terms give, for one filter and one state of the index."""

    def __init__(self) -> None:
        self._kept: dict[str, Postings] = {}
        self._seen: set[str] = set()
        self._size = 0

    def top(
        self, terms: Sequence[str], k: int, ask: Callable[[str], Iterable[tuple[int, float]]]
    ) -> list[Scored] | None:
        """The k best chunks by the sum over ``terms``, ties by id. None while a term is new: it may be the only time.

        ``ask`` gives (chunk, score) for each chunk that holds a term.
        """
        new = [term for term in terms if term not in self._kept and term not in self._seen]
        if new:
            if len(self._seen) > _MOST_SEEN:
                self._seen.clear()
            self._seen.update(new)
            return None
        return _top([self._of(term, ask) for term in terms], k)

    def _of(self, term: str, ask: Callable[[str], Iterable[tuple[int, float]]]) -> Postings:
        import numpy as np

        known = self._kept.pop(term, None)
        if known is None:
            pairs = np.fromiter(ask(term), [("id", np.int64), ("score", np.float64)])
            known = pairs["id"].copy(), pairs["score"].copy()
            self._size += len(pairs)
        self._kept[term] = known  # the one unused for longest comes first
        while self._size > _MOST_KEPT and len(self._kept) > 1:
            oldest = next(iter(self._kept))
            self._size -= len(self._kept.pop(oldest)[0])
            self._seen.discard(oldest)  # where more recurs than there is room for, it is not fetched anew each time
        return known


def _top(postings: Sequence[Postings], k: int) -> list[Scored]:
    import numpy as np

    ids, places = np.unique(np.concatenate([each for each, _ in postings]), return_inverse=True)
    # Adds from left to right, so each chunk's terms in their order.
    scores = np.bincount(places, np.concatenate([each for _, each in postings]), len(ids))
    if len(ids) > k:
        near = np.flatnonzero(scores >= np.partition(scores, -k)[-k])
        ids, scores = ids[near], scores[near]
    order = np.lexsort((ids, -scores))[:k]
    return [
        Scored(chunk_id, score) for chunk_id, score in zip(ids[order].tolist(), scores[order].tolist(), strict=True)
    ]
