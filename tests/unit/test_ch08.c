// Chapter 8: every rung against the golden tensors, the known answers and random problems, in every
// storage type that it takes, on simt in three thread orders and on CUDA where there is a device;
// what the rungs refuse; pointers that are not aligned. Groups, splits and limits are in
// test_ch08_groups.c, traces in test_ch08_trace.c.
#include "chapters/ch08_gqa/gqa.h"

#include "common/compare.h"
#include "common/device_problem.h"
#include "tests/unit/gpu_targets.h"
#include "tests/unit/gqa_run.h"
#include "tests/unit/kernel_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { SUITE_PROBLEMS = 6 };

// ---- the shared suite ---------------------------------------------------------------------------

// Copies the first columns of rows; `from` and `to` have the same number of rows.
static void copy_columns(Tensor *to, const Tensor *from) {
    const int64_t wide = to->dims[3], narrow = from->dims[3];
    const int64_t columns = narrow < wide ? narrow : wide;
    const size_t rows = to->count / (size_t)wide;
    for (size_t r = 0; r < rows; r++) {
        memcpy((float *)to->data + r * (size_t)wide, (float *)from->data + r * (size_t)narrow,
               (size_t)columns * sizeof(float));
    }
}

// gqa_mma takes rows of 64 and 128. Any shorter row is one of those, with columns of zeros: the
// scores are the same where the scale is, and the columns of O that are more are left out.
static AttnStatus run_padded(const GqaConfig *config, const AttnShape *shape, const Tensor *q,
                             const Tensor *k, const Tensor *v, Tensor *o, Tensor *lse) {
    AttnShape wide = *shape;
    wide.dim = shape->dim <= 64 ? 64 : 128;
    wide.scale = attn_scale(shape);
    Problem problem = {.shape = wide, .dtype = DTYPE_F32, .lse = *lse};
    Tensor *tensors[] = {&problem.q, &problem.k, &problem.v, &problem.o};
    const Tensor *narrow[] = {q, k, v};
    for (int i = 0; i < 4; i++) {
        ASSERT_OK(i == 0 || i == 3 ? tensor_alloc_q(tensors[i], DTYPE_F32, &wide)
                                   : tensor_alloc_kv(tensors[i], DTYPE_F32, &wide));
        for (size_t e = 0; e < tensors[i]->count; e++) {
            tensor_set(tensors[i], e, 0);
        }
        if (i < 3) {
            copy_columns(tensors[i], narrow[i]);
        }
    }
    const AttnStatus status = gqa_run(config, &wide, &problem);
    copy_columns(o, &problem.o);
    for (int i = 0; i < 4; i++) {
        tensor_free(tensors[i]);
    }
    return status;
}

static AttnStatus run_kernel(const AttnShape *shape, const Tensor *q, const Tensor *k,
                             const Tensor *v, Tensor *o, Tensor *lse, const void *context) {
    const GqaConfig *config = context;
    if (config->rung == GQA_MMA && attn_check_shape(shape) == ATTN_OK && shape->dim <= 128) {
        return run_padded(config, shape, q, k, v, o, lse);
    }
    const bool legal = attn_check_shape(shape) == ATTN_OK;
    Problem problem = {.dtype = DTYPE_F32, .q = *q, .k = *k, .v = *v, .o = *o, .lse = *lse};
    problem.shape = (AttnShape){.batch = q->dims[0],
                                .heads_q = q->dims[1],
                                .heads_kv = k->dims[1],
                                .len_q = q->dims[2],
                                .len_kv = k->dims[2],
                                .dim = q->dims[3]};
    problem.shape.kv_lens = legal ? shape->kv_lens : NULL;
    return gqa_run(config, shape, &problem);
}

static KernelUnderTest kernel_under_test(const GqaConfig *config) {
    return (KernelUnderTest){.name = gqa_config_name(config),
                             .run = run_kernel,
                             .config = config,
                             .block_q = config->rung == GQA_MMA ? 16 : 8,
                             .block_k = config->rung == GQA_MMA ? SPLIT_KV_MMA_KEYS : 64,
                             .max_dim = config->rung == GQA_MMA ? 128 : GQA_MAX_DIM,
                             .dtype = config->stored};
}

START_TEST(golden) {
    const KernelUnderTest kernel = kernel_under_test(&gqa_configs[_i]);
    kernel_suite_golden(&kernel);
}
END_TEST

// 131,074 blocks take simt minutes; test_ch08_trace.c shows that no rung counts heads along a short
// axis of the grid. A hundred runs are made by one rung, a few by each in test_ch08_groups.c.
static bool is_worth_its_time(const GqaConfig *config, const char *name) {
    if (config->target == GPU_CUDA || getenv("TEST_FULL") != NULL) {
        return true;
    }
    return strcmp(name, "many_heads") != 0 &&
           (strcmp(name, "repeatable") != 0 ||
            (config->rung == GQA_MMA && config->order == SIMT_RANDOM));
}

