"""How fast exact search is here: a store of made-up vectors in a temporary folder, asked through the index port."""

from __future__ import annotations

import hashlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from vademecum.backends import EmbeddedIndex
from vademecum.backends.embedded import INDEX_FILE, VECTORS_FILE
from vademecum.errors import UsageError
from vademecum.sqlite import connect, snapshot
from vademecum.types import SHARED, Calibration, Chunk, Fingerprint, IndexSpec, Lane, Source
from vademecum.vectors import store
from vademecum.vectors.mapped import VectorMap

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vademecum.types import Matrix, Vector

#: The whole file as a buffer, then by address: byte offset of each row, and its text's id.
Floats: TypeAlias = "tuple[Any, NDArray[np.int64], NDArray[np.int64]]"

_SPEC = IndexSpec("bench", "bench")
_PRIOR = Calibration(0.0, 1.0)
#: Rows made and written at a time.
_SLICE = 4096
_WARM_UP = 3
#: A full scan takes several times as long as a search and varies less.
_SCANS = 20
_MOST_ROWS, _MOST_DIMS, _MOST_K, _MOST_QUERIES = 10_000_000, 16_000, 1000, 100_000


@dataclass(frozen=True, slots=True)
class Speed:
    """What was measured; times of one thread. ``way`` is how vectors were read, "map" or "select".

    ``first_ms`` is from opening the files to the first answer, with the files in the page cache. ``scan_ms`` is a
    float32 scan of every row, the median, None where the file cannot be mapped; ``same`` counts the searches that
    gave the very list of that scan, of ``scans``.
    """

    kernels: str
    rows: int
    dims: int
    k: int
    queries: int
    way: str
    fill_s: float
    file_mb: float
    first_ms: float
    p50_ms: float
    p95_ms: float
    scan_ms: float | None
    scans: int
    same: int


def measure(rows: int = 20_000, dims: int = 384, k: int = 10, queries: int = 200) -> Speed:
    """Make a store of ``rows`` unit vectors, measure, and delete it.

    Raises UsageError for sizes out of range and IndexUnavailableError when the store cannot be written.
    """
    _check(rows=(rows, _MOST_ROWS), dims=(dims, _MOST_DIMS), k=(k, _MOST_K), queries=(queries, _MOST_QUERIES))
    import numpy as np

    generator = np.random.default_rng(1)
    asked = _unit(generator, queries, dims)
    with tempfile.TemporaryDirectory(prefix="vademecum-bench-") as name:
        folder = Path(name)
        made = (_unit(generator, min(_SLICE, rows - start), dims) for start in range(0, rows, _SLICE))
        fill_s = _seconds(lambda: fill(folder, dims, made))
        file_mb = (folder / VECTORS_FILE).stat().st_size / 1e6
        first_ms = 1000 * _seconds(lambda: _first_answer(folder, asked[0], k))
        found, taken, way = _search(folder, asked, k)
        with mapped_floats(folder) as floats:
            scans = [_scan(floats, query, k) for query in asked[:_SCANS]] if floats is not None else []
    return Speed(
        kernels=_kernels(),
        rows=rows,
        dims=dims,
        k=k,
        queries=queries,
        way=way,
        fill_s=fill_s,
        file_mb=file_mb,
        first_ms=first_ms,
        p50_ms=1000 * statistics.median(taken),
        p95_ms=1000 * sorted(taken)[int(0.95 * len(taken))],
        scan_ms=1000 * statistics.median(seconds for _, seconds in scans) if scans else None,
        scans=len(scans),
        same=sum(ids == list(hits) for (ids, _), hits in zip(scans, found, strict=False)),
    )


def fill(folder: Path, dims: int, slices: Iterable[Matrix]) -> None:
    """Write unit rows into a new index in ``folder``, one chunk a row; chunk and text number i is row i - 1."""
    index = EmbeddedIndex(folder, _SPEC)
    try:
        lane = index.lane(_fingerprint(dims), _PRIOR)
        first = 0
        for rows in slices:
            chunks = [_chunk(number) for number in range(first, first + len(rows))]
            index.put_vectors(lane, [chunk.hash for chunk in chunks], rows)
            index.replace_source(Source(f"{first}.md", SHARED, "memory", None, "", str(first)), chunks)
            first += len(rows)
    finally:
        index.close()


@contextmanager
def opened(folder: Path) -> Iterator[tuple[EmbeddedIndex, Lane]]:
    """The index that `fill` wrote, and its lane."""
    index = EmbeddedIndex(folder, _SPEC)
    try:
        with index.reader() as reader:
            (lane,) = reader.lanes()
        yield index, lane
    finally:
        index.close()


@contextmanager
def mapped_floats(folder: Path) -> Iterator[Floats | None]:
    """The float32 rows of `fill` where they lie in the mapped file, inside a read transaction.

    None where the file cannot be mapped.
    """
    vector_map = VectorMap(folder / VECTORS_FILE, store.connect_alone(folder / VECTORS_FILE))
    connection = connect(folder / INDEX_FILE)
    try:
        connection.execute("ATTACH DATABASE ? AS vectors", (str(folder / VECTORS_FILE),))
        with snapshot(connection):
            (lane_id, dims) = connection.execute("SELECT id, dims FROM vectors.lanes").fetchone()
            place = vector_map.lane(connection, Lane(lane_id, "", dims, _PRIOR))
            if place is None:
                yield None
            else:
                yield place.base, *place.every_vector()
    finally:
        connection.close()
        vector_map.close()


def _first_answer(folder: Path, query: Vector, k: int) -> None:
    with opened(folder) as (index, lane), index.reader() as reader:
        reader.search_vector(lane, query, k, ())


def _search(folder: Path, queries: Matrix, k: int) -> tuple[list[list[int]], list[float], str]:
    """Ids found, seconds taken, and the way the last search went."""
    found: list[list[int]] = []
    taken: list[float] = []
    with opened(folder) as (index, lane):
        for query in (*queries[:_WARM_UP], *queries):
            began = time.perf_counter()
            with index.reader() as reader:
                hits = reader.search_vector(lane, query, k, ())
            taken.append(time.perf_counter() - began)
            found.append([hit.id for hit in hits])
            way = reader.notes()["vectors"]
    warm = len(found) - len(queries)
    return found[warm:], taken[warm:], way


def _scan(floats: Floats, query: Vector, k: int) -> tuple[list[int], float]:
    """The list of a full float32 scan, and seconds."""
    from vademecum import kernels

    base, offsets, ids = floats
    began = time.perf_counter()
    found, _ = kernels.top_k_at(base, offsets, ids, query.size, query[None, :], k)
    taken = time.perf_counter() - began
    return [i for i in found[0].tolist() if i >= 0], taken


def _seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _unit(generator: np.random.Generator, count: int, dims: int) -> Matrix:
    """Rows that have much in common, as embeddings do."""
    import numpy as np

    rows = generator.standard_normal((count, dims), np.float32) + np.float32(0.5)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def _chunk(number: int) -> Chunk:
    text = f"row {number}"
    return Chunk(text, number + 1, number + 1, (), hashlib.sha256(text.encode()).digest(), 0, text, "")


def _fingerprint(dims: int) -> Fingerprint:
    return Fingerprint("bench", "random", dims)


def _kernels() -> str:
    from vademecum import kernels

    return f"{kernels.NAME} ({kernels.instruction_set()})"


def _check(**sizes: tuple[int, int]) -> None:
    for name, (value, most) in sizes.items():
        if not 1 <= value <= most:
            raise UsageError(f"{name} = {value}: expected a whole number from 1 to {most}")
