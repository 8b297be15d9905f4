// The suite of lab 1, the softmax of a masked row: each test against a float64 reference.
#include "exercises/ch01/labs.h"
#include "tests/grade/grade.h"

#include <math.h>
#include <stdio.h>

const char grade_title[] = "masked softmax of a row";

// A row in guarded memory, and what a learner's function made of it.
typedef struct Row {
    int64_t len;
    float *scores;
    bool *visible;
    float *probs;
} Row;

// A row of `len` keys, all visible, with no scores yet.
static Row make_row(int64_t len) {
    Row row = {len, grade_floats((size_t)len), grade_alloc((size_t)len), NULL};

    row.probs = grade_floats((size_t)len);
    for (int64_t j = 0; j < len; j++) {
        row.visible[j] = true;
    }
    return row;
}

static Row row_of(int64_t len, const float *scores) {
    Row row = make_row(len);

    for (int64_t j = 0; j < len; j++) {
        row.scores[j] = scores[j];
    }
    return row;
}

static void hide(const Row *row, int64_t j, float score) {
    row->visible[j] = false;
    row->scores[j] = score;
}

// The reference: max, sum and quotients in float64.
static double reference_max(const Row *row) {
    double m = -INFINITY;

    for (int64_t j = 0; j < row->len; j++) {
        m = row->visible[j] ? fmax(m, (double)row->scores[j]) : m;
    }
    return m;
}

// exp(score - m) of key j, 0 where it is hidden or where no key is above -inf.
static double reference_exp(const Row *row, int64_t j, double m) {
    return row->visible[j] && m > -INFINITY ? exp((double)row->scores[j] - m) : 0.0;
}

// Calls the learner's function on inputs that it must leave as they are.
static float call(const Row *row) {
    grade_freeze("scores", row->scores, sizeof(float));
    grade_freeze("visible", row->visible, sizeof(bool));
    return masked_softmax(row->scores, row->visible, row->len, row->probs);
}

// Calls the learner's function and checks the LSE and every probability.
//
// Tolerance, with u = 2^-24, half the distance from 1 to the next float: score - m is rounded once,
// which multiplies its exponential by 1 + |score - m| u; the exponential itself, the division and
// the logarithm are a few u off; a sum of n terms in any order is at most n u off. So a probability
// is right within (|score - m| + n + 16) u of itself, and the LSE, whose last step is m + log(l),
// within (n + 16 + |LSE|) u. FLT_MIN lets probabilities below the normal floats be rounded.
static void check_row(const Row *row) {
    const double u = 0x1p-24, tiny = 0x1p-126;
    const double m = reference_max(row);
    double l = 0.0;
    char name[32];

    const float lse = call(row);
    for (int64_t j = 0; j < row->len; j++) {
        l += reference_exp(row, j, m);
    }
    for (int64_t j = 0; j < row->len; j++) {
        const double p = l > 0.0 ? reference_exp(row, j, m) / l : 0.0;
        const double distance = p > 0.0 ? m - (double)row->scores[j] : 0.0;
        const double relative = (distance + (double)row->len + 16) * u;
        snprintf(name, sizeof(name), "probs[%lld]", (long long)j);
        expect_close(name, (double)row->probs[j], p, row->visible[j] ? p * relative + tiny : 0.0);
    }
    const double want = l > 0.0 ? m + log(l) : -INFINITY;
    expect_close("LSE", (double)lse, want, ((double)row->len + 16 + fabs(want)) * u);
}

// ---- the tests ----------------------------------------------------------------------------------

static void test_three_keys(void) {
    const Row row = row_of(3, (const float[]){1, 2, 3});

    grade_case("scores 1, 2, 3; the middle one hidden");
    row.visible[1] = false;
    check_row(&row);
}

static void test_hidden_maximum(void) {
    const Row row = row_of(4, (const float[]){-1.5f, 0.25f, 0, 0.75f});

    grade_case("scores -1.5, 0.25, 200, 0.75; the 200 hidden");
    hide(&row, 2, 200);
    check_row(&row);
}

static void test_hidden_garbage(void) {
    const float garbage[] = {NAN, INFINITY, -INFINITY, 3e38f};

    for (size_t g = 0; g < sizeof(garbage) / sizeof(garbage[0]); g++) {
        const Row row = row_of(6, (const float[]){0, 0.5f, 0, -2, 1.25f, 0});
        grade_case("6 keys; keys 0, 2 and 5 hidden, with %g as their scores", (double)garbage[g]);
        hide(&row, 0, garbage[g]);
        hide(&row, 2, garbage[g]);
        hide(&row, 5, garbage[g]);
        check_row(&row);
    }
}

static void test_large_scores(void) {
    grade_case("scores 1000, 999");
    const Row steep = row_of(2, (const float[]){1000, 999});
    check_row(&steep);
    grade_case("scores 350, 348.5, 349 and -350; key 1 hidden");
    const Row mixed = row_of(4, (const float[]){350, 348.5f, 349, -350});
    mixed.visible[1] = false;
    check_row(&mixed);
}

static void test_very_negative_scores(void) {
    const float tops[] = {-20, -1000, -60000};

    for (size_t t = 0; t < sizeof(tops) / sizeof(tops[0]); t++) {
        const float top = tops[t];
        grade_case("scores %g, %g, 0 and %g; the 0 hidden", (double)top, (double)top - 1,
                   (double)top - 2);
        const Row row = row_of(4, (const float[]){top, top - 1, 0, top - 2});
        row.visible[2] = false;
        check_row(&row);
    }
}

