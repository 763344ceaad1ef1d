"""Two processes asked in turn, so that what slows the machine slows both."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.peers.process import Process
from benchmarks.peers.protocol import Task
from benchmarks.peers.tasks import Reference

#: A round asks as many queries as fill this time, within the bounds.
_ROUND_MS, _FEWEST, _MOST = 400.0, 3, 40
#: Answers of slow peers are checked for this long.
_CHECK_MS = 20_000.0


@dataclass(frozen=True, slots=True)
class Promise:
    """How many times faster than this rival we must be, and want to be."""

    floor: float
    aim: float


@dataclass(frozen=True, slots=True)
class Rival:
    """``name`` is MODULE:CLASS in this package. ``approximate`` ones are judged by recall, not by equality."""

    name: str
    title: str
    promise: Promise | None = None
    approximate: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One rival beside us. ``ratio``: its time over ours, the median of rounds; ``low`` and ``high``: their quartiles;
    ``cpu_ratio``: the same of processor time, which other work on the machine disturbs less.

    ``checked`` answers were looked at; ``same`` of them were the reference's lists, and ``recall`` is the share of
    the best rows in them. Whole systems rank each in its own way: ``shared`` is the share of our hits that they found.
    ``own_mb`` is resident memory at the end without pages of files.
    """

    title: str
    version: str = ""
    p50_ms: float = 0.0
    our_p50_ms: float = 0.0
    ratio: float = 0.0
    low: float = 0.0
    high: float = 0.0
    cpu_ratio: float = 0.0
    rounds: int = 0
    checked: int = 0
    same: int | None = None
    recall: float | None = None
    shared: float | None = None
    build_s: float = 0.0
    peak_mb: float = 0.0
    our_peak_mb: float = 0.0
    own_mb: float = 0.0
    our_own_mb: float = 0.0
    floor: float | None = None
    aim: float | None = None
    failed: str | None = None

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Answers:
    """Lists by query, as one process gave them."""

    found: Sequence[Sequence[int]]


def collect(process: Process, first_guess_ms: float, most: int) -> Answers:
    """The answers to the first queries, as many as there is time for."""
    count = max(_FEWEST, min(most, int(_CHECK_MS / max(first_guess_ms, 0.01))))
    return Answers(process.ask("search", first=0, count=count)["found"])


def pace(process: Process) -> float:
    """Milliseconds of a search, roughly."""
    return float(statistics.median(process.ask("search", first=0, count=_FEWEST)["ms"]))


def times(ours: Process, rival: Process, rival_ms: float, rounds: int, queries: int) -> dict[str, Any]:
    """What `compare` says, with both asked the same queries in turn."""
    count = min(queries, max(_FEWEST, min(_MOST, int(_ROUND_MS / max(rival_ms, 0.01)))))
    mine: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []
    for number in range(rounds):
        first = number * count % (queries - count + 1)
        # Who goes first changes, in case the order matters.
        for process, taken in ((ours, mine), (rival, theirs)) if number % 2 else ((rival, theirs), (ours, mine)):
            taken.append(process.ask("search", first=first, count=count))
    compared = compare(_medians(mine, "ms"), _medians(theirs, "ms"))
    cpu = compare(_medians(mine, "cpu_ms"), _medians(theirs, "cpu_ms"))
    return {
        **compared,
        "our_p50_ms": statistics.median(chain(*(batch["ms"] for batch in mine))),
        "p50_ms": statistics.median(chain(*(batch["ms"] for batch in theirs))),
        "cpu_ratio": cpu["ratio"],
    }


def _medians(batches: Sequence[dict[str, Any]], key: str) -> list[float]:
    return [statistics.median(batch[key]) for batch in batches]


def compare(mine: Sequence[float], theirs: Sequence[float]) -> dict[str, Any]:
    """Both medians, the median of the ratios by round, and its quartiles."""
    ratios = [their_ms / my_ms for my_ms, their_ms in zip(mine, theirs, strict=True)]
    low, ratio, high = statistics.quantiles(ratios, n=4)
    return {
        "our_p50_ms": statistics.median(mine),
        "p50_ms": statistics.median(theirs),
        "ratio": ratio,
        "low": low,
        "high": high,
        "rounds": len(ratios),
    }


def judge(answers: Answers, rival: Rival, reference: Reference | None, ours: Answers) -> dict[str, Any]:
    """How good the answers are: against the reference, else against ours."""
    found = answers.found
    if reference is None:
        shared = [len(set(a) & set(b)) / max(1, len(b)) for a, b in zip(found, ours.found, strict=False)]
        return {"checked": len(shared), "shared": statistics.fmean(shared)}
    verdicts: dict[str, Any] = {
        "checked": len(found),
        "recall": statistics.fmean(reference.recall(number, hits) for number, hits in enumerate(found)),
    }
    if not rival.approximate:
        verdicts["same"] = sum(reference.same(number, hits) for number, hits in enumerate(found))
    return verdicts


def openings(python: Callable[[str], Path], names: Sequence[str], task: Task, rounds: int) -> dict[str, list[float]]:
    """Milliseconds from opening to the first answer, each in a new process, in turn; the first round warms up."""
    taken: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds + 1):
        for name in names:
            with Process(python(name), name, task) as process:
                ms = process.ask("open")["ms"]
            if number:
                taken[name].append(ms)
    return taken
