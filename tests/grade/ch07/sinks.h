// Lab 1's problems on the host: sizes and inputs, and O and LSE in float64.
#ifndef TESTS_GRADE_CH07_SINKS_H
#define TESTS_GRADE_CH07_SINKS_H

#include "exercises/ch07/labs.h"
#include "tests/grade/attention_values.h"

#include <math.h>

// A problem on the host. Sizes, mask and scale are those of `shape`, whose pointers are not used.
typedef struct Problem {
    SinkWindow shape;
    float *q, *k, *v;
    double *o, *lse;
    double o_tolerance, lse_tolerance; // of a LSE its own rounding is added
} Problem;

static inline size_t rows_of(const SinkWindow *a) {
    return (size_t)a->heads * (size_t)a->len_q;
}

static inline size_t keys_of(const SinkWindow *a) {
    return (size_t)a->heads * (size_t)a->len_kv;
}

static inline int blocks_of_queries(const SinkWindow *a) {
    return (a->len_q + SINK_TILE - 1) / SINK_TILE;
}

static inline bool visible(const SinkWindow *a, int row, int key) {
    const int64_t own = (int64_t)row + a->len_kv - a->len_q;
    const bool in_window = a->window == 0 || key > own - a->window;
    return key < a->len_kv && key <= own && (key < a->sinks || in_window);
}

static inline Problem make_problem(SinkWindow shape) {
    const size_t dim = (size_t)shape.dim, rows = rows_of(&shape), keys = keys_of(&shape);
    return (Problem){shape,
                     grade_floats(rows * dim),
                     grade_floats(keys * dim),
                     grade_floats(keys * dim),
                     grade_alloc(rows * dim * sizeof(double)),
                     grade_alloc(rows * sizeof(double))};
}

// One row in float64. Returns the largest |score| of a visible key.
static inline double compute_row(Problem *p, size_t head, int row) {
    const SinkWindow *a = &p->shape;
    const size_t dim = (size_t)a->dim, at = head * (size_t)a->len_q + (size_t)row;
    double m = -INFINITY, l = 0.0, largest = 0.0;
    double *score = grade_alloc((size_t)a->len_kv * sizeof(double)), *o = p->o + at * dim;

    for (size_t c = 0; c < dim; c++) {
        o[c] = 0.0;
    }
    for (int j = 0; j < a->len_kv; j++) {
        const float *q = p->q + at * dim;
        const float *k = p->k + (head * (size_t)a->len_kv + (size_t)j) * dim;
        score[j] = 0.0;
        for (size_t c = 0; c < dim && visible(a, row, j); c++) {
            score[j] += (double)a->scale * (double)q[c] * (double)k[c];
        }
        m = visible(a, row, j) ? fmax(m, score[j]) : m;
        largest = fmax(largest, fabs(score[j]));
    }
    for (int j = 0; j < a->len_kv; j++) {
        const float *v = p->v + (head * (size_t)a->len_kv + (size_t)j) * dim;
        const double weight = visible(a, row, j) ? exp(score[j] - m) : 0.0;
        l += weight;
        for (size_t c = 0; c < dim && visible(a, row, j); c++) {
            o[c] += weight * (double)v[c];
        }
    }
    for (size_t c = 0; c < dim && l != 0.0; c++) {
        o[c] /= l;
    }
    p->lse[at] = l != 0.0 ? m + log(l) : -INFINITY;
    return largest;
}

// All rows, and the tolerances.
static inline void compute(Problem *p) {
    const SinkWindow *a = &p->shape;
    double largest = 0.0, value = 1.0;

    for (size_t r = 0; r < rows_of(a); r++) {
        largest = fmax(largest, compute_row(p, r / (size_t)a->len_q, (int)(r % (size_t)a->len_q)));
    }
    for (size_t e = 0; e < keys_of(a) * (size_t)a->dim; e++) {
        value = fmax(value, fabs((double)p->v[e]));
    }
    p->lse_tolerance = lse_tolerance(a->dim, largest);
    p->o_tolerance = p->lse_tolerance * value;
}

// Keys of 0 and values 0, 1, 2, ...: O is the mean of the visible keys' numbers.
static inline Problem counting_problem(SinkWindow shape) {
    Problem p = make_problem(shape);
    for (size_t e = 0; e < rows_of(&shape) * (size_t)shape.dim; e++) {
        p.q[e] = 1.0f;
    }
    for (size_t e = 0; e < keys_of(&shape) * (size_t)shape.dim; e++) {
        p.k[e] = 0.0f;
        p.v[e] = (float)(e / (size_t)shape.dim % (size_t)shape.len_kv);
    }
    return p;
}

static inline Problem random_problem(SinkWindow shape, uint64_t seed) {
    Problem p = make_problem(shape);
    for (size_t e = 0; e < rows_of(&shape) * (size_t)shape.dim; e++) {
        p.q[e] = 0.3f + grade_normal(seed, e);
    }
    for (size_t e = 0; e < keys_of(&shape) * (size_t)shape.dim; e++) {
        p.k[e] = 0.2f + grade_normal(seed + 1, e);
        p.v[e] = 1.0f + grade_normal(seed + 2, e);
    }
    return p;
}

// Sizes and mask; no pointers.
static inline SinkWindow shape_of(int heads, int len_q, int len_kv, int dim, int sinks,
                                  int window) {
    return (SinkWindow){.heads = heads,
                        .len_q = len_q,
                        .len_kv = len_kv,
                        .dim = dim,
                        .sinks = sinks,
                        .window = window,
                        .scale = 0.4f};
}

#endif
