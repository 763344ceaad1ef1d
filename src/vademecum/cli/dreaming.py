"""The commands of the night: one dream, and a process that dreams every night."""

from __future__ import annotations

import threading
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from vademecum.cli.grammar import command
from vademecum.cli.output import note, print_diff, print_json, visible
from vademecum.cli.signals import stopped_by_signals
from vademecum.cli.target import open_memory

if TYPE_CHECKING:
    from vademecum.types import DreamReport


def add(adding: Any) -> None:
    """Add `vademecum dream` and `vademecum serve`."""
    examples = ("dream --dry-run", "dream", "dream --days 3 --force")
    parser = command(adding, "dream", "distil daily notes into MEMORY.md; undo takes it back", dream, examples)
    parser.add_argument("--days", metavar="N", type=int, help="look at the last N days (default: since the last dream)")
    parser.add_argument("--dry-run", action="store_true", help="show what would become of MEMORY.md")
    parser.add_argument("--force", action="store_true", help="once more today, or although dreams are switched off")
    summary = "do the nightly work, every night until stopped"
    parser = command(adding, "serve", summary, serve, ("serve --nightly 23:50", "serve --once"))
    parser.add_argument("--nightly", metavar="HH:MM", default="23:50", help="time of the user's day (default: 23:50)")
    parser.add_argument("--once", action="store_true", help="do the work of one night now, and end")


def dream(args: Namespace) -> int:
    """Dream once."""
    with open_memory(args) as memory:
        report = memory.dream(args.days, dry_run=args.dry_run, force=args.force)
    _show(report, args.json)
    return 1 if report.state in {"refused", "failed", "no model"} else 0


def serve(args: Namespace) -> int:
    """Dream every night. Ctrl-C and SIGTERM end it, and that is no failure."""
    with open_memory(args) as memory:
        if args.once:
            reports = memory.nightly()
            for report in reports:
                _show(report, args.json)
            return 1 if any(report.state in {"refused", "failed"} for report in reports) else 0
        stopped = threading.Event()
        with stopped_by_signals(stopped.set), memory.schedule(args.nightly) as schedule:
            if args.json:
                print_json({"event": "serving", "root": str(memory.root), "nightly": args.nightly})
            else:
                print(visible(f"serving {memory.root}, nightly at {args.nightly}; Ctrl-C ends it"), flush=True)
            told = None
            while not stopped.wait(5):
                if schedule.problem != told:
                    told = schedule.problem
                    note(told or "the nightly work is done after all")
    return 0


def _show(report: DreamReport, as_json: bool) -> None:
    if as_json:
        print_json(report)
    else:
        print_diff(report.diff)
        print(visible(f"{report.state}{f': {report.reason}' if report.reason else ''}"))
        if report.diary is not None:
            print(visible(f"diary: {report.diary}"))
    for reason in report.left_out:
        note(f"left out: {reason}")
    if report.proposal is not None:
        note(f"the refused version is kept in {report.proposal}")
