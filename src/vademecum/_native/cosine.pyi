import numpy as np
from _typeshed import ReadableBuffer
from numpy.typing import NDArray

def instruction_set() -> str: ...
def available_instruction_sets() -> list[str]: ...
def use_instruction_set(name: str) -> None: ...
def scores(rows: NDArray[np.float32], query: NDArray[np.float32]) -> NDArray[np.float32]: ...
def scores_at(
    base: ReadableBuffer, offsets: NDArray[np.int64], dims: int, query: NDArray[np.float32]
) -> NDArray[np.float32]: ...
def top_k(
    rows: NDArray[np.float32], queries: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]: ...
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
) -> tuple[NDArray[np.int64], NDArray[np.float32]]: ...
def encode(rows: NDArray[np.float32]) -> NDArray[np.uint8]: ...
def code_bounds(
    base: ReadableBuffer, offsets: NDArray[np.int64], dims: int, query: NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def bound_codes(
    base: ReadableBuffer,
    offsets: NDArray[np.int64],
    dims: int,
    query: NDArray[np.float32],
    k: int,
    *,
    allowed: NDArray[np.bool_] | NDArray[np.uint8] | None = None,
    threads: int = 1,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]: ...
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
) -> tuple[NDArray[np.int64], NDArray[np.float32], int]: ...
