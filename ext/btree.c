/* See btree.h. The format is that of sqlite.org/fileformat2.html; section numbers are of that page. */

#include "btree.h"

#include <stdlib.h>
#include <string.h>

enum {
    HEADER = 100, /* bytes before the b-tree header of page 1 */
    INTERIOR = 5,
    LEAF = 13,
    MAX_LEVELS = 20,                   /* as in SQLite */
    MAX_CELLS = (65536 - 8) / (2 + 4), /* a cell takes 4 bytes at least, and its pointer 2 */
};

#if defined(__GNUC__)
#define PREFETCH(address) __builtin_prefetch((const void *)(address))
#else
#define PREFETCH(address) ((void)0)
#endif

typedef const volatile uint8_t *place;

/* One page that has been looked at. Cell pointers are at start + pointers, and cells from start + cells on. */
typedef struct {
    uint32_t number;
    place start;
    uint32_t count, pointers, cells;
} page;

typedef struct {
    uint32_t *pages;
    size_t count, capacity;
} list;

static int fault(btree *tree, uint32_t number, const char *what, int64_t value)
{
    tree->page = number;
    tree->what = what;
    tree->value = value;
    return BTREE_CORRUPT;
}

static uint32_t be16(place p)
{
    uint32_t high = p[0], low = p[1];
    return high << 8 | low;
}

static uint32_t be32(place p)
{
    return be16(p) << 16 | be16(p + 2);
}

/* Section 1.3. */
static int read_header(btree *tree, size_t length)
{
    static const uint8_t magic[16] = "SQLite format 3";
    place head = tree->bytes;
    if (length < HEADER)
        return fault(tree, 1, "the file is too short to be a database", (int64_t)length);
    for (int i = 0; i < 16; i++)
        if (head[i] != magic[i])
            return fault(tree, 1, "the file does not begin like a database, at byte", i);
    uint32_t size = be16(head + 16), reserved = head[20], version = head[19], fractions = be32(head + 20) & 0xffffff;
    tree->page_size = size == 1 ? 65536 : size;
    if (tree->page_size < 512 || (tree->page_size & (tree->page_size - 1)))
        return fault(tree, 1, "impossible page size", size);
    if (tree->page_size - reserved < 480)
        return fault(tree, 1, "too many reserved bytes", reserved);
    if (version > 2)
        return fault(tree, 1, "unknown version of the file format", version);
    if (fractions != 0x402020)
        return fault(tree, 1, "unknown payload fractions", fractions);
    tree->usable = tree->page_size - reserved;
    tree->page_count = length / tree->page_size;
    return BTREE_OK;
}

static place page_at(const btree *tree, uint32_t number)
{
    return tree->bytes + (size_t)(number - 1) * tree->page_size;
}

static uint32_t header_at(uint32_t number)
{
    return number == 1 ? HEADER : 0;
}

/* Section 1.6. */
static int open_page(btree *tree, uint32_t number, uint32_t kind, page *out)
{
    uint32_t at = header_at(number);
    out->number = number;
    out->start = page_at(tree, number);
    out->pointers = at + (kind == INTERIOR ? 12 : 8);
    uint32_t found = out->start[at];
    if (found != kind)
        return fault(tree, number, "wrong kind of page for a table at this depth", found);
    out->count = be16(out->start + at + 3);
    out->cells = out->pointers + 2 * out->count;
    if (out->cells + 4 * out->count > tree->usable)
        return fault(tree, number, "more cells than fit", out->count);
    return BTREE_OK;
}

/* Offset of cell i, which takes at least `least` bytes. */
static int find_cell(btree *tree, const page *in, uint32_t i, uint32_t least, uint32_t *at)
{
    *at = be16(in->start + in->pointers + 2 * i);
    if (*at < in->cells || *at + least > tree->usable)
        return fault(tree, in->number, "a cell lies outside its page, at", *at);
    return BTREE_OK;
}

static int check_number(btree *tree, uint32_t number)
{
    if (number < 1 || number > tree->page_count)
        return fault(tree, number, "linked, but the file ends with page", (int64_t)tree->page_count);
    return BTREE_OK;
}

