// Chapter 9's kernels over pages of every size, in any order, with slots and table entries behind
// the end that nobody may read: the golden tensors, the known answers and random problems, in three
// thread orders on simt and on CUDA where there is a device; the answers that are about pages; that
// neither page size nor page order changes a bit; what the kernels refuse.
#include "chapters/ch09_paged/page_walk.h"
#include "chapters/ch09_paged/paged.h"

#include "common/compare.h"
#include "common/problem.h"
#include "tests/unit/gpu_targets.h"
#include "tests/unit/kernel_suite.h"
#include "tests/unit/paged_run.h"

#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Both rungs in every order; page sizes below, at and above a step of 16 keys, multiples and not.
static const PagedRun simt_runs[] = {
    {PAGED_CORES, GPU_SIMT, SIMT_FORWARD, DTYPE_F32, 16, PAGES_SHUFFLED, 1},
    {PAGED_CORES, GPU_SIMT, SIMT_REVERSE, DTYPE_F32, 6, PAGES_REVERSED, 4},
    {PAGED_CORES, GPU_SIMT, SIMT_RANDOM, DTYPE_BF16, 1, PAGES_SHUFFLED, 2},
    {PAGED_CORES, GPU_SIMT, SIMT_FORWARD, DTYPE_F16, 64, PAGES_SHUFFLED, 3},
    {PAGED_MMA, GPU_SIMT, SIMT_FORWARD, DTYPE_BF16, 16, PAGES_SHUFFLED, 1},
    {PAGED_MMA, GPU_SIMT, SIMT_REVERSE, DTYPE_F16, 3, PAGES_SHUFFLED, 5},
    {PAGED_MMA, GPU_SIMT, SIMT_RANDOM, DTYPE_F16, 64, PAGES_REVERSED, 2},
    {PAGED_MMA, GPU_SIMT, SIMT_RANDOM, DTYPE_BF16, 24, PAGES_SHUFFLED, 3},
};
enum { SIMT_RUNS = sizeof simt_runs / sizeof simt_runs[0] };
static PagedRun runs[2 * SIMT_RUNS];
static int run_count;

static void find_runs(void) {
    for (int i = 0; i < SIMT_RUNS; i++) {
        runs[run_count++] = simt_runs[i];
    }
    for (int i = 0; i < SIMT_RUNS && gpu_tests.device; i++) {
        runs[run_count] = simt_runs[i];
        runs[run_count++].target = GPU_CUDA;
    }
}

// ---- the shared suite ---------------------------------------------------------------------------

static KernelUnderTest kernel_under_test(const PagedRun *run) {
    static char name[128];
    return (KernelUnderTest){.name = paged_run_text(run, name),
                             .run = paged_run,
                             .config = run,
                             .block_q = run->rung == PAGED_MMA ? 16 : 8,
                             .block_k = run->rung == PAGED_MMA ? SPLIT_KV_MMA_KEYS : 64,
                             .max_dim = run->rung == PAGED_MMA ? 128 : PAGED_MAX_DIM,
                             .dtype = run->dtype};
}

START_TEST(golden) {
    const KernelUnderTest kernel = kernel_under_test(&runs[_i]);
    kernel_suite_golden(&kernel);
}
END_TEST

// 131,074 blocks take simt a minute: CUDA only, and make test-full. nan_isolation is made of one
// run of each rung; a hundred runs of one only, since pages_change_no_bit compares bits, too.
static bool is_worth_its_time(int i, const char *name) {
    const bool chosen = i % SIMT_RUNS == 0 || i % SIMT_RUNS == 4;
    if (strcmp(name, "many_heads") == 0) {
        return chosen && (runs[i].target == GPU_CUDA || getenv("TEST_FULL") != NULL);
    }
    if (strcmp(name, "repeatable") == 0) {
        return chosen && (runs[i].target == GPU_CUDA || runs[i].rung == PAGED_MMA);
    }
    return chosen || strcmp(name, "nan_isolation") != 0;
}

START_TEST(known_answer) {
    const char *name = kernel_suite_case_name((size_t)_i);
    for (int i = 0; i < run_count; i++) {
        if (is_worth_its_time(i, name)) {
            const KernelUnderTest kernel = kernel_under_test(&runs[i]);
            kernel_suite_case(&kernel, name);
        }
    }
}
END_TEST

// test_ch09_stress.c decodes 470 random caches more.
START_TEST(random_problems) {
    const KernelUnderTest kernel = kernel_under_test(&runs[_i]);
    kernel_suite_random(&kernel, 9, (int64_t)_i * 1000, runs[_i].rung == PAGED_MMA ? 30 : 12);
}
END_TEST

