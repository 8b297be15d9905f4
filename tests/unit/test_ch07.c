// Chapter 7: both kernels against the golden tensors, the known answers and random problems, on
// simt in three thread orders and on CUDA where there is a device; what they refuse; pointers that
// are not aligned; devices with less shared memory. The masks themselves are in test_ch07_rules.c.
#include "tests/unit/gpu_targets.h"
#include "tests/unit/masks_run.h"

#include <stdio.h>
#include <stdlib.h>

// ---- the shared suite ---------------------------------------------------------------------------

static KernelUnderTest kernel_under_test(const MasksRun *run) {
    static char name[96];
    return (KernelUnderTest){.name = masks_run_text(run, name),
                             .run = masks_run,
                             .config = run,
                             .block_q = BLOCK_SPARSE,
                             .block_k = BLOCK_SPARSE,
                             .max_dim = MASKS_MAX_DIM};
}

START_TEST(golden) {
    const KernelUnderTest kernel = kernel_under_test(&masks_runs[_i]);
    kernel_suite_golden(&kernel);
}
END_TEST

START_TEST(storage_in_16_bits) {
    MasksRun run = masks_runs[_i];
    for (int dtype = DTYPE_F16; dtype <= DTYPE_BF16 && masks_is_forward(&run); dtype++) {
        run.dtype = (DType)dtype;
        const KernelUnderTest kernel = kernel_under_test(&run);
        kernel_suite_dtype(&kernel, (DType)dtype);
        kernel_suite_case(&kernel, "empty_dimensions");
        kernel_suite_case(&kernel, "gqa_map");
    }
}
END_TEST

// A hundred runs are made in one order of one kernel only; 131,074 blocks take simt up to a minute:
// always on a device, on simt in make test-full. That the heads lie along the grid's long axis is
// tested in test_ch07_trace.c.
static bool is_worth_its_time(const MasksRun *run, const char *name) {
    const bool main_kernel = run->kernel == CAUSAL_SKIP || run->kernel == SPARSE_ALL;
    if (strcmp(name, "many_heads") == 0) {
        return main_kernel && (run->target == GPU_CUDA ||
                               (run->order == SIMT_FORWARD && getenv("TEST_FULL") != NULL));
    }
    return strcmp(name, "repeatable") != 0 || (main_kernel && masks_is_forward(run));
}

START_TEST(known_answer) {
    const char *name = kernel_suite_case_name((size_t)_i);
    for (int i = 0; i < masks_run_count; i++) {
        if (is_worth_its_time(&masks_runs[i], name)) {
            const KernelUnderTest kernel = kernel_under_test(&masks_runs[i]);
            kernel_suite_case(&kernel, name);
        }
    }
}
END_TEST

enum { SWEEP_PROBLEMS = 20 };

START_TEST(random_sweep) {
    const KernelUnderTest kernel = kernel_under_test(&masks_runs[_i]);
    kernel_suite_random(&kernel, 107, (int64_t)_i * SWEEP_PROBLEMS, SWEEP_PROBLEMS);
}
END_TEST

START_TEST(illegal_shapes) {
    const KernelUnderTest kernel = kernel_under_test(&masks_runs[_i]);
    kernel_suite_errors(&kernel);
}
END_TEST

// ---- arguments ----------------------------------------------------------------------------------

static AttnStatus call(int kernel, const AttnShape *shape, DType dtype, void *const p[5],
                       const int32_t *kv_lens) {
    const DeviceBlockList list = {.query_blocks = (shape->len_q + 63) / 64,
                                  .key_blocks = (shape->len_kv + 63) / 64};
    return kernel == 0 ? causal_builds[GPU_SIMT](shape, dtype, p[0], p[1], p[2], p[3], p[4],
                                                 kv_lens, MASK_SKIP, NULL)
                       : block_sparse_builds[GPU_SIMT](shape, dtype, p[0], p[1], p[2], p[3], p[4],
                                                       kv_lens, &list, NULL);
}

