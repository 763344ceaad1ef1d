"""Token hashing, set Jaccard and greedy maximal marginal relevance.

Each function is defined by its twin in ``vademecum.kernels.reference``.
"""

import numpy as np

from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp

from vademecum.errors import UsageError


cdef extern from "tokens.h" nogil:
    size_t tokens_end(const uint8_t *text, size_t size, size_t begin)
    uint64_t tokens_hash(const uint8_t *token, size_t length, size_t left)


def token_sets(texts):
    """Hashes of each text's distinct tokens, sorted, in one array; and where each text's begin."""
    cdef list held = list(texts)  # the UTF-8 forms belong to the strings
    cdef Py_ssize_t count = len(held), capacity = 0, length, i
    addresses = np.empty(count, dtype=np.uintp)
    lengths = np.empty(count, dtype=np.intp)
    cdef size_t[::1] address = addresses
    cdef Py_ssize_t[::1] size = lengths
    for i in range(count):
        if not isinstance(held[i], str):
            raise TypeError(f"text {i} is a {type(held[i]).__name__}; it must be a str")
        address[i] = <size_t> PyUnicode_AsUTF8AndSize(held[i], &length)
        size[i] = length
        capacity += (length + 1) // 2
    hashes = np.empty(capacity, dtype=np.uint64)
    bounds = np.zeros(count + 1, dtype=np.int64)
    cdef uint64_t[::1] out = hashes
    cdef int64_t[::1] begin = bounds
    with nogil:
        for i in range(count):
            length = _hash_tokens(<const uint8_t *> address[i], size[i], &out[begin[i]])
            _sort(&out[begin[i]], length)
            begin[i + 1] = begin[i] + _drop_repeats(&out[begin[i]], length)
    return hashes[:begin[count]].copy(), bounds


def jaccard(sets, Py_ssize_t i, Py_ssize_t j):
    """Size of the intersection over size of the union; 0.0 for two empty sets."""
    cdef const uint64_t[::1] hashes = sets[0]
    cdef const int64_t[::1] bounds = sets[1]
    cdef Py_ssize_t count = _count_sets(hashes, bounds)
    if not (0 <= i < count and 0 <= j < count):
        raise UsageError(f"sets {i} and {j} were asked for; there are {count}")
    cdef int64_t a = bounds[i], b = bounds[j], shared = 0
    while a < bounds[i + 1] and b < bounds[j + 1]:
        if hashes[a] == hashes[b]:
            shared += 1
            a += 1
            b += 1
        elif hashes[a] < hashes[b]:
            a += 1
        else:
            b += 1
    return _ratio(shared, bounds[i + 1] - bounds[i], bounds[j + 1] - bounds[j])


def mmr(relevance, sets, double lam, Py_ssize_t k):
    """Indices in the order in which greedy maximal marginal relevance picks them."""
    cdef const double[::1] values = np.asarray(relevance, dtype=np.float64, order="C")
    cdef const uint64_t[::1] hashes = sets[0]
    cdef const int64_t[::1] bounds = sets[1]
    cdef Py_ssize_t count = _count_sets(hashes, bounds)
    if values.shape[0] != count:
        raise UsageError(f"{values.shape[0]} relevances for {count} sets; there must be one for each")
    if not np.isfinite(values).all():
        raise UsageError("a relevance is not finite")
    if not 0.0 <= lam <= 1.0:
        raise UsageError(f"lam is {lam}; it must be between 0 and 1")
    if k < 0:
        raise UsageError(f"k is {k}; it must be 0 or more")
    chosen = np.empty(min(k, count), dtype=np.int64)
    cdef int64_t[::1] out = chosen
    if out.shape[0] > 0:
        _pick(values, hashes, bounds, lam, out)
    return chosen


cdef Py_ssize_t _count_sets(const uint64_t[::1] hashes, const int64_t[::1] bounds) except -1:
    """How many sets there are, after checking that each lies within the hashes."""
    cdef Py_ssize_t i, count = bounds.shape[0] - 1
    if count < 0 or bounds[0] != 0 or bounds[count] != hashes.shape[0]:
        raise UsageError(f"the bounds of the sets must rise from 0 to the number of hashes, {hashes.shape[0]}")
    for i in range(count):
        if bounds[i] > bounds[i + 1]:
            raise UsageError(f"the bounds of the sets fall from {bounds[i]} to {bounds[i + 1]} at set {i}")
    return count


