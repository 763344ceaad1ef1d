"""``vademecum watch``: the index follows the files until the command is stopped."""

from __future__ import annotations

import sys
from argparse import Namespace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

from vademecum.cli import show
from vademecum.cli.grammar import command
from vademecum.cli.output import note, plain, print_json
from vademecum.cli.signals import stopped_by_signals
from vademecum.cli.target import open_memory

if TYPE_CHECKING:
    from vademecum.types import WatchRound

    _News: TypeAlias = SimpleQueue[WatchRound | None]


def add(adding: Any) -> None:
    """Add the command to the grammar."""
    summary = "keep the index up to date with the files until stopped"
    command(adding, "watch", summary, watch, ("watch", "watch --json"))


def watch(args: Namespace) -> int:
    """Print what happens, line by line. Ctrl-C and SIGTERM end it, and that is no failure."""
    news: _News = SimpleQueue()
    with stopped_by_signals(lambda: news.put(None)), open_memory(args) as memory, memory.watch(news.put):
        _say(args.json, f"watching {memory.root}; Ctrl-C ends it", {"event": "watching", "root": str(memory.root)})
        told: tuple[str, ...] = ()
        while (found := news.get()) is not None:
            for notice in () if args.json else (*found.notices, *(text for _, text in found.report.notices)):
                if notice not in told:
                    note(notice)
            told = (*found.notices, *(text for _, text in found.report.notices))
            _round(found, args.json)
    _say(args.json, "stopped", {"event": "stopped"})
    return 0


def _round(found: WatchRound, as_json: bool) -> None:
    record = found.report
    files = f"{record.added} added, {record.changed} changed, {record.removed} removed"
    text = f"{found.cause}: {files}, {record.chunks} chunks written in {found.elapsed_ms:.0f} ms"
    if found.cause == "vectors":
        text = f"vectors: {record.embedded} made in {found.elapsed_ms:.0f} ms, {record.pending} still waiting"
    if found.error is not None:
        text = f"{found.cause}: failed; it is tried again"
    if not as_json:
        for reason in (found.error, *(f"{path}: {reason}" for path, reason in record.failed)):
            if reason is not None:
                note(reason)
    fields = {**plain(found), "report": show.report_fields(record)}
    _say(as_json, text, {"event": fields.pop("cause"), **fields})


def _say(as_json: bool, text: str, fields: dict[str, Any]) -> None:
    if as_json:
        print_json(fields)
    else:
        print(text)
    sys.stdout.flush()
