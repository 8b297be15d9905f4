// Chapter 7's cards: every number of the lesson that is computed rather than measured, the counts
// that they come from, and the kernel that measures the arithmetic's ceiling.
#include "chapters/ch07_masks/cards.h"
#include "chapters/ch07_masks/fma_rate.h"

#include "tests/unit/gpu_targets.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

// Within half a unit of the last digit that a card shows.
static void assert_shown(double value, double shown, double unit) {
    ck_assert_msg(fabs(value - shown) <= unit / 2, "%.10g is not %.10g at a resolution of %g",
                  value, shown, unit);
}

static Mask causal_mask(int len) {
    return (Mask){len, len, 1, 0};
}

static AttnShape square(int64_t len, bool causal, int64_t window) {
    return (AttnShape){1, 1, 1, len, len, 64, 0, causal, window, NULL};
}

// ---- causal -------------------------------------------------------------------------------------

START_TEST(causal_tiles) {
    const struct {
        int len, block;
        int64_t visited, all;
        double share;
    } cases[] = {{2048, 128, 136, 256, 53.1},
                 {2048, 64, 528, 1024, 51.6},
                 {8192, 128, 2080, 4096, 50.8},
                 {8192, 64, 8256, 16384, 50.4}};
    for (int i = 0; i < 4; i++) {
        const int n = cases[i].len / cases[i].block;
        const TileTally tally =
            mask_tally(causal_mask(cases[i].len), cases[i].block, cases[i].block);
        ck_assert_int_eq(tally.visited, cases[i].visited);
        ck_assert_int_eq(tally.all, cases[i].all);
        ck_assert_int_eq(tally.visited, causal_pairs(n));
        ck_assert_int_eq(tally.partial, n);
        ck_assert_int_eq(tally.full + tally.partial, tally.visited);
        assert_shown(100 * causal_share(n), cases[i].share, 0.1);
        ck_assert_double_eq_tol(causal_share(n), (double)tally.visited / (double)tally.all, 1e-12);
    }
    // Tiles of 128 x 64: two partial ones for each block of queries.
    const TileTally wide = mask_tally(causal_mask(8192), 128, 64);
    ck_assert_int_eq(wide.visited, 4160);
    ck_assert_int_eq(wide.partial, 128);
}
END_TEST

// Partial tiles lie on the diagonal and nowhere else.
START_TEST(partial_tiles_are_on_the_diagonal) {
    const Mask mask = causal_mask(2048);
    for (int i = 0; i < 32; i++) {
        for (int j = 0; j < 32; j++) {
            const TileClass class = mask_tile(mask, 64 * i, 64, 64 * j, 64);
            ck_assert_int_eq(class, j < i ? TILE_FULL : j == i ? TILE_PARTIAL : TILE_SKIP);
        }
    }
}
END_TEST

START_TEST(visible_pairs) {
    ck_assert_double_eq(mask_visible_pairs((Mask){32768, 32768, 0, 0}), 1073741824.0);
    ck_assert_double_eq(mask_visible_pairs(causal_mask(32768)), 536887296.0);
    ck_assert_double_eq(mask_visible_pairs((Mask){32768, 32768, 1, 1024}), 33030656.0);
    ck_assert_double_eq(mask_visible_pairs((Mask){1, 4096, 1, 0}), 4096);
    ck_assert_double_eq(mask_visible_pairs((Mask){5, 2, 1, 0}), 3);
    ck_assert_double_eq(mask_visible_pairs((Mask){0, 7, 1, 0}), 0);
}
END_TEST

// ---- window -------------------------------------------------------------------------------------

START_TEST(a_window_costs_the_same_at_every_length) {
    ck_assert_int_eq(window_tiles(1024, 64, 64), 17);
    ck_assert_int_eq(window_tiles(1024, 128, 64), 18);
    ck_assert_int_eq(window_tiles(1025, 64, 64), 17);
    ck_assert_int_eq(window_tiles(1026, 64, 64), 18);
    ck_assert_int_eq(window_tiles(1, 64, 64), 1);
    for (int len = 2048; len <= 131072; len *= 4) {
        for (int window = 1; window <= 1100; window += 61) {
            const Mask last_64 = {64, len, 1, window}, last_128 = {128, len, 1, window};
            ck_assert_int_eq(mask_tally(last_64, 64, 64).visited, window_tiles(window, 64, 64));
            ck_assert_int_eq(mask_tally(last_128, 128, 64).visited, window_tiles(window, 128, 64));
        }
    }
    const Mask inside = {64, 8192, 1, 1024};
    ck_assert_int_eq(mask_tally(inside, 64, 64).partial, 2);
    const struct {
        int len;
        int64_t visited;
        double mean;
    } cases[] = {{2048, 408, 12.75}, {8192, 2040, 15.94}, {32768, 8568, 16.73}};
    for (int i = 0; i < 3; i++) {
        const Mask mask = {cases[i].len, cases[i].len, 1, 1024};
        const TileTally tally = mask_tally(mask, 64, 64);
        ck_assert_int_eq(tally.visited, cases[i].visited);
        assert_shown(64.0 * (double)tally.visited / cases[i].len, cases[i].mean, 0.01);
    }
}
END_TEST

