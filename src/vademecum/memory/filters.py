"""What a caller asks for, as conditions of the index."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from itertools import product
from unicodedata import normalize

from vademecum.chunk import path_title
from vademecum.errors import UsageError, shown
from vademecum.memory.arguments import choice, text
from vademecum.text.markdown import normal_tag
from vademecum.types import KINDS, Condition, Viewer, Where

_DAYS_AGO = re.compile(r"(\d{1,5})d")
_LONGEST_GLOB = 1_000
#: Names in a glob of which each may be spelled in two ways: 2 ** 6 globs are enough.
_MOST_NAMES = 6


def conditions(
    viewer: Viewer,
    today: date,
    *,
    since: str | date | None = None,
    until: str | date | None = None,
    path: str | None = None,
    kind: str | Iterable[str] | None = None,
    tag: str | None = None,
    heading: str | None = None,
) -> Where:
    """The filter of one search. The viewer's scopes always come first: nobody searches without them.

    Dates are inclusive; with one, only dated chunks are found. Raises UsageError for what cannot be meant.
    """
    where = [Condition("scope", "in", viewer.scopes)]
    if kind is not None:
        where.append(Condition("kind", "in", _kinds(kind)))
    first = None if since is None else day("since", since, today)
    last = None if until is None else day("until", until, today)
    if first is not None and last is not None and first > last:
        raise UsageError(f"since = {first} is after until = {last}: no day is in between")
    if first is not None:
        where.append(Condition("date", "ge", first.isoformat()))
    if last is not None:
        # Conversations carry a time of day, and "~" sorts behind whatever a time begins with.
        where.append(Condition("date", "lt", f"{last.isoformat()}~"))
    if path is not None:
        where.append(Condition("path", "glob", _globs(text("path", path))))
    if tag is not None:
        where.append(Condition("tag", "has", normal_tag(text("tag", tag))))
    if heading is not None:
        where += (Condition("heading", "has", title) for title in _titles(text("heading", heading)))
    return tuple(where)


def _kinds(kind: object) -> tuple[str, ...]:
    if not isinstance(kind, Iterable):
        raise UsageError(f"kind = {shown(kind)}: expected one or more of {', '.join(KINDS)}")
    return tuple(choice("kind", name, KINDS) for name in ((kind,) if isinstance(kind, str) else kind))


def _titles(heading: str) -> tuple[str, ...]:
    """The titles of ``A › B``, as hits show their headings; a text without any is a title that no heading has."""
    return tuple(filter(None, (path_title(title.strip()) for title in heading.split("›")))) or ("",)


def _globs(pattern: str) -> tuple[str, ...]:
    """``pattern`` in every spelling that the names on disk may have: file systems keep "é" as one sign or as two.

    Each name of the pattern is tried both ways, because a composed file can stand in a decomposed folder.
    """
    if len(pattern) > _LONGEST_GLOB:
        raise UsageError(f"path = {shown(pattern)}: a glob has at most {_LONGEST_GLOB} characters, not {len(pattern)}")
    if "\0" in pattern:
        raise UsageError(f"path = {shown(pattern)}: no path holds NUL")
    names = [_spellings(name) for name in pattern.split("/")]
    if sum(len(spellings) > 1 for spellings in names) > _MOST_NAMES:
        names = [_spellings(pattern)]
    return tuple(dict.fromkeys((pattern, *map("/".join, product(*names)))))


def _spellings(name: str) -> tuple[str, ...]:
    composed = normalize("NFC", name)
    # A decomposed "[é]" would be a choice between "e" and its accent.
    return (composed,) if "[" in name else tuple(dict.fromkeys((composed, normalize("NFD", name))))


def day(name: str, value: str | date, today: date) -> date:
    """A day: a date, the day of a datetime, an ISO date, "today", "yesterday" or "30d" for thirty days ago."""
    if isinstance(value, date):
        return value.date() if isinstance(value, datetime) else value
    expected = 'expected a day as YYYY-MM-DD, "today", "yesterday" or a number of days such as "30d"'
    if not isinstance(value, str):
        raise UsageError(f"{name} = {shown(value)}: {expected}")
    words = {"today": 0, "yesterday": 1}
    ago = _DAYS_AGO.fullmatch(value)
    try:
        if value in words or ago:
            return today - timedelta(days=words[value] if ago is None else int(ago[1]))
        return date.fromisoformat(value)
    except (ValueError, OverflowError):
        raise UsageError(f"{name} = {shown(value)}: {expected}") from None
