// A rung on caches that take turns, as ./ch06's timing runs it.
#ifndef CH06_SHOW_TIMED_H
#define CH06_SHOW_TIMED_H

#include "chapters/ch06_decode/show.h"

#include "common/timed_cache.h"

#ifdef __cplusplus
extern "C" {
#endif

// Freed by timed_cache_free.
void make_cache(const Show *show, TimedCache *cache, const AttnShape *shape, DType dtype);

// Times a rung and compares heads of its last output with the oracle.
TimedPoint time_rung(const Show *show, TimedCache *cache, int rung, int64_t splits);

// The seconds of a launch that reads 16 bytes: what any launch takes.
double timed_launch(const Show *show);

#ifdef __cplusplus
}
#endif

#endif
