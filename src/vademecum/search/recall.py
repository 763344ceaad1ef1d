"""Recall: candidates from both channels, each with both channels' evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import compress, repeat
from math import log
from operator import add
from typing import TYPE_CHECKING, Any, TypeAlias

from vademecum.ports import IndexReader
from vademecum.rank import Candidate
from vademecum.text.query import QueryTerms
from vademecum.types import ChunkRow, Condition, Frequencies, Lane, Scored, Where

if TYPE_CHECKING:
    from vademecum.types import Vector


#: A search of one channel under a filter, best first.
Channel: TypeAlias = Callable[[Where], list[Scored]]

#: How many times as many as wanted are looked at where common words were left out: on 100,000 chunks .91 (English) and
#: .95 (Chinese) of what all words together would have found best are then among them; with 1 it is .68 and .76.
_DEEPER = 8
#: In smaller memories fewer postings decide: of 10,000 chunks, 2,000 find .99 of what 8,000 do, in half the time.
_LEAST_BUDGET, _BUDGET_SHARE = 2_000, 5
_NO_SESSION = Condition("kind", "ne", "session")


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

    The vector channel takes part if both ``vector`` and ``lane`` are given. Where conversations are among the ``k``
    best of a channel, its ``k`` best of all else are candidates as well: however much was said, no note is crowded out.
    """
    from vademecum import kernels

    # What a word is worth depends on what the viewer may read, not on this query's other filters.
    frequencies = reader.document_frequencies(terms.terms, tuple(c for c in where if c.field == "scope"))
    budget = min(postings_budget, max(_LEAST_BUDGET, frequencies.total // _BUDGET_SHARE))
    asked, left_out = affordable(frequencies, budget)
    common = bm25_idf(frequencies, left_out)
    (by_words, by_vector), rows = _best(
        reader,
        (
            lambda where: by_word(reader, asked, common, terms.fallback, k, where),
            lambda where: [] if lane is None or vector is None else list(reader.search_vector(lane, vector, k, where)),
        ),
        k,
        where,
    )
    ids = sorted(rows)
    cosines = {hit.id: hit.score for hit in by_vector}
    if lane is not None and vector is not None:
        cosines.update(reader.score_vectors(lane, [i for i in ids if i not in cosines], vector))
    weights = idf(frequencies)
    known = frozenset(asked + left_out)
    # A compound that nobody wrote as one ("real-time") is no missing word: its parts stand for it.
    weights = {term: weight for term, weight in weights.items() if term in known or term in terms.words}
    words, vectors = _ranks(by_words), _ranks(by_vector)
    words_known = known.intersection(terms.words)
    mass = _total(weights.values())
    held = kernels.held([f"{rows[i].heading_words} {rows[i].words}" for i in ids], [*weights])
    needed = bytes(term in words_known for term in weights)
    candidates = tuple(
        Candidate(
            rows[i],
            cosines.get(i),
            words[i][1] if i in words else None,
            _total(compress(weights.values(), flags)) / mass if mass > 0 else 0.0,
            bool(words_known) and all(compress(flags, needed)),
            vectors[i][0] if i in vectors else None,
            words[i][0] if i in words else None,
        )
        for i, flags in zip(ids, held, strict=True)
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
    known_mass = _total(weights[term] for term in weights if term in known)
    return Recall(candidates, mass, known_mass, frequencies.total, explanation)


def by_word(
    reader: IndexReader,
    asked: Sequence[str],
    common: Mapping[str, float],
    fallback: Sequence[str],
    k: int,
    where: Where,
) -> list[Scored]:
    """The ``k`` best by the terms ``asked`` and, among what holds any of them, by the ``common`` ones left out.

    ``common`` maps each term to its idf. Where fewer than ``k`` are found, the best by ``fallback`` as well come behind
    them.
    """
    best = list(reader.search_keyword(asked, _DEEPER * k if common else k, where))
    if common and best:
        best = _lifted(reader, best, common, k)
    if len(best) < k and fallback:
        found = {hit.id for hit in best}
        more = reader.search_keyword((*asked, *fallback), k, where)
        best += [hit for hit in more if hit.id not in found][: k - len(best)]
    return best


def _lifted(reader: IndexReader, best: Sequence[Scored], common: Mapping[str, float], k: int) -> list[Scored]:
    """The ``k`` best once each score has what the common terms add; ``best`` is best first."""
    bar = best[min(k, len(best)) - 1].score - _total(map(_bm25, common.values(), repeat(255)))
    near = [hit for hit in best if hit.score >= bar]
    held = reader.held([hit.id for hit in near], [*common])
    lifted = [Scored(hit.id, hit.score + _total(map(_bm25, common.values(), held[hit.id]))) for hit in near]
    return sorted(lifted, key=lambda hit: (-hit.score, hit.id))[:k]


def _bm25(weight: float, times: int) -> float:
    """What BM25 gives a term of this idf that stands so often in a chunk of average length; its k1 is 1.2."""
    return weight * times * 2.2 / (times + 1.2)


def _best(
    reader: IndexReader, channels: Sequence[Channel], k: int, where: Where
) -> tuple[list[list[Scored]], dict[int, ChunkRow]]:
    """Per channel its ``k`` best, behind them the rest of its ``k`` best notes where conversations took places."""
    found = [channel(where) for channel in channels]
    rows = _rows(reader, found, {})
    for channel, best in zip(channels, found, strict=True):
        known = {hit.id for hit in best}
        if len(best) >= k and any(rows[i].kind == "session" for i in known & rows.keys()):
            best += [hit for hit in channel((*where, _NO_SESSION)) if hit.id not in known]
    return found, rows | _rows(reader, found, rows)


def _rows(reader: IndexReader, found: Sequence[Sequence[Scored]], known: Mapping[int, ChunkRow]) -> dict[int, ChunkRow]:
    missing = sorted({hit.id for best in found for hit in best} - known.keys())
    return {row.id: row for row in reader.get(missing)} if missing else {}


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


def bm25_idf(frequencies: Frequencies, terms: Iterable[str]) -> dict[str, float]:
    """ln((N - df + ½) / (df + ½)) for those of the terms for which it is above 0, as BM25 has it."""
    counts = {term: frequencies.by_term[term] + 0.5 for term in terms}
    return {term: log(odds) for term, count in counts.items() if (odds := (frequencies.total + 1 - count) / count) > 1}


def idf(frequencies: Frequencies) -> dict[str, float]:
    """ln(1 + (N - df + ½) / (df + ½)) per term: the BM25 weight that is never negative."""
    return {
        term: log(1 + (frequencies.total - count + 0.5) / (count + 0.5)) for term, count in frequencies.by_term.items()
    }


def _ranks(hits: Sequence[Scored]) -> dict[int, tuple[int, float]]:
    return {hit.id: (rank, hit.score) for rank, hit in enumerate(hits, 1)}


def _total(values: Iterable[float]) -> float:
    """From left to right: newer Pythons' own sum rounds in another way, and results must not depend on the version."""
    return reduce(add, values, 0.0)
