"""Protocols at which implementations are exchanged: the index, and models of vectors and of language."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from vademecum.types import (
    Calibration,
    ChatReply,
    Chunk,
    ChunkRow,
    Collected,
    Finding,
    Fingerprint,
    Frequencies,
    Health,
    Lane,
    MissingText,
    Scored,
    Source,
    Where,
)

if TYPE_CHECKING:
    from vademecum.types import Matrix, Vector


class IndexReader(Protocol):
    """One consistent snapshot of an index. All reads of one search go through one reader."""

    def generation(self) -> int:
        """Grows with every committed change of sources."""
        ...

    def lanes(self) -> Sequence[Lane]:
        """All lanes in order of creation."""
        ...

    def vector_state(self, lane: Lane) -> str:
        """ "ok", or "off: why" when the lane's vectors cannot be used with this index."""
        ...

    def notes(self) -> Mapping[str, str]:
        """How the reads of this snapshot were made so far, for the explanation of a search."""
        ...

    def search_keyword(self, terms: Sequence[str], k: int, where: Where) -> Sequence[Scored]:
        """The k best chunks that contain at least one term, by BM25 (greater is better), ties by id."""
        ...

    def search_vector(self, lane: Lane, query: Vector, k: int, where: Where) -> Sequence[Scored]:
        """The k best chunks by cosine, ties by id. Chunks that share a text are all candidates."""
        ...

    def score_vectors(self, lane: Lane, ids: Sequence[int], query: Vector) -> Mapping[int, float]:
        """Cosine of the given chunks; chunks without a vector are left out."""
        ...

    def typical_cosine(self, lane: Lane, query: Vector) -> float | None:
        """The median cosine of the query with texts of the lane, as good as random; None if that cannot be told."""
        ...

    def document_frequencies(self, terms: Sequence[str], where: Where) -> Frequencies:
        """How many of the chunks that meet ``where`` contain each term, and how many there are."""
        ...

    def get(self, ids: Sequence[int]) -> Sequence[ChunkRow]:
        """The rows in the order of ``ids``; ids that do not exist are left out."""
        ...

    def vectors_of(self, lane: Lane, ids: Sequence[int]) -> Mapping[int, Vector]:
        """The vectors of the given chunks; chunks without one are left out."""
        ...

    def held(self, ids: Sequence[int], terms: Sequence[str]) -> Mapping[int, bytes]:
        """For each chunk that exists a byte for each term: how often text and heading hold it, 255 at most."""
        ...

    def of_source(self, path: str) -> Sequence[ChunkRow]:
        """All rows of one source, in the order of its lines."""
        ...

    def permitted(self, ids: Sequence[int], where: Where) -> frozenset[int]:
        """Those of the given chunks that meet ``where``."""
        ...


class IndexBackend(Protocol):
    """A whole index. The unit of writing is a source, replaced atomically; tokens and not strings cross it.

    Safe to share between threads. Writers queue; readers are never blocked.
    """

    def reader(self) -> AbstractContextManager[IndexReader]:
        """A snapshot, released when the context ends."""
        ...

    def fingerprints(self) -> Mapping[str, Source]:
        """Every source in the index, by path."""
        ...

    def replace_source(self, source: Source, chunks: Sequence[Chunk], first: int = 1, until: int | None = None) -> None:
        """Make ``chunks`` the only rows of the source, in one transaction. Unchanged chunks keep their ids.

        With ``first`` and ``until``: the only rows that start at line ``first`` or later and before ``until`` (None: to
        the end). Other rows of the source stay as they are.
        """
        ...

    def touch(self, sources: Sequence[Source]) -> None:
        """Record new stamps for sources whose content did not change."""
        ...

    def move(self, paths: Mapping[str, str]) -> None:
        """Call each source by another path, unless a source has that; its rows stay as they are. One transaction."""
        ...

    def delete(self, paths: Collection[str]) -> int:
        """Remove sources with all their rows; returns how many existed."""
        ...

    def lane(self, fingerprint: Fingerprint, prior: Calibration) -> Lane:
        """The lane of this fingerprint, created with ``prior`` if it is new; it serves if none does yet."""
        ...

    def serve(self, lane: Lane) -> None:
        """Let the lane answer in the place of the one that did: in one step, for all processes, for good."""
        ...

    def calibrate(self, lane: Lane) -> None:
        """Measure what the lane's cosines mean, when it has vectors enough, and when there are many more of them."""
        ...

    def missing_vectors(self, lane: Lane, limit: int) -> Sequence[MissingText]:
        """Up to ``limit`` distinct texts that live chunks use and that have no vector in the lane."""
        ...

    def count_missing(self, lane: Lane) -> int:
        """How many distinct texts still lack a vector in the lane."""
        ...

    def put_vectors(self, lane: Lane, hashes: Sequence[bytes], vectors: Matrix) -> None:
        """Store one unit vector per text hash; row i of ``vectors`` belongs to ``hashes[i]``."""
        ...

    def recall(self, key: str) -> str | None:
        """What was last recorded under ``key``, None if nothing was."""
        ...

    def record(self, key: str, value: str) -> None:
        """Keep a small fact about a model for other processes and later times; it lives as long as the vectors."""
        ...

    def collect(self, keep: Collection[str] | None, before: float, dry_run: bool = False) -> Collected:
        """Remove what nobody needs: lanes, but for the one that serves and those whose fingerprint is in ``keep``
        (None: all), if they were last used before ``before``, a Unix time; and texts that no chunk has, with their
        vectors, if they were made before that time. Ids are never given again. ``dry_run`` only counts.
        """
        ...

    def examine(self, fix: bool) -> Sequence[Finding]:
        """Look for what is wrong in the index's own tables, and mend it if ``fix``; reads all of them."""
        ...

    def distrust(self) -> None:
        """Have every source written anew, rows and words, when it is next replaced; until then the old rows answer.

        Vectors stay: they are content-addressed and cost calls.
        """
        ...

    def health(self) -> Health:
        """Counts and problems."""
        ...

    def close(self) -> None:
        """Release files and connections. A second call does nothing."""
        ...


class Progress(Protocol):
    """Called as work goes on; ``stage`` is "files" or "vectors"."""

    def __call__(self, stage: str, done: int, total: int) -> None: ...


class Embedder(Protocol):
    """Turns text into unit vectors of one space.

    It may also have ``max_text_bytes`` and ``max_request_bytes``, in bytes of UTF-8: longer texts then come in pieces,
    and batches are no larger; and ``address``, which names where what is learnt of its limits holds.
    """

    @property
    def fingerprint(self) -> Fingerprint:
        """Names the vector space; may load the model or ask the provider for its dimensions."""
        ...

    @property
    def calibration(self) -> Calibration:
        """A prior for what this model's cosines mean."""
        ...

    @property
    def batch_size(self) -> int:
        """How many texts one call of embed_documents takes at most."""
        ...

    def embed_query(self, text: str) -> Vector:
        """One unit vector for a question."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """One unit row per text, in the order given."""
        ...


class ChatModel(Protocol):
    """A language model that answers a conversation."""

    def complete(
        self, messages: Sequence[Mapping[str, str]], *, max_tokens: int | None = None, json: bool = False
    ) -> ChatReply:
        """The model's answer to ``messages``: ``{"role": "system" | "user" | "assistant", "content": text}`` each.

        ``max_tokens`` bounds the answer (None: as configured). ``json`` asks for one JSON object where the server can
        be held to it; the prompt has to ask for JSON as well, and the answer has to be parsed with doubt. Raises
        ProviderError.
        """
        ...
