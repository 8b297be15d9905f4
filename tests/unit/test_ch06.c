// Chapter 6: every rung, with several numbers of splits, against the golden tensors, the known
// answers and random problems, on simt in three thread orders and on CUDA where there is a device;
// 16-bit storage; what the rungs refuse; pointers that are not aligned.
#include "tests/unit/ch06_run.h"

#include "common/compare.h"
#include "tests/unit/gpu_targets.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 9 }; // splits: more than the small cases have keys

// ---- the shared suite ---------------------------------------------------------------------------

static DecodeConfig configs[64];
static int config_count;

static void add_config(int rung, int64_t splits, DType dtype, GpuTarget target, SimtOrder order) {
    configs[config_count++] = (DecodeConfig){rung, splits, dtype, target, order};
}

// Every rung with 1, 3 and MANY splits forward; with 3 in the other orders; on CUDA as forward.
static void find_configs(void) {
    static const int64_t splits[] = {3, 1, MANY};
    for (int rung = 0; rung < DECODE_RUNGS; rung++) {
        for (int s = 0; s < (rung == DECODE ? 1 : 3); s++) {
            add_config(rung, splits[s], DTYPE_F32, GPU_SIMT, SIMT_FORWARD);
            if (gpu_tests.device) {
                add_config(rung, splits[s], DTYPE_F32, GPU_CUDA, SIMT_FORWARD);
            }
        }
        add_config(rung, 3, DTYPE_F32, GPU_SIMT, SIMT_REVERSE);
        add_config(rung, 3, DTYPE_F32, GPU_SIMT, SIMT_RANDOM);
    }
}

static bool is_full(void) {
    return getenv("TEST_FULL") != NULL;
}

// The larger cases run with 3 splits and in forward order; of the last rung also with one, and in
// the other orders.
static bool is_chosen(const DecodeConfig *config) {
    return is_full() || config->target == GPU_CUDA ||
           (config->rung == FUSED && config->splits != MANY) ||
           (config->order == SIMT_FORWARD && config->splits == 3);
}

START_TEST(golden) {
    const KernelUnderTest kernel = decode_under_test(&configs[_i]);
    if (is_chosen(&configs[_i])) {
        kernel_suite_golden(&kernel);
    }
}
END_TEST

// A hundred runs are made of the last rung only; test_ch06_random.c runs each rung twenty times.
// 131,074 blocks take simt a minute: CUDA only, and make test-full; that no rung counts heads along
// a short axis of the grid is tested in test_ch06_trace.c.
static bool is_worth_its_time(const DecodeConfig *config, const char *name) {
    static const char *const larger[] = {"tail_leak", "odd_dims", "nan_isolation"};
    const bool is_one = config->order == SIMT_FORWARD && config->splits == 3;
    if (strcmp(name, "many_heads") == 0) {
        return config->target == GPU_CUDA || (is_one && config->rung == FUSED && is_full());
    }
    if (strcmp(name, "repeatable") == 0) {
        return is_one && config->rung == FUSED;
    }
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, larger[i]) == 0) {
            return is_chosen(config);
        }
    }
    return true;
}

START_TEST(known_answer) {
    const char *name = kernel_suite_case_name((size_t)_i);
    for (int i = 0; i < config_count; i++) {
        if (is_worth_its_time(&configs[i], name)) {
            KernelUnderTest kernel = decode_under_test(&configs[i]);
            kernel.block_k = strcmp(name, "repeatable") == 0 ? 16 : kernel.block_k;
            kernel_suite_case(&kernel, name);
        }
    }
}
END_TEST

enum { SWEEP_PROBLEMS = 5 }; // test_ch06_random.c has the sweep of what decoding is made of

START_TEST(random_sweep) {
    const KernelUnderTest kernel = decode_under_test(&configs[_i]);
    if (is_chosen(&configs[_i])) {
        kernel_suite_random(&kernel, 106, (int64_t)_i * SWEEP_PROBLEMS, SWEEP_PROBLEMS);
    }
}
END_TEST

START_TEST(illegal_shapes) {
    const KernelUnderTest kernel = decode_under_test(&configs[_i]);
    kernel_suite_errors(&kernel);
}
END_TEST

// ---- 16 bits ------------------------------------------------------------------------------------

START_TEST(storage_in_16_bits) {
    static const DType types[] = {DTYPE_F16, DTYPE_BF16};
    static const char *const cases[] = {"empty_dimensions", "gqa_map", "gqa_reject"};
    if (configs[_i].splits == MANY && !is_chosen(&configs[_i])) {
        return;
    }
    DecodeConfig config = configs[_i];
    config.dtype = types[_i % 2];
    for (int t = 0; t < 2; t++) {
        const KernelUnderTest kernel = decode_under_test(&config);
        kernel_suite_dtype(&kernel, config.dtype);
        for (int c = 0; c < 3; c++) {
            kernel_suite_case(&kernel, cases[c]);
        }
        if (config.order != SIMT_FORWARD) {
            return; // one type in the other orders
        }
        config.dtype = types[(_i + 1) % 2];
    }
}
END_TEST

