// Chapter 3: attention over split keys, at every split count and on several threads, against the
// oracle, the golden tensors and the known answers. The merge itself is in test_ch03.c.
#include "chapters/ch03_merge/merge.h"

#include "common/compare.h"
#include "tests/unit/kernel_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

// ---- split ranges -------------------------------------------------------------------------------

START_TEST(split_ranges) {
    for (int64_t count = 0; count <= 40; count++) {
        for (int64_t parts = 1; parts <= count + 5; parts++) {
            int64_t at = 0;
            for (int64_t p = 0; p < parts; p++) {
                const KeyRange range = split_range(count, parts, p);
                ck_assert(range.begin == at && range.end >= range.begin);
                ck_assert(range.end - range.begin <= (count + parts - 1) / parts);
                ck_assert(range.end - range.begin >= count / parts);
                at = range.end;
            }
            ck_assert_int_eq(at, count);
        }
    }
}
END_TEST

// ---- split attention ----------------------------------------------------------------------------

typedef struct SplitConfig {
    int64_t splits;
    int threads;
} SplitConfig;

static AttnStatus run_split(const AttnShape *shape, const Tensor *q, const Tensor *k,
                            const Tensor *v, Tensor *o, Tensor *lse, const void *config) {
    const SplitConfig *split = config;
    const bool legal = attn_check_shape(shape) == ATTN_OK;
    const int64_t floats = legal ? (int64_t)split_workspace_floats(shape, split->splits) : 1;
    Tensor workspace;
    AttnStatus status = tensor_alloc(&workspace, DTYPE_F32, 1, &floats);
    if (status == ATTN_OK) {
        status = split_attention(shape, q->data, k->data, v->data, split->splits, split->threads,
                                 o->data, lse->data, workspace.data);
        ck_assert_msg(tensor_guards_intact(&workspace), "written outside the workspace");
    }
    tensor_free(&workspace);
    return status;
}

static const SplitConfig configs[] = {{1, 1}, {2, 2}, {7, 1}, {16, 2}, {INT64_MAX, 0}};
static const KernelUnderTest kernels[] = {
    {"split, 1 part", run_split, &configs[0], 0, 0, false, false, 0, DTYPE_F32},
    {"split, 2 parts, 2 threads", run_split, &configs[1], 0, 0, false, false, 0, DTYPE_F32},
    {"split, 7 parts", run_split, &configs[2], 0, 0, false, false, 0, DTYPE_F32},
    {"split, 16 parts, 2 threads", run_split, &configs[3], 0, 0, false, false, 0, DTYPE_F32},
    {"split, a key a part, all threads", run_split, &configs[4], 0, 0, false, false, 0, DTYPE_F32},
};
enum { KERNELS = sizeof(kernels) / sizeof(kernels[0]), SWEEP_PROBLEMS = 60 };

START_TEST(golden) {
    kernel_suite_golden(&kernels[_i]);
}
END_TEST

START_TEST(known_answer) {
    for (int i = 0; i < KERNELS; i++) {
        kernel_suite_case(&kernels[i], kernel_suite_case_name((size_t)_i));
    }
}
END_TEST

START_TEST(random_sweep) {
    kernel_suite_random(&kernels[_i], 103, (int64_t)_i * SWEEP_PROBLEMS, SWEEP_PROBLEMS);
}
END_TEST

START_TEST(illegal_problems) {
    kernel_suite_errors(&kernels[_i]);
}
END_TEST

START_TEST(sixteen_bit_types) {
    kernel_suite_dtype(&kernels[_i], DTYPE_F16);
    kernel_suite_dtype(&kernels[_i], DTYPE_BF16);
}
END_TEST

// S = 3 and 5, K = 0: the mean of the values and log S at every split count from 1 to S + 5, and
// at the largest number there is.
START_TEST(more_splits_than_keys) {
    const float q = 1, k[5] = {0}, v[5] = {3, 6, 9, 12, 15};
    for (int64_t keys = 3; keys <= 5; keys += 2) {
        const AttnShape shape = {1, 1, 1, 1, keys, 1, 1.0, false, 0, NULL};
        for (int64_t i = 1; i <= keys + 6; i++) {
            const int64_t splits = i <= keys + 5 ? i : INT64_MAX;
            float o = NAN, lse = NAN, workspace[10];
            ck_assert_uint_le(split_workspace_floats(&shape, splits), 10);
            ck_assert_int_eq(split_attention(&shape, &q, k, v, splits, 1, &o, &lse, workspace),
                             ATTN_OK);
            ck_assert_float_eq_tol(o, keys == 3 ? 6.0F : 9.0F, 2e-6F);
            ck_assert_float_eq_tol(lse, (float)log((double)keys), 1e-6F);
        }
    }
}
END_TEST