START_TEST(illegal_shapes) {
    const KernelUnderTest kernel = kernel_under_test(&runs[_i]);
    kernel_suite_errors(&kernel);
}
END_TEST

// ---- known answers about pages ------------------------------------------------------------------

// A run of every rung, of every target (index t), in every order, on `problem` as it stands.
typedef void CheckRun(const PagedRun *run, Problem *problem);

static void every_run(int t, int64_t page_size, PageOrder pages, int64_t splits, Problem *problem,
                      CheckRun *check) {
    for (int rung = 0; rung < PAGED_RUNGS; rung++) {
        for (int order = SIMT_FORWARD; order <= SIMT_RANDOM; order++) {
            const PagedRun run = {rung,
                                  gpu_tests.target[t],
                                  (SimtOrder)order,
                                  rung == PAGED_MMA ? DTYPE_BF16 : DTYPE_F32,
                                  page_size,
                                  pages,
                                  splits};
            char text[128];
            tensor_poison(&problem->o);
            tensor_poison(&problem->lse);
            ck_assert_msg(paged_run(&problem->shape, &problem->q, &problem->k, &problem->v,
                                    &problem->o, &problem->lse, &run) == ATTN_OK,
                          "%s: %s", paged_run_text(&run, text), attn_last_error());
            check(&run, problem);
        }
    }
}

static void check_element(const PagedRun *run, const char *name, const Tensor *got, size_t at,
                          double expected, double bound) {
    char text[128];
    ck_assert_msg(fabs(tensor_get(got, at) - expected) <= bound, "%s: %s[%zu] is %.9g, not %.9g",
                  paged_run_text(run, text), name, at, tensor_get(got, at), expected);
}

static void check_all_ones(const PagedRun *run, Problem *problem) {
    for (size_t i = 0; i < problem->o.count; i++) {
        check_element(run, "O", &problem->o, i, 1.0, 0.0);
    }
    check_element(run, "LSE", &problem->lse, 0, log(13), 1e-6);
}

// Slots 13 to 15 of the last page are NaN, as in every run here.
START_TEST(nan_in_unused_slots) {
    const AttnShape shape = {1, 1, 1, 1, 13, 64, 0, false, 0, NULL};
    Problem problem;
    ASSERT_OK(problem_random(&problem, &shape, DTYPE_BF16, 1));
    for (size_t i = 0; i < problem.k.count; i++) {
        tensor_set(&problem.k, i, 0);
        tensor_set(&problem.v, i, 1);
    }
    every_run(_i, 4, PAGES_SHUFFLED, 1, &problem, check_all_ones);
    every_run(_i, 16, PAGES_SHUFFLED, 1, &problem, check_all_ones);
    problem_free(&problem);
}
END_TEST

static void check_mean_of_twelve(const PagedRun *run, Problem *problem) {
    check_element(run, "O", &problem->o, 0, 5.5, run->dtype == DTYPE_F32 ? 1e-6 : 0.02);
    check_element(run, "LSE", &problem->lse, 0, log(12), 1e-6);
}

START_TEST(page_not_multiple_of_tile) {
    const AttnShape shape = {1, 1, 1, 1, 12, 1, 1, false, 0, NULL};
    Problem problem;
    ASSERT_OK(problem_random(&problem, &shape, DTYPE_BF16, 1));
    for (size_t i = 0; i < problem.k.count; i++) {
        tensor_set(&problem.k, i, 0);
        tensor_set(&problem.v, i, (double)i);
    }
    every_run(_i, 6, PAGES_REVERSED, 1, &problem, check_mean_of_twelve);
    every_run(_i, 6, PAGES_REVERSED, 3, &problem, check_mean_of_twelve);
    problem_free(&problem);
}
END_TEST

static void check_heads(const PagedRun *run, Problem *problem) {
    for (size_t h = 0; h < 6; h++) {
        check_element(run, "O", &problem->o, h, h < 3 ? 0 : 1, 0);
    }
}

START_TEST(gqa_map) {
    const AttnShape shape = {1, 6, 2, 1, 1, 1, 1, false, 0, NULL};
    Problem problem;
    ASSERT_OK(problem_random(&problem, &shape, DTYPE_BF16, 1));
    tensor_set(&problem.v, 0, 0);
    tensor_set(&problem.v, 1, 1);
    every_run(_i, 16, PAGES_SHUFFLED, 1, &problem, check_heads);
    every_run(_i, 1, PAGES_SHUFFLED, 1, &problem, check_heads);
    problem_free(&problem);
}
END_TEST

// ---- page sizes and orders ----------------------------------------------------------------------

