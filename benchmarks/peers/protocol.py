"""What a peer is. This file and the peers' own need the standard library and numpy alone: each runs in its own venv.

A peer's module says ``REQUIRES``, what pip installs in order, and ``NEEDS``, the oldest Python. Its classes import
the library in ``__init__``, so that nobody's import is measured.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

_SECTION = re.compile(r"Section (\d+)")
SECTIONS_FILE, QUESTIONS_FILE, NOTES = "sections.json", "questions.json", "notes"


@dataclass(frozen=True, slots=True)
class Task:
    """Data on disk, the same for everybody. Row i belongs to the section numbered i; ``k`` results are wanted."""

    folder: Path
    k: int

    def rows(self) -> Any:
        """float32, shape (n, dims), unit length."""
        return np.load(self.folder / "rows.npy")

    @property
    def dims(self) -> int:
        """Length of a row."""
        return int(np.load(self.folder / "queries.npy", mmap_mode="r").shape[1])

    def queries(self) -> Any:
        """float32, shape (queries, dims), unit length; row i belongs to question i."""
        return np.load(self.folder / "queries.npy")

    def sections(self) -> list[str]:
        """Markdown sections, each with a heading of its own. Only for peers that index texts."""
        return list(json.loads((self.folder / SECTIONS_FILE).read_text()))

    def questions(self) -> list[str]:
        """A few words each. Only for peers that index texts."""
        return list(json.loads((self.folder / QUESTIONS_FILE).read_text()))

    @property
    def notes(self) -> Path:
        """The sections as a folder of Markdown files."""
        return self.folder / NOTES

    def place(self, peer: object) -> Path:
        """Where a peer keeps what it builds."""
        return self.folder / type(peer).__module__.rpartition(".")[2]


class Peer(Protocol):
    """One way to search. It is built in one process and asked in another, as programs are."""

    def build(self, task: Task) -> None:
        """Make whatever is kept on disk, under ``task.place(self)``."""
        ...

    def open(self, task: Task) -> None:
        """Get ready to answer, from what was built."""
        ...

    def search(self, number: int) -> Sequence[int]:
        """The numbers of the ``task.k`` best rows for query ``number``, best first."""
        ...


class Given:
    """Embeds nothing: looks up the row of a section's text and the query of a question."""

    def __init__(self, task: Task) -> None:
        # Mapped, so that what a search does not need is in nobody's memory.
        self._rows, self._queries = np.load(task.folder / "rows.npy", mmap_mode="r"), task.queries()
        self._numbers = {question: number for number, question in enumerate(task.questions())}

    def row(self, text: str) -> Any:
        """The vector of the question, or of the section whose heading the text contains."""
        number = self._numbers.get(text)
        return self._queries[number] if number is not None else self._rows[section(text)]


def section(text: str) -> int:
    """The number of the section that ``text`` is."""
    found = _SECTION.search(text)
    if found is None:
        raise ValueError(f"no section: {text[:80]!r}")
    return int(found[1])
