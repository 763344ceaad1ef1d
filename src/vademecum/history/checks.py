"""What a caller may give. All else is a UsageError that names the argument and the value."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from vademecum.errors import UsageError, shown
from vademecum.history.content import encode

#: Larger than any sequence number, and what SQLite can hold.
LARGEST = 2**63 - 1

_LONGEST_NAME = 512
_LONGEST_TITLE = 200
# Control characters, and halves of surrogate pairs, which UTF-8 does not have.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def name(what: str, value: object) -> str:
    """A session's id or the like: any text that is not blank and steers no terminal."""
    if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST_NAME or _CONTROLS.search(value):
        raise UsageError(f"{what} = {shown(value)}: expected 1 to {_LONGEST_NAME} characters, none of them a control")
    return value


def title(value: object) -> str:
    """One line."""
    text = line(value) if isinstance(value, str) else ""
    if not text:
        raise UsageError(f"title = {shown(value)}: expected a line of text")
    return text


def line(text: str) -> str:
    """``text`` as one line of bounded length."""
    return _CONTROLS.sub("", " ".join(text.split()))[:_LONGEST_TITLE].rstrip()


def channel(value: object) -> str:
    """A channel's name; "" for none."""
    return name("channel", value) if value != "" else ""


def channels(value: object) -> tuple[str, ...]:
    """Names of channels; one text is not taken for its letters."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise UsageError(f"keep_channels = {shown(value)}: expected a list of channels")
    return tuple(map(channel, value))


def whole(what: str, value: object, least: int, most: int = LARGEST) -> int:
    """A whole number from ``least`` to ``most``."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        upper = "on" if most == LARGEST else f"to {most}"
        raise UsageError(f"{what} = {shown(value)}: expected a whole number from {least} {upper}")
    return value


def page(number: object, size: object) -> None:
    """Which page, from 1, and how much a page holds."""
    whole("number", number, 1, 10**9)
    whole("size", size, 1, 1000)


def flag(what: str, value: object) -> bool:
    """True or false, and not something that merely counts as such."""
    if not isinstance(value, bool):
        raise UsageError(f"{what} = {shown(value)}: expected True or False")
    return value


def moment(what: str, value: object) -> float:
    """Unix seconds, in years that a calendar knows."""
    return number(what, value, 253_402_300_799)  # the end of the year 9999


def days(what: str, value: object) -> float:
    """A number of days, fractions allowed."""
    return number(what, value, 1e6)


def number(what: str, value: object, most: float) -> float:
    """A number from 0 to ``most``."""
    right = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not right or not 0 <= value <= most:  # type: ignore[operator]
        raise UsageError(f"{what} = {shown(value)}: expected a number from 0 to {most:.0f}")
    return float(value)  # type: ignore[arg-type]


def extras(what: str, value: object) -> str:
    """The JSON of what is attached to a message; "" for nothing."""
    if value is not None and not isinstance(value, Mapping):
        raise UsageError(f"{what} = {shown(value)}: expected a mapping")
    return encode(dict(value), what) if value else ""


def items(what: str, value: object) -> list[Any]:
    """A list of things; one text or mapping is not taken for its letters or keys."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise UsageError(f"{what} = {shown(value)}: expected a list of messages")
    return list(value)
