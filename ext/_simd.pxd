cdef extern from "simd.h" nogil:
    enum:
        DOT_PAD
        DOT_ROWS

    ctypedef void dot_block_fn(
        const char **rows, size_t n_rows, const float *queries, size_t n_queries, size_t dims, float *out
    ) noexcept

    dot_block_fn *dot_block

    int simd_select(const char *name)
    const char *simd_name()
    const char *simd_available(size_t i)
