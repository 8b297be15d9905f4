// Chapter 7 traced: what is loaded of K and V is the tiles that mask_tile and the list say, byte
// for byte; requests and sectors as numbers; no finding in any thread order; where the grids put
// the heads.
#include "chapters/ch07_masks/mask.h"
#include "tests/unit/gpu_targets.h"
#include "tests/unit/masks_run.h"

#include <stdio.h>
#include <string.h>

enum { SECTOR = 32 };

// Traces one call on a random problem; its outputs are left in *problem.
static void trace(const MasksRun *run, const AttnShape *shape, Problem *problem) {
    char text[96];
    masks_run_text(run, text);
    ASSERT_OK(problem_random(problem, shape, run->dtype, 7));
    simt_trace_reset();
    const AttnStatus status =
        masks_run(shape, &problem->q, &problem->k, &problem->v, &problem->o, &problem->lse, run);
    ck_assert_msg(status == ATTN_OK, "%s: %s", text, attn_last_error());
    ck_assert_int_eq(simt_finding()->kind, SIMT_NOTHING);
    ck_assert_int_eq(simt_trace_launches(), 1);
}

static MasksRun traced(MasksKernel kernel, DType dtype, const BlockList *list) {
    return (MasksRun){kernel, GPU_TRACE, SIMT_FORWARD, dtype, list};
}

// ---- bytes --------------------------------------------------------------------------------------

static bool lists(const BlockList *list, int64_t row, int64_t block) {
    bool found = false;
    for (int64_t e = list->offsets[row]; e < list->offsets[row + 1]; e++) {
        found = found || list->blocks[e] == block;
    }
    return found;
}

// Bytes of K, or of V, that the tiles hold which a call visits: those that mask_tile does not skip,
// and that the list has, where there is one. Keys behind an entry's length are not read.
static uint64_t bytes_of_tiles(const AttnShape *shape, MasksKernel kernel, const BlockList *list,
                               size_t element) {
    int block_q = BLOCK_SPARSE, block_k = BLOCK_SPARSE;
    uint64_t rows = 0;
    if (list == NULL) {
        causal_tile(shape->dim, &block_q, &block_k);
    }
    for (int64_t b = 0; b < shape->batch; b++) {
        const int keys = (int)attn_keys(shape, b);
        const Mask mask = {(int)shape->len_q, keys, shape->causal, (int)shape->window};
        for (int row0 = 0; row0 < shape->len_q; row0 += block_q) {
            for (int key0 = 0; key0 < keys; key0 += block_k) {
                const bool visited = kernel == CAUSAL_EVERY_TILE ||
                                     mask_tile(mask, row0, block_q, key0, block_k) != TILE_SKIP;
                if (visited && (list == NULL || lists(list, row0 / block_q, key0 / block_k))) {
                    rows += (uint64_t)(key0 + block_k < keys ? block_k : keys - key0);
                }
            }
        }
    }
    return rows * (uint64_t)(shape->heads_q * shape->dim) * element;
}

static void expect_bytes(const MasksRun *run, const AttnShape *shape) {
    static const char *const buffers[] = {"k", "v"};
    char text[96];
    Problem problem;
    trace(run, shape, &problem);
    const uint64_t wanted = bytes_of_tiles(shape, run->kernel, run->list, dtype_size(run->dtype));
    for (int i = 0; i < 2; i++) {
        const SimtCounts counts = simt_trace_sum(buffers[i]);
        ck_assert_msg(SECTOR * counts.load_sectors == wanted && counts.load_bytes == wanted,
                      "%s, T %d, S %d, window %d, %s: %llu bytes of sectors, %llu requested, the "
                      "tiles have %llu",
                      masks_run_text(run, text), (int)shape->len_q, (int)shape->len_kv,
                      (int)shape->window, buffers[i],
                      (unsigned long long)(SECTOR * counts.load_sectors),
                      (unsigned long long)counts.load_bytes, (unsigned long long)wanted);
    }
    problem_free(&problem);
}

