"""A memory folder of any size, the same each time, and an embedder that costs nothing."""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vademecum.types import Calibration, Fingerprint

if TYPE_CHECKING:
    from vademecum.types import Matrix, Vector

SECTIONS_PER_FILE = 10
_WORDS_PER_SECTION = 110
_VOCABULARY = 20_000


class RandomEmbedder:
    """Unit vectors that depend on the text alone, so that the time measured is ours."""

    batch_size = 1024
    calibration = Calibration(0.0, 0.3)

    def __init__(self, dims: int) -> None:
        self.fingerprint = Fingerprint("benchmark", "random", dims)

    def embed_query(self, text: str) -> Vector:
        vector: Vector = self.embed_documents([text])[0]
        return vector

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        rows = np.empty((len(texts), self.fingerprint.dims), np.float32)
        for row, text in zip(rows, texts, strict=True):
            generator = np.random.Generator(np.random.SFC64(zlib.crc32(text.encode())))
            row[:] = generator.standard_normal(self.fingerprint.dims, np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows


class Words:
    """A vocabulary with a Zipf distribution, as texts have."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        letters = "etaoinshrdlucmfwypvbgkjqxz"
        self._words = [
            "".join(self._random.choices(letters, range(26, 0, -1), k=self._random.randint(2, 10)))
            for _ in range(_VOCABULARY)
        ]
        self._weights = list(accumulate(1 / (rank + 2) for rank in range(_VOCABULARY)))

    def draw(self, count: int) -> str:
        """``count`` words of running text."""
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=count))

    def queries(self) -> Iterator[str]:
        """Questions of six words, common and rare as they come."""
        while True:
            yield self.draw(6)


def let_settle() -> None:
    """Wait until files just written count as settled; before, every search reads them again."""
    time.sleep(2.5)


def write_folder(root: Path, chunks: int, sections_per_file: int = SECTIONS_PER_FILE) -> None:
    """Files of some sections; at the default settings each section is a chunk of about 700 characters."""
    words = Words()
    for number in range(chunks // sections_per_file):
        sections = [
            f"\n## Section {section}\n\n{words.draw(_WORDS_PER_SECTION)}\n" for section in range(sections_per_file)
        ]
        file = root / f"notes/{number // 100:03d}/{number:05d}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join((f"# Note {number}\n", *sections)), encoding="utf-8")
