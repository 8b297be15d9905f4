// What the suite of chapter 6's lab 3 is given: problems of parts and sinks on the host, and their
// answers in float64.
#ifndef TESTS_GRADE_CH06_SINK_H
#define TESTS_GRADE_CH06_SINK_H

#include "exercises/ch06/labs.h"
#include "tests/grade/grade.h"

#include <math.h>
#include <string.h>

// ---- problems -----------------------------------------------------------------------------------

// A problem on the host. Sizes and scale are those of `shape`, whose pointers are not used.
typedef struct Problem {
    SinkDecode shape;
    float *q, *k, *v, *sink; // [heads][dim], [heads][len_kv][dim] twice, [heads]
    int *bounds;             // [heads][parts + 1]
} Problem;

static inline Problem make_problem(int heads, int parts, int len_kv, int dim) {
    const size_t h = (size_t)heads, d = (size_t)dim, keys = h * (size_t)len_kv;
    Problem p = {.shape = {.heads = heads,
                           .parts = parts,
                           .len_kv = len_kv,
                           .dim = dim,
                           .scale = 1.0f / sqrtf((float)dim)},
                 .q = grade_floats(h * d),
                 .k = grade_floats(keys * d),
                 .v = grade_floats(keys * d),
                 .sink = grade_floats(h),
                 .bounds = grade_alloc(h * (size_t)(parts + 1) * sizeof(int))};
    return p;
}

// One head, d = 1 and q = 1: the scores are the keys.
static inline Problem problem_of_scores(int parts, const int *bounds, const float *scores,
                                        const float *values, float sink) {
    Problem p = make_problem(1, parts, bounds[parts], 1);
    memcpy(p.bounds, bounds, (size_t)(parts + 1) * sizeof(int));
    memcpy(p.k, scores, (size_t)bounds[parts] * sizeof(float));
    memcpy(p.v, values, (size_t)bounds[parts] * sizeof(float));
    p.q[0] = 1.0f;
    p.sink[0] = sink;
    return p;
}

// Random numbers; parts of one size in head 0, of random ones, some of them empty, in the others.
// Behind the last key of a head all is NaN.
static inline Problem random_problem(int heads, int parts, int len_kv, int dim, uint64_t seed) {
    Problem p = make_problem(heads, parts, len_kv, dim);
    for (int h = 0; h < heads; h++) {
        int *bounds = p.bounds + (size_t)h * (size_t)(parts + 1);
        const int size = (len_kv + parts - 1) / parts;
        bounds[0] = 0;
        for (int i = 1; i <= parts; i++) {
            const float x = grade_normal(seed + 3, (uint64_t)(h * parts + i));
            const int step = h == 0 ? size : x > 0.0f ? (int)(x * 1.2f * (float)size + 0.5f) : 0;
            bounds[i] = bounds[i - 1] + step < len_kv ? bounds[i - 1] + step : len_kv;
        }
        p.sink[h] = grade_normal(seed + 4, (uint64_t)h) + 2.0f;
        for (int c = 0; c < dim; c++) {
            p.q[h * dim + c] = 0.3f + grade_normal(seed, (uint64_t)(h * dim + c));
        }
        for (int e = 0; e < bounds[parts] * dim; e++) {
            const size_t at = (size_t)h * (size_t)(len_kv * dim) + (size_t)e;
            p.k[at] = 0.2f + grade_normal(seed + 1, at);
            p.v[at] = 1.0f + grade_normal(seed + 2, at);
        }
    }
    return p;
}

// ---- the expected values ------------------------------------------------------------------------

typedef struct Answer {
    double o[SINK_MAX_DIM], lse, o_tolerance, lse_tolerance;
} Answer;

// One head in float64, and how far float32 may be off. With u = 2^-24 and A the largest scale * sum
// |q_c k_c| or |sink|: a score is off by (d + 1) u A, sums, rescalings and merges add less than (4
// keys + 2 parts + 16) u, and each LSE was rounded by up to (A + log keys) u, and may be subtracted
// once more from a rounded one.
static inline Answer answer_of(const Problem *p, int head) {
    const SinkDecode *s = &p->shape;
    const int keys = p->bounds[(size_t)(head + 1) * (size_t)(s->parts + 1) - 1];
    const size_t first = (size_t)head * (size_t)(s->len_kv * s->dim);
    double *score = grade_alloc((size_t)(keys + 1) * sizeof(double));
    double m = (double)p->sink[head], largest = isinf(m) ? 0.0 : fabs(m), o_abs = 0.0;
    Answer a = {.lse = -INFINITY};
    for (int j = 0; j < keys; j++) {
        double dot = 0.0, dot_abs = 0.0;
        for (int c = 0; c < s->dim; c++) {
            const double product =
                (double)p->q[head * s->dim + c] * (double)p->k[first + (size_t)(j * s->dim + c)];
            dot += product;
            dot_abs += fabs(product);
        }
        score[j] = (double)s->scale * dot;
        m = fmax(m, score[j]);
        largest = fmax(largest, (double)s->scale * dot_abs);
    }
    double l = isinf(m) ? 0.0 : exp((double)p->sink[head] - m);
    for (int j = 0; j < keys; j++) {
        l += exp(score[j] - m);
    }
    for (int c = 0; c < s->dim; c++) {
        double sum = 0.0, sum_abs = 0.0;
        for (int j = 0; j < keys; j++) {
            const double value = (double)p->v[first + (size_t)(j * s->dim + c)];
            sum += exp(score[j] - m) / l * value;
            sum_abs += exp(score[j] - m) / l * fabs(value);
        }
        a.o[c] = sum;
        o_abs = fmax(o_abs, sum_abs);
    }
    if (l > 0.0) {
        a.lse = m + log(l);
        a.lse_tolerance = ((double)(s->dim + 1) * largest + 4.0 * keys + 2.0 * s->parts + 16.0 +
                           4.0 * (largest + log(keys + 1.0))) *
                          0x1p-24;
        a.o_tolerance = 2.0 * a.lse_tolerance * o_abs + 0x1p-126; // weights may underflow
    }
    return a;
}

#endif