/* Each page is taken once, so that pages that link in a circle end in a fault. */
static int add_page(btree *tree, list *to, uint8_t *taken, uint32_t number, uint32_t from)
{
    int status = check_number(tree, number);
    if (status != BTREE_OK)
        return status;
    uint8_t bit = (uint8_t)(1u << number % 8);
    if (taken[number / 8] & bit)
        return fault(tree, number, "linked a second time, from page", from);
    taken[number / 8] |= bit;
    if (to->count == to->capacity) {
        size_t capacity = to->capacity ? 2 * to->capacity : 64;
        uint32_t *pages = realloc(to->pages, capacity * sizeof *pages);
        if (pages == NULL)
            return BTREE_NO_MEMORY;
        to->pages = pages;
        to->capacity = capacity;
    }
    to->pages[to->count++] = number;
    return BTREE_OK;
}

static int add_children(btree *tree, list *to, uint8_t *taken, uint32_t number)
{
    page in;
    uint32_t at;
    int status = open_page(tree, number, INTERIOR, &in);
    for (uint32_t i = 0; status == BTREE_OK && i < in.count; i++) {
        status = find_cell(tree, &in, i, 5, &at);
        if (status == BTREE_OK)
            status = add_page(tree, to, taken, be32(in.start + at), number);
    }
    if (status == BTREE_OK)
        status = add_page(tree, to, taken, be32(in.start + in.pointers - 4), number);
    return status;
}

/* Level by level, so that no leaf is touched before its turn: all leaves of a b-tree are on the same level. */
static int descend(btree *tree, list *level, list *below, uint8_t *taken)
{
    for (int depth = 1; page_at(tree, level->pages[0])[header_at(level->pages[0])] != LEAF; depth++) {
        if (depth == MAX_LEVELS)
            return fault(tree, level->pages[0], "the table is deeper than any, this page on level", depth);
        below->count = 0;
        for (size_t i = 0; i < level->count; i++) {
            int status = add_children(tree, below, taken, level->pages[i]);
            if (status != BTREE_OK)
                return status;
        }
        list swap = *level;
        *level = *below;
        *below = swap;
    }
    return BTREE_OK;
}

static int ascending32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int ascending16(const void *a, const void *b)
{
    return *(const uint16_t *)a - *(const uint16_t *)b;
}

static int open_file(btree *tree, const void *bytes, size_t length)
{
    memset(tree, 0, sizeof *tree);
    tree->bytes = bytes;
    return read_header(tree, length);
}

int btree_find(btree *tree, const void *bytes, size_t length, uint32_t root)
{
    int status = open_file(tree, bytes, length);
    if (status != BTREE_OK)
        return status;
    list level = {0}, below = {0};
    uint8_t *taken = calloc(tree->page_count / 8 + 1, 1);
    status = taken == NULL ? BTREE_NO_MEMORY : add_page(tree, &level, taken, root, 0);
    if (status == BTREE_OK)
        status = descend(tree, &level, &below, taken);
    free(taken);
    free(below.pages);
    tree->leaves = level.pages;
    tree->n_leaves = level.count;
    if (status == BTREE_OK)
        qsort(tree->leaves, tree->n_leaves, sizeof *tree->leaves, ascending32);
    for (size_t i = 0; status == BTREE_OK && i < tree->n_leaves; i++) {
        page leaf;
        status = open_page(tree, tree->leaves[i], LEAF, &leaf);
        if (status == BTREE_OK)
            tree->n_rows += leaf.count;
    }
    return status;
}

void btree_free(btree *tree)
{
    free(tree->leaves);
    tree->leaves = NULL;
}

/* Section 1.6: the varint at *at, which moves behind it, or becomes NULL if the varint would pass `end`. */
static uint64_t varint(place *at, place end)
{
    uint64_t value = 0;
    for (int i = 0; i < 9; i++) {
        if (*at == NULL || *at == end) {
            *at = NULL;
            return 0;
        }
        uint8_t byte = *(*at)++;
        if (i == 8)
            return value << 8 | byte;
        value = value << 7 | (byte & 0x7f);
        if (byte < 0x80)
            break;
    }
    return value;
}

/* What a row turned out to be: the address of its BLOB, or NULL for one that has to be read in another way. */
typedef struct {
    int64_t rowid;
    place blob;
} row;

typedef struct {
    int64_t *rowids, *offsets;
    size_t found, others;
} rows;

