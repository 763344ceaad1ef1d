"""The one door to hnswlib: a graph that finds most of a vector's nearest neighbours without looking at all of them.

Hierarchical navigable small worlds: Malkov and Yashunin, arXiv:1603.09320. A graph keeps its own copy of the vectors
in memory, the one exception to "no second copy": about 4 · dims + 150 bytes a row.
"""

from __future__ import annotations

import math
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vademecum.types import Matrix, Vector

#: Links of a row in the upper levels (twice as many at the bottom), and how widely they are looked for.
M, EF_CONSTRUCTION = 16, 200
#: Rows added in one go by each thread, one or two milliseconds a row: a query may have to wait for them. And how long
#: they wait for queries.
_PART, _PATIENCE_S = 8, 0.1
#: What hnswlib 0.8 writes before the rows: see `sound`.
_HEADER = struct.Struct("@6NiI3NdN")
_BOTTOM, _UPPER = 4 + 8 * M, 4 + 4 * M
_BLOCK = 8192


def installed() -> bool:
    """Whether hnswlib is here."""
    return find_spec("hnswlib") is not None


def version() -> str:
    """The release of hnswlib."""
    from importlib import metadata

    return metadata.version("hnswlib")


class Graph:
    """A graph over some rows of a lane. Safe to share between threads: queries run side by side, additions alone."""

    def __init__(self, dims: int, capacity: int) -> None:
        """An empty graph with room for ``capacity`` rows, which grows when it is full."""
        self._index = _empty(dims)
        self._index.init_index(max(1, capacity), M=M, ef_construction=EF_CONSTRUCTION)
        self._access = _Access()
        #: The ids of all rows, ascending. Never changed in place: the same array means the same rows.
        self.ids = _sorted_ids(self._index)

    @classmethod
    def load(cls, path: Path, dims: int, capacity: int) -> Graph:
        """What `save` wrote; only to be called for a `sound` file. Holds up all threads, 2.5 s per million rows.

        Raises RuntimeError when hnswlib cannot read it.
        """
        graph = cls(dims, 1)
        graph._index = _empty(dims)
        graph._index.load_index(os.fsencode(path), capacity)
        graph.ids = _sorted_ids(graph._index)
        return graph

    def add(self, ids: NDArray[np.int64], rows: Matrix, threads: int = 1) -> None:
        """Add unit rows (n, dims) under ascending ids that are not there yet."""
        import numpy as np

        if not len(ids):
            return
        part = _PART * threads
        for start in range(0, len(ids), part):
            with self._access.alone():
                free = self._index.get_max_elements() - self._index.get_current_count()
                if free < part:
                    self._index.resize_index(self._index.get_max_elements() * 9 // 8 + part)
                self._index.add_items(rows[start : start + part], ids[start : start + part], num_threads=threads)
        self.ids = np.insert(self.ids, np.searchsorted(self.ids, ids), ids)

    def nearest(self, query: Vector, count: int) -> NDArray[np.int64]:
        """Most of the ``count`` rows nearest to the query, in no order; none where the graph has come apart."""
        import numpy as np

        with self._access.shared():
            count = min(count, self._index.get_current_count())
            try:
                # The width of the search is the count if that is the greater: no setting that threads would share.
                found, _ = self._index.knn_query(query, k=max(1, count), num_threads=1)
            except RuntimeError:
                return np.empty(0, np.int64)
        labels: NDArray[np.int64] = found[0].astype(np.int64)
        return labels

    def save(self, path: Path) -> None:
        """Write hnswlib's own format. Holds up all threads, 1.5 s per million rows. Raises OSError."""
        with self._access.shared():
            self._index.save_index(os.fsencode(path))
            size = self._index.index_file_size()
        if path.stat().st_size != size:  # hnswlib does not look whether it could write
            raise OSError(f"{path}: could not be written in full ({size} bytes); is the disk full?")

    @property
    def nbytes(self) -> int:
        """Bytes in memory, nearly."""
        with self._access.shared():
            return int(self._index.index_file_size())


class _Access:
    """Many at once, or one alone. Who comes alone first lets those who wait go, for a while."""

    def __init__(self) -> None:
        self._one = threading.Lock()
        self._changed = threading.Condition()
        self._waiting = self._sharing = 0
        self._closed = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: not self._closed)
            self._waiting -= 1
            self._sharing += 1
        try:
            yield
        finally:
            with self._changed:
                self._sharing -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._one:
            with self._changed:
                self._changed.wait_for(lambda: not (self._waiting or self._sharing), _PATIENCE_S)
                self._closed = True
                self._changed.wait_for(lambda: not self._sharing)
            try:
                yield
            finally:
                with self._changed:
                    self._closed = False
                    self._changed.notify_all()


def _empty(dims: int) -> Any:
    import hnswlib

    return hnswlib.Index("ip", dims)


def _sorted_ids(index: Any) -> NDArray[np.int64]:
    import numpy as np

    return np.sort(np.array(index.get_ids_list(), np.uint64).astype(np.int64))


def sound(path: Path, dims: int, rows: int) -> bool:
    """Whether a file is a graph of ``rows`` rows whose every link leads to one of them.

    hnswlib follows links without looking, so a crafted file would have it read and write anywhere. It writes: a
    header; for each row its links at the bottom (a count and 2 M places), its vector and its id; then for each row
    the length of its upper links and, per level from the first, a count and M places. Raises OSError.
    """
    import numpy as np

    with path.open("rb") as stream:
        header = stream.read(_HEADER.size)
    size = _BOTTOM + 4 * dims + 8
    if len(header) < _HEADER.size or path.stat().st_size < _HEADER.size + rows * (size + 4):
        return False
    values = list(_HEADER.unpack(header))
    top, entry = values[6:8]
    expected = [0, values[1], rows, size, size - 8, _BOTTOM, top, entry, M, 2 * M, M, 1 / math.log(M), EF_CONSTRUCTION]
    if values != expected or entry >= rows:
        return False
    data = np.memmap(path, np.uint8, "r")
    bottom = data[_HEADER.size : _HEADER.size + rows * size].reshape(rows, size)
    for start in range(0, rows, _BLOCK):
        links = bottom[start : start + _BLOCK, :_BOTTOM].copy().view("<u4")
        if links[:, 0].max() > 2 * M or links[:, 1:].max() >= rows:
            return False
    return _sound_above(data[_HEADER.size + rows * size :], rows, top, entry)


def _sound_above(data: NDArray[np.uint8], rows: int, top: int, entry: int) -> bool:
    import numpy as np

    levels = np.zeros(rows, np.int64)
    lists: list[tuple[int, int]] = []
    place = 0
    length_at = struct.Struct("<I").unpack_from
    view = data.data
    for row in range(rows):
        if place + 4 > len(data):
            return False
        (length,) = length_at(view, place)
        place += 4
        if length:
            if length % _UPPER or place + length > len(data):
                return False
            levels[row] = length // _UPPER
            lists += ((place + level * _UPPER, level + 1) for level in range(length // _UPPER))
        place += length
    if place != len(data) or levels.max() != top or levels[entry] != top:
        return False
    if not lists:
        return True
    starts, heights = np.array(lists, np.int64).T
    links = data[starts[:, None] + np.arange(_UPPER)].view("<u4")
    counted = np.arange(M) < links[:, :1]
    reached = np.where(counted, links[:, 1:], entry)
    least = np.where(counted, heights[:, None], 0)
    return bool(links[:, 0].max() <= M and reached.max() < rows and (levels[reached] >= least).all())
