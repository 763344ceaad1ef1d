"""Many processes on one memory, killed at any moment: the index is always the one of a fresh build."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from memories import PATIENT, texts
from store_support import environment
from vademecum import Memory
from vademecum.sqlite import connection as connections

STRESS = bool(os.environ.get("VADEMECUM_STRESS"))
HERE = Path(__file__).parent

pytestmark = [
    pytest.mark.stress,
    pytest.mark.skipif(not hasattr(os, "fork") or not Path("/proc/self/statm").exists(), reason="forks, reads /proc"),
]


def run(script: str, *arguments: object) -> str:
    environ = environment()
    environ["PYTHONPATH"] = os.pathsep.join((environ["PYTHONPATH"], str(HERE)))
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_sync_killed_at_any_statement_leaves_what_the_next_one_heals(tmp_path: Path) -> None:
    kills, seed = (200, os.getpid()) if STRESS else (25, 7)
    assert int(run("sync_killer.py", tmp_path / "notes", kills, seed)) > kills // 3


def test_processes_that_edit_search_and_are_killed_leave_the_index_of_a_fresh_build(tmp_path: Path) -> None:
    seconds, kills, seed = (300, 100, os.getpid()) if STRESS else (60, 25, 7)
    told = json.loads(run("soak.py", tmp_path / "notes", seconds, kills, seed))
    assert told["kills"] == kills and told["lines"] > 0 and told["searches"] > 0


def test_a_long_maintenance_by_another_program_costs_no_write_and_no_answer(tmp_path: Path) -> None:
    settings = replace(PATIENT, search=replace(PATIENT.search, wait_ms=50))
    with Memory.open(tmp_path / "notes", settings=settings) as memory:
        memory.remember("the first rule")
        with closing(sqlite3.connect(memory.root / ".vademecum" / "index.sqlite", isolation_level=None)) as other:
            assert connections.BUSY_SECONDS >= 30
            other.execute("BEGIN IMMEDIATE")
            with ThreadPoolExecutor(1) as pool:
                written = pool.submit(memory.remember, "the second rule")
                assert "the first rule" in texts(memory.search("rule"))
                other.execute("COMMIT")
                assert written.result(60).path == "MEMORY.md"
        assert "the second rule" in texts(memory.search("second", wait_ms=-1))
