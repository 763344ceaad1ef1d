"""Dot products of float32 rows with queries, and the best of them; for unit vectors, cosines.

Rows lie in an array or anywhere in a buffer, such as a mapped file, and may have codes that tell which of them need
no look. Each function is defined by its twin in ``vademecum.kernels``: ``reference`` or ``codes_reference``.
"""

import numpy as np

from libc.stdint cimport int16_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from _scan cimport (
    CODE_TAIL,
    codes_bounds,
    codes_candidate,
    codes_encode,
    codes_interval,
    codes_prepare,
    codes_query,
    codes_rescore,
    codes_search,
    heap_entry,
    scan_check,
    scan_rows,
    scan_scores,
    scan_top_k,
)
from _simd cimport CODE_PAD, DOT_PAD, simd_available, simd_name, simd_select

from vademecum.errors import UsageError

simd_select(NULL)

# heap_entry and codes_candidate
_ENTRY = np.dtype([("score", np.float64), ("id", np.int64)])
_CANDIDATE = np.dtype([("upper", np.float64), ("position", np.int64)])


def instruction_set():
    """Name of the instruction set in use."""
    return simd_name().decode()


def available_instruction_sets():
    """Names of all instruction sets that work on this machine, best first."""
    names = []
    while simd_available(len(names)) is not NULL:
        names.append(simd_available(len(names)).decode())
    return names


def use_instruction_set(name):
    """Switch the whole process to one of ``available_instruction_sets()``: for tests and benchmarks only."""
    if simd_select(name.encode()) != 0:
        raise UsageError(f"no instruction set {name!r} here; available: {', '.join(available_instruction_sets())}")


# --- float rows ---

def scores(const float[:, ::1] rows not None, const float[::1] query not None):
    """Dot product of each row with the query."""
    return _scores(_side_by_side(rows), rows.shape[1], query)


def scores_at(
    const uint8_t[::1] base not None,
    const int64_t[::1] offsets not None,
    Py_ssize_t dims,
    const float[::1] query not None,
):
    """Dot product of each row with the query; rows lie anywhere."""
    return _scores(_scattered("offsets", base, offsets, dims, sizeof(float), 0), dims, query)


def top_k(const float[:, ::1] rows not None, const float[:, ::1] queries not None, Py_ssize_t k):
    """Indices and scores of the k best rows for each query, best first; ties by index."""
    return _top_k(_side_by_side(rows), rows.shape[1], queries, k, 1)


def top_k_at(
    const uint8_t[::1] base not None,
    const int64_t[::1] offsets not None,
    const int64_t[::1] ids not None,
    Py_ssize_t dims,
    const float[:, ::1] queries not None,
    Py_ssize_t k,
    *,
    allowed=None,
    Py_ssize_t threads=1,
):
    """Ids and scores of the k best rows for each query, best first; ties by id; rows lie anywhere."""
    cdef scan_rows rows = _scattered("offsets", base, offsets, dims, sizeof(float), 0)
    cdef const uint8_t[::1] mask = _mask(allowed, rows.n_rows)
    _set_ids(&rows, ids)
    _set_allowed(&rows, mask)
    return _top_k(rows, dims, queries, k, threads)


# --- codes ---

def encode(const float[:, ::1] rows not None):
    """Code of each row: int8 values, then float32 scale and norm of the residual."""
    cdef Py_ssize_t dims = rows.shape[1], i
    codes = np.empty((rows.shape[0], dims + CODE_TAIL), dtype=np.uint8)
    cdef uint8_t[:, ::1] out = codes
    with nogil:
        for i in range(rows.shape[0]):
            codes_encode(<const char *> &rows[i, 0], dims, <char *> &out[i, 0])
    return codes


