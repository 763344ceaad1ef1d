"""How anything is printed: notes for a person, texts, JSON; never a control character that a note brought along."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from typing import Any

from vademecum.config import environment

_LONGEST_NOTE = 1_000
# What a note holds must not steer the terminal: control characters are shown, not obeyed.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}


def note(message: object) -> None:
    """One line on standard error; what is too long to be read loses its middle."""
    line = " ".join(str(message).splitlines())
    if len(line) > _LONGEST_NOTE:
        line = f"{line[: _LONGEST_NOTE // 2]} … {line[-_LONGEST_NOTE // 2 :]}"
    print("vademecum:", visible(line), file=sys.stderr)


def print_json(value: object, indent: int | None = None) -> None:
    """One JSON object, on a line unless ``indent`` is given; records become objects."""
    text = json.dumps(value, ensure_ascii=False, default=plain, indent=indent)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # a narrow terminal, or a file name that is not UTF-8
        text = json.dumps(value, default=plain, indent=indent)
    print(text)


def plain(value: Any) -> dict[str, Any]:
    """What ``json`` does not know by itself: records and read-only mappings."""
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no place in an answer")


def print_text(text: str) -> None:
    """A whole text, with a line end; a terminal is shown control characters, a pipe gets the text as it is."""
    shown = visible(text.replace("\r\n", "\n")) if sys.stdout.isatty() else text
    print(shown, end="" if shown.endswith("\n") or not shown else "\n")


def print_diff(text: str) -> None:
    """A unified diff, coloured as such on a terminal."""
    if not sys.stdout.isatty():
        print_text(text)
        return
    colours = {"+": "32", "-": "31", "@": "36"}
    for line in text.splitlines():
        colour = "1" if line.startswith(("+++ ", "--- ")) else colours.get(line[:1])
        print(visible(line) if colour is None else paint(line, colour))


def visible(text: str) -> str:
    """``text`` with its control characters shown, so that they cannot steer a terminal."""
    return text.translate(_CONTROLS)


def paint(text: str, code: str) -> str:
    """``text``, in colour if standard output is a terminal and NO_COLOR (no-color.org) is not set."""
    coloured = sys.stdout.isatty() and not environment().get("NO_COLOR")
    return f"\x1b[{code}m{visible(text)}\x1b[0m" if coloured else visible(text)
