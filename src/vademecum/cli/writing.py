"""Commands that change pages, and those that show and take back changes."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any

from vademecum.cli.grammar import command
from vademecum.cli.output import note, paint, print_diff, print_json, visible
from vademecum.cli.target import open_memory
from vademecum.errors import UsageError

if TYPE_CHECKING:
    from vademecum.types import Edited, LogEntry

_LINES = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_DIM = "2"


def add(adding: Any) -> None:
    """The commands edit, forget, log, diff and undo."""
    _add_edit(adding)
    _add_forget(adding)
    _add_log(adding)
    _add_diff(adding)
    _add_undo(adding)


def _add_edit(adding: Any) -> None:
    examples = (
        'edit MEMORY.md --old "limit is 5 %" --new "limit is 8 %"',
        'edit daily --old "bonds" --new "bond funds" --all',
        "edit travel.md --lines 10-20 --old Paris --new Lyon",
    )
    parser = command(adding, "edit", "put one text in the place of another, literally", _edit, examples)
    _add_place(parser)
    parser.add_argument("--old", metavar="TEXT", required=True, help="what stands there now, in one place only")
    parser.add_argument("--new", metavar="TEXT", required=True, help='what is to stand there; "" deletes')


def _add_forget(adding: Any) -> None:
    examples = ('forget MEMORY.md --text "Window seat, always."', "forget daily --text draft --all")
    parser = command(adding, "forget", "delete a text from a page; `vademecum undo` brings it back", _forget, examples)
    _add_place(parser)
    parser.add_argument("--text", metavar="TEXT", required=True, help="what is to go; it stands in one place only")


def _add_place(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a path as search prints it, long_term or daily")
    parser.add_argument("--all", action="store_true", help="in every place where it stands")
    parser.add_argument("--lines", metavar="A-B", help="only in these lines")
    parser.add_argument("--expect", metavar="HASH", help="only if the page still has this content (see `get --json`)")


def _add_log(adding: Any) -> None:
    examples = ("log", "log MEMORY.md", "log -n 5 --json")
    parser = command(adding, "log", "list what was changed, newest first", _log, examples)
    parser.add_argument("path", metavar="PATH", nargs="?", help="only changes of this page")
    parser.add_argument("-n", dest="most", metavar="N", type=int, help="at most N changes")


def _add_diff(adding: Any) -> None:
    parser = command(adding, "diff", "show what a change did", _diff, ("diff 12",))
    parser.add_argument("id", metavar="ID", type=int, help="the change's number in the log")


def _add_undo(adding: Any) -> None:
    examples = ("undo", "undo 12")
    parser = command(adding, "undo", "take a change back; what was written since stays", _undo, examples)
    which = "the change's number in the log (default: the newest that was not taken back); an undo can be undone"
    parser.add_argument("id", metavar="ID", type=int, nargs="?", help=which)


def _edit(args: Namespace) -> int:
    with open_memory(args) as memory:
        edited = memory.edit(args.path, args.old, args.new, all=args.all, lines=_range(args.lines), expect=args.expect)
    return _show_edited(edited, args)


def _forget(args: Namespace) -> int:
    with open_memory(args) as memory:
        edited = memory.forget(args.path, args.text, all=args.all, lines=_range(args.lines), expect=args.expect)
    return _show_edited(edited, args)


def _show_edited(edited: Edited, args: Namespace) -> int:
    if args.json:
        print_json(edited)
    else:
        change = "" if edited.entry is None else paint(f"  (change {edited.entry})", _DIM)
        for line in edited.lines:
            print(visible(f"{edited.path}:{line}") + change)
    for warning in edited.warnings:
        note(warning)
    return 0


def _log(args: Namespace) -> int:
    if args.most is not None and args.most < 1:
        raise UsageError(f"-n {args.most}: expected a whole number of 1 or more")
    with open_memory(args) as memory:
        entries = memory.log(args.path)[: args.most]
        zone = memory.settings.zone
    if args.json:
        print_json({"entries": entries})
        return 0
    for entry in entries:
        print(_line(entry, zone))
    if not entries:
        note("no change is on record")
    return 0


def _line(entry: LogEntry, zone: tzinfo | None) -> str:
    when = datetime.fromtimestamp(entry.at, UTC).astimezone(zone).strftime("%Y-%m-%d %H:%M")
    if entry.moved_from is not None:
        what = f"moved from {entry.moved_from}"
    else:
        what = "created" if entry.before is None else "deleted" if entry.after is None else "changed"
    parts = (f"{entry.id:>5}", when, f"{entry.by:<6}", visible(entry.path), paint(what, _DIM), visible(entry.why))
    return "  ".join(filter(None, parts))


def _diff(args: Namespace) -> int:
    with open_memory(args) as memory:
        diff = memory.diff(args.id)
    if args.json:
        print_json(diff)
    else:
        print_diff(diff.text)
    return 0


def _undo(args: Namespace) -> int:
    with open_memory(args) as memory:
        entry = memory.undo(args.id)
    if args.json:
        print_json(entry)
    else:
        print(visible(f"{entry.path}: change {entry.undoes} is taken back") + paint(f"  (change {entry.id})", _DIM))
    return 0


def _range(lines: str | None) -> tuple[int, int] | None:
    if lines is None:
        return None
    match = _LINES.fullmatch(lines)
    if match is None:
        raise UsageError(f"--lines {lines}: expected lines as 12 or as 10-20")
    return int(match[1]), int(match[2] or match[1])
