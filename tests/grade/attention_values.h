// What the suites of attention labs compare O and LSE with: how far float32 may be off, and NaN
// where a row sees one.
#ifndef TESTS_GRADE_ATTENTION_VALUES_H
#define TESTS_GRADE_ATTENTION_VALUES_H

#include "tests/grade/grade.h"

#include <math.h>

// How far an LSE may be off beside its own rounding, with `largest` the largest |score|: it grows
// with the length of the sums and with the scores, whose roundings an exponential turns into
// relative errors. O, a mean of values, may be off by so much times the largest |value|.
static inline double lse_tolerance(int dim, double largest) {
    return (20.0 + (4.0 + sqrt(dim)) * (1.0 + largest)) * 0x1p-23;
}

// NaN where NaN is expected, else as expect_close.
static inline void expect_value(const char *what, double got, double want, double tolerance) {
    if (!isnan(want)) {
        expect_close(what, got, want, tolerance);
    } else if (!isnan(got)) {
        grade_fail("%s: got %g, expected nan: this row sees a NaN", what, got);
    }
}

// One value of LSE: its own rounding is added to the tolerance.
static inline void expect_lse(const char *what, double got, double want, double tolerance) {
    expect_value(what, got, want, tolerance + fabs(want) * 0x1p-22);
}

#endif
