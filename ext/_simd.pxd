cdef extern from "simd.h" nogil:
    enum:
        DOT_PAD
        CODE_PAD

    int simd_select(const char *name)
    const char *simd_name()
    const char *simd_available(size_t i)
