"""`vademecum watch`: one line for what happens, and an orderly end however it is stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memories import write
from store_support import environment
from vademecum.cli import main


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path / "notes", {"MEMORY.md": "the old zebra\n"})
    return tmp_path / "notes"


@contextmanager
def watching(root: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "vademecum", "--root", root, "watch", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment(), "VADEMECUM_WATCH__DEBOUNCE_MS": "20"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM], ids=lambda end: end.name)
def test_every_line_is_an_object_until_a_signal_ends_it(root: Path, end: signal.Signals) -> None:
    with watching(root, "--json") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"event": "watching", "root": str(root)}
        start = json.loads(process.stdout.readline())
        assert (start["event"], start["error"], start["report"]["added"]) == ("start", None, 1)
        write(root, {"new.md": b"a giraffe", "bad.md": b"\xff"})
        changed = json.loads(process.stdout.readline())
        while not changed["report"]["failed"]:  # the two were written one after the other
            changed = json.loads(process.stdout.readline())
        assert changed["event"] == "change"
        assert changed["report"]["failed"][0]["path"] == "bad.md"
        process.send_signal(end)
        out, err = process.communicate(timeout=60)
        assert [json.loads(line)["event"] for line in out.splitlines()] == ["stopped"]
        assert (process.returncode, err) == (0, "")
    found = subprocess.run(
        [sys.executable, "-m", "vademecum", "--root", root, "status", "--json"],
        capture_output=True, text=True, env=environment(), check=True,
    )  # fmt: skip
    assert json.loads(found.stdout)["index"]["sources"] == 2


def test_a_person_reads_counts_and_reasons(root: Path) -> None:
    with watching(root) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"watching {root}; Ctrl-C ends it\n"
        assert process.stdout.readline().startswith("start: 1 added, 0 changed, 0 removed, 1 chunks written in ")
        (root / "MEMORY.md").unlink()
        assert process.stdout.readline().startswith("change: 0 added, 0 changed, 1 removed, ")
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60) == ("stopped\n", "")
        assert process.returncode == 0


def test_it_ends_when_nobody_reads_it_any_more(root: Path) -> None:
    with watching(root, "--json") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.readline()
        process.stdout.close()
        process.stdout = None
        (root / "MEMORY.md").write_text("the new zebra\n")
        assert process.wait(timeout=60) == 0


def test_without_a_memory_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(tmp_path / "nowhere"), "watch"]) == 2
    assert "there is no such folder" in capsys.readouterr().err
