// The suite of lab 2, one query row with soft-capped scores: each test against a float64 reference.
#include "exercises/ch01/labs.h"
#include "tests/grade/grade.h"

#include <math.h>
#include <stdio.h>

const char grade_title[] = "soft-capped scores";

// A row's inputs and outputs in guarded memory.
typedef struct Case {
    CappedRow row;
    float *q;     // [dim]
    float *k, *v; // [len][dim]
    float *probs; // [len]
    float *o;     // [dim]
} Case;

// A case whose keys are all visible, with Q, K and V still NaN.
static Case make_case(int64_t len, int64_t dim, float scale, float cap) {
    Case c = {.row = {len, dim, {0, len}, scale, cap}};

    c.q = grade_floats((size_t)dim);
    c.k = grade_floats((size_t)(len * dim));
    c.v = grade_floats((size_t)(len * dim));
    c.probs = grade_floats((size_t)len);
    c.o = grade_floats((size_t)dim);
    return c;
}

// Seeded normal values everywhere, times `size` in Q; V is not centred on zero.
static void fill(const Case *c, uint64_t seed, float size) {
    for (int64_t i = 0; i < c->row.dim; i++) {
        c->q[i] = size * grade_normal(seed, (uint64_t)i);
    }
    for (int64_t i = 0; i < c->row.len * c->row.dim; i++) {
        c->k[i] = grade_normal(seed + 100, (uint64_t)i);
        c->v[i] = 1.0f + grade_normal(seed + 200, (uint64_t)i);
    }
}

// One column: q = 1, so that q.k is the key itself.
static Case case_of_keys(int64_t len, const float *k, const float *v, float scale, float cap) {
    Case c = make_case(len, 1, scale, cap);

    c.q[0] = 1.0f;
    for (int64_t j = 0; j < len; j++) {
        c.k[j] = k[j];
        c.v[j] = v[j];
    }
    return c;
}

// Overwrites the rows of K and V outside the visible range.
static void fill_hidden(const Case *c, float key, float value) {
    for (int64_t j = 0; j < c->row.len; j++) {
        if (j < c->row.visible.begin || j >= c->row.visible.end) {
            for (int64_t i = 0; i < c->row.dim; i++) {
                c->k[j * c->row.dim + i] = key;
                c->v[j * c->row.dim + i] = value;
            }
        }
    }
}

// The reference: what the row must give, and the size of the terms, for the tolerance.
typedef struct Reference {
    double *scores;   // [len], -inf where hidden
    double m, l;      // largest score, sum of exp(score - m)
    double score_abs; // largest scale * sum of |q_c k_c|
} Reference;

static Reference make_reference(const Case *c) {
    const CappedRow *row = &c->row;
    const double scale = (double)row->scale, cap = (double)row->cap;
    Reference r = {grade_alloc((size_t)row->len * sizeof(double)), -INFINITY, 0.0, 0.0};

    for (int64_t j = 0; j < row->len; j++) {
        double dot = 0.0, abs_dot = 0.0;
        r.scores[j] = -INFINITY;
        if (j < row->visible.begin || j >= row->visible.end) {
            continue;
        }
        for (int64_t i = 0; i < row->dim; i++) {
            const double term = (double)c->q[i] * (double)c->k[j * row->dim + i];
            dot += term;
            abs_dot += fabs(term);
        }
        r.scores[j] = cap > 0.0 ? cap * tanh(scale * dot / cap) : scale * dot;
        r.score_abs = fmax(r.score_abs, scale * abs_dot);
        r.m = fmax(r.m, r.scores[j]);
    }
    for (int64_t j = row->visible.begin; j < row->visible.end; j++) {
        r.l += exp(r.scores[j] - r.m);
    }
    return r;
}

// Calls the learner's function on inputs that it must leave as they are.
static float call(const Case *c) {
    const CappedRow row = c->row;

    grade_freeze("q", c->q, sizeof(float));
    grade_freeze("k", c->k, sizeof(float));
    grade_freeze("v", c->v, sizeof(float));
    return capped_attention_row(&row, c->q, c->k, c->v, c->probs, c->o);
}

