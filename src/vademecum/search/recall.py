"""Recall: candidates from both channels, each with both channels' evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import TYPE_CHECKING, Any

from vademecum.ports import IndexReader
from vademecum.rank import Candidate
from vademecum.text.query import QueryTerms
from vademecum.types import ChunkRow, Frequencies, Lane, Scored, Where

if TYPE_CHECKING:
    from vademecum.types import Vector


@dataclass(frozen=True, slots=True)
class Recall:
    """Candidates in order of id, and what was looked for.

    ``mass`` is the idf mass of the query's terms, ``known_mass`` of those that occur, ``chunks`` the index's size.
    """

    candidates: tuple[Candidate, ...]
    mass: float
    known_mass: float
    chunks: int
    explanation: Mapping[str, Any] = field(default_factory=dict)


def recall(
    reader: IndexReader,
    terms: QueryTerms,
    vector: Vector | None,
    lane: Lane | None,
    where: Where,
    k: int,
    postings_budget: int,
) -> Recall:
    """Up to ``k`` candidates by BM25 and up to ``k`` by cosine, each scored by the other channel too.

    The vector channel takes part if both ``vector`` and ``lane`` are given.
    """
    # What a word is worth depends on what the viewer may read, not on this query's other filters.
    frequencies = reader.document_frequencies(terms.terms, tuple(c for c in where if c.field == "scope"))
    asked, left_out = affordable(frequencies, postings_budget)
    by_words = list(reader.search_keyword(asked, k, where))
    if len(by_words) < k and terms.fallback:
        found = {hit.id for hit in by_words}
        more = reader.search_keyword((*asked, *terms.fallback), k, where)
        by_words += [hit for hit in more if hit.id not in found][: k - len(by_words)]
    by_vector = list(reader.search_vector(lane, vector, k, where)) if lane is not None and vector is not None else []
    ids = sorted({hit.id for hit in (*by_words, *by_vector)})
    cosines = {hit.id: hit.score for hit in by_vector}
    if lane is not None and vector is not None:
        cosines.update(reader.score_vectors(lane, [i for i in ids if i not in cosines], vector))
    weights = idf(frequencies)
    known = frozenset(asked + left_out)
    # A compound that nobody wrote as one ("real-time") is no missing word: its parts stand for it.
    weights = {term: weight for term, weight in weights.items() if term in known or term in terms.words}
    words, vectors = _ranks(by_words), _ranks(by_vector)
    words_known = known.intersection(terms.words)
    candidates = tuple(
        _candidate(row, words_known, weights, cosines.get(row.id), words.get(row.id), vectors.get(row.id))
        for row in reader.get(ids)
    )
    explanation = {
        "terms": dict(frequencies.by_term),
        "left_out": list(left_out),
        "chunks": frequencies.total,
        "keyword_candidates": len(by_words),
        "vector_candidates": len(by_vector),
        "lane": lane.fingerprint if lane is not None else None,
        **reader.notes(),
    }
    known_mass = sum(weights[term] for term in known)
    return Recall(candidates, sum(weights.values()), known_mass, frequencies.total, explanation)


def affordable(frequencies: Frequencies, budget: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Terms that occur, rarest first, while their postings fit the budget; and those left out.

    The rarest is always kept. Common words are the slow part of an OR query and say the least.
    """
    occurring = sorted((count, term) for term, count in frequencies.by_term.items() if count)
    asked: list[str] = []
    spent = 0
    for count, term in occurring:
        if asked and spent + count > budget:
            break
        asked.append(term)
        spent += count
    return tuple(asked), tuple(term for _, term in occurring[len(asked) :])


def idf(frequencies: Frequencies) -> dict[str, float]:
    """ln(1 + (N - df + ½) / (df + ½)) per term: the BM25 weight that is never negative."""
    return {
        term: log(1 + (frequencies.total - count + 0.5) / (count + 0.5)) for term, count in frequencies.by_term.items()
    }


def _ranks(hits: Sequence[Scored]) -> dict[int, tuple[int, float]]:
    return {hit.id: (rank, hit.score) for rank, hit in enumerate(hits, 1)}


def _candidate(
    row: ChunkRow,
    words_known: frozenset[str],
    weights: Mapping[str, float],
    cosine: float | None,
    by_words: tuple[int, float] | None,
    by_vector: tuple[int, float] | None,
) -> Candidate:
    # Looking a few terms up in the joined tokens is several times cheaper than making a set of all of them.
    tokens = f" {row.heading_words} {row.words} "
    held = [term for term in weights if f" {term} " in tokens]
    total = sum(weights.values())
    return Candidate(
        row,
        cosine,
        by_words[1] if by_words else None,
        sum(weights[term] for term in held) / total if total > 0 else 0.0,
        bool(words_known) and words_known.issubset(held),
        by_vector[0] if by_vector else None,
        by_words[0] if by_words else None,
    )