// Shapes that a sweep runs: ragged, among them empty sequences, with and without windows, decode
// steps and chunks, groups of 1, 3, 4, 8 and 12 heads; and lengths of several rounds of a block's
// steps, in one part and in parts beside each other, with a window that begins within a step.
static const int32_t lens_three[] = {77, 0, 130}, lens_two[] = {1, 97}, lens_one[] = {697};
static const AttnShape sweep[] = {
    {3, 8, 2, 1, 130, 64, 0, false, 0, lens_three},    {2, 3, 1, 5, 97, 64, 0, true, 0, lens_two},
    {3, 2, 2, 3, 130, 64, 0, true, 20, lens_three},    {2, 8, 1, 1, 97, 128, 0, true, 33, lens_two},
    {3, 4, 1, 9, 130, 64, 0.3, true, 200, lens_three}, {1, 4, 1, 1, 700, 64, 0, false, 0, lens_one},
    {1, 12, 1, 2, 700, 128, 0, true, 610, lens_one},
};
static const int64_t page_sizes[] = {256, 1, 3, 6, 8, 16, 64};
enum {
    SWEEP = sizeof sweep / sizeof sweep[0],
    PAGE_SIZES = sizeof page_sizes / sizeof page_sizes[0]
};

static void check_oracle(const PagedRun *run, const Problem *problem) {
    Expected expected;
    Comparison o, lse;
    char text[128];
    ASSERT_OK(expected_make(&expected, &problem->shape, &problem->q, &problem->k, &problem->v,
                            run->dtype));
    ck_assert_msg(compare_output(&expected, &problem->o, &problem->lse, 0, &o, &lse),
                  "%s, T %" PRId64 ", window %" PRId64 ": %s %s", paged_run_text(run, text),
                  problem->shape.len_q, problem->shape.window, o.message, lse.message);
    expected_free(&expected);
}

// The first page size holds a whole sequence: its answer is checked against the oracle. All others,
// in any order of pages, must give the same bits: pages are no part of the arithmetic.
START_TEST(pages_change_no_bit) {
    const int rung = _i % PAGED_RUNGS, t = _i / PAGED_RUNGS % gpu_tests.count;
    const AttnShape *shape = &sweep[_i / PAGED_RUNGS / gpu_tests.count];
    const DType dtype = rung == PAGED_MMA ? DTYPE_F16 : DTYPE_BF16;
    for (int64_t splits = 1; splits <= 4; splits += 3) {
        Problem problem;
        Tensor first_o = {0}, first_lse = {0};
        ASSERT_OK(problem_random(&problem, shape, dtype, (uint64_t)_i));
        for (int p = 0; p < PAGE_SIZES; p++) {
            const PagedRun run = {rung,  gpu_tests.target[t], (SimtOrder)(p % 3),
                                  dtype, page_sizes[p],       (PageOrder)((p + 2) % 3),
                                  splits};
            char text[128];
            tensor_poison(&problem.o);
            tensor_poison(&problem.lse);
            ck_assert_msg(paged_run(shape, &problem.q, &problem.k, &problem.v, &problem.o,
                                    &problem.lse, &run) == ATTN_OK,
                          "%s: %s", paged_run_text(&run, text), attn_last_error());
            if (p == 0) {
                check_oracle(&run, &problem);
                ASSERT_OK(tensor_convert(&first_o, &problem.o, DTYPE_F32));
                ASSERT_OK(tensor_convert(&first_lse, &problem.lse, DTYPE_F32));
            }
            const size_t o_bytes = problem.o.count * sizeof(float);
            const size_t lse_bytes = problem.lse.count * sizeof(float);
            ck_assert_msg(memcmp(problem.o.data, first_o.data, o_bytes) == 0 &&
                              memcmp(problem.lse.data, first_lse.data, lse_bytes) == 0,
                          "%s, T %" PRId64 ", window %" PRId64 ": other bits than with page 256",
                          paged_run_text(&run, text), shape->len_q, shape->window);
        }
        tensor_free(&first_o);
        tensor_free(&first_lse);
        problem_free(&problem);
    }
}
END_TEST

// The quotient that takes no division, at the borders of pages and at the largest keys.
START_TEST(columns_of_keys) {
    uint64_t random = 7;
    for (int64_t page_size = 1; page_size < 1 << 30; page_size += 1 + page_size / 7) {
        PagedParams p = {.page_rows = (unsigned)page_size};
        paged_set_page_size(&p, page_size);
        for (int i = 0; i < 300; i++) {
            random = random * 6364136223846793005U + 1442695040888963407U;
            const int64_t near = (int64_t)(random >> 33) / page_size * page_size + i % 3 - 1;
            const int key = (int)(i == 0 ? INT32_MAX : near < 0 ? i : near);
            if (page_column(&p, key) != key / page_size ||
                page_row(&p, 3, 0, key) != (size_t)(3 * page_size + key % page_size)) {
                ck_abort_msg("page %" PRId64 ", key %d: column %d, row %zu", page_size, key,
                             page_column(&p, key), page_row(&p, 3, 0, key));
            }
        }
    }
}
END_TEST

