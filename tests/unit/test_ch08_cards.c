// Chapter 8's cards: every number of the lesson that is computed rather than measured, and the
// figure of the matrix instruction against the instruction itself.
#include "chapters/ch08_gqa/cards.h"

#include "common/device.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

static const double kibi = 1024, gibi = 1024.0 * 1024 * 1024;

// Within half a unit of the last digit that a card shows.
static void assert_shown(double value, double shown, double unit) {
    ck_assert_msg(fabs(value - shown) <= unit / 2, "%.10g is not %.10g at a resolution of %g",
                  value, shown, unit);
}

// ---- the cache ----------------------------------------------------------------------------------

START_TEST(cache_of_a_model) {
    const GqaModel *model = &gqa_llama_70b;
    ck_assert_double_eq(gqa_token_bytes(80, 8, 128, 2), 320 * kibi);
    ck_assert_double_eq(gqa_token_bytes(80, 64, 128, 2), 2560 * kibi);
    ck_assert_double_eq(gqa_token_bytes(1, 8, 128, 2), 4 * kibi); // of one layer
    ck_assert_double_eq(gqa_gpu_bytes(model, model->heads_kv), 20 * gibi);
    ck_assert_double_eq(gqa_gpu_bytes(model, model->heads_q), 160 * gibi);
    assert_shown(1e3 * 20 * gibi / gqa_h200.bytes_per_s, 4.67, 0.01);
    assert_shown(1e3 * 160 * gibi / gqa_h200.bytes_per_s, 37.3, 0.1);
}
END_TEST

START_TEST(intensity) {
    ck_assert_double_eq(gqa_intensity(1, 1, 2), 1);
    ck_assert_double_eq(gqa_intensity(8, 1, 2), 8);
    ck_assert_double_eq(gqa_intensity(4, 4, 2), 16);
    ck_assert_double_eq(gqa_intensity(8, 1, 4), 4);
    ck_assert_double_eq(gqa_intensity(8, 1, 1), 16);
}
END_TEST

START_TEST(bytes_of_a_cache) {
    const int32_t lens[] = {10, 0, 5};
    AttnShape shape = {3, 6, 2, 1, 10, 64, 0, false, 0, NULL};
    ck_assert_double_eq(attn_kv_bytes(&shape, 2), 2.0 * 30 * 2 * 64 * 2);
    shape.kv_lens = lens;
    ck_assert_double_eq(attn_kv_bytes(&shape, 2), 2.0 * 15 * 2 * 64 * 2);
}
END_TEST

START_TEST(rows_in_use) {
    ck_assert_double_eq(gqa_rows_used(8, 64), 8.0 / 64);
    ck_assert_double_eq(gqa_rows_used(1, 64), 1.0 / 64);
    ck_assert_double_eq(gqa_rows_used(8, 16), 0.5);
    ck_assert_double_eq(gqa_rows_used(16, 16), 1);
    ck_assert_double_eq(gqa_rows_used(17, 16), 17.0 / 32);
    ck_assert_double_eq(gqa_rows_used(8, 8), 1);
    ck_assert_double_eq(gqa_rows_used(0, 8), 0);
}
END_TEST

// ---- requests -----------------------------------------------------------------------------------

// Counted key by key: a tile requests a key that one of its rows sees.
static double count_requests(const AttnShape *shape, int64_t tile_rows, bool packed) {
    const int group = packed ? (int)(shape->heads_q / shape->heads_kv) : 1;
    const int64_t heads = packed ? shape->heads_kv : shape->heads_q, rows = group * shape->len_q;
    double keys = 0;
    for (int64_t b = 0; b < shape->batch; b++) {
        const Mask mask = {(int)shape->len_q, (int)attn_keys(shape, b), shape->causal,
                           (int)shape->window};
        for (int64_t row0 = 0; row0 < rows; row0 += tile_rows) {
            for (int key = 0; key < (int)shape->len_kv; key++) {
                bool wanted = false;
                for (int64_t r = row0; r < row0 + tile_rows && r < rows; r++) {
                    wanted = wanted || mask_sees(mask, (int)(r / group), key);
                }
                keys += wanted;
            }
        }
    }
    return 2 * keys * (double)(heads * shape->dim) * 2;
}

