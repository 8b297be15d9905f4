// Chapter 5: every rung against the golden tensors, the known answers and random problems, on simt
// in three thread orders and on CUDA where there is a device; what the rungs refuse; pointers that
// are not aligned; devices with less shared memory.
#include "chapters/ch05_fused_cuda/fused.h"

#include "common/compare.h"
#include "common/device_problem.h"
#include "common/simt/runtime.h"
#include "tests/unit/gpu_targets.h"
#include "tests/unit/kernel_suite.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { F16 = FUSED_RUNGS, KERNELS }; // the rungs, and the last one with f16 storage

typedef struct Config {
    int kernel; // a rung, or F16
    GpuTarget target;
    SimtOrder order; // on simt
} Config;

static const char *kernel_name(int kernel) {
    return kernel == F16 ? "fused_register_tiled_f16" : fused_rungs[kernel].name;
}

static size_t workspace_floats(int kernel, const AttnShape *shape) {
    return kernel == F16 ? 0 : fused_rungs[kernel].workspace_floats(shape);
}

static AttnStatus launch(const Config *config, const AttnShape *shape, const DeviceProblem *device,
                         float *workspace) {
    return config->kernel == F16
               ? fused_f16_builds[config->target](shape, device->q, device->k, device->v, device->o,
                                                  device->lse, NULL)
               : fused_rungs[config->kernel].builds[config->target](shape, device->q, device->k,
                                                                    device->v, device->o,
                                                                    device->lse, workspace, NULL);
}

// ---- the shared suite ---------------------------------------------------------------------------

// The shape whose sizes the tensors have.
static AttnShape shape_of(const Tensor *q, const Tensor *k) {
    return (AttnShape){.batch = q->dims[0],
                       .heads_q = q->dims[1],
                       .heads_kv = k->dims[1],
                       .len_q = q->dims[2],
                       .len_kv = k->dims[2],
                       .dim = q->dims[3]};
}

// Runs on device buffers of the tensors' sizes, with a workspace of exactly the size asked for.
// `shape` may be illegal.
static AttnStatus run_kernel(const AttnShape *shape, const Tensor *q, const Tensor *k,
                             const Tensor *v, Tensor *o, Tensor *lse, const void *context) {
    const Config *config = context;
    Problem problem = {shape_of(q, k), DTYPE_F32, *q, *k, *v, *o, *lse};
    DeviceProblem device;
    void *workspace = NULL;
    const DType stored = config->kernel == F16 ? DTYPE_F16 : DTYPE_F32;
    const size_t floats = workspace_floats(config->kernel, &problem.shape);
    simt_settings()->order = config->order;
    simt_settings()->workers = 1;
    ASSERT_OK(device_problem_make(&device, config->target, &problem, stored));
    ASSERT_OK(gpu_alloc(config->target, &workspace, "workspace", floats, sizeof(float)));
    const AttnStatus status = launch(config, shape, &device, workspace);
    if (status == ATTN_OK) {
        ASSERT_OK(device_problem_download(&device, &problem));
        ASSERT_OK(gpu_check_guard(config->target, workspace));
    } else {
        char message[512];
        snprintf(message, sizeof message, "%s", attn_last_error());
        ASSERT_OK(device_problem_download(&device, &problem));
        attn_fail(status, "%s", message);
    }
    gpu_free(config->target, workspace);
    device_problem_free(&device);
    return status;
}

static Config configs[4 * KERNELS]; // simt in three orders, cuda; a rung's follow each other
static int config_count;

static void find_configs(void) {
    for (int kernel = 0; kernel < KERNELS; kernel++) {
        for (int order = SIMT_FORWARD; order <= SIMT_RANDOM; order++) {
            configs[config_count++] = (Config){kernel, GPU_SIMT, (SimtOrder)order};
        }
        if (gpu_tests.device) {
            configs[config_count++] = (Config){kernel, GPU_CUDA, SIMT_FORWARD};
        }
    }
}

static KernelUnderTest kernel_under_test(const Config *config) {
    static const char *const orders[] = {"forward", "reverse", "random"};
    static char name[96];
    int block_q, block_k;
    fused_rungs[config->kernel == F16 ? FUSED_RUNGS - 1 : config->kernel].tile(1, &block_q,
                                                                               &block_k);
    snprintf(name, sizeof name, "%s, %s%s%s", kernel_name(config->kernel),
             gpu_target_name(config->target), config->target == GPU_CUDA ? "" : ", ",
             config->target == GPU_CUDA ? "" : orders[config->order]);
    return (KernelUnderTest){.name = name,
                             .run = run_kernel,
                             .config = config,
                             .block_q = block_q,
                             .block_k = block_k,
                             .no_masks = true,
                             .max_dim = FUSED_MAX_DIM};
}

START_TEST(golden) {
    const KernelUnderTest kernel = kernel_under_test(&configs[_i]);
    if (configs[_i].kernel != F16) {
        kernel_suite_golden(&kernel);
    }
}
END_TEST

