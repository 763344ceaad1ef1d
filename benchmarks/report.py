"""What `make bench` found, as JSON, a Markdown table and a plot; `python -m benchmarks.report` draws both anew."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import Machine

RESULTS = Path("benchmarks/results")


@dataclass(frozen=True, slots=True)
class Run:
    """One size; times in milliseconds. ``at_once`` is a search that does not look at the folder."""

    chunks: int
    dims: int
    first_ms: float
    p50_ms: float
    p95_ms: float
    at_once_p50_ms: float
    at_once_p95_ms: float
    edit_ms: float
    sync_ms_per_chunk: float
    peak_mb: float
    anonymous_mb: float | None
    disk_mb: float


@dataclass(frozen=True, slots=True)
class Kernel:
    """The median of one pytest-benchmark test."""

    group: str
    name: str
    median_ms: float


def write(folder: Path, machine: Machine, runs: Sequence[Run], pytest_json: Path | None = None) -> None:
    """All three files. ``pytest_json`` is the file that pytest-benchmark wrote."""
    folder.mkdir(parents=True, exist_ok=True)
    kernels = _kernels(json.loads(pytest_json.read_text(encoding="utf-8"))) if pytest_json is not None else []
    document = {
        "machine": asdict(machine),
        "runs": [asdict(run) for run in runs],
        "kernels": [asdict(kernel) for kernel in kernels],
    }
    (folder / "results.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (folder / "table.md").write_text(table(machine, runs, kernels), encoding="utf-8")
    (folder / "plot.svg").write_text(plot(machine, runs), encoding="utf-8")


def _kernels(document: dict[str, Any]) -> list[Kernel]:
    found = [
        Kernel(entry["group"] or entry["fullname"].partition("::")[0], entry["name"], entry["stats"]["median"] * 1000)
        for entry in document["benchmarks"]
    ]
    return sorted(found, key=lambda kernel: (kernel.group, kernel.median_ms))


# -- the table ----------------------------------------------------------------------------------------------------

_COLUMNS: tuple[tuple[str, Callable[[Run], str]], ...] = (
    ("chunks", lambda run: f"{run.chunks:,}"),
    ("dims", lambda run: str(run.dims)),
    ("open to first answer, ms", lambda run: number(run.first_ms)),
    ("search p50, ms", lambda run: number(run.p50_ms)),
    ("p95", lambda run: number(run.p95_ms)),
    ("without the look at the folder p50", lambda run: number(run.at_once_p50_ms)),
    ("p95", lambda run: number(run.at_once_p95_ms)),
    ("edit to found, ms", lambda run: number(run.edit_ms)),
    ("first sync, ms a chunk", lambda run: number(run.sync_ms_per_chunk)),
    ("peak RSS, MB", lambda run: f"{run.peak_mb:.0f}"),
    ("of it not of files", lambda run: "" if run.anonymous_mb is None else f"{run.anonymous_mb:.0f}"),
    ("on disk, MB", lambda run: f"{run.disk_mb:.0f}"),
)


def table(machine: Machine, runs: Sequence[Run], kernels: Sequence[Kernel]) -> str:
    """Markdown."""
    lines = [
        "# vademecum, measured",
        "",
        f"`make bench`, {machine}.",
        "",
        "Embedding excluded: vectors cost nothing here. Up to 1,000 files; hybrid search with all stages, 6 results.",
        "",
        _row([name for name, _ in _COLUMNS]),
        _row(["---:"] * len(_COLUMNS)),
        *(_row([cell(run) for _, cell in _COLUMNS]) for run in runs),
    ]
    if kernels:
        lines += ["", "## Kernels and engine (pytest-benchmark)", "", _row(["group", "test", "median, ms"])]
        lines += [_row(["---", "---", "---:"])]
        lines += [_row([kernel.group, kernel.name, number(kernel.median_ms)]) for kernel in kernels]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def number(value: float) -> str:
    """Three figures or so."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


# -- the plot -----------------------------------------------------------------------------------------------------

_COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#7a4b94", "#8a6d1d")
_WIDTH, _HEIGHT, _PANEL_WIDTH, _PANEL_HEIGHT = 960, 460, 360, 290
_TOP, _LEFTS = 96, (80, 550)
_STYLE = "font-family='system-ui, sans-serif' fill='#222'"


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic axis from ``low`` to ``high``, in pixels from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The pixel of a value."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """1, 2 and 5 of each power of ten; powers alone where those would be too many."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        steps = (1, 2, 5) if self.high / self.low < 1000 else (1,)
        return [step * 10.0**power for power in powers for step in steps if self.low <= step * 10.0**power <= self.high]