// Sums are f32: 128 products of 24 * 24 overflow f16. O is the mean of 1 and 3.
START_TEST(half_overflow) {
    const AttnShape shape = {1, 1, 1, 1, 2, 128, 0, false, 0, NULL};
    for (int i = 0; i < config_count; i++) {
        DecodeConfig config = configs[i];
        config.dtype = DTYPE_F16;
        Problem problem;
        ASSERT_OK(problem_random(&problem, &shape, DTYPE_F16, 1));
        for (size_t e = 0; e < 256; e++) {
            tensor_set(&problem.k, e, 24);
            tensor_set(&problem.v, e, e < 128 ? 1 : 3);
        }
        for (size_t e = 0; e < 128; e++) {
            tensor_set(&problem.q, e, 24);
        }
        ASSERT_OK(decode_run(&shape, &problem.q, &problem.k, &problem.v, &problem.o, &problem.lse,
                             &config));
        for (size_t e = 0; e < 128; e++) {
            ck_assert_double_eq(tensor_get(&problem.o, e), 2);
        }
        problem_free(&problem);
    }
}
END_TEST

// ---- arguments ----------------------------------------------------------------------------------

typedef struct Arguments {
    AttnShape shape;
    DType dtype;
    void *q, *k, *v, *o;
    float *lse;
    const int32_t *kv_lens;
    int64_t splits;
    void *workspace;
} Arguments;

static AttnStatus call(int rung, const Arguments *a) {
    return decode_rungs[rung].builds[GPU_SIMT](&a->shape, a->dtype, a->q, a->k, a->v, a->o, a->lse,
                                               a->kv_lens, a->splits, a->workspace, NULL);
}

static float memory[8];
static const Arguments legal = {
    .shape = {1, 1, 1, 2, 2, 2, 0, false, 0, NULL},
    .q = memory,
    .k = memory,
    .v = memory,
    .o = memory,
    .lse = memory,
    .splits = 1,
    .workspace = memory,
};

