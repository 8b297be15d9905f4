// Chapter 1: naive attention against the golden tensors, the known answers and the oracle; its
// workspace, its NaN rules, the bytes its passes touch, and the numbers that the lesson quotes.
#include "chapters/ch01_naive/naive.h"

#include "common/model.h"
#include "common/report.h"
#include "common/touch.h"
#include "tests/unit/kernel_suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SWEEP_PARTS = 8, SWEEP_PROBLEMS = 60 }; // 480 random problems

// ---- the shared suite ---------------------------------------------------------------------------

// naive_attention with a poisoned workspace of exactly the size it asks for.
static AttnStatus run_naive(const AttnShape *shape, const Tensor *q, const Tensor *k,
                            const Tensor *v, Tensor *o, Tensor *lse, const void *config) {
    (void)config;
    const bool legal = attn_check_shape(shape) == ATTN_OK;
    const int64_t floats = legal ? (int64_t)naive_workspace_floats(shape) : 1;
    Tensor workspace;
    AttnStatus status = tensor_alloc(&workspace, DTYPE_F32, 1, &floats);
    if (status == ATTN_OK) {
        status =
            naive_attention(shape, q->data, k->data, v->data, o->data, lse->data, workspace.data);
        ck_assert_msg(tensor_guards_intact(&workspace), "written outside the workspace");
    }
    tensor_free(&workspace);
    return status;
}

static const KernelUnderTest kernel = {.name = "naive", .run = run_naive};

START_TEST(golden) {
    kernel_suite_golden(&kernel);
}
END_TEST

START_TEST(known_answer) {
    kernel_suite_case(&kernel, kernel_suite_case_name((size_t)_i));
}
END_TEST

START_TEST(random_sweep) {
    kernel_suite_random(&kernel, 101, (int64_t)_i * SWEEP_PROBLEMS, SWEEP_PROBLEMS);
}
END_TEST

START_TEST(illegal_shapes) {
    kernel_suite_errors(&kernel);
}
END_TEST

START_TEST(storage_types) {
    kernel_suite_dtype(&kernel, DTYPE_F16);
    kernel_suite_dtype(&kernel, DTYPE_BF16);
}
END_TEST

// ---- the workspace ------------------------------------------------------------------------------

START_TEST(workspace_is_two_matrices) {
    AttnShape shape = {7, 32, 8, 33, 70, 128, 0, false, 0, NULL};
    ck_assert_uint_eq(naive_workspace_floats(&shape), 2 * 33 * 70); // whatever batch and heads are
    shape.len_q = shape.len_kv = 131072;
    ck_assert_uint_eq(naive_workspace_floats(&shape), (size_t)1 << 35); // beyond 32 bits
    shape.len_kv = 0;
    ck_assert_uint_eq(naive_workspace_floats(&shape), 0);
}
END_TEST

enum { ROWS = 9, KEYS = 6, DIM = 5 };

// One head of ROWS queries and KEYS keys, causal: the first three rows see nothing.
typedef struct Small {
    AttnShape shape;
    float q[ROWS * DIM], k[KEYS * DIM], v[KEYS * DIM], o[ROWS * DIM], lse[ROWS];
    float workspace[2 * ROWS * KEYS];
} Small;

static Small small_problem(void) {
    Small small = {.shape = {1, 1, 1, ROWS, KEYS, DIM, 0, true, 0, NULL}};
    for (int e = 0; e < ROWS * DIM; e++) {
        small.q[e] = sinf((float)e);
        small.o[e] = NAN;
    }
    for (int e = 0; e < KEYS * DIM; e++) {
        small.k[e] = cosf(2 * (float)e);
        small.v[e] = (float)e;
    }
    for (int e = 0; e < ROWS; e++) {
        small.lse[e] = NAN;
    }
    for (int e = 0; e < 2 * ROWS * KEYS; e++) {
        small.workspace[e] = NAN;
    }
    return small;
}

static AttnStatus run_small(Small *small) {
    return naive_attention(&small->shape, small->q, small->k, small->v, small->o, small->lse,
                           small->workspace);
}