static const int32_t ragged[] = {200, 0, 77};
static const AttnShape shapes[] = {
    {1, 1, 1, 320, 320, 64, 0, true, 0, NULL},   {1, 1, 1, 256, 256, 64, 0, true, 70, NULL},
    {1, 2, 1, 100, 230, 64, 0, true, 0, NULL},   {1, 1, 1, 230, 100, 64, 0, true, 65, NULL},
    {3, 1, 1, 130, 200, 64, 0, true, 0, ragged}, {1, 1, 1, 260, 300, 128, 0, true, 64, NULL},
    {1, 1, 1, 1, 200, 128, 0, true, 63, NULL},   {1, 1, 1, 130, 200, 64, 0, false, 0, ragged},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

// Every sector that is loaded belongs to a visited tile, and every one of a visited tile is loaded
// once. Visiting every tile loads all, asking for every score no more than asking for few.
START_TEST(bytes_are_the_tiles) {
    const AttnShape *shape = &shapes[_i];
    for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype += DTYPE_BF16 - DTYPE_F32) {
        MasksRun run = traced(CAUSAL_SKIP, (DType)dtype, NULL);
        expect_bytes(&run, shape);
    }
    if (_i < 2) {
        MasksRun run = traced(CAUSAL_EVERY_SCORE, DTYPE_F32, NULL);
        expect_bytes(&run, shape);
        run.kernel = CAUSAL_EVERY_TILE;
        expect_bytes(&run, shape);
    }
    BlockList list;
    ASSERT_OK(block_list_random(&list, shape, 0.5, true, (uint64_t)_i));
    const MasksRun run = traced(SPARSE_LIST, DTYPE_BF16, &list);
    expect_bytes(&run, shape);
    block_list_free(&list);
}
END_TEST

// ---- numbers ------------------------------------------------------------------------------------

// What the counters of a GPU show: l1tex__t_requests and l1tex__t_sectors of global loads, stores.
typedef struct Counters {
    uint64_t load_requests, load_sectors, store_requests, store_sectors;
} Counters;

static void expect_counters(const MasksRun *run, const AttnShape *shape, Counters wanted) {
    char text[96];
    Problem problem;
    trace(run, shape, &problem);
    const SimtCounts *got = &simt_trace_launch(0)->total;
    const Counters counted = {got->load_requests, got->load_sectors, got->store_requests,
                              got->store_sectors};
    ck_assert_msg(
        memcmp(&counted, &wanted, sizeof wanted) == 0,
        "%s: loads %llu requests, %llu sectors; stores %llu, %llu", masks_run_text(run, text),
        (unsigned long long)counted.load_requests, (unsigned long long)counted.load_sectors,
        (unsigned long long)counted.store_requests, (unsigned long long)counted.store_sectors);
    problem_free(&problem);
}

// One head, N = 512, d = 64, causal: 36 of the 64 tiles, 21 with a window of 128; a tile of K or V
// is 32 requests of 16 sectors, one of Q the same, O too; LSE a request of two rows. The list adds
// two reads of offsets a warp and one of blocks for each listed tile.
START_TEST(counters_at_512) {
    AttnShape shape = {1, 1, 1, 512, 512, 64, 0, true, 0, NULL};
    const Counters stores = {0, 0, 256 + 256, 4096 + 256};
    const MasksRun causal = traced(CAUSAL_SKIP, DTYPE_F32, NULL);
    const MasksRun sparse = traced(SPARSE_OF_SHAPE, DTYPE_F32, NULL);
    Counters wanted = stores;
    wanted.load_requests = 256 + 36 * 64;
    wanted.load_sectors = 16 * wanted.load_requests;
    expect_counters(&causal, &shape, wanted);
    wanted.load_requests += 8 * 4 * 2 + 36 * 4;
    wanted.load_sectors += 8 * 4 * 2 + 36 * 4;
    expect_counters(&sparse, &shape, wanted);
    shape.window = 128;
    wanted.load_requests = 256 + 21 * 64;
    wanted.load_sectors = 16 * wanted.load_requests;
    expect_counters(&causal, &shape, wanted);
}
END_TEST

