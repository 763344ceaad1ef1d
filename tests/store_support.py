"""Real conditions for tests of files: a process without root's privileges, a full disk, a read-only root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import vademecum

_DROP = "-dac_override,-dac_read_search"


def python(code: str, *arguments: object, unprivileged: bool = False) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in a fresh interpreter; ``unprivileged`` makes file modes count even for root."""
    done = subprocess.run(
        [*(_without_privileges() if unprivileged else []), sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def environment() -> dict[str, str]:
    """The environment in which a child imports the same vademecum as this process."""
    return {**os.environ, "PYTHONPATH": str(Path(vademecum.__file__).parent.parent), "PYTHONUTF8": "1"}


def _without_privileges() -> list[str]:
    if not hasattr(os, "geteuid"):
        pytest.skip("file modes mean something else on this system")
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("runs as root and setpriv is not here to drop its capabilities")
    return [setpriv, f"--bounding-set={_DROP}", f"--inh-caps={_DROP}"]


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk of ``size`` bytes at ``folder``."""
    folder.mkdir(exist_ok=True)
    _mount("-t", "tmpfs", "-o", f"size={size}", "none", folder)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[Path]:
    """``folder`` as on a read-only file system."""
    _mount("--bind", folder, folder)
    try:
        _mount("-o", "remount,bind,ro", folder)
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def _mount(*arguments: str | Path) -> None:
    if sys.platform != "linux" or shutil.which("mount") is None:
        pytest.skip("mounts a file system, which this system cannot do")
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"may not mount a file system here: {done.stderr.strip()}")
