// Chapter 4: the scalar rungs at many tile sizes against the oracle, the golden tensors and the
// known answers; their workspaces, arguments and NaN rules.
#include "chapters/ch04_tiling/tiled.h"

#include "tests/unit/kernel_suite.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the shared suite ---------------------------------------------------------------------------

typedef enum Rung { UNTILED, TILED, UNFUSED } Rung;

typedef struct Config {
    Rung rung;
    int64_t block_q, block_k;
} Config;

static size_t workspace_floats(const Config *config, const AttnShape *shape) {
    switch (config->rung) {
    case UNTILED:
        return untiled_workspace_floats(shape);
    case TILED:
        return tiled_workspace_floats(shape, config->block_q, config->block_k);
    default:
        return tiled_unfused_workspace_floats(shape, config->block_q, config->block_k);
    }
}

static AttnStatus call(const Config *config, const AttnShape *shape, const float *q, const float *k,
                       const float *v, float *o, float *lse, float *workspace) {
    const int64_t block_q = config->block_q, block_k = config->block_k;
    switch (config->rung) {
    case UNTILED:
        return untiled_attention(shape, q, k, v, o, lse, workspace);
    case TILED:
        return tiled_attention(shape, q, k, v, block_q, block_k, o, lse, workspace, NULL);
    default:
        return tiled_unfused_attention(shape, q, k, v, block_q, block_k, o, lse, workspace, NULL);
    }
}

// A poisoned workspace of exactly the size that is asked for.
static AttnStatus run_rung(const AttnShape *shape, const Tensor *q, const Tensor *k,
                           const Tensor *v, Tensor *o, Tensor *lse, const void *context) {
    const Config *config = context;
    const bool legal = attn_check_shape(shape) == ATTN_OK;
    const int64_t floats = legal ? (int64_t)workspace_floats(config, shape) : 1;
    Tensor workspace;
    AttnStatus status = tensor_alloc(&workspace, DTYPE_F32, 1, &floats);
    if (status == ATTN_OK) {
        status = call(config, shape, q->data, k->data, v->data, o->data, lse->data, workspace.data);
        ck_assert_msg(tensor_guards_intact(&workspace), "written outside the workspace");
    }
    tensor_free(&workspace);
    return status;
}

static const Config configs[] = {
    {UNTILED, 0, 0},
    {TILED, 1, 1},
    {TILED, 3, 5},
    {TILED, 32, 32},
    {TILED, 128, 64},
    {TILED, 1000, 1000},
    {TILED, INT64_MAX, INT64_MAX},
    {UNFUSED, 1, 1},
    {UNFUSED, 3, 5},
    {UNFUSED, 32, 32},
    {UNFUSED, 128, 64},
    {UNFUSED, 1000, 1000},
    {UNFUSED, INT64_MAX, INT64_MAX},
};
enum { KERNELS = sizeof(configs) / sizeof(configs[0]), SWEEP_PROBLEMS = 30 };

static KernelUnderTest kernel_at(int index) {
    static const char *const rungs[] = {"untiled", "tiled", "unfused"};
    static char name[64];
    const Config *config = &configs[index];
    snprintf(name, sizeof name, "%s, tile %lld x %lld", rungs[config->rung],
             (long long)config->block_q, (long long)config->block_k);
    const bool small = config->block_q < 1000;
    return (KernelUnderTest){
        name,  run_rung, config,   small ? config->block_q : 0, small ? config->block_k : 0, false,
        false, 0,        DTYPE_F32};
}

START_TEST(golden) {
    const KernelUnderTest kernel = kernel_at(_i);
    kernel_suite_golden(&kernel);
}
END_TEST

START_TEST(known_answer) {
    for (int i = 0; i < KERNELS; i++) {
        const KernelUnderTest kernel = kernel_at(i);
        kernel_suite_case(&kernel, kernel_suite_case_name((size_t)_i));
    }
}
END_TEST

START_TEST(random_sweep) {
    const KernelUnderTest kernel = kernel_at(_i);
    kernel_suite_random(&kernel, 104, (int64_t)_i * SWEEP_PROBLEMS, SWEEP_PROBLEMS);
}
END_TEST

START_TEST(illegal_shapes) {
    const KernelUnderTest kernel = kernel_at(_i);
    kernel_suite_errors(&kernel);
}
END_TEST

START_TEST(storage_types) {
    const KernelUnderTest kernel = kernel_at(_i);
    kernel_suite_dtype(&kernel, DTYPE_F16);
    kernel_suite_dtype(&kernel, DTYPE_BF16);
}
END_TEST

// ---- workspaces and arguments -------------------------------------------------------------------

