/*
 * Instruction sets and the choice between them.
 *
 * The choice is a function pointer set at import, not target_clones: those need ifunc, which musl lacks, and turn
 * "avx2,fma" into two clones, one of each. A function's target attribute is enough; no file is compiled with
 * -march, so the baseline stays runnable everywhere.
 */

#include "simd.h"

#include <string.h>

static size_t padded(size_t dims)
{
    return (dims + DOT_PAD - 1) / DOT_PAD * DOT_PAD;
}

#if defined(__GNUC__) /* GCC and Clang: vector types */

/* Repeat the last row up to a multiple of step; what is computed for the repeats is never read. */
static void fill_up(const char **rows, size_t n_rows, size_t step)
{
    for (size_t r = n_rows; r % step != 0; r++)
        rows[r] = rows[n_rows - 1];
}

#define ISA baseline
#define TARGET
#define LANES 4
#define LONE_ROWS 4
#define TILE_QUERIES 3
#include "simd_dot.h"

#if defined(__x86_64__)
#define ISA avx2
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define LONE_ROWS 2
#define TILE_QUERIES 3
#include "simd_dot.h"

#define ISA avx512
#define TARGET __attribute__((target("avx512f,avx2,fma")))
#define LANES 16
#define LONE_ROWS 1
#define TILE_QUERIES 4
#include "simd_dot.h"
#endif

#else /* any other compiler: plain C with sums that do not wait for each other */

static void dot_block_baseline(const char **rows, size_t n_rows, const float *queries, size_t n_queries, size_t dims,
                               float *out)
{
    for (size_t r = 0; r < n_rows; r++)
        for (size_t j = 0; j < n_queries; j++) {
            const float *query = queries + j * padded(dims);
            float acc[8] = {0}, x;
            for (size_t i = 0; i < dims; i++) {
                memcpy(&x, rows[r] + sizeof(float) * i, sizeof x);
                acc[i % 8] += x * query[i];
            }
            out[j * DOT_ROWS + r] = ((acc[0] + acc[4]) + (acc[2] + acc[6])) + ((acc[1] + acc[5]) + (acc[3] + acc[7]));
        }
}

#endif

#if defined(__aarch64__)
#define BASELINE "neon"
#elif defined(__x86_64__)
#define BASELINE "sse2"
#else
#define BASELINE "portable"
#endif

static const struct {
    const char *name;
    dot_block_fn *dot_block;
} SETS[] = {
#if defined(__GNUC__) && defined(__x86_64__)
    {"avx512", dot_block_avx512},
    {"avx2", dot_block_avx2},
#endif
    {BASELINE, dot_block_baseline},
};

enum { N_SETS = sizeof SETS / sizeof *SETS };

static size_t chosen = N_SETS - 1;

dot_block_fn *dot_block = dot_block_baseline;

static int works(size_t i)
{
#if defined(__GNUC__) && defined(__x86_64__)
    /* These ask the operating system too: it must save the wide registers. */
    if (SETS[i].dot_block == dot_block_avx512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma");
    if (SETS[i].dot_block == dot_block_avx2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return i == N_SETS - 1;
}

int simd_select(const char *name)
{
    for (size_t i = 0; i < N_SETS; i++)
        if (works(i) && (name == NULL || strcmp(name, SETS[i].name) == 0)) {
            chosen = i;
            dot_block = SETS[i].dot_block;
            return 0;
        }
    return -1;
}

const char *simd_name(void)
{
    return SETS[chosen].name;
}

const char *simd_available(size_t i)
{
    for (size_t set = 0; set < N_SETS; set++)
        if (works(set) && i-- == 0)
            return SETS[set].name;
    return NULL;
}
