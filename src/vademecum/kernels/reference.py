"""What each kernel means, in plain numpy and Python: the definition that the native core is held against.

A twin may differ in the last bits of a score (it adds in another order), never in anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vademecum.errors import UsageError

#: Sets of token hashes: all hashes (uint64) and, for n sets, n + 1 bounds (int64). Set i is
#: hashes[bounds[i]:bounds[i + 1]], ascending and without repeats.
TokenSets: TypeAlias = tuple[NDArray[np.uint64], NDArray[np.int64]]

BLOCK_ROWS = 1024
MASK = (1 << 64) - 1


def instruction_set() -> str:
    """Name of what does the arithmetic."""
    return "python/numpy"


def scores(rows: NDArray[np.float32], query: NDArray[np.float32]) -> NDArray[np.float32]:
    """Dot product of each row of ``rows`` (n, d) with ``query`` (d,): float32 (n,), as it falls, NaN included.

    Both arrays must be C-contiguous; alignment does not matter. A score depends on its row and the query alone, so
    equal rows score exactly equal wherever they stand. (A matrix product does not promise that: it treats rows at
    the edge of a block differently.)

    Raises:
        UsageError or TypeError: wrong type, layout or shape.
    """
    _check_floats("rows", rows, 2)
    _check_floats("query", query, 1)
    _check_dims(rows, query)
    result = np.empty(len(rows), dtype=np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        for start in range(0, len(rows), BLOCK_ROWS):
            block = rows[start : start + BLOCK_ROWS]
            result[start : start + BLOCK_ROWS] = (block * query).sum(axis=1)
    return result


def top_k(
    rows: NDArray[np.float32], queries: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The k best rows for each query by dot product, best first; equal scores by index.

    Args:
        rows: float32 (n, d), C-contiguous, at any address.
        queries: float32 (q, d), C-contiguous.
        k: how many; more than n means n.

    Returns:
        indices int64 (q, min(k, n)) and scores float32 of the same shape. A row whose score is not finite is never
        among them; where that leaves too few, the rest has index -1 and score -inf.

    Raises:
        UsageError or TypeError: wrong type, layout or shape; negative k.
    """
    _check_floats("rows", rows, 2)
    _check_floats("queries", queries, 2)
    _check_dims(rows, queries)
    size = min(_checked_k(k), len(rows))
    indices = np.full((len(queries), size), -1, dtype=np.int64)
    best = np.full((len(queries), size), -np.inf, dtype=np.float32)
    for i, query in enumerate(queries):
        scored = scores(rows, query)
        finite = np.flatnonzero(np.isfinite(scored))
        order = finite[np.argsort(-scored[finite], kind="stable")][:size]
        indices[i, : len(order)] = order
        best[i, : len(order)] = scored[order]
    return indices, best


def token_sets(texts: Sequence[str]) -> TokenSets:
    """The distinct tokens of each text, as sorted 64-bit hashes. A text is tokens joined by spaces.

    Raises:
        TypeError: a text is not a str.
        UnicodeEncodeError: a text holds a lone surrogate.
    """
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"text {i} is a {type(text).__name__}; it must be a str")
    sets = [sorted({_hash(token.encode()) for token in text.split(" ") if token}) for text in texts]
    bounds = np.cumsum([0, *map(len, sets)], dtype=np.int64)
    return np.array([value for each in sets for value in each], dtype=np.uint64), bounds


def jaccard(sets: TokenSets, i: int, j: int) -> float:
    """Size of the intersection of sets i and j over the size of their union; two empty sets have 0.0.

    Raises:
        UsageError: there is no such set, or ``sets`` is not well formed.
    """
    hashed = _as_sets(sets)
    if not (0 <= i < len(hashed) and 0 <= j < len(hashed)):
        raise UsageError(f"sets {i} and {j} were asked for; there are {len(hashed)}")
    return _jaccard(hashed[i], hashed[j])


def mmr(relevance: Sequence[float] | NDArray[np.float64], sets: TokenSets, lam: float, k: int) -> NDArray[np.int64]:
    """Indices of k items in the order in which greedy maximal marginal relevance picks them.

    Each step takes the greatest lam · relevance - (1 - lam) · (greatest Jaccard similarity to an item already
    picked, 0 if none is); ties by relevance, then by index. lam = 1 is a stable sort by relevance. Relevance is used
    as given: normalise it before. (Carbonell and Goldstein, SIGIR 1998.)

    Returns:
        int64 (min(k, n),).

    Raises:
        UsageError: relevance is not n finite numbers, lam is outside [0, 1], k is negative, or ``sets`` is not well
            formed.
    """
    hashed = _as_sets(sets)
    values = _checked_relevance(relevance, len(hashed))
    if not 0.0 <= lam <= 1.0:
        raise UsageError(f"lam is {lam}; it must be between 0 and 1")
    picked: list[int] = []

    def rank(item: int) -> tuple[float, float, int]:
        similarity = max((_jaccard(hashed[item], hashed[other]) for other in picked), default=0.0)
        return lam * values[item] - (1.0 - lam) * similarity, values[item], -item

    left = set(range(len(hashed)))
    for _ in range(min(_checked_k(k), len(hashed))):
        picked.append(max(left, key=rank))
        left.remove(picked[-1])
    return np.array(picked, dtype=np.int64)


def _hash(token: bytes) -> int:
    """64-bit hash: the mixer of SplitMix64 (Stafford's variant 13) over little-endian words of 8 bytes.

    It starts from the length, spread by the golden ratio. One-to-one on tokens of equal length up to 8 bytes.
    """
    value = len(token) * 0x9E3779B97F4A7C15 & MASK
    for start in range(0, len(token), 8):
        value ^= int.from_bytes(token[start : start + 8], "little")
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        value = (value ^ (value >> 27)) * 0x94D049BB133111EB & MASK
        value ^= value >> 31
    return value


def _jaccard(a: frozenset[int], b: frozenset[int]) -> float:
    union = len(a | b)
    return len(a & b) / union if union else 0.0


def _as_sets(sets: TokenSets) -> list[frozenset[int]]:
    hashes, bounds = sets[0].tolist(), sets[1].tolist()
    if bounds[:1] != [0] or bounds[-1] != len(hashes) or bounds != sorted(bounds):
        raise UsageError(f"the bounds of the sets must rise from 0 to the number of hashes, {len(hashes)}")
    return [frozenset(hashes[start:end]) for start, end in pairwise(bounds)]


def _checked_relevance(relevance: Sequence[float] | NDArray[np.float64], count: int) -> list[float]:
    values = np.asarray(relevance, dtype=np.float64)
    if values.shape != (count,):
        raise UsageError(f"relevance has shape {values.shape} for {count} sets; there must be one for each")
    if not np.isfinite(values).all():
        raise UsageError("a relevance is not finite")
    result: list[float] = values.tolist()
    return result


def _checked_k(k: int) -> int:
    if k < 0:
        raise UsageError(f"k is {k}; it must be 0 or more")
    return k


def _check_floats(name: str, array: NDArray[np.float32], dimensions: int) -> None:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name} is a {type(array).__name__}; it must be a numpy array")
    if array.dtype != np.float32 or array.ndim != dimensions or not array.flags.c_contiguous:
        raise UsageError(
            f"{name} is {array.dtype} with {array.ndim} dimensions; it must be C-contiguous float32 with {dimensions}"
        )


def _check_dims(rows: NDArray[np.float32], queries: NDArray[np.float32]) -> None:
    if rows.shape[1] != queries.shape[-1]:
        raise UsageError(f"rows have {rows.shape[1]} dimensions and queries have {queries.shape[-1]}; they must agree")
