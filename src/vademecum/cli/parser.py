"""The grammar of the command line."""

from __future__ import annotations

import argparse
from typing import Any

from vademecum import __version__
from vademecum.cli import (
    commands,
    doctor,
    dreaming,
    flushing,
    history,
    inspect,
    knowledge,
    lanes,
    mcp,
    tool,
    transfer,
    watch,
    writing,
)
from vademecum.cli.grammar import CommandParser, Parser, add_common, command
from vademecum.cli.options import add_search_options

_EPILOG = """\
The memory is the folder named by --root or VADEMECUM_ROOT, else the nearest one above the current folder
that holds MEMORY.md or .vademecum/.

A first minute:
  vademecum init notes && cd notes
  vademecum remember "Single positions stay under 5 % of the portfolio."
  vademecum search "what is the limit for single positions?"

Exit codes: 0 done, 1 the work failed, 2 wrong usage.
"""


def build_parser() -> argparse.ArgumentParser:
    """A parser whose result has ``run``, a function of the arguments that returns the exit code."""
    parser = Parser(
        prog="vademecum",
        description="Long-term memory in Markdown, with search by word and by meaning.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action="version", version=f"vademecum {__version__}", help="print the version and exit"
    )
    add_common(parser, {"root": None, "user": None, "agent": None, "json": False})
    adding = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=CommandParser)
    notes = (_init, _remember, writing.add, _search, _get, _context, _prompt, history.add, knowledge.add)
    upkeep = (_sync, watch.add, lanes.add, _rebuild, _status, inspect.add, doctor.add, transfer.add, _bench)
    programs = (tool.add, mcp.add)
    for add in (*notes, flushing.add, dreaming.add, *upkeep, *programs):
        add(adding)
    return parser


def _init(adding: Any) -> None:
    examples = ("init", "init ~/notes")
    parser = command(adding, "init", "make a folder a memory; nothing is overwritten", commands.init, examples)
    parser.add_argument("dir", metavar="DIR", nargs="?", help="the folder (default: --root, else the current one)")


def _remember(adding: Any) -> None:
    examples = (
        'remember "Single positions stay under 5 % of the portfolio."',
        'remember --daily "Sold half of the bond fund."',
        'remember --file travel.md "Window seat, always."',
        "remember --daily - < notes.txt",
        'remember -- "--force is dangerous"',
    )
    parser = command(adding, "remember", "append a text to the memory", commands.remember, examples)
    parser.add_argument("text", metavar="TEXT", help="what to remember; - reads standard input")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--daily", action="store_true", help="in today's file instead of MEMORY.md")
    where.add_argument("--file", metavar="PATH", help="in this file of the memory, made if need be")


def _sync(adding: Any) -> None:
    examples = ("sync", "sync --switch-now", "sync --json")
    lanes.add_switch(command(adding, "sync", "bring the index up to date with the files", commands.sync, examples))


def _rebuild(adding: Any) -> None:
    examples = ("rebuild",)
    lanes.add_switch(command(adding, "rebuild", "build the index anew from the files", commands.rebuild, examples))


def _search(adding: Any) -> None:
    examples = (
        'search "what is the limit for single positions?"',
        "search 仓位上限 -k 3 --explain",
        'search "bond fund" --since 2026-01-01 --kind daily',
        "search allergies --path 'knowledge/*' --json",
    )
    parser = command(adding, "search", "find notes by word and by meaning", commands.search, examples)
    add_search_options(parser)
    parser.add_argument("--full", action="store_true", help="print whole texts, not their first lines")
    parser.add_argument("--explain", action="store_true", help="print why each hit is where it is")


def _get(adding: Any) -> None:
    examples = ("get MEMORY.md", "get memory/2026-01-11.md:5-20", "get long_term:12-", "get daily")
    parser = command(adding, "get", "print a file of the memory, or some of its lines", commands.get, examples)
    target = "a path as search prints it, long_term or daily; :A is line A, :A-B lines A to B, :A- from A to the end"
    parser.add_argument("target", metavar="PATH[:A-B]", help=target)


def _context(adding: Any) -> None:
    examples = ("context", "context --max-tokens 800")
    summary = "print what an agent should know at the start of a session"
    parser = command(adding, "context", summary, commands.context, examples)
    parser.add_argument("--max-tokens", metavar="N", type=int, help="budget, in estimated tokens")


def _prompt(adding: Any) -> None:
    examples = ("prompt", "prompt --language zh --max-tokens 800")
    summary = "print a section for an agent's system prompt: how to use the memory, and the context"
    parser = command(adding, "prompt", summary, commands.prompt, examples)
    parser.add_argument("--language", choices=("en", "zh"), default="en", help="default: en")
    parser.add_argument("--max-tokens", metavar="N", type=int, help="budget of the context, in estimated tokens")


def _status(adding: Any) -> None:
    examples = ("status", "status --json")
    command(adding, "status", "show the state of the memory and of its index", commands.status, examples)


def _bench(adding: Any) -> None:
    examples = ("bench", "bench --rows 100000 --dims 1536", "bench --json")
    summary = "measure exact search on this machine; needs no memory and leaves nothing behind"
    parser = command(adding, "bench", summary, commands.bench, examples)
    parser.add_argument("--rows", metavar="N", type=int, default=20_000, help="made-up vectors (default: 20000)")
    parser.add_argument("--dims", metavar="N", type=int, default=384, help="their dimensions (default: 384)")
    parser.add_argument("--k", metavar="N", type=int, default=10, help="results of a search (default: 10)")
