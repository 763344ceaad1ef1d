/* Rows that lie anywhere in memory, and the best of them by dot product. */

#ifndef VADEMECUM_SCAN_H
#define VADEMECUM_SCAN_H

#include "heap.h"
#include "simd.h"

#include <float.h>
#include <string.h>

typedef struct {
    const char *base;
    const int64_t *offsets; /* of each row from base, in bytes; NULL: they follow each other */
    size_t row_bytes;
    const int64_t *ids;     /* NULL: a row's id is its position */
    const uint8_t *allowed; /* NULL: all rows, else those where it is not 0 */
    size_t n_rows;
} scan_rows;

/* Position of the first row that does not lie within `length` bytes from base; n_rows if all do. */
size_t scan_check(const scan_rows *rows, size_t length);

/* A walk over the allowed rows in [next, end), by blocks. Zero the rest. */
typedef struct {
    const scan_rows *rows;
    size_t next, end, held;
    const char *addresses[DOT_ROWS + ROWS_AHEAD];
    size_t positions[DOT_ROWS + ROWS_AHEAD];
} scan_walk;

/*
 * Take the next block: how many rows it has, 0 at the end. Their addresses and positions come first in the arrays,
 * then those of the rows after them; past the last one its address is repeated.
 */
static inline size_t scan_block(scan_walk *walk)
{
    const scan_rows *rows = walk->rows;
    size_t held = walk->held > DOT_ROWS ? walk->held - DOT_ROWS : 0, i = walk->next;
    memcpy(walk->addresses, walk->addresses + DOT_ROWS, held * sizeof *walk->addresses);
    memcpy(walk->positions, walk->positions + DOT_ROWS, held * sizeof *walk->positions);
    for (; i < walk->end && held < DOT_ROWS + ROWS_AHEAD; i++)
        if (rows->allowed == NULL || rows->allowed[i]) {
            walk->addresses[held] = rows->base + (rows->offsets ? (size_t)rows->offsets[i] : i * rows->row_bytes);
            walk->positions[held++] = i;
        }
    walk->next = i;
    walk->held = held;
    for (size_t past = held; held > 0 && past < DOT_ROWS + ROWS_AHEAD; past++)
        walk->addresses[past] = walk->addresses[held - 1];
    return held < DOT_ROWS ? held : DOT_ROWS;
}

/* out[i] = dot product of row i with the packed query (see DOT_PAD); every row is allowed. */
void scan_scores(const scan_rows *rows, size_t dims, const float *query, float *out);

/* Offer the finite scores among a block's to a heap of k. */
static inline void scan_keep_best(const scan_rows *rows, const float *scores, const size_t *positions, size_t count,
                                  heap_entry *heap, size_t k)
{
    for (size_t i = 0; i < count; i++)
        /* NaN and -inf are never better than the worst kept; +inf has to be told apart. */
        if (scores[i] >= heap[0].score && scores[i] <= FLT_MAX)
            heap_offer(heap, k, (heap_entry){scores[i], rows->ids ? rows->ids[positions[i]] : (int64_t)positions[i]});
}

/*
 * The k >= 1 best finite scores for each of the packed queries, best first; ties by id. Fewer leave (-inf, -1).
 *
 * best: n_queries lists of k entries. Returns 0, or -1 if there is no memory.
 */
int scan_top_k(const scan_rows *rows, size_t dims, const float *queries, size_t n_queries, size_t k, size_t threads,
               heap_entry *best);

#endif