START_TEST(requests_of_a_tile) {
    static const int32_t lens[] = {40, 0, 7};
    static const AttnShape shapes[] = {
        {2, 8, 2, 1, 40, 64, 0, false, 0, NULL},  {1, 6, 2, 6, 40, 64, 0, true, 0, NULL},
        {1, 6, 2, 6, 40, 64, 0, true, 5, NULL},   {1, 4, 1, 7, 3, 64, 0, true, 0, NULL},
        {3, 20, 2, 1, 40, 64, 0, false, 0, lens}, {3, 5, 1, 3, 40, 64, 0, true, 4, lens},
        {1, 4, 4, 9, 40, 64, 0, true, 0, NULL},   {1, 4, 2, 2, 0, 64, 0, false, 0, NULL},
        {0, 4, 2, 2, 8, 64, 0, false, 0, NULL},   {1, 4, 2, 0, 8, 64, 0, false, 0, NULL},
    };
    static const int64_t tiles[] = {1, 4, 8, 16};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (size_t t = 0; t < sizeof tiles / sizeof *tiles; t++) {
            for (int packed = 0; packed < 2; packed++) {
                ck_assert_double_eq(gqa_requested_bytes(&shapes[s], tiles[t], packed, 2),
                                    count_requests(&shapes[s], tiles[t], packed));
            }
        }
    }
}
END_TEST

// A group that fits a tile requests the cache once, and gqa_naive requests it g times.
START_TEST(requests_by_group) {
    for (int64_t group = 1; group <= 32; group *= 2) {
        const AttnShape shape = {16, 8 * group, 8, 1, 8192, 128, 0, false, 0, NULL};
        const double cache = attn_kv_bytes(&shape, 2);
        const int64_t naive = gqa_rungs[GQA_NAIVE].tile_rows(&shape);
        const int64_t packed = gqa_rungs[GQA_PACKED].tile_rows(&shape);
        const int64_t mma = gqa_rungs[GQA_MMA].tile_rows(&shape);
        ck_assert_double_eq(gqa_requested_bytes(&shape, naive, false, 2), (double)group * cache);
        ck_assert_double_eq(gqa_requested_bytes(&shape, packed, true, 2),
                            ceil((double)group / 8) * cache);
        ck_assert_double_eq(gqa_requested_bytes(&shape, mma, true, 2),
                            ceil((double)group / 16) * cache);
    }
}
END_TEST

// ---- which unit ---------------------------------------------------------------------------------

START_TEST(arithmetic_beside_reading) {
    ck_assert_double_eq(gqa_h200.fma_flops / gqa_h200.bytes_per_s, 63.8 / 4.6);
    assert_shown(gqa_fma_share(&gqa_h200, gqa_intensity(8, 1, 2)), 0.58, 0.01);
    assert_shown(gqa_issue_slots(&gqa_h200, 4096), 931, 1);
    static const double shares[GQA_STEPS] = {0.24, 0.69, 1.29, 0.11, 0.14};
    static const double ahead[GQA_STEPS] = {84, 24, 8, 64, 64}; // KiB
    for (int i = 0; i < GQA_STEPS; i++) {
        const GqaStep *step = &gqa_steps[i];
        const double share = step->instructions / gqa_issue_slots(&gqa_h200, step->warp_bytes);
        assert_shown(share, shares[i], 0.01);
        ck_assert_double_eq(gqa_ahead_bytes(&gqa_h200, step), ahead[i] * kibi);
        // A lane has 8 of d elements of a key: 16 multiply-adds for a row. An instruction has 2,048
        // of them, of which half are unused where Q K^T has 8 rows of 16.
        const double keys = step->warp_bytes / (2.0 * 128 * 2);
        const double multiplies = i < GQA_STEP_MMA_8 ? keys * step->rows * 2 * 128 / 32
                                                     : keys * 128 * (16 + step->rows) / 2048;
        ck_assert_double_eq(step->multiplies, multiplies);
        ck_assert_int_lt(step->multiplies, step->instructions);
    }
}
END_TEST

