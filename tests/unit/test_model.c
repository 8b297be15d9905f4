// The cards: every number that chapters 1 and 4 print about traffic, from the formulas.
#include "common/model.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

// Within half a unit of the last digit that a card shows.
static void assert_shown(double value, double shown, double unit) {
    ck_assert_msg(fabs(value - shown) <= unit / 2, "%.10g is not %.10g at a resolution of %g",
                  value, shown, unit);
}

static const double mebi = 1024 * 1024;

// Chapter 1, one head: N = 8192, d = 128, 2 bytes an element.
START_TEST(one_head) {
    ck_assert_double_eq(score_elements(8192) * 2, 128 * mebi);                 // N^2
    ck_assert_double_eq(naive_hbm_elements(8192, 128, false) * 2, 520 * mebi); // 4N^2 + 4Nd
    ck_assert_double_eq(compulsory_elements(8192, 128) * 2, 8 * mebi);         // 4Nd
    assert_shown(attention_flops(8192, 8192, 128), 34.4e9, 0.1e9);             // 4N^2 d
    double compulsory_bytes = compulsory_elements(8192, 128) * 2;
    double flops = attention_flops(8192, 8192, 128);
    ck_assert_double_eq(arithmetic_intensity(flops, compulsory_bytes), 4096);
}
END_TEST

// Chapter 1, 32 heads in each of 32 layers: the 4N^2 score terms alone, and the time they take.
START_TEST(whole_model) {
    double bytes = 32 * 32 * 4 * score_elements(8192) * 2;
    assert_shown(bytes, 549.8e9, 0.1e9);
    assert_shown(seconds_at(bytes, 3.35e12), 164e-3, 1e-3);
}
END_TEST

// A causal mask that is a pass of its own reads and writes the scores once more: 6N^2 + 4Nd.
START_TEST(causal_naive) {
    ck_assert_double_eq(naive_hbm_elements(8192, 128, true) * 2, (6 * 128 + 8) * mebi);
    double mask_pass = naive_hbm_elements(100, 7, true) - naive_hbm_elements(100, 7, false);
    ck_assert_double_eq(mask_pass, 2 * score_elements(100));
}
END_TEST

// Chapter 4, causal, d = 64, Bq = 128.
START_TEST(causal_ratios) {
    static const double shown[] = {9.1, 10.3, 11.1, 11.5};
    for (int i = 0; i < 4; i++) {
        assert_shown(traffic_ratio(1024 << i, 64, 128, true), shown[i], 0.1);
    }
    ck_assert_double_eq(traffic_ratio_limit(64, 128, true), 12); // 6 Bq / d
    assert_shown(traffic_ratio(1e9, 64, 128, true), 12, 1e-4);
}
END_TEST

// Not causal: (4N^2 + 4Nd) / (2Nd + 2N^2 d / Bq), limit 2 Bq / d.
START_TEST(full_ratios) {
    ck_assert_double_eq(traffic_ratio_limit(64, 128, false), 4);
    ck_assert_double_eq(traffic_ratio_limit(128, 64, false), 1);
    double n = 2048, d = 64, block = 128;
    double expected = (4 * n * n + 4 * n * d) / (2 * n * d + 2 * n * n * d / block);
    ck_assert_double_eq_tol(traffic_ratio(n, d, block, false), expected, 1e-12);
    assert_shown(traffic_ratio(1e9, 64, 128, false), 4, 1e-4);
}
END_TEST

// The tiled model against a count of what each block of queries reads and writes.
START_TEST(tiled_by_counting) {
    for (int causal = 0; causal < 2; causal++) {
        double n = 1536, d = 32, block = 128;
        double elements = 0;
        for (int i = 0; i < 1536 / 128; i++) {
            int key_blocks = causal ? i + 1 : 1536 / 128;
            elements += 2 * block * d + key_blocks * 2 * block * d; // Q and O; K and V
        }
        ck_assert_double_eq(tiled_hbm_elements(n, d, block, causal != 0), elements);
    }
}
END_TEST

// Keys outside, against a count of what each pair of blocks reads and writes.
START_TEST(keys_outside_by_counting) {
    for (int causal = 0; causal < 2; causal++) {
        const double n = 1536, d = 32, block = 128;
        double elements = 0;
        for (int j = 0; j < 1536 / 128; j++) {
            elements += 2 * block * d; // K and V
            for (int i = causal ? j : 0; i < 1536 / 128; i++) {
                const bool first = j == 0;
                elements += block * d + (first ? 1 : 2) * (block * d + 2 * block); // Q; O, m, l
            }
        }
        ck_assert_double_eq(keys_outside_hbm_elements(n, d, block, causal != 0), elements);
    }
    // One block of keys: nothing twice, but m and l are written.
    ck_assert_double_eq(keys_outside_hbm_elements(4096, 128, 4096, false),
                        compulsory_elements(4096, 128) + 2 * 4096);
    // For long sequences 3 d + 4 elements for each query and block, against 2 d.
    const double order =
        keys_outside_hbm_elements(1e9, 64, 128, false) / tiled_hbm_elements(1e9, 64, 128, false);
    assert_shown(order, (3 * 64 + 4) / 128.0, 1e-4);
}
END_TEST

// With one block as long as the sequence, nothing is read twice.
START_TEST(tiled_once) {
    double compulsory = compulsory_elements(4096, 128);
    ck_assert_double_eq(tiled_hbm_elements(4096, 128, 4096, false), compulsory);
    ck_assert_double_eq(tiled_hbm_elements(4096, 128, 4096, true), compulsory);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("model");
    TCase *cards = tcase_create("cards");
    tcase_set_timeout(cards, 60);
    tcase_add_test(cards, one_head);
    tcase_add_test(cards, whole_model);
    tcase_add_test(cards, causal_naive);
    tcase_add_test(cards, causal_ratios);
    tcase_add_test(cards, full_ratios);
    tcase_add_test(cards, tiled_by_counting);
    tcase_add_test(cards, keys_outside_by_counting);
    tcase_add_test(cards, tiled_once);
    suite_add_tcase(suite, cards);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
