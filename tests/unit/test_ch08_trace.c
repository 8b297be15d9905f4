// Chapter 8 traced: every rung's requests and sectors, each sector of K and V once for a tile of
// packed rows and once for every query head of the naive rung; no finding in any thread order;
// where the grids put the heads.
#include "chapters/ch08_gqa/gqa.h"

#include "common/device_problem.h"
#include "common/simt/runtime.h"
#include "tests/unit/gpu_targets.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECTOR = 32 };

// Traces one call of a rung on a random problem; its outputs are left in *problem.
static void trace(int rung, const AttnShape *shape, DType stored, int64_t splits,
                  Problem *problem) {
    DeviceProblem device;
    void *workspace = NULL;
    const size_t bytes = gqa_rungs[rung].workspace_bytes(shape, splits);
    ASSERT_OK(problem_random(problem, shape, stored, 7));
    ASSERT_OK(device_problem_make(&device, GPU_TRACE, problem, stored));
    ASSERT_OK(gpu_alloc(GPU_TRACE, &workspace, "workspace", bytes, 1));
    ASSERT_OK(split_kv_workspace_clear(GPU_TRACE, workspace, bytes, NULL));
    simt_trace_reset();
    const AttnStatus status =
        gqa_rungs[rung].builds[GPU_TRACE](shape, stored, device.q, device.k, device.v, device.o,
                                          device.lse, device.kv_lens, splits, workspace, NULL);
    ck_assert_msg(status == ATTN_OK, "%s: %s", gqa_rungs[rung].name, attn_last_error());
    ck_assert_int_eq(simt_finding()->kind, SIMT_NOTHING);
    ck_assert_int_eq(simt_trace_launches(), 1);
    ASSERT_OK(device_problem_download(&device, problem));
    gpu_free(GPU_TRACE, workspace);
    device_problem_free(&device);
}

// ---- bytes of K and V ---------------------------------------------------------------------------

// Keys that the tiles of a rung see, over all of them: a tile's tokens are those of its first and
// last row and what lies between, and the keys from the first token's first to the last one's last.
static uint64_t keys_of_tiles(int rung, const AttnShape *shape) {
    const int64_t group = shape->heads_q / shape->heads_kv;
    const int64_t tile = gqa_rungs[rung].tile_rows(shape);
    const int64_t heads = rung == GQA_NAIVE ? shape->heads_q : shape->heads_kv;
    const int64_t heads_of_row = rung == GQA_NAIVE ? 1 : group; // query heads of a token's rows
    const int64_t rows = heads_of_row * shape->len_q;
    int64_t keys = 0;
    for (int64_t b = 0; b < shape->batch; b++) {
        for (int64_t row = 0; row < rows; row += tile) {
            const int64_t end = row + tile < rows ? row + tile : rows;
            const KeyRange first = attn_visible_keys(shape, b, row / heads_of_row);
            const KeyRange last = attn_visible_keys(shape, b, (end - 1) / heads_of_row);
            keys += heads * (last.end > first.begin ? last.end - first.begin : 0);
        }
    }
    return (uint64_t)keys;
}

static void expect_sectors(int rung, const AttnShape *shape, DType stored, int64_t splits) {
    Problem problem;
    trace(rung, shape, stored, splits, &problem);
    const uint64_t bytes = keys_of_tiles(rung, shape) * (uint64_t)shape->dim * dtype_size(stored);
    static const char *const names[] = {"k", "v"};
    for (int i = 0; i < 2; i++) {
        const SimtCounts counts = simt_trace_sum(names[i]);
        ck_assert_msg(SECTOR * counts.load_sectors == bytes && counts.block_unique_load == bytes,
                      "%s, %s, splits %d: %llu bytes of sectors of %s, %llu block-unique, not %llu",
                      gqa_rungs[rung].name, dtype_name(stored), (int)splits,
                      (unsigned long long)(SECTOR * counts.load_sectors), names[i],
                      (unsigned long long)counts.block_unique_load, (unsigned long long)bytes);
    }
    problem_free(&problem);
}

