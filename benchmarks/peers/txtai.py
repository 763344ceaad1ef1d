"""txtai: an embeddings database, here with content and keyword index, all of it in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.peers.protocol import Given, Task

# Without this torch first, pip takes the newest with gigabytes for graphics cards.
REQUIRES = ("torch==2.13.0", "txtai")
NEEDS = (3, 11)


class Hybrid:
    """Defaults with ``hybrid`` and ``content``."""

    def __init__(self) -> None:
        from txtai import Embeddings

        self._embeddings = Embeddings

    def build(self, task: Task) -> None:
        memory = self._embeddings(method="external", transform=_transform(task), hybrid=True, content=True)
        memory.index((number, text, None) for number, text in enumerate(task.sections()))
        # A function cannot be saved with the rest.
        memory.config.pop("transform")
        memory.save(str(task.place(self)))

    def open(self, task: Task) -> None:
        self._questions, self._k = task.questions(), task.k
        self._memory = self._embeddings()
        self._memory.load(str(task.place(self)), config={"transform": _transform(task)})

    def search(self, number: int) -> Sequence[int]:
        return [int(hit["id"]) for hit in self._memory.search(self._questions[number], self._k)]


def _transform(task: Task) -> Any:
    given = Given(task)

    def transform(texts: Sequence[str]) -> Any:
        return np.stack([given.row(text) for text in texts])

    return transform
