// Chapter 2: the online update on its own, and the steps that lead to it in the lesson. Attention
// built on it is tested in test_ch02.c.
#include "chapters/ch02_online_softmax/online.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 96, DIM = 8 };

// ---- rows for the tests of the update ----------------------------------------------------------

// A seeded row: scores spread over about [-6, 6] around `centre`, values around 0.3.
typedef struct TestRow {
    float scores[KEYS];
    float v[KEYS * DIM];
} TestRow;

static float uniform(uint64_t *state) {
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (float)(*state >> 40) / 16777216.0F;
}

static void fill_row(TestRow *row, uint64_t seed, float centre) {
    uint64_t state = seed;
    for (int j = 0; j < KEYS; j++) {
        row->scores[j] = centre + 12.0F * (uniform(&state) - 0.5F);
    }
    for (int e = 0; e < KEYS * DIM; e++) {
        row->v[e] = 0.3F + 2.0F * (uniform(&state) - 0.5F);
    }
}

// Softmax and log-sum-exp of `count` keys in float64.
static double exact_row(const float *scores, const float *v, int count, double *o) {
    double m = -INFINITY, l = 0;
    for (int j = 0; j < count; j++) {
        m = fmax(m, (double)scores[j]);
    }
    memset(o, 0, DIM * sizeof(*o));
    for (int j = 0; j < count; j++) {
        const double p = exp((double)scores[j] - m);
        l += p;
        for (int c = 0; c < DIM; c++) {
            o[c] += p * (double)v[j * DIM + c];
        }
    }
    for (int c = 0; c < DIM; c++) {
        o[c] /= l;
    }
    // cppcheck-suppress invalidFunctionArg ; count is at least 1, so l is too
    return m + log(l);
}

// |got - want| within `units` float32 rounding units of 1 + |want|; false for NaN.
static bool near(double got, double want, double units) {
    return fabs(got - want) <= units * 0x1p-24 * (1 + fabs(want));
}

static void assert_row(const float *o, float lse, const double *want_o, double want_lse,
                       double units, const char *what) {
    ck_assert_msg(near((double)lse, want_lse, units), "%s: lse %.9g, expected %.9g", what,
                  (double)lse, want_lse);
    for (int c = 0; c < DIM; c++) {
        ck_assert_msg(near((double)o[c], want_o[c], units), "%s: o[%d] %.9g, expected %.9g", what,
                      c, (double)o[c], want_o[c]);
    }
}

// ---- the cards ---------------------------------------------------------------------------------

START_TEST(card_numbers) {
    const float scores[] = {1, 2, 3};
    const float identity[] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    float acc[3], weights[3];
    OnlineState state;
    online_softmax_begin(&state, acc, 3);
    online_softmax_update(&state, scores, identity, 2);
    ck_assert_float_eq(state.m, 2.0F);
    ck_assert_double_eq_tol((double)state.l, 1.368, 5e-4);
    ck_assert_double_eq_tol((double)state.l, exp(-1.0) + 1, 1e-7);
    const float l_before = state.l;
    online_softmax_update(&state, scores + 2, identity + 6, 1);
    ck_assert_float_eq(state.m, 3.0F);
    ck_assert_double_eq_tol(((double)state.l - 1) / (double)l_before, 0.368, 5e-4); // alpha
    ck_assert_double_eq_tol((double)state.l, 1.503, 5e-4);
    const float lse = online_softmax_end(&state, weights);
    ck_assert_double_eq_tol((double)weights[0], 0.090, 5e-4);
    ck_assert_double_eq_tol((double)weights[1], 0.245, 5e-4);
    ck_assert_double_eq_tol((double)weights[2], 0.665, 5e-4);
    ck_assert_double_eq_tol((double)lse, 3.408, 5e-4);
}
END_TEST

// ---- the update --------------------------------------------------------------------------------

// After every key the state is the state of the keys so far: the induction of the lesson.
START_TEST(update_keeps_its_invariant) {
    TestRow row;
    fill_row(&row, 1, 0);
    float acc[DIM];
    OnlineState state;
    online_softmax_begin(&state, acc, DIM);
    for (int j = 0; j < KEYS; j++) {
        online_softmax_update(&state, row.scores + j, row.v + j * DIM, 1);
        float m = -INFINITY, o[DIM];
        double want_o[DIM];
        for (int i = 0; i <= j; i++) {
            m = fmaxf(m, row.scores[i]);
        }
        ck_assert_float_eq(state.m, m);
        ck_assert(state.l >= 1.0F);
        const double want_lse = exact_row(row.scores, row.v, j + 1, want_o);
        const float lse = online_softmax_end(&state, o);
        assert_row(o, lse, want_o, want_lse, 16, "prefix");
    }
}
END_TEST