START_TEST(what_is_not_supported_is_named) {
    static const struct {
        AttnShape shape;
        int64_t splits;
        const char *named;
    } refused[] = {
        {{1, 1, 1, 4, 4, 257, 0, false, 0, NULL}, 1, "dim 257"},
        {{1, 1, 1, 4, 4, 8, 0, true, 2, NULL}, 1, "window 2: windows come in chapter 7"},
        {{1, 2, 1, (1 << 29) + 1, 4, 8, 0, false, 0, NULL},
         1,
         "batch * heads_q * len_q 1073741826"},
        {{1, 1, 1, 4, (1 << 30) + 1, 8, 0, false, 0, NULL}, 1, "len_kv 1073741825"},
        {{1, 2, 2, 1, 1 << 30, 1, 0, false, 0, NULL}, 1 << 30, "splits 1073741824"},
        {{1, 1, 1, 2, 1 << 30, 1, 0, false, 0, NULL}, INT64_MAX, "splits 9223372036854775807"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        for (int rung = 0; rung < DECODE_RUNGS; rung++) {
            Arguments arguments = legal;
            arguments.shape = refused[i].shape;
            arguments.splits = refused[i].splits;
            memory[0] = NAN;
            if (refused[i].splits == 1 || rung != DECODE) {
                ASSERT_FAILS(call(rung, &arguments), ATTN_ERR_UNSUPPORTED, refused[i].named);
            }
            ck_assert(isnan(memory[0]));
        }
    }
}
END_TEST

START_TEST(arguments_are_checked) {
    static const int32_t lens[] = {1};
    for (int rung = 0; rung < DECODE_RUNGS; rung++) {
        Arguments wrong = legal;
        wrong.splits = 0;
        ASSERT_FAILS(call(rung, &wrong), ATTN_ERR_ARGUMENT, "splits 0 must be at least 1");
        wrong.splits = -3;
        ASSERT_FAILS(call(rung, &wrong), ATTN_ERR_ARGUMENT, "splits -3");
        wrong = legal;
        wrong.dtype = DTYPE_F64;
        ASSERT_FAILS(call(rung, &wrong), ATTN_ERR_ARGUMENT, "dtype f64");
        wrong = legal;
        wrong.shape.kv_lens = lens;
        ASSERT_FAILS(call(rung, &wrong), ATTN_ERR_ARGUMENT, "kv_lens is a null pointer");
    }
}
END_TEST

START_TEST(null_pointers_are_refused) {
    static const char *const names[] = {"q ", "k ", "v ", "o ", "lse ", "workspace "};
    for (int rung = 0; rung < DECODE_RUNGS; rung++) {
        for (int missing = 0; missing < (rung == DECODE ? 5 : 6); missing++) {
            Arguments wrong = legal;
            void **const pointers[] = {&wrong.q, &wrong.k, &wrong.v, &wrong.o, &wrong.workspace};
            if (missing == 4) {
                wrong.lse = NULL;
            } else {
                *pointers[missing < 4 ? missing : 4] = NULL;
            }
            ASSERT_FAILS(call(rung, &wrong), ATTN_ERR_ARGUMENT, names[missing]);
            ck_assert(strncmp(attn_last_error(), names[missing], strlen(names[missing])) == 0);
        }
    }
}
END_TEST

// ---- tensors at any address ---------------------------------------------------------------------

// Tensors that begin one element behind a buffer's start give the bits of aligned ones, but for the
// order in which scores are summed: none, because a lane's columns are the same. dim 46 has no
// aligned rows in 16 bits.
static void check_unaligned(const DecodeConfig *config, int64_t dim) {
    const AttnShape shape = {1, 2, 1, 5, 67, dim, 0, true, 0, NULL};
    const size_t element = dtype_size(config->dtype);
    Problem problem;
    DeviceProblem aligned, shifted;
    ASSERT_OK(problem_random(&problem, &shape, config->dtype, 11));
    ASSERT_OK(device_problem_make(&aligned, config->target, &problem, config->dtype));
    shifted = aligned;
    const void *const from[] = {aligned.q, aligned.k, aligned.v, aligned.o};
    void *to[4], **const field[] = {&shifted.q, &shifted.k, &shifted.v, &shifted.o};
    for (int t = 0; t < 4; t++) {
        const size_t bytes =
            (t == 0 || t == 3 ? attn_count_q(&shape) : attn_count_kv(&shape)) * element;
        char *host = malloc(bytes);
        ASSERT_OK(gpu_alloc(config->target, &to[t], "shifted", bytes / element + 1, element));
        ASSERT_OK(gpu_download(config->target, host, from[t], bytes));
        *field[t] = (char *)to[t] + element;
        ASSERT_OK(gpu_upload(config->target, *field[t], host, bytes));
        free(host);
    }
    void *workspace = decode_workspace(config, &shape);
    ASSERT_OK(decode_launch(config, &aligned, workspace));
    ASSERT_OK(decode_launch(config, &shifted, workspace));
    ASSERT_OK(gpu_synchronize(config->target));
    const size_t bytes = attn_count_q(&shape) * element;
    char *wanted = malloc(bytes), *got = malloc(bytes);
    ASSERT_OK(gpu_download(config->target, wanted, aligned.o, bytes));
    ASSERT_OK(gpu_download(config->target, got, shifted.o, bytes));
    ck_assert_msg(memcmp(wanted, got, bytes) == 0, "%s, dim %d", decode_rungs[config->rung].name,
                  (int)dim);
    ck_assert(got[0] != (char)0xFF || got[1] != (char)0xFF);
    free(wanted);
    free(got);
    for (int t = 0; t < 4; t++) {
        gpu_free(config->target, to[t]);
    }
    gpu_free(config->target, workspace);
    device_problem_free(&aligned);
    problem_free(&problem);
}

START_TEST(unaligned_tensors) {
    for (int t = 0; t < gpu_tests.count; t++) {
        for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
            const DecodeConfig config = {_i, 3, (DType)dtype, gpu_tests.target[t], SIMT_FORWARD};
            check_unaligned(&config, 46);
            check_unaligned(&config, 64);
        }
    }
}
END_TEST

int main(void) {
    gpu_tests_find();
    find_configs();
    Suite *suite = suite_create("ch06");
    TCase *tests = tcase_create("ch06");
    tcase_set_timeout(tests, 400);
    tcase_add_loop_test(tests, golden, 0, config_count);
    tcase_add_loop_test(tests, known_answer, 0, (int)kernel_suite_case_count());
    tcase_add_loop_test(tests, random_sweep, 0, config_count);
    tcase_add_loop_test(tests, illegal_shapes, 0, config_count);
    tcase_add_loop_test(tests, storage_in_16_bits, 0, config_count);
    tcase_add_test(tests, half_overflow);
    tcase_add_test(tests, what_is_not_supported_is_named);
    tcase_add_test(tests, arguments_are_checked);
    tcase_add_test(tests, null_pointers_are_refused);
    tcase_add_loop_test(tests, unaligned_tensors, 0, DECODE_RUNGS);
    suite_add_tcase(suite, tests);
    return gpu_tests_run(suite);
}
