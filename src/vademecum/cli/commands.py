"""What each command does: find the memory, make one call, show the answer. Each returns the exit code."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from vademecum.cli import show
from vademecum.cli.options import search_options
from vademecum.cli.output import note
from vademecum.cli.progress import progress_bar
from vademecum.cli.target import named_folder, named_root, open_memory
from vademecum.errors import UsageError

if TYPE_CHECKING:
    from vademecum.types import SyncReport

# A memory's files end in .md, so digits after the last colon can only be lines.
_LINES = re.compile(r"(?P<path>.+):(?P<first>\d+)(?P<more>-(?P<last>\d*))?", re.DOTALL)
_MOST_DIGITS = 18


def init(args: Namespace) -> int:
    from vademecum import memory
    from vademecum.store.root import find_root

    folder = named_folder(args.dir if args.dir is not None else named_root(args) or ".").resolve()
    known = find_root(folder) == folder
    show.made(memory.init(folder), known=known, as_json=args.json)
    return 0


def remember(args: Namespace) -> int:
    text = standard_input() if args.text == "-" else args.text
    with open_memory(args) as memory:
        written = memory.remember(text, daily=args.daily, file=args.file)
    show.written(written, as_json=args.json)
    return 0


def sync(args: Namespace) -> int:
    with open_memory(args) as memory, progress_bar() as progress:
        report = memory.sync(progress=progress, switch_now=args.switch_now)
    return _report(report, args)


def rebuild(args: Namespace) -> int:
    with open_memory(args) as memory, progress_bar() as progress:
        report = memory.rebuild(progress=progress, switch_now=args.switch_now)
    return _report(report, args)


def search(args: Namespace) -> int:
    with open_memory(args) as memory:
        result = memory.search(
            args.query,
            **search_options(args),
            wait_ms=-1,
        )
        wants_vectors = memory.settings.embedding.provider != "none"
    show.found(result, as_json=args.json, explain=args.explain, full=args.full)
    for notice in result.notices:
        note(notice)
    if result.disabled is not None:
        note(f"search is disabled: {result.disabled}")
        return 1
    for channel, state in result.channels.items():
        if state != "ok" and (channel != "vector" or wants_vectors):
            note(f"the {channel} channel is {state}")
    if not result.fresh:
        note("the index is behind the files; `vademecum sync` says why")
    return 0


def get(args: Namespace) -> int:
    path, start, lines = _target(args.target)
    with open_memory(args) as memory:
        excerpt = memory.get(path, start=start, lines=lines)
    show.excerpt(excerpt, as_json=args.json)
    return 0


def context(args: Namespace) -> int:
    with open_memory(args) as memory:
        answer = memory.context(max_tokens=args.max_tokens)
    show.context(answer, as_json=args.json)
    return 0


def prompt(args: Namespace) -> int:
    with open_memory(args) as memory:
        answer = memory.prompt(args.language, max_tokens=args.max_tokens)
    show.context(answer, as_json=args.json)
    return 0


def status(args: Namespace) -> int:
    with open_memory(args) as memory:
        answer = memory.status()
    show.status(answer, as_json=args.json)
    return 0


def bench(args: Namespace) -> int:
    from vademecum.diagnose import measure

    show.speed(measure(args.rows, args.dims, args.k), as_json=args.json)
    return 0


def _target(target: str) -> tuple[str, int | None, int | None]:
    """Path, first line and count of lines of ``PATH``, ``PATH:A``, ``PATH:A-`` or ``PATH:A-B``."""
    match = _LINES.fullmatch(target)
    if match is None:
        return target, None, None
    if max(len(match["first"]), len(match["last"] or "")) > _MOST_DIGITS:
        raise UsageError(f"{target:.60}…: no file has so many lines")
    first = int(match["first"])
    if match["more"] == "-":
        return match["path"], first, None
    last = int(match["last"] or first)
    if last < first:
        raise UsageError(f"{target}: line {last} comes before line {first}; lines are given as first-last")
    return match["path"], first, last - first + 1


def standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not valid UTF-8 at byte {error.start}; convert it first") from None


def _report(report: SyncReport, args: Namespace) -> int:
    show.report(report, as_json=args.json)
    for _, notice in report.notices:
        note(notice)
    for name, reason in report.failed:
        note(f"{name}: {reason}")
    return 1 if report.failed else 0