static const int32_t ragged_lens[] = {150, 33};
static const AttnShape read_shapes[] = {
    {1, 8, 2, 1, 200, 64, 0, false, 0, NULL},         // a decode step: 4 rows
    {2, 8, 1, 1, 131, 128, 0, false, 0, NULL},        // 8 rows
    {2, 6, 2, 1, 150, 128, 0, false, 0, ragged_lens}, // 3 rows
    {1, 12, 1, 1, 97, 64, 0, false, 0, NULL},         // 12 rows: more than a tile of gqa
    {1, 8, 2, 5, 90, 64, 0, true, 0, NULL},           // a chunk: 20 rows
    {1, 6, 2, 7, 150, 64, 0, true, 40, NULL},         // windows
};
enum { READ_SHAPES = sizeof read_shapes / sizeof read_shapes[0] };

// Each sector of a head's K and V once for each tile of rows, however the keys are split.
START_TEST(keys_are_read_once_a_tile) {
    for (int rung = 0; rung < GQA_RUNGS; rung++) {
        for (int64_t splits = 1; splits <= 7; splits += 3) {
            expect_sectors(rung, &read_shapes[_i], DTYPE_BF16, splits);
        }
        if (rung != GQA_MMA) {
            expect_sectors(rung, &read_shapes[_i], DTYPE_F32, 2);
        }
    }
}
END_TEST

// In a decode step the naive rung reads `group` times what the others do.
START_TEST(the_naive_rung_reads_group_times_as_much) {
    for (int64_t group = 1; group <= 8; group++) {
        const AttnShape shape = {1, 2 * group, 2, 1, 100, 64, 0, false, 0, NULL};
        uint64_t sectors[GQA_RUNGS];
        for (int rung = 0; rung < GQA_RUNGS; rung++) {
            Problem problem;
            trace(rung, &shape, DTYPE_F16, 2, &problem);
            sectors[rung] = simt_trace_sum("k").load_sectors + simt_trace_sum("v").load_sectors;
            problem_free(&problem);
        }
        ck_assert_uint_eq(sectors[GQA_PACKED], 2 * 2 * 100 * 64 * 2 / SECTOR);
        ck_assert_uint_eq(sectors[GQA_MMA], sectors[GQA_PACKED]);
        ck_assert_uint_eq(sectors[GQA_NAIVE], (uint64_t)group * sectors[GQA_PACKED]);
    }
}
END_TEST

// ---- numbers ------------------------------------------------------------------------------------

// What the counters of a GPU show: l1tex__t_requests and l1tex__t_sectors of global loads, stores.
typedef struct Counters {
    uint64_t load_requests, load_sectors, store_requests, store_sectors;
} Counters;

// One KV head, 8 query heads, one token, 512 keys, d = 128, bf16, one part. K and V have 4,096
// sectors each, 16 a request. Q: gqa_naive has a head a block, whose 8 groups of 16 lanes all read
// the row, two groups a request; gqa the same for each of 8 rows. In gqa_mma a warp reads 8 rows in
// 4 requests. A warp stores a row of O at once, 8 bytes a lane, and one float of LSE.
START_TEST(counters_of_a_decode_step) {
    const AttnShape shape = {1, 8, 1, 1, 512, 128, 0, false, 0, NULL};
    static const Counters wanted[] = {
        {8 * (512 + 4), 8 * (8192 + 4 * 8), 8 * 2, 8 * 9},
        {512 + 8 * 4, 8192 + 8 * 4 * 8, 8 * 2, 8 * 9},
        {512 + 8 * 4, 8192 + 8 * 4 * 16, 8 * 2, 8 * 9},
    };
    for (int rung = 0; rung < GQA_RUNGS; rung++) {
        Problem problem;
        trace(rung, &shape, DTYPE_BF16, 1, &problem);
        const SimtCounts *got = &simt_trace_launch(0)->total;
        const Counters counted = {got->load_requests, got->load_sectors, got->store_requests,
                                  got->store_sectors};
        ck_assert_msg(
            memcmp(&counted, &wanted[rung], sizeof counted) == 0,
            "%s: loads %llu requests, %llu sectors; stores %llu, %llu", gqa_rungs[rung].name,
            (unsigned long long)counted.load_requests, (unsigned long long)counted.load_sectors,
            (unsigned long long)counted.store_requests, (unsigned long long)counted.store_sectors);
        problem_free(&problem);
    }
}
END_TEST

// ---- findings, grids ----------------------------------------------------------------------------

