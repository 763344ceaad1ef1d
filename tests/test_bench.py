"""`vademecum bench`: what it measures is real, and it leaves nothing behind."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest

from vademecum import diagnose, kernels
from vademecum.cli import main
from vademecum.diagnose import bench
from vademecum.errors import UsageError

pytestmark = pytest.mark.kernels


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go during a test."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_every_search_gives_the_list_of_the_full_scan(temporary: Path) -> None:
    speed = diagnose.measure(rows=3000, dims=24, k=7, queries=30)
    assert (speed.rows, speed.dims, speed.k, speed.queries) == (3000, 24, 7, 30)
    assert speed.kernels.startswith(kernels.NAME)
    if kernels.NAME == "native":
        assert (speed.way, speed.scans, speed.same) == ("map", 20, 20)
        assert speed.scan_ms is not None
    else:
        assert (speed.way, speed.scans, speed.scan_ms) == ("select", 0, None)
    assert 0 < speed.p50_ms <= speed.p95_ms
    assert speed.first_ms > 0
    assert speed.fill_s > 0
    assert speed.file_mb >= 3000 * 24 * 5 / 1e6
    assert list(temporary.iterdir()) == []


def test_the_store_holds_the_rows_it_was_given(tmp_path: Path) -> None:
    rows = np.eye(40, dtype=np.float32)
    bench.fill(tmp_path, 40, [rows[:25], rows[25:]])
    with bench.opened(tmp_path) as (index, lane), index.reader() as reader:
        for number, row in enumerate(rows):
            (hit,) = reader.search_vector(lane, row, 1, ())
            assert (hit.id, hit.score) == (number + 1, 1.0)


def test_more_results_than_rows_are_no_error() -> None:
    speed = diagnose.measure(rows=3, dims=8, k=10, queries=2)
    assert speed.same == speed.scans


@pytest.mark.parametrize("wrong", [{"rows": 0}, {"dims": 0}, {"k": 0}, {"queries": 0}, {"dims": 16_001}])
def test_a_size_that_cannot_be_meant_is_named(wrong: dict[str, int], temporary: Path) -> None:
    ((name, value),) = wrong.items()
    with pytest.raises(UsageError, match=f"{name} = {value}: "):
        diagnose.measure(**wrong)
    assert list(temporary.iterdir()) == []


def test_the_command_prints_a_table_or_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--rows", "500", "--dims", "16"]) == 0
    told = capsys.readouterr().out
    assert "500 × 16" in told
    assert "ms median" in told
    assert main(["bench", "--rows", "500", "--dims", "16", "--k", "3", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["rows"], answer["dims"], answer["k"]) == (500, 16, 3)
    assert main(["bench", "--rows", "0"]) == 2
    assert "rows = 0" in capsys.readouterr().err
