/* The best of many, kept in an array whose first entry is the worst of them. */

#ifndef VADEMECUM_HEAP_H
#define VADEMECUM_HEAP_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    double score;
    int64_t id;
} heap_entry;

/* Higher scores are better; of equal ones, lower ids. */
static inline int heap_worse(heap_entry a, heap_entry b)
{
    return a.score < b.score || (a.score == b.score && a.id > b.id);
}

/* Empty places score less than anything finite. */
static inline void heap_clear(heap_entry *heap, size_t size)
{
    for (size_t i = 0; i < size; i++)
        heap[i] = (heap_entry){-INFINITY, -1};
}

/* Put an entry that is better in place of the worst. */
static inline void heap_replace_worst(heap_entry *heap, size_t size, heap_entry entry)
{
    size_t hole = 0, child = 1;
    while (child < size) {
        if (child + 1 < size && heap_worse(heap[child + 1], heap[child]))
            child++;
        if (!heap_worse(heap[child], entry))
            break;
        heap[hole] = heap[child];
        hole = child;
        child = 2 * hole + 1;
    }
    heap[hole] = entry;
}

static inline void heap_offer(heap_entry *heap, size_t size, heap_entry entry)
{
    if (heap_worse(heap[0], entry))
        heap_replace_worst(heap, size, entry);
}

/* Heap to list, best first: the worst goes last, and so on. */
static inline void heap_sort(heap_entry *heap, size_t size)
{
    while (size-- > 1) {
        heap_entry last = heap[size];
        heap[size] = heap[0];
        heap_replace_worst(heap, size, last);
    }
}

#endif
