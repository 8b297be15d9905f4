// Chapter 6's cards: every number of the lesson that is computed rather than measured.
#include "chapters/ch06_decode/cards.h"
#include "chapters/ch06_decode/decode.h"

#include "common/model.h"
#include "common/simt/runtime.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

static const double mebi = 1024 * 1024;

// Within half a unit of the last digit that a card shows.
static void assert_shown(double value, double shown, double unit) {
    ck_assert_msg(fabs(value - shown) <= unit / 2, "%.10g is not %.10g at a resolution of %g",
                  value, shown, unit);
}

static GpuProperties profile(const char *device) {
    GpuProperties properties;
    simt_settings()->device = device;
    ck_assert_int_eq(gpu_properties(GPU_SIMT, &properties), ATTN_OK);
    return properties;
}

// ---- filling the device -------------------------------------------------------------------------

START_TEST(one_query_fills_little) {
    const double h100 = profile("h100").multiprocessors, h200 = profile("h200").multiprocessors;
    ck_assert_double_eq(h100, 132);
    ck_assert_double_eq(h200, 132);
    assert_shown(100 * decode_busy(8, h100), 6, 1);
    assert_shown(decode_waves(8 * 16, h100), 0.97, 0.01);
    ck_assert_double_eq(decode_busy(256, h100), 1);
    ck_assert_double_eq(decode_busy(132, h100), 1);
    ck_assert_double_lt(decode_busy(131, h100), 1);
    ck_assert_double_eq(decode_busy(8, 0), 0);
    assert_shown(100 * decode_busy(8, profile("a100").multiprocessors), 7, 1);
}
END_TEST

START_TEST(units_of_work) {
    AttnShape shape = {8, 32, 32, 1, 8192, 128, 0, false, 0, NULL};
    ck_assert_int_eq(decode_units(&shape), 256);
    shape.batch = 1;
    ck_assert_int_eq(decode_units(&shape), 32);
    const int64_t tiles[][2] = {{0, 0}, {1, 1}, {2, 1}, {4, 1}, {5, 2}, {16, 4}};
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        shape.len_q = tiles[i][0];
        ck_assert_int_eq(decode_units(&shape), 32 * tiles[i][1]);
    }
}
END_TEST

// ---- the floor ----------------------------------------------------------------------------------

START_TEST(floor_of_a_cache) {
    const AttnShape shape = {1, 12, 12, 1, 16384, 64, 0, false, 0, NULL};
    const double bytes = attn_kv_bytes(&shape, dtype_size(DTYPE_BF16));
    ck_assert_double_eq(bytes, 48 * mebi);
    ck_assert_double_eq(attn_kv_bytes(&shape, dtype_size(DTYPE_F32)), 96 * mebi);
    assert_shown(seconds_at(bytes, 296e9), 170e-6, 1e-6);
    assert_shown(seconds_at(bytes, profile("h100").bytes_per_s), 15.0e-6, 0.1e-6);
    assert_shown(seconds_at(bytes, profile("h200").bytes_per_s), 10.5e-6, 0.1e-6);
    assert_shown(seconds_at(bytes, 4.33e12), 11.6e-6, 0.1e-6);
}
END_TEST

// Only keys in use count, and K and V of the KV heads.
START_TEST(cache_of_a_ragged_batch) {
    const int32_t lens[] = {10, 0, 5};
    const AttnShape shape = {3, 6, 2, 1, 10, 64, 0, false, 0, lens};
    ck_assert_double_eq(attn_kv_bytes(&shape, dtype_size(DTYPE_F16)), 2.0 * 15 * 2 * 64 * 2);
}
END_TEST

START_TEST(traffic_of_parts) {
    ck_assert_double_eq(decode_part_bytes(1, 64), 260);
    ck_assert_double_eq(decode_part_bytes(16, 128), 16 * 516);
    // The scores of a head of 16,384 keys: 128 KiB written, 256 KiB read, and the parts.
    ck_assert_double_eq(decode_unfused_written(16384, 0, 64), 128 * 1024);
    ck_assert_double_eq(decode_unfused_read(16384, 0, 64), 256 * 1024);
    ck_assert_double_eq(decode_unfused_written(256, 8, 64), 2048 + 8 * 268);
    ck_assert_double_eq(decode_unfused_read(256, 8, 64), 4096 + 8 * 272);
    // Parts of one key in 16 bits: the part's O is twice as large as the key's K and V.
    ck_assert_double_eq(2 * decode_part_bytes(1, 64) / (2 * 64 * 2), 520.0 / 256);
}
END_TEST

// ---- the model of choose_splits -----------------------------------------------------------------

START_TEST(keys_of_a_part) {
    ck_assert_int_eq(decode_part_keys(16384, 16), 1024);
    ck_assert_int_eq(decode_part_keys(10, 3), 4);
    ck_assert_int_eq(decode_part_keys(3, 8), 1);
    ck_assert_int_eq(decode_part_keys(0, 8), 1);
    ck_assert_int_eq(decode_parts(16384, 16), 16);
    ck_assert_int_eq(decode_parts(5, 4), 3); // of 2, 2 and 1 keys
    ck_assert_int_eq(decode_parts(3, 8), 3);
    ck_assert_int_eq(decode_parts(0, 8), 1);
}
END_TEST