// Any cut of the keys into blocks, empty ones among them, gives the same answer.
START_TEST(update_any_split) {
    TestRow row;
    double want_o[DIM];
    uint64_t random = 7;
    for (uint64_t seed = 0; seed < 200; seed++) {
        fill_row(&row, seed, seed % 2 == 0 ? 0.0F : -300.0F);
        const double want_lse = exact_row(row.scores, row.v, KEYS, want_o);
        float acc[DIM], o[DIM];
        OnlineState state;
        online_softmax_begin(&state, acc, DIM);
        for (int j = 0; j < KEYS;) {
            int count = (int)(uniform(&random) * 20.0F);
            count = count < KEYS - j ? count : KEYS - j;
            online_softmax_update(&state, row.scores + j, row.v + j * DIM, count);
            j += count;
        }
        const float lse = online_softmax_end(&state, o);
        assert_row(o, lse, want_o, want_lse, 24, "split");
    }
}
END_TEST

// The blocks in any order give the same answer.
START_TEST(update_any_order) {
    enum { BLOCK = 8, BLOCKS = KEYS / BLOCK };
    TestRow row;
    double want_o[DIM];
    uint64_t random = 3;
    for (uint64_t seed = 0; seed < 100; seed++) {
        fill_row(&row, seed, 0);
        const double want_lse = exact_row(row.scores, row.v, KEYS, want_o);
        int order[BLOCKS] = {0};
        for (int b = 0; b < BLOCKS; b++) {
            const int at = (int)(uniform(&random) * (float)(b + 1)); // 0..b
            order[b] = order[at];
            order[at] = b;
        }
        float acc[DIM], o[DIM];
        OnlineState state;
        online_softmax_begin(&state, acc, DIM);
        for (int b = 0; b < BLOCKS; b++) {
            const int first = order[b] * BLOCK;
            online_softmax_update(&state, row.scores + first, row.v + first * DIM, BLOCK);
        }
        const float lse = online_softmax_end(&state, o);
        assert_row(o, lse, want_o, want_lse, 24, "order");
    }
}
END_TEST

// A block of no keys leaves every bit of the state, before the first key and after.
START_TEST(update_empty_block) {
    TestRow row;
    fill_row(&row, 5, 0);
    float acc[DIM], before[DIM];
    OnlineState state;
    online_softmax_begin(&state, acc, DIM);
    online_softmax_update(&state, row.scores, row.v, 0);
    ck_assert(state.m == -INFINITY && state.l == 0.0F);
    online_softmax_update(&state, row.scores, row.v, 13);
    const OnlineState saved = state;
    memcpy(before, acc, sizeof(acc));
    online_softmax_update(&state, row.scores, row.v, 0);
    ck_assert(state.m == saved.m && state.l == saved.l);
    ck_assert_mem_eq(acc, before, sizeof(acc));
}
END_TEST

// Blocks of -inf: nothing changes, wherever they come, and m is still -inf before the first score.
START_TEST(update_masked_block) {
    TestRow row;
    fill_row(&row, 6, -200);
    float masked[16], acc[DIM], o[DIM];
    double want_o[DIM];
    for (int j = 0; j < 16; j++) {
        masked[j] = -INFINITY;
    }
    OnlineState state;
    online_softmax_begin(&state, acc, DIM);
    online_softmax_update(&state, masked, row.v, 16);
    ck_assert(state.m == -INFINITY && state.l == 0.0F);
    ck_assert(online_softmax_end(&state, o) == -INFINITY);
    for (int c = 0; c < DIM; c++) {
        ck_assert(o[c] == 0.0F);
    }
    online_softmax_update(&state, row.scores, row.v, KEYS);
    online_softmax_update(&state, masked, row.v, 16);
    const double want_lse = exact_row(row.scores, row.v, KEYS, want_o);
    const float lse = online_softmax_end(&state, o);
    assert_row(o, lse, want_o, want_lse, 24, "masked");
}
END_TEST

// The largest score comes first; a later block of small scores must not lower the maximum.
START_TEST(update_maximum_never_falls) {
    const float scores[] = {100, 0}, v[] = {1, 5};
    float acc[1], o[1];
    OnlineState state;
    online_softmax_begin(&state, acc, 1);
    online_softmax_update(&state, scores, v, 1);
    online_softmax_update(&state, scores + 1, v + 1, 1);
    ck_assert_float_eq(state.m, 100.0F);
    ck_assert_float_eq(online_softmax_end(&state, o), 100.0F);
    ck_assert_float_eq(o[0], 1.0F);
}
END_TEST

// NaN reaches the row from any place, and is not lost when a larger score follows.
START_TEST(update_nan) {
    for (int at = 0; at < 6; at++) {
        float scores[] = {1, 5, -INFINITY, 2, 7, 3}, v[] = {1, 2, 3, 4, 5, 6};
        float acc[1], o[1];
        scores[at] = NAN;
        for (int block = 1; block <= 6; block++) {
            OnlineState state;
            online_softmax_begin(&state, acc, 1);
            for (int j = 0; j < 6; j += block) {
                online_softmax_update(&state, scores + j, v + j, 6 - j < block ? 6 - j : block);
            }
            ck_assert(isnan(online_softmax_end(&state, o)));
            ck_assert(isnan(o[0]));
        }
    }
    const float all[] = {NAN, NAN}, v[] = {1, 2};
    float acc[1], o[1];
    OnlineState state;
    online_softmax_begin(&state, acc, 1);
    online_softmax_update(&state, all, v, 2);
    ck_assert(isnan(online_softmax_end(&state, o)));
    ck_assert(isnan(o[0]));
}
END_TEST

