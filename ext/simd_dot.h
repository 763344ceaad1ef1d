/*
 * Template of one dot_block: included by simd.c once per instruction set with
 *
 *   ISA           suffix of the names defined here
 *   TARGET        function attribute that switches the instruction set on
 *   LANES         floats per vector: 4, 8 or 16
 *   LONE_ROWS     rows done side by side for a single query (1, 2 or 4)
 *   TILE_QUERIES  queries done side by side with four rows (3 or 4; 4 * TILE_QUERIES sums live in registers)
 *
 * There is one accumulator per (row, query): how many are done side by side changes the speed and not one bit of
 * the result. With a single query memory is the limit; wide vectors then read one row after the other, because
 * some processors prefetch several short streams badly, while narrow ones need rows side by side to hide the
 * latency of their additions.
 */

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define VEC JOIN(vec, ISA)
#define LOOSE JOIN(loose, ISA)
#define HALF JOIN(half, ISA)
#define QUARTER JOIN(quarter, ISA)
#define INLINE TARGET static inline __attribute__((always_inline))

typedef float VEC __attribute__((vector_size(4 * LANES)));
typedef float LOOSE __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef float HALF __attribute__((vector_size(32)));
typedef float QUARTER __attribute__((vector_size(16)));

/* Sum of the lanes, by halves. Unions compile to register extracts; a loop over lanes does not. */
INLINE float JOIN(sum, ISA)(VEC v)
{
#if LANES == 16
    union { VEC whole; HALF part[2]; } wide = {v};
    union { HALF whole; QUARTER part[2]; } half = {wide.part[0] + wide.part[1]};
    QUARTER q = half.part[0] + half.part[1];
#elif LANES == 8
    union { VEC whole; QUARTER part[2]; } half = {v};
    QUARTER q = half.part[0] + half.part[1];
#else
    QUARTER q = v;
#endif
    return (q[0] + q[2]) + (q[1] + q[3]);
}

/* n_rows <= 4 rows with n_queries <= 4 queries; both counts are constants where this is inlined. */
INLINE void JOIN(tile, ISA)(const char **rows, int n_rows, const float *queries, int n_queries, size_t stride,
                            size_t dims, float *out)
{
    VEC acc[4][4], x[4];
    size_t i = 0;
    for (int r = 0; r < n_rows; r++)
        for (int j = 0; j < n_queries; j++)
            acc[r][j] = (VEC){0};
    for (; i + LANES <= dims; i += LANES) {
        for (int r = 0; r < n_rows; r++)
            x[r] = *(const LOOSE *)(rows[r] + sizeof(float) * i);
        for (int j = 0; j < n_queries; j++)
            for (int r = 0; r < n_rows; r++)
                acc[r][j] += x[r] * *(const LOOSE *)(queries + j * stride + i);
    }
    if (i < dims) {
        for (int r = 0; r < n_rows; r++) {
            x[r] = (VEC){0};
            memcpy(&x[r], rows[r] + sizeof(float) * i, sizeof(float) * (dims - i));
        }
        for (int j = 0; j < n_queries; j++)
            for (int r = 0; r < n_rows; r++)
                acc[r][j] += x[r] * *(const LOOSE *)(queries + j * stride + i);
    }
    for (int j = 0; j < n_queries; j++)
        for (int r = 0; r < n_rows; r++)
            out[j * DOT_ROWS + r] = JOIN(sum, ISA)(acc[r][j]);
}

TARGET static void JOIN(dot_block, ISA)(const char **rows, size_t n_rows, const float *queries, size_t n_queries,
                                        size_t dims, float *out)
{
    size_t stride = padded(dims);
    if (n_queries == 1) {
        fill_up(rows, n_rows, LONE_ROWS);
        for (size_t r = 0; r < n_rows; r += LONE_ROWS)
            JOIN(tile, ISA)(rows + r, LONE_ROWS, queries, 1, stride, dims, out + r);
        return;
    }
    fill_up(rows, n_rows, 4);
    for (size_t r = 0; r < n_rows; r += 4)
        for (size_t j = 0; j < n_queries; j += TILE_QUERIES) {
            const float *q = queries + j * stride;
            float *o = out + j * DOT_ROWS + r;
            switch (n_queries - j) {
            case 1: JOIN(tile, ISA)(rows + r, 4, q, 1, stride, dims, o); break;
            case 2: JOIN(tile, ISA)(rows + r, 4, q, 2, stride, dims, o); break;
            case 3: JOIN(tile, ISA)(rows + r, 4, q, 3, stride, dims, o); break;
            default: JOIN(tile, ISA)(rows + r, 4, q, TILE_QUERIES, stride, dims, o);
            }
        }
}

#undef VEC
#undef LOOSE
#undef HALF
#undef QUARTER
#undef INLINE
#undef JOIN
#undef JOIN_
#undef ISA
#undef TARGET
#undef LANES
#undef LONE_ROWS
#undef TILE_QUERIES
