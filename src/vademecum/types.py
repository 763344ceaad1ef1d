"""Frozen records that pass between rooms. No behaviour beyond what a record can say about itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args, overload

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    #: One embedding, float32, shape (dims,), unit length.
    Vector: TypeAlias = NDArray[np.float32]
    #: A batch of embeddings, float32, shape (n, dims), C order, rows of unit length.
    Matrix: TypeAlias = NDArray[np.float32]

Kind: TypeAlias = Literal["memory", "daily", "knowledge", "session"]
KINDS: tuple[Kind, ...] = ("memory", "daily", "knowledge", "session")

#: "shared", "user:<id>" or "agent:<id>".
Scope: TypeAlias = str
SHARED: Scope = "shared"

FinishReason: TypeAlias = Literal["stop", "length"]

#: On whose behalf a line was written; from the most to the least trusted.
Origin: TypeAlias = Literal["person", "agent", "flush", "dream", "import"]
ORIGINS: tuple[Origin, ...] = get_args(Origin)

#: State of one search channel: "ok", "off: why" or "failed: why".
ChannelState: TypeAlias = str


@dataclass(frozen=True, slots=True)
class Viewer:
    """For whom a call is made. The ids come from the host program, never from a model."""

    user: str | None = None
    agent: str | None = None

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Scopes this viewer may read: the shared one and its own."""
        own = [f"user:{self.user}"] if self.user is not None else []
        if self.agent is not None:
            own.append(f"agent:{self.agent}")
        return (SHARED, *own)


@dataclass(frozen=True, slots=True)
class Source:
    """A document as the index knows it.

    ``path`` is relative to the root with "/" separators, exactly as found on disk. ``date`` is the ISO day from
    which the document fades, None for evergreen ones. ``stat`` is an opaque stamp for "has the file been
    touched?", ``fingerprint`` the SHA-256 of the content. ``settled`` is False when the file was changed so
    shortly before it was read that an equal stamp proves nothing.
    """

    path: str
    scope: Scope
    kind: Kind
    date: str | None
    stat: str
    fingerprint: str
    settled: bool = True
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document: an exact slice of its text.

    Lines are 1-based and inclusive. ``heading`` is the path of headings that the chunk stands under, outermost
    first, its own section included. ``hash`` is the SHA-256 of what is embedded. ``occurrence`` counts equal
    (heading, hash) pairs within one document from 0. ``words`` and ``heading_words`` are the index tokens of text
    and heading path, joined by single spaces.
    """

    text: str
    start_line: int
    end_line: int
    heading: tuple[str, ...]
    hash: bytes
    occurrence: int
    words: str
    heading_words: str
    date: str | None = None


class ChunkRow(NamedTuple):
    """A chunk as read back from the index. A tuple, because each search makes dozens."""

    id: int
    path: str
    scope: Scope
    kind: Kind
    date: str | None
    heading: tuple[str, ...]
    start_line: int
    end_line: int
    text: str
    words: str
    heading_words: str


class Scored(NamedTuple):
    """A chunk id with a channel's score; higher is better."""

    id: int
    score: float


