"""Recall of the whole search on public questions, stage by stage. ``make quality``; exit code 1 below a floor."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.evaluation import EvaluationSet, data_folder, load
from vademecum import Memory, Settings
from vademecum.embed import CachedQueries
from vademecum.embed.local import LocalEmbedder
from vademecum.ports import Embedder
from vademecum.settings import SearchSettings

#: recall@5, and recall@1, that must be reached.
FLOORS_AT_5 = {"memory en": 0.43, "memory zh": 0.60, "memory across": 0.70}
FLOORS_AT_1 = {"xquad en": 0.93, "xquad zh": 0.89}
#: The most recall@5 that fusion may lose against the better channel, and a stage against its absence. On a set
#: under 100 questions one question is always allowed.
MOST_LOST = 0.02
#: Choices of days for the dated variant; one is enough where there are many questions.
DATE_SEEDS = (1, 2, 3, 4, 5)
MANY = 1000


@dataclass(frozen=True, slots=True)
class Score:
    """Shares of questions whose page came first and within five, and how many came back empty."""

    at_1: float
    at_5: float
    empty: int


@dataclass
class Report:
    """Lines for people, and what fell below a floor."""

    failures: list[str] = field(default_factory=list)

    def row(self, name: str, variant: str, score: Score) -> None:
        print(f"{name:15} {variant:24} {score.at_1:8.3f} {score.at_5:8.3f} {score.empty:6}", flush=True)

    def demand(self, holds: bool, what: str) -> None:
        if not holds:
            self.failures.append(what)


def evaluate(memory: Memory, paths: Sequence[str], questions: EvaluationSet, **options: Any) -> Score:
    """Ask every question with the default six results."""
    first = five = empty = 0
    for question in questions.questions:
        found = list(dict.fromkeys(hit.path for hit in memory.search(question.text, wait_ms=-1, **options)))
        empty += not found
        first += paths[question.page] in found[:1]
        five += paths[question.page] in found[:5]
    return Score(first / len(questions.questions), five / len(questions.questions), empty)


def measure(questions: EvaluationSet, embedder: Embedder, report: Report) -> None:
    """One set: each channel alone, the default, and the default without one stage."""
    undated = {"decay": False}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        paths = questions.write(root)
        bare = {**undated, "mmr": False, "min_score": 0.0}
        vector = _channel(root, embedder, paths, questions, SearchSettings(vector_weight=1, text_weight=0), bare)
        keyword = _channel(root, embedder, paths, questions, SearchSettings(vector_weight=0, text_weight=1), bare)
        with Memory.open(root, settings=Settings(), embedder=embedder) as memory:
            fused = evaluate(memory, paths, questions, **bare)
            floored = evaluate(memory, paths, questions, **undated, mmr=False)
            default = evaluate(memory, paths, questions, **undated)
            others = {name: evaluate(memory, paths, questions, **bare, fusion=name) for name in ("weighted", "rrf")}
    rows = {"vector alone": vector, "keyword alone": keyword, "fused": fused, "+ floor": floored}
    rows |= {"+ floor + MMR (default)": default, **others}
    for variant, score in rows.items():
        report.row(questions.name, variant, score)
    allowed = max(MOST_LOST, 1 / len(questions.questions) if len(questions.questions) < 100 else 0) + 1e-9
    report.demand(max(vector.at_5, keyword.at_5) - fused.at_5 <= allowed, f"{questions.name}: fusion loses recall@5")
    report.demand(fused.at_5 - floored.at_5 <= MOST_LOST, f"{questions.name}: the floor loses recall@5")
    report.demand(floored.at_5 - default.at_5 <= allowed, f"{questions.name}: MMR loses recall@5")
    report.demand(default.empty == 0, f"{questions.name}: {default.empty} questions came back empty")
    report.demand(default.at_5 >= FLOORS_AT_5.get(questions.name, 0) - 1e-9, f"{questions.name}: recall@5 below floor")
    report.demand(default.at_1 >= FLOORS_AT_1.get(questions.name, 0), f"{questions.name}: recall@1 below its floor")
    measure_decay(questions, embedder, report, allowed)


def measure_decay(questions: EvaluationSet, embedder: Embedder, report: Report, allowed: float) -> None:
    """The set as dailies of three years, with decay and without, over several choices of days."""
    with_decay, without = [], []
    for seed in DATE_SEEDS[: 1 if len(questions.questions) >= MANY else None]:
        with tempfile.TemporaryDirectory() as folder:
            paths = questions.write_dated(Path(folder), date.today(), seed)  # noqa: DTZ011 - as the memory's own today
            with Memory.open(folder, settings=Settings(), embedder=embedder) as memory:
                with_decay.append(evaluate(memory, paths, questions))
                without.append(evaluate(memory, paths, questions, decay=False))
    report.row(questions.name, "dated, decay on (mean)", _mean(with_decay))
    report.row(questions.name, "dated, decay off (mean)", _mean(without))
    lost = _mean(without).at_5 - _mean(with_decay).at_5
    report.demand(lost <= allowed, f"{questions.name}: decay loses {lost:.3f} recall@5")
    report.demand(_mean(with_decay).empty == 0, f"{questions.name}: questions came back empty with decay")


def _channel(
    root: Path,
    embedder: Embedder,
    paths: Sequence[str],
    questions: EvaluationSet,
    search: SearchSettings,
    options: dict[str, Any],
) -> Score:
    with Memory.open(root, settings=replace(Settings(), search=search), embedder=embedder) as memory:
        return evaluate(memory, paths, questions, **options)


def _mean(scores: Sequence[Score]) -> Score:
    count = len(scores)
    return Score(
        sum(score.at_1 for score in scores) / count,
        sum(score.at_5 for score in scores) / count,
        sum(score.empty for score in scores),
    )


def main() -> int:
    """Print the table; 0 if every floor holds, 1 if not, 2 without data."""
    folder = data_folder()
    if folder is None:
        print("no evaluation data: set VADEMECUM_EVAL_DATA to its folder", file=sys.stderr)
        return 2
    report = Report()
    # Each question is embedded once, however many variants ask it.
    embedder = CachedQueries(LocalEmbedder(), size=10_000)
    print(f"{'set':15} {'variant':24} {'recall@1':>8} {'recall@5':>8} {'empty':>6}")
    for questions in load(folder):
        measure(questions, embedder, report)
    for failure in report.failures:
        print(f"below its floor: {failure}", file=sys.stderr)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
