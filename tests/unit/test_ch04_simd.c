// Chapter 4, the fast CPU kernel: every vector width that this machine has, one thread and two,
// the three storage types, splits of the keys, and the bound on its exponential.
#include "chapters/ch04_tiling/tiled.h"

#include "common/compare.h"
#include "tests/unit/kernel_suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- the shared suite ---------------------------------------------------------------------------

typedef struct SimdConfig {
    int lanes, threads;
} SimdConfig;

static AttnStatus run_simd(const AttnShape *shape, const Tensor *q, const Tensor *k,
                           const Tensor *v, Tensor *o, Tensor *lse, const void *config) {
    const SimdConfig *simd = config;
    return tiled_simd_attention_lanes(shape, o->dtype, q->data, k->data, v->data, o->data,
                                      lse->data, simd->threads, simd->lanes);
}

static const SimdConfig configs[] = {{4, 2}, {8, 2}, {16, 1}, {16, 2}};
static const KernelUnderTest kernels[] = {
    {"simd, 4 lanes, 2 threads", run_simd, &configs[0], 12, 128, false, false, 0, DTYPE_F32},
    {"simd, 8 lanes, 2 threads", run_simd, &configs[1], 24, 128, false, false, 0, DTYPE_F32},
    {"simd, 16 lanes, 1 thread", run_simd, &configs[2], 48, 128, false, false, 0, DTYPE_F32},
    {"simd, 16 lanes, 2 threads", run_simd, &configs[3], 48, 128, false, false, 0, DTYPE_F32},
};
enum { KERNELS = sizeof(kernels) / sizeof(kernels[0]), SWEEP_PROBLEMS = 100 };

// False, for a kernel whose vectors this machine does not have: then it must say so.
static bool machine_runs(int kernel) {
    return configs[kernel].lanes <= tiled_simd_lanes();
}

START_TEST(golden) {
    if (machine_runs(_i)) {
        kernel_suite_golden(&kernels[_i]);
    }
}
END_TEST

START_TEST(known_answer) {
    for (int i = 0; i < KERNELS; i++) {
        if (machine_runs(i)) {
            kernel_suite_case(&kernels[i], kernel_suite_case_name((size_t)_i));
        }
    }
}
END_TEST

START_TEST(random_sweep) {
    if (machine_runs(_i)) {
        kernel_suite_random(&kernels[_i], 104, (int64_t)_i * SWEEP_PROBLEMS, SWEEP_PROBLEMS);
    }
}
END_TEST

START_TEST(illegal_problems) {
    if (machine_runs(_i)) {
        kernel_suite_errors(&kernels[_i]);
    }
}
END_TEST

// ---- larger problems: several panels, several tiles, splits -------------------------------------

// A problem with its right answer, and room for one run's output.
typedef struct Trial {
    AttnShape shape;
    Tensor q, k, v, o, lse;
    Expected expected;
} Trial;

static void trial_make(Trial *trial, const AttnShape *shape, DType dtype) {
    trial->shape = *shape;
    ck_assert_int_eq(tensor_alloc_q(&trial->q, dtype, shape), ATTN_OK);
    ck_assert_int_eq(tensor_alloc_kv(&trial->k, dtype, shape), ATTN_OK);
    ck_assert_int_eq(tensor_alloc_kv(&trial->v, dtype, shape), ATTN_OK);
    ck_assert_int_eq(tensor_alloc_q(&trial->o, dtype, shape), ATTN_OK);
    ck_assert_int_eq(tensor_alloc_lse(&trial->lse, shape), ATTN_OK);
    tensor_fill_random(&trial->q, 41, 1.0);
    tensor_fill_random(&trial->k, 42, 1.0);
    tensor_fill_random(&trial->v, 43, 1.0);
    ck_assert_int_eq(expected_make(&trial->expected, shape, &trial->q, &trial->k, &trial->v, dtype),
                     ATTN_OK);
}

static void trial_free(Trial *trial) {
    expected_free(&trial->expected);
    tensor_free(&trial->q);
    tensor_free(&trial->k);
    tensor_free(&trial->v);
    tensor_free(&trial->o);
    tensor_free(&trial->lse);
}