START_TEST(workspaces) {
    AttnShape shape = {7, 32, 8, 33, 70, 128, 0, false, 0, NULL};
    ck_assert_uint_eq(untiled_workspace_floats(&shape), 2 * 33 * 70); // whatever batch, heads are
    ck_assert_uint_eq(tiled_workspace_floats(&shape, 16, 64), 16 * (64 + 2));
    ck_assert_uint_eq(tiled_workspace_floats(&shape, INT64_MAX, INT64_MAX), 33 * (70 + 2));
    ck_assert_uint_eq(tiled_unfused_workspace_floats(&shape, 16, 64), 16 * (64 + 128 + 5));
    for (int64_t block = -1; block <= 0; block++) {
        ck_assert_uint_eq(tiled_workspace_floats(&shape, block, 64), 0);
        ck_assert_uint_eq(tiled_workspace_floats(&shape, 64, block), 0);
        ck_assert_uint_eq(tiled_unfused_workspace_floats(&shape, block, 64), 0);
        ck_assert_uint_eq(tiled_unfused_workspace_floats(&shape, 64, block), 0);
    }
    shape.len_q = shape.len_kv = 131072;
    ck_assert_uint_eq(tiled_workspace_floats(&shape, 128, 128), 128 * (128 + 2));
    ck_assert_uint_eq(untiled_workspace_floats(&shape), (size_t)1 << 35); // beyond 32 bits
}
END_TEST

enum { ROWS = 9, KEYS = 6, DIM = 5, BLOCK = 4 };

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
    for (int i = 0; i < ROWS; i++) {
        small.lse[i] = NAN;
    }
    return small;
}

static AttnStatus run_small(Small *small, Config config) {
    return call(&config, &small->shape, small->q, small->k, small->v, small->o, small->lse,
                small->workspace);
}

static void expect_untouched(const Small *small) {
    for (int e = 0; e < ROWS * DIM; e++) {
        ck_assert(isnan(small->o[e]) && isnan(small->lse[e % ROWS]));
    }
}

START_TEST(block_sizes_are_checked) {
    const int64_t illegal[] = {0, -1, INT64_MIN};
    for (int i = 0; i < 6; i++) {
        const Rung rung = i < 3 ? TILED : UNFUSED;
        const int64_t bad = illegal[i % 3];
        Small small = small_problem();
        ck_assert_int_eq(run_small(&small, (Config){rung, bad, BLOCK}), ATTN_ERR_ARGUMENT);
        ck_assert_ptr_nonnull(strstr(attn_last_error(), "block_q"));
        ck_assert_int_eq(run_small(&small, (Config){rung, BLOCK, bad}), ATTN_ERR_ARGUMENT);
        ck_assert_ptr_nonnull(strstr(attn_last_error(), "block_k"));
        expect_untouched(&small);
    }
}
END_TEST

START_TEST(null_pointers_are_refused) {
    static const char *const names[6] = {"q ", "k ", "v ", "o ", "lse ", "workspace "};
    for (Rung rung = UNTILED; rung <= UNFUSED; rung++) {
        const Config config = {rung, BLOCK, BLOCK};
        for (int missing = 0; missing < 6; missing++) {
            Small small = small_problem();
            const AttnStatus status = call(
                &config, &small.shape, missing == 0 ? NULL : small.q, missing == 1 ? NULL : small.k,
                missing == 2 ? NULL : small.v, missing == 3 ? NULL : small.o,
                missing == 4 ? NULL : small.lse, missing == 5 ? NULL : small.workspace);
            ck_assert_int_eq(status, ATTN_ERR_ARGUMENT);
            ck_assert(strncmp(attn_last_error(), names[missing], strlen(names[missing])) == 0);
            expect_untouched(&small);
        }
        // Without queries nothing has elements, and all may be null.
        Small small = small_problem();
        small.shape.len_q = small.shape.len_kv = 0;
        ck_assert_int_eq(call(&config, &small.shape, NULL, NULL, NULL, NULL, NULL, NULL), ATTN_OK);
    }
}
END_TEST

// NaN in key `at` reaches the rows that see it, whole; NaN in a value only its column.
START_TEST(nan_reaches_the_rows_that_see_it) {
    for (int at = 0; at < KEYS; at++) {
        for (int64_t block = 1; block <= BLOCK; block++) {
            for (Rung rung = UNTILED; rung <= UNFUSED; rung++) {
                const Config config = {rung, block, BLOCK + 1 - block};
                Small key = small_problem(), value = small_problem();
                key.k[at * DIM + 1] = NAN;
                value.v[at * DIM + 1] = NAN;
                ck_assert_int_eq(run_small(&key, config), ATTN_OK);
                ck_assert_int_eq(run_small(&value, config), ATTN_OK);
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
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ch04");
    TCase *tests = tcase_create("ch04");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, golden, 0, KERNELS);
    tcase_add_loop_test(tests, known_answer, 0, (int)kernel_suite_case_count());
    tcase_add_loop_test(tests, random_sweep, 0, KERNELS);
    tcase_add_loop_test(tests, illegal_shapes, 0, KERNELS);
    tcase_add_loop_test(tests, storage_types, 0, KERNELS);
    tcase_add_test(tests, workspaces);
    tcase_add_test(tests, block_sizes_are_checked);
    tcase_add_test(tests, null_pointers_are_refused);
    tcase_add_test(tests, nan_reaches_the_rows_that_see_it);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
