"""The funnel. Every stage is a pure step over candidates and can be switched off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from vademecum.ports import IndexBackend, IndexReader
from vademecum.rank import Query, Ranked, above_floor, decay, diversify, fuse, newer_first, seat, weigh
from vademecum.search.query_vector import QueryVector
from vademecum.search.recall import recall
from vademecum.settings import DecaySettings, KindSettings, MmrSettings, SearchSettings
from vademecum.text.query import QueryTerms, query_terms
from vademecum.types import ChannelState, Fingerprint, Hit, Lane, Trace, Where

#: Candidates per channel, and inputs of the diversity stage, as multiples of the number of results.
CANDIDATES, DIVERSITY = 4, 2


@dataclass(frozen=True, slots=True)
class Request:
    """One search. ``where`` already holds the viewer's scopes; ``today`` is the day in the user's zone."""

    query: str
    where: Where
    today: date
    search: SearchSettings
    decay: DecaySettings
    mmr: MmrSettings
    kinds: KindSettings = field(default_factory=KindSettings)


@dataclass(frozen=True, slots=True)
class Answer:
    """Hits, best first, the state of each channel, and how they came about."""

    hits: tuple[Hit, ...]
    channels: Mapping[str, ChannelState]
    explanation: Mapping[str, Any]


def search(index: IndexBackend, query_vector: QueryVector, request: Request) -> Answer:
    """Run the funnel on one snapshot of the index. A channel that is absent or fails is named, never raised."""
    weights, k = request.search, request.search.max_results
    terms, keyword_state = query_terms(request.query), "ok"
    if weights.text_weight == 0:
        terms, keyword_state = QueryTerms((), (), ()), "off: search.text_weight is 0"
    if weights.vector_weight == 0:
        vector, vector_state = None, "off: search.vector_weight is 0"
    else:
        vector, vector_state = query_vector.embed(request.query)
    with index.reader() as reader:
        lane: Lane | None = None
        if vector is not None:
            lane, vector_state = _lane(reader, query_vector.fingerprint())
        recalled = recall(reader, terms, vector, lane, request.where, CANDIDATES * k, weights.postings_budget)
    fused = fuse(
        recalled.candidates,
        weights.fusion,
        Query(
            weights.vector_weight,
            weights.text_weight,
            lane.calibration if lane else None,
            recalled.mass,
            recalled.known_mass,
            recalled.chunks,
        ),
    )
    kept = above_floor(fused, weights.min_score)
    chosen = _order(kept, request, k)
    explanation = {
        **recalled.explanation,
        "fused": len(fused),
        "above_floor": len(kept),
        "returned": len(chosen),
        # Only where there was room for more: else they simply were not among the best.
        "sessions_left_out": min(k, len(kept)) - len(chosen),
    }
    return Answer(tuple(_hit(item) for item in chosen), {"keyword": keyword_state, "vector": vector_state}, explanation)


def _lane(reader: IndexReader, fingerprint: Fingerprint | None) -> tuple[Lane | None, ChannelState]:
    for lane in reader.lanes():
        if fingerprint is not None and lane.fingerprint == fingerprint.key:
            state = reader.vector_state(lane)
            return (lane if state == "ok" else None), state
    return None, "off: no text has been embedded with this model yet"


def _order(kept: list[Ranked], request: Request, k: int) -> list[Ranked]:
    share = request.kinds.session_share
    best = weigh(kept, request.kinds)
    if request.decay.enabled:
        best = decay(best, request.today, request.decay)
    best = seat(best, DIVERSITY * k, share)
    if request.decay.enabled:
        best = newer_first(best)
    if request.mmr.enabled:
        best = diversify(best, len(best), request.mmr.lambda_)
    return seat(best, k, share)


def _hit(item: Ranked) -> Hit:
    candidate = item.candidate
    row = candidate.row
    recalled_by = (("vector", candidate.vector_rank), ("keyword", candidate.keyword_rank))
    trace = Trace(
        candidate.cosine,
        candidate.coverage,
        item.fused,
        item.decay,
        item.position,
        tuple(channel for channel, rank in recalled_by if rank is not None),
        item.weight,
    )
    return Hit(
        row.path,
        row.start_line,
        row.end_line,
        row.heading,
        row.date,
        item.score,
        row.text,
        row.kind,
        row.scope,
        trace,
    )
