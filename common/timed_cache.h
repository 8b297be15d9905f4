// A decode problem in device memory as the programs time it: one Q, O and LSE, and several caches
// of one shape that runs take in turn, so that none is still in the L2 when its turn comes again;
// and after the last run some heads of its output compared with the oracle.
//
// Errors end the program, as lesson_require does.
#ifndef COMMON_TIMED_CACHE_H
#define COMMON_TIMED_CACHE_H

#include "common/lesson.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- whatever the caches are made of ------------------------------------------------------------

// What all runs share.
typedef struct TimedProblem {
    const Program *program;
    const Options *options; // seed, repeats
    GpuTarget target;
    AttnShape shape; // kv_lens, if any, in host memory
    DType dtype;
    void *q, *o;
    float *lse;
    int32_t *kv_lens; // in device memory, or NULL
} TimedProblem;

typedef struct TimedPoint {
    TimeStats seconds;
    double rate; // bytes/s of K and V in use, by the median
    bool passed; // the heads of the last run's output that were compared
} TimedPoint;

// Q is random. Freed by timed_problem_free.
void timed_problem_make(TimedProblem *problem, const Program *program, const Options *options,
                        GpuTarget target, const AttnShape *shape, DType dtype);
void timed_problem_free(TimedProblem *problem);

// gpu_alloc on the problem's target.
void *timed_alloc(const TimedProblem *problem, const char *name, size_t count, size_t element);

// Fills device memory with random numbers in the problem's storage type, a block of them over and
// over. `seed` is added to that of the options.
void timed_fill(const TimedProblem *problem, void *memory, size_t bytes, uint64_t seed);

// Rows `first` to `first + rows - 1` of a tensor in device memory, as [1][1][rows][dim]. Freed by
// tensor_free.
Tensor timed_rows(const TimedProblem *problem, const void *memory, int64_t first, int64_t rows,
                  int64_t dim, DType dtype);

// The keys (which = 0) or values (1) in use of a batch entry's KV head, as [1][1][keys][dim], from
// the cache that the last run read.
typedef Tensor TimedKeys(void *context, int64_t entry, int64_t kv_head, int which);

// Fills O and LSE with NaN, times options->repeats runs of `run`, and compares heads of the last
// output with the oracle. `context` goes to both functions.
TimedPoint timed_measure(const TimedProblem *problem, GpuTimedRun *run, TimedKeys *keys,
                         void *context);

// How many caches of cache_bytes bytes exceed twice the target's L2 together; at least two.
int timed_sets(const TimedProblem *problem, double cache_bytes);

// ---- contiguous caches --------------------------------------------------------------------------

// A kernel whose K and V are [batch][heads_kv][len_kv][dim].
typedef AttnStatus TimedEntry(const AttnShape *shape, DType dtype, const void *q, const void *k,
                              const void *v, void *o, float *lse, const int32_t *kv_lens,
                              int64_t splits, void *workspace, GpuStream stream);

typedef struct TimedCache {
    TimedProblem problem;
    int sets;
    size_t tensor_bytes; // from K to V, and from V to the next set's K
    unsigned char *kv;   // [sets][2][tensor_bytes]
    // of the run under way
    TimedEntry *entry;
    int64_t splits;
    void *workspace;
    int last; // the set that was read last
} TimedCache;

// Freed by timed_cache_free.
void timed_cache_make(TimedCache *cache, const Program *program, const Options *options,
                      GpuTarget target, const AttnShape *shape, DType dtype);
void timed_cache_free(TimedCache *cache);

// Times a kernel. The workspace is ready for a launch.
TimedPoint timed_cache_run(TimedCache *cache, TimedEntry *entry, int64_t splits, void *workspace);

#ifdef __cplusplus
}
#endif

#endif