// No access to shared memory takes more wavefronts than its bytes need, on the border of the mask
// neither.
START_TEST(no_bank_conflicts) {
    static const int64_t dims[] = {64, 128};
    const AttnShape shape = {1, 1, 1, 128, 128, dims[_i], 0, true, 0, NULL};
    for (int kernel = CAUSAL_SKIP; kernel <= SPARSE_ALL; kernel++) {
        const MasksRun run = traced((MasksKernel)kernel, DTYPE_F32, NULL);
        Problem problem;
        trace(&run, &shape, &problem);
        const SimtSharedCounts shared = simt_trace_sum_shared();
        char text[96];
        ck_assert_msg(
            shared.load_wavefronts == shared.load_ideal &&
                shared.store_wavefronts == shared.store_ideal,
            "%s: loads %llu wavefronts of %llu, stores %llu of %llu", masks_run_text(&run, text),
            (unsigned long long)shared.load_wavefronts, (unsigned long long)shared.load_ideal,
            (unsigned long long)shared.store_wavefronts, (unsigned long long)shared.store_ideal);
        problem_free(&problem);
    }
}
END_TEST

// ---- findings, grids ----------------------------------------------------------------------------

static const int32_t two_lens[] = {33, 66};
static const AttnShape awkward[] = {
    {2, 4, 2, 37, 70, 20, 0, true, 0, NULL},     {1, 3, 1, 65, 33, 6, 0.3, true, 9, NULL},
    {2, 1, 1, 5, 129, 96, 0, true, 0, two_lens}, {1, 2, 2, 70, 67, 131, 0, true, 64, NULL},
    {1, 1, 1, 3, 0, 8, 0, true, 0, NULL},
};
enum { AWKWARD = sizeof awkward / sizeof awkward[0] };

// No race, no read of what nobody wrote, nothing out of bounds; and the same bits in every order.
START_TEST(no_findings_in_any_order) {
    for (int kernel = CAUSAL_SKIP; kernel < MASKS_KERNELS; kernel++) {
        MasksRun run = traced((MasksKernel)kernel, (DType)(_i % 3), NULL);
        Problem forward, other;
        trace(&run, &awkward[_i], &forward);
        for (int order = SIMT_REVERSE; order <= SIMT_RANDOM; order++) {
            if (kernel != CAUSAL_SKIP && kernel != SPARSE_ALL) {
                continue;
            }
            run.order = (SimtOrder)order;
            trace(&run, &awkward[_i], &other);
            ck_assert_mem_eq(forward.o.data, other.o.data, forward.o.count * sizeof(float));
            ck_assert_mem_eq(forward.lse.data, other.lse.data, forward.lse.count * sizeof(float));
            problem_free(&other);
        }
        problem_free(&forward);
    }
}
END_TEST

// y and z of a grid end at 65,535; heads, and tiles of queries, lie along x.
START_TEST(heads_lie_along_x) {
    const AttnShape shape = {3, 4, 2, 70, 40, 24, 0, true, 0, NULL};
    for (int kernel = CAUSAL_SKIP; kernel <= SPARSE_ALL; kernel += SPARSE_ALL) {
        const MasksRun run = traced((MasksKernel)kernel, DTYPE_F32, NULL);
        Problem problem;
        trace(&run, &shape, &problem);
        const SimtLaunchTrace *launch = simt_trace_launch(0);
        ck_assert_uint_eq(launch->grid[0], 3 * 4 * 2);
        ck_assert_uint_eq(launch->grid[1], 1);
        ck_assert_uint_eq(launch->grid[2], 1);
        problem_free(&problem);
    }
}
END_TEST

int main(void) {
    gpu_tests_find();
    Suite *suite = suite_create("ch07_trace");
    TCase *tests = tcase_create("ch07_trace");
    tcase_set_timeout(tests, 240);
    char why[256];
    if (gpu_available(GPU_TRACE, why)) {
        tcase_add_loop_test(tests, bytes_are_the_tiles, 0, SHAPES);
        tcase_add_test(tests, counters_at_512);
        tcase_add_loop_test(tests, no_bank_conflicts, 0, 2);
        tcase_add_loop_test(tests, no_findings_in_any_order, 0, AWKWARD);
        tcase_add_test(tests, heads_lie_along_x);
    } else {
        printf("not traced: %s\n", why);
    }
    suite_add_tcase(suite, tests);
    return gpu_tests_run(suite);
}
