"""Unit vectors that lie as sentence embeddings do, the same each time, and questions about them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from vademecum.types import Matrix

_TOPICS, _SUPER_TOPICS = 1500, 60
#: Directions in which the vectors vary by a power law; every other direction holds noise alone.
_DIRECTIONS, _POWER = 192, 0.34
#: Lengths of the parts of a vector: what all have in common, super-topic, topic, own content, noise; and of the step
#: from a text to its paraphrase.
_COMMON, _SUPER, _TOPIC, _OWN, _NOISE, _PARAPHRASE = 0.48, 0.5, 0.62, 0.75, 0.25, 0.55
_SLICE = 10_000


class Clustered:
    """1500 topics of Zipf size under 60 super-topics, with a common mean, turned at random.

    At 384 dimensions and 100,000 rows pairs have a cosine of 0.17 ± 0.12 and the variance fills about 55 directions,
    much as with sentences; a question's best row has a cosine near 0.8, its tenth one near 0.65.
    """

    def __init__(self, dims: int, seed: int = 1) -> None:
        self._dims = dims
        self._random = np.random.default_rng(seed)
        width = min(dims, _DIRECTIONS)
        spread = (1.0 + np.arange(width)) ** -_POWER
        self._spread = (spread / np.linalg.norm(spread)).astype(np.float32)
        self._basis = np.linalg.qr(self._random.standard_normal((dims, width)))[0].T.astype(np.float32)
        common = self._latent(1)
        supers = self._latent(_SUPER_TOPICS)[self._random.integers(_SUPER_TOPICS, size=_TOPICS)]
        self._topics = _COMMON * common / np.linalg.norm(common) + _SUPER * supers + _TOPIC * self._latent(_TOPICS)
        sizes = 1 / (np.arange(_TOPICS) + 2.0)
        self._sizes = sizes / sizes.sum()

    def slices(self, count: int) -> Iterator[Matrix]:
        """``count`` new rows, at most 10,000 at a time."""
        for start in range(0, count, _SLICE):
            yield self._draw(min(_SLICE, count - start))

    def rows(self, count: int) -> Matrix:
        """``count`` new rows at once."""
        return np.concatenate(list(self.slices(count)))

    def queries(self, rows: Matrix, count: int) -> Matrix:
        """Questions in turn: a text that is not among the rows, a paraphrase of one that is."""
        found = self._draw(count)
        near = rows[self._random.integers(len(rows), size=len(found[1::2]))]
        found[1::2] = _unit(near + _PARAPHRASE * (self._latent(len(near)) @ self._basis))
        return found

    def _latent(self, count: int) -> Matrix:
        drawn: Matrix = self._random.standard_normal((count, self._spread.size), np.float32) * self._spread
        return drawn

    def _draw(self, count: int) -> Matrix:
        topics = self._topics[self._random.choice(_TOPICS, count, p=self._sizes)]
        rows = (topics + _OWN * self._latent(count)) @ self._basis
        noise = self._random.standard_normal((count, self._dims), np.float32)
        return _unit(rows + np.float32(_NOISE / np.sqrt(self._dims)) * noise)


def _unit(rows: Matrix) -> Matrix:
    scaled: Matrix = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled.astype(np.float32)
