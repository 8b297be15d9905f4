// Parts, that is outputs and log-sum-exps of disjoint sets of keys, in guarded memory, and their
// merge in float64: what the suites of labs 1 and 2 share.
#ifndef TESTS_GRADE_CH03_PARTS_H
#define TESTS_GRADE_CH03_PARTS_H

#include "exercises/ch03/labs.h"
#include "tests/grade/grade.h"

#include <math.h>
#include <string.h>

enum { DIM_MAX = 8 };

typedef struct Parts {
    int64_t count, dim;
    float *o;   // [count][dim]
    float *lse; // [count]
} Parts;

// `count` empty parts: every O is NaN, every LSE -INFINITY.
static inline Parts make_parts(int64_t count, int64_t dim) {
    Parts parts = {count, dim, grade_floats((size_t)(count * dim)), grade_floats((size_t)count)};
    for (int64_t i = 0; i < count; i++) {
        parts.lse[i] = -INFINITY;
    }
    return parts;
}

// Parts with LSE around `level` and outputs whose mean differs from part to part.
static inline Parts random_parts(int64_t count, int64_t dim, float level, uint64_t seed) {
    Parts parts = make_parts(count, dim);
    for (int64_t i = 0; i < count; i++) {
        parts.lse[i] = level + 1.5f * grade_normal(seed, (uint64_t)i);
        for (int64_t c = 0; c < dim; c++) {
            const uint64_t e = (uint64_t)(i * dim + c);
            parts.o[e] = (float)(i % 7) - 2.5f + grade_normal(seed + 1, e);
        }
    }
    return parts;
}

static inline Parts copy_parts(const Parts *parts) {
    Parts copy = make_parts(parts->count, parts->dim);
    memcpy(copy.o, parts->o, (size_t)(parts->count * parts->dim) * sizeof(float));
    memcpy(copy.lse, parts->lse, (size_t)parts->count * sizeof(float));
    return copy;
}

// The merge of the parts begin .. end - 1 in float64: o [dim], 0 when all are empty. Returns its
// LSE.
static inline double merge_of(const Parts *parts, int64_t begin, int64_t end, double *o) {
    double m = -INFINITY, sum = 0.0;
    for (int64_t i = begin; i < end; i++) {
        m = fmax(m, (double)parts->lse[i]);
    }
    for (int64_t c = 0; c < parts->dim; c++) {
        o[c] = 0.0;
    }
    for (int64_t i = begin; i < end; i++) {
        const double p = parts->lse[i] == -INFINITY ? 0.0 : exp((double)parts->lse[i] - m);
        sum += p;
        for (int64_t c = 0; c < parts->dim && p > 0.0; c++) {
            o[c] += p * (double)parts->o[i * parts->dim + c];
        }
    }
    for (int64_t c = 0; c < parts->dim && sum > 0.0; c++) {
        o[c] /= sum;
    }
    return m + log(sum);
}

#endif