START_TEST(rows_of_64_bits) {
    PagedParams p = {.page_rows = 8 * 16};
    paged_set_page_size(&p, 16);
    const PageLayout layout = {16, 8, 128, DTYPE_BF16};
    ck_assert_int_eq(page_offset(&layout, 131072, 0, 0), 2147483648);
    ck_assert_uint_eq(page_row(&p, 131072, 0, 0) * 128, 2147483648U);
    ck_assert_int_eq(page_offset(&layout, (int64_t)1 << 30, 7, 15),
                     ((int64_t)1 << 44) + (7 * 16 + 15) * 128);
    ck_assert_uint_eq(page_row(&p, 1 << 30, 7, 37), ((size_t)1 << 37) + 7 * 16 + 5);
}
END_TEST

// ---- tables and caches --------------------------------------------------------------------------

START_TEST(page_table_bounds) {
    const int32_t table[] = {2, 0, 1, -1};
    int32_t lens[] = {8, 4};
    ASSERT_OK(paged_check_table(table, 2, lens, 2, 4, 3)); // entry 3 is behind the pages in use
    lens[0] = 9;
    ASSERT_FAILS(paged_check_table(table, 2, lens, 2, 4, 3), ATTN_ERR_ARGUMENT,
                 "sequence 0: length 9 does not fit in 2 columns of 4");
    lens[0] = -1;
    ASSERT_FAILS(paged_check_table(table, 2, lens, 2, 4, 3), ATTN_ERR_ARGUMENT, "length -1");
    lens[0] = 8;
    lens[1] = 5;
    ASSERT_FAILS(paged_check_table(table, 2, lens, 2, 4, 3), ATTN_ERR_ARGUMENT,
                 "sequence 1, column 1: page -1 is not in 0..2");
    lens[1] = 4;
    ASSERT_FAILS(paged_check_table(table, 2, lens, 2, 4, 2), ATTN_ERR_ARGUMENT,
                 "sequence 0, column 0: page 2 is not in 0..1");
    lens[0] = lens[1] = 0;
    ASSERT_OK(paged_check_table(table, 2, lens, 2, 4, 0));
    ASSERT_OK(paged_check_table(NULL, 0, NULL, 0, 4, 0));
}
END_TEST

// A call on a cache of two sequences that is as it should be but for one thing; O stays untouched.
typedef struct Call {
    AttnShape shape;
    DType dtype;
    PagedCache cache;
    float *q, *o, *lse;
    void *workspace;
} Call;

static void refused(const Call *call, int rung, AttnStatus status, const char *text) {
    float o[2];
    ck_assert_int_eq(paged_rungs[rung].builds[call->cache.target](
                         &call->shape, call->dtype, call->q, &call->cache, call->o, call->lse, 1,
                         call->workspace, NULL),
                     status);
    ck_assert_msg(strstr(attn_last_error(), text) != NULL, "\"%s\" lacks \"%s\"", attn_last_error(),
                  text);
    ASSERT_OK(gpu_download(call->cache.target, o, call->o, sizeof o));
    ck_assert(isnan(o[0]) && isnan(o[1]));
}