static void test_minus_infinity_visible(void) {
    grade_case("scores -inf, 0.5, -inf, 1; all visible");
    const Row some = row_of(4, (const float[]){-INFINITY, 0.5f, -INFINITY, 1});
    check_row(&some);
    grade_case("scores -inf, -inf, 7; the 7 hidden: nothing above -inf is visible");
    const Row none = row_of(3, (const float[]){-INFINITY, -INFINITY, 7});
    none.visible[2] = false;
    check_row(&none);
}

// Behind the row lies what a read too far would take: visible keys with large scores.
static void test_ends_at_len(void) {
    enum { LEN = 5, BEHIND = 4 };
    Row row = make_row(LEN + BEHIND);

    for (int64_t j = 0; j < row.len; j++) {
        row.scores[j] = j < LEN ? 0.5f * (float)j : 90.0f;
    }
    grade_case("a row of 5 keys, followed in memory by 4 keys of score 90 that are not its own");
    row.len = LEN;
    check_row(&row);
    for (int64_t j = LEN; j < LEN + BEHIND; j++) {
        if (!isnan(row.probs[j])) {
            grade_fail("probs[%lld] was written; the row ends at probs[%d]", (long long)j, LEN - 1);
        }
    }
}

static void test_odd_lengths(void) {
    const int64_t lens[] = {1, 2, 31, 33, 1000};

    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        for (int first = 0; first < 2; first++) {
            const Row row = make_row(lens[i]);
            grade_case("len %lld; every third key from key %d on visible, the others hidden",
                       (long long)lens[i], first);
            for (int64_t j = 0; j < row.len; j++) {
                row.scores[j] = 2.0f + 4.0f * grade_normal(11 + i, (uint64_t)j);
                row.visible[j] = j % 3 == first;
            }
            check_row(&row);
        }
    }
}

static void test_nothing_visible(void) {
    const Row row = row_of(5, (const float[]){1, NAN, -4, INFINITY, -INFINITY});

    grade_case("5 keys, all hidden");
    for (int64_t j = 0; j < row.len; j++) {
        row.visible[j] = false;
    }
    check_row(&row);
    grade_case("a row of no keys at all (len 0)");
    const Row none = make_row(0);
    check_row(&none);
}

static void test_visible_nan(void) {
    for (int64_t len = 1; len <= 4; len++) {
        const Row row = row_of(len + 1, (const float[]){NAN, 3, -INFINITY, 0, 0});
        grade_case("the first %lld of the scores NaN, 3, -inf, 0, visible; then a hidden key",
                   (long long)len);
        hide(&row, len, 5);
        const float lse = call(&row);
        if (!isnan(lse)) {
            grade_fail("LSE: got %g, expected NaN", (double)lse);
        }
        for (int64_t j = 0; j < len; j++) {
            if (!isnan(row.probs[j])) {
                grade_fail("probs[%lld]: got %g, expected NaN", (long long)j, (double)row.probs[j]);
            }
        }
        expect_close("the hidden key's probability", (double)row.probs[len], 0.0, 0.0);
    }
}

const GradeTest grade_tests[] = {
    {"three_keys", 1, false, test_three_keys,
     "The sum runs over the visible keys alone; each exponential is divided by it, and the LSE is "
     "m + log(sum), a natural logarithm."},
    {"hidden_maximum", 1, false, test_hidden_maximum,
     "The maximum must be the largest visible score: a hidden one that is larger pushes every "
     "visible exponential towards 0."},
    {"hidden_garbage", 1, false, test_hidden_garbage,
     "Choose (visible ? value : 0); do not multiply by 0 or add -inf, since 0 * NaN and inf - inf "
     "are NaN."},
    {"large_scores", 1, false, test_large_scores,
     "exp(89) overflows a float already. Take the maximum off before exp, not after."},
    {"very_negative_scores", 1, false, test_very_negative_scores,
     "The maximum may be far below 0: start it at -INFINITY, neither at 0 nor at a number that "
     "seems small enough, and do not take absolute values."},
    {"minus_infinity_visible", 1, false, test_minus_infinity_visible,
     "A visible score of -inf has probability 0. When all of them are -inf, m is -inf, and "
     "-inf - -inf is NaN: guard the argument of exp."},
    {"ends_at_len", 1, false, test_ends_at_len,
     "The row is scores[0] to scores[len - 1]: look at the bounds of each of your loops."},
    {"odd_lengths", 1, false, test_odd_lengths,
     "Small cases pass, so look at lengths that are no multiple of anything, rows of one key, and "
     "rows whose visible keys start or end somewhere else than the row."},
    {"nothing_visible", 1, true, test_nothing_visible,
     "With no visible key the sum is 0: 0 / 0 is NaN. Return -INFINITY, and write 0 to every "
     "entry of probs."},
    {"visible_nan", 1, true, test_visible_nan,
     "Every comparison with NaN is false, so the maximum passes over it and may stay -INFINITY. "
     "Recognise the empty row by its sum, not by its maximum, and let NaN through to the visible "
     "keys. A hidden key stays 0: 0 / NaN is NaN."},
    {NULL, 0, false, NULL, NULL},
};