START_TEST(workspace_holds_scores_and_probabilities) {
    Small small = small_problem();
    ck_assert_int_eq(run_small(&small), ATTN_OK);
    for (int i = 0; i < ROWS; i++) {
        const float *s = small.workspace + i * KEYS;
        const float *p = small.workspace + ROWS * KEYS + i * KEYS;
        double sum = 0;
        for (int j = 0; j < KEYS; j++) {
            const bool visible = j <= i + KEYS - ROWS;
            ck_assert_msg(visible ? (bool)isfinite(s[j]) : s[j] == -INFINITY,
                          "score of row %d, key %d is %g", i, j, (double)s[j]);
            ck_assert_msg(visible ? p[j] > 0 : p[j] == 0, "probability of row %d, key %d is %g", i,
                          j, (double)p[j]);
            if (visible) { // every weight can be had back from the score and the LSE
                ck_assert_double_eq_tol(p[j], exp((double)s[j] - (double)small.lse[i]), 1e-6);
            }
            sum += p[j];
        }
        ck_assert_double_eq_tol(sum, i < ROWS - KEYS ? 0 : 1, 1e-6);
        ck_assert(i < ROWS - KEYS ? small.lse[i] == -INFINITY : (bool)isfinite(small.lse[i]));
    }
}
END_TEST

START_TEST(null_pointers_are_refused) {
    for (int missing = 0; missing < 6; missing++) {
        static const char *const names[6] = {"q", "k", "v", "o", "lse", "workspace"};
        Small small = small_problem();
        const AttnStatus status = naive_attention(
            &small.shape, missing == 0 ? NULL : small.q, missing == 1 ? NULL : small.k,
            missing == 2 ? NULL : small.v, missing == 3 ? NULL : small.o,
            missing == 4 ? NULL : small.lse, missing == 5 ? NULL : small.workspace);
        ck_assert_int_eq(status, ATTN_ERR_ARGUMENT);
        ck_assert_ptr_nonnull(strstr(attn_last_error(), names[missing]));
        for (int e = 0; e < ROWS * DIM; e++) {
            ck_assert(isnan(small.o[e]) && isnan(small.lse[e % ROWS]));
        }
    }
    // Without keys K, V and the workspace have no elements, and may be null.
    Small small = small_problem();
    small.shape.len_kv = 0;
    ck_assert_int_eq(naive_attention(&small.shape, small.q, NULL, NULL, small.o, small.lse, NULL),
                     ATTN_OK);
    for (int e = 0; e < ROWS * DIM; e++) {
        ck_assert(small.o[e] == 0 && small.lse[e % ROWS] == -INFINITY);
    }
}
END_TEST

// ---- NaN ----------------------------------------------------------------------------------------

// Rows from `first` on are NaN in O (column `column`, or all when it is -1), the others are not.
static void expect_nan_from(const Small *small, int first, int column) {
    for (int i = 0; i < ROWS; i++) {
        for (int c = 0; c < DIM; c++) {
            const bool expected = i >= first && (column < 0 || c == column);
            ck_assert_msg((bool)isnan(small->o[i * DIM + c]) == expected, "O[%d][%d] is %g", i, c,
                          (double)small->o[i * DIM + c]);
        }
    }
}

START_TEST(nan_in_a_visible_key_reaches_its_rows_only) {
    const int key = 2, first_row = key + ROWS - KEYS;
    Small small = small_problem();
    small.k[key * DIM + 1] = NAN;
    ck_assert_int_eq(run_small(&small), ATTN_OK);
    expect_nan_from(&small, first_row, -1);
    for (int i = 0; i < ROWS; i++) {
        ck_assert((bool)isnan(small.lse[i]) == (i >= first_row));
    }
}
END_TEST

START_TEST(nan_reaches_a_row_that_sees_nothing_else) {
    Small small = small_problem();
    small.k[0] = NAN; // row ROWS - KEYS sees this key alone
    ck_assert_int_eq(run_small(&small), ATTN_OK);
    expect_nan_from(&small, ROWS - KEYS, -1);
    ck_assert(isnan(small.lse[ROWS - KEYS]));
}
END_TEST

