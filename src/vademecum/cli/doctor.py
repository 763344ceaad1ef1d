"""`vademecum doctor`: everything that can be wrong, one line for each check."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from vademecum.cli.grammar import command
from vademecum.cli.output import paint, print_json, visible
from vademecum.cli.target import open_memory

_COLOURS = {"ok": "32", "fixed": "32", "note": "33", "skipped": "2", "wrong": "31"}


def add(adding: Any) -> None:
    """The command."""
    summary = "look for everything that can be wrong with a memory, and mend it"
    parser = command(adding, "doctor", summary, _doctor, ("doctor", "doctor --fix", "doctor --json"))
    text = "mend what can be mended; no text of a page is deleted; exit code 1 if something stays wrong"
    parser.add_argument("--fix", action="store_true", help=text)


def _doctor(args: Namespace) -> int:
    with open_memory(args) as memory:
        findings = memory.doctor(fix=args.fix)
    wrong = [finding for finding in findings if finding.state == "wrong"]
    if args.json:
        print_json({"sound": not wrong, "findings": findings})
        return 1 if wrong else 0
    for finding in findings:
        way_out = f" → {finding.fix}" if finding.fix else ""
        state = paint(f"{finding.state:<7}", _COLOURS[finding.state])
        print(f"{state} {visible(f'{finding.check}: {finding.where}: {finding.what}{way_out}')}")
    print(f"{len(wrong)} of {len(findings)} findings are wrong" if wrong else "nothing is wrong")
    return 1 if wrong else 0
