/*
 * Rows in one byte per dimension, and what their dot product with a query can at least and at most be.
 *
 * The code of a row x is d int8 values c, then two float32: a scale s, and a norm e >= |x - s c|. A query q becomes
 * t u with u int16. Then, for any x,
 *
 *     <x, q>  =  s t <c, u>  +  s <c, q - t u>  +  <x - s c, q>
 *
 * where the first sum is exact, in integers, and the others are at most 128 s |q - t u|_1 (Hoelder; |c_i| <= 128)
 * and e |q|_2 (Cauchy-Schwarz).
 *
 * What counts is the float32 score. Its roundings add up to g sum |x_i q_i| at most, where g = r u / (1 - r u) for
 * r roundings of u = 2^-24 (Higham, Accuracy and Stability of Numerical Algorithms, 3.1; r: see dot_block), and
 * sum |x_i q_i| <= 128 s |q|_1 + e |q|_2. Four roundings more are granted than there are: they pay for all those of
 * the double arithmetic here. A processor may have been told to take numbers below 2^-126 for 0: that changes d
 * terms by 2^-126 of their factors, and a scale or norm by so much. It is paid for by d 2^-116.
 */

#ifndef VADEMECUM_CODES_H
#define VADEMECUM_CODES_H

#include "scan.h"

#include <float.h>
#include <string.h>

/* Bytes of a code after its dims. */
#define CODE_TAIL (2 * sizeof(float))

/* Write the code of a row of floats. If a value is not finite: codes and scale 0, norm inf. */
void codes_encode(const char *restrict row, size_t dims, char *restrict code);

typedef struct {
    const int16_t *values; /* u, packed (see CODE_PAD) */
    double scale;          /* t */
    double per_scale;      /* 128 (|q - t u|_1 + g |q|_1) */
    double per_norm;       /* (1 + g) |q|_2 */
    double least;
    double sum; /* 128 |q|_1 */
} codes_query;

/* values: room for dims rounded up to CODE_PAD; becomes u. */
codes_query codes_prepare(const float *query, size_t dims, int16_t *values);

typedef struct {
    double lower, upper;
} codes_interval;

/* Where the score is: finite and between these. Between -inf and inf: it may be anything, also inf or NaN. */
static inline codes_interval codes_bound(const codes_query *query, const char *code, size_t dims, int32_t product)
{
    float tail[2];
    memcpy(tail, code + dims, CODE_TAIL);
    double scale = tail[0], norm = tail[1];
    double centre = scale * (query->scale * product);
    double margin = scale * query->per_scale + norm * query->per_norm + query->least;
    /* This bounds sum |x_i q_i|, and so every partial sum. NaN fails, too. */
    if (!(scale * query->sum + norm * query->per_norm < FLT_MAX / 2))
        return (codes_interval){-INFINITY, INFINITY};
    return (codes_interval){centre - margin, centre + margin};
}

/* out[i] = interval of row i; every row is allowed. */
void codes_bounds(const scan_rows *codes, size_t dims, const codes_query *query, codes_interval *out);

typedef struct {
    double upper;
    int64_t position;
} codes_candidate;

/*
 * The rows that may be among the k >= 1 best finite scores: all those whose upper end reaches the k-th highest lower
 * end. In the order of their upper ends, highest first; ties by position.
 *
 * candidates: to be freed. Returns 0, or -1 if there is no memory.
 */
int codes_search(const scan_rows *codes, size_t dims, const codes_query *query, size_t k, size_t threads,
                 codes_candidate **candidates, size_t *n_candidates);

/*
 * The k >= 1 best of the candidates by their float rows, best first; ties by id. Fewer leave (-inf, -1).
 *
 * query: packed (see DOT_PAD). Stops where no upper end reaches the k-th best score; returns how many were scored.
 */
size_t codes_rescore(const scan_rows *rows, size_t dims, const float *query, const codes_candidate *candidates,
                     size_t n_candidates, size_t k, heap_entry *best);

#endif
