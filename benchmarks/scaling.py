"""How the whole memory grows: chunks × dimensions, each phase in a process of its own, embedding excluded.

`python -m benchmarks.scaling` writes results.json, table.md and plot.svg; `make bench` runs it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.corpus import RandomEmbedder, Words, let_settle, write_folder
from benchmarks.machine import anonymous_mb, describe, peak_mb
from benchmarks.report import Run, write
from vademecum import Memory, Settings

SETTINGS = Settings()
SEARCHES, EDITS, WARM_UP = 200, 10, 5
#: A memory of many chunks has long files rather than very many.
MOST_FILES, FEWEST_SECTIONS = 1000, 10


def sync(root: Path, dims: int) -> dict[str, float]:
    """From nothing to a whole index."""
    with _opened(root, dims) as memory:
        began = time.perf_counter()
        report = memory.sync()
        taken = time.perf_counter() - began
    if report.failed or report.pending:
        raise RuntimeError(f"sync failed: {report}")
    return {"sync_ms_per_chunk": taken * 1000 / report.chunks}


def search(root: Path, dims: int) -> dict[str, float]:
    """Open to the first answer; searches with the look at the folder and without; an edit until it is found."""
    queries = Words(2).queries()
    began = time.perf_counter()
    with _opened(root, dims) as memory:
        first = memory.search(next(queries), wait_ms=-1)
        first_ms = (time.perf_counter() - began) * 1000
        if not first.fresh or first.explanation["vectors"] != "map":
            raise RuntimeError(f"not what should be measured: {first.channels} {first.explanation}")
        whole = _milliseconds(lambda: memory.search(next(queries), wait_ms=-1), SEARCHES)
        at_once = _milliseconds(lambda: memory.search(next(queries), wait_ms=0), SEARCHES)
        words = (f"uniqueword{number}" for number in range(EDITS + WARM_UP))
        edits = _milliseconds(lambda: _edit(memory, next(words)), EDITS)
    return {
        "first_ms": first_ms,
        "p50_ms": statistics.median(whole),
        "p95_ms": statistics.quantiles(whole, n=20)[-1],
        "at_once_p50_ms": statistics.median(at_once),
        "at_once_p95_ms": statistics.quantiles(at_once, n=20)[-1],
        "edit_ms": statistics.median(edits),
    }


def memory(root: Path, dims: int) -> dict[str, float | None]:
    """Peak resident memory of opening and searching, whole and without the pages of files."""
    queries = Words(3).queries()
    with _sampled(anonymous_mb) as samples, _opened(root, dims) as opened:
        for _ in range(50):
            opened.search(next(queries), wait_ms=-1)
    return {
        "peak_mb": peak_mb(),
        "anonymous_mb": max((sample for sample in samples if sample is not None), default=None),
        "disk_mb": sum(file.stat().st_size for file in (root / ".vademecum").iterdir() if file.is_file()) / 1e6,
    }


PHASES: dict[str, Callable[[Path, int], dict[str, Any]]] = {"sync": sync, "search": search, "memory": memory}


def _opened(root: Path, dims: int) -> Memory:
    return Memory.open(root, settings=SETTINGS, embedder=RandomEmbedder(dims))


def _milliseconds(work: Callable[[], object], times: int) -> list[float]:
    taken = []
    for _ in range(WARM_UP + times):
        began = time.perf_counter()
        work()
        taken.append((time.perf_counter() - began) * 1000)
    return taken[WARM_UP:]


def _edit(opened: Memory, word: str) -> None:
    with (opened.root / "notes/000/00000.md").open("a", encoding="utf-8") as file:
        file.write(f"- {word}\n")
    if not any(word in hit.text for hit in opened.search(word, wait_ms=-1)):
        raise RuntimeError(f"{word} was written and not found")


@contextmanager
def _sampled(look: Callable[[], float | None]) -> Iterator[list[float | None]]:
    """What ``look`` gives every few milliseconds as long as the context lasts."""
    samples, done = [look()], threading.Event()

    def run() -> None:
        while not done.wait(0.002):
            samples.append(look())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield samples
    finally:
        done.set()
        thread.join()


def _in_a_process(phase: str, root: Path, dims: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.scaling", "--phase", phase, str(root), str(dims)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, env=dict(os.environ))
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def run(chunks: int, dims: int) -> Run:
    """All phases of one size, over a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="vademecum-scaling-") as name:
        root = Path(name)
        write_folder(root, chunks, max(FEWEST_SECTIONS, chunks // MOST_FILES))
        let_settle()
        figures: dict[str, Any] = {}
        for phase in PHASES:
            figures |= _in_a_process(phase, root, dims)
    return Run(chunks=chunks, dims=dims, **figures)


def main() -> None:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--chunks", nargs="+", type=int, default=[1000, 10_000, 100_000], help="300000 takes patience")
    parser.add_argument("--dims", nargs="+", type=int, default=[384, 512, 1536])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--kernels", type=Path, help="what pytest-benchmark wrote, to be summed up beside it")
    parser.add_argument("--phase", nargs=3, metavar=("PHASE", "ROOT", "DIMS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.phase is not None:
        phase, root, dims = options.phase
        print(json.dumps(PHASES[phase](Path(root), int(dims))))
        return
    runs = []
    for chunks in options.chunks:
        for dims in options.dims:
            runs.append(run(chunks, dims))
            print(f"{chunks:,} × {dims}: p50 {runs[-1].p50_ms:.2f} ms, open {runs[-1].first_ms:.1f} ms", flush=True)
            write(options.out, describe(), runs, options.kernels)
    print((options.out / "table.md").read_text())


if __name__ == "__main__":
    main()
