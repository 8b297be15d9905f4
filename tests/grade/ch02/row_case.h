// One row with its keys in guarded memory, and its attention in float64: what the suites of labs 1
// and 2 share.
#ifndef TESTS_GRADE_CH02_ROW_CASE_H
#define TESTS_GRADE_CH02_ROW_CASE_H

#include "exercises/ch02/labs.h"
#include "tests/grade/grade.h"

#include <math.h>

// The inputs of a case. row's pointers lead to the same memory; a test writes through these.
typedef struct RowCase {
    KeyRow row;
    float *q, *k, *v; // [dim], [len][dim], [len][dim]
    bool *visible;    // [len], all true at first
} RowCase;

// A row without a sink, scale 1, its q, k and v still NaN.
static inline RowCase make_case(int64_t len, int64_t dim, int64_t block_k) {
    const size_t keys = (size_t)len, values = keys * (size_t)dim;
    RowCase c = {
        .q = grade_floats((size_t)dim),
        .k = grade_floats(values),
        .v = grade_floats(values),
        .visible = grade_alloc(keys * sizeof(bool)),
    };
    for (int64_t j = 0; j < len; j++) {
        c.visible[j] = true;
    }
    c.row = (KeyRow){len,       dim,  c.q,       c.k,     c.v,
                     c.visible, 1.0f, -INFINITY, block_k, grade_floats((size_t)block_k)};
    return c;
}

// Declares the row's inputs finished: the learner's function must leave them as they are.
static inline void freeze_case(const RowCase *c) {
    grade_freeze("q", c->q, sizeof(float));
    grade_freeze("k", c->k, sizeof(float));
    grade_freeze("v", c->v, sizeof(float));
    grade_freeze("visible", c->visible, sizeof(bool));
}

// A row of dimension 1 with q = 1 and scale 1, so that the scores are the keys, exactly.
static inline RowCase case_of_scores(int64_t len, const float *scores, const float *values,
                                     int64_t block_k) {
    RowCase c = make_case(len, 1, block_k);
    c.q[0] = 1.0f;
    for (int64_t j = 0; j < len; j++) {
        c.k[j] = scores[j];
        c.v[j] = values[j];
    }
    return c;
}

// How the scores of a random case run along the keys.
typedef enum Course { LEVEL, RISING, FALLING, HUNDREDS, COURSES } Course;

static inline const char *course_name(Course course) {
    static const char *const names[COURSES] = {"level", "rising", "falling", "in the hundreds"};
    return names[course];
}

// A random row: each key is the multiple of q that gives the score wanted, plus noise. Values
// differ in mean from column to column. The scale is 1/sqrt(dim).
static inline RowCase random_case(int64_t len, int64_t dim, int64_t block_k, Course course,
                                  uint64_t seed) {
    RowCase c = make_case(len, dim, block_k);
    double q_square = 0.0;
    c.row.scale = (float)(1.0 / sqrt((double)dim));
    for (int64_t i = 0; i < dim; i++) {
        c.q[i] = 0.5f + grade_normal(seed, (uint64_t)i);
        q_square += (double)c.q[i] * (double)c.q[i];
    }
    for (int64_t j = 0; j < len; j++) {
        const double along = 20.0 * (double)j / (double)len, noise = grade_normal(seed + 1, j);
        const double score = course == RISING     ? along
                             : course == FALLING  ? -along
                             : course == HUNDREDS ? 200.0 * noise
                                                  : noise;
        const double factor = score / ((double)c.row.scale * q_square);
        for (int64_t i = 0; i < dim; i++) {
            const uint64_t e = (uint64_t)(j * dim + i);
            c.k[e] = (float)(factor * (double)c.q[i]) + 0.1f * grade_normal(seed + 2, e);
            c.v[e] = (float)(i % 5) - 1.5f + grade_normal(seed + 3, e);
        }
    }
    return c;
}

// The right answer, and how far a float32 implementation may be from it.
typedef struct RowAnswer {
    double *o; // [dim]
    double lse;
    double o_tolerance, lse_tolerance;
    double score_max; // largest |score|, 0 for an empty row
} RowAnswer;

// Two passes in float64, over the visible keys and the sink.
//
// Tolerances, with u = 2^-24 (half the distance from 1 to the next float). The score, a sum of dim
// products times the scale, is off by at most (dim + 1) u S, where S is the largest value of
// scale * sum |q_c k_c|; exp turns that into a relative error of its weight. A weight costs a few u
// more (subtraction, exp, product), each of the corrections by alpha three u at most, and adding n
// terms n u. This bounds numerator and denominator, relative to their own size when every value is
// counted as positive, so o is off by at most twice that, times the largest |v|. The logarithm
// turns the relative error of l into an absolute one, and the LSE is rounded when it is stored.
static inline RowAnswer answer_of(const RowCase *c) {
    const double u = 0x1p-24;
    const int64_t len = c->row.len, dim = c->row.dim;
    double *scores = grade_alloc((size_t)len * sizeof(double));
    double m = (double)c->row.sink, products = 0.0, v_max = 0.0, l;
    RowAnswer a = {.o = grade_alloc((size_t)dim * sizeof(double))};

    for (int64_t j = 0; j < len; j++) {
        double sum = 0.0, abs_sum = 0.0;
        if (!c->visible[j]) {
            continue;
        }
        for (int64_t i = 0; i < dim; i++) {
            const double product = (double)c->q[i] * (double)c->k[j * dim + i];
            sum += product;
            abs_sum += fabs(product);
            v_max = fmax(v_max, fabs((double)c->v[j * dim + i]));
        }
        scores[j] = (double)c->row.scale * sum;
        m = fmax(m, scores[j]);
        products = fmax(products, (double)c->row.scale * abs_sum);
        a.score_max = fmax(a.score_max, fabs(scores[j]));
    }
    for (int64_t i = 0; i < dim; i++) {
        a.o[i] = 0.0;
    }
    l = c->row.sink == -INFINITY ? 0.0 : exp((double)c->row.sink - m);
    for (int64_t j = 0; j < len; j++) {
        if (c->visible[j]) {
            const double p = exp(scores[j] - m);
            l += p;
            for (int64_t i = 0; i < dim; i++) {
                a.o[i] += p * (double)c->v[j * dim + i];
            }
        }
    }
    for (int64_t i = 0; i < dim; i++) {
        a.o[i] = l == 0.0 ? 0.0 : a.o[i] / l;
    }
    a.lse = m + log(l);

    const double blocks = (double)(len / c->row.block_k + 1);
    const double relative =
        (double)(dim + 1) * u * products + ((double)len + 3.0 * blocks + 8.0) * u;
    a.o_tolerance = 2.0 * relative * v_max;
    a.lse_tolerance = relative + (isfinite(a.lse) ? fabs(a.lse) * u : 0.0);
    return a;
}

#endif