START_TEST(known_answer) {
    const char *name = kernel_suite_case_name((size_t)_i);
    for (int i = 0; i < gqa_config_count; i++) {
        if (is_worth_its_time(&gqa_configs[i], name)) {
            const KernelUnderTest kernel = kernel_under_test(&gqa_configs[i]);
            kernel_suite_case(&kernel, name);
        }
    }
}
END_TEST

START_TEST(storage_in_16_bits) {
    const KernelUnderTest kernel = kernel_under_test(&gqa_configs[_i]);
    if (gqa_configs[_i].stored != DTYPE_F32) {
        kernel_suite_dtype(&kernel, gqa_configs[_i].stored);
    }
}
END_TEST

START_TEST(illegal_shapes) {
    const KernelUnderTest kernel = kernel_under_test(&gqa_configs[_i]);
    kernel_suite_errors(&kernel);
}
END_TEST

START_TEST(random_of_the_suite) {
    const KernelUnderTest kernel = kernel_under_test(&gqa_configs[_i]);
    kernel_suite_random(&kernel, 108, (int64_t)_i * SUITE_PROBLEMS, SUITE_PROBLEMS);
}
END_TEST

// ---- arguments ----------------------------------------------------------------------------------

static AttnStatus call(int rung, const AttnShape *shape, DType dtype, int64_t splits) {
    static float memory[64];
    return gqa_rungs[rung].builds[GPU_SIMT](shape, dtype, memory, memory, memory, memory, memory,
                                            NULL, splits, memory, NULL);
}

START_TEST(what_is_not_supported_is_named) {
    static const int32_t lens[] = {1};
    const AttnShape legal = {1, 2, 1, 1, 4, 64, 0, false, 0, NULL};
    for (int rung = 0; rung < GQA_RUNGS; rung++) {
        AttnShape shape = legal;
        shape.dim = 257;
        ASSERT_FAILS(call(rung, &shape, DTYPE_BF16, 1), ATTN_ERR_UNSUPPORTED, "dim 257");
        shape = legal;
        shape.len_q = (1 << 29) + 1;
        ASSERT_FAILS(call(rung, &shape, DTYPE_BF16, 1), ATTN_ERR_UNSUPPORTED,
                     "batch * heads_q * len_q 1073741826");
        shape = legal;
        shape.len_kv = (1 << 30) + 1;
        ASSERT_FAILS(call(rung, &shape, DTYPE_BF16, 1), ATTN_ERR_UNSUPPORTED, "len_kv 1073741825");
        shape = legal;
        shape.len_kv = 1 << 30;
        shape.heads_q = 1 << 10; // too many parts in all, though gqa_mma makes 2^23 of each row
        ASSERT_FAILS(call(rung, &shape, DTYPE_BF16, 1 << 30), ATTN_ERR_UNSUPPORTED,
                     rung == GQA_MMA ? "splits 8388608" : "splits 1073741824");
        ASSERT_FAILS(call(rung, &legal, DTYPE_BF16, 0), ATTN_ERR_ARGUMENT, "splits 0");
        ASSERT_FAILS(call(rung, &legal, DTYPE_F64, 1), ATTN_ERR_ARGUMENT, "dtype 3");
        shape = legal;
        shape.kv_lens = lens;
        ASSERT_FAILS(call(rung, &shape, DTYPE_BF16, 1), ATTN_ERR_ARGUMENT, "kv_lens");
        ck_assert_int_eq(gqa_supports(rung, &legal, DTYPE_BF16), ATTN_OK);
    }
    AttnShape shape = legal;
    shape.dim = 96;
    ASSERT_FAILS(call(GQA_MMA, &shape, DTYPE_F16, 1), ATTN_ERR_UNSUPPORTED, "dim 96");
    ASSERT_FAILS(call(GQA_MMA, &legal, DTYPE_F32, 1), ATTN_ERR_UNSUPPORTED, "dtype f32");
    ASSERT_FAILS(gqa_supports(GQA_MMA, &legal, DTYPE_F32), ATTN_ERR_UNSUPPORTED, "dtype f32");
    ck_assert_int_eq(gqa_supports(GQA_PACKED, &legal, DTYPE_F32), ATTN_OK);
}
END_TEST

START_TEST(null_pointers_are_refused) {
    static const char *const names[] = {"q ", "k ", "v ", "o ", "lse ", "workspace "};
    const AttnShape shape = {1, 1, 1, 2, 2, 64, 0, false, 0, NULL};
    static float memory[8];
    for (int rung = 0; rung < GQA_RUNGS; rung++) {
        for (int missing = 0; missing < 6; missing++) {
            float *p[6];
            for (int i = 0; i < 6; i++) {
                p[i] = i == missing ? NULL : memory;
            }
            ASSERT_FAILS(gqa_rungs[rung].builds[GPU_SIMT](&shape, DTYPE_F16, p[0], p[1], p[2], p[3],
                                                          p[4], NULL, 2, p[5], NULL),
                         ATTN_ERR_ARGUMENT, names[missing]);
            ck_assert(strncmp(attn_last_error(), names[missing], strlen(names[missing])) == 0);
        }
    }
}
END_TEST

