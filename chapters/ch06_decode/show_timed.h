// A decode problem in device memory for ./ch06's timing: several caches of one shape, which runs
// take in turn, so that none is still in the L2 when its turn comes again.
#ifndef CH06_SHOW_TIMED_H
#define CH06_SHOW_TIMED_H

#include "chapters/ch06_decode/show.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TimedCache {
    GpuTarget target;
    AttnShape shape; // kv_lens, if any, in host memory
    DType dtype;
    int sets;            // enough to exceed twice the L2, at least two
    size_t tensor_bytes; // from K to V, and from V to the next set's K
    unsigned char *kv;   // [sets][2][tensor_bytes]
    void *q, *o;         // one for all sets
    float *lse;
    int32_t *kv_lens; // in device memory, or NULL
    // of the run under way
    int rung;
    int64_t splits;
    void *workspace;
    int last; // the set that was read last
} TimedCache;

typedef struct TimedPoint {
    TimeStats seconds;
    double rate; // bytes/s of K and V in use, by the median
    bool passed; // sampled heads of the last run's output
} TimedPoint;

// Ends the program when there is no memory. Freed by timed_cache_free.
void timed_cache_make(const Show *show, TimedCache *cache, const AttnShape *shape, DType dtype);
void timed_cache_free(TimedCache *cache);

// Times a rung and compares heads of its last output with the oracle.
TimedPoint timed_cache_run(const Show *show, TimedCache *cache, int rung, int64_t splits);

// The seconds of a launch that reads 16 bytes: what any launch takes.
double timed_launch(const Show *show);

#ifdef __cplusplus
}
#endif

#endif