START_TEST(illegal_arguments) {
    static const int32_t lens[] = {1};
    static const struct {
        AttnShape shape;
        DType dtype;
        AttnStatus status;
        const char *named;
    } refused[] = {
        {{1, 1, 1, 4, 4, 257, 0, false, 0, NULL}, DTYPE_F32, ATTN_ERR_UNSUPPORTED, "dim 257"},
        {{1, 2, 1, (1 << 29) + 1, 4, 8, 0, false, 0, NULL},
         DTYPE_F32,
         ATTN_ERR_UNSUPPORTED,
         "batch * heads_q * len_q 1073741826"},
        {{1, 1, 1, 4, (1 << 30) + 1, 8, 0, false, 0, NULL},
         DTYPE_BF16,
         ATTN_ERR_UNSUPPORTED,
         "len_kv 1073741825"},
        {{1, 1, 1, 4, 4, 8, 0, false, 0, NULL}, DTYPE_F64, ATTN_ERR_ARGUMENT, "dtype 3"},
        {{1, 1, 1, 4, 4, 8, 0, false, 0, NULL}, (DType)9, ATTN_ERR_ARGUMENT, "dtype 9"},
        {{1, 1, 1, 4, 4, 8, 0, false, 0, lens}, DTYPE_F32, ATTN_ERR_ARGUMENT, "kv_lens is a null"},
        {{1, 1, 1, 4, 4, 8, 0, true, -1, NULL}, DTYPE_F32, ATTN_ERR_ARGUMENT, "window -1"},
    };
    static const char *const names[] = {"q ", "k ", "v ", "o ", "lse "};
    float memory[64] = {0};
    void *const all[5] = {memory, memory, memory, memory, memory};
    const AttnShape legal = {1, 1, 1, 2, 2, 2, 0, false, 0, NULL};
    for (int kernel = 0; kernel < 2; kernel++) {
        for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
            ASSERT_FAILS(call(kernel, &refused[i].shape, refused[i].dtype, all, NULL),
                         refused[i].status, refused[i].named);
        }
        for (int missing = 0; missing < 5; missing++) {
            void *some[5] = {memory, memory, memory, memory, memory};
            some[missing] = NULL;
            ASSERT_FAILS(call(kernel, &legal, DTYPE_F32, some, NULL), ATTN_ERR_ARGUMENT,
                         names[missing]);
            ck_assert(strncmp(attn_last_error(), names[missing], strlen(names[missing])) == 0);
        }
    }
    ASSERT_FAILS(causal_builds[GPU_SIMT](&legal, DTYPE_F32, memory, memory, memory, memory, memory,
                                         NULL, (MaskVisit)3, NULL),
                 ATTN_ERR_ARGUMENT, "visit 3");
    ck_assert(memory[0] == 0);
    int block_q, block_k;
    for (int dim = 1; dim <= MASKS_MAX_DIM; dim++) {
        causal_tile(dim, &block_q, &block_k);
        ck_assert_int_eq(block_q, dim > 64 && dim <= 128 ? 128 : 64);
        ck_assert_int_eq(block_k, 64);
    }
}
END_TEST

// Lengths in the target's memory alone, out of range: as 0 and as len_kv. And a window of more keys
// than an int counts.
START_TEST(lengths_are_clamped) {
    static const int32_t given[] = {-7, 1000, 30}, meant[] = {0, 70, 30};
    const AttnShape shape = {3, 1, 1, 40, 70, 8, 0, true, (int64_t)1 << 40, meant};
    Problem problem;
    Expected expected;
    DeviceProblem device;
    DeviceBlockList on_device = {0};
    ASSERT_OK(problem_random(&problem, &shape, DTYPE_F32, 4));
    ASSERT_OK(expected_make(&expected, &shape, &problem.q, &problem.k, &problem.v, DTYPE_F32));
    BlockList list = masks_list(&masks_runs[_i], &shape);
    ASSERT_OK(device_problem_make(&device, masks_runs[_i].target, &problem, DTYPE_F32));
    ASSERT_OK(gpu_upload(masks_runs[_i].target, device.kv_lens, given, sizeof given));
    if (masks_runs[_i].kernel >= SPARSE_ALL) {
        ASSERT_OK(device_block_list_make(&on_device, masks_runs[_i].target, &list, &shape));
    }
    AttnShape no_lens = shape;
    no_lens.kv_lens = NULL;
    ASSERT_OK(masks_launch(&masks_runs[_i], &no_lens, &device, &on_device));
    ASSERT_OK(device_problem_download(&device, &problem));
    ck_assert(compare_output(&expected, &problem.o, &problem.lse, 0, NULL, NULL));
    block_list_free(&list);
    device_block_list_free(&on_device);
    device_problem_free(&device);
    expected_free(&expected);
    problem_free(&problem);
}
END_TEST

// Outputs are rounded to nearest, ties to even, not cut off: the mean of 1 and 1 + 3u is 1 + 1.5u,
// u being the spacing of the type's numbers, and becomes 1 + 2u. dim 6 and 8 are stored one at a
// time and four at a time.
START_TEST(outputs_are_rounded) {
    for (int dtype = DTYPE_F16; dtype <= DTYPE_BF16; dtype++) {
        for (int64_t dim = 6; dim <= 8; dim += 2) {
            const AttnShape shape = {1, 1, 1, 1, 2, dim, 0, true, 0, NULL};
            const double u = 2 * dtype_unit_roundoff((DType)dtype);
            MasksRun run = masks_runs[_i];
            Problem problem;
            run.dtype = (DType)dtype;
            ASSERT_OK(problem_random(&problem, &shape, run.dtype, 1));
            for (int64_t c = 0; c < 2 * dim; c++) {
                tensor_set(&problem.k, (size_t)c, 0);
                tensor_set(&problem.v, (size_t)c, c < dim ? 1 : 1 + 3 * u);
            }
            ASSERT_OK(masks_run(&shape, &problem.q, &problem.k, &problem.v, &problem.o,
                                &problem.lse, &run));
            for (int64_t c = 0; c < dim; c++) {
                ck_assert(tensor_get(&problem.o, (size_t)c) == 1 + 2 * u);
            }
            problem_free(&problem);
        }
    }
}
END_TEST

