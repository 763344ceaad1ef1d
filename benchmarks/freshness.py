"""How soon a change on disk is found: many files, by searches that look for themselves and by such beside a watcher.

`python -m benchmarks.freshness` prints a table. Embedding is left out: there is no embedder.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from benchmarks.corpus import Words, let_settle, write_folder
from benchmarks.machine import describe
from vademecum import Memory, Settings
from vademecum.memory.watching import Watch
from vademecum.settings import EmbeddingSettings, WatchSettings
from vademecum.types import WatchRound

#: Beside a watcher, a search must not wait for one that is about to look.
_LATER = WatchSettings(debounce_ms=3_600_000)
_AT_ONCE = WatchSettings(debounce_ms=0)
_PATIENCE_S = 60.0


def measure(files: int, sections: int, renamed: int, times: int) -> dict[str, list[float]]:
    """Milliseconds by what was done; each as often as it could be repeated."""
    taken: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="vademecum-freshness-") as name:
        root = Path(name)
        write_folder(root, files * sections, sections)
        _gather(root, renamed)
        let_settle()
        with _opened(root) as memory:
            taken["first sync, files as they come"] = [_timed(memory.sync)]
            taken["sync of nothing"] = [_timed(memory.sync) for _ in range(times)]
            words = Words(2).queries()
            taken["search, nothing changed"] = _searches(memory, words, times)
            edits = _edits(memory, "plain")
            taken["one line added, then a search that finds it"] = [_timed(lambda: next(edits)) for _ in range(times)]
            let_settle()
            memory.sync()
            taken[f"folder of {renamed} files renamed, then a sync"] = _renames(memory, memory.sync, min(times, 6))
        with _opened(root, _LATER) as memory, memory.watch() as watch:
            _settled(memory, watch)
            taken["search beside a watcher, nothing changed"] = _searches(memory, words, times)
            edits = _edits(memory, "watched")
            taken["the same edit and search beside a watcher"] = [_timed(lambda: next(edits)) for _ in range(times)]
        rounds: list[WatchRound] = []
        with _opened(root, _AT_ONCE) as memory, memory.watch(rounds.append) as watch:
            _settled(memory, watch)

            def told(changed: int) -> None:
                _until(lambda: sum(one.report.added + one.report.changed for one in rounds) >= changed)

            def edit() -> None:
                rounds.clear()
                _append(memory.root, "alone")
                told(1)

            def noticed() -> None:
                told(renamed)
                rounds.clear()

            taken["one line added, then indexed by the watcher alone"] = [_timed(edit) for _ in range(times)]
            let_settle()
            rounds.clear()
            by_watcher = _renames(memory, noticed, min(times, 6))
            taken[f"folder of {renamed} files renamed, then noticed by the watcher"] = by_watcher
    return taken


def _gather(root: Path, renamed: int) -> None:
    """Have a folder of exactly so many files."""
    (root / "notes/moving0").mkdir()
    for file in sorted(root.glob("notes/[0-9]*/*.md"))[-renamed:]:
        file.rename(root / "notes/moving0" / file.name)


@contextmanager
def _opened(root: Path, watch: WatchSettings = WatchSettings()) -> Iterator[Memory]:  # noqa: B008 - frozen
    settings = Settings(embedding=EmbeddingSettings(provider="none"), watch=watch)
    with Memory.open(root, settings=settings) as memory:
        yield memory


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def _searches(memory: Memory, words: Iterator[str], times: int) -> list[float]:
    for _ in range(3):
        memory.search(next(words), wait_ms=-1)
    return [_timed(lambda: memory.search(next(words), wait_ms=-1)) for _ in range(times)]


def _append(root: Path, word: str) -> None:
    with (root / "notes/000/00000.md").open("a", encoding="utf-8") as file:
        file.write(f"- {word}\n")


def _edits(memory: Memory, name: str) -> Iterator[None]:
    for number in count():
        word = f"{name}word{number}"
        _append(memory.root, word)
        if not any(word in hit.text for hit in memory.search(word, wait_ms=-1)):
            raise RuntimeError(f"{word} was written and not found")
        yield


def _renames(memory: Memory, then: Callable[[], object], times: int) -> list[float]:
    taken = []
    for _ in range(times):
        (folder,) = memory.root.glob("notes/moving*")
        target = folder.with_name(f"moving{int(folder.name.removeprefix('moving')) + 1}")

        def rename(folder: Path = folder, target: Path = target) -> None:
            folder.rename(target)
            then()

        taken.append(_timed(rename))
    return taken


def _settled(memory: Memory, watch: Watch) -> None:
    """Wait until searches beside the watcher need not look."""
    let_settle()
    if watch.mode != "events":
        raise RuntimeError(f"the system tells of no changes: {watch.notices}")
    _until(lambda: memory.search("settled", wait_ms=-1).fresh and memory.search("settled", wait_ms=0).fresh)


def _until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not happened():
        if time.monotonic() > end:
            raise RuntimeError("it did not happen")
        time.sleep(0.0005)


def main() -> None:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.freshness", description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--sections", type=int, default=2, help="chunks of a file")
    parser.add_argument("--renamed", type=int, default=1000, help="files in the folder that is renamed")
    parser.add_argument("--times", type=int, default=20)
    options = parser.parse_args()
    taken = measure(options.files, options.sections, options.renamed, options.times)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    print(f"{options.files:,} files, {options.files * options.sections:,} chunks; milliseconds\n{describe()}")
    print(f"load average at the end: {load:.1f}\n")
    print(f"| {'':<62} | median | best |\n| {'-' * 62} | -----: | ---: |")
    for name, figures in taken.items():
        print(f"| {name:<62} | {statistics.median(figures):,.1f} | {min(figures):,.1f} |")


if __name__ == "__main__":
    main()
