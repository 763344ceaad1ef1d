/* Jobs side by side, on POSIX threads; one after the other where there are none. */

#ifndef VADEMECUM_PARALLEL_H
#define VADEMECUM_PARALLEL_H

#include <stddef.h>

#define MOST_THREADS 64

/* Less than this is read before a thread has paid for its start. */
#define BYTES_PER_THREAD ((size_t)32 << 20)

typedef void job_fn(void *job);

/* How many of the threads that were asked for are worth their start. */
static inline size_t threads_for(size_t n_rows, size_t row_bytes, size_t threads)
{
    size_t most = n_rows / (BYTES_PER_THREAD / (row_bytes + 1) + 1);
    threads = threads < MOST_THREADS ? threads : MOST_THREADS;
    return most < threads ? (most ? most : 1) : threads;
}

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>

typedef struct {
    job_fn *run;
    void *job;
} thread_start;

static inline void *thread_main(void *start)
{
    ((thread_start *)start)->run(((thread_start *)start)->job);
    return NULL;
}

/* Run the n <= MOST_THREADS jobs that begin `size` bytes apart, the first one on this thread. */
static inline void run_jobs(job_fn *run, void *jobs, size_t size, size_t n)
{
    pthread_t threads[MOST_THREADS];
    thread_start starts[MOST_THREADS];
    size_t started = 1;
    for (; started < n; started++) {
        starts[started] = (thread_start){run, (char *)jobs + started * size};
        if (pthread_create(&threads[started], NULL, thread_main, &starts[started]) != 0)
            break;
    }
    run(jobs);
    for (size_t i = started; i < n; i++)
        run((char *)jobs + i * size); /* the system had no thread for it */
    for (size_t i = 1; i < started; i++)
        pthread_join(threads[i], NULL);
}

#else

static inline void run_jobs(job_fn *run, void *jobs, size_t size, size_t n)
{
    for (size_t i = 0; i < n; i++)
        run((char *)jobs + i * size);
}

#endif

#endif