// f16 storage has its own bounds; here it runs what they are made for.
START_TEST(storage_in_16_bits) {
    const KernelUnderTest kernel = kernel_under_test(&configs[_i]);
    if (configs[_i].kernel == F16) {
        kernel_suite_dtype(&kernel, DTYPE_F16);
        kernel_suite_case(&kernel, "empty_dimensions");
        kernel_suite_case(&kernel, "gqa_map");
        kernel_suite_case(&kernel, "gqa_reject");
    }
}
END_TEST

// A hundred runs are made in one thread order only. 131,074 blocks take simt up to a minute: one
// rung does them always, all in make test-full; that no rung counts heads along a short axis of the
// grid is tested in test_ch05_trace.c.
static bool is_worth_its_time(const Config *config, const char *name) {
    const bool forward = config->order == SIMT_FORWARD;
    if (strcmp(name, "many_heads") == 0) {
        return config->target == GPU_CUDA ||
               (forward && (config->kernel == 1 || getenv("TEST_FULL") != NULL));
    }
    return forward || strcmp(name, "repeatable") != 0;
}

START_TEST(known_answer) {
    const char *name = kernel_suite_case_name((size_t)_i);
    for (int i = 0; i < config_count; i++) {
        if (configs[i].kernel != F16 && is_worth_its_time(&configs[i], name)) {
            const KernelUnderTest kernel = kernel_under_test(&configs[i]);
            kernel_suite_case(&kernel, name);
        }
    }
}
END_TEST

enum { SWEEP_PROBLEMS = 40 };

START_TEST(random_sweep) {
    const KernelUnderTest kernel = kernel_under_test(&configs[_i]);
    if (configs[_i].kernel != F16) {
        kernel_suite_random(&kernel, 105, (int64_t)_i * SWEEP_PROBLEMS, SWEEP_PROBLEMS);
    }
}
END_TEST

START_TEST(illegal_shapes) {
    const KernelUnderTest kernel = kernel_under_test(&configs[_i]);
    kernel_suite_errors(&kernel);
}
END_TEST

// ---- arguments ----------------------------------------------------------------------------------

START_TEST(what_is_not_supported_is_named) {
    static const int32_t lens[] = {1};
    static const struct {
        AttnShape shape;
        const char *named;
    } refused[] = {
        {{1, 1, 1, 4, 4, 257, 0, false, 0, NULL}, "dim 257"},
        {{1, 1, 1, 4, 4, 8, 0, true, 0, NULL}, "causal: masks come in chapter 7"},
        {{1, 1, 1, 4, 4, 8, 0, true, 2, NULL}, "window 2: masks come in chapter 7"},
        {{1, 1, 1, 4, 4, 8, 0, false, 0, lens}, "kv_lens: key lengths of their own come in"},
        {{1, 2, 1, (1 << 29) + 1, 4, 8, 0, false, 0, NULL}, "batch * heads_q * len_q 1073741826"},
        {{1, 1, 1, 4, (1 << 30) + 1, 8, 0, false, 0, NULL}, "len_kv 1073741825"},
    };
    float memory[1] = {NAN};
    uint16_t half[1] = {0};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        for (int rung = 0; rung < FUSED_RUNGS; rung++) {
            ASSERT_FAILS(fused_rungs[rung].builds[GPU_SIMT](&refused[i].shape, memory, memory,
                                                            memory, memory, memory, memory, NULL),
                         ATTN_ERR_UNSUPPORTED, refused[i].named);
        }
        ASSERT_FAILS(
            fused_f16_builds[GPU_SIMT](&refused[i].shape, half, half, half, half, memory, NULL),
            ATTN_ERR_UNSUPPORTED, refused[i].named);
    }
}
END_TEST

START_TEST(null_pointers_are_refused) {
    static const char *const names[] = {"q ", "k ", "v ", "o ", "lse ", "workspace "};
    const AttnShape shape = {1, 1, 1, 2, 2, 2, 0, false, 0, NULL};
    float memory[8] = {0};
    for (int rung = 0; rung < FUSED_RUNGS; rung++) {
        const int pointers = fused_rungs[rung].workspace_floats(&shape) > 0 ? 6 : 5;
        for (int missing = 0; missing < pointers; missing++) {
            float *p[6];
            for (int i = 0; i < 6; i++) {
                p[i] = i == missing ? NULL : memory;
            }
            ASSERT_FAILS(fused_rungs[rung].builds[GPU_SIMT](&shape, p[0], p[1], p[2], p[3], p[4],
                                                            p[5], NULL),
                         ATTN_ERR_ARGUMENT, names[missing]);
            ck_assert(strncmp(attn_last_error(), names[missing], strlen(names[missing])) == 0);
        }
    }
}
END_TEST