// ---- tensors at any address ---------------------------------------------------------------------

// One problem whose tensors begin one element behind a buffer's start: rows of 8 elements, none of
// which may be read four at a time.
static void check_unaligned(const MasksRun *run) {
    const AttnShape shape = {1, 2, 1, 35, 67, 8, 0, true, 0, NULL};
    const size_t element = dtype_size(run->dtype);
    Problem problem;
    DeviceProblem aligned, shifted;
    DeviceBlockList on_device = {0};
    BlockList list = masks_list(run, &shape);
    ASSERT_OK(problem_random(&problem, &shape, run->dtype, 11));
    ASSERT_OK(device_problem_make(&aligned, run->target, &problem, run->dtype));
    if (run->kernel >= SPARSE_ALL) {
        ASSERT_OK(device_block_list_make(&on_device, run->target, &list, &shape));
    }
    shifted = aligned;
    const void *const from[] = {aligned.q, aligned.k, aligned.v, aligned.o};
    void *to[4], **const field[] = {&shifted.q, &shifted.k, &shifted.v, &shifted.o};
    for (int t = 0; t < 4; t++) {
        const size_t count = t == 0 || t == 3 ? attn_count_q(&shape) : attn_count_kv(&shape);
        char *host = malloc(count * element);
        ASSERT_OK(gpu_alloc(run->target, &to[t], "shifted", count + 1, element));
        ASSERT_OK(gpu_download(run->target, host, from[t], count * element));
        *field[t] = (char *)to[t] + element;
        ASSERT_OK(gpu_upload(run->target, *field[t], host, count * element));
        free(host);
    }
    ASSERT_OK(masks_launch(run, &shape, &aligned, &on_device));
    ASSERT_OK(masks_launch(run, &shape, &shifted, &on_device));
    ASSERT_OK(gpu_synchronize(run->target));
    const size_t bytes = attn_count_q(&shape) * element;
    char *wanted = malloc(bytes), *got = malloc(bytes), text[96];
    ASSERT_OK(gpu_download(run->target, wanted, aligned.o, bytes));
    ASSERT_OK(gpu_download(run->target, got, shifted.o, bytes));
    ck_assert_msg(memcmp(wanted, got, bytes) == 0, "%s", masks_run_text(run, text));
    ck_assert(got[0] != (char)0xFF || got[1] != (char)0xFF);
    free(wanted);
    free(got);
    for (int t = 0; t < 4; t++) {
        gpu_free(run->target, to[t]);
    }
    device_block_list_free(&on_device);
    block_list_free(&list);
    device_problem_free(&aligned);
    problem_free(&problem);
}

START_TEST(unaligned_tensors) {
    MasksRun run = masks_runs[_i];
    for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
        run.dtype = (DType)dtype;
        check_unaligned(&run);
    }
}
END_TEST

// ---- devices with less shared memory ------------------------------------------------------------

// An A100 has 163 KB for a block, an RTX 4090 has 99: the large tiles do not fit.
START_TEST(smaller_devices) {
    static const char *const devices[] = {"a100", "rtx4090"};
    static const int64_t dims[] = {64, 128, 256};
    simt_settings()->device = devices[_i];
    for (int kernel = 0; kernel < MASKS_KERNELS; kernel++) {
        for (int d = 0; d < 3; d++) {
            const MasksRun run = {(MasksKernel)kernel, GPU_SIMT, SIMT_FORWARD, DTYPE_BF16, NULL};
            const AttnShape shape = {1, 2, 1, 130, 170, dims[d], 0, true, 70, NULL};
            masks_check(&run, &shape, NULL, 3);
        }
    }
    simt_settings()->device = "h200";
}
END_TEST

int main(void) {
    gpu_tests_find();
    masks_find_runs();
    Suite *suite = suite_create("ch07");
    TCase *tests = tcase_create("ch07");
    tcase_set_timeout(tests, 400);
    tcase_add_loop_test(tests, golden, 0, masks_run_count);
    tcase_add_loop_test(tests, storage_in_16_bits, 0, masks_run_count);
    tcase_add_loop_test(tests, known_answer, 0, (int)kernel_suite_case_count());
    tcase_add_loop_test(tests, random_sweep, 0, masks_run_count);
    tcase_add_loop_test(tests, illegal_shapes, 0, masks_run_count);
    tcase_add_test(tests, illegal_arguments);
    tcase_add_loop_test(tests, lengths_are_clamped, 0, masks_run_count);
    tcase_add_loop_test(tests, outputs_are_rounded, 0, masks_run_count);
    tcase_add_loop_test(tests, unaligned_tensors, 0, masks_run_count);
    tcase_add_loop_test(tests, smaller_devices, 0, 2);
    suite_add_tcase(suite, tests);
    return gpu_tests_run(suite);
}
