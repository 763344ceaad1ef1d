"""Vectors of several models: which of them answer, and removing those that nobody needs."""

from __future__ import annotations

import argparse
from typing import Any

from vademecum.cli.grammar import command
from vademecum.cli.output import note, plain, print_json, visible
from vademecum.cli.target import open_memory


def add(adding: Any) -> None:
    """The command ``gc``."""
    examples = ("gc --dry-run", "gc", "gc --keep-days 0")
    parser = command(adding, "gc", "remove vectors that nothing needs any more; Markdown stays", _gc, examples)
    parser.add_argument("--dry-run", action="store_true", help="only tell what would go")
    text = "keep what was made or in use in the last N days (default: 30)"
    parser.add_argument("--keep-days", metavar="N", type=float, help=text)


def add_switch(parser: argparse.ArgumentParser) -> None:
    """The option that does not wait until a new model's vectors are complete."""
    text = "let the embedding model's vectors answer at once, complete or not, in the place of an older model's"
    parser.add_argument("--switch-now", action="store_true", help=text)


def _gc(args: argparse.Namespace) -> int:
    options = {} if args.keep_days is None else {"keep_days": args.keep_days}
    with open_memory(args) as memory:
        found = memory.gc(dry_run=args.dry_run, **options)
    if args.json:
        print_json({**plain(found), "kept": [{"name": name, "reason": reason} for name, reason in found.kept]})
        return 0
    done = "would go" if found.dry_run else "removed"
    for name in (*(f"vectors of {lane}" for lane in found.lanes), *found.files):
        print(visible(f"{done}: {name}"))
    freed = "" if found.dry_run else f"; {found.freed / 1e6:.1f} MB given back"
    print(f"{done}: {found.vectors} vectors, {found.texts} texts that stand nowhere{freed}")
    for name, reason in found.kept:
        note(f"{name}: {reason}")
    return 0