// ---- the steps of the lesson -------------------------------------------------------------------

START_TEST(steps_agree) {
    TestRow test;
    double want_o[DIM];
    const int64_t blocks[] = {1, 2, 7, 32, KEYS, 1000};
    for (uint64_t seed = 0; seed < 50; seed++) {
        fill_row(&test, seed, 0);
        const ScoreRow row = {test.scores, test.v, KEYS, DIM};
        float o[DIM], p[KEYS];
        RowCost cost;
        const double want_lse = exact_row(test.scores, test.v, KEYS, want_o);
        assert_row(o, row_unguarded(&row, o), want_o, want_lse, 24, "unguarded");
        assert_row(o, row_safe(&row, p, o), want_o, want_lse, 24, "safe");
        assert_row(o, row_by_element(&row, o, &cost), want_o, want_lse, 24, "by element");
        for (size_t b = 0; b < sizeof(blocks) / sizeof(blocks[0]); b++) {
            assert_row(o, row_by_block(&row, blocks[b], o, &cost), want_o, want_lse, 24, "block");
            assert_row(o, row_divide_each_block(&row, blocks[b], o, &cost), want_o, want_lse, 64,
                       "divide each block");
        }
    }
}
END_TEST

START_TEST(steps_cost) {
    TestRow test;
    fill_row(&test, 1, 0);
    const ScoreRow row = {test.scores, test.v, KEYS, DIM};
    float o[DIM];
    RowCost cost;
    row_by_element(&row, o, &cost);
    ck_assert_int_eq(cost.exps, 2 * KEYS);
    ck_assert_int_eq(cost.rescales, KEYS * (DIM + 1));
    ck_assert_int_eq(cost.divisions, DIM);
    row_by_block(&row, 40, o, &cost); // 40, 40, 16
    ck_assert_int_eq(cost.exps, KEYS + 3);
    ck_assert_int_eq(cost.rescales, 3 * (DIM + 1));
    ck_assert_int_eq(cost.divisions, DIM);
    row_divide_each_block(&row, 40, o, &cost);
    ck_assert_int_eq(cost.exps, KEYS + 3);
    ck_assert_int_eq(cost.divisions, 3 * DIM);
}
END_TEST

// Scores in the hundreds: unguarded overflows above and vanishes below, the others do not notice.
START_TEST(steps_large_scores) {
    TestRow test;
    double want_o[DIM];
    const float centres[] = {150, 1000, -150, -60000};
    for (size_t i = 0; i < sizeof(centres) / sizeof(centres[0]); i++) {
        fill_row(&test, i, centres[i]);
        const ScoreRow row = {test.scores, test.v, KEYS, DIM};
        float o[DIM], p[KEYS];
        RowCost cost;
        const double want_lse = exact_row(test.scores, test.v, KEYS, want_o);
        ck_assert(!isfinite(row_unguarded(&row, o)));
        assert_row(o, row_safe(&row, p, o), want_o, want_lse, 24, "safe");
        assert_row(o, row_by_element(&row, o, &cost), want_o, want_lse, 24, "by element");
        assert_row(o, row_by_block(&row, 16, o, &cost), want_o, want_lse, 24, "block");
    }
}
END_TEST

START_TEST(steps_without_keys) {
    const float masked[] = {-INFINITY, -INFINITY, -INFINITY}, v[3 * DIM] = {0};
    for (int64_t count = 0; count <= 3; count += 3) {
        const ScoreRow row = {masked, v, count, DIM};
        float o[DIM], p[3];
        RowCost cost;
        ck_assert(row_safe(&row, p, o) == -INFINITY && o[0] == 0.0F);
        ck_assert(row_by_element(&row, o, &cost) == -INFINITY && o[0] == 0.0F);
        ck_assert(row_by_block(&row, 2, o, &cost) == -INFINITY && o[0] == 0.0F);
        ck_assert(row_divide_each_block(&row, 2, o, &cost) == -INFINITY && o[0] == 0.0F);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ch02_update");
    TCase *tests = tcase_create("ch02_update");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, card_numbers);
    tcase_add_test(tests, update_keeps_its_invariant);
    tcase_add_test(tests, update_any_split);
    tcase_add_test(tests, update_any_order);
    tcase_add_test(tests, update_empty_block);
    tcase_add_test(tests, update_masked_block);
    tcase_add_test(tests, update_maximum_never_falls);
    tcase_add_test(tests, update_nan);
    tcase_add_test(tests, steps_agree);
    tcase_add_test(tests, steps_cost);
    tcase_add_test(tests, steps_large_scores);
    tcase_add_test(tests, steps_without_keys);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
