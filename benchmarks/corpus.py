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
_VOCABULARY, _STOP_WORDS = 20_000, 100
#: The block of Han characters in Unicode, how many of them a corpus uses, and how many are the commonest words.
_FIRST_HAN, _HAN, _CHARACTERS, _LONE = 0x4E00, 20_976, 3_500, 60


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
    """A vocabulary with a Zipf distribution, as texts have; another seed draws other words from the same vocabulary."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        made = random.Random(_VOCABULARY)
        letters = "etaoinshrdlucmfwypvbgkjqxz"
        self._words = [
            "".join(made.choices(letters, range(26, 0, -1), k=made.randint(2, 10))) for _ in range(_VOCABULARY)
        ]
        self._weights = list(accumulate(1 / (rank + 2) for rank in range(_VOCABULARY)))

    def draw(self, count: int) -> str:
        """``count`` words of running text."""
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=count))

    def queries(self) -> Iterator[str]:
        """Questions of six words that texts hold, but none of the commonest: a question's are stop words."""
        weights = [weight - self._weights[_STOP_WORDS - 1] for weight in self._weights[_STOP_WORDS:]]
        while True:
            yield " ".join(self._random.choices(self._words[_STOP_WORDS:], cum_weights=weights, k=6))


class ChineseWords(Words):
    """The same of 20,000 words of one to four characters, without spaces; a sentence has about a dozen.

    Characters follow a Zipf distribution too; the 60 commonest words are single characters, as 的 and 是 are.
    """

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        made = random.Random(_VOCABULARY)
        characters = [chr(_FIRST_HAN + place) for place in made.sample(range(_HAN), _CHARACTERS)]
        weights = list(accumulate(1 / (rank + 8) for rank in range(_CHARACTERS)))
        words = dict.fromkeys(characters[:_LONE])
        while len(words) < _VOCABULARY:
            length = made.choices((1, 2, 3, 4), (5, 70, 13, 12))[0]
            words["".join(made.choices(characters, cum_weights=weights, k=length))] = None
        self._words = list(words)
        self._weights = list(accumulate(1 / (rank + 2) for rank in range(_VOCABULARY)))

    def draw(self, count: int) -> str:
        """``count`` words, with a full stop behind every dozen."""
        drawn = self._random.choices(self._words, cum_weights=self._weights, k=count)
        return "。".join("".join(drawn[start : start + 12]) for start in range(0, count, 12))


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