// Splits 1 to 101 of 96 keys; seven queries, which see 90 to 96 of them. Against the oracle, and
// the same bits on 1, 2 and 3 threads.
START_TEST(every_split_count) {
    const AttnShape shape = {1, 2, 1, 7, 96, 16, 0, true, 0, NULL};
    Tensor q, k, v, o[3], lse[3];
    ck_assert_int_eq(tensor_alloc_q(&q, DTYPE_F32, &shape), ATTN_OK);
    ck_assert_int_eq(tensor_alloc_kv(&k, DTYPE_F32, &shape), ATTN_OK);
    ck_assert_int_eq(tensor_alloc_kv(&v, DTYPE_F32, &shape), ATTN_OK);
    tensor_fill_random(&q, 1, 1.0);
    tensor_fill_random(&k, 2, 1.0);
    tensor_fill_random(&v, 3, 1.0);
    Expected expected;
    ck_assert_int_eq(expected_make(&expected, &shape, &q, &k, &v, DTYPE_F32), ATTN_OK);
    for (int t = 0; t < 3; t++) {
        ck_assert_int_eq(tensor_alloc_q(&o[t], DTYPE_F32, &shape), ATTN_OK);
        ck_assert_int_eq(tensor_alloc_lse(&lse[t], &shape), ATTN_OK);
    }
    for (int64_t splits = 1; splits <= shape.len_kv + 5; splits++) {
        for (int t = 0; t < 3; t++) {
            const SplitConfig config = {splits, t + 1};
            tensor_poison(&o[t]);
            tensor_poison(&lse[t]);
            ck_assert_int_eq(run_split(&shape, &q, &k, &v, &o[t], &lse[t], &config), ATTN_OK);
            ck_assert(memcmp(o[0].data, o[t].data, o[0].count * sizeof(float)) == 0);
            ck_assert(memcmp(lse[0].data, lse[t].data, lse[0].count * sizeof(float)) == 0);
        }
        Comparison o_result, lse_result;
        ck_assert_msg(compare_output(&expected, &o[0], &lse[0], 0, &o_result, &lse_result),
                      "%d splits: %s %s", (int)splits, o_result.message, lse_result.message);
    }
    for (int t = 0; t < 3; t++) {
        tensor_free(&o[t]);
        tensor_free(&lse[t]);
    }
    expected_free(&expected);
    tensor_free(&q);
    tensor_free(&k);
    tensor_free(&v);
}
END_TEST

START_TEST(illegal_arguments) {
    const AttnShape shape = {1, 1, 1, 1, 1, 1, 1.0, false, 0, NULL};
    float x = 1, o = 7, lse = 7, workspace[2];
    ck_assert_int_eq(split_attention(&shape, &x, &x, &x, 0, 1, &o, &lse, workspace),
                     ATTN_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(attn_last_error(), "splits 0"));
    ck_assert_int_eq(split_attention(&shape, &x, &x, &x, 1, -1, &o, &lse, workspace),
                     ATTN_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(attn_last_error(), "threads -1"));
    static const char *const names[6] = {"q ", "k ", "v ", "o ", "lse ", "workspace "};
    for (int missing = 0; missing < 6; missing++) {
        const AttnStatus status =
            split_attention(&shape, missing == 0 ? NULL : &x, missing == 1 ? NULL : &x,
                            missing == 2 ? NULL : &x, 1, 1, missing == 3 ? NULL : &o,
                            missing == 4 ? NULL : &lse, missing == 5 ? NULL : workspace);
        ck_assert_int_eq(status, ATTN_ERR_ARGUMENT);
        ck_assert(strncmp(attn_last_error(), names[missing], strlen(names[missing])) == 0);
    }
    ck_assert(o == 7 && lse == 7);
    const AttnShape empty = {1, 1, 1, 0, 0, 1, 1.0, false, 0, NULL};
    ck_assert_int_eq(split_attention(&empty, NULL, NULL, NULL, 0, 1, NULL, NULL, NULL),
                     ATTN_ERR_ARGUMENT); // refused even where there is nothing to do
    ck_assert_int_eq(split_attention(&empty, NULL, NULL, NULL, 3, 1, NULL, NULL, NULL), ATTN_OK);
}
END_TEST

START_TEST(workspace_is_the_parts) {
    AttnShape shape = {2, 6, 3, 5, 100, 7, 0, false, 0, NULL};
    ck_assert_uint_eq(split_workspace_floats(&shape, 1), 2 * 6 * 5 * 8);
    ck_assert_uint_eq(split_workspace_floats(&shape, 9), 2 * 6 * 5 * 9 * 8);
    ck_assert_uint_eq(split_workspace_floats(&shape, INT64_MAX), 2 * 6 * 5 * 100 * 8);
    ck_assert_uint_eq(split_workspace_floats(&shape, 0), 0);
    shape.len_kv = 0; // a row without keys still has one part, which says so
    ck_assert_uint_eq(split_workspace_floats(&shape, 9), 2 * 6 * 5 * 8);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ch03_split");
    TCase *tests = tcase_create("ch03_split");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, split_ranges);
    tcase_add_loop_test(tests, golden, 0, KERNELS);
    tcase_add_loop_test(tests, known_answer, 0, (int)kernel_suite_case_count());
    tcase_add_loop_test(tests, random_sweep, 0, KERNELS);
    tcase_add_loop_test(tests, illegal_problems, 0, KERNELS);
    tcase_add_loop_test(tests, sixteen_bit_types, 0, KERNELS);
    tcase_add_test(tests, more_splits_than_keys);
    tcase_add_test(tests, every_split_count);
    tcase_add_test(tests, illegal_arguments);
    tcase_add_test(tests, workspace_is_the_parts);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