// Packed rows of a block's tile: of one query head, or of the group.
START_TEST(tiles_of_rows) {
    static const int64_t wanted[][5] = {
        // heads_q, len_q; of heads_kv 2: rows of the three rungs
        {2, 1, 1, 1, 8}, {8, 1, 1, 4, 8}, {16, 1, 1, 8, 8}, {2, 5, 4, 8, 8}, {8, 3, 4, 8, 16},
    };
    for (int i = 0; i < 5; i++) {
        const AttnShape shape = {1, wanted[i][0], 2, wanted[i][1], 9, 64, 0, false, 0, NULL};
        for (int rung = 0; rung < GQA_RUNGS; rung++) {
            ck_assert_int_eq(gqa_rungs[rung].tile_rows(&shape), wanted[i][2 + rung]);
            ck_assert(strncmp(gqa_rungs[rung].file, gqa_rungs[rung].name,
                              strlen(gqa_rungs[rung].name)) == 0);
        }
    }
}
END_TEST

// ---- tensors at any address ---------------------------------------------------------------------

// One problem whose tensors begin one element behind a buffer's start: no row may be read sixteen
// bytes at a time. gqa_mma refuses it, the others read and write the same elements one at a time.
static void check_unaligned(const GqaConfig *config) {
    const AttnShape shape = {1, 4, 2, 3, 67, 64, 0, false, 0, NULL};
    const size_t element = dtype_size(config->stored);
    Problem problem;
    DeviceProblem aligned, shifted = {0};
    ASSERT_OK(problem_random(&problem, &shape, config->stored, 11));
    ASSERT_OK(device_problem_make(&aligned, config->target, &problem, config->stored));
    const void *const from[] = {aligned.q, aligned.k, aligned.v, aligned.o};
    void *to[4], *workspace = NULL,
                 **const field[] = {&shifted.q, &shifted.k, &shifted.v, &shifted.o};
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
    const size_t workspace_bytes = gqa_rungs[config->rung].workspace_bytes(&shape, 1);
    ASSERT_OK(gpu_alloc(config->target, &workspace, "workspace", workspace_bytes, 1));
    ASSERT_OK(split_kv_workspace_clear(config->target, workspace, workspace_bytes, NULL));
    GqaEntry *const *entry = &gqa_rungs[config->rung].builds[config->target];
    ASSERT_OK((*entry)(&shape, config->stored, aligned.q, aligned.k, aligned.v, aligned.o,
                       aligned.lse, NULL, 1, workspace, NULL));
    ASSERT_OK(device_problem_download(&aligned, &problem));
    const AttnStatus status = (*entry)(&shape, config->stored, shifted.q, shifted.k, shifted.v,
                                       shifted.o, aligned.lse, NULL, 1, workspace, NULL);
    if (config->rung == GQA_MMA) {
        ck_assert_int_eq(status, ATTN_ERR_UNSUPPORTED);
        ck_assert(strstr(attn_last_error(), "aligned to 16 bytes") != NULL);
    } else {
        Expected expected;
        Comparison o, lse;
        const size_t bytes = attn_count_q(&shape) * element;
        char *got = malloc(bytes);
        ASSERT_OK(status);
        ASSERT_OK(gpu_synchronize(config->target));
        ASSERT_OK(gpu_download(config->target, got, shifted.o, bytes));
        ASSERT_OK(gpu_upload(config->target, aligned.o, got, bytes));
        ASSERT_OK(device_problem_download(&aligned, &problem));
        ASSERT_OK(
            expected_make(&expected, &shape, &problem.q, &problem.k, &problem.v, config->stored));
        ck_assert_msg(compare_output(&expected, &problem.o, &problem.lse, 0, &o, &lse), "%s: %s%s",
                      gqa_config_name(config), o.message, lse.message);
        expected_free(&expected);
        free(got);
    }
    for (int t = 0; t < 4; t++) {
        gpu_free(config->target, to[t]);
    }
    gpu_free(config->target, workspace);
    device_problem_free(&aligned);
    problem_free(&problem);
}

START_TEST(unaligned_tensors) {
    check_unaligned(&gqa_configs[_i]);
}
END_TEST

int main(void) {
    gpu_tests_find();
    gqa_find_configs();
    Suite *suite = suite_create("ch08");
    TCase *tests = tcase_create("ch08");
    tcase_set_timeout(tests, 400);
    tcase_add_loop_test(tests, golden, 0, gqa_config_count);
    tcase_add_loop_test(tests, known_answer, 0, (int)kernel_suite_case_count());
    tcase_add_loop_test(tests, storage_in_16_bits, 0, gqa_config_count);
    tcase_add_loop_test(tests, illegal_shapes, 0, gqa_config_count);
    tcase_add_loop_test(tests, random_of_the_suite, 0, gqa_config_count);
    tcase_add_test(tests, what_is_not_supported_is_named);
    tcase_add_test(tests, null_pointers_are_refused);
    tcase_add_test(tests, tiles_of_rows);
    tcase_add_loop_test(tests, unaligned_tensors, 0, gqa_config_count);
    suite_add_tcase(suite, tests);
    return gpu_tests_run(suite);
}
