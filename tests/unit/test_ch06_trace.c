// Chapter 6 traced: every key and value is asked for once, whatever the splits and the lengths;
// what passes through the workspace; how many launches; no finding in any thread order; where the
// grids put the heads.
#include "tests/unit/ch06_run.h"

#include "tests/unit/gpu_targets.h"

#include <stdio.h>
#include <string.h>

enum { SECTOR = 32 };

// Traces one call of a rung on a random problem.
static void trace(const DecodeConfig *config, const AttnShape *shape) {
    Problem problem;
    DeviceProblem device;
    ASSERT_OK(problem_random(&problem, shape, config->dtype, 7));
    ASSERT_OK(device_problem_make(&device, GPU_TRACE, &problem, config->dtype));
    void *workspace = decode_workspace(config, shape);
    simt_trace_reset();
    const AttnStatus status = decode_launch(config, &device, workspace);
    ck_assert_msg(status == ATTN_OK, "%s: %s", decode_rungs[config->rung].name, attn_last_error());
    ck_assert_int_eq(simt_finding()->kind, SIMT_NOTHING);
    ck_assert_int_eq(simt_trace_launches(), decode_rungs[config->rung].launches);
    gpu_free(GPU_TRACE, workspace);
    device_problem_free(&device);
    problem_free(&problem);
}

static DecodeConfig config_of(int rung, int64_t splits, DType dtype) {
    return (DecodeConfig){rung, splits, dtype, GPU_TRACE, SIMT_FORWARD};
}

// K and V, `bytes` of each, `times` times; and no byte that is not there twice within a block.
static void expect_reads(const DecodeConfig *config, uint64_t bytes, uint64_t times) {
    static const char *const tensors[] = {"k", "v"};
    for (int t = 0; t < 2; t++) {
        const SimtCounts counts = simt_trace_sum(tensors[t]);
        ck_assert_msg(SECTOR * counts.load_sectors == times * bytes &&
                          counts.block_unique_load == times * bytes &&
                          counts.load_bytes == times * bytes && counts.launch_unique_load == bytes,
                      "%s, %s, %d splits, %s: %llu bytes asked for, %llu of sectors, %llu once a "
                      "launch; expected %llu x %llu",
                      decode_rungs[config->rung].name, dtype_name(config->dtype),
                      (int)config->splits, tensors[t], (unsigned long long)counts.load_bytes,
                      (unsigned long long)(SECTOR * counts.load_sectors),
                      (unsigned long long)counts.launch_unique_load, (unsigned long long)times,
                      (unsigned long long)bytes);
    }
}

static const int rungs[] = {DECODE, SPLIT, FUSED};

START_TEST(keys_and_values_are_read_once) {
    for (int64_t dim = 64; dim <= 256; dim *= 2) {
        for (int64_t splits = 1; splits <= 7; splits += 3) {
            for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
                const AttnShape shape = {1, 2, 2, 1, 203, dim, 0, false, 0, NULL};
                const DecodeConfig config = config_of(rungs[_i], splits, (DType)dtype);
                trace(&config, &shape);
                expect_reads(&config, (uint64_t)(2 * 203 * dim) * dtype_size((DType)dtype), 1);
            }
        }
    }
}
END_TEST

// Four queries of a head share a block; of a ragged batch only what is in use is read.
START_TEST(four_queries_share_their_reads) {
    static const int32_t lens[] = {70, 0, 13};
    AttnShape shape = {3, 1, 1, 4, 70, 64, 0, false, 0, lens};
    const DecodeConfig config = config_of(rungs[_i], 3, DTYPE_F16);
    trace(&config, &shape);
    expect_reads(&config, (70 + 13) * 64 * 2, 1);
    shape.causal = true;
    trace(&config, &shape);
    expect_reads(&config, (70 + 13) * 64 * 2, 1);
    shape.causal = false;
    shape.len_q = 8;
    trace(&config, &shape);
    expect_reads(&config, (70 + 13) * 64 * 2, 2);
}
END_TEST