static const int32_t some_lens[] = {50, 0}, long_lens[] = {519, 300};
static const AttnShape awkward[] = {
    {2, 6, 2, 3, 70, 64, 0, true, 0, some_lens}, {1, 9, 1, 2, 65, 128, 0.3, false, 0, NULL},
    {1, 4, 4, 9, 33, 64, 0, true, 5, NULL},      {1, 2, 1, 3, 0, 64, 0, false, 0, NULL},
    {1, 6, 3, 2, 40, 20, 0, true, 0, NULL},      {1, 2, 1, 5, 17, 131, 0, false, 0, NULL},
    {1, 12, 1, 1, 400, 128, 0, false, 0, NULL},  {2, 6, 2, 2, 520, 64, 0, true, 410, long_lens},
};
enum { AWKWARD = sizeof awkward / sizeof awkward[0] };

// No race, no read of what nobody wrote, nothing out of bounds; and the same bits in every order.
START_TEST(no_findings_in_any_order) {
    const AttnShape shape = awkward[_i];
    for (int rung = 0; rung < GQA_RUNGS; rung++) {
        Problem forward, other;
        if (gqa_supports(rung, &shape, DTYPE_BF16) != ATTN_OK) {
            continue;
        }
        simt_settings()->order = SIMT_FORWARD;
        trace(rung, &shape, DTYPE_BF16, 3, &forward);
        for (int order = SIMT_REVERSE; order <= SIMT_RANDOM; order++) {
            simt_settings()->order = (SimtOrder)order;
            trace(rung, &shape, DTYPE_BF16, 3, &other);
            ck_assert(memcmp(forward.o.data, other.o.data, forward.o.count * sizeof(float)) == 0);
            ck_assert(memcmp(forward.lse.data, other.lse.data, forward.lse.count * sizeof(float)) ==
                      0);
            problem_free(&other);
        }
        problem_free(&forward);
    }
}
END_TEST

// y and z of a grid end at 65,535; heads, tiles of rows and parts lie along x.
START_TEST(heads_lie_along_x) {
    static const unsigned x[] = {2 * 12 * 2 * 3, 2 * 3 * 3 * 3, 2 * 3 * 2 * 1};
    const AttnShape shape = {2, 12, 3, 5, 40, 64, 0, false, 0, NULL}; // 5 tokens, 20 packed rows
    // 3 splits; the matrix instruction makes one of so few keys.
    for (int rung = 0; rung < GQA_RUNGS; rung++) {
        Problem problem;
        trace(rung, &shape, DTYPE_F16, 3, &problem);
        const SimtLaunchTrace *traced = simt_trace_launch(0);
        ck_assert_uint_eq(traced->grid[0], x[rung]);
        ck_assert_uint_eq(traced->grid[1], 1);
        ck_assert_uint_eq(traced->grid[2], 1);
        problem_free(&problem);
    }
}
END_TEST

// A window takes no more parts than its keys fill, and no more workspace: parts of 30 keys begin
// where the window does, and 16 keys are one.
START_TEST(windows_have_few_parts) {
    const AttnShape all = {1, 8, 2, 1, 300, 64, 0, true, 0, NULL};
    const AttnShape window = {1, 8, 2, 1, 300, 64, 0, true, 16, NULL};
    for (int rung = 0; rung < GQA_RUNGS; rung++) {
        Problem problem;
        trace(rung, &window, DTYPE_BF16, 10, &problem);
        ck_assert_uint_eq(simt_trace_launch(0)->grid[0], rung == GQA_NAIVE ? 8 : 2);
        ck_assert_uint_lt(gqa_rungs[rung].workspace_bytes(&window, 10),
                          gqa_rungs[rung].workspace_bytes(&all, 10));
        problem_free(&problem);
    }
}
END_TEST

int main(void) {
    gpu_tests_find();
    Suite *suite = suite_create("ch08_trace");
    TCase *tests = tcase_create("ch08_trace");
    tcase_set_timeout(tests, 240);
    char why[256];
    if (gpu_available(GPU_TRACE, why)) {
        tcase_add_loop_test(tests, keys_are_read_once_a_tile, 0, READ_SHAPES);
        tcase_add_test(tests, the_naive_rung_reads_group_times_as_much);
        tcase_add_test(tests, counters_of_a_decode_step);
        tcase_add_loop_test(tests, no_findings_in_any_order, 0, AWKWARD);
        tcase_add_test(tests, heads_lie_along_x);
        tcase_add_test(tests, windows_have_few_parts);
    } else {
        printf("not traced: %s\n", why);
    }
    suite_add_tcase(suite, tests);
    return gpu_tests_run(suite);
}