Operator: TypeAlias = Literal["eq", "ne", "in", "lt", "le", "gt", "ge", "prefix", "glob", "has"]
Field: TypeAlias = Literal["scope", "kind", "date", "path", "heading", "tag"]


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison; a filter is a tuple of them, all of which must hold.

    A missing value (an evergreen chunk's date) satisfies no comparison. ``in`` takes a tuple; ``has`` asks whether
    a list field (tag, heading) contains the value, headings in any letter case; ``glob`` is shell style, where ``*``
    also crosses "/", and takes one pattern or a tuple of alternatives.
    """

    field: Field
    op: Operator
    value: str | tuple[str, ...]


Where: TypeAlias = tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Calibration:
    """What cosines of one model mean: ``lo`` is typical of random pairs, ``hi`` of a strong match."""

    lo: float
    hi: float


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Names a vector space. Vectors of different fingerprints are never compared."""

    provider: str
    model: str
    dims: int
    base_url: str = ""
    weights: str = ""

    @property
    def key(self) -> str:
        """One line that is equal if and only if the fingerprints are."""
        return f"{self.provider}|{self.model}|{self.dims}|{self.base_url}|{self.weights}|unit"

    @classmethod
    def of(cls, key: str) -> Fingerprint | None:
        """The fingerprint with this key; None for a text that is no key."""
        parts = key.split("|")
        if len(parts) < 6 or not parts[-4].isdecimal():
            return None
        return cls(parts[0], "|".join(parts[1:-4]), int(parts[-4]), parts[-3], parts[-2])


#: "serving" answers queries, one lane at most; "building" is to replace it when complete; "kept" served before.
LaneState: TypeAlias = Literal["serving", "building", "kept"]


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A language model's answer.

    ``finish_reason``: "stop" when the model had said all it wanted, "length" when it was cut off, in which case
    ``text`` ends in the middle of something. ``tokens`` counts prompt and answer, ``answer_tokens`` the answer alone;
    both are the server's own figures, 0 where it gives none.
    """

    text: str
    finish_reason: FinishReason = "stop"
    tokens: int = 0
    answer_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Lane:
    """One model's vectors in the index. ``measured``: of how many vectors ``calibration`` was taken, 0 for a prior."""

    id: int
    fingerprint: str
    dims: int
    calibration: Calibration
    state: LaneState = "serving"
    measured: int = 0


@dataclass(frozen=True, slots=True)
class MissingText:
    """A text that has no vector in a lane yet, and one place where it stands."""

    hash: bytes
    heading: tuple[str, ...]
    text: str
    path: str


@dataclass(frozen=True, slots=True)
class Embedded:
    """What came of the texts from position ``first`` on: one unit row each, or for one text the reason why it has none.

    ``note`` is that reason, or what is to be told of a text that has a vector. ``lasting``: it would be refused again.
    """

    first: int
    vectors: Matrix | None
    note: str = ""
    lasting: bool = False


@dataclass(frozen=True, slots=True)
class Frequencies:
    """``total`` chunks in the index and, per term, how many of them contain it."""

    total: int
    by_term: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """What the rows of an index depend on; another value means that it must be built anew."""

    tokenizer: str
    chunker: str


@dataclass(frozen=True, slots=True)
class Health:
    """What an index says of itself. By lane: ``vectors`` counts the live chunks that have a vector, ``ann`` tells of
    the graph of neighbours ("off: why", "building: …", "ready: …", "refused: why"). ``lanes`` in order of creation."""

    location: str
    sources: int
    chunks: int
    vectors: Mapping[str, int]
    generation: int
    full_text: str
    problems: tuple[str, ...] = ()
    ann: Mapping[str, str] = field(default_factory=dict)
    lanes: tuple[Lane, ...] = ()


#: "wrong" can be mended or lived with, "note" is worth knowing, "skipped" could not be looked at.
FindingState: TypeAlias = Literal["ok", "note", "skipped", "fixed", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found: ``what`` about ``where`` (a file, a lane, a page), and the way out, which a "fixed" one has
    taken."""

    check: str
    state: FindingState
    where: str
    what: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Collected:
    """What a collection removed, or would remove (``dry_run``).

    ``lanes`` are fingerprints; ``texts`` counts texts that stood nowhere any more, ``vectors`` all vectors that went.
    ``files`` are graphs and damaged databases, relative to the private folder. ``freed`` bytes were given back to the
    file system; 0 if only room inside the file was won. ``kept`` pairs what might have gone with why it stays.
    """

    dry_run: bool
    lanes: tuple[str, ...] = ()
    texts: int = 0
    vectors: int = 0
    files: tuple[str, ...] = ()
    freed: int = 0
    kept: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """Why a hit is where it is.

    ``vector``: cosine with the query; ``keyword``: share of the query's idf mass that the chunk holds; ``fused``:
    relevance in [0, 1]; ``weight`` and ``decay``: the factors applied for its kind and its age; ``mmr``: position
    (from 1) in which diversity picked it, None when that stage was off; ``channels``: which channels recalled it.
    """

    vector: float | None
    keyword: float | None
    fused: float
    decay: float
    mmr: int | None
    channels: tuple[str, ...]
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result. Lines are 1-based and inclusive; ``score`` is in [0, 1], higher is better.

    ``origin`` is on whose behalf its lines were written, the least trusted of them.
    """

    path: str
    start_line: int
    end_line: int
    heading: tuple[str, ...]
    date: str | None
    score: float
    text: str
    kind: Kind
    scope: Scope
    trace: Trace
    origin: Origin = "person"


@dataclass(frozen=True, slots=True)
class SearchResult(Sequence[Hit]):
    """The hits in order, and what must be known to judge them.

    ``fresh`` is False when changes on disk were not yet in the index. ``disabled`` gives the reason when search
    could not run at all. ``notices`` name files that could not be indexed.
    """

    query: str
    hits: tuple[Hit, ...]
    fresh: bool
    channels: Mapping[str, ChannelState]
    elapsed_ms: float
    notices: tuple[str, ...] = ()
    disabled: str | None = None
    explanation: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[index]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of one file. ``end_line`` is 0 for an empty file; ``truncated`` says that the size cap cut the text.

    ``hash`` is the SHA-256 of the whole file: what `Memory.edit` may be told to expect. ``origin`` is on whose behalf
    the lines were written, the least trusted of them.
    """

    path: str
    start_line: int
    end_line: int
    total_lines: int
    text: str
    truncated: bool = False
    hash: str = ""
    origin: Origin = "person"


@dataclass(frozen=True, slots=True)
class Context:
    """What an agent should know at the start of a session.

    ``cut`` names what did not fit ("MEMORY.md: 3 of 9 sections"); ``tokens`` is the estimate for ``text``.
    """

    text: str
    tokens: int
    files: tuple[str, ...]
    cut: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a sync did.

    ``failed`` pairs a path (or "embedding") with the reason; failures are retried next time. ``notices`` pair a path
    with what is to be told of it.
    """

    added: int = 0
    changed: int = 0
    removed: int = 0
    kept: int = 0
    chunks: int = 0
    embedded: int = 0
    pending: int = 0
    failed: tuple[tuple[str, str], ...] = ()
    notices: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class WatchRound:
    """What a watcher has to tell: something was found, done, went wrong or is to be known.

    ``cause``: "start", "change" (the system told of one), "look" (a regular one) or "vectors" (texts were embedded).
    ``mode``: "events" or "polling". ``error`` is why it failed; it is tried again. ``notices`` are about watching.
    """

    cause: Literal["start", "change", "look", "vectors"]
    mode: Literal["events", "polling"]
    report: SyncReport
    elapsed_ms: float
    error: str | None = None
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """Where a remembered text now stands. Lines are 1-based and inclusive.

    ``existed``: it stood there already, word for word, and nothing was written. ``entry`` is the number of the change
    in the log.
    """

    path: str
    start_line: int
    end_line: int
    existed: bool = False
    entry: int | None = field(default=None, compare=False)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Edited:
    """What an edit did: the lines (from 1) at which the new text now stands, the content hash of the page, and the
    number of the change in the log, None if nothing had to be written."""

    path: str
    lines: tuple[int, ...]
    hash: str
    entry: int | None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One change of a page, as the journal has it.

    ``at`` is a Unix time. ``before`` and ``after`` are the SHA-256 of the page's bytes, None where there was or is no
    page; ``moved_from`` is its path before it was moved, ``undoes`` the entry that this one took back. Entries of one
    operation have the same ``batch``, and are taken back together.
    """

    id: int
    at: float
    by: Origin
    why: str
    path: str
    moved_from: str | None
    undoes: int | None
    before: str | None
    after: str | None
    batch: int | None = None


FlushSource: TypeAlias = Literal["model", "rules", "nothing", "known", "failed"]


@dataclass(frozen=True, slots=True)
class FlushReport:
    """What came of a flush.

    ``items`` are what was written, at ``written``; a host may put them back into the live context, as `summary`.
    ``messages`` counts those that no flush had dealt with before. ``source``: "model"; "rules" when there was no model
    to ask; "nothing" when the conversation held nothing new; "known" when every message had been dealt with, and
    ``items`` are what was written then; "failed" when it could not be written and is kept for another time.
    """

    written: Written | None
    items: tuple[str, ...]
    messages: int
    source: FlushSource
    notices: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The items as a Markdown list, "" for none."""
        return "\n".join(f"- {item}" for item in self.items)


@dataclass(frozen=True, slots=True)
class Diff:
    """A change and what it did to the page, as ``diff -u`` shows it; "" for a page that only moved."""

    entry: LogEntry
    text: str


DreamState: TypeAlias = Literal[
    "done", "proposed", "nothing new", "done already", "off", "no model", "busy", "refused", "failed"
]


@dataclass(frozen=True, slots=True)
class DreamReport:
    """What came of a dream.

    ``state``: "done"; "proposed" for a dry run; "refused" when the model's answer must not be used, which ``reason``
    explains and ``proposal`` keeps; "failed" when there was no answer; else why nothing was tried. ``added`` pairs new
    items with where they come from, ``dropped`` old ones with the reason. ``diff`` is unified.
    """

    state: DreamState
    reason: str = ""
    added: tuple[tuple[str, str], ...] = ()
    dropped: tuple[tuple[str, str], ...] = ()
    left_out: tuple[str, ...] = ()
    diff: str = ""
    diary: str | None = None
    proposal: str | None = None
    calls: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Status:
    """What `vademecum status` shows. ``pending`` counts files whose change is not in the index yet.

    ``embedding`` is the embedder's fingerprint or "off: why"; ``missing_vectors`` counts texts that wait for one.
    ``index`` is None when the index cannot be used, and ``disabled`` then says why.
    """

    version: str
    root: str
    layout: str
    state: str
    today: str
    kernels: str
    embedding: str
    files_on_disk: int
    pending: int
    missing_vectors: int
    index: Health | None
    disabled: str | None
    notices: tuple[str, ...]
