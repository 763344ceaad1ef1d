"""The other end of a worker: start it, ask it, and be rid of it whatever it does."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.peers.environment import REPOSITORY, environ
from benchmarks.peers.protocol import Task

#: Seconds that one command may take; building an approximate index takes minutes.
PATIENCE = 1800.0


class PeerFailedError(Exception):
    """What a peer raised, or how its process ended."""


class Process:
    """One peer in a process of its own, for the length of a ``with``."""

    def __init__(self, python: Path, name: str, task: Task) -> None:
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        command = [str(python), "-m", "benchmarks.peers.worker", name, str(task.folder), str(task.k)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            cwd=REPOSITORY,
            env=environ(task.folder),
        )

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """The answer to one command. Raises PeerFailedError."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        timer = threading.Timer(PATIENCE, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if not line:
            raise PeerFailedError(f"its process ended during {do!r}{self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise PeerFailedError(answer["failed"])
        return answer

    def _last_words(self) -> str:
        self._complaints.seek(0)
        lines = [line for line in self._complaints.read().splitlines() if line.strip()]
        return f": {lines[-1]}" if lines else ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Nothing of it is needed any more, and some libraries never end by themselves.
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._complaints):
            if stream is not None:
                stream.close()
