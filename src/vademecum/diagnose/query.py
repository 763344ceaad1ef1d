"""One search, with what became of every candidate, and why what was expected is not among the hits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from vademecum.diagnose.chunks import PageState, page_state
from vademecum.ports import IndexBackend, IndexReader
from vademecum.rank import Ranked
from vademecum.search import Funnel, QueryVector, Request, sift
from vademecum.search.engine import CANDIDATES, DIVERSITY
from vademecum.store.places import Places
from vademecum.store.scan import Scan
from vademecum.types import Calibration, ChannelState, ChunkRow, Kind, Where

#: So deep is looked for what was expected and was not among the candidates.
_DEPTH = 5000


@dataclass(frozen=True, slots=True)
class InspectedCandidate:
    """A chunk that a channel recalled.

    ``vector`` (cosine), ``bm25`` and ``keyword`` (coverage) are its evidence; a channel's rank, from 1, is None where
    that channel did not recall it. ``places`` is its place, from 1, after each stage that it passed. ``fate`` says
    where it ended: "hit 2", or what kept it out.
    """

    id: int
    path: str
    start_line: int
    end_line: int
    heading: tuple[str, ...]
    date: str | None
    kind: Kind
    vector: float | None
    vector_rank: int | None
    bm25: float | None
    keyword: float
    keyword_rank: int | None
    fused: float
    weight: float
    decay: float
    score: float
    places: Mapping[str, int]
    fate: str


@dataclass(frozen=True, slots=True)
class Expected:
    """What somebody expected to find: the chunks at ``path``, or at one of its lines. ``hit`` is its rank, from 1.

    ``reasons`` say, unless it is a hit, why not: one for each chunk, or one for the page.
    """

    path: str
    line: int | None
    hit: int | None
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InspectedQuery:
    """A search, stage by stage. ``terms`` count the chunks that hold each of the query's terms; ``left_out`` were too
    common to be asked for. ``stages`` count what each stage let through. ``candidates`` come hits first, then by
    relevance. ``calibration`` says which cosines were taken for a random text and for a strong match."""

    query: str
    terms: Mapping[str, int]
    left_out: tuple[str, ...]
    chunks: int
    channels: Mapping[str, ChannelState]
    lane: str | None
    calibration: Calibration | None
    stages: Mapping[str, int]
    candidates: tuple[InspectedCandidate, ...]
    notices: tuple[str, ...]
    expected: Expected | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """A page, spelled as on disk, or one of its lines, from 1."""

    path: str
    line: int | None = None


def inspect_query(
    index: IndexBackend,
    query_vector: QueryVector,
    request: Request,
    places: Places,
    scan: Callable[[], Scan],
    expect: Target | None = None,
    notices: Sequence[str] = (),
) -> InspectedQuery:
    """Search as `vademecum.search.search` does, and tell of all candidates.

    ``scan`` looks at the disk, if what is expected is not in the index. ``notices`` are handed on.
    """
    funnel = sift(index, query_vector, request)
    told = () if funnel.asked.notice is None else (funnel.asked.notice,)
    numbers = funnel.recalled.explanation
    stages = {
        "keyword": numbers["keyword_candidates"],
        "vector": numbers["vector_candidates"],
        **{name: len(items) for name, items in _stages(funnel).items()},
    }
    found = InspectedQuery(
        request.query,
        numbers["terms"],
        tuple(numbers["left_out"]),
        funnel.recalled.chunks,
        funnel.channels,
        None if funnel.lane is None else funnel.lane.fingerprint,
        funnel.calibration,
        stages,
        tuple(_candidates(funnel, request)),
        (*notices, *told),
    )
    if expect is None:
        return found
    return replace(
        found,
        expected=_Search(index, partial(page_state, index, places, scan), request, funnel, found).expected(expect),
    )


def _stages(funnel: Funnel) -> dict[str, list[Ranked]]:
    return {
        "fused": funnel.fused,
        "above_floor": funnel.kept,
        "aged": funnel.aged,
        "diversity": funnel.entered,
        "picked": funnel.picked,
        "hits": funnel.chosen,
    }


def _candidates(funnel: Funnel, request: Request) -> list[InspectedCandidate]:
    places: dict[int, dict[str, int]] = {}
    latest: dict[int, Ranked] = {}
    for name, items in _stages(funnel).items():
        for place, item in enumerate(items, 1):
            places.setdefault(item.candidate.row.id, {})[name] = place
            latest[item.candidate.row.id] = item
    fates = _Fates(funnel, request)
    order = sorted(latest, key=lambda i: (places[i].get("hits", len(latest) + 1), places[i]["fused"]))
    return [_told(latest[i], places[i], fates.of(latest[i], places[i])) for i in order]


def _told(item: Ranked, places: Mapping[str, int], fate: str) -> InspectedCandidate:
    candidate, row = item.candidate, item.candidate.row
    return InspectedCandidate(
        row.id,
        row.path,
        row.start_line,
        row.end_line,
        row.heading,
        row.date,
        row.kind,
        candidate.cosine,
        candidate.vector_rank,
        candidate.bm25,
        candidate.coverage,
        candidate.keyword_rank,
        item.fused,
        item.weight,
        item.decay,
        item.score,
        places,
        fate,
    )


class _Fates:
    """Says of each candidate where it ended."""

    def __init__(self, funnel: Funnel, request: Request) -> None:
        self._funnel = funnel
        self._request = request
        self._k = request.search.max_results

    def of(self, item: Ranked, places: Mapping[str, int]) -> str:
        if "hits" in places:
            return f"hit {places['hits']}"
        if "above_floor" not in places:
            return (
                f"below the floor: relevance {item.fused:.2f} is less than min_score {self._request.search.min_score:g}"
            )
        if item.candidate.row.kind == "session" and self._notes_behind(places):
            return "conversations already have the places that they may take"
        if "diversity" not in places:
            most = DIVERSITY * self._k
            return f"place {places['aged']} by relevance, kind and age: only the first {most} go on to diversity"
        if places["diversity"] <= self._k and self._request.mmr.enabled:
            return f"pushed out by diversity from place {places['diversity']}: {self._likeness(item)}"
        return f"place {places['picked']}: only the first {self._k} are returned"

    def _notes_behind(self, places: Mapping[str, int]) -> bool:
        """Whether something that stood behind it was taken all the same."""
        stage, taken = ("picked", self._funnel.chosen) if "picked" in places else ("aged", self._funnel.entered)
        order = {item.candidate.row.id: n for n, item in enumerate(_stages(self._funnel)[stage], 1)}
        return any(order[item.candidate.row.id] > places[stage] for item in taken)

    def _likeness(self, item: Ranked) -> str:
        from vademecum import kernels

        hits = [hit.candidate for hit in self._funnel.chosen]
        sets = kernels.token_sets([item.candidate.row.words, *(hit.row.words for hit in hits)])
        alike = [kernels.jaccard(sets, 0, place) for place in range(1, len(hits) + 1)]
        nearest = max(range(len(hits)), key=alike.__getitem__)
        row = hits[nearest].row
        return f"it shares {alike[nearest]:.0%} of its words with {row.path}:{row.start_line}-{row.end_line}"


class _Search:
    """Looks for what was expected, from the disk to the last stage."""

    def __init__(
        self,
        index: IndexBackend,
        state: Callable[[str], tuple[PageState, str]],
        request: Request,
        funnel: Funnel,
        found: InspectedQuery,
    ) -> None:
        self._index = index
        self._state = state
        self._request = request
        self._funnel = funnel
        self._found = {candidate.id: candidate for candidate in found.candidates}

    def expected(self, target: Target) -> Expected:
        """The rank of the best chunk of the target, or a reason for each chunk."""
        with self._index.reader() as reader:
            rows = reader.of_source(target.path)
            wanted = [row for row in rows if target.line is None or row.start_line <= target.line <= row.end_line]
            if not wanted:
                return Expected(target.path, target.line, None, (self._not_indexed(target, rows),))
            fates = {row: self._found.get(row.id) for row in wanted}
            ranks = [found.places["hits"] for found in fates.values() if found and "hits" in found.places]
            if ranks:
                return Expected(target.path, target.line, min(ranks), ())
            where = self._request.where
            permitted = reader.permitted([row.id for row in wanted], where)
            reasons = [
                f"{row.path}:{row.start_line}-{row.end_line}: "
                + (found.fate if found else self._not_recalled(reader, row, where, row.id in permitted))
                for row, found in fates.items()
            ]
        behind = self._state(target.path)
        return Expected(target.path, target.line, None, (*([behind[1]] if behind[1] else []), *reasons))

    def _not_indexed(self, target: Target, rows: Sequence[ChunkRow]) -> str:
        state, why = self._state(target.path)
        if state != "indexed":
            return f"not indexed: {why}"
        if not rows:
            return f"{target.path}: is indexed, and holds no text"
        return f"{target.path}:{target.line}: no chunk holds this line; it is blank, front matter or beyond the end"

    def _not_recalled(self, reader: IndexReader, row: ChunkRow, where: Where, permitted: bool) -> str:
        if not permitted:
            broken = [c for c in where if row.id not in reader.permitted([row.id], (c,))]
            return "kept out by " + " and ".join(f"the filter {c.field} {c.op} {_shown(c.value)}" for c in broken)
        return f"no candidate: {self._keyword(reader, row, where)}; {self._vector(reader, row, where)}"

    def _keyword(self, reader: IndexReader, row: ChunkRow, where: Where) -> str:
        numbers = self._funnel.recalled.explanation
        tokens = set(f"{row.heading_words} {row.words}".split())
        held = [term for term in numbers["terms"] if term in tokens]
        asked = [term for term, count in numbers["terms"].items() if count and term not in numbers["left_out"]]
        if self._funnel.channels["keyword"] != "ok":
            return f"keyword is {self._funnel.channels['keyword']}"
        if not held:
            missing = ", ".join(self._funnel.terms.words)
            return f"it holds none of the query's words ({missing})" if missing else "the query has no words"
        if not set(held) & set(asked):
            return f"of the query's words it holds only {', '.join(held)}, too common to be asked for"
        best = [hit.id for hit in reader.search_keyword(asked, _DEPTH, where)]
        most = CANDIDATES * self._request.search.max_results
        rank = f"place {best.index(row.id) + 1}" if row.id in best else f"a place beyond {_DEPTH}"
        return f"by keyword it has {rank} (it holds {', '.join(held)}), and {most} are looked at"

    def _vector(self, reader: IndexReader, row: ChunkRow, where: Where) -> str:
        lane, vector = self._funnel.lane, self._funnel.asked.vector
        if lane is None or vector is None:
            return f"vector is {self._funnel.channels['vector']}"
        cosine = reader.score_vectors(lane, [row.id], vector).get(row.id)
        if cosine is None:
            return "it has no vector yet"
        best = [hit.id for hit in reader.search_vector(lane, vector, _DEPTH, where)]
        most = CANDIDATES * self._request.search.max_results
        rank = f"place {best.index(row.id) + 1}" if row.id in best else f"a place beyond {_DEPTH}"
        return f"by vector it has {rank} (cosine {cosine:.2f}), and {most} are looked at"


def _shown(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else " or ".join(value)