START_TEST(nan_in_a_value_of_weight_zero_reaches_its_rows) {
    const int key = 1, first_row = key + ROWS - KEYS;
    Small small = small_problem();
    for (int i = 0; i < ROWS; i++) {
        small.q[i * DIM] = 1;
    }
    small.k[0] = 1e5F; // key 0 takes all the weight
    small.k[key * DIM] = -1e5F;
    small.v[key * DIM + 3] = NAN;
    ck_assert_int_eq(run_small(&small), ATTN_OK);
    ck_assert_float_eq(small.workspace[ROWS * KEYS + first_row * KEYS + key], 0);
    expect_nan_from(&small, first_row, 3);
    for (int i = ROWS - KEYS; i < ROWS; i++) {
        ck_assert(isfinite(small.lse[i]));
    }
}
END_TEST

// ---- bytes --------------------------------------------------------------------------------------

// Bytes that one pass touches in each buffer, as `expected` says.
static void expect_touched(const char *pass, const TouchBuffer *buffers, const size_t *expected) {
    static const char *const names[7] = {"Q", "K", "V", "S", "P", "O", "LSE"};
    for (int t = 0; t < 7; t++) {
        ck_assert_msg(buffers[t].touched == expected[t], "%s touched %zu bytes of %s, not %zu",
                      pass, buffers[t].touched, names[t], expected[t]);
    }
}

START_TEST(passes_touch_what_the_model_counts) {
    const size_t n = 192, d = 64;
    const size_t tensor = n * d * sizeof(float), matrix = n * n * sizeof(float);
    const size_t row = n * sizeof(float);
    const AttnShape shape = {1, 1, 1, (int64_t)n, (int64_t)n, (int64_t)d, 0, false, 0, NULL};
    const size_t sizes[7] = {tensor, tensor, tensor, matrix, matrix, tensor, row};
    TouchBuffer buffers[7];
    for (int t = 0; t < 7; t++) {
        ck_assert_int_eq(touch_alloc(&buffers[t], sizes[t]), ATTN_OK);
    }
    const float *q = buffers[0].data, *k = buffers[1].data, *v = buffers[2].data;
    float *scores = buffers[3].data, *probs = buffers[4].data, *o = buffers[5].data;
    double touched = 0;

    ck_assert_int_eq(touch_begin(buffers, 7), ATTN_OK);
    naive_scores(&shape, 0, q, k, scores);
    touch_end();
    expect_touched("scores", buffers, (size_t[7]){tensor, tensor, 0, matrix, 0, 0, 0});
    for (int t = 0; t < 6; t++) {
        touched += (double)buffers[t].touched;
    }
    ck_assert_int_eq(touch_begin(buffers, 7), ATTN_OK);
    naive_softmax(&shape, scores, probs, buffers[6].data);
    touch_end();
    expect_touched("softmax", buffers, (size_t[7]){0, 0, 0, matrix, matrix, 0, row});
    for (int t = 0; t < 6; t++) {
        touched += (double)buffers[t].touched;
    }
    ck_assert_int_eq(touch_begin(buffers, 7), ATTN_OK);
    naive_weighted_sum(&shape, 0, probs, v, o);
    touch_end();
    expect_touched("weighted sum", buffers, (size_t[7]){0, 0, tensor, 0, matrix, tensor, 0});
    for (int t = 0; t < 6; t++) {
        touched += (double)buffers[t].touched;
    }
    ck_assert_double_eq(touched, sizeof(float) * naive_hbm_elements((double)n, (double)d, false));
    for (int t = 0; t < 7; t++) {
        touch_free(&buffers[t]);
    }
}
END_TEST

// ---- the cards ----------------------------------------------------------------------------------