cdef inline double _ratio(int64_t shared, int64_t size, int64_t other_size) noexcept nogil:
    cdef int64_t united = size + other_size - shared
    return <double> shared / <double> united if united else 0.0


# --- terms in texts ---

def held(texts, terms):
    """For each text, a byte for each term: how many of the text's tokens it is, 255 at most."""
    cdef list sought = list(terms), each = list(texts), found = []
    cdef Py_ssize_t count = len(sought), i
    addresses = np.empty(count + 1, dtype=np.uintp)
    lengths = np.empty(count + 1, dtype=np.intp)
    followers = np.empty(count + 1, dtype=np.intp)
    cdef size_t[::1] address = addresses
    cdef Py_ssize_t[::1] length = lengths, follower = followers
    cdef Py_ssize_t first[256]
    for i in range(256):
        first[i] = -1
    for i in range(count - 1, -1, -1):
        address[i] = <size_t> _utf8(sought[i], &length[i])
        if length[i] > 0:
            follower[i] = first[(<const uint8_t *> address[i])[0]]
            first[(<const uint8_t *> address[i])[0]] = i
    for text in each:
        found.append(_held(text, address, length, follower, first, count))
    return found


cdef bytes _held(
    text,
    const size_t[::1] address,
    const Py_ssize_t[::1] length,
    const Py_ssize_t[::1] follower,
    const Py_ssize_t *first,
    Py_ssize_t count,
):
    """``follower`` leads from a term to the next one that begins with the same byte, ``first`` to the first of them."""
    cdef Py_ssize_t size, i
    cdef const uint8_t *start = _utf8(text, &size)
    cdef bytearray found = bytearray(count)
    cdef uint8_t *times = <uint8_t *> <char *> found
    cdef size_t begin = 0, end
    while begin < <size_t> size:
        end = tokens_end(start, size, begin)
        i = first[start[begin]] if end > begin else -1
        while i >= 0:
            if length[i] == <Py_ssize_t> (end - begin) and not memcmp(start + begin, <void *> address[i], end - begin):
                times[i] += times[i] != 255
            i = follower[i]
        begin = end + 1
    return bytes(found)


cdef const uint8_t *_utf8(text, Py_ssize_t *length) except NULL:
    """The UTF-8 form, which belongs to the text."""
    if not isinstance(text, str):
        raise TypeError(f"{text!r:.80} is a {type(text).__name__}; it must be a str")
    return <const uint8_t *> PyUnicode_AsUTF8AndSize(text, length)


# --- hashing ---

cdef Py_ssize_t _hash_tokens(const uint8_t *text, size_t size, uint64_t *out) noexcept nogil:
    """Hash what stands between single spaces; returns how many tokens there are."""
    cdef size_t begin = 0, end
    cdef Py_ssize_t count = 0
    while begin < size:
        end = tokens_end(text, size, begin)
        if end > begin:
            out[count] = tokens_hash(text + begin, end - begin, size - begin)
            count += 1
        begin = end + 1
    return count