// ---- counts -------------------------------------------------------------------------------------

// The tally agrees with asking every pair, and keys behind the last are not counted.
START_TEST(tallies_agree_with_every_pair) {
    const Mask masks[] = {{70, 130, 0, 0}, {70, 130, 1, 0},  {130, 70, 1, 0}, {65, 65, 1, 1},
                          {100, 0, 1, 0},  {100, 90, 1, 33}, {1, 129, 1, 64}, {0, 64, 0, 0}};
    for (size_t m = 0; m < sizeof masks / sizeof masks[0]; m++) {
        const Mask mask = masks[m];
        const TileTally tally = mask_tally(mask, 32, 16);
        int64_t visited = 0, full = 0, keys = 0, all = 0;
        double pairs = 0;
        for (int row0 = 0; row0 < mask.len_q; row0 += 32) {
            for (int key0 = 0; key0 < mask.keys; key0 += 16) {
                int seen = 0, asked = 0;
                for (int row = row0; row < row0 + 32 && row < mask.len_q; row++) {
                    for (int key = key0; key < key0 + 16; key++) {
                        seen += mask_sees(mask, row, key);
                        asked++;
                    }
                }
                all++;
                visited += seen > 0;
                full += seen == asked;
                keys += seen == 0 ? 0 : mask.keys - key0 < 16 ? mask.keys - key0 : 16;
                pairs += seen;
            }
        }
        ck_assert_int_eq(tally.all, all);
        ck_assert_int_eq(tally.visited, visited);
        ck_assert_int_eq(tally.full, full);
        ck_assert_int_eq(tally.partial, visited - full);
        ck_assert_int_eq(tally.keys, keys);
        ck_assert_double_eq(mask_visible_pairs(mask), pairs);
    }
}
END_TEST

// A list of the shape counts as the mask does; a random one by its density.
START_TEST(lists_are_counted) {
    const AttnShape shapes[] = {square(1000, false, 0), square(1000, true, 0),
                                square(1000, true, 100)};
    for (int i = 0; i < 3; i++) {
        const Mask mask = mask_of_shape(&shapes[i], 0);
        const TileTally want = mask_tally(mask, BLOCK_SPARSE, BLOCK_SPARSE);
        BlockList list;
        ASSERT_OK(block_list_of_shape(&list, &shapes[i]));
        const TileTally got = block_list_tally(&list, mask);
        ck_assert_int_eq(got.all, want.all);
        ck_assert_int_eq(got.visited, want.visited);
        ck_assert_int_eq(got.partial, want.partial);
        ck_assert_int_eq(got.keys, want.keys);
        ck_assert_double_eq(block_list_visible_pairs(&list, mask), mask_visible_pairs(mask));
        ck_assert_int_eq(block_list_empty_rows(&list), 0);
        block_list_free(&list);
    }
    const AttnShape large = square(8192, false, 0);
    BlockList list;
    ASSERT_OK(block_list_random(&list, &large, 0.25, false, 1));
    const TileTally tally = block_list_tally(&list, mask_of_shape(&large, 0));
    ck_assert_int_eq(tally.visited, list.offsets[list.query_blocks]);
    assert_shown((double)tally.visited, 0.25 * 128 * 128, 400); // 3.6 standard deviations
    ck_assert_double_eq(block_list_visible_pairs(&list, mask_of_shape(&large, 0)),
                        4096.0 * (double)tally.visited);
    block_list_free(&list);
    ASSERT_OK(block_list_random(&list, &large, 0, false, 1));
    ck_assert_int_eq(block_list_empty_rows(&list), 128);
    ck_assert_int_eq(block_list_tally(&list, mask_of_shape(&large, 0)).visited, 0);
    block_list_free(&list);
}
END_TEST

