// Chapter 9's cards: every number of the lesson that is computed rather than measured, and the
// models of waste and sharing beside what a pool does.
#include "chapters/ch09_paged/cards.h"

#include "tests/unit/gpu_targets.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

static const double kibi = 1024;

// Within half a unit of the last digit that a card shows.
static void assert_shown(double value, double shown, double unit) {
    ck_assert_msg(fabs(value - shown) <= unit / 2, "%.10g is not %.10g at a resolution of %g",
                  value, shown, unit);
}

// ---- a page and its entry -----------------------------------------------------------------------

START_TEST(a_page_and_its_entry) {
    const double bytes = page_bytes(16, 8, 128, 2);
    ck_assert_double_eq(bytes, 64 * kibi);
    assert_shown(100 * TABLE_ENTRY / bytes, 0.0061, 0.0001);
    assert_shown(100 * TABLE_ENTRY / bytes, 0.006, 0.001);
    ck_assert_double_eq(80 * bytes, 5 * kibi * kibi); // of a model with 80 layers
    ck_assert_double_eq(page_bytes(1, 1, 1, 4), 8);
}
END_TEST

START_TEST(lookups) {
    ck_assert_int_eq(page_lookups(128, 16), 8);
    ck_assert_int_eq(page_lookups(128, 1), 128);
    ck_assert_int_eq(page_lookups(128, 6), 22);
    ck_assert_int_eq(page_lookups(8192, 16), 512);
    ck_assert_int_eq(page_lookups(0, 16), 0);
    ck_assert_int_eq(page_lookups(1, 16), 1);
    ck_assert_int_eq(page_lookups(16, 16), 1);
    ck_assert_int_eq(page_lookups(17, 16), 2);
}
END_TEST

START_TEST(where_32_bits_end) {
    const PageLayout layout = {16, 8, 128, DTYPE_BF16};
    const int64_t page = page_beyond(&layout, (int64_t)1 << 31);
    ck_assert_int_eq(page, 131072);
    ck_assert_int_eq(page_offset(&layout, page, 0, 0), 2147483648);
    ck_assert_int_eq(page_offset(&layout, page - 1, 7, 15) + 127, 2147483647);
    ck_assert_double_eq((double)page * page_bytes(16, 8, 128, 2), 8 * pow(kibi, 3));
    const PageLayout odd = {3, 5, 7, DTYPE_F32}; // 105 elements
    ck_assert_int_eq(page_beyond(&odd, 106), 2);
    ck_assert_int_eq(page_beyond(&odd, 105), 1);
    ck_assert_int_eq(page_beyond(&odd, 210), 2);
}
END_TEST

START_TEST(bytes_of_a_batch) {
    const AttnShape shape = {16, 32, 8, 1, 8192, 128, 0, false, 0, NULL};
    ck_assert_double_eq(attn_kv_bytes(&shape, 2), 512 * kibi * kibi);
    ck_assert_double_eq(page_table_bytes(&shape, 16), 32 * kibi);
    ck_assert_double_eq(page_table_bytes(&shape, 1), 512 * kibi);
    ck_assert_double_eq(page_table_bytes(&shape, 8192), 64);
    const int32_t lens[] = {0, 1, 17};
    const AttnShape ragged = {3, 6, 2, 1, 20, 64, 0, false, 0, lens};
    ck_assert_double_eq(attn_kv_bytes(&ragged, 2), 2.0 * 18 * 2 * 64 * 2);
    ck_assert_double_eq(page_table_bytes(&ragged, 16), 4.0 * 3);
}
END_TEST

// ---- waste --------------------------------------------------------------------------------------

START_TEST(waste_of_known_lengths) {
    const int32_t lens[] = {16, 17, 0, 1};
    const PageWaste waste = page_waste(lens, 4, 16, 100);
    ck_assert_int_eq(waste.used, 34);
    ck_assert_int_eq(waste.contiguous, 400);
    ck_assert_int_eq(waste.paged, 16 + 32 + 0 + 16);
    ck_assert_int_eq(waste.worst, 15);
}
END_TEST

START_TEST(waste_is_less_than_a_page_each) {
    enum { BATCH = 64 };
    int32_t lens[BATCH];
    ragged_lengths(lens, BATCH, 1024, 1.0, 16384, 7);
    for (int64_t page = 1; page <= 300; page++) {
        const PageWaste waste = page_waste(lens, BATCH, page, 16384);
        ck_assert_int_ge(waste.paged, waste.used);
        ck_assert_int_le(waste.paged - waste.used, BATCH * (page - 1));
        ck_assert_int_lt(waste.worst, page);
        ck_assert_int_eq(waste.paged % page, 0);
    }
}
END_TEST