START_TEST(model_of_time) {
    ck_assert_double_eq(decode_model_keys(12, 16384, 1056, 64, 1), 16384 + 64);
    ck_assert_double_eq(decode_model_keys(12, 16384, 1056, 64, 88), 187 + 64); // a full wave
    ck_assert_double_eq(decode_model_keys(12, 16384, 1056, 64, 89),
                        2 * (185 + 64)); // one block more
    ck_assert_double_eq(decode_model_keys(0, 16384, 1056, 64, 4), 0);
    ck_assert_double_eq(decode_model_keys(12, 16384, 0, 64, 4), 0);
}
END_TEST

// choose_splits takes a minimum of the model that the cards print.
START_TEST(choice_is_the_models_best) {
    const int64_t units[] = {1, 8, 12, 32, 131, 132, 133, 256, 2048};
    const int64_t lens[] = {1, 63, 64, 1000, 8192, 16384};
    enum { SLOTS = 528, LEAST = 64, COST = 64 };
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        for (size_t n = 0; n < sizeof lens / sizeof *lens; n++) {
            const int64_t chosen = choose_splits(units[u], lens[n], SLOTS, LEAST, COST);
            const double time = decode_model_keys(units[u], lens[n], SLOTS, COST, chosen);
            ck_assert_int_ge(chosen, 1);
            for (int64_t s = 1; s <= lens[n] / LEAST; s++) {
                const double other = decode_model_keys(units[u], lens[n], SLOTS, COST, s);
                ck_assert_msg(s < chosen ? other > time : other >= time,
                              "%lld units, %lld keys: %lld is chosen, %lld is as good",
                              (long long)units[u], (long long)lens[n], (long long)chosen,
                              (long long)s);
            }
        }
    }
}
END_TEST

// The kernels' own constants give a choice within the limits of the model.
START_TEST(choice_for_the_kernels) {
    const GpuProperties h200 = profile("h200");
    AttnShape shape = {1, 12, 12, 1, 16384, 64, 0, false, 0, NULL};
    const int64_t slots = decode_slots(&shape, DTYPE_BF16, &h200);
    ck_assert_int_eq(slots % h200.multiprocessors, 0);
    ck_assert_int_ge(slots, h200.multiprocessors);
    ck_assert_int_eq(
        decode_splits(&shape, DTYPE_BF16, &h200),
        decode_part_keys(16384,
                         decode_part_keys(16384, choose_splits(12, 16384, slots, DECODE_MIN_KEYS,
                                                               DECODE_BLOCK_COST))));
}
END_TEST

// ---- ragged batches -----------------------------------------------------------------------------

START_TEST(balance) {
    const int32_t lens[] = {100, 0, 25, 10};
    const DecodeBalance whole = decode_equal_counts(lens, 4, 1);
    ck_assert_int_eq(whole.blocks, 3);
    ck_assert_int_eq(whole.longest, 100);
    ck_assert_double_eq(whole.mean, 45);
    const DecodeBalance counts = decode_equal_counts(lens, 4, 4);
    ck_assert_int_eq(counts.blocks, 4 + 4 + 4); // parts of 25, 7 and 3 keys
    ck_assert_int_eq(counts.longest, 25);
    ck_assert_double_eq(counts.mean, 135.0 / 12);
    const DecodeBalance parts = decode_equal_parts(lens, 4, 25);
    ck_assert_int_eq(parts.blocks, 4 + 1 + 1);
    ck_assert_int_eq(parts.longest, 25);
    ck_assert_double_eq(parts.mean, 22.5);
}
END_TEST

START_TEST(balance_of_nothing) {
    const int32_t lens[] = {0, 0};
    const DecodeBalance none = decode_equal_parts(lens, 2, 16);
    ck_assert_int_eq(none.blocks, 0);
    ck_assert_int_eq(none.longest, 0);
    ck_assert_double_eq(none.mean, 0);
    // More parts than keys: blocks of one key.
    const DecodeBalance many = decode_equal_counts((const int32_t[]){3}, 1, 8);
    ck_assert_int_eq(many.blocks, 3);
    ck_assert_int_eq(many.longest, 1);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ch06_cards");
    TCase *cards = tcase_create("cards");
    suite_add_tcase(suite, cards);
    tcase_set_timeout(cards, 60);
    tcase_add_test(cards, one_query_fills_little);
    tcase_add_test(cards, units_of_work);
    tcase_add_test(cards, floor_of_a_cache);
    tcase_add_test(cards, cache_of_a_ragged_batch);
    tcase_add_test(cards, traffic_of_parts);
    tcase_add_test(cards, keys_of_a_part);
    tcase_add_test(cards, model_of_time);
    tcase_add_test(cards, choice_is_the_models_best);
    tcase_add_test(cards, choice_for_the_kernels);
    tcase_add_test(cards, balance);
    tcase_add_test(cards, balance_of_nothing);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