// A part is dim + 1 floats, written once and read once. The fused rung's blocks count themselves.
START_TEST(parts_pass_through_the_workspace_once) {
    const AttnShape shape = {1, 2, 2, 1, 100, 128, 0, false, 0, NULL};
    for (int rung = SPLIT; rung <= FUSED; rung++) {
        const DecodeConfig config = config_of(rung, 5, DTYPE_BF16);
        trace(&config, &shape);
        const SimtCounts counts = simt_trace_sum("workspace");
        const uint64_t o = 2 * 5 * 128 * 4, lse = 2 * 5 * 4; // heads, parts
        ck_assert_uint_eq(counts.store_bytes, o + lse);
        // Each of a group's 16 lanes reads the LSE itself.
        ck_assert_uint_eq(counts.load_bytes, o + 16 * lse);
        ck_assert_uint_eq(counts.atomic_requests, rung == FUSED ? 2 * 5 : 0);
    }
    // With one part nothing has to pass.
    const DecodeConfig config = config_of(FUSED, 1, DTYPE_BF16);
    trace(&config, &shape);
    const SimtCounts counts = simt_trace_sum("workspace");
    ck_assert_uint_eq(counts.store_bytes + counts.load_bytes + counts.atomic_requests, 0);
}
END_TEST

// A launch per operation: the scores are written and read in memory, several times.
START_TEST(unfused_scores_pass_through_the_workspace) {
    const AttnShape shape = {1, 2, 2, 1, 100, 128, 0, false, 0, NULL};
    const DecodeConfig config = config_of(UNFUSED, 5, DTYPE_BF16);
    static const char *const kernels[] = {
        "unfused_scores",   "unfused_maxima",  "unfused_exponentials", "unfused_sums",
        "unfused_products", "unfused_weights", "unfused_merge"};
    const uint64_t scores = 2 * 100 * 4;
    trace(&config, &shape);
    for (int i = 0; i < 7; i++) {
        ck_assert_str_eq(simt_trace_launch(i)->kernel, kernels[i]);
    }
    ck_assert_uint_eq(simt_trace_launch(0)->total.store_bytes, scores);
    for (int i = 1; i < 4; i++) {
        ck_assert_uint_ge(simt_trace_launch(i)->total.load_bytes, scores);
    }
    ck_assert_uint_ge(simt_trace_launch(2)->total.store_bytes, scores);
}
END_TEST

// All rungs, all types, in three thread orders, on rows that are and are not whole: no race within
// a block or between blocks, no access outside, nothing read that was not written.
START_TEST(nothing_is_found) {
    static const int32_t lens[] = {67, 20};
    static const int64_t dims[] = {64, 46, 128, 200};
    for (int i = 0; i < 4; i++) {
        for (int order = SIMT_FORWARD; order <= SIMT_RANDOM; order++) {
            AttnShape shape = {2, 2, 1, 1, 67, dims[i], 0, true, 0, lens};
            DecodeConfig config = config_of(_i, 4, (DType)((i + order) % 3));
            config.order = (SimtOrder)order;
            trace(&config, &shape);
            shape.len_q = 6;
            trace(&config, &shape);
        }
    }
}
END_TEST

// Heads, tiles and parts lie along the one axis of a grid that is long enough for all of them.
START_TEST(grids_are_long) {
    const AttnShape shape = {3, 2, 2, 5, 40, 8, 0, false, 0, NULL};
    const DecodeConfig config = config_of(_i, 4, DTYPE_F32);
    trace(&config, &shape);
    for (int launch = 0; launch < simt_trace_launches(); launch++) {
        const SimtLaunchTrace *got = simt_trace_launch(launch);
        ck_assert_uint_ge(got->grid[0], 3 * 2 * 2);
        ck_assert_uint_eq(got->grid[1], 1);
        ck_assert_uint_eq(got->grid[2], 1);
        ck_assert_uint_eq(got->block[0], DECODE_THREADS);
    }
}
END_TEST

int main(void) {
    gpu_tests_find();
    Suite *suite = suite_create("ch06 trace");
    TCase *tests = tcase_create("ch06 trace");
    tcase_set_timeout(tests, 400);
    char why[256];
    if (gpu_available(GPU_TRACE, why)) {
        tcase_add_loop_test(tests, keys_and_values_are_read_once, 0, 3);
        tcase_add_loop_test(tests, four_queries_share_their_reads, 0, 3);
        tcase_add_test(tests, parts_pass_through_the_workspace_once);
        tcase_add_test(tests, unfused_scores_pass_through_the_workspace);
        tcase_add_loop_test(tests, nothing_is_found, 0, DECODE_RUNGS);
        tcase_add_loop_test(tests, grids_are_long, 0, DECODE_RUNGS);
    } else {
        printf("not traced: %s\n", why);
    }
    suite_add_tcase(suite, tests);
    return gpu_tests_run(suite);
}