/* Section 2.1: the record from `at` to `end`. */
static int read_record(btree *tree, uint32_t number, place at, place end, uint64_t column, uint64_t nbytes, row *out)
{
    static const uint8_t sizes[10] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0};
    place body = at;
    uint64_t header = varint(&at, end);
    if (at == NULL || header > (uint64_t)(end - body) || header < (uint64_t)(at - body))
        return fault(tree, number, "the header of a record does not fit, its size is", (int64_t)header);
    place header_end = body += header;
    for (uint64_t i = 0; at < header_end && i <= column; i++) {
        uint64_t type = varint(&at, header_end);
        if (at == NULL)
            return fault(tree, number, "the header of a record ends within column", (int64_t)i);
        if (type == 10 || type == 11)
            return fault(tree, number, "a column has the reserved type", (int64_t)type);
        uint64_t size = type < 10 ? sizes[type] : (type - 12) / 2;
        if (size > (uint64_t)(end - body))
            return fault(tree, number, "a column leaves its record, its type is", (int64_t)type);
        if (i == column && type >= 12 && type % 2 == 0 && size == nbytes)
            out->blob = body;
        body += size;
    }
    return BTREE_OK;
}

/* Section 1.6: the cell from `at` to `end`, where the next begins. */
static int read_cell(btree *tree, uint32_t number, place at, place end, uint64_t column, uint64_t nbytes, row *out)
{
    uint32_t most = tree->usable - 35, least = (tree->usable - 12) * 32 / 255 - 23;
    uint64_t payload = varint(&at, end);
    out->rowid = (int64_t)varint(&at, end);
    out->blob = NULL;
    if (payload > INT32_MAX)
        return fault(tree, number, "impossible size of a row", (int64_t)payload);
    uint64_t kept = payload, link = 0;
    if (payload > most) {
        kept = least + (payload - least) % (tree->usable - 4);
        kept = kept > most ? least : kept;
        link = 4;
    }
    if (at == NULL || kept + link > (uint64_t)(end - at))
        return fault(tree, number, "a row runs into what follows it, its size is", (int64_t)payload);
    return link ? BTREE_OK : read_record(tree, number, at, at + kept, column, nbytes, out);
}

/* Offsets of a leaf's cells, ascending. */
static int sort_cells(btree *tree, const page *leaf, uint16_t *offsets)
{
    /* SQLite fills a page from its end, so backwards is mostly the order wanted. */
    int sorted = 1;
    for (uint32_t i = leaf->count, n = 0; i-- > 0; n++) {
        uint32_t at;
        int status = find_cell(tree, leaf, i, 4, &at);
        if (status != BTREE_OK)
            return status;
        PREFETCH(leaf->start + at);
        offsets[n] = (uint16_t)at;
        sorted &= n == 0 || offsets[n - 1] < at;
    }
    if (!sorted)
        qsort(offsets, leaf->count, sizeof *offsets, ascending16);
    return BTREE_OK;
}

static int read_leaf(btree *tree, uint32_t number, uint64_t column, uint64_t nbytes, rows *out)
{
    page leaf;
    uint16_t cells[MAX_CELLS];
    int status = open_page(tree, number, LEAF, &leaf);
    if (status == BTREE_OK && leaf.count > tree->n_rows - out->found - out->others)
        status = fault(tree, number, "changed while it was read, cells now", leaf.count);
    if (status == BTREE_OK)
        status = sort_cells(tree, &leaf, cells);
    for (uint32_t i = 0; status == BTREE_OK && i < leaf.count; i++) {
        row next;
        uint32_t end = i + 1 < leaf.count ? cells[i + 1] : tree->usable;
        status = read_cell(tree, number, leaf.start + cells[i], leaf.start + end, column, nbytes, &next);
        if (status == BTREE_OK && next.blob != NULL) {
            out->offsets[out->found] = next.blob - tree->bytes;
            out->rowids[out->found++] = next.rowid;
        } else if (status == BTREE_OK) {
            out->rowids[tree->n_rows - ++out->others] = next.rowid;
        }
    }
    return status;
}

int btree_read(btree *tree, uint64_t column, uint64_t nbytes, int64_t *rowids, int64_t *offsets, size_t *n_found)
{
    rows out = {rowids, offsets, 0, 0};
    int status = BTREE_OK;
    for (size_t i = 0; status == BTREE_OK && i < tree->n_leaves; i++)
        status = read_leaf(tree, tree->leaves[i], column, nbytes, &out);
    if (status == BTREE_OK && out.found + out.others < tree->n_rows)
        status = fault(tree, tree->leaves[0], "it or another leaf changed while it was read, rows now",
                       (int64_t)(out.found + out.others));
    *n_found = out.found;
    return status;
}

