/*
 * Template of dot_block and code_block: included by simd.c once per instruction set with
 *
 *   ISA           suffix of the names defined here
 *   TARGET        function attribute that switches the instruction set on
 *   LANES         floats or 32-bit integers per vector: 4, 8 or 16
 *   LONE_ROWS     float rows done side by side for a single query (1, 2 or 4)
 *   TILE_QUERIES  queries done side by side with four rows (3 or 4; 4 * TILE_QUERIES sums live in registers)
 *
 * and products_<ISA>(codes, query): 2 * LANES int8 times as many int16, each two neighbours added up.
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
#define INTS JOIN(ints, ISA)
#define INLINE TARGET static inline __attribute__((always_inline))

typedef float VEC __attribute__((vector_size(4 * LANES)));
typedef float LOOSE __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef int32_t INTS __attribute__((vector_size(4 * LANES)));

/* Add up halves until four lanes q are left. Unions compile to register extracts; a loop over lanes does not. */
#if LANES == 16
#define FOLD(T, v)                                                                                                     \
    union { __typeof__(v) whole; T##8 part[2]; } wide = {v};                                                           \
    union { T##8 whole; T##4 part[2]; } half = {wide.part[0] + wide.part[1]};                                          \
    T##4 q = half.part[0] + half.part[1]
#elif LANES == 8
#define FOLD(T, v)                                                                                                     \
    union { __typeof__(v) whole; T##4 part[2]; } half = {v};                                                           \
    T##4 q = half.part[0] + half.part[1]
#else
#define FOLD(T, v) T##4 q = v
#endif

INLINE float JOIN(sum_floats, ISA)(VEC v)
{
    FOLD(floats, v);
    return (q[0] + q[2]) + (q[1] + q[3]);
}

INLINE int32_t JOIN(sum_ints, ISA)(INTS v)
{
    FOLD(ints, v);
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
            out[j * DOT_ROWS + r] = JOIN(sum_floats, ISA)(acc[r][j]);
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

/*
 * Bytes are worked on for longer than floats, so a processor that looks ahead by so many instructions sees less memory
 * coming: here, unlike above, asking for it in advance takes up to a third off the time.
 */
TARGET static void JOIN(code_block, ISA)(const char **rows, size_t n_rows, const int16_t *query, size_t dims,
                                         int32_t *out)
{
    for (size_t r = 0; r < n_rows; r++) {
        const char *codes = rows[r], *ahead = rows[r + ROWS_AHEAD];
        INTS acc = {0};
        size_t i = 0;
        for (; i + 64 <= dims; i += 64) {
            __builtin_prefetch(ahead + i, 0, 2);
            for (size_t part = i; part < i + 64; part += 2 * LANES)
                acc += JOIN(products, ISA)(codes + part, query + part);
        }
        __builtin_prefetch(ahead + i, 0, 2);
        for (; i + 2 * LANES <= dims; i += 2 * LANES)
            acc += JOIN(products, ISA)(codes + i, query + i);
        if (i < dims) {
            char rest[2 * LANES] = {0};
            memcpy(rest, codes + i, dims - i);
            acc += JOIN(products, ISA)(rest, query + i);
        }
        out[r] = JOIN(sum_ints, ISA)(acc);
    }
}

#undef VEC
#undef LOOSE
#undef INTS
#undef INLINE
#undef FOLD
#undef JOIN
#undef JOIN_
#undef ISA
#undef TARGET
#undef LANES
#undef LONE_ROWS
#undef TILE_QUERIES
