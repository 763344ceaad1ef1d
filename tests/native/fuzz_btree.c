/*
 * The walker over damaged files, to be built with the sanitizers:
 *
 *   make fuzz-asan
 *
 * Each file is walked as it is, searched for single rows, and walked once more with the bytes of the file before it
 * slid under the walk between its two halves, as another process might do.
 */

#include "btree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KINDS = 3, UNSET = 0xa5, ROWS = 420 };

static const unsigned char unset[8] = {UNSET, UNSET, UNSET, UNSET, UNSET, UNSET, UNSET, UNSET};

static void *claim(size_t size)
{
    void *memory = malloc(size ? size : 1);
    if (memory == NULL)
        abort();
    return memory;
}

static int walk(const uint32_t *request, unsigned char *data, size_t length, const unsigned char *later, size_t n_later)
{
    btree tree;
    int status = btree_find(&tree, data, length, request[0]);
    if (status == BTREE_OK) {
        size_t room = tree.n_rows * sizeof(int64_t), found;
        int64_t *rowids = claim(room), *offsets = claim(room);
        memset(rowids, UNSET, room);
        memcpy(data, later, n_later < length ? n_later : length);
        status = btree_read(&tree, request[1], request[2], rowids, offsets, &found);
        for (size_t i = 0; status == BTREE_OK && i < found; i++)
            if (offsets[i] < 0 || (uint64_t)offsets[i] + request[2] > length || (i && offsets[i] <= offsets[i - 1]))
                abort();
        for (size_t i = 0; status == BTREE_OK && i < tree.n_rows; i++)
            if (memcmp(&rowids[i], unset, sizeof unset) == 0)
                abort();
        free(rowids);
        free(offsets);
    }
    btree_free(&tree);
    return status;
}

/* Rows sought alone: whatever is found lies inside the file. */
static int seek(const uint32_t *request, const unsigned char *data, size_t length)
{
    btree tree;
    int64_t rowids[ROWS], offsets[ROWS];
    for (int i = 0; i < ROWS; i++)
        rowids[i] = i < ROWS - 2 ? i : i % 2 ? INT64_MIN : INT64_MAX;
    int status = btree_seek(&tree, data, length, request[0], request[1], request[2], rowids, ROWS, offsets);
    for (int i = 0; status == BTREE_OK && i < ROWS; i++)
        if (offsets[i] >= 0 ? (uint64_t)offsets[i] + request[2] > length
                            : offsets[i] != BTREE_ABSENT && offsets[i] != BTREE_ELSEWHERE)
            abort();
    return status;
}

int main(void)
{
    unsigned long sought[KINDS] = {0}, whole[KINDS] = {0}, changed[KINDS] = {0};
    uint32_t request[4];
    unsigned char *before = claim(0);
    size_t n_before = 0;
    while (fread(request, sizeof request, 1, stdin) == 1) {
        size_t length = request[3];
        /* Exactly as long as the file, so that a read beyond its end is seen. */
        unsigned char *data = claim(length), *scratch = claim(length);
        if (fread(data, 1, length, stdin) != length)
            abort();
        memcpy(scratch, data, length);
        whole[walk(request, scratch, length, data, 0)]++;
        sought[seek(request, data, length)]++;
        memcpy(scratch, data, length);
        changed[walk(request, scratch, length, before, n_before)]++;
        free(scratch);
        free(before);
        before = data;
        n_before = length;
    }
    free(before);
    printf("as they are: %lu sound, %lu damaged; row by row: %lu sound, %lu damaged; "
           "changed during the walk: %lu sound, %lu damaged\n",
           whole[BTREE_OK], whole[BTREE_CORRUPT], sought[BTREE_OK], sought[BTREE_CORRUPT], changed[BTREE_OK],
           changed[BTREE_CORRUPT]);
    return 0;
}
