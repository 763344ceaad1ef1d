/*
 * Instruction sets and the choice between them.
 *
 * The choice is a function pointer set at import, not target_clones: those need ifunc, which musl lacks, and turn
 * "avx2,fma" into two clones, one of each. A function's target attribute is enough; no file is compiled with
 * -march, so the baseline stays runnable everywhere. SIMD_PLAIN leaves plain C alone, for the check of that.
 */

#include "simd.h"

#include <string.h>

static size_t padded(size_t dims)
{
    return (dims + DOT_PAD - 1) / DOT_PAD * DOT_PAD;
}

#if defined(__GNUC__) && defined(__x86_64__) && !defined(SIMD_PLAIN)
#define X86_64
#include <immintrin.h>
#elif defined(__GNUC__) && defined(__aarch64__) && !defined(SIMD_PLAIN)
#define ARM_64
#include <arm_neon.h>
#endif

#if defined(X86_64) || defined(ARM_64)

typedef float floats4 __attribute__((vector_size(16)));
typedef float floats8 __attribute__((vector_size(32)));
typedef int32_t ints4 __attribute__((vector_size(16)));
typedef int32_t ints8 __attribute__((vector_size(32)));

/* Repeat the last row up to a multiple of step; what is computed for the repeats is never read. */
static void fill_up(const char **rows, size_t n_rows, size_t step)
{
    for (size_t r = n_rows; r % step != 0; r++)
        rows[r] = rows[n_rows - 1];
}

#ifdef X86_64
static inline ints4 products_baseline(const char *codes, const int16_t *query)
{
    __m128i bytes = _mm_loadl_epi64((const __m128i *)codes);
    __m128i words = _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
    return (ints4)_mm_madd_epi16(words, _mm_loadu_si128((const __m128i *)query));
}
#else
static inline ints4 products_baseline(const char *codes, const int16_t *query)
{
    int16x8_t words = vmovl_s8(vld1_s8((const int8_t *)codes)), factors = vld1q_s16(query);
    return (ints4)vmlal_high_s16(vmull_s16(vget_low_s16(words), vget_low_s16(factors)), words, factors);
}
#endif

#define ISA baseline
#define TARGET
#define LANES 4
#define LONE_ROWS 4
#define TILE_QUERIES 3
#include "simd_dot.h"

#ifdef X86_64
#define ISA avx2
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define LONE_ROWS 2
#define TILE_QUERIES 3

TARGET static inline ints8 products_avx2(const char *codes, const int16_t *query)
{
    __m256i words = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)codes));
    return (ints8)_mm256_madd_epi16(words, _mm256_loadu_si256((const __m256i *)query));
}

#include "simd_dot.h"

#define ISA avx512
#define TARGET __attribute__((target("avx512f,avx512bw,avx2,fma")))
#define LANES 16
#define LONE_ROWS 1
#define TILE_QUERIES 4

typedef int32_t ints16 __attribute__((vector_size(64)));

TARGET static inline ints16 products_avx512(const char *codes, const int16_t *query)
{
    __m512i words = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)codes));
    return (ints16)_mm512_madd_epi16(words, _mm512_loadu_si512(query));
}

#include "simd_dot.h"
#endif

#else /* plain C with sums that do not wait for each other */

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

static void code_block_baseline(const char **rows, size_t n_rows, const int16_t *query, size_t dims, int32_t *out)
{
    for (size_t r = 0; r < n_rows; r++) {
        const signed char *codes = (const signed char *)rows[r];
        out[r] = 0;
        for (size_t i = 0; i < dims; i++)
            out[r] += codes[i] * query[i];
    }
}

#endif

#if defined(X86_64)
#define BASELINE "sse2"
#elif defined(ARM_64)
#define BASELINE "neon"
#else
#define BASELINE "portable"
#endif

static const struct {
    const char *name;
    dot_block_fn *dot_block;
    code_block_fn *code_block;
} SETS[] = {
#ifdef X86_64
    {"avx512", dot_block_avx512, code_block_avx512},
    {"avx2", dot_block_avx2, code_block_avx2},
#endif
    {BASELINE, dot_block_baseline, code_block_baseline},
};

enum { N_SETS = sizeof SETS / sizeof *SETS };

static size_t chosen = N_SETS - 1;

dot_block_fn *dot_block = dot_block_baseline;
code_block_fn *code_block = code_block_baseline;

static int works(size_t i)
{
#ifdef X86_64
    /* These ask the operating system too: it must save the wide registers. */
    if (SETS[i].dot_block == dot_block_avx512)
        return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("fma");
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
            code_block = SETS[i].code_block;
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
