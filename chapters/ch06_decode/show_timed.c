// Timing one rung: see show_timed.h. And the rate at which this GPU reads memory.
#include "chapters/ch06_decode/show_timed.h"

#include "common/read_rate.h"

// The median of read_rate over `bytes` bytes.
static double read_seconds(const Show *show, size_t bytes) {
    TimeStats seconds;
    lesson_require(show->program, read_rate_measure(show->target, bytes, &seconds));
    return seconds.median;
}

double show_read_rate(const Show *show) {
    const size_t bytes = (size_t)1 << 31;
    return show->target == GPU_CUDA ? (double)bytes / read_seconds(show, bytes) : 0.0;
}

double timed_launch(const Show *show) {
    return read_seconds(show, 16);
}

void make_cache(const Show *show, TimedCache *cache, const AttnShape *shape, DType dtype) {
    timed_cache_make(cache, show->program, show->options, show->target, shape, dtype);
}

TimedPoint time_rung(const Show *show, TimedCache *cache, int rung, int64_t splits) {
    void *workspace;
    lesson_require(show->program,
                   rung_workspace(rung, show->target, &cache->problem.shape, splits, &workspace));
    const TimedPoint point =
        timed_cache_run(cache, decode_rungs[rung].builds[show->target], splits, workspace);
    gpu_free(show->target, workspace);
    return point;
}