cdef void _sort(uint64_t *keys, Py_ssize_t size) noexcept nogil:
    """Quicksort down to short runs, then insertion. Hashes come in random order: the middle key splits well."""
    cdef Py_ssize_t low, high, i
    cdef uint64_t pivot, key
    while size > 24:
        pivot = keys[size // 2]
        low = 0
        high = size - 1
        while low <= high:
            while keys[low] < pivot:
                low += 1
            while keys[high] > pivot:
                high -= 1
            if low <= high:
                keys[low], keys[high] = keys[high], keys[low]
                low += 1
                high -= 1
        if high + 1 < size - low:  # the shorter side first keeps the stack flat
            _sort(keys, high + 1)
            keys += low
            size -= low
        else:
            _sort(keys + low, size - low)
            size = high + 1
    for low in range(1, size):
        key = keys[low]
        i = low
        while i > 0 and keys[i - 1] > key:
            keys[i] = keys[i - 1]
            i -= 1
        keys[i] = key


cdef Py_ssize_t _drop_repeats(uint64_t *keys, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t kept = 0, i
    for i in range(size):
        if kept == 0 or keys[kept - 1] != keys[i]:
            keys[kept] = keys[i]
            kept += 1
    return kept


# --- maximal marginal relevance ---

cdef _pick(
    const double[::1] relevance, const uint64_t[::1] hashes, const int64_t[::1] bounds, double lam, int64_t[::1] out
):
    """Keep, for each candidate left, its greatest similarity to anything chosen so far.

    Only what shares a token with the item just chosen can come nearer, and the owners of its tokens lead there: the
    work of a step is the number of shared tokens, not of all tokens.
    """
    cdef Py_ssize_t count = relevance.shape[0], step
    cdef int64_t[::1] tokens = np.empty(hashes.shape[0], dtype=np.int64)
    cdef int64_t[::1] table = np.full(_table_size(hashes.shape[0]), -1, dtype=np.int64)
    cdef int64_t[::1] owners = np.empty(hashes.shape[0], dtype=np.int64)
    cdef int64_t[::1] owners_end = np.zeros(hashes.shape[0] + 1, dtype=np.int64)
    cdef int64_t[::1] shared = np.zeros(count, dtype=np.int64)
    cdef double[::1] nearest = np.zeros(count, dtype=np.float64)  # negative: chosen
    with nogil:
        _number_tokens(hashes, table, tokens)
        _list_owners(tokens, bounds, owners_end, owners)
        for step in range(out.shape[0]):
            out[step] = _best(relevance, nearest, lam)
            nearest[out[step]] = -1.0
            if step + 1 < out.shape[0]:
                _come_nearer(out[step], tokens, bounds, owners_end, owners, shared, nearest)


cdef Py_ssize_t _table_size(Py_ssize_t entries) noexcept:
    """The power of two that leaves a hash table between a quarter and half full."""
    cdef Py_ssize_t size = 2
    while size < 2 * entries:
        size *= 2
    return size


cdef void _number_tokens(const uint64_t[::1] hashes, int64_t[::1] table, int64_t[::1] tokens) noexcept nogil:
    """tokens[i] = position of the first hash equal to hashes[i]: a dense name for the token."""
    cdef uint64_t mask = <uint64_t> table.shape[0] - 1, slot
    cdef Py_ssize_t i
    for i in range(hashes.shape[0]):
        slot = hashes[i] & mask
        while table[slot] >= 0 and hashes[table[slot]] != hashes[i]:
            slot = (slot + 1) & mask
        if table[slot] < 0:
            table[slot] = i
        tokens[i] = table[slot]


cdef void _list_owners(
    const int64_t[::1] tokens, const int64_t[::1] bounds, int64_t[::1] begin, int64_t[::1] owners
) noexcept nogil:
    """Counting sort of the sets by token: those with token t are owners[begin[t]:begin[t + 1]], ascending."""
    cdef Py_ssize_t i, owner
    for i in range(tokens.shape[0]):
        begin[tokens[i]] += 1
    for i in range(tokens.shape[0]):
        begin[i + 1] += begin[i]
    for owner in range(bounds.shape[0] - 2, -1, -1):
        for i in range(bounds[owner], bounds[owner + 1]):
            begin[tokens[i]] -= 1
            owners[begin[tokens[i]]] = owner


cdef Py_ssize_t _best(const double[::1] relevance, const double[::1] nearest, double lam) noexcept nogil:
    """The candidate left with the best score; ties by relevance, then by index."""
    cdef Py_ssize_t best = -1, i
    cdef double best_score = 0.0, score
    for i in range(relevance.shape[0]):
        if nearest[i] < 0.0:
            continue
        score = lam * relevance[i] - (1.0 - lam) * nearest[i]
        if best < 0 or score > best_score or (score == best_score and relevance[i] > relevance[best]):
            best = i
            best_score = score
    return best


cdef void _come_nearer(
    Py_ssize_t chosen,
    const int64_t[::1] tokens,
    const int64_t[::1] bounds,
    const int64_t[::1] owners_begin,
    const int64_t[::1] owners,
    int64_t[::1] shared,
    double[::1] nearest,
) noexcept nogil:
    """Raise ``nearest`` of the candidates left to their similarity with the chosen one. ``shared`` is all zero."""
    cdef Py_ssize_t i, j
    cdef int64_t size = bounds[chosen + 1] - bounds[chosen]
    for i in range(bounds[chosen], bounds[chosen + 1]):
        for j in range(owners_begin[tokens[i]], owners_begin[tokens[i] + 1]):
            shared[owners[j]] += 1
    for i in range(nearest.shape[0]):
        if nearest[i] >= 0.0:
            nearest[i] = max(nearest[i], _ratio(shared[i], size, bounds[i + 1] - bounds[i]))
        shared[i] = 0