// Runs one configuration on poisoned outputs and compares.
static void trial_run(Trial *trial, const SimdConfig *config) {
    tensor_poison(&trial->o);
    tensor_poison(&trial->lse);
    ck_assert_msg(run_simd(&trial->shape, &trial->q, &trial->k, &trial->v, &trial->o, &trial->lse,
                           config) == ATTN_OK,
                  "%s", attn_last_error());
    Comparison o, lse;
    const bool right = compare_output(&trial->expected, &trial->o, &trial->lse, 0, &o, &lse);
    ck_assert_msg(right, "%s, %d lanes, %d threads: %s %s", dtype_name(trial->o.dtype),
                  config->lanes, config->threads, o.message, lse.message);
    ck_assert(tensor_guards_intact(&trial->o) && tensor_guards_intact(&trial->lse));
}

static const AttnShape large_shapes[] = {
    {1, 2, 1, 193, 517, 64, 0, false, 0, NULL},   {1, 1, 1, 300, 300, 80, 0, true, 0, NULL},
    {2, 2, 2, 131, 640, 33, 0.3, true, 70, NULL}, {1, 2, 2, 1, 5000, 128, 0, true, 0, NULL},
    {1, 4, 2, 8, 2049, 46, 0, true, 0, NULL},     {1, 1, 1, 9, 4100, 64, 0, true, 1500, NULL},
    {1, 1, 1, 60, 3000, 257, 0, false, 0, NULL},
};
enum { LARGE_SHAPES = sizeof(large_shapes) / sizeof(large_shapes[0]) };

START_TEST(large_problems) {
    for (DType dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
        Trial trial;
        trial_make(&trial, &large_shapes[_i], dtype);
        for (int i = 0; i < KERNELS; i++) {
            if (machine_runs(i)) {
                trial_run(&trial, &configs[i]);
            }
        }
        trial_free(&trial);
    }
}
END_TEST

// For a fixed number of threads the result is the same to the last bit, however the threads run.
START_TEST(bit_identical_for_a_thread_count) {
    Trial trial;
    trial_make(&trial, &large_shapes[_i], DTYPE_F32);
    const SimdConfig config = {tiled_simd_lanes(), 2};
    const size_t o_bytes = trial.o.count * sizeof(float),
                 lse_bytes = trial.lse.count * sizeof(float);
    float *o = malloc(o_bytes), *lse = malloc(lse_bytes);
    trial_run(&trial, &config);
    memcpy(o, trial.o.data, o_bytes);
    memcpy(lse, trial.lse.data, lse_bytes);
    for (int run = 0; run < 10; run++) {
        trial_run(&trial, &config);
        ck_assert(memcmp(o, trial.o.data, o_bytes) == 0);
        ck_assert(memcmp(lse, trial.lse.data, lse_bytes) == 0);
    }
    free(o);
    free(lse);
    trial_free(&trial);
}
END_TEST

// ---- storage types ------------------------------------------------------------------------------

// Every 16-bit value, as the only key's V: O is that value, widened and rounded back.
START_TEST(every_16_bit_value_passes_through) {
    const DType dtype = _i == 0 ? DTYPE_F16 : DTYPE_BF16;
    enum { DIM = 65536 };
    static uint16_t v[DIM], zero[DIM], o[DIM];
    const AttnShape shape = {1, 1, 1, 9, 1, DIM, 1.0, false, 0, NULL};
    static uint16_t q9[9 * DIM], o9[9 * DIM];
    float lse[9];
    for (int i = 0; i < DIM; i++) {
        v[i] = (uint16_t)i;
    }
    for (int i = 0; i < KERNELS; i++) {
        for (int few = 0; machine_runs(i) && few < 2; few++) { // both loops
            AttnShape problem = shape;
            problem.len_q = few ? 1 : 9;
            ck_assert_int_eq(tiled_simd_attention_lanes(&problem, dtype, q9, zero, v, few ? o : o9,
                                                        lse, configs[i].threads, configs[i].lanes),
                             ATTN_OK);
            for (int c = 0; c < DIM; c++) {
                const uint16_t got = few ? o[c] : o9[8 * DIM + c];
                const float want = dtype == DTYPE_F16 ? f32_from_f16(v[c]) : f32_from_bf16(v[c]);
                const float is = dtype == DTYPE_F16 ? f32_from_f16(got) : f32_from_bf16(got);
                ck_assert_msg(is == want || (isnan(is) && isnan(want)), "%s 0x%04x became 0x%04x",
                              dtype_name(dtype), c, got);
            }
        }
    }
}
END_TEST

