// Chapter 9 traced: every sector of K and V once for each tile of rows, an entry of the table once
// for each step of a warp, nothing read behind a length or behind the pages in use, no race and no
// other finding in any thread order; and what an append writes.
#include "chapters/ch09_paged/append.h"
#include "chapters/ch09_paged/paged.h"

#include "common/problem.h"
#include "tests/unit/gpu_targets.h"
#include "tests/unit/paged_run.h"
#include "tests/unit/pool_model.h"

#include <check.h>
#include <inttypes.h>
#include <stdlib.h>

enum { SECTOR = 32, STEP = 16 };

// Traces one run on a random problem. A read of what was never written, a slot or an entry, is a
// finding, and an error of the run.
static void trace(const PagedRun *run, const AttnShape *shape) {
    Problem problem;
    char text[128];
    ASSERT_OK(problem_random(&problem, shape, run->dtype, 3));
    simt_trace_reset();
    ck_assert_msg(paged_run(shape, &problem.q, &problem.k, &problem.v, &problem.o, &problem.lse,
                            run) == ATTN_OK,
                  "%s: %s", paged_run_text(run, text), attn_last_error());
    ck_assert_int_eq(simt_finding()->kind, SIMT_NOTHING);
    ck_assert_int_eq(simt_trace_launches(), 1);
    ck_assert_uint_eq(simt_trace_launch(0)->grid[1], 1); // axes y and z are short
    ck_assert_uint_eq(simt_trace_launch(0)->grid[2], 1);
    problem_free(&problem);
}

// Bytes of K of all keys in use, of rows that are whole sectors.
static uint64_t key_bytes(const AttnShape *shape, DType dtype) {
    uint64_t keys = 0;
    for (int64_t b = 0; b < shape->batch; b++) {
        keys += (uint64_t)shape->kv_lens[b];
    }
    return keys * (uint64_t)(shape->heads_kv * shape->dim) * dtype_size(dtype);
}

static void expect_once(const PagedRun *run, const AttnShape *shape, uint64_t tiles) {
    static const char *const names[] = {"k", "v"};
    char text[128];
    for (int i = 0; i < 2; i++) {
        const SimtCounts got = simt_trace_sum(names[i]);
        const uint64_t bytes = key_bytes(shape, run->dtype);
        ck_assert_msg(got.load_sectors * SECTOR == tiles * bytes &&
                          got.load_bytes == tiles * bytes && got.launch_unique_load == bytes,
                      "%s, %s: %" PRIu64 " bytes of sectors, %" PRIu64 " asked for, %" PRIu64
                      " unique; the keys have %" PRIu64 ", tiles %" PRIu64,
                      paged_run_text(run, text), names[i], got.load_sectors * SECTOR,
                      got.load_bytes, got.launch_unique_load, bytes, tiles);
        ck_assert_uint_eq(got.store_sectors, 0);
    }
}

static const int64_t page_sizes[] = {1, 3, 6, 8, 16, 64, 256};
enum { PAGE_SIZES = sizeof page_sizes / sizeof page_sizes[0] };

// One tile of rows, whatever the group, and several.
START_TEST(keys_are_loaded_once_for_a_tile) {
    static const int32_t lens[] = {77, 0, 130};
    const struct {
        AttnShape shape;
        int tiles[PAGED_RUNGS];
    } cases[] = {{{3, 8, 2, 1, 130, 64, 0, false, 0, lens}, {1, 1}},
                 {{3, 8, 1, 1, 130, 128, 0, false, 0, lens}, {1, 1}},
                 {{3, 4, 1, 5, 130, 64, 0, false, 0, lens}, {3, 2}}};
    for (int c = 0; c < 3; c++) {
        for (int p = 0; p < PAGE_SIZES; p++) {
            const PagedRun run = {_i,        GPU_TRACE,     (SimtOrder)(p % 3),
                                  DTYPE_F16, page_sizes[p], PAGES_SHUFFLED,
                                  1 + p % 4};
            trace(&run, &cases[c].shape);
            expect_once(&run, &cases[c].shape, (uint64_t)cases[c].tiles[_i]);
        }
    }
}
END_TEST