// Calls the learner's function and checks the LSE, the probabilities and the output.
//
// Tolerance, with u = 2^-24: a score is a sum of dim products, scaled, divided by the cap: at most
// (dim + 2) u off, relative to the size of its terms; tanh does not magnify that (its slope is at
// most 1) and adds a few u of the cap. An error e of all scores multiplies a probability by at most
// exp(2 e). The softmax adds what lab 1's suite allows, and the output len u more, relative to the
// sum of |p v|.
static void check_case(const Case *c) {
    const CappedRow *row = &c->row;
    const double u = 0x1p-24, tiny = 0x1p-126, len = (double)row->len;
    const Reference r = make_reference(c);
    const double score_error = u * (((double)row->dim + 2) * r.score_abs + 4 * (double)row->cap);
    char name[32];

    const float lse = call(c);
    for (int64_t j = 0; j < row->len; j++) {
        const double p = r.scores[j] > -INFINITY ? exp(r.scores[j] - r.m) / r.l : 0.0;
        const double relative = expm1(2 * score_error) + (p > 0.0 ? r.m - r.scores[j] : 0.0) * u;
        snprintf(name, sizeof(name), "probs[%lld]", (long long)j);
        expect_close(name, (double)c->probs[j], p,
                     r.scores[j] > -INFINITY ? p * (relative + (len + 16) * u) + tiny : 0.0);
    }
    const double want = r.l > 0.0 ? r.m + log(r.l) : -INFINITY;
    expect_close("LSE", (double)lse, want, score_error + (len + 16 + fabs(want)) * u);
    for (int64_t i = 0; i < row->dim; i++) {
        double sum = 0.0, bound = tiny;
        for (int64_t j = row->visible.begin; j < row->visible.end; j++) {
            const double pv = exp(r.scores[j] - r.m) / r.l * (double)c->v[j * row->dim + i];
            sum += pv;
            bound += fabs(pv) * (expm1(2 * score_error) + (2 * len + 32 + r.m - r.scores[j]) * u);
        }
        snprintf(name, sizeof(name), "o[%lld]", (long long)i);
        expect_close(name, (double)c->o[i], sum, bound);
    }
}

// ---- the tests ----------------------------------------------------------------------------------

static void test_capped_pair(void) {
    grade_case("scale 0.5, cap 2: q.k = 2 and 8, v = 1 and 5");
    const Case c = case_of_keys(2, (const float[]){2, 8}, (const float[]){1, 5}, 0.5f, 2.0f);
    check_case(&c);
}

static void test_no_cap_scales_once(void) {
    const float ln3 = logf(3.0f);

    grade_case("d = 4, scale 0.5, cap 0: q = (2,0,0,0), k0 = (ln 3,0,0,0), k1 = 0, v0 = (1,2,3,4), "
               "v1 = 0");
    const Case c = make_case(2, 4, 0.5f, 0.0f);
    for (int64_t i = 0; i < 4; i++) {
        c.q[i] = i == 0 ? 2.0f : 0.0f;
        c.k[i] = i == 0 ? ln3 : 0.0f;
        c.k[4 + i] = 0.0f;
        c.v[i] = (float)(i + 1);
        c.v[4 + i] = 0.0f;
    }
    check_case(&c);
}

static void test_padding_gets_no_weight(void) {
    grade_case("scale 1, cap 3: 32 keys, of which keys 0 and 1 are visible (q.k = -2.5 and -3.5), "
               "the others are padding of zeros");
    Case c = make_case(32, 1, 1.0f, 3.0f);
    c.row.visible.end = 2;
    c.q[0] = 1.0f;
    c.k[0] = -2.5f;
    c.k[1] = -3.5f;
    c.v[0] = 1.0f;
    c.v[1] = 5.0f;
    fill_hidden(&c, 0.0f, 0.0f);
    check_case(&c);
}

static void test_padding_holds_nan(void) {
    const float garbage[] = {NAN, INFINITY, 3e38f};

    for (size_t g = 0; g < sizeof(garbage) / sizeof(garbage[0]); g++) {
        grade_case("d = 3, cap 4: 6 keys, keys 4 and 5 hidden, K and V there all %g",
                   (double)garbage[g]);
        Case c = make_case(6, 3, 0.6f, 4.0f);
        fill(&c, 21, 2.0f);
        c.row.visible.end = 4;
        fill_hidden(&c, garbage[g], garbage[g]);
        check_case(&c);
    }
}

static void test_range_in_the_middle(void) {
    grade_case("d = 2, cap 5: 9 keys, keys 3 to 6 visible; hidden keys hold large values");
    Case c = make_case(9, 2, 0.7f, 5.0f);
    fill(&c, 22, 3.0f);
    c.row.visible = (KeyRange){3, 7};
    fill_hidden(&c, 50.0f, -1000.0f);
    check_case(&c);
}

static void test_saturated(void) {
    grade_case("scale 1, cap 50: q.k = 100000, 30000, -100000 and 40; v = 1, 2, 4, 8");
    const Case c = case_of_keys(4, (const float[]){1e5f, 3e4f, -1e5f, 40},
                                (const float[]){1, 2, 4, 8}, 1.0f, 50.0f);
    check_case(&c);
}

static void test_large_scores(void) {
    grade_case("scale 1, cap 0: q.k = 1000 and 999, v = 1 and 3");
    const Case plain =
        case_of_keys(2, (const float[]){1000, 999}, (const float[]){1, 3}, 1.0f, 0.0f);
    check_case(&plain);
    grade_case("scale 1, cap 200: q.k = 400, 380 and -400, v = 1, 3 and 7");
    const Case capped =
        case_of_keys(3, (const float[]){400, 380, -400}, (const float[]){1, 3, 7}, 1.0f, 200.0f);
    check_case(&capped);
}