START_TEST(step_of_a_rung) {
    const AttnShape shapes[] = {{1, 8, 8, 1, 64, 128, 0, false, 0, NULL},
                                {1, 32, 8, 1, 64, 128, 0, false, 0, NULL},
                                {1, 64, 8, 1, 64, 128, 0, false, 0, NULL},
                                {1, 32, 8, 4, 64, 128, 0, false, 0, NULL}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (int rung = 0; rung < GQA_RUNGS; rung++) {
            ck_assert_int_eq(gqa_step(rung, &shapes[s])->rows,
                             gqa_rungs[rung].tile_rows(&shapes[s]));
        }
    }
}
END_TEST

START_TEST(share_by_group) {
    static const double shares[][GQA_RUNGS] = {{0.24, 0.24, 0.11}, {0.49, 0.69, 0.11},
                                               {0.98, 0.69, 0.11}, {1.95, 1.29, 0.11},
                                               {3.90, 2.58, 0.14}, {7.80, 5.15, 0.27}};
    for (int i = 0; i < 6; i++) {
        const AttnShape shape = {16, 8 << i, 8, 1, 8192, 128, 0, false, 0, NULL};
        for (int rung = 0; rung < GQA_RUNGS; rung++) {
            assert_shown(gqa_issue_share(&gqa_h200, rung, &shape), shares[i][rung], 0.01);
        }
    }
    const AttnShape none = {0, 8, 8, 1, 8192, 128, 0, false, 0, NULL};
    ck_assert_double_eq(gqa_issue_share(&gqa_h200, GQA_NAIVE, &none), 0);
}
END_TEST

// ---- the instruction ----------------------------------------------------------------------------

// The figure against the table of common/simt/matrix.h, which test_simt_matrix.c holds against the
// instruction: lane 4g + t, its registers one after the other.
START_TEST(fragments_of_the_instruction) {
    for (int lane = 0; lane < 32; lane++) {
        const int g = lane / 4, t = lane % 4;
        for (int i = 0; i < 4; i++) {
            for (int half = 0; half < 2; half++) {
                const int row = g + i % 2 * 8, column = 2 * t + half + i / 2 * 8;
                ck_assert_int_eq(gqa_fragment_lane(GQA_FRAGMENT_A, row, column), lane);
                ck_assert_int_eq(gqa_fragment_register(GQA_FRAGMENT_A, row, column), i);
            }
            const int row = g + i / 2 * 8, column = 2 * t + i % 2;
            ck_assert_int_eq(gqa_fragment_lane(GQA_FRAGMENT_C, row, column), lane);
            ck_assert_int_eq(gqa_fragment_register(GQA_FRAGMENT_C, row, column), i);
        }
        for (int i = 0; i < 4; i++) {
            const int row = 2 * t + i % 2 + i / 2 * 8;
            ck_assert_int_eq(gqa_fragment_lane(GQA_FRAGMENT_B, row, g), lane);
            ck_assert_int_eq(gqa_fragment_register(GQA_FRAGMENT_B, row, g), i / 2);
        }
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ch08_cards");
    TCase *cards = tcase_create("cards");
    suite_add_tcase(suite, cards);
    tcase_set_timeout(cards, 60);
    tcase_add_test(cards, cache_of_a_model);
    tcase_add_test(cards, intensity);
    tcase_add_test(cards, bytes_of_a_cache);
    tcase_add_test(cards, rows_in_use);
    tcase_add_test(cards, requests_of_a_tile);
    tcase_add_test(cards, requests_by_group);
    tcase_add_test(cards, arithmetic_beside_reading);
    tcase_add_test(cards, step_of_a_rung);
    tcase_add_test(cards, share_by_group);
    tcase_add_test(cards, fragments_of_the_instruction);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
