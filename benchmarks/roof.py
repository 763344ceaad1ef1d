"""The float32 scan of the mapped file beside a mere reader of the same bytes.

That the reader is a good one shows in memory: row by row it must be about as fast as one sum over the whole. How fast
a mapped file can be read at all depends on its pages, which are small where memory's may be huge.

`python -m benchmarks.roof` needs a C compiler; `make bench` runs it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import describe
from benchmarks.vectors import Clustered
from vademecum import kernels
from vademecum.diagnose import bench

K = 10
#: The scan must reach this share of the reader of the map, and the reader in memory this share of a plain sum.
FLOOR, AIM, READER_FLOOR = 0.75, 0.90, 0.90


@dataclass(frozen=True, slots=True)
class Roof:
    """Gigabytes per second, medians; shares are medians of ratios in one round."""

    rows: int
    dims: int
    memory_gb_s: float
    reader_in_memory_share: float
    reader_gb_s: float
    scan_gb_s: float
    scan_share: float

    def __str__(self) -> str:
        verdict = "aim reached" if self.scan_share >= AIM else "floor kept" if self.scan_share >= FLOOR else "MISSED"
        reader = "" if self.reader_in_memory_share >= READER_FLOOR else f" (a poor reader: below {READER_FLOOR})"
        return (
            f"{self.rows:,} × {self.dims}: sum over memory {self.memory_gb_s:.1f} GB/s, the reader there "
            f"{self.reader_in_memory_share:.2f} of it{reader}; reader of the map {self.reader_gb_s:.1f} GB/s, "
            f"float32 scan {self.scan_gb_s:.1f} GB/s, {self.scan_share:.2f} of the reader: {verdict}"
        )


def measure(rows: int, dims: int, rounds: int) -> Roof:
    """All three in turn, by the thread's processor time."""
    clusters = Clustered(dims)
    plain, start = np.ones((rows, dims), np.float32), np.zeros(1, np.int64)
    starts = np.arange(rows, dtype=np.int64) * 4 * dims
    with tempfile.TemporaryDirectory(prefix="vademecum-roof-") as name:
        read = _reader(Path(name))
        bench.fill(Path(name), dims, clusters.slices(rows))
        query = clusters.rows(1)
        with bench.mapped_floats(Path(name)) as floats:
            if floats is None:
                raise RuntimeError("the file cannot be mapped here")
            base, offsets, ids = floats
            whole = np.frombuffer(base, np.uint8)
            works: dict[str, Callable[[], object]] = {
                "memory": lambda: read(plain.ctypes.data, _address(start), 1, plain.nbytes),
                "reader in memory": lambda: read(plain.ctypes.data, _address(starts), rows, 4 * dims),
                "reader": lambda: read(whole.ctypes.data, _address(offsets), rows, 4 * dims),
                "scan": lambda: kernels.top_k_at(base, offsets, ids, dims, query, K),
            }
            seconds = _in_turn(works, rounds)
    speed = {name: plain.nbytes / statistics.median(taken) / 1e9 for name, taken in seconds.items()}
    return Roof(
        rows,
        dims,
        speed["memory"],
        _share(seconds["memory"], seconds["reader in memory"]),
        speed["reader"],
        speed["scan"],
        _share(seconds["reader"], seconds["scan"]),
    )


def _in_turn(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            began = time.thread_time()
            work()
            if number:  # the first round touches the pages
                seconds[name].append(time.thread_time() - began)
    return seconds


def _share(above: list[float], below: list[float]) -> float:
    return statistics.median(roof / taken for roof, taken in zip(above, below, strict=True))


def _reader(folder: Path) -> Callable[..., Any]:
    library = folder / "roof.so"
    source = Path(__file__).with_suffix(".c")
    command = [os.environ.get("CC", "cc"), "-O3", "-march=native", "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    read = ctypes.CDLL(str(library)).read_rows
    read.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
    read.restype = ctypes.c_uint64
    return read


def _address(array: Any) -> int:
    return int(array.ctypes.data)


def main() -> None:
    """Print, and write roof.json."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.roof", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dims", nargs="+", type=int, default=[384, 1536])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    found = []
    for dims in options.dims:
        found.append(measure(options.rows, dims, options.rounds))
        print(found[-1], flush=True)
    document = {"machine": asdict(describe()), "roofs": [asdict(roof) for roof in found]}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "roof.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