// Seeded, within bounds, as many below the median as above it, and roughly log-normal.
START_TEST(lengths_look_real) {
    enum { BATCH = 4096 };
    static int32_t lens[BATCH], again[BATCH];
    ragged_lengths(lens, BATCH, 1024, 1.0, 16384, 1);
    ragged_lengths(again, BATCH, 1024, 1.0, 16384, 1);
    ck_assert_mem_eq(lens, again, sizeof lens);
    ragged_lengths(again, BATCH, 1024, 1.0, 16384, 2);
    ck_assert_mem_ne(lens, again, sizeof lens);
    int below = 0, within = 0;
    for (int b = 0; b < BATCH; b++) {
        ck_assert(lens[b] >= 1 && lens[b] <= 16384);
        below += lens[b] < 1024;
        within += lens[b] >= 1024 / M_E && lens[b] <= 1024 * M_E; // one standard deviation
    }
    assert_shown((double)below / BATCH, 0.5, 0.06);
    assert_shown((double)within / BATCH, 0.683, 0.06);
    ragged_lengths(lens, BATCH, 8, 3.0, 10, 1); // cut at both ends
    int shortest = 0, longest = 0;
    for (int b = 0; b < BATCH; b++) {
        shortest += lens[b] == 1;
        longest += lens[b] == 10;
        ck_assert(lens[b] >= 1 && lens[b] <= 10);
    }
    ck_assert(shortest > 0 && longest > 0);
}
END_TEST

// ---- sharing ------------------------------------------------------------------------------------

// What the program prints.
START_TEST(sharing_of_the_lesson) {
    ck_assert_int_eq(pages_apart(8, 1000, 200, 16), 600);
    ck_assert_int_eq(pages_forked(8, 1000, 200, 16), 166);
    ck_assert_int_eq(pages_copied(8, 1000, 200, 16), 7);
    ck_assert_int_eq(pages_forked(8, 1000, 200, 8), 325); // the prompt ends with a page
    ck_assert_int_eq(pages_copied(8, 1000, 200, 8), 0);
    ck_assert_int_eq(pages_forked(8, 1000, 0, 16), 63); // nobody has written yet
    ck_assert_int_eq(pages_copied(8, 1000, 0, 16), 0);
    ck_assert_int_eq(pages_forked(1, 1000, 200, 16), pages_apart(1, 1000, 200, 16));
}
END_TEST

static void append_all(BlockPool *pool, int64_t sequence, int64_t tokens, const void *from) {
    ASSERT_OK(block_pool_append(pool, sequence, tokens, from, from, NULL));
}

// The models beside a pool, for many small prompts.
START_TEST(a_pool_shares_as_modelled) {
    enum { MOST = 5, TOKENS = 40 };
    void *zero;
    ASSERT_OK(gpu_alloc(GPU_SIMT, &zero, "zero", TOKENS, sizeof(float)));
    ASSERT_OK(gpu_fill(GPU_SIMT, zero, 0, TOKENS * sizeof(float), NULL));
    for (int64_t n = 1; n <= MOST; n += 2) {
        for (int64_t page = 1; page <= 9; page += 2) {
            for (int64_t prompt = 1; prompt <= 19; prompt += 3) {
                for (int64_t own = 0; own <= 12; own += 4) {
                    const PageLayout layout = {page, 1, 1, DTYPE_F32};
                    const int64_t pages = pages_apart(n, prompt, own, page);
                    BlockPool *pool;
                    int64_t sequence[MOST], copied = 0;
                    ASSERT_OK(block_pool_make(&pool, GPU_SIMT, &layout, pages, n));
                    ASSERT_OK(block_pool_open(pool, &sequence[0]));
                    append_all(pool, sequence[0], prompt, zero);
                    for (int64_t f = 1; f < n; f++) {
                        ASSERT_OK(block_pool_fork(pool, sequence[0], &sequence[f]));
                    }
                    for (int64_t f = 0; f < n; f++) {
                        const int64_t before = block_pool_free_pages(pool);
                        append_all(pool, sequence[f], own, zero);
                        copied += before - block_pool_free_pages(pool) -
                                  (page_lookups(prompt + own, page) - page_lookups(prompt, page));
                    }
                    ASSERT_OK(block_pool_check(pool));
                    ck_assert_int_eq(pages - block_pool_free_pages(pool),
                                     pages_forked(n, prompt, own, page));
                    ck_assert_int_eq(copied, pages_copied(n, prompt, own, page));
                    block_pool_free(pool);
                }
            }
        }
    }
    gpu_free(GPU_SIMT, zero);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ch09_cards");
    TCase *cards = tcase_create("cards");
    suite_add_tcase(suite, cards);
    tcase_set_timeout(cards, 60);
    tcase_add_test(cards, a_page_and_its_entry);
    tcase_add_test(cards, lookups);
    tcase_add_test(cards, where_32_bits_end);
    tcase_add_test(cards, bytes_of_a_batch);
    tcase_add_test(cards, waste_of_known_lengths);
    tcase_add_test(cards, waste_is_less_than_a_page_each);
    tcase_add_test(cards, lengths_look_real);
    tcase_add_test(cards, sharing_of_the_lesson);
    tcase_add_test(cards, a_pool_shares_as_modelled);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
