"""The judge, the tables and the plot: figures are worth what these are."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks.machine import anonymous_mb, describe, peak_mb
from benchmarks.peers import duel, table
from benchmarks.peers.duel import Answers, Rival, Row
from benchmarks.peers.environment import UninstallableError, prepare
from benchmarks.peers.process import PeerFailedError, Process
from benchmarks.peers.protocol import Given, section
from benchmarks.peers.tasks import Reference, text_task, vector_task
from benchmarks.report import Axis, Run, plot, write

RUN = Run(1000, 384, 12.5, 1.25, 2.5, 0.5, 0.75, 9.0, 0.5, 60.0, 30.0, 8.0)


# the judge


def test_the_reference_accepts_its_own_list_and_swapped_ties_and_nothing_else(tmp_path: Path) -> None:
    task = vector_task(tmp_path / "task", 500, 16, 4, 5)
    rows, queries = task.rows(), task.queries()
    rows[7] = rows[3]
    np.save(task.folder / "rows.npy", rows)
    queries[0] = rows[3]
    np.save(task.folder / "queries.npy", queries)
    reference = Reference(task, 4)
    best = np.argsort(-(rows.astype(np.float64) @ queries[0].astype(np.float64)), kind="stable")[:6].tolist()
    assert best[:2] == [3, 7]
    assert reference.same(0, best[:5])
    assert reference.same(0, [7, 3, *best[2:5]])
    assert not reference.same(0, [3, 3, *best[2:5]])
    assert not reference.same(0, best[:4])
    assert not reference.same(0, [*best[:4], best[5]])
    assert not reference.same(0, [*best[:3], best[4], best[3]])
    assert reference.recall(0, best[:5]) == 1.0
    assert reference.recall(0, [*best[:4], best[5]]) == 0.8


def test_whole_systems_are_compared_with_our_hits() -> None:
    ours, theirs = Answers([[1, 2], [3, 4]]), Answers([[2, 9], [4, 3]])
    assert duel.judge(theirs, Rival("a:B", "b"), None, ours) == {"checked": 2, "shared": 0.75}


def test_the_ratio_is_the_median_of_rounds() -> None:
    compared = duel.compare([1.0, 1.0, 2.0], [3.0, 30.0, 6.0])
    assert (compared["ratio"], compared["rounds"]) == (3.0, 3)
    assert (compared["our_p50_ms"], compared["p50_ms"]) == (1.0, 6.0)


# the data


def test_texts_vectors_and_questions_belong_together(tmp_path: Path) -> None:
    task = text_task(tmp_path / "task", 30, 8, 4, 3)
    given, sections = Given(task), task.sections()
    assert [section(text) for text in sections] == list(range(30))
    assert given.row(sections[17]).tolist() == task.rows()[17].tolist()
    assert given.row(task.questions()[2]).tolist() == task.queries()[2].tolist()
    written = "".join(path.read_text() for path in sorted(task.notes.iterdir()))
    assert all(text in written for text in sections)


# the processes


def test_what_a_peer_raises_or_how_it_ends_is_its_result(tmp_path: Path) -> None:
    task = vector_task(tmp_path / "task", 50, 8, 4, 3)
    with Process(Path(sys.executable), "numpy_matmul:Matmul", task) as process:
        assert process.ask("open")["version"] == np.__version__
        found = process.ask("search", first=0, count=4)["found"]
        assert all(Reference(task, 4).same(number, hits) for number, hits in enumerate(found))
        with pytest.raises(PeerFailedError, match="IndexError"):
            process.ask("search", first=4, count=1)
        assert process.ask("memory")["peak_mb"] > 10
    with Process(Path(sys.executable), "no_such_peer:Exact", task) as process, pytest.raises(PeerFailedError):
        process.ask("open")


def test_a_peer_that_needs_a_python_that_is_not_here_is_uninstallable(tmp_path: Path) -> None:
    with pytest.raises(UninstallableError, match=r"needs Python 3\.99"):
        prepare(tmp_path, "future", ("nothing",), (3, 99))


def test_memory_is_that_of_this_process() -> None:
    before = peak_mb()
    held = np.ones(8_000_000)
    assert peak_mb() > before + 30
    anonymous = anonymous_mb()
    assert anonymous is None or anonymous > held.nbytes / 1e6


# what people see


def test_the_files_say_what_was_measured_and_where(tmp_path: Path) -> None:
    pytest_json = tmp_path / "pytest.json"
    pytest_json.write_text(
        json.dumps(
            {
                "benchmarks": [
                    {"group": "top 10", "name": "test_x", "stats": {"median": 0.0125}},
                    {"group": None, "name": "test_y", "fullname": "a/b.py::test_y", "stats": {"median": 1.0}},
                ]
            }
        )
    )
    write(tmp_path, describe(), [RUN, replace(RUN, chunks=100_000)], pytest_json)
    document = json.loads((tmp_path / "results.json").read_text())
    assert [run["chunks"] for run in document["runs"]] == [1000, 100_000]
    assert [list(kernel.values()) for kernel in document["kernels"]] == [
        ["a/b.py", "test_y", 1000.0],
        ["top 10", "test_x", 12.5],
    ]
    shown = (tmp_path / "table.md").read_text()
    assert str(describe()) in shown
    assert "| 100,000 | 384 | 12.5 | 1.25 |" in shown
    assert "| top 10 | test_x | 12.5 |" in shown


def test_the_plot_is_svg_with_a_line_a_series() -> None:
    runs = [replace(RUN, chunks=chunks, dims=dims) for chunks in (1000, 10_000) for dims in (384, 1536)]
    drawn = ElementTree.fromstring(plot(describe(), runs))
    lines = drawn.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 2 * 3, "p50, p95 and opening for each number of dimensions"
    words = [text.text for text in drawn.findall("{http://www.w3.org/2000/svg}text")]
    assert {"1,000", "10,000", "384 dimensions", "1536 dimensions"} <= set(words)


def test_an_axis_is_logarithmic_and_one_size_is_no_error() -> None:
    axis = Axis(1, 10_000, 0, 400)
    assert [axis.at(value) for value in axis.ticks()] == pytest.approx([0, 100, 200, 300, 400])
    ElementTree.fromstring(plot(describe(), [RUN]))


def test_the_comparison_names_what_was_promised_and_what_failed(tmp_path: Path) -> None:
    rows = [
        Row("slow", "1.0", 30.0, 1.0, 30.0, 28.0, 31.0, cpu_ratio=29.0, rounds=5, checked=9, same=9, floor=15, aim=25),
        Row("quick", "1.0", 1.0, 1.0, 1.0, 1.0, 1.0, rounds=5, checked=9, recall=0.5, floor=15, aim=25),
        Row("absent", failed="ERROR: no a|b", floor=15, aim=25),
    ]
    table.write(tmp_path, describe(), [{"title": "Top", "rows": [row.plain() for row in rows]}])
    shown = (tmp_path / "peers.md").read_text()
    assert "| slow | 1.0 | 30.0 | 1.00 | 30.0× (28.0–31.0) | 29.0× | ≥ 15×: aim 25× reached | 9 of 9 equal |" in shown
    assert "≥ 15×: MISSED | recall 0.500 in 9" in shown
    assert r"| absent | | | | failed: ERROR: no a\|b | | ≥ 15× |" in shown
    assert json.loads((tmp_path / "peers.json").read_text())["tables"][0]["rows"][2]["failed"] == "ERROR: no a|b"
