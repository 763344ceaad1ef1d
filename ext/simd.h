/* Inner loops of the native core, in the widest instruction set that this processor has. */

#ifndef VADEMECUM_SIMD_H
#define VADEMECUM_SIMD_H

#include <stddef.h>

/* Queries are packed with a row stride that is a multiple of this many floats, the rest zero. */
#define DOT_PAD 16

/* Most rows of one call, and the stride of its output. A multiple of 4, so that whole tiles fit. */
#define DOT_ROWS 32

/*
 * out[j * DOT_ROWS + i] = dot product of row i with query j, for n_rows <= DOT_ROWS rows.
 *
 * rows: address of each row (dims floats, any alignment, anywhere in memory); the array must have room for
 * n_rows rounded up to 4 addresses, and the surplus is overwritten. queries: n_queries rows of padded floats
 * (see DOT_PAD). The value depends on its row and its query alone, never on neighbours or on how many come in
 * one call: equal rows tie exactly, and a batch gives what single queries give.
 */
typedef void dot_block_fn(const char **rows, size_t n_rows, const float *queries, size_t n_queries, size_t dims,
                          float *out);

/* The chosen implementation; set by simd_select. */
extern dot_block_fn *dot_block;

/* Choose an instruction set by name, or the best for NULL. Returns 0, or -1 if it is not available here. */
int simd_select(const char *name);

/* Name of the chosen instruction set. */
const char *simd_name(void);

/* Name of the i-th instruction set that works here, best first; NULL past the end. */
const char *simd_available(size_t i);

#endif
