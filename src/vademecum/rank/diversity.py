"""Maximal marginal relevance: of near copies, one stands for all.

Carbonell and Goldstein, "The use of MMR, diversity-based reranking", SIGIR 1998.
"""

from __future__ import annotations

from collections.abc import Sequence

from vademecum.rank.candidate import Ranked


def diversify(ranked: Sequence[Ranked], k: int, lambda_: float) -> list[Ranked]:
    """Pick k of ``ranked`` (best first) by ``lambda_ * relevance - (1 - lambda_) * similarity``.

    Relevance is min-max normalised over the items given; similarity is the greatest Jaccard similarity between the
    token sets of the item's text and of any item already picked, 0 for two empty sets. Ties go to the more
    relevant, then to the earlier. The result is in picking order, positions from 1.
    """
    if not ranked or k <= 0:
        return []
    from vademecum import kernels

    values = [item.value for item in ranked]
    low, high = min(values), max(values)
    relevance = [(value - low) / (high - low) if high > low else 1.0 for value in values]
    sets = kernels.token_sets([item.candidate.row.words for item in ranked])
    picked = kernels.mmr(relevance, sets, lambda_, k).tolist()
    return [ranked[index]._replace(position=position) for position, index in enumerate(picked, 1)]
