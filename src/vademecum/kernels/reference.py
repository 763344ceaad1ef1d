"""What each kernel means, in plain numpy and Python: the definition that the native core is held against.

A twin may differ in the last bits of a score (it adds in another order), never in anything else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vademecum.errors import UsageError
from vademecum.kernels.checks import (
    allowed_places,
    check_array,
    check_count,
    check_dims,
    check_threads,
    checked_k,
    rows_in,
)

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

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
    check_array("rows", rows, np.float32, 2)
    check_array("query", query, np.float32, 1)
    check_dims(rows.shape[1], query)
    return _scores(rows, np.arange(len(rows)), query)


def scores_at(
    base: ReadableBuffer, offsets: NDArray[np.int64], dims: int, query: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Dot product with ``query`` (d,) of rows that lie anywhere in ``base``: float32 (n,), exactly as in top_k_at.

    Raises:
        UsageError or TypeError: as in top_k_at.
    """
    rows = rows_in("offsets", base, offsets, 4 * dims)
    check_array("query", query, np.float32, 1)
    check_dims(dims, query)
    return _scores(rows, offsets, query)


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
    check_array("rows", rows, np.float32, 2)
    check_array("queries", queries, np.float32, 2)
    check_dims(rows.shape[1], queries)
    places = np.arange(len(rows))
    return _top_k(rows, places, places, queries, min(checked_k(k), len(rows)))


def top_k_at(
    base: ReadableBuffer,
    offsets: NDArray[np.int64],
    ids: NDArray[np.int64],
    dims: int,
    queries: NDArray[np.float32],
    k: int,
    *,
    allowed: NDArray[np.bool_] | NDArray[np.uint8] | None = None,
    threads: int = 1,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The k best rows for each query by dot product, best first; equal scores by id. The rows lie anywhere.

    Args:
        base: a contiguous buffer of bytes.
        offsets: int64 (n,), where each row begins in it: ``dims`` little-endian float32, of any alignment. Ascending
            order is the fastest.
        ids: int64 (n,), what to call the rows.
        queries: float32 (q, dims), C-contiguous. They share the passes over the rows.
        k: how many; more than n means n.
        allowed: bool or uint8 (n,); rows where it is 0 are passed over.
        threads: how many to use at most, of those that 32 MiB of rows each keep busy. The result is the same.

    Returns:
        ids int64 (q, min(k, n)) and scores float32 of the same shape. A row whose score is not finite is never among
        them; where too few are left, the rest has id -1 and score -inf.

    Raises:
        UsageError or TypeError: wrong type, layout or shape; negative k; a row is not all in the buffer.
    """
    rows = rows_in("offsets", base, offsets, 4 * dims)
    check_array("ids", ids, np.int64, 1)
    check_count("ids", ids, len(offsets))
    check_array("queries", queries, np.float32, 2)
    check_dims(dims, queries)
    check_threads(threads)
    size = min(checked_k(k), len(offsets))
    places = allowed_places(allowed, len(offsets))
    return _top_k(rows, offsets[places], ids[places], queries, size)


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


def held(texts: Sequence[str], terms: Sequence[str]) -> list[bytes]:
    """For each text a byte for each term: how many of its tokens, which are joined by spaces, it is; 255 at most.

    Raises:
        TypeError: a text or a term is not a str.
        UnicodeEncodeError: one holds a lone surrogate.
    """
    for text in (*terms, *texts):
        if not isinstance(text, str):
            raise TypeError(f"{text!r:.80} is a {type(text).__name__}; it must be a str")
        text.encode()
    tokens = [Counter(token for token in text.split(" ") if token) for text in texts]
    return [bytes(min(times[term], 255) for term in terms) for times in tokens]


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
    for _ in range(min(checked_k(k), len(hashed))):
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


def _scores(rows: NDArray[Any], places: NDArray[np.int64], query: NDArray[np.float32]) -> NDArray[np.float32]:
    result = np.empty(len(places), dtype=np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        for start in range(0, len(places), BLOCK_ROWS):
            block = rows[places[start : start + BLOCK_ROWS]].view("<f4")
            result[start : start + BLOCK_ROWS] = (block * query).sum(axis=1)
    return result


def _top_k(
    rows: NDArray[Any], places: NDArray[np.int64], ids: NDArray[np.int64], queries: NDArray[np.float32], size: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """``rows[place]`` is a row, of float32 or of their bytes."""
    best_ids = np.full((len(queries), size), -1, dtype=np.int64)
    best = np.full((len(queries), size), -np.inf, dtype=np.float32)
    for i, query in enumerate(queries):
        scored = _scores(rows, places, query)
        finite = np.flatnonzero(np.isfinite(scored))
        order = finite[np.lexsort((ids[finite], -scored[finite]))][:size]
        best_ids[i, : len(order)] = ids[order]
        best[i, : len(order)] = scored[order]
    return best_ids, best
