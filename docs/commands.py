"""Prints the reference of commands, commands.md, from the parser itself."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from vademecum.cli.parser import build_parser

_HEAD = """\
# Commands

Made from the program itself: `python docs/commands.py > docs/commands.md`. `vademecum COMMAND --help` says the same.

The memory is the folder of `--root` or `VADEMECUM_ROOT`, else the nearest one above the current folder that holds
`MEMORY.md` or `.vademecum/`. Exit codes: 0 done, 1 the work failed, 2 wrong usage. Answers go to standard output, all
else to standard error. What begins with "-" and is no option goes last, after `--`.

Every command also takes, before or after its name:
"""


def main() -> None:
    parser = build_parser()
    common = next(group for group in parser._action_groups if group.title == "common options")
    sys.stdout.write(_HEAD + "\n" + "".join(f"- {_option(action)}\n" for action in common._group_actions))
    shared = {action.dest for action in common._group_actions} | {"help"}
    for name, command in _commands(parser, "vademecum"):
        sys.stdout.write(f"\n## {name}\n\n{command.description}\n")
        actions = [action for action in command._actions if action.dest not in shared]
        if actions:
            sys.stdout.write("\n" + "".join(f"- {_option(action)}\n" for action in actions))
        examples = (command.epilog or "").partition("examples:\n")[2]
        sys.stdout.write("\n```console\n" + "".join(f"$ {line.strip()}\n" for line in examples.splitlines()) + "```\n")


def _commands(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield name, parser
    for group in groups:
        for word, command in group.choices.items():
            yield from _commands(command, f"{name} {word}")


def _option(action: argparse.Action) -> str:
    names = ", ".join(action.option_strings)
    value = "" if action.nargs == 0 else action.metavar or (None if action.choices else action.dest.upper())
    if value is None:
        value = "{" + ",".join(map(str, action.choices or ())) + "}"
    text = f"`{' '.join(filter(None, (names, str(value))))}`"
    if not action.option_strings and action.nargs in {"?", "*"}:
        text += " (optional)"
    if action.option_strings and action.required:
        text += " (required)"
    return f"{text}: {action.help}"


if __name__ == "__main__":
    main()
