"""On what the figures were taken: figures without it mean nothing."""

from __future__ import annotations

import os
import platform
import resource
import sqlite3
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine and the versions that matter."""

    cpu: str
    cores: int
    memory_gb: int
    kernel: str
    python: str
    sqlite: str
    numpy: str
    instruction_set: str

    def __str__(self) -> str:
        return (
            f"{self.cpu}, {self.cores} cores, {self.memory_gb} GB, {self.kernel}, Python {self.python}, "
            f"SQLite {self.sqlite}, numpy {self.numpy}, kernels {self.instruction_set}"
        )


def describe() -> Machine:
    """This machine, seen from this process."""
    import numpy as np

    from vademecum import kernels

    return Machine(
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_gb=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
        numpy=np.__version__,
        instruction_set=f"{kernels.NAME} ({kernels.instruction_set()})",
    )


def peak_mb() -> float:
    """Greatest resident memory of this process so far, pages of mapped files included."""
    try:
        return _status_mb("VmHWM")
    except OSError:  # no /proc; elsewhere a child does not start with its parent's figure, as it does on Linux
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def anonymous_mb() -> float | None:
    """Resident memory of this process now, without pages of files; None where the system does not tell."""
    try:
        return _status_mb("RssAnon")
    except OSError:
        return None


def _status_mb(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    (value,) = (line.split()[1] for line in lines if line.startswith(f"{name}:"))
    return int(value) * 1024 / 1e6


def _cpu() -> str:
    """The processor's name; some virtual machines give little more than its maker's."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    found = dict(line.split(":", 1) for line in lines if ":" in line)
    told = {name.strip(): value.strip() for name, value in found.items()}
    family = f" (family {told['cpu family']}, model {told['model']})" if "cpu family" in told else ""
    return told.get("model name", platform.machine()) + family