START_TEST(what_is_refused) {
    const GpuTarget target = gpu_tests.target[_i];
    const int32_t lens[] = {7, 5}, longer[] = {7, 9};
    const AttnShape shape = {2, 4, 2, 1, 8, 64, 0, false, 0, lens};
    const size_t bytes = paged_rungs[PAGED_MMA].workspace_bytes(&shape, 1);
    void *memory[7];
    const char *const names[] = {"k", "v", "table", "kv_lens", "q", "o", "workspace"};
    for (int i = 0; i < 7; i++) {
        ASSERT_OK(gpu_alloc(target, &memory[i], names[i], i == 6 ? bytes : 4096, sizeof(float)));
    }
    const Call good = {
        .shape = shape,
        .dtype = DTYPE_F16,
        .cache =
            {target, {4, 2, 64, DTYPE_F16}, 4, memory[0], memory[1], memory[2], 2, 2, memory[3]},
        .q = memory[4],
        .o = memory[5],
        .lse = (float *)memory[5] + 2048,
        .workspace = memory[6]};
    for (int rung = 0; rung < PAGED_RUNGS; rung++) {
        Call call = good;
        call.cache.batch = 3;
        refused(&call, rung, ATTN_ERR_ARGUMENT, "batch 2, but the cache has 3");
        call = good;
        call.cache.layout.heads_kv = 4;
        refused(&call, rung, ATTN_ERR_ARGUMENT, "heads_kv 2, but the cache has 4");
        call = good;
        call.cache.layout.dim = 128;
        refused(&call, rung, ATTN_ERR_ARGUMENT, "dim 64, but the cache has 128");
        call = good;
        call.dtype = DTYPE_BF16;
        refused(&call, rung, ATTN_ERR_ARGUMENT, "dtype bf16, but the cache has f16");
        call = good;
        call.cache.layout.page_size = 0;
        refused(&call, rung, ATTN_ERR_UNSUPPORTED, "page_size 0");
        call = good;
        call.shape.kv_lens = NULL;
        refused(&call, rung, ATTN_ERR_ARGUMENT, "kv_lens is a null pointer");
        call = good;
        call.cache.kv_lens = NULL;
        refused(&call, rung, ATTN_ERR_ARGUMENT, "kv_lens is a null pointer");
        call = good;
        call.cache.table = NULL;
        refused(&call, rung, ATTN_ERR_ARGUMENT, "table is a null pointer");
        call = good;
        call.shape.len_kv = 9;
        call.shape.kv_lens = longer;
        refused(&call, rung, ATTN_ERR_ARGUMENT, "sequence 1: length 9 does not fit in 2 columns");
        call = good;
        call.cache.v = NULL;
        refused(&call, rung, ATTN_ERR_ARGUMENT, "v");
        call = good;
        call.workspace = NULL;
        refused(&call, rung, ATTN_ERR_ARGUMENT, "workspace");
    }
    Call call = good;
    call.dtype = call.cache.layout.dtype = DTYPE_F32;
    refused(&call, PAGED_MMA, ATTN_ERR_UNSUPPORTED, "f32");
    call = good;
    call.shape.dim = call.cache.layout.dim = 96;
    refused(&call, PAGED_MMA, ATTN_ERR_UNSUPPORTED, "dim 96");
    call = good;
    call.q = (float *)memory[4] + 1;
    refused(&call, PAGED_MMA, ATTN_ERR_UNSUPPORTED, "aligned");
    call = good;
    call.shape.dim = call.cache.layout.dim = 257;
    refused(&call, PAGED_CORES, ATTN_ERR_UNSUPPORTED, "dim 257");
    for (int i = 0; i < 7; i++) {
        gpu_free(target, memory[i]);
    }
}
END_TEST

START_TEST(splits_fill_the_device) {
    static const int64_t wanted[PAGED_RUNGS] = {49, 16};
    GpuProperties h200;
    ASSERT_OK(gpu_properties(GPU_SIMT, &h200));
    const int32_t lens[] = {131072};
    const AttnShape shape = {1, 32, 8, 1, 131072, 128, 0, false, 0, lens};
    for (int rung = 0; rung < PAGED_RUNGS; rung++) {
        const int64_t splits = paged_rungs[rung].splits(&shape, DTYPE_BF16, &h200);
        ck_assert_int_eq(splits, wanted[rung]);
    }
}
END_TEST

int main(void) {
    gpu_tests_find();
    find_runs();
    Suite *suite = suite_create("ch09");
    TCase *tests = tcase_create("ch09");
    tcase_set_timeout(tests, 400);
    tcase_add_test(tests, columns_of_keys);
    tcase_add_test(tests, rows_of_64_bits);
    tcase_add_test(tests, page_table_bounds);
    tcase_add_test(tests, splits_fill_the_device);
    tcase_add_loop_test(tests, what_is_refused, 0, gpu_tests.count);
    tcase_add_loop_test(tests, nan_in_unused_slots, 0, gpu_tests.count);
    tcase_add_loop_test(tests, page_not_multiple_of_tile, 0, gpu_tests.count);
    tcase_add_loop_test(tests, gqa_map, 0, gpu_tests.count);
    tcase_add_loop_test(tests, pages_change_no_bit, 0, SWEEP * PAGED_RUNGS * gpu_tests.count);
    tcase_add_loop_test(tests, golden, 0, run_count);
    tcase_add_loop_test(tests, known_answer, 0, (int)kernel_suite_case_count());
    tcase_add_loop_test(tests, random_problems, 0, run_count);
    tcase_add_loop_test(tests, illegal_shapes, 0, run_count);
    suite_add_tcase(suite, tests);
    return gpu_tests_run(suite);
}
