// The problems of chapter 8's labs 2 and 3 on the host: query heads in groups, each of which reads
// one KV head, and their answers in float64. A batch of lab 3 is one of these: each of its entries
// is a KV head with one token.
#ifndef TESTS_GRADE_CH08_GROUPED_H
#define TESTS_GRADE_CH08_GROUPED_H

#include "tests/grade/attention_values.h"

#include <math.h>
#include <stdio.h>

typedef struct Sizes {
    int heads_q, heads_kv, len_q, len_kv, dim;
    int window; // keys of the causal window; 0: no limit
} Sizes;

typedef struct Problem {
    Sizes sizes;
    float scale;
    int *lens;                         // [heads_kv] keys in use; behind them K and V are NaN
    float *q;                          // [heads_q][len_q][dim]
    float *k, *v;                      // [heads_kv][len_kv][dim]
    double *o, *lse;                   // like q; [heads_q][len_q]
    double o_tolerance, lse_tolerance; // see attention_values.h
} Problem;

typedef struct Seen {
    int begin, end;
} Seen;

static inline size_t queries_of(const Sizes *s) {
    return (size_t)s->heads_q * (size_t)s->len_q;
}

static inline size_t keys_of(const Sizes *s) {
    return (size_t)s->heads_kv * (size_t)s->len_kv;
}

static inline int group_of(const Sizes *s) {
    return s->heads_q / s->heads_kv;
}

// The keys that a token sees, of `keys` in use.
static inline Seen seen_by(const Sizes *s, int keys, int token) {
    const int end = token + keys - s->len_q + 1;
    const int begin = s->window > 0 && end > s->window ? end - s->window : 0;
    return end > 0 ? (Seen){begin, end} : (Seen){0, 0};
}

// All keys are in use, until the suite says otherwise.
static inline Problem make_problem(Sizes sizes) {
    const size_t dim = (size_t)sizes.dim, queries = queries_of(&sizes), keys = keys_of(&sizes);
    Problem p = {.sizes = sizes,
                 .scale = 0.4f,
                 .lens = grade_alloc((size_t)sizes.heads_kv * sizeof(int)),
                 .q = grade_floats(queries * dim),
                 .k = grade_floats(keys * dim),
                 .v = grade_floats(keys * dim),
                 .o = grade_alloc(queries * dim * sizeof(double)),
                 .lse = grade_alloc(queries * sizeof(double))};
    for (int h = 0; h < sizes.heads_kv; h++) {
        p.lens[h] = sizes.len_kv;
    }
    return p;
}

// Keys of 0; the value of key j is 100 times the KV head, and j: O is the mean of the numbers of
// the keys that a row sees, and tells the KV head.
static inline Problem counting_problem(Sizes sizes) {
    Problem p = make_problem(sizes);
    const size_t dim = (size_t)sizes.dim, len_kv = (size_t)sizes.len_kv;
    for (size_t e = 0; e < queries_of(&sizes) * dim; e++) {
        p.q[e] = 1.0f;
    }
    for (size_t e = 0; e < keys_of(&sizes) * dim; e++) {
        p.k[e] = 0.0f;
        p.v[e] = (float)(100 * (e / dim / len_kv) + e / dim % len_kv);
    }
    return p;
}

static inline Problem random_problem(Sizes sizes, uint64_t seed) {
    Problem p = make_problem(sizes);
    for (size_t e = 0; e < queries_of(&sizes) * (size_t)sizes.dim; e++) {
        p.q[e] = 0.3f + grade_normal(seed, e);
    }
    for (size_t e = 0; e < keys_of(&sizes) * (size_t)sizes.dim; e++) {
        p.k[e] = 0.2f + grade_normal(seed + 1, e);
        p.v[e] = 1.0f + grade_normal(seed + 2, e);
    }
    return p;
}

// Leaves `keys` keys of a KV head in use.
static inline void cut_keys(Problem *p, int kv_head, int keys) {
    const size_t dim = (size_t)p->sizes.dim, len_kv = (size_t)p->sizes.len_kv;
    p->lens[kv_head] = keys;
    for (size_t e = (size_t)keys * dim; e < len_kv * dim; e++) {
        p->k[(size_t)kv_head * len_kv * dim + e] = NAN;
        p->v[(size_t)kv_head * len_kv * dim + e] = NAN;
    }
}

// A query in float64; score [len_kv] is scratch memory. Returns the largest |score|.
static inline double answer_query(Problem *p, int head, int token, double *score) {
    const Sizes *s = &p->sizes;
    const int kv_head = head / group_of(s);
    const size_t dim = (size_t)s->dim, first = (size_t)kv_head * (size_t)s->len_kv * dim;
    const size_t at = (size_t)head * (size_t)s->len_q + (size_t)token;
    const Seen seen = seen_by(s, p->lens[kv_head], token);
    double m = -INFINITY, l = 0.0, largest = 0.0, *o = p->o + at * dim;

    for (int j = seen.begin; j < seen.end; j++) {
        score[j] = 0.0;
        for (size_t c = 0; c < dim; c++) {
            score[j] += (double)p->scale * (double)p->q[at * dim + c] *
                        (double)p->k[first + (size_t)j * dim + c];
        }
        m = fmax(m, score[j]);
        largest = fmax(largest, fabs(score[j]));
    }
    for (size_t c = 0; c < dim; c++) {
        o[c] = 0.0;
    }
    for (int j = seen.begin; j < seen.end; j++) {
        const double weight = exp(score[j] - m);
        l += weight;
        for (size_t c = 0; c < dim; c++) {
            o[c] += weight * (double)p->v[first + (size_t)j * dim + c];
        }
    }
    for (size_t c = 0; c < dim && seen.begin < seen.end; c++) {
        o[c] /= l;
    }
    p->lse[at] = seen.begin < seen.end ? m + log(l) : -INFINITY;
    return largest;
}

// All queries, and the tolerances.
static inline void answer(Problem *p) {
    const Sizes *s = &p->sizes;
    double *score = grade_alloc((size_t)s->len_kv * sizeof(double));
    double largest = 0.0, value = 1.0;
    for (int h = 0; h < s->heads_q; h++) {
        for (int t = 0; t < s->len_q; t++) {
            largest = fmax(largest, answer_query(p, h, t, score));
        }
    }
    for (size_t e = 0; e < keys_of(s) * (size_t)s->dim; e++) {
        value = fmax(value, fabs((double)p->v[e]));
    }
    p->lse_tolerance = lse_tolerance(s->dim, largest);
    p->o_tolerance = p->lse_tolerance * value;
}

// Compares O and LSE with the answers. `entries`: each KV head is an entry of a batch, with T = 1.
static inline void expect_answers(const Problem *p, const float *o, const float *lse,
                                  bool entries) {
    const Sizes *s = &p->sizes;
    char row[64], what[96];
    for (int at = 0; at < s->heads_q * s->len_q; at++) {
        if (entries) {
            snprintf(row, sizeof(row), "[entry %d][head %d]", at / group_of(s), at % group_of(s));
        } else {
            snprintf(row, sizeof(row), "[head %d][token %d]", at / s->len_q, at % s->len_q);
        }
        for (int c = 0; c < s->dim; c++) {
            const int e = at * s->dim + c;
            snprintf(what, sizeof(what), "o%s[%d]", row, c);
            expect_value(what, (double)o[e], p->o[e], p->o_tolerance);
        }
        snprintf(what, sizeof(what), "lse%s", row);
        expect_lse(what, (double)lse[at], p->lse[at], p->lse_tolerance);
    }
}

#endif