START_TEST(what_is_not_supported) {
    const AttnShape shape = {1, 1, 1, 1, 1, 1, 0, false, 0, NULL};
    float x = 1, o = 7, lse = 7;
    ck_assert_int_eq(tiled_simd_attention(&shape, DTYPE_F64, &x, &x, &x, &o, &lse, 1),
                     ATTN_ERR_UNSUPPORTED);
    ck_assert_int_eq(tiled_simd_attention(&shape, DTYPE_F32, &x, &x, &x, &o, &lse, -1),
                     ATTN_ERR_ARGUMENT);
    ck_assert_int_eq(tiled_simd_attention_lanes(&shape, DTYPE_F32, &x, &x, &x, &o, &lse, 1, 5),
                     ATTN_ERR_UNSUPPORTED);
    ck_assert_int_eq(tiled_simd_attention_lanes(&shape, DTYPE_F32, &x, &x, &x, &o, &lse, 1, 32),
                     ATTN_ERR_UNSUPPORTED);
    ck_assert(o == 7 && lse == 7);
    ck_assert_int_eq(tiled_simd_attention(&shape, DTYPE_F32, &x, &x, &x, &o, &lse, 0), ATTN_OK);
    ck_assert(o == 1 && lse == 1);
}
END_TEST

// ---- the exponential ----------------------------------------------------------------------------

// At most 2 units in the last place for every x in [-87, 0] on a grid of half a million; exactly 1
// at 0; 0 below -87 and at -inf; NaN stays NaN.
START_TEST(exponential) {
    enum { POINTS = 1 << 19 };
    const int lanes = configs[_i].lanes;
    float *x = malloc(POINTS * sizeof(float)), *y = malloc(POINTS * sizeof(float));
    if (machine_runs(_i)) {
        for (int i = 0; i < POINTS; i++) {
            x[i] = -87.0F * (float)i / POINTS;
        }
        tiled_simd_exp(lanes, x, y, POINTS);
        ck_assert(y[0] == 1.0F);
        for (int i = 0; i < POINTS; i++) {
            const double want = exp((double)x[i]);
            const double unit = 2 * dtype_rounding_error(DTYPE_F32, want);
            ck_assert_msg(fabs((double)y[i] - want) <= 2 * unit, "exp(%.9g): %.9g, not %.9g",
                          (double)x[i], (double)y[i], want);
        }
        const float special[16] = {-INFINITY, NAN, -88, -1e30F, -0.0F, -87.5F};
        float got[16];
        tiled_simd_exp(lanes, special, got, 16);
        ck_assert(got[0] == 0 && isnan(got[1]) && got[2] == 0 && got[3] == 0 && got[4] == 1);
        ck_assert(got[5] == 0);
    }
    free(x);
    free(y);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ch04_simd");
    TCase *shared = tcase_create("kernel suite");
    tcase_set_timeout(shared, 120);
    tcase_add_loop_test(shared, golden, 0, KERNELS);
    tcase_add_loop_test(shared, known_answer, 0, (int)kernel_suite_case_count());
    tcase_add_loop_test(shared, random_sweep, 0, KERNELS);
    tcase_add_loop_test(shared, illegal_problems, 0, KERNELS);
    suite_add_tcase(suite, shared);
    TCase *own = tcase_create("simd");
    tcase_set_timeout(own, 120);
    tcase_add_loop_test(own, large_problems, 0, LARGE_SHAPES);
    tcase_add_loop_test(own, bit_identical_for_a_thread_count, 0, LARGE_SHAPES);
    tcase_add_loop_test(own, every_16_bit_value_passes_through, 0, 2);
    tcase_add_test(own, what_is_not_supported);
    tcase_add_loop_test(own, exponential, 0, KERNELS);
    suite_add_tcase(suite, own);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
