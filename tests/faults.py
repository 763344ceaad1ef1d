"""Which test proves the absence of which known fault, and whether it has done so in this session.

``faults.toml`` lists the faults. ``pytest --faults`` fails unless each test named there ran and passed.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

LIST = Path(__file__).with_name("faults.toml")


@dataclass(frozen=True)
class Fault:
    """A fault seen elsewhere. Exactly one of the three says how it stands here.

    ``tests``: node ids that prove its absence; ``later``: the capability it belongs to, which is not built yet;
    ``why``: the reason why it cannot occur.
    """

    id: str
    tests: tuple[str, ...] = ()
    later: str | None = None
    why: str | None = None


def load(path: Path = LIST) -> list[Fault]:
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    return [_fault(name, entry) for table in tables.values() for name, entry in table.items()]


def _fault(name: str, entry: Mapping[str, str | list[str]]) -> Fault:
    given = dict(entry)
    tests = given.pop("test", [])
    fault = Fault(name, (tests,) if isinstance(tests, str) else tuple(tests), **given)  # type: ignore[arg-type]
    if sum(map(bool, (fault.tests, fault.later, fault.why))) != 1:
        raise ValueError(f"{name}: expected one of test, later and why, and only one")
    return fault


def unproved(faults: Iterable[Fault], outcomes: Mapping[str, Collection[str]]) -> list[str]:
    """One line per named test that did not pass, in all its parameters, in this session."""
    problems = []
    for fault in faults:
        for test in fault.tests:
            seen = outcomes.get(test, ())
            if set(seen) != {"passed"}:
                problems.append(f"{fault.id}: {test} {' and '.join(sorted(seen)) or 'did not run'}")
    return problems


class Ledger:
    """Pytest plugin: notes how each test ended and closes the account when the session does."""

    def __init__(self) -> None:
        self._faults = load()
        self._outcomes: dict[str, set[str]] = defaultdict(set)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            outcome = "was expected to fail" if hasattr(report, "wasxfail") else report.outcome
            self._outcomes[report.nodeid.partition("[")[0]].add(outcome)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if unproved(self._faults, self._outcomes) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        problems = unproved(self._faults, self._outcomes)
        proved = len({fault.id for fault in self._faults if fault.tests} - {line.split(":")[0] for line in problems})
        later = sum(fault.later is not None for fault in self._faults)
        terminalreporter.section("known faults")
        terminalreporter.write_line(f"{len(self._faults)} listed: {proved} proved absent, {later} wait for later work")
        for line in problems:
            terminalreporter.write_line(f"UNPROVED {line}", red=True)
