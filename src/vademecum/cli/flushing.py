"""The command that turns a conversation into notes."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from vademecum.cli.grammar import command
from vademecum.cli.output import note, print_json, visible
from vademecum.cli.target import open_memory
from vademecum.errors import UsageError

_LARGEST = 512 * 1024 * 1024


def add(adding: Any) -> None:
    """Add `vademecum flush`."""
    examples = (
        "flush conversation.jsonl",
        "flush conversation.jsonl --kind events --heading 'Daily summary'",
        "flush - --dry-run < conversation.jsonl",
        "flush --pending",
    )
    parser = command(adding, "flush", "write what a conversation must not lose into today's page", flush, examples)
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="one message a line, or a JSON list; - is standard input"
    )
    parser.add_argument(
        "--kind", choices=("facts", "events"), default="facts", help="what to look for (default: facts)"
    )
    parser.add_argument("--heading", metavar="TEXT", help="what stands above it")
    parser.add_argument("--session", metavar="ID", help="name of the conversation")
    parser.add_argument("--dry-run", action="store_true", help="show what would be written")
    parser.add_argument("--pending", action="store_true", help="do what was given before and could not be done")


def flush(args: Namespace) -> int:
    """Flush a file, or what is pending."""
    if (args.file is None) == (not args.pending):
        raise UsageError("name one FILE with the conversation, or --pending")
    messages = [] if args.pending else _messages(args.file)
    with open_memory(args) as memory:
        if args.pending:
            reports = memory.flush_pending()
        else:
            options = {"kind": args.kind, "heading": args.heading, "session": args.session, "dry_run": args.dry_run}
            reports = (memory.flush(messages, **options),)
    for report in reports:
        for notice in report.notices:
            note(notice)
    if args.json:
        print_json(reports if args.pending else reports[0])
    else:
        for report in reports:
            where = "" if report.written is None else f"{report.written.path}:{report.written.start_line}\n"
            print(visible(f"{where}{report.summary}" or f"nothing written ({report.source})"))
    return 1 if any(report.source == "failed" for report in reports) else 0


def _messages(name: str) -> list[object]:
    try:
        data = sys.stdin.buffer.read(_LARGEST) if name == "-" else Path(name).expanduser().read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: is not valid UTF-8 at byte {error.start}") from None
    try:
        whole = json.loads(text)
    except ValueError:
        return [_line(name, number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if isinstance(whole, dict):
        whole = whole.get("messages", [whole])
    if not isinstance(whole, list):
        raise UsageError(f"{name}: expected a list of messages, or one message on each line")
    return whole


def _line(name: str, number: int, line: str) -> object:
    try:
        return json.loads(line)
    except ValueError as error:
        raise UsageError(f"{name}, line {number}: is not JSON: {error}") from None
