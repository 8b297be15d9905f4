// common/split_kv: the model of splits against every other number, parts and workspaces of packed
// rows and windows, the kernels' parameters, and what is refused.
#include "common/split_kv.h"

#include "common/device.h"
#include "common/simt/runtime.h"
#include "tests/unit/gpu_targets.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { MAX_DIM = 256 };

static float memory[64]; // stands for tensors that are not read

static AttnStatus prepare(SplitKvParams *params, const AttnShape *shape, int64_t tile_rows,
                          int64_t splits) {
    return split_kv_prepare(params, shape, DTYPE_BF16, memory, memory, memory, memory, memory,
                            shape == NULL ? NULL : shape->kv_lens, tile_rows, splits, MAX_DIM,
                            memory);
}

static SplitKvParams prepared(const AttnShape *shape, int64_t tile_rows, int64_t splits) {
    SplitKvParams params;
    ASSERT_OK(prepare(&params, shape, tile_rows, splits));
    return params;
}

// ---- how many -----------------------------------------------------------------------------------

START_TEST(shares_of_a_wave) {
    ck_assert_double_eq(split_kv_waves(132, 132), 1);
    ck_assert_double_eq(split_kv_waves(66, 132), 0.5);
    ck_assert_double_eq(split_kv_waves(8, 0), 0);
}
END_TEST

static int64_t time_of(int64_t units, int64_t keys, int64_t slots, int64_t cost, int64_t splits) {
    const int64_t waves = (units * splits + slots - 1) / slots;
    return waves * ((keys + splits - 1) / splits + cost);
}

// The choice is the smallest of those with the smallest time, however many there are to try.
START_TEST(the_choice_is_the_models_best) {
    static const int64_t units[] = {1, 8, 32, 131, 132, 133, 500, 3000};
    static const int64_t keys[] = {1, 63, 64, 100, 1000, 8192, 16384};
    static const int64_t slots[] = {1, 132, 396, 1056};
    for (int i = 0; i < 8 * 7 * 4; i++) {
        const int64_t u = units[i % 8], n = keys[i / 8 % 7], places = slots[i / 56];
        const int64_t chosen =
            split_kv_choose(u, n, places, SPLIT_KV_MIN_KEYS, SPLIT_KV_BLOCK_COST);
        int64_t best = 1;
        for (int64_t s = 2; s <= n / SPLIT_KV_MIN_KEYS; s++) {
            if (time_of(u, n, places, SPLIT_KV_BLOCK_COST, s) <
                time_of(u, n, places, SPLIT_KV_BLOCK_COST, best)) {
                best = s;
            }
        }
        ck_assert_msg(chosen == best, "%d units, %d keys, %d slots: %d, not %d", (int)u, (int)n,
                      (int)places, (int)chosen, (int)best);
    }
    ck_assert_int_eq(split_kv_choose(0, 100, 132, 1, 1), 1);
    ck_assert_int_eq(split_kv_choose(8, 0, 132, 1, 1), 1);
    ck_assert_int_eq(split_kv_choose(8, 100, 0, 1, 1), 1);
}
END_TEST

// 132 SMs of 3 blocks, 8 KV heads: 49 parts of 131,072 keys are 392 of 396 blocks.
START_TEST(splits_of_a_shape) {
    AttnShape shape = {1, 32, 8, 1, 131072, 128, 0, false, 0, NULL};
    ck_assert_int_eq(split_kv_splits(&shape, 8, 3 * 132, SPLIT_KV_MIN_KEYS, SPLIT_KV_BLOCK_COST),
                     49);
    shape.batch = 64;
    ck_assert_int_eq(split_kv_splits(&shape, 8, 3 * 132, SPLIT_KV_MIN_KEYS, SPLIT_KV_BLOCK_COST),
                     17); // 21.98 of 22 waves
    shape.batch = 0;
    ck_assert_int_eq(split_kv_splits(&shape, 8, 3 * 132, SPLIT_KV_MIN_KEYS, SPLIT_KV_BLOCK_COST),
                     1);
    // Parts of a ragged batch are as long as their mean asks: 4 entries of 1,024 keys and one of
    // 131,072 have a mean of 27,034.
    static const int32_t lens[] = {1024, 1024, 1024, 1024, 131072};
    AttnShape ragged = {5, 32, 8, 1, 131072, 128, 0, false, 0, lens};
    const int64_t parts = split_kv_choose(40, 27034, 396, SPLIT_KV_MIN_KEYS, SPLIT_KV_BLOCK_COST);
    const int64_t part = (27034 + parts - 1) / parts;
    ck_assert_int_eq(split_kv_splits(&ragged, 8, 396, SPLIT_KV_MIN_KEYS, SPLIT_KV_BLOCK_COST),
                     (131072 + part - 1) / part);
    // A window has few keys, and few parts: as many keys to a part, but of len_kv.
    AttnShape window = {1, 32, 8, 1, 131072, 128, 0, true, 1024, NULL};
    const int64_t few = split_kv_choose(8, 1024, 396, SPLIT_KV_MIN_KEYS, SPLIT_KV_BLOCK_COST);
    ck_assert_int_eq(few, 16);
    ck_assert_int_eq(split_kv_splits(&window, 8, 396, SPLIT_KV_MIN_KEYS, SPLIT_KV_BLOCK_COST),
                     131072 / (1024 / few));
}
END_TEST

