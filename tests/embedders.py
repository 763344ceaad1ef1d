"""A deterministic embedder for tests: hashed words, no model, no network.

Texts that share words are near each other, texts that share none are close to orthogonal. It counts its calls and
fails on request. It is not an embedding in any useful sense: paraphrases are strangers to it.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from vademecum.errors import ProviderRefusedError
from vademecum.types import Calibration, Fingerprint

if TYPE_CHECKING:
    from vademecum.sync import EmbedTexts
    from vademecum.types import Matrix, Vector

_HAN_TO_HANGUL = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORDS = re.compile(rf"[{_HAN_TO_HANGUL}]+|[^\W{_HAN_TO_HANGUL}]+")


def words(text: str) -> list[str]:
    """Case-folded words; a run of Han, kana or Hangul gives its single characters and bigrams."""
    found: list[str] = []
    for run in _WORDS.findall(text.casefold()):
        if "\u3040" <= run[0] <= "\ud7af":
            found += [*run, *(run[i : i + 2] for i in range(len(run) - 1))]
        else:
            found.append(run)
    return found


def hashed_row(text: str, dims: int) -> Vector:
    """The unit row of a text: every word adds four signed counts; a text without words gets a row of its own."""
    row = np.zeros(dims, dtype=np.float64)
    for word in words(text) or ["\0" + text]:
        digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        for part in range(0, 16, 4):
            number = int.from_bytes(digest[part : part + 4], "little")
            row[number % dims] += 1.0 if number & 0x80000000 else -1.0
    if not row.any():
        row[0] = 1.0
    return (row / np.linalg.norm(row)).astype(np.float32)


class HashedEmbedder:
    """The Embedder port over :func:`hashed_row`.

    ``queries`` and ``batches`` record what was asked, in order. ``failure`` is raised by every call while it is
    set; with ``failures_left`` it is raised that many times and then cleared. A text that contains one of
    ``poison`` makes its whole call a ProviderRefusedError, as a remote provider's 400 does.
    """

    def __init__(
        self,
        dims: int = 64,
        *,
        model: str = "hashed",
        batch_size: int = 32,
        calibration: Calibration = Calibration(0.0, 0.7),  # noqa: B008  (frozen)
        poison: Collection[str] = (),
    ) -> None:
        self.dims = dims
        self.model = model
        self.queries: list[str] = []
        self.batches: list[tuple[str, ...]] = []
        self.poison = set(poison)
        self.failure: Exception | None = None
        self.failures_left: int | None = None
        self._batch_size = batch_size
        self._calibration = calibration
        self._lock = threading.Lock()

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint("test", self.model, self.dims)

    @property
    def calibration(self) -> Calibration:
        return self._calibration

    @property
    def batch_size(self) -> int:
        return self._batch_size

    @property
    def texts(self) -> list[str]:
        """Every text that embed_documents was given, in order."""
        return [text for batch in self.batches for text in batch]

    def fail(self, failure: Exception, times: int | None = None) -> None:
        """Raise ``failure`` in every following call, or only in the next ``times`` calls."""
        self.failure, self.failures_left = failure, times

    def heal(self) -> None:
        self.failure = self.failures_left = None

    def embed_query(self, text: str) -> Vector:
        with self._lock:
            self.queries.append(text)
            self._maybe_fail([text])
        return hashed_row(text, self.dims)

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        with self._lock:
            assert len(texts) <= self._batch_size, f"{len(texts)} texts in one call, batch_size is {self._batch_size}"
            self.batches.append(tuple(texts))
            self._maybe_fail(texts)
        rows = np.empty((len(texts), self.dims), dtype=np.float32)
        for i, text in enumerate(texts):
            rows[i] = hashed_row(text, self.dims)
        return rows

    def _maybe_fail(self, texts: Sequence[str]) -> None:
        failure = self.failure
        if failure is not None:
            if self.failures_left is not None:
                self.failures_left -= 1
                if self.failures_left <= 0:
                    self.heal()
            raise failure
        for text in texts:
            if any(part in text for part in self.poison):
                raise ProviderRefusedError("test: this input is refused")


def embed_all(embed_texts: EmbedTexts, texts: Sequence[str]) -> tuple[list[Vector | None], list[tuple[int, str]]]:
    """One vector or None per text, and (position, reason) for each None; every text is told of exactly once."""
    rows: dict[int, Vector | None] = {}
    refused: list[tuple[int, str]] = []
    for done in embed_texts(texts):
        for position, row in enumerate([None] if done.vectors is None else done.vectors, done.first):
            assert position not in rows, f"text {position} came twice"
            rows[position] = row
        if done.vectors is None:
            refused.append((done.first, done.note))
    assert sorted(rows) == list(range(len(texts)))
    return [rows[position] for position in range(len(texts))], refused
