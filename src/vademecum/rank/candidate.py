"""What ranking works on. Tuples, because each search makes dozens."""

from __future__ import annotations

from typing import NamedTuple

from vademecum.types import ChunkRow


class Candidate(NamedTuple):
    """A chunk that at least one channel recalled, with both channels' evidence.

    ``cosine`` is None when the chunk has no vector or the vector channel is off. ``bm25`` is None unless the keyword
    channel recalled it; ``coverage`` is the share of the query's idf mass that its tokens hold, in [0, 1].
    ``holds_all`` says that it holds every word of the query that the index knows. Ranks count from 1 within each
    channel, None if absent.
    """

    row: ChunkRow
    cosine: float | None
    bm25: float | None
    coverage: float
    holds_all: bool
    vector_rank: int | None
    keyword_rank: int | None


class Ranked(NamedTuple):
    """A candidate on its way down the funnel.

    ``fused`` is its relevance, in [0, 1]; ``weight`` the factor for its kind, ``decay`` that for its age. ``value``
    decides the order and may leave [0, 1]; ``score`` is what is reported and does not. ``position`` is where diversity
    put it, from 1.
    """

    candidate: Candidate
    fused: float
    value: float
    score: float
    decay: float = 1.0
    weight: float = 1.0
    position: int | None = None

    @property
    def sort_key(self) -> tuple[float, str, float, int]:
        """Best first; among equals newer before older, then the better keyword match, then by id."""
        # Evergreen notes are never old. ISO dates compare as text; each digit's complement turns the order round.
        candidate = self.candidate
        row = candidate.row
        day = row.date.translate(_COMPLEMENT) if row.date else ""
        return (-self.value, day, -(candidate.bm25 or 0.0), row.id)


_COMPLEMENT = str.maketrans("0123456789", "9876543210")
