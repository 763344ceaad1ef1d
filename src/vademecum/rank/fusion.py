"""Fusion: two channels' evidence becomes one relevance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from vademecum.rank.candidate import Candidate, Ranked
from vademecum.settings import Fusion
from vademecum.types import Calibration

#: Reciprocal rank fusion's constant, from Cormack, Clarke and Büttcher, SIGIR 2009.
RRF_K = 60
#: How far strong evidence can raise the odds of the text side over those set by the weights. Anything from 5.6 to
#: 10.4 gives the same quality within .002 recall@1 of `make quality`.
EVIDENCE_BOOST = 8.0
#: Without vectors, the part of a chunk's relevance that its BM25 decides, beside the best one's: coverage alone does
#: not tell a page about a word from one that mentions it.
BM25_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Query:
    """What fusion must know of the query.

    ``vector_weight`` and ``text_weight`` as set; ``calibration`` is None when the vector channel is off. ``mass`` is
    the idf mass of all its terms, ``known_mass`` of those that occur in the index, which holds ``chunks`` chunks.
    """

    vector_weight: float
    text_weight: float
    calibration: Calibration | None
    mass: float = 0.0
    known_mass: float = 0.0
    chunks: int = 0


def fuse(candidates: Sequence[Candidate], method: Fusion, query: Query) -> list[Ranked]:
    """Candidates with their relevance, best first."""
    values = _METHODS[method](candidates, query)
    ranked = []
    for candidate, value in zip(candidates, values, strict=True):
        clipped = min(max(value, 0.0), 1.0)
        ranked.append(Ranked(candidate, clipped, value, clipped))
    return sorted(ranked, key=lambda item: item.sort_key)


def text_share(candidates: Sequence[Candidate], query: Query) -> float:
    """The text side's weight in [0, 1]: the set one, moved by how much the text explains of this query.

    With e the best coverage among the candidates and M the query's idf mass, the evidence is s = e · e·M / ln(N + 1).
    A word that occurs in one of N chunks has an idf near ln N, so e·M / ln(N + 1) ≤ 1 is what one stray rare word
    gives; the other e holds back long questions, of which some words match by chance. Then odds = text_weight /
    vector_weight · EVIDENCE_BOOST · s² / (1 + s²). A paraphrase shares almost no words: its order is the cosine's.
    """
    if query.vector_weight <= 0:
        return 1.0
    best = max((candidate.coverage for candidate in candidates), default=0.0)
    evidence = best * best * query.mass / log(query.chunks + 1) if query.chunks else 0.0
    odds = query.text_weight / query.vector_weight * EVIDENCE_BOOST * evidence**2 / (1 + evidence**2)
    return odds / (1 + odds)


def _calibrated(candidates: Sequence[Candidate], query: Query) -> list[float]:
    calibration = query.calibration
    if calibration is None or query.vector_weight <= 0 or all(candidate.cosine is None for candidate in candidates):
        # Words that occur nowhere cannot tell chunks apart, and alone they would press every hit below the floor.
        scale = query.mass / query.known_mass if query.known_mass > 0 else 0.0
        best = max((candidate.bm25 or 0.0 for candidate in candidates), default=0.0) or 1.0
        return [
            min(1.0, candidate.coverage * scale) * (1 - BM25_SHARE + BM25_SHARE * (candidate.bm25 or 0.0) / best)
            for candidate in candidates
        ]
    share = text_share(candidates, query)
    span = calibration.hi - calibration.lo
    return [
        candidate.coverage
        if candidate.cosine is None
        else (1 - share) * (candidate.cosine - calibration.lo) / span + share * candidate.coverage
        for candidate in candidates
    ]


def _weighted(candidates: Sequence[Candidate], query: Query) -> list[float]:
    vector_weight, text_weight = _present_weights(candidates, query)
    values = []
    for candidate in candidates:
        keyword = 0.0 if candidate.bm25 is None else 0.3 + 0.69 * candidate.bm25 / (1 + candidate.bm25)
        values.append(vector_weight * (candidate.cosine or 0.0) + text_weight * keyword)
    return values


def _reciprocal_rank(candidates: Sequence[Candidate], query: Query) -> list[float]:
    vector_weight, text_weight = _present_weights(candidates, query)
    values = []
    for candidate in candidates:
        value = 0.0
        for rank, weight in ((candidate.vector_rank, vector_weight), (candidate.keyword_rank, text_weight)):
            if rank is not None:
                value += weight * (RRF_K + 1) / (RRF_K + rank)
        values.append(value)
    return values


def _present_weights(candidates: Sequence[Candidate], query: Query) -> tuple[float, float]:
    """The weights as set, normalised; a channel without candidates leaves its weight to the other."""
    if not any(candidate.vector_rank is not None for candidate in candidates):
        return 0.0, 1.0
    if not any(candidate.keyword_rank is not None for candidate in candidates):
        return 1.0, 0.0
    total = query.vector_weight + query.text_weight
    return query.vector_weight / total, query.text_weight / total


_METHODS = {"calibrated": _calibrated, "weighted": _weighted, "rrf": _reciprocal_rank}
