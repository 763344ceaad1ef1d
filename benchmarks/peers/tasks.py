"""The data that all peers get, and the float64 reference by which their answers are judged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpus import Words, let_settle
from benchmarks.peers.protocol import QUESTIONS_FILE, SECTIONS_FILE, Task
from benchmarks.vectors import Clustered

#: Scores closer than this are ties: float32 sums of another order differ by as much.
TIE = 2e-6
_WORDS_PER_SECTION, _FILES = 110, 1000
_SLICE = 4096


def vector_task(folder: Path, rows: int, dims: int, queries: int, k: int) -> Task:
    """``rows`` clustered unit vectors and ``queries`` questions, written to ``folder``."""
    clusters = Clustered(dims)
    folder.mkdir(parents=True)
    kept = np.lib.format.open_memmap(folder / "rows.npy", "w+", np.float32, (rows, dims))
    first = 0
    for part in clusters.slices(rows):
        kept[first : first + len(part)] = part
        first += len(part)
    kept.flush()
    np.save(folder / "queries.npy", clusters.queries(kept, queries))
    return Task(folder, k)


def text_task(folder: Path, sections: int, dims: int, questions: int, k: int) -> Task:
    """The same with a Markdown section of 110 Zipf words per row, in up to 1,000 files, and six words per question."""
    task = vector_task(folder, sections, dims, questions, k)
    words = Words()
    texts = [f"## Section {number}\n\n{words.draw(_WORDS_PER_SECTION)}\n" for number in range(sections)]
    asked = list(islice(Words(2).queries(), questions))
    # Apart, so that nobody who only asks reads all texts into memory.
    (folder / SECTIONS_FILE).write_text(json.dumps(texts), encoding="utf-8")
    (folder / QUESTIONS_FILE).write_text(json.dumps(asked), encoding="utf-8")
    task.notes.mkdir()
    per_file = max(10, sections // _FILES)
    for number, first in enumerate(range(0, sections, per_file)):
        page = "\n".join((f"# Note {number}\n", *texts[first : first + per_file]))
        (task.notes / f"{number:05d}.md").write_text(page, encoding="utf-8")
    let_settle()
    return task


class Reference:
    """The best scores of the first ``count`` queries, in float64."""

    def __init__(self, task: Task, count: int) -> None:
        self._rows = np.load(task.folder / "rows.npy", mmap_mode="r")
        self._queries = task.queries()[:count].astype(np.float64)
        best = np.full((task.k, count), -np.inf)
        for start in range(0, len(self._rows), _SLICE):
            scores = self._rows[start : start + _SLICE].astype(np.float64) @ self._queries.T
            best = np.partition(np.concatenate([best, scores]), -task.k, axis=0)[-task.k :]
        self._best = -np.sort(-best.T, axis=1)

    def same(self, number: int, found: Sequence[int]) -> bool:
        """Whether the list is the reference's, in its order; ties may be swapped."""
        best = self._best[number]
        if len(found) != len(best) or len(set(found)) != len(found):
            return False
        return bool(np.all(np.abs(self._scores(number, found) - best) <= TIE))

    def recall(self, number: int, found: Sequence[int]) -> float:
        """The share of the list that belongs among the best."""
        good = self._scores(number, list(set(found))) >= self._best[number][-1] - TIE
        return float(good.sum() / self._best.shape[1])

    def _scores(self, number: int, found: Sequence[int]) -> Any:
        return self._rows[list(found)].astype(np.float64) @ self._queries[number]
