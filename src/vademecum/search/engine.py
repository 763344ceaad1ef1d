"""The funnel. Every stage is a pure step over candidates and can be switched off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from vademecum.ports import IndexBackend, IndexReader
from vademecum.rank import Query, Ranked, above_floor, decay, diversify, fuse, newer_first, seat, weigh
from vademecum.search.query_vector import Asked, QueryVector
from vademecum.search.recall import Recall, recall
from vademecum.settings import DecaySettings, KindSettings, MmrSettings, SearchSettings
from vademecum.text.query import QueryTerms, query_terms
from vademecum.types import Calibration, ChannelState, Hit, Lane, Trace, Where

if TYPE_CHECKING:
    from vademecum.types import Vector

#: Candidates per channel, and inputs of the diversity stage, as multiples of the number of results.
CANDIDATES, DIVERSITY = 4, 2
#: How often a query is embedded when lanes take turns meanwhile.
_TRIES = 3
_OFF = Asked(None, "off: search.vector_weight is 0")


@dataclass(frozen=True, slots=True)
class Request:
    """One search. ``where`` already holds the viewer's scopes; ``today`` is the day in the user's zone.

    ``vector_s`` is how long to wait for the query's vector, None: as long as the embedder takes.
    """

    query: str
    where: Where
    today: date
    search: SearchSettings
    decay: DecaySettings
    mmr: MmrSettings
    kinds: KindSettings = field(default_factory=KindSettings)
    vector_s: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Hits, best first, the state of each channel, how they came about, and what must be told besides."""

    hits: tuple[Hit, ...]
    channels: Mapping[str, ChannelState]
    explanation: Mapping[str, Any]
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Funnel:
    """What each stage of one search let through, best first.

    ``aged`` carries the weights of kinds and age; ``entered`` are those of them that diversity gets to see, newer notes
    before older ones that say the same; ``picked`` are the same in diversity's order.
    """

    terms: QueryTerms
    asked: Asked
    lane: Lane | None
    calibration: Calibration | None
    channels: Mapping[str, ChannelState]
    recalled: Recall
    fused: list[Ranked]
    kept: list[Ranked]
    aged: list[Ranked]
    entered: list[Ranked]
    picked: list[Ranked]
    chosen: list[Ranked]


def search(index: IndexBackend, query_vector: QueryVector, request: Request) -> Answer:
    """Run the funnel on one snapshot of the index. A channel that is absent or fails is named, never raised."""
    funnel = sift(index, query_vector, request)
    explanation = {
        **funnel.recalled.explanation,
        "fused": len(funnel.fused),
        "above_floor": len(funnel.kept),
        "returned": len(funnel.chosen),
        # Only where there was room for more: else they simply were not among the best.
        "sessions_left_out": min(request.search.max_results, len(funnel.kept)) - len(funnel.chosen),
    }
    notices = () if funnel.asked.notice is None else (funnel.asked.notice,)
    return Answer(tuple(_hit(item) for item in funnel.chosen), funnel.channels, explanation, notices)


def sift(index: IndexBackend, query_vector: QueryVector, request: Request) -> Funnel:
    """All stages of a search, each with what it let through."""
    weights, k = request.search, request.search.max_results
    terms, keyword_state = query_terms(request.query), "ok"
    if weights.text_weight == 0:
        terms, keyword_state = QueryTerms((), (), ()), "off: search.text_weight is 0"
    for tries_left in reversed(range(_TRIES)):
        asked = _OFF if weights.vector_weight == 0 else query_vector.embed(request.query, request.vector_s)
        with index.reader() as reader:
            serving = next((lane for lane in reader.lanes() if lane.state == "serving"), None)
            if tries_left and serving is not None and asked.space not in {None, serving.fingerprint}:
                query_vector.expect(serving)  # another lane took over since the query was embedded
                continue
            lane, vector_state = _lane(reader, serving, asked)
            recalled = recall(reader, terms, asked.vector, lane, request.where, CANDIDATES * k, weights.postings_budget)
            calibration = None if lane is None or asked.vector is None else _calibration(reader, lane, asked.vector)
            break
    query = Query(
        weights.vector_weight,
        weights.text_weight,
        calibration,
        recalled.mass,
        recalled.known_mass,
        recalled.chunks,
    )
    fused = fuse(recalled.candidates, weights.fusion, query)
    kept = above_floor(fused, weights.min_score)
    channels = {"keyword": keyword_state, "vector": vector_state}
    order = _order(kept, request, k)
    return Funnel(terms, asked, lane, calibration, channels, recalled, fused, kept, *order)


def _lane(reader: IndexReader, serving: Lane | None, asked: Asked) -> tuple[Lane | None, ChannelState]:
    """The lane to compare the query's vector with; None, and why, if there is none."""
    if asked.vector is None:
        return None, asked.state
    if serving is None or serving.fingerprint != asked.space:
        return None, "off: no text has been embedded with this model yet"
    state = reader.vector_state(serving)
    return (serving if state == "ok" else None), state


def _calibration(reader: IndexReader, lane: Lane, query: Vector) -> Calibration:
    """The lane's, but a question is often less like any text than the texts of one store are like each other.

    Then what is typical of the question counts, or the floor would hide what answers it.
    """
    typical = reader.typical_cosine(lane, query)
    return lane.calibration if typical is None else replace(lane.calibration, lo=min(lane.calibration.lo, typical))


def _order(kept: list[Ranked], request: Request, k: int) -> tuple[list[Ranked], ...]:
    """``aged``, ``entered``, ``picked`` and ``chosen``, see `Funnel`."""
    share = request.kinds.session_share
    aged = weigh(kept, request.kinds)
    if request.decay.enabled:
        aged = decay(aged, request.today, request.decay)
    entered = seat(aged, DIVERSITY * k, share)
    if request.decay.enabled:
        entered = newer_first(entered)
    picked = diversify(entered, len(entered), request.mmr.lambda_) if request.mmr.enabled else entered
    return aged, entered, picked, seat(picked, k, share)


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
