"""What hits of each kind are worth, and how many places conversations may take from notes."""

from __future__ import annotations

from collections.abc import Sequence

from vademecum.rank.candidate import Ranked
from vademecum.settings import KindSettings


def weigh(ranked: Sequence[Ranked], kinds: KindSettings) -> list[Ranked]:
    """Every item with the weight of its kind applied to value and score, best first; ``fused`` stays as it was."""
    if all(kinds.weight(item.candidate.row.kind) == 1 for item in ranked):
        return list(ranked)
    return sorted((_weighed(item, kinds.weight(item.candidate.row.kind)) for item in ranked), key=_key)


def _weighed(item: Ranked, by: float) -> Ranked:
    if by == 1:
        return item
    value = item.value * by if item.value > 0 else item.value
    return item._replace(value=value, score=item.score * by, weight=by)


def seat(ranked: Sequence[Ranked], k: int, share: float) -> list[Ranked]:
    """The first ``k`` of ``ranked``, in which conversations take at most ``share`` of the ``k`` places.

    They get one place at least unless ``share`` is 0, and all of them if there is nothing else.
    """
    if all(_is_session(item) for item in ranked):
        return list(ranked[:k])
    left = max(int(k * share), 1 if share else 0)
    seated: list[Ranked] = []
    for item in ranked:
        if len(seated) == k:
            break
        if not _is_session(item):
            seated.append(item)
        elif left:
            left -= 1
            seated.append(item)
    return seated


def _is_session(item: Ranked) -> bool:
    return item.candidate.row.kind == "session"


def _key(item: Ranked) -> tuple[float, str, float, int]:
    return item.sort_key