// As recorded in docs/benchmarks/h200_ch08.csv: one block an SM at d = 128, two at d = 64.
START_TEST(splits_of_the_matrix_instruction) {
    GpuProperties h200;
    ASSERT_OK(gpu_properties(GPU_SIMT, &h200));
    static const struct {
        int64_t batch, keys, heads_q, heads_kv, dim, splits;
    } rows[] = {
        {1, 131072, 32, 8, 128, 16}, {16, 8192, 32, 8, 128, 1}, {64, 8192, 32, 8, 128, 1},
        {16, 8192, 64, 8, 128, 1},   {16, 8192, 32, 1, 128, 4}, {16, 8192, 16, 8, 64, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const AttnShape shape = {rows[i].batch,
                                 rows[i].heads_q,
                                 rows[i].heads_kv,
                                 1,
                                 rows[i].keys,
                                 rows[i].dim,
                                 0,
                                 false,
                                 0,
                                 NULL};
        ck_assert_int_eq(split_kv_mma_splits(&shape, &h200), rows[i].splits);
    }
    // A part has a step of 128 keys at least, and a shorter cache is one part.
    const AttnShape shape = {1, 32, 8, 1, 1000, 128, 0, false, 0, NULL};
    ck_assert_int_eq(split_kv_mma_limit(&shape, 100000), 7);
    ck_assert_int_eq(split_kv_mma_limit(&shape, 3), 3);
    ck_assert_int_eq(split_kv_mma_limit(&shape, 0), 0); // an error stays one
    const AttnShape few = {1, 32, 8, 1, 127, 128, 0, false, 0, NULL};
    ck_assert_int_eq(split_kv_mma_limit(&few, 5), 1);
    ck_assert_int_le(split_kv_mma_splits(&shape, &h200), 7);
}
END_TEST

// ---- parameters ---------------------------------------------------------------------------------

START_TEST(rows_are_packed_by_kv_head) {
    const AttnShape shape = {3, 12, 4, 5, 100, 64, 0.5, true, 0, NULL};
    const SplitKvParams p = prepared(&shape, 8, 7);
    ck_assert_int_eq(p.group, 3);
    ck_assert_int_eq(p.rows, 15);
    ck_assert_int_eq(p.tiles, 2);
    ck_assert_int_eq(p.units, 3 * 4 * 2);
    ck_assert_int_eq(p.heads_q, 12);
    ck_assert_int_eq(p.heads_kv, 4);
    ck_assert_int_eq(p.batch, 3);
    ck_assert_int_eq(p.len_q, 5);
    ck_assert_int_eq(p.len_kv, 100);
    ck_assert_int_eq(p.dim, 64);
    ck_assert_int_eq(p.causal, 1);
    ck_assert_int_eq(p.part_keys, 15);
    ck_assert_int_eq(p.splits, 7);
    ck_assert_float_eq(p.scale, 0.5f);
}
END_TEST

START_TEST(parts_have_keys) {
    AttnShape shape = {1, 2, 1, 1, 3, 64, 0, false, 0, NULL};
    for (int64_t splits = 1; splits <= 20; splits++) { // more of them than keys
        const SplitKvParams p = prepared(&shape, 8, splits);
        ck_assert_int_ge(p.part_keys, 1);
        ck_assert_int_ge(p.part_keys * p.splits, 3);
        ck_assert_int_lt(p.part_keys * (p.splits - 1), 3);
        ck_assert_int_le(p.splits, splits);
    }
    shape.len_kv = 0;
    ck_assert_int_eq(prepared(&shape, 8, 4).splits, 1);
    ck_assert_int_eq(prepared(&shape, 8, 4).part_keys, 1);
    shape.len_kv = 100; // more units than counters: not split
    shape.batch = SPLIT_KV_MAX_UNITS;
    ck_assert_int_eq(prepared(&shape, 8, 4).splits, 4);
    shape.batch++;
    ck_assert_int_eq(prepared(&shape, 8, 4).splits, 1);
    ck_assert_int_eq(prepared(&shape, 8, 4).part_keys, 100);
}
END_TEST

// No tile of any shape has more parts than there is room for.
START_TEST(windows_fit_into_their_parts) {
    for (int64_t i = 0; i < 4 * 5 * 6 * 7; i++) {
        const int64_t group = 1 + i % 4, len_q = 1 + i / 4 % 5 * 3, window = 1 + i / 20 % 6 * 9;
        const int64_t splits = 1 + i / 120 * 4;
        const AttnShape shape = {1, group, 1, len_q, 60, 64, 0, true, window, NULL};
        for (int64_t tile = 1; tile <= 16; tile *= 2) {
            const SplitKvParams p = prepared(&shape, tile, splits);
            const Mask mask = {p.len_q, p.len_kv, p.causal, p.window};
            for (int t = 0; t < p.tiles; t++) {
                const int row0 = t * (int)tile;
                const int end = row0 + (int)tile < p.rows ? row0 + (int)tile : p.rows;
                const int first = row0 / p.group, last = (end - 1) / p.group;
                const MaskRange keys = mask_tile_keys(mask, first, last - first + 1);
                ck_assert_int_le(keys.end - keys.begin, p.splits * p.part_keys);
            }
        }
    }
}
END_TEST

START_TEST(empty_problems_have_nothing_to_do) {
    const AttnShape shapes[] = {{0, 2, 1, 1, 3, 64, 0, false, 0, NULL},
                                {1, 2, 1, 0, 3, 64, 0, false, 0, NULL}};
    for (int i = 0; i < 2; i++) {
        SplitKvParams p;
        ASSERT_OK(split_kv_prepare(&p, &shapes[i], DTYPE_F32, NULL, memory, memory, NULL, NULL,
                                   NULL, 8, 3, MAX_DIM, NULL));
        ck_assert_int_eq(p.units, 0);
    }
}
END_TEST

START_TEST(a_tiny_scale_is_not_zero) {
    const AttnShape shape = {1, 1, 1, 1, 3, 64, 1e-60, false, 0, NULL};
    ck_assert_float_eq(prepared(&shape, 8, 1).scale, FLT_MIN);
}
END_TEST

START_TEST(vectors_need_aligned_rows) {
    const AttnShape shape = {1, 1, 1, 1, 3, 64, 0, false, 0, NULL};
    AttnShape odd = shape;
    odd.dim = 63;
    _Alignas(32) static char at[64];
    for (int missing = 0; missing < 4; missing++) {
        const void *in[3];
        SplitKvParams p;
        for (int i = 0; i < 3; i++) {
            in[i] = at + (i == missing ? 8 : 0);
        }
        ASSERT_OK(split_kv_prepare(&p, &shape, DTYPE_F16, in[0], in[1], in[2], at, memory, NULL, 8,
                                   1, MAX_DIM, memory));
        ck_assert_int_eq(p.vectors, missing == 3);
        ASSERT_OK(split_kv_prepare(&p, &odd, DTYPE_F16, at, at, at, at, memory, NULL, 8, 1, MAX_DIM,
                                   memory));
        ck_assert_int_eq(p.vectors, 0);
    }
}
END_TEST

// ---- the workspace ------------------------------------------------------------------------------

// The pieces lie one after the other, the counters first and always in the same place.
START_TEST(pieces_of_a_workspace) {
    const AttnShape shape = {2, 8, 2, 3, 100, 40, 0, false, 0, NULL};
    const SplitKvParams p = prepared(&shape, 8, 9);
    const size_t counters = SPLIT_KV_MAX_UNITS * sizeof(unsigned), parts = 2 * 8 * 3 * 9;
    ck_assert_ptr_eq(p.counters, memory);
    const size_t lse = (size_t)((char *)p.part_lse - (char *)memory);
    const size_t o = (size_t)((char *)p.part_o - (char *)memory);
    ck_assert_uint_eq(lse, counters);
    ck_assert_uint_ge(o, lse + parts * sizeof(float));
    ck_assert_uint_eq(o % 256, 0);
    ck_assert_uint_ge(split_kv_workspace_bytes(&shape, 8, 9), o + parts * 40 * sizeof(float));
    ck_assert_uint_lt(split_kv_workspace_bytes(&shape, 8, 9), o + parts * 40 * sizeof(float) + 256);
}
END_TEST

START_TEST(clearing_clears_the_counters_only) {
    enum { BYTES = SPLIT_KV_MAX_UNITS * sizeof(unsigned) + 256 };
    void *workspace;
    unsigned char *host = malloc(BYTES);
    ASSERT_OK(gpu_alloc(GPU_SIMT, &workspace, "workspace", BYTES, 1));
    ASSERT_OK(split_kv_workspace_clear(GPU_SIMT, workspace, BYTES, NULL));
    ASSERT_OK(gpu_download(GPU_SIMT, host, workspace, BYTES));
    for (int i = 0; i < BYTES; i++) {
        ck_assert_int_eq(host[i], i < BYTES - 256 ? 0 : 0xff);
    }
    ASSERT_OK(split_kv_workspace_clear(GPU_SIMT, NULL, 0, NULL));
    gpu_free(GPU_SIMT, workspace);
    free(host);
}
END_TEST

// ---- errors -------------------------------------------------------------------------------------

START_TEST(what_is_refused) {
    static const int32_t lens[] = {2};
    const AttnShape legal = {1, 2, 1, 1, 3, 64, 0, false, 0, NULL};
    SplitKvParams p;
    AttnShape shape = legal;
    shape.heads_kv = 3;
    ASSERT_FAILS(prepare(&p, &shape, 8, 1), ATTN_ERR_SHAPE, "heads_kv 3");
    ASSERT_FAILS(prepare(&p, NULL, 8, 1), ATTN_ERR_ARGUMENT, "shape");
    shape = legal;
    shape.dim = MAX_DIM + 1;
    ASSERT_FAILS(prepare(&p, &shape, 8, 1), ATTN_ERR_UNSUPPORTED, "dim 257");
    ASSERT_FAILS(prepare(&p, &legal, 8, 0), ATTN_ERR_ARGUMENT, "splits 0");
    shape = legal;
    shape.len_kv = (1 << 30) + 1;
    ASSERT_FAILS(prepare(&p, &shape, 8, 1), ATTN_ERR_UNSUPPORTED, "len_kv 1073741825");
    shape.len_kv = 1 << 30;
    ASSERT_FAILS(prepare(&p, &shape, 8, 1 << 30), ATTN_ERR_UNSUPPORTED, "splits 1073741824");
    shape = legal;
    shape.len_q = 1 << 30;
    ASSERT_FAILS(prepare(&p, &shape, 8, 1), ATTN_ERR_UNSUPPORTED, "batch * heads_q * len_q");
    shape = legal;
    shape.kv_lens = lens;
    ASSERT_FAILS(split_kv_prepare(&p, &shape, DTYPE_F32, memory, memory, memory, memory, memory,
                                  NULL, 8, 1, MAX_DIM, memory),
                 ATTN_ERR_ARGUMENT, "kv_lens");
    ASSERT_FAILS(split_kv_prepare(&p, &legal, DTYPE_F64, memory, memory, memory, memory, memory,
                                  NULL, 8, 1, MAX_DIM, memory),
                 ATTN_ERR_ARGUMENT, "dtype 3");
    ASSERT_FAILS(split_kv_prepare(&p, &legal, DTYPE_F32, memory, NULL, memory, memory, memory, NULL,
                                  8, 1, MAX_DIM, memory),
                 ATTN_ERR_ARGUMENT, "k is a null pointer");
    ASSERT_FAILS(split_kv_prepare(&p, &legal, DTYPE_F32, memory, memory, memory, memory, memory,
                                  NULL, 8, 1, MAX_DIM, NULL),
                 ATTN_ERR_ARGUMENT, "workspace is a null pointer");
}
END_TEST

int main(void) {
    gpu_tests_find();
    Suite *suite = suite_create("split_kv");
    TCase *tests = tcase_create("split_kv");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, shares_of_a_wave);
    tcase_add_test(tests, the_choice_is_the_models_best);
    tcase_add_test(tests, splits_of_a_shape);
    tcase_add_test(tests, splits_of_the_matrix_instruction);
    tcase_add_test(tests, rows_are_packed_by_kv_head);
    tcase_add_test(tests, parts_have_keys);
    tcase_add_test(tests, windows_fit_into_their_parts);
    tcase_add_test(tests, empty_problems_have_nothing_to_do);
    tcase_add_test(tests, a_tiny_scale_is_not_zero);
    tcase_add_test(tests, vectors_need_aligned_rows);
    tcase_add_test(tests, pieces_of_a_workspace);
    tcase_add_test(tests, clearing_clears_the_counters_only);
    tcase_add_test(tests, what_is_refused);
    suite_add_tcase(suite, tests);
    return gpu_tests_run(suite);
}
