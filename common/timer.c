// Timing: warm-up, at least ten runs, the median and the tails.
#include "common/timer.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

// A rate may exceed the measured ceiling by this factor: the ceiling is a measurement itself.
static const double CEILING_SLACK = 1.05;

double timer_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The value at `fraction` (0..1) of the way through `sorted`, between its neighbours linearly.
static double quantile(const double *sorted, int count, double fraction) {
    double position = fraction * (count - 1);
    int below = (int)position;
    int above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (position - below) * (sorted[above] - sorted[below]);
}

TimeStats time_stats(double *seconds, int runs) {
    if (runs <= 0) {
        return (TimeStats){.median = NAN, .p10 = NAN, .p90 = NAN, .min = NAN, .max = NAN};
    }
    qsort(seconds, (size_t)runs, sizeof *seconds, compare_doubles);
    return (TimeStats){
        .median = quantile(seconds, runs, 0.5),
        .p10 = quantile(seconds, runs, 0.1),
        .p90 = quantile(seconds, runs, 0.9),
        .min = seconds[0],
        .max = seconds[runs - 1],
        .runs = runs,
    };
}

TimeStats timer_measure(TimedRun *body, void *context, int runs) {
    double seconds[TIMER_MAX_RUNS] = {0};
    if (runs < 1) {
        runs = 1;
    } else if (runs > TIMER_MAX_RUNS) {
        runs = TIMER_MAX_RUNS;
    }
    body(context, 0);
    for (int i = 0; i < runs; i++) {
        double start = timer_now();
        body(context, i + 1);
        seconds[i] = timer_now() - start;
    }
    return time_stats(seconds, runs);
}

bool rate_is_plausible(double rate, double ceiling) {
    return isfinite(rate) && rate > 0 && rate <= CEILING_SLACK * ceiling;
}
