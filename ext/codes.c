#include "codes.h"

#include "parallel.h"

#include <stdlib.h>

/* Rows scored before looking whether any more are needed. */
enum { RESCORED = 8 };

typedef struct {
    const scan_rows *codes;
    size_t begin, end, dims;
    const codes_query *query;
    size_t k;
    heap_entry *lowers; /* the k highest lower ends so far */
    codes_candidate *found;
    size_t count, room;
    int out_of_memory;
} search_job;

void codes_encode(const char *restrict row, size_t dims, char *restrict code)
{
    /* Added and taken away, it rounds a float below 2^22 to an integer, half to even, in any instruction set. */
    const float to_integer = 12582912.0f;
    const int32_t infinity = 0x7f800000;
    int32_t most = 0, bits;
    float scale = 0.0f, norm = INFINITY, x;
    double sum = 0.0;
    memset(code, 0, dims);
    for (size_t i = 0; i < dims; i++) {
        memcpy(&bits, row + sizeof bits * i, sizeof bits);
        bits &= 0x7fffffff; /* magnitudes are in the order of their bits; what is not finite comes last */
        most = bits > most ? bits : most;
    }
    if (most < infinity) {
        memcpy(&scale, &most, sizeof scale);
        scale /= 127.0f;
        for (size_t i = 0; i < dims && scale > 0.0f; i++) {
            memcpy(&x, row + sizeof x * i, sizeof x);
            x = x / scale + to_integer - to_integer;
            code[i] = (char)(int)(x > 127.0f ? 127.0f : x < -127.0f ? -127.0f : x); /* the scale may be subnormal */
        }
        /* Product and square are exact in double: fused instructions change nothing. */
        for (size_t i = 0; i < dims; i++) {
            memcpy(&x, row + sizeof x * i, sizeof x);
            x = (float)((double)x - (double)scale * (signed char)code[i]);
            sum += (double)x * x;
        }
        /* Rounding to float lost 2^-24 of each residual; what was not 0 did not become 0. */
        norm = sum > 0.0 ? nextafterf((float)(sqrt(sum) * (1.0 + 0x1p-22)), INFINITY) : 0.0f;
    }
    memcpy(code + dims, &scale, sizeof scale);
    memcpy(code + dims + sizeof scale, &norm, sizeof norm);
}

codes_query codes_prepare(const float *query, size_t dims, int16_t *values)
{
    double most = 0.0, sum = 0.0, squares = 0.0, residual = 0.0;
    memset(values, 0, (dims + CODE_PAD - 1) / CODE_PAD * CODE_PAD * sizeof *values);
    for (size_t i = 0; i < dims; i++) {
        most = fmax(most, fabs(query[i]));
        sum += fabs(query[i]);
        squares += (double)query[i] * query[i];
    }
    if (!(sum < INFINITY) || dims >= (size_t)1 << 23)
        return (codes_query){values, 0.0, INFINITY, INFINITY, INFINITY, INFINITY};
    /* |u|_1 <= |q|_1 / t + d / 2 < 2^24, as code_block demands. */
    double scale = fmax(most / 32767.0, sum / (double)((1 << 24) - 1 - (int)dims));
    for (size_t i = 0; i < dims && scale > 0.0; i++) {
        values[i] = (int16_t)rint(query[i] / scale);
        residual += fabs(query[i] - scale * values[i]);
    }
    double roundings = (double)dims / 4 + 8, g = roundings / (0x1p24 - roundings), tiny = (double)dims * 0x1p-116;
    return (codes_query){
        .values = values,
        .scale = scale,
        .per_scale = 128 * (residual + g * sum + tiny),
        .per_norm = (1 + g) * sqrt(squares) + tiny,
        .least = tiny * (1 + sum),
        .sum = 128 * sum,
    };
}

void codes_bounds(const scan_rows *codes, size_t dims, const codes_query *query, codes_interval *out)
{
    scan_walk walk = {.rows = codes, .end = codes->n_rows};
    int32_t products[DOT_ROWS];
    for (size_t count; (count = scan_block(&walk));) {
        code_block(walk.addresses, count, query->values, dims, products);
        for (size_t i = 0; i < count; i++)
            out[walk.positions[i]] = codes_bound(query, walk.addresses[i], dims, products[i]);
    }
}

/* Drop what cannot reach the bar any more. */
static void drop_below(search_job *job, double bar)
{
    size_t kept = 0;
    for (size_t i = 0; i < job->count; i++)
        if (job->found[i].upper >= bar)
            job->found[kept++] = job->found[i];
    job->count = kept;
}

