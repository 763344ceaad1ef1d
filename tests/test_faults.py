"""The list of known faults is complete, and every proof it names is a test that exists."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from faults import Fault, load, unproved

TESTS = Path(__file__).parent
SEED_FAULTS = {f"D-{n}" for n in range(1, 40)} | {f"C-{n}" for n in range(1, 68)}
#: Reports of users of such systems, by kind; the numbering of the survey has gaps.
REPORTS = {
    "3-A": (1, 2, 3, 4, 5, 6, 8),
    "3-B": (10, 11, 12, 13, 14, 15, 16, 17, 18),
    "3-C": (19, 20, 21, 22, 23, 25, 26, 28, 29, 30),
    "3-D": (31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 46),
    "3-E": (47, 48, 50, 51, 52, 54, 55),
    "3-F": (56, 57, 59, 60, 61, 62, 64),
    "3-G": (65, 66, 67, 68, 69, 70, 71, 73, 74),
    "3-H": (76, 77),
    "3-I": (78, 80, 82, 83, 85, 86, 87),
    "3-J": (88, 89, 90, 91, 93),
    "3-K": (94, 95, 96, 97, 98, 101),
    "3-L": (102, 103, 104, 105, 106, 108, 109),
    "3-M": (110, 111, 112),
    "3-N": (114, 115, 117),
}
#: What is still to be built; a fault that waits must wait for one of these.
CAPABILITIES = {
    "write path",
    "flush",
    "dream",
    "watch",
    "providers",
    "conversations",
    "knowledge",
    "drop-in",
    "agent tools",
    "operations",
    "approximate search",
}


def _tests_in(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_known_fault_is_listed_once() -> None:
    listed = [fault.id for fault in load()]
    expected = SEED_FAULTS | {f"{kind}.{number}" for kind, numbers in REPORTS.items() for number in numbers}
    assert len(listed) == len(set(listed))
    assert set(listed) == expected


def test_every_named_proof_exists() -> None:
    existing = {f"tests/{file.name}::{name}" for file in TESTS.glob("test_*.py") for name in _tests_in(file)}
    assert {test for fault in load() for test in fault.tests} <= existing


def test_what_waits_waits_for_something_that_is_planned() -> None:
    assert {fault.later for fault in load() if fault.later} <= CAPABILITIES


@pytest.mark.parametrize("entry", ["{}", '{ test = [], later = "" }', '{ test = "tests/a.py::test_a", why = "no" }'])
def test_an_entry_says_exactly_one_thing(tmp_path: Path, entry: str) -> None:
    listing = tmp_path / "faults.toml"
    listing.write_text(f"[seed]\nD-1 = {entry}\n")
    with pytest.raises(ValueError, match="D-1: expected one of test, later and why"):
        load(listing)


@pytest.mark.parametrize("seen", [{}, {"a": {"skipped"}}, {"a": {"passed", "failed"}}, {"b": {"passed"}}])
def test_only_a_test_that_ran_and_passed_is_a_proof(seen: dict[str, set[str]]) -> None:
    assert unproved([Fault("D-1", tests=("a",))], seen)
    assert not unproved([Fault("D-1", tests=("a",))], {"a": {"passed"}})
