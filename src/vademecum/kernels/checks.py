"""What the plain twins demand of their arguments, and how they see rows in a buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vademecum.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def rows_in(name: str, base: ReadableBuffer, offsets: NDArray[np.int64], row_bytes: int) -> NDArray[np.uint8]:
    """A view whose item o is the row of bytes that begins at offset o, after checking that all rows are there."""
    view = memoryview(base)
    if view.format != "B" or view.ndim != 1 or not view.contiguous:
        raise UsageError(f"the buffer is {view.format!r} with {view.ndim} dimensions; it must be contiguous bytes")
    check_array(name, offsets, np.int64, 1)
    if row_bytes < 0:
        raise UsageError("dims is negative; it must be 0 or more")
    outside = (offsets < 0) | (offsets > len(view) - row_bytes)
    if outside.any():
        first = int(outside.argmax())
        raise UsageError(
            f"{name}[{first}] is {offsets[first]}: {row_bytes} bytes from there on are not all in the buffer of "
            f"{len(view)} bytes"
        )
    data = np.frombuffer(view, np.uint8) if view else np.empty(0, np.uint8)
    return np.lib.stride_tricks.sliding_window_view(data, min(row_bytes, len(view)))


def check_array(name: str, array: NDArray[Any], dtype: type, dimensions: int) -> None:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name} is a {type(array).__name__}; it must be a numpy array")
    if array.dtype != dtype or array.ndim != dimensions or not array.flags.c_contiguous:
        raise UsageError(
            f"{name} is {array.dtype} with {array.ndim} dimensions; it must be C-contiguous {dtype.__name__} with "
            f"{dimensions}"
        )


def check_dims(dims: int, queries: NDArray[np.float32]) -> None:
    if dims != queries.shape[-1]:
        raise UsageError(f"rows have {dims} dimensions and queries have {queries.shape[-1]}; they must agree")


def check_count(name: str, values: NDArray[Any], n_rows: int) -> None:
    if len(values) != n_rows:
        raise UsageError(f"{name} has {len(values)} values for {n_rows} rows; there must be one for each")


def check_threads(threads: int) -> None:
    if threads < 1:
        raise UsageError(f"threads is {threads}; it must be 1 or more")


def allowed_places(allowed: NDArray[np.bool_] | NDArray[np.uint8] | None, n_rows: int) -> NDArray[np.int64]:
    """Positions of the rows that may be found."""
    if allowed is None:
        return np.arange(n_rows)
    mask = np.asarray(allowed)
    if mask.dtype not in (np.bool_, np.uint8) or mask.ndim != 1:
        raise UsageError(f"allowed is {mask.dtype} with {mask.ndim} dimensions; it must be bool or uint8 with 1")
    check_count("allowed", mask, n_rows)
    return np.flatnonzero(mask)


def checked_k(k: int) -> int:
    if k < 0:
        raise UsageError(f"k is {k}; it must be 0 or more")
    return k
