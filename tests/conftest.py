"""What every test stands on: an environment of its own, and how long Hypothesis searches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import settings

from faults import Ledger
from memories import PATIENT, OpenMemory, write
from vademecum import Memory

#: The choice of kernels and the place of the evaluation data are meant for the tests; all other settings are not.
_MEANT_FOR_TESTS = {"VADEMECUM_KERNELS", "VADEMECUM_EVAL_DATA"}
_OURS = ("VADEMECUM_", "OPENAI_", "XDG_")
_EVAL_FILES = ("memory_questions.json", "xquad.en.json", "xquad.zh.json")

# In the suite a change is judged by the same cases each time; `make stress` looks for new ones.
settings.register_profile("suite", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("stress", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("stress" if os.environ.get("VADEMECUM_STRESS") else "suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--faults", action="store_true", help="fail unless every fault in faults.toml was proved absent")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--faults"):
        config.pluginmanager.register(Ledger(), "faults")


@pytest.fixture(autouse=True)
def own_environment(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the user's files, settings or keys, or loads a real model because one happens to be installed."""
    for name in os.environ:
        if name.startswith(_OURS) and name not in _MEANT_FOR_TESTS:
            monkeypatch.delenv(name)
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / ".cache"))
    monkeypatch.setenv("VADEMECUM_EMBEDDING__PROVIDER", "none")


@pytest.fixture(scope="session")
def eval_data() -> Path:
    """The folder of public questions on which quality is judged; it is not part of the repository."""
    beside = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    folder = Path(os.environ.get("VADEMECUM_EVAL_DATA") or beside)
    missing = [name for name in _EVAL_FILES if not (folder / name).is_file()]
    if missing:
        pytest.skip(f"no evaluation data: {', '.join(missing)} not in {folder} (VADEMECUM_EVAL_DATA names another)")
    return folder


@pytest.fixture
def open_memory(tmp_path: Path) -> Iterator[OpenMemory]:
    """Opens the memory in ``tmp_path / "notes"`` after writing the pages given; closed when the test ends."""
    with ExitStack() as stack:

        def opened(pages: Mapping[str, str | bytes] | None = None, **options: object) -> Memory:
            write(tmp_path / "notes", pages or {})
            return stack.enter_context(Memory.open(tmp_path / "notes", **{"settings": PATIENT, **options}))

        yield opened