START_TEST(workspaces_and_tiles) {
    const AttnShape shape = {3, 4, 2, 5, 70000, 64, 0, false, 0, NULL};
    static const size_t floats[] = {3 * 4 * 5 * 70000, 0, 2 * 3 * 4 * 5, 0, 0};
    static const int tiles[][2] = {{16, 16}, {64, 16}, {32, 32}, {32, 32}, {64, 64}};
    for (int rung = 0; rung < FUSED_RUNGS; rung++) {
        int block_q, block_k;
        fused_rungs[rung].tile(64, &block_q, &block_k);
        ck_assert_uint_eq(fused_rungs[rung].workspace_floats(&shape), floats[rung]);
        ck_assert_int_eq(block_q, tiles[rung][0]);
        ck_assert_int_eq(block_k, tiles[rung][1]);
        ck_assert_int_eq(fused_rungs[rung].launches, rung == 0 ? 3 : 1);
        ck_assert_int_eq(
            strncmp(fused_rungs[rung].file, fused_rungs[rung].name, strlen(fused_rungs[rung].name)),
            0);
    }
}
END_TEST

// ---- tensors at any address ---------------------------------------------------------------------

// One problem whose tensors begin one element behind a buffer's start: rows of 8 elements, none of
// which may be read four at a time.
static void check_unaligned(const Config *config) {
    const AttnShape shape = {1, 2, 1, 35, 67, 8, 0, false, 0, NULL};
    const bool f16 = config->kernel == F16;
    const size_t element = f16 ? 2 : 4;
    Problem problem;
    DeviceProblem aligned, shifted = {0};
    ASSERT_OK(problem_random(&problem, &shape, f16 ? DTYPE_F16 : DTYPE_F32, 11));
    ASSERT_OK(device_problem_make(&aligned, config->target, &problem, f16 ? DTYPE_F16 : DTYPE_F32));
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
    shifted.lse = aligned.lse;
    float *workspace = NULL;
    ASSERT_OK(gpu_alloc(config->target, (void **)&workspace, "workspace",
                        workspace_floats(config->kernel, &shape), sizeof(float)));
    ASSERT_OK(launch(config, &shape, &aligned, workspace));
    ASSERT_OK(launch(config, &shape, &shifted, workspace));
    ASSERT_OK(gpu_synchronize(config->target));
    const size_t bytes = attn_count_q(&shape) * element;
    char *wanted = malloc(bytes), *got = malloc(bytes);
    ASSERT_OK(gpu_download(config->target, wanted, aligned.o, bytes));
    ASSERT_OK(gpu_download(config->target, got, shifted.o, bytes));
    ck_assert_msg(memcmp(wanted, got, bytes) == 0, "%s", kernel_name(config->kernel));
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
    check_unaligned(&configs[_i]);
}
END_TEST

// ---- devices with less shared memory ------------------------------------------------------------

// An A100 has 163 KB for a block, an RTX 4090 has 99: the large tiles of the last rung do not fit.
START_TEST(smaller_devices) {
    static const char *const devices[] = {"a100", "rtx4090"};
    const AttnShape shapes[] = {{1, 2, 1, 65, 70, 64, 0, false, 0, NULL},
                                {1, 2, 1, 65, 70, 128, 0, false, 0, NULL},
                                {1, 2, 1, 65, 70, 256, 0, false, 0, NULL}};
    simt_settings()->device = devices[_i];
    for (int i = 0; i < 3; i++) {
        for (int kernel = 0; kernel < KERNELS; kernel++) {
            const Config config = {kernel, GPU_SIMT, SIMT_FORWARD};
            Problem problem;
            Expected expected;
            const DType stored = kernel == F16 ? DTYPE_F16 : DTYPE_F32;
            ASSERT_OK(problem_random(&problem, &shapes[i], stored, 3));
            ASSERT_OK(
                expected_make(&expected, &shapes[i], &problem.q, &problem.k, &problem.v, stored));
            const AttnStatus status = run_kernel(&shapes[i], &problem.q, &problem.k, &problem.v,
                                                 &problem.o, &problem.lse, &config);
            Comparison o, lse;
            ck_assert_msg(status == ATTN_OK, "%s, %s: %s", devices[_i], kernel_name(kernel),
                          attn_last_error());
            ck_assert_msg(compare_output(&expected, &problem.o, &problem.lse, 0, &o, &lse),
                          "%s, %s: %s%s", devices[_i], kernel_name(kernel), o.message, lse.message);
            expected_free(&expected);
            problem_free(&problem);
        }
    }
    simt_settings()->device = "h200";
}
END_TEST

int main(void) {
    gpu_tests_find();
    find_configs();
    Suite *suite = suite_create("ch05");
    TCase *tests = tcase_create("ch05");
    tcase_set_timeout(tests, 400);
    tcase_add_loop_test(tests, golden, 0, config_count);
    tcase_add_loop_test(tests, storage_in_16_bits, 0, config_count);
    tcase_add_loop_test(tests, known_answer, 0, (int)kernel_suite_case_count());
    tcase_add_loop_test(tests, random_sweep, 0, config_count);
    tcase_add_loop_test(tests, illegal_shapes, 0, config_count);
    tcase_add_test(tests, what_is_not_supported_is_named);
    tcase_add_test(tests, null_pointers_are_refused);
    tcase_add_test(tests, workspaces_and_tiles);
    tcase_add_loop_test(tests, unaligned_tensors, 0, config_count);
    tcase_add_loop_test(tests, smaller_devices, 0, 2);
    suite_add_tcase(suite, tests);
    return gpu_tests_run(suite);
}
