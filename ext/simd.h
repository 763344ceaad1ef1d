/* Inner loops of the native core, in the widest instruction set that this processor has. */

#ifndef VADEMECUM_SIMD_H
#define VADEMECUM_SIMD_H

#include <stddef.h>
#include <stdint.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "Rows are little-endian and read where they lie; the plain twins serve on this machine."
#endif

/* Packed queries have a stride that is a multiple of this many values, the rest zero. */
#define DOT_PAD 16
#define CODE_PAD 32

/* Most rows of one call, and the stride of dot_block's output. A multiple of 4, so that whole tiles fit. */
#define DOT_ROWS 32

/* Rows that code_block asks the memory for in advance. */
#define ROWS_AHEAD 8

/*
 * out[j * DOT_ROWS + i] = dot product of row i with query j, for n_rows <= DOT_ROWS rows.
 *
 * rows: address of each row (dims floats, any alignment, anywhere in memory); the array must have room for
 * n_rows rounded up to 4 addresses, and the surplus is overwritten. queries: n_queries rows of padded floats
 * (see DOT_PAD). The value depends on its row and its query alone, never on neighbours or on how many come in
 * one call: equal rows tie exactly, and a batch gives what single queries give. It is a sum in at least four
 * interleaved parts, so that no value passes through more than dims / 4 + 4 roundings.
 */
typedef void dot_block_fn(const char **rows, size_t n_rows, const float *queries, size_t n_queries, size_t dims,
                          float *out);

/*
 * out[i] = dot product of row i with the query, exactly: dims int8 each, with dims int16 (padded, see CODE_PAD).
 *
 * 128 times the sum of the query's magnitudes must be below 2^31; then no row whatever can overflow. rows: the
 * addresses of the rows, then ROWS_AHEAD more, which are fetched while these are done.
 */
typedef void code_block_fn(const char **rows, size_t n_rows, const int16_t *query, size_t dims, int32_t *out);

/* The chosen implementations; set by simd_select. */
extern dot_block_fn *dot_block;
extern code_block_fn *code_block;

/* Choose an instruction set by name, or the best for NULL. Returns 0, or -1 if it is not available here. */
int simd_select(const char *name);

/* Name of the chosen instruction set. */
const char *simd_name(void);

/* Name of the i-th instruction set that works here, best first; NULL past the end. */
const char *simd_available(size_t i);

#endif
