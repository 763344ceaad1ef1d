/* Where the BLOBs of one column lie: a read-only walk over a table b-tree of a SQLite database file in memory,
   and the way to single rows. */

#ifndef VADEMECUM_BTREE_H
#define VADEMECUM_BTREE_H

#include <stddef.h>
#include <stdint.h>

enum { BTREE_OK, BTREE_CORRUPT, BTREE_NO_MEMORY };

typedef struct {
    /* The file. Volatile: where the caller breaks his promise (see rowmap.pyx) another process writes into it while it
       is read, so each value is loaded once, checked, and the checked value used. */
    const volatile uint8_t *bytes;
    uint32_t page_size, usable;
    uint64_t page_count;

    /* Page numbers of the table's leaves, ascending, and how many rows those announce. */
    uint32_t *leaves;
    size_t n_leaves, n_rows;

    /* After BTREE_CORRUPT: on which page, what is wrong, and the value that is. */
    uint32_t page;
    const char *what;
    int64_t value;
} btree;

/* Fill in `tree` from the file's header and find the leaves of the table whose root page is `root`. To be released with
   btree_free, whatever is returned. */
int btree_find(btree *tree, const void *bytes, size_t length, uint32_t root);

/*
 * Read the rows that btree_find announced, in the order of their addresses. column counts from 0 as in CREATE TABLE.
 *
 * A row whose value is a BLOB of nbytes bytes on the leaf itself is added to rowids and offsets (from the start of the
 * file), *n_found in all. The rowid of any other goes to the end of rowids, the first of them last. Both arrays have
 * room for n_rows.
 */
int btree_read(btree *tree, uint64_t column, uint64_t nbytes, int64_t *rowids, int64_t *offsets, size_t *n_found);

/* What btree_seek says of a row that the table has not, and of one whose BLOB has to be read in another way. */
enum { BTREE_ABSENT = -1, BTREE_ELSEWHERE = -2 };

/*
 * offsets[i] = where the BLOB of the row rowids[i] begins, or one of the above. Nothing is to be released.
 *
 * Looks only at the pages on the way to each row, and checks no more of them than it needs.
 */
int btree_seek(btree *tree, const void *bytes, size_t length, uint32_t root, uint64_t column, uint64_t nbytes,
               const int64_t *rowids, size_t n_rows, int64_t *offsets);

void btree_free(btree *tree);

#endif
