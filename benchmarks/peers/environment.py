"""One virtual environment per peer, so that they cannot stand in each other's way."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
OURS = "vademecum"
_NEWEST = 14

#: One thread for every library that asks, no model from a hub, and hnswlib for every processor.
_SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HNSWLIB_NO_NATIVE": "1",
    "PYTHONPATH": str(REPOSITORY),
    "PYTHONDONTWRITEBYTECODE": "1",
}
#: They slow OpenBLAS down.
_UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


class UninstallableError(Exception):
    """Why a peer cannot be had here."""


def environ(home: Path) -> Mapping[str, str]:
    """What a peer's process sees; libraries that write to the home folder write to ``home``."""
    kept = {name: value for name, value in os.environ.items() if name not in _UNSET}
    return {**kept, **_SETTINGS, "HOME": str(home)}


def prepare(folder: Path, name: str, requires: Sequence[str], needs: tuple[int, int]) -> Path:
    """The interpreter of ``name``'s environment in ``folder``, installed if it is not there yet.

    Our own package is built anew each time. Raises UninstallableError.
    """
    place = folder / name
    python, stamp = place / "bin" / "python", place / "installed"
    wanted = " ".join((f"{needs[0]}.{needs[1]}", *requires))
    if name == OURS or not stamp.exists() or stamp.read_text() != wanted:
        if not python.exists():
            _run(_interpreter(needs), "-m", "venv", str(place))
        for requirement in requires:
            what = (str(REPOSITORY), "--force-reinstall") if requirement == OURS else (requirement,)
            _run(str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *what)
        stamp.write_text(wanted)
    return python


def _interpreter(needs: tuple[int, int]) -> str:
    """This Python if it is new enough, else the oldest other one that is: on the path, or installed beside this one."""
    if sys.version_info >= needs:
        return sys.executable
    for minor in range(needs[1], _NEWEST + 1):
        name = f"python{needs[0]}.{minor}"
        beside = sorted(map(str, Path(sys.base_prefix).parent.glob(f"*/bin/{name}")))
        for found in filter(None, (shutil.which(name), *beside)):
            # A version manager's stand-in may be on the path with nothing behind it.
            if subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0:
                return found
    raise UninstallableError(f"needs Python {needs[0]}.{needs[1]} or newer, and there is none here")


def _run(*command: str) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "HNSWLIB_NO_NATIVE": "1"}
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines or ["no reason given"]
        raise UninstallableError(errors[-1])
