// Chapter 7's block-sparse kernel at lists of every kind, against the oracle with the list as a
// mask: densities from 0 to 1, rows that list nothing, causal, windows and key lengths on top, all
// storage types; and NaN in blocks that are not listed.
#include "tests/unit/gpu_targets.h"
#include "tests/unit/masks_run.h"

#include <math.h>
#include <stdlib.h>

static GpuTarget target_of(int index) { // simt, and where there is one, the device
    return index == 0 ? GPU_SIMT : GPU_CUDA;
}

static void check_list(GpuTarget target, DType dtype, const BlockList *list, const AttnShape *shape,
                       uint64_t seed) {
    const MasksRun run = {SPARSE_LIST, target, (SimtOrder)(seed % 3), dtype, list};
    uint8_t *visible = masks_visible(list, shape);
    masks_check(&run, shape, visible, seed);
    free(visible);
}

START_TEST(random_lists) {
    static const double densities[] = {0, 0.15, 0.4, 0.7, 1};
    static const int32_t kv_lens[] = {200, 0, 129};
    static const AttnShape shapes[] = {
        {1, 2, 1, 200, 260, 8, 0, false, 0, NULL},    {1, 1, 1, 129, 200, 40, 0, true, 0, NULL},
        {1, 1, 1, 200, 129, 64, 0, true, 0, NULL},    {1, 1, 1, 192, 192, 16, 0, true, 70, NULL},
        {3, 1, 1, 65, 200, 8, 0, false, 0, kv_lens},  {3, 2, 2, 70, 200, 6, 0, true, 0, kv_lens},
        {3, 1, 1, 130, 200, 8, 0, true, 33, kv_lens}, {1, 1, 1, 70, 150, 72, 0.5, false, 0, NULL},
        {1, 1, 1, 1, 300, 96, 0, true, 0, NULL},      {1, 1, 1, 66, 130, 160, 0, true, 100, NULL},
    };
    for (int n = 0; n < 10; n++) {
        for (int d = 0; d < 5; d++) {
            const uint64_t seed = 5 * (uint64_t)n + (uint64_t)d;
            BlockList list;
            ASSERT_OK(block_list_random(&list, &shapes[n], densities[d], d % 2 == 1, seed));
            check_list(target_of(_i), (DType)(seed % 3), &list, &shapes[n], seed);
            block_list_free(&list);
        }
    }
}
END_TEST

// Rows that list nothing give exactly 0 and -inf, also between rows that list something, and where
// all that is listed is hidden by the shape's own masks.
START_TEST(rows_without_blocks) {
    const AttnShape shape = {1, 1, 1, 250, 250, 8, 0, true, 0, NULL};
    const MasksRun run = {SPARSE_LIST, target_of(_i), SIMT_FORWARD, DTYPE_F32, NULL};
    const int32_t offsets[] = {0, 0, 1, 2, 2}, blocks[] = {1, 3}; // block 3 is row 2's future
    BlockList list;
    ASSERT_OK(block_list_alloc(&list, 250, 250, 2));
    memcpy(list.offsets, offsets, sizeof offsets);
    memcpy(list.blocks, blocks, sizeof blocks);
    check_list(run.target, DTYPE_F32, &list, &shape, 3);
    MasksRun listed = run;
    Problem problem;
    listed.list = &list;
    ASSERT_OK(problem_random(&problem, &shape, DTYPE_F32, 3));
    ASSERT_OK(
        masks_run(&shape, &problem.q, &problem.k, &problem.v, &problem.o, &problem.lse, &listed));
    for (int64_t row = 0; row < 250; row++) {
        const float lse = ((const float *)problem.lse.data)[row];
        for (int64_t c = 0; c < 8 && row / 64 != 1; c++) {
            ck_assert(((const float *)problem.o.data)[row * 8 + c] == 0);
        }
        ck_assert(row / 64 == 1 ? isfinite(lse) : lse == -INFINITY);
    }
    block_list_free(&list);
    problem_free(&problem);
}
END_TEST

// All keys and values of blocks that nobody lists are NaN, and those that the mask hides in a
// listed block.
START_TEST(nan_in_blocks_that_are_not_listed) {
    static const int64_t dims[] = {8, 128};
    const AttnShape shape = {1, 1, 1, 200, 256, dims[_i % 2], 0, true, 0, NULL};
    const int32_t offsets[] = {0, 1, 3, 4, 6}, blocks[] = {0, 0, 3, 3, 0, 3};
    const MasksRun run = {SPARSE_LIST, target_of(_i / 2), SIMT_FORWARD, DTYPE_F32, NULL};
    MasksRun listed = run;
    BlockList list;
    Problem clean, spoiled;
    ASSERT_OK(block_list_alloc(&list, 200, 256, 6));
    memcpy(list.offsets, offsets, sizeof offsets);
    memcpy(list.blocks, blocks, sizeof blocks);
    listed.list = &list;
    ASSERT_OK(problem_random(&clean, &shape, DTYPE_F32, 8));
    ASSERT_OK(problem_random(&spoiled, &shape, DTYPE_F32, 8));
    for (int64_t e = 64 * shape.dim; e < 192 * shape.dim; e++) { // blocks 1 and 2
        tensor_set(&spoiled.k, (size_t)e, (double)NAN);
        tensor_set(&spoiled.v, (size_t)e, (double)NAN);
    }
    ASSERT_OK(masks_run(&shape, &clean.q, &clean.k, &clean.v, &clean.o, &clean.lse, &listed));
    ASSERT_OK(
        masks_run(&shape, &spoiled.q, &spoiled.k, &spoiled.v, &spoiled.o, &spoiled.lse, &listed));
    ck_assert_mem_eq(clean.o.data, spoiled.o.data, clean.o.count * sizeof(float));
    ck_assert_mem_eq(clean.lse.data, spoiled.lse.data, clean.lse.count * sizeof(float));
    // Key 255 is seen by row 199 alone.
    tensor_set(&spoiled.v, (size_t)(255 * shape.dim), (double)NAN);
    ASSERT_OK(
        masks_run(&shape, &spoiled.q, &spoiled.k, &spoiled.v, &spoiled.o, &spoiled.lse, &listed));
    for (size_t e = 0; e < clean.o.count; e++) {
        ck_assert_int_eq(isnan(tensor_get(&spoiled.o, e)) != 0, e == (size_t)(199 * shape.dim));
    }
    block_list_free(&list);
    problem_free(&clean);
    problem_free(&spoiled);
}
END_TEST

int main(void) {
    gpu_tests_find();
    const int targets = gpu_tests.device ? 2 : 1;
    Suite *suite = suite_create("ch07_sparse");
    TCase *tests = tcase_create("ch07_sparse");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, random_lists, 0, targets);
    tcase_add_loop_test(tests, rows_without_blocks, 0, targets);
    tcase_add_loop_test(tests, nan_in_blocks_that_are_not_listed, 0, 2 * targets);
    suite_add_tcase(suite, tests);
    return gpu_tests_run(suite);
}
