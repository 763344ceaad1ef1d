"""Temporal decay of dated notes, and what a newer copy of an older note deserves."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from math import exp2

from vademecum.rank.candidate import Ranked
from vademecum.settings import DecaySettings

#: Token sets this alike tell the same thing, maybe with another number: on the sets that `make quality` reads,
#: different chunks reach .42 at most, and a sentence with one changed number keeps at least .73.
SAME_NOTE = 0.6


def factor(day: str | None, today: date, settings: DecaySettings) -> float:
    """``floor + (1 - floor) * 2 ** (-age / half_life)`` with the age in calendar days.

    Evergreen chunks (``day`` None) and days in the future have factor 1. ``day`` is an ISO date, or a time that
    starts with one.
    """
    if day is None:
        return 1.0
    age = (today - date.fromisoformat(day[:10])).days
    if age <= 0:
        return 1.0
    return settings.floor + (1 - settings.floor) * exp2(-age / settings.half_life_days)


def decay(ranked: Sequence[Ranked], today: date, settings: DecaySettings) -> list[Ranked]:
    """Every item with its factor, best first."""
    if all(item.candidate.row.date is None for item in ranked):
        return list(ranked)
    return sorted((_faded(item, factor(item.candidate.row.date, today, settings)) for item in ranked), key=_key)


def _faded(item: Ranked, by: float) -> Ranked:
    if by == 1:
        return item
    value = item.value * by if item.value > 0 else item.value
    return item._replace(value=value, score=item.score * by, decay=by)


def newer_first(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Of two dated notes that say the same, the newer takes the better place; ``ranked`` is best first.

    What was said in a conversation never takes the place of a note. A gentle decay cannot do this alone: one
    changed number moves relevance by more than a month of age does.
    """
    dated = [item for item in ranked if item.candidate.row.date is not None]
    if len(dated) < 2:
        return list(ranked)
    from vademecum import kernels

    sets = kernels.token_sets([item.candidate.row.words for item in dated])
    lifted = list(dated)
    for older in range(len(dated)):
        for newer in range(older + 1, len(dated)):
            better, worse = lifted[older], lifted[newer]
            if (
                worse.value < better.value
                and (worse.candidate.row.kind != "session" or better.candidate.row.kind == "session")
                and (worse.candidate.row.date or "") > (better.candidate.row.date or "")
                and kernels.jaccard(sets, older, newer) >= SAME_NOTE
            ):
                lifted[newer] = worse._replace(value=better.value, score=better.score)
    rest = [item for item in ranked if item.candidate.row.date is None]
    return sorted((*lifted, *rest), key=_key)


def _key(item: Ranked) -> tuple[float, str, float, int]:
    return item.sort_key