/* The key of cell i: before it stand the number of a page, or how long the row is. */
static int read_key(btree *tree, const page *in, uint32_t kind, uint32_t i, int64_t *key)
{
    uint32_t at;
    int status = find_cell(tree, in, i, kind == INTERIOR ? 5 : 4, &at);
    if (status != BTREE_OK)
        return status;
    place end = in->start + tree->usable, next = in->start + at + 4;
    if (kind == LEAF) {
        next = in->start + at;
        varint(&next, end);
    }
    *key = (int64_t)varint(&next, end);
    return next == NULL ? fault(tree, in->number, "a cell lies outside its page, at", at) : BTREE_OK;
}

/*
 * The first cell whose key is not below `rowid`, and that key; in->count if there is none. Keys ascend.
 *
 * On leaves ids mostly follow each other, and a look at a cell is a look at another place in memory: the first guess is
 * that the row stands as far behind the first one as its id does.
 */
static int first_not_below(btree *tree, const page *in, uint32_t kind, int64_t rowid, uint32_t *cell, int64_t *key)
{
    uint32_t low = 0, high = in->count, middle = kind == LEAF ? 0 : high / 2;
    for (int step = 0; low < high; step++) {
        int64_t found;
        int status = read_key(tree, in, kind, middle, &found);
        if (status != BTREE_OK)
            return status;
        if (found < rowid) {
            low = middle + 1;
        } else {
            high = middle;
            *key = found;
        }
        uint64_t distance = (uint64_t)rowid - (uint64_t)found;
        if (found == rowid)
            low = high;
        else if (kind == LEAF && step == 0 && distance < high)
            middle = (uint32_t)distance;
        else
            middle = low + (high - low) / 2;
    }
    *cell = low;
    return BTREE_OK;
}

/* The leaf on which `rowid` would be. */
static int find_leaf(btree *tree, uint32_t number, int64_t rowid, page *leaf)
{
    int status = check_number(tree, number);
    for (int depth = 1; status == BTREE_OK; depth++) {
        if (page_at(tree, number)[header_at(number)] == LEAF)
            return open_page(tree, number, LEAF, leaf);
        if (depth == MAX_LEVELS)
            return fault(tree, number, "the table is deeper than any, this page on level", depth);
        page in;
        uint32_t cell = 0, at;
        int64_t key = 0;
        status = open_page(tree, number, INTERIOR, &in);
        if (status == BTREE_OK)
            status = first_not_below(tree, &in, INTERIOR, rowid, &cell, &key);
        if (status == BTREE_OK && cell < in.count)
            status = find_cell(tree, &in, cell, 5, &at);
        if (status == BTREE_OK) {
            number = be32(cell < in.count ? in.start + at : in.start + in.pointers - 4);
            status = check_number(tree, number);
        }
    }
    return status;
}

static int seek_row(btree *tree, uint32_t root, uint64_t column, uint64_t nbytes, int64_t rowid, int64_t *offset)
{
    page leaf;
    uint32_t cell = 0, at;
    int64_t key = 0;
    int status = find_leaf(tree, root, rowid, &leaf);
    if (status == BTREE_OK)
        status = first_not_below(tree, &leaf, LEAF, rowid, &cell, &key);
    *offset = BTREE_ABSENT;
    if (status != BTREE_OK || cell == leaf.count || key != rowid)
        return status;
    row found;
    status = find_cell(tree, &leaf, cell, 4, &at);
    if (status == BTREE_OK)
        status = read_cell(tree, leaf.number, leaf.start + at, leaf.start + tree->usable, column, nbytes, &found);
    if (status == BTREE_OK)
        *offset = found.blob == NULL ? BTREE_ELSEWHERE : found.blob - tree->bytes;
    return status;
}

int btree_seek(btree *tree, const void *bytes, size_t length, uint32_t root, uint64_t column, uint64_t nbytes,
               const int64_t *rowids, size_t n_rows, int64_t *offsets)
{
    int status = open_file(tree, bytes, length);
    for (size_t i = 0; status == BTREE_OK && i < n_rows; i++)
        status = seek_row(tree, root, column, nbytes, rowids[i], &offsets[i]);
    return status;
}
