/*
 * The native kernels beside plain loops, without Python: for machines that are only there as an emulator.
 *
 *   make arm-check
 *
 * The same with the host's compiler checks each instruction set of the host, and with -DSIMD_PLAIN plain C.
 */

#include "codes.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_DIMS = 600, MOST_QUERIES = 9, ROWS = 300, K = 7 };

static char bytes[ROWS * (MOST_DIMS + 2) * sizeof(float)], code_bytes[ROWS * (MOST_DIMS + 16)];
static float queries[MOST_QUERIES * (MOST_DIMS + DOT_PAD)];
static int16_t words[MOST_DIMS + CODE_PAD];

static float random_float(void)
{
    return (float)rand() / (float)RAND_MAX - 0.5f;
}

static void check(int holds, const char *what, size_t dims)
{
    if (!holds) {
        printf("%s: %s is wrong at %zu dims\n", simd_name(), what, dims);
        exit(1);
    }
}

static void fill(size_t dims, size_t shift)
{
    size_t stride = (dims + DOT_PAD - 1) / DOT_PAD * DOT_PAD;
    for (size_t i = 0; i < ROWS * dims; i++) {
        float x = random_float();
        memcpy(bytes + shift + sizeof x * i, &x, sizeof x);
    }
    memset(queries, 0, sizeof queries);
    for (size_t j = 0; j < MOST_QUERIES; j++)
        for (size_t i = 0; i < dims; i++)
            queries[j * stride + i] = random_float();
    memset(words, 0, sizeof words);
    for (size_t i = 0; i < sizeof code_bytes; i++)
        code_bytes[i] = (char)rand();
    for (size_t i = 0; i < dims; i++)
        words[i] = (int16_t)(rand() % 55001 - 27500); /* 600 * 27500 < 2^24 */
}

static void check_floats(size_t dims, size_t shift, size_t n_rows, size_t n_queries)
{
    const char *rows[DOT_ROWS];
    float out[MOST_QUERIES * DOT_ROWS], alone[DOT_ROWS], x;
    size_t stride = (dims + DOT_PAD - 1) / DOT_PAD * DOT_PAD;
    for (size_t r = 0; r < n_rows; r++)
        rows[r] = bytes + shift + r * dims * sizeof x;
    dot_block(rows, n_rows, queries, n_queries, dims, out);
    for (size_t j = 0; j < n_queries; j++) {
        dot_block(rows, n_rows, queries + j * stride, 1, dims, alone);
        for (size_t r = 0; r < n_rows; r++) {
            double exact = 0, size = 0;
            for (size_t i = 0; i < dims; i++) {
                memcpy(&x, rows[r] + sizeof x * i, sizeof x);
                exact += (double)x * queries[j * stride + i];
                size += fabs((double)x * queries[j * stride + i]);
            }
            check(fabs(out[j * DOT_ROWS + r] - exact) <= ((double)dims / 4 + 4) * 0x1p-24 * size, "dot_block", dims);
            check(out[j * DOT_ROWS + r] == alone[r], "a batch", dims);
        }
    }
}

static void check_codes(size_t dims, size_t shift, size_t n_rows)
{
    const char *rows[DOT_ROWS + ROWS_AHEAD];
    int32_t out[DOT_ROWS];
    for (size_t r = 0; r < n_rows + ROWS_AHEAD; r++)
        rows[r] = code_bytes + shift + r * (dims + 8);
    code_block(rows, n_rows, words, dims, out);
    for (size_t r = 0; r < n_rows; r++) {
        int64_t exact = 0;
        for (size_t i = 0; i < dims; i++)
            exact += (signed char)rows[r][i] * words[i];
        check(out[r] == exact, "code_block", dims);
    }
}

static void check_search(size_t dims, size_t shift)
{
    int64_t row_offsets[ROWS], code_offsets[ROWS];
    heap_entry expected[K], found[K];
    codes_candidate *candidates;
    size_t count;
    for (size_t r = 0; r < ROWS; r++) {
        row_offsets[r] = (int64_t)(shift + r * dims * sizeof(float));
        code_offsets[r] = (int64_t)(shift + r * (dims + CODE_TAIL));
        codes_encode(bytes + row_offsets[r], dims, code_bytes + code_offsets[r]);
    }
    scan_rows rows = {.base = bytes, .offsets = row_offsets, .row_bytes = dims * sizeof(float), .n_rows = ROWS};
    scan_rows codes = {.base = code_bytes, .offsets = code_offsets, .row_bytes = dims + CODE_TAIL, .n_rows = ROWS};
    codes_query query = codes_prepare(queries, dims, words);
    check(scan_top_k(&rows, dims, queries, 1, K, 1, expected) == 0, "scan_top_k", dims);
    check(codes_search(&codes, dims, &query, K, 1, &candidates, &count) == 0, "codes_search", dims);
    codes_rescore(&rows, dims, queries, candidates, count, K, found);
    for (size_t i = 0; i < K; i++)
        check(found[i].id == expected[i].id && found[i].score == expected[i].score, "the search by codes", dims);
    free(candidates);
}

int main(void)
{
    const char *name;
    for (size_t set = 0; (name = simd_available(set)) != NULL; set++) {
        simd_select(name);
        for (size_t dims = 0; dims <= MOST_DIMS; dims += dims < 140 ? 1 : 23) {
            size_t shift = dims % 8;
            fill(dims, shift);
            for (size_t n_rows = 1; n_rows <= DOT_ROWS; n_rows += n_rows < 5 ? 1 : 9) {
                check_floats(dims, shift, n_rows, 1 + (dims + n_rows) % MOST_QUERIES);
                check_codes(dims, shift, n_rows);
            }
            check_search(dims, shift);
        }
        printf("%s: all right\n", name);
    }
    return 0;
}
