"""What every command's grammar shares: mistakes as errors of ours, texts that begin with "-", common options."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NoReturn

from vademecum.errors import UsageError

_OPTION_LIKE = re.compile(r"-[A-Za-z]|--[A-Za-z][\w-]*(=.*)?", re.DOTALL)
_MAYBE_A_TEXT = re.compile(r"unrecognized arguments: .*(?<!\S)-|arguments are required: (TEXT|QUERY)", re.DOTALL)


class Parser(argparse.ArgumentParser):
    """Reports a mistake as every other error of this package is reported."""

    def error(self, message: str) -> NoReturn:
        hint = ' (what begins with "-" and is no option goes last, after "--")' if _MAYBE_A_TEXT.search(message) else ""
        raise UsageError(f"{message}{hint}; see `{self.prog} --help`")


class CommandParser(Parser):
    """Takes "-5 °C today" and "-hello" for the text that they are, because they cannot be options."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if any(action.nargs == argparse.PARSER for action in self._actions):
            return super().parse_known_args(args, namespace)  # the command of the group puts its own in order
        return super().parse_known_args(args if args is None else self._texts_last(args), namespace)

    def _texts_last(self, args: Sequence[str]) -> list[str]:
        options: list[str] = []
        texts: list[str] = []
        rest = iter(args)
        for arg in rest:
            if arg == "--":
                texts += rest
            elif self._is_text(arg):
                texts.append(arg)
            else:
                action = self._option_string_actions.get(arg)
                values = [*islice(rest, 1)] if action is not None and action.nargs is None else []
                # In one word, or a value that begins with "-" would be taken for an option.
                options += [f"{arg}={values[0]}"] if values and arg.startswith("--") else [arg, *values]
        takes_text = any(not action.option_strings for action in self._actions)
        if texts and not takes_text:
            return list(args)
        return [*options, "--", *texts] if texts else options

    def _is_text(self, arg: str) -> bool:
        if not arg.startswith("-") or arg == "-" or _OPTION_LIKE.fullmatch(arg):
            return False
        short = self._option_string_actions.get(arg[:2])
        return short is None or short.nargs is not None  # "-k3" is -k with its value


def add_common(parser: argparse.ArgumentParser, defaults: dict[str, object]) -> None:
    """Options that may stand before or after the command; without defaults, what stood before is kept."""

    def default(name: str) -> object:
        return defaults.get(name, argparse.SUPPRESS)

    group = parser.add_argument_group("common options")
    group.add_argument("--root", metavar="DIR", default=default("root"), help="the memory's folder")
    group.add_argument("--user", metavar="ID", default=default("user"), help="act for this user: private notes too")
    group.add_argument("--agent", metavar="ID", default=default("agent"), help="act for this agent: private notes too")
    group.add_argument("--json", action="store_true", default=default("json"), help="print one JSON object")


def command(
    adding: Any, name: str, summary: str, run: Callable[[argparse.Namespace], int], examples: Sequence[str]
) -> argparse.ArgumentParser:
    """A command whose run function takes the arguments and returns the exit code."""
    parser = _parser(adding, name, summary, examples)
    parser.set_defaults(run=run)
    return parser


def group(adding: Any, name: str, summary: str, examples: Sequence[str]) -> Any:
    """A command that is a group of commands; returns what `command` adds them to."""
    parser = _parser(adding, name, summary, examples)
    return parser.add_subparsers(metavar="COMMAND", required=True, parser_class=CommandParser)


def _parser(adding: Any, name: str, summary: str, examples: Sequence[str]) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = adding.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog="examples:\n" + "\n".join(f"  vademecum {example}" for example in examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_common(parser, {})
    return parser
