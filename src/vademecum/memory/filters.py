"""What a caller asks for, as conditions of the index."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, timedelta

from vademecum.errors import UsageError
from vademecum.text.markdown import normal_tag
from vademecum.types import KINDS, Condition, Viewer, Where

_DAYS_AGO = re.compile(r"(\d{1,5})d")


def conditions(
    viewer: Viewer,
    today: date,
    *,
    since: str | date | None = None,
    until: str | date | None = None,
    path: str | None = None,
    kind: str | Iterable[str] | None = None,
    tag: str | None = None,
) -> Where:
    """The filter of one search. The viewer's scopes always come first: nobody searches without them.

    Dates are inclusive; with one, only dated chunks are found.
    """
    where = [Condition("scope", "in", viewer.scopes)]
    if kind is not None:
        kinds = (kind,) if isinstance(kind, str) else tuple(kind)
        wrong = [name for name in kinds if name not in KINDS]
        if wrong:
            raise UsageError(f"kind = {wrong[0]!r}: expected one of {', '.join(KINDS)}")
        where.append(Condition("kind", "in", kinds))
    first = None if since is None else day("since", since, today)
    last = None if until is None else day("until", until, today)
    if first is not None and last is not None and first > last:
        raise UsageError(f"since = {first} is after until = {last}: no day is in between")
    if first is not None:
        where.append(Condition("date", "ge", first.isoformat()))
    if last is not None:
        # Conversations carry a time of day: everything before the next day is still on this one.
        where.append(Condition("date", "lt", (last + timedelta(days=1)).isoformat()))
    if path is not None:
        where.append(Condition("path", "glob", path))
    if tag is not None:
        where.append(Condition("tag", "has", normal_tag(tag)))
    return tuple(where)


def day(name: str, value: str | date, today: date) -> date:
    """A day: an ISO date, "today", "yesterday" or "30d" for thirty days ago."""
    if isinstance(value, date):
        return value
    words = {"today": 0, "yesterday": 1}
    ago = _DAYS_AGO.fullmatch(value)
    try:
        if value in words or ago:
            return today - timedelta(days=words[value] if ago is None else int(ago[1]))
        return date.fromisoformat(value)
    except (ValueError, OverflowError):
        raise UsageError(
            f'{name} = {value!r}: expected a day as YYYY-MM-DD, "today", "yesterday" or a number of days such as "30d"'
        ) from None
