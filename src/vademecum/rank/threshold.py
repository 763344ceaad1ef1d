"""The floor: what is not relevant enough is left out, before age plays a part."""

from __future__ import annotations

from collections.abc import Sequence

from vademecum.rank.candidate import Ranked


def above_floor(ranked: Sequence[Ranked], min_score: float) -> list[Ranked]:
    """Those with ``fused`` of at least ``min_score``; one that holds every word of the query always stays."""
    return [item for item in ranked if item.fused >= min_score or item.candidate.holds_all]
