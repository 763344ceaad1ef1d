"""Dot products of float32 rows with queries, and their fused top-k; for unit vectors, cosines.

Each function is defined by its twin in ``vademecum.kernels.reference``.
"""

import numpy as np

from libc.float cimport FLT_MAX
from libc.stdint cimport int64_t

from _simd cimport DOT_PAD, DOT_ROWS, dot_block, simd_available, simd_name, simd_select

from vademecum.errors import UsageError

cdef enum:
    # Queries that share one pass over the rows: packed, they should stay in the second-level cache.
    QUERIES = 64

simd_select(NULL)


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


def scores(const float[:, ::1] rows not None, const float[::1] query not None):
    """Dot product of each row with the query."""
    _check_dims(rows.shape[1], query.shape[0])
    cdef const float[:, ::1] packed = _packed(query, 1, query.shape[0])
    result = np.empty(rows.shape[0], dtype=np.float32)
    cdef float[::1] out = result
    cdef float[DOT_ROWS] block
    cdef Py_ssize_t start = 0, count, i
    with nogil:
        while start < rows.shape[0]:
            count = _score_block(rows, start, packed, 0, 1, block)
            for i in range(count):
                out[start + i] = block[i]
            start += count
    return result


def top_k(const float[:, ::1] rows not None, const float[:, ::1] queries not None, Py_ssize_t k):
    """Indices and scores of the k best rows for each query, best first; ties by index."""
    _check_dims(rows.shape[1], queries.shape[1])
    if k < 0:
        raise UsageError(f"k is {k}; it must be 0 or more")
    cdef Py_ssize_t size = min(k, rows.shape[0])
    indices = np.full((queries.shape[0], size), -1, dtype=np.int64)
    best = np.full((queries.shape[0], size), -np.inf, dtype=np.float32)
    cdef const float[:, ::1] packed = _packed(queries, queries.shape[0], queries.shape[1])
    cdef int64_t[:, ::1] heap_indices = indices
    cdef float[:, ::1] heap_scores = best
    cdef Py_ssize_t first = 0, query
    if size > 0:
        with nogil:
            while first < queries.shape[0]:
                _scan(rows, packed, first, min(QUERIES, queries.shape[0] - first), heap_scores, heap_indices)
                first += QUERIES
            for query in range(queries.shape[0]):
                _sort(&heap_scores[query, 0], &heap_indices[query, 0], size)
    return indices, best


cdef _check_dims(Py_ssize_t of_rows, Py_ssize_t of_queries):
    if of_rows != of_queries:
        raise UsageError(f"rows have {of_rows} dimensions and queries have {of_queries}; they must agree")


cdef _packed(queries, Py_ssize_t count, Py_ssize_t dims):
    """Aligned copy whose rows are padded with zeros, as dot_block wants them."""
    packed = np.zeros((count, (dims + DOT_PAD - 1) // DOT_PAD * DOT_PAD), dtype=np.float32)
    packed[:, :dims] = queries
    return packed


cdef Py_ssize_t _score_block(
    const float[:, ::1] rows,
    Py_ssize_t start,
    const float[:, ::1] packed,
    Py_ssize_t first,
    Py_ssize_t n_queries,
    float *block,
) noexcept nogil:
    """Score the next rows from ``start`` on and return how many they are."""
    cdef const char *addresses[DOT_ROWS]
    cdef Py_ssize_t count = min(DOT_ROWS, rows.shape[0] - start)
    cdef Py_ssize_t i
    for i in range(count):
        addresses[i] = <const char *> &rows[start + i, 0]
    dot_block(addresses, count, &packed[first, 0], n_queries, rows.shape[1], block)
    return count


cdef void _scan(
    const float[:, ::1] rows,
    const float[:, ::1] packed,
    Py_ssize_t first,
    Py_ssize_t n_queries,
    float[:, ::1] heap_scores,
    int64_t[:, ::1] heap_indices,
) noexcept nogil:
    """One pass over the rows for a group of queries: keep each query's best in its heap."""
    cdef float[QUERIES * DOT_ROWS] block
    cdef Py_ssize_t size = heap_scores.shape[1]
    cdef Py_ssize_t start = 0, count, query, i
    cdef float *scores
    cdef int64_t *indices
    cdef float score
    while start < rows.shape[0]:
        count = _score_block(rows, start, packed, first, n_queries, block)
        for query in range(n_queries):
            scores = &heap_scores[first + query, 0]
            indices = &heap_indices[first + query, 0]
            for i in range(count):
                score = block[query * DOT_ROWS + i]
                # NaN and -inf are never better than the worst kept; +inf has to be told apart.
                if _worse(scores[0], indices[0], score, start + i) and score <= FLT_MAX:
                    _replace_worst(scores, indices, size, score, start + i)
        start += count


cdef inline bint _worse(float score, int64_t index, float than_score, int64_t than_index) noexcept nogil:
    return score < than_score or (score == than_score and index > than_index)


cdef void _replace_worst(
    float *scores, int64_t *indices, Py_ssize_t size, float score, int64_t index
) noexcept nogil:
    """Put a row in place of the root of a heap whose root is its worst row."""
    cdef Py_ssize_t hole = 0, child = 1
    while child < size:
        if child + 1 < size and _worse(scores[child + 1], indices[child + 1], scores[child], indices[child]):
            child += 1
        if not _worse(scores[child], indices[child], score, index):
            break
        scores[hole] = scores[child]
        indices[hole] = indices[child]
        hole = child
        child = 2 * hole + 1
    scores[hole] = score
    indices[hole] = index


cdef void _sort(float *scores, int64_t *indices, Py_ssize_t size) noexcept nogil:
    """Heap to list, best first: the worst goes last, and so on."""
    cdef Py_ssize_t last
    cdef float score
    cdef int64_t index
    for last in range(size - 1, 0, -1):
        score = scores[last]
        index = indices[last]
        scores[last] = scores[0]
        indices[last] = indices[0]
        _replace_worst(scores, indices, last, score, index)
