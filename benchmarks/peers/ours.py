"""vademecum: exact search through its index port, a plain float32 scan of the mapped file, and the whole memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from benchmarks.peers.protocol import Given, Task, section

REQUIRES = ("watchdog>=7,<8", "vademecum")
NEEDS = (3, 11)
_BATCH = 1024


class Exact:
    """The index port, as `Memory.search` uses it: a snapshot, int8 codes from the map, float32 for what is left."""

    def __init__(self) -> None:
        import vademecum.memory
        from vademecum import diagnose, kernels

        self._bench, self._kernels, self._memory = diagnose.bench, kernels, vademecum.memory
        self._held = ExitStack()

    def build(self, task: Task) -> None:
        rows = task.rows()
        slices = (rows[start : start + _BATCH] for start in range(0, len(rows), _BATCH))
        task.place(self).mkdir()
        self._bench.fill(task.place(self), rows.shape[1], slices)

    def open(self, task: Task) -> None:
        self._queries, self._k = task.queries(), task.k
        self._index, self._lane = self._held.enter_context(self._bench.opened(task.place(self)))

    def search(self, number: int) -> Sequence[int]:
        with self._index.reader() as reader:
            hits = reader.search_vector(self._lane, self._queries[number], self._k, ())
        return [hit.id - 1 for hit in hits]


class Floats(Exact):
    """Every float32 row, read where it lies in the mapped file."""

    def build(self, task: Task) -> None:
        if not task.place(self).exists():
            super().build(task)

    def open(self, task: Task) -> None:
        self._queries, self._k = task.queries(), task.k
        floats = self._held.enter_context(self._bench.mapped_floats(task.place(self)))
        if floats is None:
            raise RuntimeError("the file cannot be mapped")
        self._floats = floats

    def search(self, number: int) -> Sequence[int]:
        base, offsets, ids = self._floats
        query = self._queries[number : number + 1]
        found, _ = self._kernels.top_k_at(base, offsets, ids, query.shape[1], query, self._k)
        return [text_id - 1 for text_id in found[0].tolist()]


class Whole:
    """`Memory.search` with all its stages, as an agent holds a memory: beside a watcher, each answer up to date."""

    wait_ms = -1
    watched = True

    def __init__(self) -> None:
        import vademecum
        from vademecum.types import Calibration, Fingerprint

        self._vademecum, self._fingerprint, self._calibration = vademecum, Fingerprint, Calibration(0.0, 0.8)

    def _open(self, task: Task) -> Any:
        return self._vademecum.Memory.open(
            task.notes,
            settings=self._vademecum.Settings(),
            embedder=_Embedder(task, self._fingerprint, self._calibration),
        )

    def build(self, task: Task) -> None:
        with self._open(task) as memory:
            memory.sync()

    def open(self, task: Task) -> None:
        self._questions, self._k = task.questions(), task.k
        self._memory = self._open(task)
        if self.watched:
            self._watch = self._memory.watch()

    def search(self, number: int) -> Sequence[int]:
        found = self._memory.search(self._questions[number], max_results=self._k, wait_ms=self.wait_ms)
        if dict(found.channels) != {"keyword": "ok", "vector": "ok"}:
            raise RuntimeError(f"not a hybrid search: {found.channels}")
        if self.wait_ms and not found.fresh:
            raise RuntimeError(f"not up to date: {found.notices}")
        return [section(hit.heading[-1]) for hit in found]


class Looking(Whole):
    """The same without a watcher: each search looks at the whole folder first."""

    watched = False


class AtOnce(Whole):
    """The same without either, as the other systems search: what is new on disk waits for the next sync."""

    wait_ms = 0
    watched = False


class _Embedder:
    """The embedder port over given vectors."""

    batch_size = 1024

    def __init__(self, task: Task, fingerprint: Any, calibration: Any) -> None:
        self._given = Given(task)
        self.fingerprint = fingerprint("benchmark", "given", task.dims)
        self.calibration = calibration

    def embed_query(self, text: str) -> Any:
        return self._given.row(text)

    def embed_documents(self, texts: Sequence[str]) -> Any:
        return np.stack([self._given.row(text) for text in texts])
