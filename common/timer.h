// Timing: warm-up, at least ten runs, the median and the tails.
#ifndef COMMON_TIMER_H
#define COMMON_TIMER_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// Seconds on the monotonic clock, from an arbitrary start.
double timer_now(void);

// Order statistics of a set of run times, in seconds.
typedef struct TimeStats {
    double median, p10, p90, min, max;
    int runs;
} TimeStats;

// Sorts `seconds` in place and returns its statistics (linear interpolation between order
// statistics); runs = 0 gives NaN everywhere.
TimeStats time_stats(double *seconds, int runs);

// One timed run; `run` counts up from 0, warm-up runs included, so that a caller can rotate inputs.
typedef void TimedRun(void *context, int run);

// Runs `body` once untimed, then `runs` times timed (1..TIMER_MAX_RUNS, clamped).
enum { TIMER_MAX_RUNS = 1000 };
TimeStats timer_measure(TimedRun *body, void *context, int runs);

// False when a rate exceeds the measured ceiling by more than 5 %: such a figure is a measurement
// error and is not to be reported as a result. NaN, zero and negative rates are not plausible.
bool rate_is_plausible(double rate, double ceiling);

#ifdef __cplusplus
}
#endif

#endif
