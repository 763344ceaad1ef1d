"""``vademecum tool``: one call of one of Dexter's tools, for a host in another language."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from vademecum.cli.grammar import command
from vademecum.cli.target import memory_root, named_root
from vademecum.errors import UsageError

_LARGEST = 16 * 1024 * 1024


def add(adding: Any) -> None:
    """Add the command to the grammar."""
    examples = (
        """tool memory_search '{"query": "position limits"}'""",
        """tool memory_update '{"content": "Retire at 60."}'""",
        "tool memory_get - < call.json",
    )
    summary = "call a tool of Dexter's memory: JSON in, JSON out"
    parser = command(adding, "tool", summary, tool, examples)
    parser.add_argument("name", metavar="NAME", help="memory_search, memory_get or memory_update")
    parser.add_argument("arguments", metavar="JSON", nargs="?", default="{}", help="the arguments; - reads stdin")


def tool(args: Namespace) -> int:
    """Call the tool and print its envelope on one line; 1 if it came to nothing."""
    from vademecum.compat.dexter import DexterMemory, call_tool, find_folder

    arguments = args.arguments
    if arguments == "-":
        arguments = sys.stdin.buffer.read(_LARGEST + 1)
        if len(arguments) > _LARGEST:
            raise UsageError(f"the arguments are longer than {_LARGEST} bytes")
    named = named_root(args)
    folder = find_folder(Path.cwd()) if named is None else None
    with DexterMemory(folder or memory_root(args), user=args.user, agent=args.agent) as memory:
        envelope, worked = call_tool(memory, args.name, arguments)
    print(json.dumps(envelope, ensure_ascii=True))
    return 0 if worked else 1
