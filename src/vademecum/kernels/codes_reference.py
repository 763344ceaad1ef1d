"""Rows in one byte per dimension, and the exact search that they make short, in plain numpy.

A code is the row's ``dims`` int8 values c, then two little-endian float32: a scale s, and a norm e of the residual
x - s c, rounded up. The dot product of the row with a query is that of s c, give or take e times the query's norm
(Cauchy-Schwarz); a row whose best case is below the k-th best of all worst cases needs no look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vademecum.kernels.checks import (
    allowed_places,
    check_array,
    check_count,
    check_dims,
    check_threads,
    checked_k,
    rows_in,
)
from vademecum.kernels.reference import BLOCK_ROWS, top_k_at

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

#: Bytes of a code after its ``dims``.
TAIL = 8
_MOST = np.float32(127)
_FLOAT_MAX = float(np.finfo(np.float32).max)


def encode(rows: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Codes of the rows (n, d): uint8 (n, d + 8), the same bytes on every machine.

    A row with a value that is not finite has codes and scale 0 and norm inf, which says nothing about its score.

    Raises:
        UsageError or TypeError: wrong type, layout or shape.
    """
    check_array("rows", rows, np.float32, 2)
    codes = np.empty((len(rows), rows.shape[1] + TAIL), dtype=np.uint8)
    for start in range(0, len(rows), BLOCK_ROWS):
        codes[start : start + BLOCK_ROWS] = _encode(rows[start : start + BLOCK_ROWS])
    return codes


def bound_codes(
    base: ReadableBuffer,
    offsets: NDArray[np.int64],
    dims: int,
    query: NDArray[np.float32],
    k: int,
    *,
    allowed: NDArray[np.bool_] | NDArray[np.uint8] | None = None,
    threads: int = 1,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Which rows may be among the k best by dot product with ``query``, by their codes alone.

    Args:
        base: a contiguous buffer of bytes.
        offsets: int64 (n,), where each code begins in it, of any alignment.
        query: float32 (dims,).
        k: how many are wanted.
        allowed: bool or uint8 (n,); rows where it is 0 are passed over.
        threads: how many to use at most, of those that 32 MiB of codes each keep busy. The result is the same.

    Returns:
        positions int64 and, descending, the greatest score that each row can have, float64; ties by position. All
        rows that top_k_at finds are among them. Once the k-th best of the scores looked up is above the next of
        these, no more have to be looked up.

    Raises:
        UsageError or TypeError: wrong type, layout or shape; negative k; a code is not all in the buffer.
    """
    lower, upper = code_bounds(base, offsets, dims, query)
    check_threads(threads)
    places = allowed_places(allowed, len(offsets))
    if checked_k(k) == 0:
        places = places[:0]
    if k < len(places):
        bar = np.partition(lower[places], -k)[-k]
        places = places[upper[places] >= bar]
    order = places[np.lexsort((places, -upper[places]))]
    return order, upper[order]


def search_codes(
    base: ReadableBuffer,
    code_offsets: NDArray[np.int64],
    row_offsets: NDArray[np.int64],
    ids: NDArray[np.int64],
    dims: int,
    query: NDArray[np.float32],
    k: int,
    *,
    row_base: ReadableBuffer | None = None,
    allowed: NDArray[np.bool_] | NDArray[np.uint8] | None = None,
    threads: int = 1,
) -> tuple[NDArray[np.int64], NDArray[np.float32], int]:
    """What top_k_at finds for one query: the same ids, order and scores, from a quarter of the memory.

    Args:
        base: a contiguous buffer of bytes: the codes, and the rows too unless ``row_base`` has them.
        code_offsets: int64 (n,), where the code of each row begins.
        row_offsets: int64 (n,), where the row itself begins.
        ids, dims, k, allowed, threads: as in top_k_at.
        query: float32 (dims,).

    Returns:
        ids int64 (min(k, n),), scores float32 of the same shape, and how many rows were scored for it. (This twin
        scores them all.)

    Raises:
        UsageError or TypeError: wrong type, layout or shape; negative k; a row or code is not all in its buffer.
    """
    check_array("query", query, np.float32, 1)
    rows_in("code_offsets", base, code_offsets, dims + TAIL)
    rows_in("row_offsets", base if row_base is None else row_base, row_offsets, 4 * dims)
    check_count("code_offsets", code_offsets, len(row_offsets))
    found, best = top_k_at(
        base if row_base is None else row_base,
        row_offsets,
        ids,
        dims,
        query[None],
        k,
        allowed=allowed,
        threads=threads,
    )
    return found[0], best[0], len(allowed_places(allowed, len(row_offsets)))


def code_bounds(
    base: ReadableBuffer, offsets: NDArray[np.int64], dims: int, query: NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The least and the greatest float32 score that each row can have: float64 (n,) each.

    From -inf to inf where the score may be anything, also inf or NaN. For tests: the native bounds are a little
    wider, and both hold for the row's score in any order of addition.
    """
    rows = rows_in("offsets", base, offsets, dims + TAIL)
    check_array("query", query, np.float32, 1)
    check_dims(dims, query)
    lower = np.empty(len(offsets), dtype=np.float64)
    upper = np.empty(len(offsets), dtype=np.float64)
    for start in range(0, len(offsets), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        lower[block], upper[block] = _bounds(rows[offsets[block]], query)
    return lower, upper


def _encode(rows: NDArray[np.float32]) -> NDArray[np.uint8]:
    most = np.abs(rows).max(axis=1, initial=0)
    finite = np.isfinite(most)
    rows = np.where(finite[:, None], rows, np.float32(0))
    scale = np.where(finite, most, np.float32(0)) / _MOST
    steps = np.rint(rows / np.where(scale > 0, scale, np.float32(np.inf))[:, None])
    codes = np.clip(steps, -_MOST, _MOST).astype(np.int8)  # beyond it where the scale is a rounded subnormal number
    # What is squared and added is float32, so that the sum, from left to right, is the same with fused instructions.
    residual = (rows - scale.astype(np.float64)[:, None] * codes).astype(np.float32)
    squares = np.cumsum(np.pad(residual.astype(np.float64) ** 2, ((0, 0), (1, 0))), axis=1)[:, -1]
    with np.errstate(over="ignore"):
        norm = np.nextafter((np.sqrt(squares) * (1 + 2.0**-22)).astype(np.float32), np.float32(np.inf))
    norm = np.where(squares > 0, norm, np.float32(0))
    norm = np.where(finite, norm, np.float32(np.inf))
    tail = np.stack([scale, norm], axis=1).astype("<f4")
    return np.concatenate([codes.view(np.uint8), tail.view(np.uint8)], axis=1)


def _bounds(codes: NDArray[np.uint8], query: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The formula and its terms for rounding are explained in codes.h; here the query stays as it is."""
    dims = len(query)
    roundings = dims + 8
    unit = roundings / (2.0**24 - roundings)
    with np.errstate(invalid="ignore", over="ignore"):
        exact = query.astype(np.float64)
        total, length = np.abs(exact).sum(), np.linalg.norm(exact)
        scale, norm = codes[:, dims:].copy().view("<f4").astype(np.float64).T
        centre = scale * (codes[:, :dims].view(np.int8) @ exact)
        products = 128 * scale * total + norm * length
        tiny = dims * 2.0**-116 * (1 + total) * (1 + 128 * scale + norm)
        margin = norm * length + unit * products + tiny
        known = products < _FLOAT_MAX / 2
        return np.where(known, centre - margin, -np.inf), np.where(known, centre + margin, np.inf)
