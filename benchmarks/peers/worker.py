"""A peer's own process: `python -m benchmarks.peers.worker MODULE:CLASS FOLDER K` answers lines of JSON."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.machine import anonymous_mb, peak_mb
from benchmarks.peers.protocol import Peer, Task


class Worker:
    """Carries out commands, each a dict with "do"."""

    def __init__(self, name: str, task: Task) -> None:
        module_name, _, class_name = name.partition(":")
        self._module = importlib.import_module(f"benchmarks.peers.{module_name}")
        self._task = task
        self._peer: Peer = getattr(self._module, class_name)()

    def build(self) -> dict[str, Any]:
        """Seconds to make what is kept."""
        began = time.perf_counter()
        self._peer.build(self._task)
        return {"seconds": time.perf_counter() - began}

    def open(self) -> dict[str, Any]:
        """Milliseconds to the first answer, and the version."""
        began = time.perf_counter()
        self._peer.open(self._task)
        self._peer.search(0)
        taken = time.perf_counter() - began
        name = re.split(r"[^\w-]", self._module.REQUIRES[-1])[0]
        version = importlib.metadata.version(name)
        return {"ms": taken * 1000, "version": version}

    def search(self, first: int, count: int) -> dict[str, Any]:
        """Milliseconds by the clock and of processor time, and lists, of ``count`` queries from number ``first`` on."""
        ms, cpu_ms, found = [], [], []
        for number in range(first, first + count):
            began, cpu_began = time.perf_counter(), time.process_time()
            hits = self._peer.search(number)
            ms.append((time.perf_counter() - began) * 1000)
            cpu_ms.append((time.process_time() - cpu_began) * 1000)
            found.append([int(hit) for hit in hits])
        return {"ms": ms, "cpu_ms": cpu_ms, "found": found}

    def memory(self) -> dict[str, Any]:
        """Peak resident memory of this process, and what of it is now no page of a file."""
        return {"peak_mb": peak_mb(), "own_mb": anonymous_mb() or 0.0}


def main() -> None:
    """Serve until the input ends. What libraries print goes to standard error."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker: Worker | None = None
    for line in sys.stdin:
        command = json.loads(line)
        try:
            worker = worker or Worker(sys.argv[1], Task(Path(sys.argv[2]), int(sys.argv[3])))
            reply = getattr(worker, command.pop("do"))(**command)
        except Exception as error:  # whatever a rival raises is its result
            reply = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main()
