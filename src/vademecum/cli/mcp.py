"""``vademecum mcp``: the memory as an MCP server, and what its clients must be told."""

from __future__ import annotations

import signal
import sys
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vademecum.cli.grammar import command
from vademecum.cli.output import note, print_json
from vademecum.cli.target import memory_root
from vademecum.config import environment
from vademecum.errors import PackageMissingError, UsageError

if TYPE_CHECKING:
    from vademecum.tools import Tools
    from vademecum.tools.http import Door

_PORT = 8765
_VARIABLE = "VADEMECUM_MCP_TOKEN"


def add(adding: Any) -> None:
    """Add the command to the grammar."""
    examples = (
        "mcp --root ~/notes",
        "mcp --profile reader",
        "mcp --http",
        "mcp --http 0.0.0.0:8765 --token-file token.txt --allow-host memory.example.org",
        "mcp --print-config claude-code",
    )
    parser = command(adding, "mcp", "serve the memory to agents over the Model Context Protocol", mcp, examples)
    parser.add_argument(
        "--profile", choices=("full", "memory", "reader", "dexter"), default="full",
        help="the tools: all (default), without knowledge pages, only those that read, or Dexter's three",
    )  # fmt: skip
    parser.add_argument("--language", choices=("en", "zh"), default="en", help="of descriptions and prompts")
    parser.add_argument(
        "--http", metavar="[HOST:]PORT", nargs="?", const=f"127.0.0.1:{_PORT}",
        help=f"serve over HTTP at /mcp (default: 127.0.0.1:{_PORT}) instead of standard input and output",
    )  # fmt: skip
    parser.add_argument("--token-file", metavar="FILE", help=f"with the token that clients must send (or {_VARIABLE})")
    parser.add_argument("--allow-host", metavar="NAME", action="append", default=[], help="another name of this server")
    parser.add_argument(
        "--allow-origin", metavar="URL", action="append", default=[], help="web pages from there may use the server"
    )
    clients = ("claude-desktop", "claude-code", "cursor", "vscode")
    parser.add_argument("--print-config", choices=clients, help="print what this client's configuration needs")


def mcp(args: Namespace) -> int:
    """Serve until the client leaves, or over HTTP until SIGINT or SIGTERM; or print a configuration."""
    if args.http is None and (args.token_file or args.allow_host or args.allow_origin):
        raise UsageError("--token-file, --allow-host and --allow-origin go with --http")
    if args.print_config is not None:
        return _print_config(args)
    root = memory_root(args)
    try:
        # Both at once: an extra that is half there is not there.
        from vademecum.tools import http
        from vademecum.tools.mcp import serve_stdio
    except ImportError as error:
        raise PackageMissingError(f"{error}: install the extra: pip install 'vademecum[mcp]'") from None

    door = None if args.http is None else _door(args, http.Door)
    with _tools(args, root) as tools:
        if door is not None:
            return _serve_http(args, tools, door)
        # Python's own handler would wait for a line from the client; every write is safe to be cut short.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        serve_stdio(tools, args.language)
    return 0


def _tools(args: Namespace, root: Path) -> Tools:
    if args.profile == "dexter":
        from vademecum.compat.dexter import DexterMemory
        from vademecum.compat.dexter_tools import DexterTools

        return DexterTools(DexterMemory(root, user=args.user, agent=args.agent))
    from vademecum.tools import Tools

    return Tools.open(root, profile=args.profile, user=args.user, agent=args.agent, create=False)


def _serve_http(args: Namespace, tools: Tools, door: Door) -> int:
    from vademecum.tools.http import PATH, listening, serve_http

    with listening(door) as at:
        url = _url(door.host, at.getsockname()[1], PATH)
        if args.json:
            print_json({"event": "serving", "root": str(memory_root(args)), "url": url})
        else:
            print(f"serving {memory_root(args)} at {url}; Ctrl-C ends it")
        sys.stdout.flush()
        # The server ends its work at either, and then does what the handler before it would have done.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            serve_http(tools, door, at, args.language)
    return 0


def _print_config(args: Namespace) -> int:
    from vademecum.tools.client_config import FILES, http_config, started_config

    if args.http is None:
        usual = {"profile": "full", "language": "en", "user": None, "agent": None}
        chosen = {name: getattr(args, name) for name in usual if getattr(args, name) != usual[name]}
        options = [part for name, value in chosen.items() for part in (f"--{name}", value)]
        program = [sys.executable, "-m", "vademecum", "mcp", "--root", str(memory_root(args).resolve()), *options]
        config = started_config(args.print_config, program)
    else:
        host, port = _address(args.http)
        config = http_config(args.print_config, _url(host, port, "/mcp"), token=_token(args) is not None)
    note(f"for {FILES[args.print_config]}")
    print_json(config, indent=None if args.json else 2)
    return 0


def _door(args: Namespace, door: type[Door]) -> Door:
    host, port = _address(args.http)
    return door(host, port, _token(args), tuple(args.allow_host), tuple(args.allow_origin))


def _address(given: str) -> tuple[str, int]:
    host, _, port = given.rpartition(":")
    if not (port.isascii() and port.isdecimal() and len(port) < 6):
        raise UsageError(f"--http {given}: expected PORT or HOST:PORT, such as 127.0.0.1:{_PORT}")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def _url(host: str, port: int, path: str) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"


def _token(args: Namespace) -> str | None:
    """The secret, which is no option because every user of the machine can see those."""
    if args.token_file is None:
        return environment().get(_VARIABLE) or None
    try:
        return Path(args.token_file).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise UsageError(f"--token-file {args.token_file}: cannot be read: {error}") from None
