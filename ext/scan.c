#include "scan.h"

#include "parallel.h"

#include <stdlib.h>

/* Queries that share one pass over the rows: packed, they should stay in the second-level cache. */
enum { QUERIES = 64 };

typedef struct {
    const scan_rows *rows;
    size_t begin, end, dims;
    const float *queries;
    size_t n_queries, k;
    heap_entry *heaps;
} top_k_job;

size_t scan_check(const scan_rows *rows, size_t length)
{
    /* An offset is in range if neither it nor what it leaves has the sign bit; no branch, so it is vectorised. */
    uint64_t room = (uint64_t)length - rows->row_bytes, outside = rows->row_bytes > length ? ~(uint64_t)0 : 0;
    for (size_t i = 0; i < rows->n_rows; i++)
        outside |= (uint64_t)rows->offsets[i] | (room - (uint64_t)rows->offsets[i]);
    if (!(outside >> 63))
        return rows->n_rows;
    size_t first = 0;
    while (first < rows->n_rows && rows->row_bytes <= length && (uint64_t)rows->offsets[first] <= room)
        first++;
    return first;
}

void scan_scores(const scan_rows *rows, size_t dims, const float *query, float *out)
{
    scan_walk walk = {.rows = rows, .end = rows->n_rows};
    float scores[DOT_ROWS];
    for (size_t count; (count = scan_block(&walk));) {
        dot_block(walk.addresses, count, query, 1, dims, scores);
        for (size_t i = 0; i < count; i++)
            out[walk.positions[i]] = scores[i];
    }
}

/* One pass over the job's rows for each group of queries. */
static void run_top_k(void *argument)
{
    const top_k_job *job = argument;
    size_t stride = (job->dims + DOT_PAD - 1) / DOT_PAD * DOT_PAD, k = job->k;
    float scores[QUERIES * DOT_ROWS];
    heap_clear(job->heaps, job->n_queries * k);
    for (size_t first = 0; first < job->n_queries; first += QUERIES) {
        size_t n_queries = job->n_queries - first < QUERIES ? job->n_queries - first : QUERIES;
        scan_walk walk = {.rows = job->rows, .next = job->begin, .end = job->end};
        for (size_t count; (count = scan_block(&walk));) {
            dot_block(walk.addresses, count, job->queries + first * stride, n_queries, job->dims, scores);
            for (size_t j = 0; j < n_queries; j++)
                scan_keep_best(job->rows, scores + j * DOT_ROWS, walk.positions, count, job->heaps + (first + j) * k, k);
        }
    }
}

int scan_top_k(const scan_rows *rows, size_t dims, const float *queries, size_t n_queries, size_t k, size_t threads,
               heap_entry *best)
{
    top_k_job jobs[MOST_THREADS];
    size_t n_jobs = threads_for(rows->n_rows, rows->row_bytes, threads);
    heap_entry *others = n_jobs > 1 ? malloc((n_jobs - 1) * n_queries * k * sizeof *others) : NULL;
    if (n_jobs > 1 && others == NULL)
        return -1;
    for (size_t t = 0; t < n_jobs; t++)
        jobs[t] = (top_k_job){
            rows, rows->n_rows * t / n_jobs, rows->n_rows * (t + 1) / n_jobs, dims, queries, n_queries, k,
            t == 0 ? best : others + (t - 1) * n_queries * k,
        };
    run_jobs(run_top_k, jobs, sizeof *jobs, n_jobs);
    for (size_t i = 0; i < (n_jobs - 1) * n_queries * k; i++)
        if (others[i].score > -INFINITY)
            heap_offer(best + i / k % n_queries * k, k, others[i]);
    for (size_t j = 0; j < n_queries; j++)
        heap_sort(best + j * k, k);
    free(others);
    return 0;
}