// The table is 4 bytes for each page and each part that reads it. Where steps lie in one page a
// warp asks once a step; a block's entries come in whole sectors.
START_TEST(the_table_is_small) {
    static const int32_t lens[] = {512, 256};
    const AttnShape shape = {2, 8, 2, 1, 512, 64, 0, false, 0, lens};
    for (int64_t splits = 1; splits <= 4; splits *= 2) {
        for (int p = 4; p < PAGE_SIZES; p++) {
            const int64_t page = page_sizes[p];
            const PagedRun run = {_i,   GPU_TRACE,      SIMT_FORWARD, DTYPE_BF16,
                                  page, PAGES_SHUFFLED, splits};
            trace(&run, &shape);
            const SimtCounts got = simt_trace_sum("table");
            uint64_t most = 0; // over parts of 512 / splits keys, for each KV head
            for (int b = 0; b < 2; b++) {
                const int64_t part = 512 / splits;
                for (int64_t key = 0; key < lens[b]; key += part) {
                    const int64_t entries = (part + page - 1) / page;
                    most += 2 * (uint64_t)(4 * entries / SECTOR + 2) * SECTOR;
                }
            }
            ck_assert_uint_le(got.block_unique_load, most);
            ck_assert_uint_le(got.launch_unique_load,
                              (uint64_t)((512 + 256) / page * 4 + 4 * SECTOR));
            if (_i == PAGED_MMA) {
                ck_assert_uint_eq(got.load_requests, 2 * (512 + 256) / STEP);
                ck_assert_uint_eq(got.load_sectors, got.load_requests);
            } else { // four requests of a warp for the keys of its step, two groups of lanes each
                ck_assert_uint_eq(got.load_requests, 2 * (512 + 256) / 4);
            }
        }
    }
}
END_TEST

// Lengths at and next to the borders of pages, of steps and of parts; windows; chunks; splits; rows
// that are not whole vectors: no finding.
START_TEST(nothing_is_found) {
    static const int64_t heads[][2] = {{1, 1}, {4, 1}, {6, 2}};
    const int rung = _i % PAGED_RUNGS, order = _i / PAGED_RUNGS;
    uint64_t random = (uint64_t)_i + 1;
    for (int i = 0; i < 40; i++) {
        uint64_t draw[8];
        for (int d = 0; d < 8; d++) {
            random = random * 6364136223846793005U + 1442695040888963407U;
            draw[d] = random >> 33;
        }
        const int64_t page = page_sizes[draw[0] % PAGE_SIZES];
        const int32_t border = (int32_t)(page * (1 + (int64_t)draw[1] % 3));
        const int32_t more = i % 8 == 0 ? 3 * SPLIT_KV_MMA_KEYS : 0; // parts of whole steps
        const int32_t lens[] = {border % 150 + more, border % 150 + 1, (int32_t)(draw[2] % 90)};
        const bool narrow = rung == PAGED_CORES && draw[3] % 2 == 0;
        const AttnShape shape = {.batch = 3,
                                 .heads_q = heads[draw[4] % 3][0],
                                 .heads_kv = heads[draw[4] % 3][1],
                                 .len_q = 1 + (int64_t)draw[5] % 4,
                                 .len_kv = 151 + more,
                                 .dim = narrow ? 20 + (int64_t)draw[3] % 9 : 64,
                                 .causal = true,
                                 .window = (int64_t)draw[6] % 2 * (int64_t)(draw[6] % 60),
                                 .kv_lens = lens};
        const PagedRun run = {rung, GPU_TRACE,      (SimtOrder)order,          DTYPE_BF16,
                              page, PAGES_SHUFFLED, 1 + (int64_t)(draw[7] % 5)};
        trace(&run, &shape);
    }
}
END_TEST

// An append reads each new token once and writes it once, 16 bytes a thread, and nothing else.
START_TEST(tokens_are_written_once) {
    const PageLayout layout = {16, 2, 64, DTYPE_BF16};
    BlockPool *pool = model_pool(GPU_TRACE, &layout, 8);
    int64_t sequence;
    ASSERT_OK(block_pool_open(pool, &sequence));
    ASSERT_OK(model_append_to_pool(pool, sequence, 0, 13));
    simt_trace_reset();
    ASSERT_OK(model_append_to_pool(pool, sequence, 13, 37));
    ck_assert_int_eq(simt_trace_launches(), 1);
    const uint64_t bytes = 37 * 2 * 64 * 2;
    ck_assert_uint_eq(simt_trace_sum("new k").load_sectors * SECTOR, bytes);
    ck_assert_uint_eq(simt_trace_sum("k_pages").store_sectors * SECTOR, bytes);
    ck_assert_uint_eq(simt_trace_sum("v_pages").store_sectors * SECTOR, bytes);
    ck_assert_uint_eq(simt_trace_sum("k_pages").store_bytes, bytes);
    ck_assert_uint_eq(simt_trace_sum("").load_bytes, 2 * bytes);
    block_pool_free(pool);
}
END_TEST

int main(void) {
    gpu_tests_find();
    char why[256];
    const int traced = gpu_available(GPU_TRACE, why) ? 1 : 0;
    Suite *suite = suite_create("ch09_trace");
    TCase *tests = tcase_create("ch09_trace");
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, keys_are_loaded_once_for_a_tile, 0, traced * PAGED_RUNGS);
    tcase_add_loop_test(tests, the_table_is_small, 0, traced * PAGED_RUNGS);
    tcase_add_loop_test(tests, nothing_is_found, 0, traced * 3 * PAGED_RUNGS);
    tcase_add_loop_test(tests, tokens_are_written_once, 0, traced);
    suite_add_tcase(suite, tests);
    return gpu_tests_run(suite);
}
