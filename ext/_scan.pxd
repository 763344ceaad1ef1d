from libc.stdint cimport int16_t, int64_t, uint8_t


cdef extern from "heap.h" nogil:
    ctypedef struct heap_entry:
        double score
        int64_t id


cdef extern from "scan.h" nogil:
    ctypedef struct scan_rows:
        const char *base
        const int64_t *offsets
        size_t row_bytes
        const int64_t *ids
        const uint8_t *allowed
        size_t n_rows

    size_t scan_check(const scan_rows *rows, size_t length)
    void scan_scores(const scan_rows *rows, size_t dims, const float *query, float *out)
    int scan_top_k(
        const scan_rows *rows,
        size_t dims,
        const float *queries,
        size_t n_queries,
        size_t k,
        size_t threads,
        heap_entry *best,
    )


cdef extern from "codes.h" nogil:
    enum:
        CODE_TAIL

    ctypedef struct codes_query:
        pass

    ctypedef struct codes_interval:
        double lower
        double upper

    ctypedef struct codes_candidate:
        double upper
        int64_t position

    void codes_encode(const char *row, size_t dims, char *code)
    codes_query codes_prepare(const float *query, size_t dims, int16_t *values)
    void codes_bounds(const scan_rows *codes, size_t dims, const codes_query *query, codes_interval *out)
    int codes_search(
        const scan_rows *codes,
        size_t dims,
        const codes_query *query,
        size_t k,
        size_t threads,
        codes_candidate **candidates,
        size_t *n_candidates,
    )
    size_t codes_rescore(
        const scan_rows *rows,
        size_t dims,
        const float *query,
        const codes_candidate *candidates,
        size_t n_candidates,
        size_t k,
        heap_entry *best,
    )