/* Room for a block more: what is out of reach goes first, and then at least half is free. */
static int make_room(search_job *job)
{
    if (job->room - job->count >= DOT_ROWS)
        return 0;
    drop_below(job, job->lowers[0].score);
    size_t room = 2 * job->count + 8 * DOT_ROWS;
    if (job->room >= room)
        return 0;
    codes_candidate *found = realloc(job->found, room * sizeof *found);
    if (found == NULL)
        return -1;
    job->found = found;
    job->room = room;
    return 0;
}

static void run_search(void *argument)
{
    search_job *job = argument;
    scan_walk walk = {.rows = job->codes, .next = job->begin, .end = job->end};
    int32_t products[DOT_ROWS];
    heap_clear(job->lowers, job->k);
    for (size_t count; (count = scan_block(&walk));) {
        code_block(walk.addresses, count, job->query->values, job->dims, products);
        if (make_room(job) != 0) {
            job->out_of_memory = 1;
            return;
        }
        for (size_t i = 0; i < count; i++) {
            codes_interval interval = codes_bound(job->query, walk.addresses[i], job->dims, products[i]);
            if (interval.upper < job->lowers[0].score)
                continue;
            job->found[job->count++] = (codes_candidate){interval.upper, (int64_t)walk.positions[i]};
            heap_offer(job->lowers, job->k, (heap_entry){interval.lower, (int64_t)walk.positions[i]});
        }
    }
}

static int by_upper_end(const void *left, const void *right)
{
    const codes_candidate *a = left, *b = right;
    if (a->upper != b->upper)
        return a->upper > b->upper ? -1 : 1;
    return (a->position > b->position) - (a->position < b->position);
}

/* What all jobs found and what reaches the bar of all together, in one list. */
static int merge(search_job *jobs, size_t n_jobs, codes_candidate **candidates, size_t *n_candidates)
{
    size_t total = 0;
    int failed = 0;
    for (size_t i = jobs->k; i < n_jobs * jobs->k; i++)
        heap_offer(jobs->lowers, jobs->k, jobs->lowers[i]);
    for (size_t t = 0; t < n_jobs; t++) {
        drop_below(&jobs[t], jobs->lowers[0].score);
        total += jobs[t].count;
        failed |= jobs[t].out_of_memory;
    }
    *n_candidates = 0;
    *candidates = failed ? NULL : malloc((total + 1) * sizeof **candidates);
    if (*candidates == NULL)
        return -1;
    for (size_t t = 0; t < n_jobs; t++)
        for (size_t i = 0; i < jobs[t].count; i++)
            (*candidates)[(*n_candidates)++] = jobs[t].found[i];
    qsort(*candidates, total, sizeof **candidates, by_upper_end);
    return 0;
}

int codes_search(const scan_rows *codes, size_t dims, const codes_query *query, size_t k, size_t threads,
                 codes_candidate **candidates, size_t *n_candidates)
{
    search_job jobs[MOST_THREADS];
    size_t n_jobs = threads_for(codes->n_rows, codes->row_bytes, threads);
    heap_entry *lowers = malloc(n_jobs * k * sizeof *lowers);
    if (lowers == NULL)
        return -1;
    for (size_t t = 0; t < n_jobs; t++)
        jobs[t] = (search_job){
            .codes = codes,
            .begin = codes->n_rows * t / n_jobs,
            .end = codes->n_rows * (t + 1) / n_jobs,
            .dims = dims,
            .query = query,
            .k = k,
            .lowers = lowers + t * k,
        };
    run_jobs(run_search, jobs, sizeof *jobs, n_jobs);
    int status = merge(jobs, n_jobs, candidates, n_candidates);
    for (size_t t = 0; t < n_jobs; t++)
        free(jobs[t].found);
    free(lowers);
    return status;
}

size_t codes_rescore(const scan_rows *rows, size_t dims, const float *query, const codes_candidate *candidates,
                     size_t n_candidates, size_t k, heap_entry *best)
{
    size_t done = 0;
    heap_clear(best, k);
    while (done < n_candidates && candidates[done].upper >= best[0].score) {
        const char *addresses[RESCORED];
        size_t positions[RESCORED], count = 0;
        float scores[RESCORED];
        for (; count < RESCORED && done < n_candidates; count++, done++) {
            positions[count] = (size_t)candidates[done].position;
            addresses[count] = rows->base + rows->offsets[positions[count]];
        }
        dot_block(addresses, count, query, 1, dims, scores);
        scan_keep_best(rows, scores, positions, count, best, k);
    }
    heap_sort(best, k);
    return done;
}
