// Chapter 2: online attention at many block sizes against the oracle, the golden tensors and the
// known answers; its workspace, its arguments, its NaN rules and the bytes it touches.
#include "chapters/ch02_online_softmax/online.h"

#include "common/touch.h"
#include "tests/unit/kernel_suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- the shared suite --------------------------------------------------------------------------

// config: the block size. A poisoned workspace of exactly the size that is asked for.
static AttnStatus run_online(const AttnShape *shape, const Tensor *q, const Tensor *k,
                             const Tensor *v, Tensor *o, Tensor *lse, const void *config) {
    const int64_t block_k = *(const int64_t *)config;
    const bool legal = attn_check_shape(shape) == ATTN_OK;
    const int64_t floats = legal ? (int64_t)online_workspace_floats(shape, block_k) : 1;
    Tensor workspace;
    AttnStatus status = tensor_alloc(&workspace, DTYPE_F32, 1, &floats);
    if (status == ATTN_OK) {
        status = online_attention(shape, q->data, k->data, v->data, block_k, o->data, lse->data,
                                  workspace.data);
        ck_assert_msg(tensor_guards_intact(&workspace), "written outside the workspace");
    }
    tensor_free(&workspace);
    return status;
}

static const int64_t block_sizes[] = {1, 3, 4, 32, 64, 1000, INT64_MAX};
static const KernelUnderTest kernels[] = {
    {"online, block_k 1", run_online, &block_sizes[0], 0, 1, false, false, 0, DTYPE_F32},
    {"online, block_k 3", run_online, &block_sizes[1], 0, 3, false, false, 0, DTYPE_F32},
    {"online, block_k 4", run_online, &block_sizes[2], 0, 4, false, false, 0, DTYPE_F32},
    {"online, block_k 32", run_online, &block_sizes[3], 0, 32, false, false, 0, DTYPE_F32},
    {"online, block_k 64", run_online, &block_sizes[4], 0, 64, false, false, 0, DTYPE_F32},
    {"online, block_k 1000", run_online, &block_sizes[5], 0, 0, false, false, 0, DTYPE_F32},
    {"online, block_k INT64_MAX", run_online, &block_sizes[6], 0, 0, false, false, 0, DTYPE_F32},
};
enum { KERNELS = sizeof(kernels) / sizeof(kernels[0]), SWEEP_PROBLEMS = 80 };

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
    kernel_suite_random(&kernels[_i], 102, (int64_t)_i * SWEEP_PROBLEMS, SWEEP_PROBLEMS);
}
END_TEST

START_TEST(illegal_shapes) {
    kernel_suite_errors(&kernels[_i]);
}
END_TEST

START_TEST(storage_types) {
    kernel_suite_dtype(&kernels[_i], DTYPE_F16);
    kernel_suite_dtype(&kernels[_i], DTYPE_BF16);
}
END_TEST

// ---- workspace and arguments -------------------------------------------------------------------

START_TEST(workspace_is_one_block) {
    AttnShape shape = {7, 32, 8, 33, 70, 128, 0, false, 0, NULL};
    ck_assert_uint_eq(online_workspace_floats(&shape, 64), 64); // whatever batch and heads are
    ck_assert_uint_eq(online_workspace_floats(&shape, 100), 70);
    ck_assert_uint_eq(online_workspace_floats(&shape, INT64_MAX), 70);
    ck_assert_uint_eq(online_workspace_floats(&shape, 0), 0);
    shape.len_q = shape.len_kv = 131072;
    ck_assert_uint_eq(online_workspace_floats(&shape, 64), 64);
}
END_TEST

enum { ROWS = 9, KEYS = 6, DIM = 5, BLOCK = 4 };

// One head of ROWS queries and KEYS keys, causal: the first three rows see nothing.
typedef struct Small {
    AttnShape shape;
    float q[ROWS * DIM], k[KEYS * DIM], v[KEYS * DIM], o[ROWS * DIM], lse[ROWS];
    float workspace[BLOCK];
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
    for (int i = 0; i < ROWS; i++) {
        small.lse[i] = NAN;
    }
    return small;
}

static AttnStatus run_small(Small *small, int64_t block_k) {
    return online_attention(&small->shape, small->q, small->k, small->v, block_k, small->o,
                            small->lse, small->workspace);
}

static void expect_untouched(const Small *small) {
    for (int e = 0; e < ROWS * DIM; e++) {
        ck_assert(isnan(small->o[e]) && isnan(small->lse[e % ROWS]));
    }
}

START_TEST(block_size_is_checked) {
    const int64_t illegal[] = {0, -1, INT64_MIN};
    for (int i = 0; i < 3; i++) {
        Small small = small_problem();
        ck_assert_int_eq(run_small(&small, illegal[i]), ATTN_ERR_ARGUMENT);
        ck_assert_ptr_nonnull(strstr(attn_last_error(), "block_k"));
        expect_untouched(&small);
    }
}
END_TEST