def plot(machine: Machine, runs: Sequence[Run]) -> str:
    """An SVG of two panels: searches, and opening to the first answer, both against the number of chunks."""
    dims = sorted({run.dims for run in runs})
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {_HEIGHT}' {_STYLE}>",
        f"<rect width='{_WIDTH}' height='{_HEIGHT}' fill='white'/>",
        _text(_LEFTS[0], 30, "vademecum: how search and opening grow", size=18, weight="bold"),
        _text(_LEFTS[0], 50, _escaped(str(machine)), size=10, fill="#666"),
        *_panel(_LEFTS[0], "Hybrid search, ms: p50, and p95 dashed", runs, dims, [_p50, _p95]),
        *_panel(_LEFTS[1], "Open to first answer, ms", runs, dims, [_first]),
        *_legend(dims),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _p50(run: Run) -> float:
    return run.p50_ms


def _p95(run: Run) -> float:
    return run.p95_ms


def _first(run: Run) -> float:
    return run.first_ms


def _panel(
    left: float, title: str, runs: Sequence[Run], dims: Sequence[int], values: Sequence[Callable[[Run], float]]
) -> list[str]:
    across = _axis([float(run.chunks) for run in runs], left, left + _PANEL_WIDTH)
    up = _axis([value(run) for run in runs for value in values], _TOP + _PANEL_HEIGHT, _TOP)
    parts = [_text(left, _TOP - 14, title, size=13, weight="bold")]
    for tick in up.ticks():
        parts.append(_line(left, up.at(tick), left + _PANEL_WIDTH, up.at(tick), "#ddd"))
        parts.append(_text(left - 8, up.at(tick) + 4, f"{tick:g}", anchor="end"))
    for chunks in sorted({run.chunks for run in runs}):
        x = across.at(chunks)
        parts.append(_line(x, _TOP + _PANEL_HEIGHT, x, _TOP + _PANEL_HEIGHT + 5, "#222"))
        parts.append(_text(x, _TOP + _PANEL_HEIGHT + 20, f"{chunks:,}", anchor="middle"))
    parts.append(_line(left, _TOP + _PANEL_HEIGHT, left + _PANEL_WIDTH, _TOP + _PANEL_HEIGHT, "#222"))
    parts.append(_line(left, _TOP, left, _TOP + _PANEL_HEIGHT, "#222"))
    parts.append(_text(left + _PANEL_WIDTH / 2, _TOP + _PANEL_HEIGHT + 40, "chunks", anchor="middle"))
    for which, value in enumerate(values):
        for number_of, size in enumerate(dims):
            points = [(across.at(run.chunks), up.at(value(run))) for run in runs if run.dims == size]
            parts += _series(sorted(points), _COLOURS[number_of % len(_COLOURS)], dashed=which > 0)
    return parts


def _axis(values: Sequence[float], start: float, end: float) -> Axis:
    """Room for all values, and for a line where there is only one."""
    return Axis(min(values) / 1.3, max(values) * 1.3, start, end)


def _series(points: Sequence[tuple[float, float]], colour: str, *, dashed: bool) -> list[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dash = " stroke-dasharray='5 4' stroke-opacity='0.7'" if dashed else ""
    line = f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2'{dash}/>"
    dots = [] if dashed else [f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.5' fill='{colour}'/>" for x, y in points]
    return [line, *dots]


def _legend(dims: Sequence[int]) -> list[str]:
    parts = []
    for number_of, size in enumerate(dims):
        x, y = _LEFTS[0] + 140 * number_of, _HEIGHT - 14
        parts.append(_line(x, y - 4, x + 24, y - 4, _COLOURS[number_of % len(_COLOURS)], width=3))
        parts.append(_text(x + 30, y, f"{size} dimensions"))
    return parts


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> str:
    return f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{colour}' stroke-width='{width}'/>"


def _text(
    x: float, y: float, text: str, *, size: int = 11, anchor: str = "start", weight: str = "normal", fill: str = "#222"
) -> str:
    look = f"font-size='{size}' text-anchor='{anchor}' font-weight='{weight}' fill='{fill}'"
    return f"<text x='{x:.1f}' y='{y:.1f}' {look}>{text}</text>"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def main() -> None:
    """Draw table and plot anew from results.json."""
    document = json.loads((RESULTS / "results.json").read_text(encoding="utf-8"))
    machine, runs = Machine(**document["machine"]), [Run(**run) for run in document["runs"]]
    kernels = [Kernel(**kernel) for kernel in document["kernels"]]
    (RESULTS / "table.md").write_text(table(machine, runs, kernels), encoding="utf-8")
    (RESULTS / "plot.svg").write_text(plot(machine, runs), encoding="utf-8")


if __name__ == "__main__":
    main()