def code_bounds(
    const uint8_t[::1] base not None,
    const int64_t[::1] offsets not None,
    Py_ssize_t dims,
    const float[::1] query not None,
):
    """The least and the greatest score that each row can have; for tests."""
    cdef scan_rows codes = _scattered("offsets", base, offsets, dims, 1, CODE_TAIL)
    cdef int16_t[::1] values = _code_values(dims, query)
    cdef codes_query prepared = codes_prepare(&query[0], dims, &values[0])
    intervals = np.empty((codes.n_rows, 2), dtype=np.float64)
    cdef double[:, ::1] out = intervals
    if codes.n_rows:
        with nogil:
            codes_bounds(&codes, dims, &prepared, <codes_interval *> &out[0, 0])
    return intervals[:, 0], intervals[:, 1]


def bound_codes(
    const uint8_t[::1] base not None,
    const int64_t[::1] offsets not None,
    Py_ssize_t dims,
    const float[::1] query not None,
    Py_ssize_t k,
    *,
    allowed=None,
    Py_ssize_t threads=1,
):
    """Positions and greatest possible scores of all rows that may be among the k best, the latter descending."""
    candidates = _candidates(_scattered("offsets", base, offsets, dims, 1, CODE_TAIL), dims, query, k, allowed, threads)
    return candidates["position"].copy(), candidates["upper"].copy()


def search_codes(
    const uint8_t[::1] base not None,
    const int64_t[::1] code_offsets not None,
    const int64_t[::1] row_offsets not None,
    const int64_t[::1] ids not None,
    Py_ssize_t dims,
    const float[::1] query not None,
    Py_ssize_t k,
    *,
    const uint8_t[::1] row_base=None,
    allowed=None,
    Py_ssize_t threads=1,
):
    """What top_k_at finds for one query, and how many rows had to be scored."""
    cdef scan_rows codes = _scattered("code_offsets", base, code_offsets, dims, 1, CODE_TAIL)
    cdef scan_rows rows = _scattered(
        "row_offsets", base if row_base is None else row_base, row_offsets, dims, sizeof(float), 0
    )
    _check_count("code_offsets", codes.n_rows, rows.n_rows)
    _set_ids(&rows, ids)
    cdef codes_candidate[::1] candidates = _candidates(codes, dims, query, k, allowed, threads)
    cdef const float[:, ::1] packed = _packed(query, 1, dims)
    entries = np.empty(min(<size_t> k, rows.n_rows), dtype=_ENTRY)
    cdef heap_entry[::1] best = entries
    cdef size_t scored = 0
    if best.shape[0] > 0:
        with nogil:
            scored = codes_rescore(
                &rows, dims, &packed[0, 0], &candidates[0], candidates.shape[0], best.shape[0], &best[0]
            )
    return entries["id"].copy(), entries["score"].astype(np.float32), scored


cdef _candidates(
    scan_rows codes, Py_ssize_t dims, const float[::1] query, Py_ssize_t k, allowed, Py_ssize_t threads
):
    """The rows that may be among the k best, as codes_candidate."""
    cdef size_t size = _checked_size(k, codes.n_rows, threads), count = 0
    cdef const uint8_t[::1] mask = _mask(allowed, codes.n_rows)
    _set_allowed(&codes, mask)
    cdef int16_t[::1] values = _code_values(dims, query)
    cdef codes_query prepared = codes_prepare(&query[0], dims, &values[0])
    cdef codes_candidate *found = NULL
    cdef int status = 0
    if size > 0:
        with nogil:
            status = codes_search(&codes, dims, &prepared, size, threads, &found, &count)
    if status != 0:
        raise MemoryError
    candidates = np.empty(count, dtype=_CANDIDATE)
    cdef codes_candidate[::1] out = candidates
    if count > 0:
        memcpy(&out[0], found, count * sizeof(codes_candidate))
    free(found)
    return candidates


# --- what they share ---

cdef scan_rows _side_by_side(const float[:, ::1] rows):
    cdef scan_rows where
    where.base = <const char *> &rows[0, 0]
    where.offsets = where.ids = NULL
    where.allowed = NULL
    where.row_bytes = rows.shape[1] * sizeof(float)
    where.n_rows = rows.shape[0]
    return where