START_TEST(null_pointers_are_refused) {
    static const char *const names[6] = {"q ", "k ", "v ", "o ", "lse ", "workspace "};
    for (int missing = 0; missing < 6; missing++) {
        Small small = small_problem();
        const AttnStatus status = online_attention(
            &small.shape, missing == 0 ? NULL : small.q, missing == 1 ? NULL : small.k,
            missing == 2 ? NULL : small.v, BLOCK, missing == 3 ? NULL : small.o,
            missing == 4 ? NULL : small.lse, missing == 5 ? NULL : small.workspace);
        ck_assert_int_eq(status, ATTN_ERR_ARGUMENT);
        ck_assert(strncmp(attn_last_error(), names[missing], strlen(names[missing])) == 0);
        expect_untouched(&small);
    }
    // Without keys K, V and the workspace have no elements, and may be null.
    Small small = small_problem();
    small.shape.len_kv = 0;
    ck_assert_int_eq(
        online_attention(&small.shape, small.q, NULL, NULL, BLOCK, small.o, small.lse, NULL),
        ATTN_OK);
    for (int e = 0; e < ROWS * DIM; e++) {
        ck_assert(small.o[e] == 0 && small.lse[e % ROWS] == -INFINITY);
    }
}
END_TEST

// NaN in key `at` reaches the rows that see it, whole; NaN in a value only its column.
START_TEST(nan_reaches_the_rows_that_see_it) {
    for (int at = 0; at < KEYS; at++) {
        for (int64_t block_k = 1; block_k <= BLOCK; block_k++) {
            Small key = small_problem(), value = small_problem();
            key.k[at * DIM + 1] = NAN;
            value.v[at * DIM + 1] = NAN;
            ck_assert_int_eq(run_small(&key, block_k), ATTN_OK);
            ck_assert_int_eq(run_small(&value, block_k), ATTN_OK);
            for (int i = 0; i < ROWS; i++) {
                const bool sees = at <= i + KEYS - ROWS;
                ck_assert((bool)isnan(key.lse[i]) == sees);
                ck_assert(!isnan(value.lse[i]));
                for (int c = 0; c < DIM; c++) {
                    ck_assert((bool)isnan(key.o[i * DIM + c]) == sees);
                    ck_assert((bool)isnan(value.o[i * DIM + c]) == (sees && c == 1));
                }
            }
        }
    }
}
END_TEST

// A window whose first visible key lies inside a block: keys before it are never read.
START_TEST(masked_keys_are_never_read) {
    for (int64_t block_k = 1; block_k <= BLOCK; block_k++) {
        Small small = small_problem();
        small.shape.window = 2;
        for (int e = 0; e < 3 * DIM;
             e++) { // keys 0..2; the last row sees 4 and 5, the one before 3
            small.k[e] = small.v[e] = NAN;
        }
        ck_assert_int_eq(run_small(&small, block_k), ATTN_OK);
        for (int i = ROWS - 2; i < ROWS; i++) {
            ck_assert(isfinite(small.lse[i]) && isfinite(small.o[i * DIM]));
        }
    }
}
END_TEST

// ---- bytes -------------------------------------------------------------------------------------

// Q, K, V, O and LSE once in a whole call; K and V whole for a single query; one block of scores.
START_TEST(touches_what_the_model_counts) {
    const size_t n = 192, d = 64, tensor = n * d * sizeof(float);
    const int64_t block_k = 32;
    for (size_t t = 1; t <= n; t += n - 1) {
        const AttnShape shape = {1, 1, 1, (int64_t)t, (int64_t)n, (int64_t)d, 0, false, 0, NULL};
        const size_t row = t * sizeof(float);
        const size_t sizes[6] = {row * d, tensor, tensor,
                                 row * d, row,    (size_t)block_k * sizeof(float)};
        TouchBuffer buffers[6];
        for (int i = 0; i < 6; i++) {
            ck_assert_int_eq(touch_alloc(&buffers[i], sizes[i]), ATTN_OK);
        }
        ck_assert_int_eq(touch_begin(buffers, 6), ATTN_OK);
        const AttnStatus status =
            online_attention(&shape, buffers[0].data, buffers[1].data, buffers[2].data, block_k,
                             buffers[3].data, buffers[4].data, buffers[5].data);
        touch_end();
        ck_assert_int_eq(status, ATTN_OK);
        for (int i = 0; i < 6; i++) {
            ck_assert_uint_eq(buffers[i].touched, sizes[i]);
            touch_free(&buffers[i]);
        }
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ch02");
    TCase *tests = tcase_create("ch02");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, golden, 0, KERNELS);
    tcase_add_loop_test(tests, known_answer, 0, (int)kernel_suite_case_count());
    tcase_add_loop_test(tests, random_sweep, 0, KERNELS);
    tcase_add_loop_test(tests, illegal_shapes, 0, KERNELS);
    tcase_add_loop_test(tests, storage_types, 0, KERNELS);
    tcase_add_test(tests, workspace_is_one_block);
    tcase_add_test(tests, block_size_is_checked);
    tcase_add_test(tests, null_pointers_are_refused);
    tcase_add_test(tests, nan_reaches_the_rows_that_see_it);
    tcase_add_test(tests, masked_keys_are_never_read);
    tcase_add_test(tests, touches_what_the_model_counts);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
