"""How the comparison looks: one line on the terminal, a Markdown table, JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.machine import Machine

_HEAD = (
    "| | version | its p50 ms | our p50 ms | we are faster by | by CPU time | promised | answers |"
    " build s | its peak MB (own) | ours |\n"
    "| --- | --- | ---: | ---: | ---: | ---: | --- | --- | ---: | ---: | ---: |\n"
)
_INTRODUCTION = """\
# vademecum beside its peers

`make bench-peers`, {machine}.

Each library runs in a process of its own on the same vectors; both are asked in turn, and "faster by" is the median
of the ratios of the rounds, quartiles in brackets. "Answers": lists equal to a float64 reference (scores closer than
2e-6 are ties), recall of approximate ones, and for whole systems, which rank in ways of their own, the share of our
hits that they found too. "Own" memory is what was resident at the end without pages of files.
"""


def line(row: Mapping[str, Any]) -> str:
    """One row for a terminal."""
    if row["failed"]:
        return f"{row['title']:41} FAILED: {row['failed']}"
    return (
        f"{row['title']:41} {row['p50_ms']:9.2f} ms, ours {row['our_p50_ms']:8.2f} ms: {_ratio(row):24}"
        f" {_promised(row):24} {_answers(row)}"
    )


def write(folder: Path, machine: Machine, tables: Sequence[Mapping[str, Any]]) -> None:
    """peers.json and peers.md in ``folder``."""
    document = {"machine": asdict(machine), "tables": tables}
    (folder / "peers.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    parts = [_INTRODUCTION.format(machine=machine)]
    for entry in tables:
        rows = "".join(_markdown(row) for row in entry["rows"])
        parts.append(f"\n## {entry['title']}\n\n{_HEAD}{rows}")
    (folder / "peers.md").write_text("".join(parts), encoding="utf-8")


def _markdown(row: Mapping[str, Any]) -> str:
    if row["failed"]:
        reason = " ".join(row["failed"].replace("|", "\\|").split())
        return f"| {row['title']} | | | | failed: {reason} | | {_promised(row)} | | | | |\n"
    cells = (
        row["title"],
        row["version"],
        _number(row["p50_ms"]),
        _number(row["our_p50_ms"]),
        _ratio(row),
        f"{_number(row['cpu_ratio'])}×" if row["cpu_ratio"] else "",
        _promised(row),
        _answers(row),
        f"{row['build_s']:.1f}" if row["build_s"] else "",
        f"{row['peak_mb']:.0f} ({row['own_mb']:.0f})" if row["peak_mb"] else "",
        f"{row['our_peak_mb']:.0f} ({row['our_own_mb']:.0f})" if row["our_peak_mb"] else "",
    )
    return "| " + " | ".join(cells) + " |\n"


def _ratio(row: Mapping[str, Any]) -> str:
    if not row["rounds"]:
        return ""
    return f"{_number(row['ratio'])}× ({_number(row['low'])}–{_number(row['high'])})"


def _promised(row: Mapping[str, Any]) -> str:
    floor, aim, ratio = row["floor"], row["aim"], row["ratio"]
    if floor is None:
        return ""
    if not ratio:
        return f"≥ {floor:g}×"
    verdict = f"aim {aim:g}× reached" if ratio >= aim else "kept" if ratio >= floor else "MISSED"
    return f"≥ {floor:g}×: {verdict}"


def _answers(row: Mapping[str, Any]) -> str:
    if not row["checked"]:
        return ""
    if row["same"] is not None:
        return f"{row['same']} of {row['checked']} equal"
    if row["recall"] is not None:
        return f"recall {row['recall']:.3f} in {row['checked']}"
    return f"{row['shared']:.2f} of our hits in {row['checked']}"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