// The lesson's numbers: one head, N = 8192, d = 128, 2 bytes an element.
START_TEST(card_numbers) {
    const double n = 8192, d = 128, bytes = 2, mib = 1024 * 1024;
    const double naive = bytes * naive_hbm_elements(n, d, false);
    const double compulsory = bytes * compulsory_elements(n, d);
    const double flops = attention_flops(n, n, d);
    ck_assert_double_eq(bytes * score_elements(n), 128 * mib);
    ck_assert_double_eq(naive, 520 * mib);
    ck_assert_double_eq(naive, bytes * (4 * n * n + 4 * n * d));
    ck_assert_double_eq(compulsory, 8 * mib);
    ck_assert_double_eq(compulsory, bytes * 4 * n * d);
    ck_assert_double_eq(flops, 4 * n * n * d);
    ck_assert_double_eq_tol(flops, 34.4e9, 0.05e9);
    ck_assert_double_eq(arithmetic_intensity(flops, compulsory), 4096);
    ck_assert_double_eq(arithmetic_intensity(flops, compulsory), n / 2);
    ck_assert_double_eq_tol(arithmetic_intensity(flops, naive), 63, 0.05);

    const AttnShape head = {1, 1, 1, 8192, 8192, 128, 0, false, 0, NULL};
    ck_assert_double_eq((double)naive_workspace_floats(&head), 2 * score_elements(n));
    ck_assert_double_eq(bytes * (double)naive_workspace_floats(&head), 256 * mib);
}
END_TEST

// A model of 32 layers and 32 heads: the four trips of S and P, and the time at a data sheet's
// rate.
START_TEST(model_card_numbers) {
    const double total = 32.0 * 32.0 * 2 * 4 * score_elements(8192);
    const double compute = 32.0 * 32.0 * attention_flops(8192, 8192, 128) / 989e12;
    char text[32];
    ck_assert_double_eq_tol(total, 549.8e9, 0.05e9);
    ck_assert_double_eq_tol(seconds_at(total, 3.35e12), 164e-3, 0.5e-3);
    ck_assert_double_eq_tol(compute, 36e-3, 0.5e-3);
    ck_assert_str_eq(format_si(text, total, "B"), "549.8 GB");
    ck_assert_str_eq(format_seconds(text, seconds_at(total, 3.35e12)), "164 ms");
}
END_TEST

// The scores 1, 2, 3 of the lesson.
START_TEST(worked_example) {
    const AttnShape shape = {1, 1, 1, 1, 3, 1, 1.0, false, 0, NULL};
    const float q = 1, k[3] = {1, 2, 3}, v[3] = {0, 0, 1};
    float o, lse, workspace[6];
    ck_assert_int_eq(naive_attention(&shape, &q, k, v, &o, &lse, workspace), ATTN_OK);
    ck_assert_double_eq_tol(workspace[3], 0.090, 5e-4);
    ck_assert_double_eq_tol(workspace[4], 0.245, 5e-4);
    ck_assert_double_eq_tol(workspace[5], 0.665, 5e-4);
    ck_assert_double_eq_tol(o, 0.665, 5e-4);
    ck_assert_double_eq_tol(lse, 3.408, 5e-4);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ch01");
    TCase *tests = tcase_create("naive");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, worked_example);
    tcase_add_test(tests, golden);
    tcase_add_loop_test(tests, known_answer, 0, (int)kernel_suite_case_count());
    tcase_add_loop_test(tests, random_sweep, 0, SWEEP_PARTS);
    tcase_add_test(tests, illegal_shapes);
    tcase_add_test(tests, storage_types);
    tcase_add_test(tests, workspace_is_two_matrices);
    tcase_add_test(tests, workspace_holds_scores_and_probabilities);
    tcase_add_test(tests, null_pointers_are_refused);
    tcase_add_test(tests, nan_in_a_visible_key_reaches_its_rows_only);
    tcase_add_test(tests, nan_reaches_a_row_that_sees_nothing_else);
    tcase_add_test(tests, nan_in_a_value_of_weight_zero_reaches_its_rows);
    tcase_add_test(tests, passes_touch_what_the_model_counts);
    tcase_add_test(tests, card_numbers);
    tcase_add_test(tests, model_card_numbers);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