static void test_very_negative_scores(void) {
    grade_case("scale 1, cap 0: q.k = -60000 and -60001, v = 1 and 3");
    const Case plain =
        case_of_keys(2, (const float[]){-60000, -60001}, (const float[]){1, 3}, 1.0f, 0.0f);
    check_case(&plain);
    grade_case("scale 1, cap 200: q.k = -400 and -380, v = 1 and 3");
    const Case capped =
        case_of_keys(2, (const float[]){-400, -380}, (const float[]){1, 3}, 1.0f, 200.0f);
    check_case(&capped);
}

static void test_odd_sizes(void) {
    const int64_t sizes[][2] = {{1, 1}, {31, 1}, {33, 8}, {7, 40}, {1000, 65}};

    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (int capped = 0; capped < 2; capped++) {
            const int64_t len = sizes[s][0], dim = sizes[s][1];
            const float scale = 1.0f / sqrtf((float)dim);
            grade_case("%lld keys, d = %lld, cap %d, random values", (long long)len, (long long)dim,
                       6 * capped);
            const Case c = make_case(len, dim, scale, 6.0f * (float)capped);
            fill(&c, 31 + s, 4.0f);
            check_case(&c);
        }
    }
}

static void test_nothing_visible(void) {
    for (int capped = 0; capped < 2; capped++) {
        grade_case("4 keys, none visible, cap %d", 5 * capped);
        Case c = make_case(4, 3, 1.0f, 5.0f * (float)capped);
        fill(&c, 41, 1.0f);
        c.row.visible = (KeyRange){2, 2};
        check_case(&c);
    }
    grade_case("no keys at all (len 0)");
    const Case none = make_case(0, 3, 1.0f, 5.0f);
    fill(&none, 42, 1.0f);
    check_case(&none);
}

static void test_visible_nan(void) {
    for (int capped = 0; capped < 2; capped++) {
        for (int64_t len = 1; len <= 3; len++) {
            grade_case("%lld visible keys, then a hidden one, cap %d; NaN in the first key",
                       (long long)len, 5 * capped);
            Case c = make_case(len + 1, 2, 1.0f, 5.0f * (float)capped);
            fill(&c, 51, 1.0f);
            c.row.visible.end = len;
            c.k[1] = NAN;
            const float lse = call(&c);
            if (!isnan(lse) || !isnan(c.o[0]) || !isnan(c.o[1])) {
                grade_fail("LSE %g, o = (%g, %g): expected NaN in all three", (double)lse,
                           (double)c.o[0], (double)c.o[1]);
            }
            expect_close("the hidden key's probability", (double)c.probs[len], 0.0, 0.0);
        }
    }
}

const GradeTest grade_tests[] = {
    {"capped_pair", 1, false, test_capped_pair,
     "The score is cap * tanh(scale * q.k / cap): scale first, divide by the cap inside tanh, "
     "multiply by it outside."},
    {"no_cap_scales_once", 1, false, test_no_cap_scales_once,
     "probs[0] is 0.634 when the scale is applied twice, 0.9 when never, and o[0] 0.375 or 0.45 "
     "when it is "
     "applied after the softmax. A cap of 0 must not be divided by."},
    {"padding_gets_no_weight", 2, false, test_padding_gets_no_weight,
     "cap * tanh(-inf / cap) is -cap, a finite score: cap first, then put -inf in the place of "
     "the hidden keys. The LSE must not count them either."},
    {"padding_holds_nan", 1, false, test_padding_holds_nan,
     "A hidden key must not be read at all: 0 * NaN and 0 * inf are NaN, in the scores and in the "
     "sum over V."},
    {"range_in_the_middle", 1, false, test_range_in_the_middle,
     "The visible keys are begin to end - 1; they need not start at key 0."},
    {"saturated", 1, false, test_saturated,
     "Far beyond the cap tanh is 1 or -1, so these scores are the cap or its negative. Call "
     "tanhf: exp(2x) overflows when tanh is built from it."},
    {"large_scores", 1, false, test_large_scores,
     "exp(89) overflows. A cap beyond 88 does not make exp safe, nor does a cap of 0: take the "
     "maximum off before exp."},
    {"very_negative_scores", 1, false, test_very_negative_scores,
     "The maximum may be far below 0: start it at -INFINITY."},
    {"odd_sizes", 1, false, test_odd_sizes,
     "Small cases pass, so look at the row offsets (key j starts at k + j * dim) and at loops "
     "that leave out the last column or the last key."},
    {"nothing_visible", 1, true, test_nothing_visible,
     "With no visible key the sum is 0: 0 / 0 is NaN. Write 0 to probs and to o, and return "
     "-INFINITY."},
    {"visible_nan", 1, true, test_visible_nan,
     "A NaN that the row may see must not be mistaken for an empty row: recognise that by the "
     "sum, which is NaN here, and not by the maximum, which passes over NaN. A hidden key's "
     "probability stays 0: 0 / NaN is NaN."},
    {NULL, 0, false, NULL, NULL},
};