cdef scan_rows _scattered(
    name, const uint8_t[::1] base, const int64_t[::1] offsets, Py_ssize_t dims, size_t bytes_each, size_t bytes_more
) except *:
    if dims < 0:
        raise UsageError(f"dims is {dims}; it must be 0 or more")
    cdef scan_rows where
    where.base = <const char *> &base[0]
    where.offsets = &offsets[0]
    where.ids = NULL
    where.allowed = NULL
    where.row_bytes = dims * bytes_each + bytes_more
    where.n_rows = offsets.shape[0]
    cdef size_t outside
    with nogil:
        outside = scan_check(&where, base.shape[0])
    if outside < where.n_rows:
        raise UsageError(
            f"{name}[{outside}] is {offsets[outside]}: {where.row_bytes} bytes from there on are not all in the buffer "
            f"of {base.shape[0]} bytes"
        )
    return where


cdef _set_ids(scan_rows *rows, const int64_t[::1] ids):
    _check_count("ids", ids.shape[0], rows.n_rows)
    rows.ids = &ids[0]


cdef _set_allowed(scan_rows *rows, const uint8_t[::1] mask):
    if mask is not None:
        rows.allowed = &mask[0]


cdef _mask(allowed, size_t n_rows):
    if allowed is None:
        return None
    mask = np.ascontiguousarray(allowed)
    if mask.dtype not in (np.bool_, np.uint8) or mask.ndim != 1:
        raise UsageError(f"allowed is {mask.dtype} with {mask.ndim} dimensions; it must be bool or uint8 with 1")
    _check_count("allowed", len(mask), n_rows)
    return mask.view(np.uint8)


cdef _check_count(name, size_t count, size_t n_rows):
    if count != n_rows:
        raise UsageError(f"{name} has {count} values for {n_rows} rows; there must be one for each")


cdef _check_dims(Py_ssize_t of_rows, Py_ssize_t of_queries):
    if of_rows != of_queries:
        raise UsageError(f"rows have {of_rows} dimensions and queries have {of_queries}; they must agree")


cdef size_t _checked_size(Py_ssize_t k, size_t n_rows, Py_ssize_t threads) except? 0:
    if k < 0:
        raise UsageError(f"k is {k}; it must be 0 or more")
    if threads < 1:
        raise UsageError(f"threads is {threads}; it must be 1 or more")
    return min(<size_t> k, n_rows)


cdef _packed(queries, Py_ssize_t count, Py_ssize_t dims):
    """Aligned copy whose rows are padded with zeros, as dot_block wants them."""
    packed = np.zeros((count, (dims + DOT_PAD - 1) // DOT_PAD * DOT_PAD), dtype=np.float32)
    packed[:, :dims] = queries
    return packed


cdef _code_values(Py_ssize_t dims, const float[::1] query):
    """Room for the query's integers, as codes_prepare wants it."""
    _check_dims(dims, query.shape[0])
    return np.empty((dims // CODE_PAD + 1) * CODE_PAD, dtype=np.int16)


cdef _scores(scan_rows rows, Py_ssize_t dims, const float[::1] query):
    _check_dims(dims, query.shape[0])
    cdef const float[:, ::1] packed = _packed(query, 1, dims)
    result = np.empty(rows.n_rows, dtype=np.float32)
    cdef float[::1] out = result
    with nogil:
        scan_scores(&rows, dims, &packed[0, 0], &out[0])
    return result


cdef _top_k(scan_rows rows, Py_ssize_t dims, const float[:, ::1] queries, Py_ssize_t k, Py_ssize_t threads):
    _check_dims(dims, queries.shape[1])
    return _best(rows, dims, _packed(queries, queries.shape[0], dims), _checked_size(k, rows.n_rows, threads), threads)


cdef _best(scan_rows rows, Py_ssize_t dims, const float[:, ::1] packed, size_t size, size_t threads):
    entries = np.empty((packed.shape[0], size), dtype=_ENTRY)
    cdef heap_entry[:, ::1] best = entries
    cdef int status = 0
    if best.shape[0] > 0 and size > 0:
        with nogil:
            status = scan_top_k(&rows, dims, &packed[0, 0], packed.shape[0], size, threads, &best[0, 0])
    if status != 0:
        raise MemoryError
    return entries["id"].copy(), entries["score"].astype(np.float32)