START_TEST(masks_of_shapes) {
    const int32_t lens[] = {3, 70};
    const AttnShape ragged = {2, 1, 1, 9, 100, 64, 0, true, 5, lens};
    const Mask mask = mask_of_shape(&ragged, 1);
    ck_assert_int_eq(mask.len_q, 9);
    ck_assert_int_eq(mask.keys, 70);
    ck_assert_int_eq(mask.causal, 1);
    ck_assert_int_eq(mask.window, 5);
    const AttnShape wide = square(64, true, (int64_t)1 << 40); // no limit, and no overflow
    ck_assert_double_eq(mask_visible_pairs(mask_of_shape(&wide, 0)), 64.0 * 65 / 2);
}
END_TEST

START_TEST(bytes) {
    ck_assert_double_eq(kv_bytes(64, 64, 4), 32.0 * 1024); // a tile, f32
    ck_assert_double_eq(kv_bytes(8192, 128, 2), 4.0 * 1024 * 1024);
}
END_TEST

// ---- the order of blocks ------------------------------------------------------------------------

// As launch_length, by looking at every place.
static double slow_length(const double *costs, int count, int slots) {
    double free_at[64] = {0}, length = 0;
    for (int i = 0; i < count; i++) {
        int least = 0;
        for (int s = 1; s < slots; s++) {
            least = free_at[s] < free_at[least] ? s : least;
        }
        free_at[least] += costs[i];
        length = fmax(length, free_at[least]);
    }
    return length;
}

START_TEST(launches_take_as_long_as_their_last_block) {
    double costs[300];
    for (int i = 0; i < 300; i++) {
        costs[i] = (i * 37) % 101 + 1;
    }
    for (int slots = 1; slots <= 64; slots++) {
        ck_assert_double_eq(launch_length(costs, 300, slots), slow_length(costs, 300, slots));
    }
    ck_assert_double_eq(launch_length(costs, 0, 5), 0);
}
END_TEST

// 16 heads on 132 SMs x 3 blocks: the table of the lesson.
START_TEST(heaviest_first) {
    enum { HEADS = 16, SLOTS = 396 };
    const struct {
        int tiles;
        double share, steps[4]; // head after head, then all heads; first rows first, then last
    } cases[] = {{64, 84.0, {125, 122, 119, 94}}, {128, 333.6, {415, 402, 399, 344}}};
    double *costs = calloc((size_t)128 * HEADS, sizeof *costs);
    for (int c = 0; c < 2; c++) {
        const int tiles = cases[c].tiles, blocks = tiles * HEADS;
        assert_shown((double)(causal_pairs(tiles) * HEADS) / SLOTS, cases[c].share, 0.1);
        for (int order = 0; order < 4; order++) {
            for (int i = 0; i < blocks; i++) {
                const int tile = order < 2 ? i % tiles : i / HEADS;
                costs[i] = order % 2 ? tiles - tile : tile + 1;
            }
            ck_assert_double_eq(launch_length(costs, blocks, SLOTS), cases[c].steps[order]);
        }
    }
    free(costs);
}
END_TEST

// ---- the ceiling --------------------------------------------------------------------------------

START_TEST(fma_rate_computes) {
    static AttnStatus (*const builds[])(float *, int, int, GpuStream) = GPU_BUILDS(fma_rate);
    enum { BLOCKS = 3, COUNT = BLOCKS * FMA_RATE_THREADS };
    for (int t = 0; t < gpu_tests.count; t++) {
        const GpuTarget target = gpu_tests.target[t];
        float got[COUNT];
        void *y;
        ASSERT_OK(gpu_alloc(target, &y, "y", COUNT, sizeof(float)));
        ASSERT_OK(builds[target](y, BLOCKS, 200, NULL));
        ASSERT_OK(gpu_synchronize(target));
        ASSERT_OK(gpu_download(target, got, y, sizeof got));
        for (int i = 0; i < COUNT; i++) { // the fixed point of x / 2 + 1 is 2
            ck_assert_float_eq_tol(got[i], 2.0F * FMA_RATE_CHAINS, 1e-5F);
        }
        gpu_free(target, y);
    }
}
END_TEST

int main(void) {
    gpu_tests_find();
    Suite *suite = suite_create("ch07_cards");
    TCase *tests = tcase_create("cards");
    suite_add_tcase(suite, tests);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, causal_tiles);
    tcase_add_test(tests, partial_tiles_are_on_the_diagonal);
    tcase_add_test(tests, visible_pairs);
    tcase_add_test(tests, a_window_costs_the_same_at_every_length);
    tcase_add_test(tests, tallies_agree_with_every_pair);
    tcase_add_test(tests, lists_are_counted);
    tcase_add_test(tests, masks_of_shapes);
    tcase_add_test(tests, bytes);
    tcase_add_test(tests, launches_take_as_long_as_their_last_block);
    tcase_add_test(tests, heaviest_first);
    tcase_add_test(tests, fma_rate_computes);
    return gpu_tests_run(suite);
}
