"""The whole engine over 10,000 chunks in 1,000 files × 512 dimensions; embedding costs nothing here.

Figures, not verdicts: machines differ. Bytes of memory and disk stand in ``extra_info`` of the last two.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from benchmarks.corpus import RandomEmbedder, Words, write_folder
from vademecum import Memory, Settings

CHUNKS, DIMS = 10_000, 512
SETTINGS = Settings()


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as path:
        write_folder(Path(path), CHUNKS)
        yield Path(path)


@pytest.fixture(scope="module")
def memory(folder: Path) -> Iterator[Memory]:
    with Memory.open(folder, settings=SETTINGS, embedder=RandomEmbedder(DIMS)) as opened:
        opened.sync()
        yield opened


def test_first_sync(benchmark: Any) -> None:
    with tempfile.TemporaryDirectory() as path:
        write_folder(Path(path), CHUNKS)

        def sync() -> None:
            with Memory.open(path, settings=SETTINGS, embedder=RandomEmbedder(DIMS)) as memory:
                assert memory.sync().chunks == CHUNKS

        benchmark.pedantic(sync, rounds=1)
    benchmark.extra_info["ms_per_chunk"] = round(benchmark.stats.stats.median * 1000 / CHUNKS, 3)


def test_no_op_sync(benchmark: Any, memory: Memory) -> None:
    benchmark.pedantic(memory.sync, rounds=10, warmup_rounds=2)


def test_one_line_edit_to_found(benchmark: Any, folder: Path, memory: Memory) -> None:
    numbers = count()

    def edit() -> None:
        word = f"uniqueword{next(numbers)}"
        with (folder / "notes/003/00345.md").open("a", encoding="utf-8") as file:
            file.write(f"- {word}\n")
        assert word in memory.search(word, wait_ms=-1)[0].text

    benchmark.pedantic(edit, rounds=20, warmup_rounds=2)


def test_search(benchmark: Any, memory: Memory) -> None:
    queries = Words(2).queries()
    benchmark.pedantic(lambda: memory.search(next(queries), wait_ms=-1), rounds=200, warmup_rounds=10)


def test_cold_open_to_first_answer(benchmark: Any, folder: Path, memory: Memory) -> None:
    memory.sync()
    memory.close()

    def answer() -> None:
        with Memory.open(folder, settings=SETTINGS, embedder=RandomEmbedder(DIMS)) as opened:
            assert opened.search("anything at all", wait_ms=-1).fresh

    benchmark.pedantic(answer, rounds=10)


def test_memory_and_disk(benchmark: Any, tmp_path: Path) -> None:
    """A process of its own syncs a new folder, searches and reports its peak resident memory."""
    program = (
        "import sys\n"
        "from benchmarks.corpus import RandomEmbedder, Words\n"
        "from benchmarks.machine import peak_mb\n"
        "from vademecum import Memory, Settings\n"
        "queries = Words(2).queries()\n"
        f"with Memory.open(sys.argv[1], settings=Settings(), embedder=RandomEmbedder({DIMS})) as memory:\n"
        "    memory.sync()\n"
        "    for _ in range(50): memory.search(next(queries), wait_ms=-1)\n"
        "print(peak_mb())\n"
    )
    write_folder(tmp_path, CHUNKS)

    def run() -> float:
        child = [sys.executable, "-c", program, str(tmp_path)]
        done = subprocess.run(child, capture_output=True, text=True, check=True)
        return float(done.stdout)

    benchmark.extra_info["peak_rss_mb"] = round(benchmark.pedantic(run, rounds=1), 1)
    state = sum(file.stat().st_size for file in (tmp_path / ".vademecum").iterdir())
    benchmark.extra_info["disk_mb"] = round(state / 1e6, 1)
