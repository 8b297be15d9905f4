// Chapter 9's block pool: layouts, exhaustion, closing, forks and copy on write, truncation, and
// where tokens end up. test_ch09_stress.c does all of it at random.
#include "chapters/ch09_paged/block_pool.h"

#include "tests/unit/gpu_targets.h"
#include "tests/unit/pool_model.h"

#include <check.h>
#include <stdint.h>
#include <string.h>

// ---- layouts ------------------------------------------------------------------------------------

static const PageLayout small = {4, 2, 8, DTYPE_F32};

START_TEST(addresses) {
    const PageLayout layout = {16, 8, 128, DTYPE_BF16};
    ck_assert_int_eq(page_offset(&layout, 0, 0, 0), 0);
    ck_assert_int_eq(page_offset(&layout, 0, 0, 3), 3 * 128);
    ck_assert_int_eq(page_offset(&layout, 0, 2, 3), (2 * 16 + 3) * 128);
    ck_assert_int_eq(page_offset(&layout, 5, 2, 3), ((5 * 8 + 2) * 16 + 3) * 128);
    ck_assert_int_eq(page_offset(&layout, 131072, 0, 0), 2147483648); // page_offset_64bit
}
END_TEST

START_TEST(layouts_are_checked) {
    const GpuTarget target = gpu_tests.target[_i];
    BlockPool *pool = model_pool(target, &small, 3);
    PageLayout other = small;
    ASSERT_OK(block_pool_check_layout(pool, &other));
    ASSERT_OK(block_pool_check_layout(pool, block_pool_layout(pool)));
    other.page_size = 8;
    ASSERT_FAILS(block_pool_check_layout(pool, &other), ATTN_ERR_ARGUMENT,
                 "page_size 8, but the pool's pages have 4");
    other = small;
    other.heads_kv = 3;
    ASSERT_FAILS(block_pool_check_layout(pool, &other), ATTN_ERR_ARGUMENT,
                 "heads_kv 3, but the pool's pages have 2");
    other = small;
    other.dim = 16;
    ASSERT_FAILS(block_pool_check_layout(pool, &other), ATTN_ERR_ARGUMENT,
                 "dim 16, but the pool's pages have 8");
    other = small;
    other.dtype = DTYPE_BF16;
    ASSERT_FAILS(block_pool_check_layout(pool, &other), ATTN_ERR_ARGUMENT,
                 "dtype bf16, but the pool's pages have f32");
    ck_assert_int_eq(block_pool_target(pool), target);
    ck_assert_int_eq(block_pool_pages(pool), 3);
    ck_assert_int_eq(block_pool_free_pages(pool), 3);
    block_pool_free(pool);
    block_pool_free(NULL);
}
END_TEST

START_TEST(what_no_pool_is_made_of) {
    const struct {
        PageLayout layout;
        int64_t pages, sequences;
        const char *text;
    } bad[] = {
        {{0, 2, 8, DTYPE_F32}, 3, 1, "page_size 0"},
        {{4, 0, 8, DTYPE_F32}, 3, 1, "heads_kv 0"},
        {{4, 2, -1, DTYPE_F32}, 3, 1, "dim -1"},
        {{4, 2, 8, DTYPE_F64}, 3, 1, "dtype 3"},
        {{4, 2, 8, DTYPE_F32}, 0, 1, "pages 0"},
        {{4, 2, 8, DTYPE_F32}, (int64_t)1 << 31, 1, "pages 2147483648"},
        {{4, 2, 8, DTYPE_F32}, 3, 0, "sequences 0"},
        {{1 << 30, 1 << 20, 1 << 20, DTYPE_F32}, 3, 1, "more than can be addressed"},
        {{1 << 30, 1 << 20, 128, DTYPE_F32}, 64, 1, "more than can be addressed"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        BlockPool *pool = (BlockPool *)&pool;
        ASSERT_FAILS(
            block_pool_make(&pool, GPU_SIMT, &bad[i].layout, bad[i].pages, bad[i].sequences),
            ATTN_ERR_SHAPE, bad[i].text);
        ck_assert_ptr_null(pool);
    }
}
END_TEST

// ---- where tokens end up ------------------------------------------------------------------------

// Rows in pieces of 16, 4 and 2 bytes; pages of one token, and more of them than a launch takes.
START_TEST(tokens_lie_in_their_slots) {
    static const PageLayout layouts[] = {{4, 2, 8, DTYPE_F32},
                                         {3, 3, 5, DTYPE_F32},
                                         {16, 2, 64, DTYPE_BF16},
                                         {5, 1, 7, DTYPE_F16},
                                         {1, 2, 8, DTYPE_F16}};
    const GpuTarget target = gpu_tests.target[_i];
    for (size_t l = 0; l < sizeof layouts / sizeof layouts[0]; l++) {
        const int64_t many = layouts[l].page_size == 1 && target != GPU_TRACE ? 1300 : 40;
        BlockPool *pool = model_pool(target, &layouts[l], many + 50);
        static Model models[2];
        memset(models, 0, sizeof models);
        for (int s = 0; s < 2; s++) {
            int64_t number;
            ASSERT_OK(block_pool_open(pool, &number));
            ck_assert_int_eq(number, s);
            models[s].open = true;
        }
        const int64_t counts[] = {1, 2, 7, many, 0, 1}; // in turns, so that pages interleave
        for (uint32_t i = 0; i < 6; i++) {
            const int s = i == 3 ? 0 : (int)(i % 2);
            if (counts[i] > 0) {
                ASSERT_OK(model_append_to_pool(pool, s, 10000 * i, counts[i]));
            } else {
                ASSERT_OK(block_pool_append(pool, s, 0, NULL, NULL, NULL));
            }
            model_append(&models[s], 10000 * i, counts[i]);
            model_check_pool(pool, models, 2);
        }
        block_pool_free(pool);
    }
}
END_TEST

START_TEST(appends_that_are_refused) {
    const GpuTarget target = gpu_tests.target[_i];
    BlockPool *pool = model_pool(target, &small, 3);
    float *any = model_rows(target, &small, 0, 1, 0);
    int64_t sequence;
    ASSERT_FAILS(block_pool_append(pool, 0, 1, any, any, NULL), ATTN_ERR_ARGUMENT,
                 "sequence 0 is not open");
    ASSERT_FAILS(block_pool_append(pool, -1, 1, any, any, NULL), ATTN_ERR_ARGUMENT, "-1");
    ASSERT_FAILS(block_pool_append(pool, 10, 1, any, any, NULL), ATTN_ERR_ARGUMENT, "10");
    ASSERT_OK(block_pool_open(pool, &sequence));
    ASSERT_FAILS(block_pool_append(pool, 0, -1, any, any, NULL), ATTN_ERR_ARGUMENT, "tokens -1");
    ASSERT_FAILS(block_pool_append(pool, 0, 1, NULL, any, NULL), ATTN_ERR_ARGUMENT, "k is a null");
    ASSERT_FAILS(block_pool_append(pool, 0, 1, any, NULL, NULL), ATTN_ERR_ARGUMENT, "v is a null");
    ASSERT_FAILS(block_pool_append(pool, 0, INT64_MAX, any, any, NULL), ATTN_ERR_MEMORY,
                 "3 are free");
    ck_assert_int_eq(block_pool_length(pool, 0), 0);
    ck_assert_int_eq(block_pool_free_pages(pool), 3);
    ASSERT_OK(block_pool_check(pool));
    gpu_free(target, any);
    block_pool_free(pool);
}
END_TEST

// ---- pages are given, shared and taken back -----------------------------------------------------

START_TEST(exhaustion_loses_nothing) {
    BlockPool *pool = model_pool(gpu_tests.target[_i], &small, 3);
    static Model models[2];
    memset(models, 0, sizeof models);
    int64_t a, b;
    ASSERT_OK(block_pool_open(pool, &a));
    ASSERT_OK(block_pool_open(pool, &b));
    models[0].open = models[1].open = true;
    ASSERT_OK(model_append_to_pool(pool, a, 100, 6));
    model_append(&models[0], 100, 6);
    ASSERT_OK(model_append_to_pool(pool, b, 200, 1));
    model_append(&models[1], 200, 1);
    ck_assert_int_eq(block_pool_free_pages(pool), 0);
    // Two slots are left in a's last page: a third token needs a page.
    ASSERT_FAILS(model_append_to_pool(pool, a, 300, 3), ATTN_ERR_MEMORY,
                 "needs 1 pages for 3 tokens more, 0 of 3 are free");
    ASSERT_FAILS(model_append_to_pool(pool, b, 300, 8), ATTN_ERR_MEMORY, "needs 2 pages");
    model_check_pool(pool, models, 2);
    ASSERT_OK(model_append_to_pool(pool, a, 300, 2));
    model_append(&models[0], 300, 2);
    ASSERT_OK(model_append_to_pool(pool, b, 400, 3));
    model_append(&models[1], 400, 3);
    model_check_pool(pool, models, 2);
    // A shared page cannot be copied when none is free: its owner can still read it.
    int64_t fork;
    ASSERT_OK(block_pool_truncate(pool, b, 2));
    models[1].length = 2;
    ASSERT_OK(block_pool_fork(pool, b, &fork));
    ASSERT_FAILS(model_append_to_pool(pool, fork, 500, 1), ATTN_ERR_MEMORY,
                 "needs 1 pages for 1 tokens");
    ck_assert_int_eq(block_pool_references(pool, block_pool_table(pool, b)[0]), 2);
    ck_assert_int_eq(block_pool_length(pool, fork), 2);
    model_check_pool(pool, models, 2);
    ASSERT_OK(block_pool_close(pool, a)); // whose pages are now free
    models[0] = (Model){0};
    ASSERT_OK(model_append_to_pool(pool, fork, 500, 5));
    model_check_pool(pool, models, 2);
    ck_assert_int_eq(block_pool_free_pages(pool), 0);
    block_pool_free(pool);
}
END_TEST

START_TEST(closing_twice_is_an_error) {
    BlockPool *pool = model_pool(gpu_tests.target[_i], &small, 8);
    int64_t a, b;
    ASSERT_OK(block_pool_open(pool, &a));
    ASSERT_OK(block_pool_open(pool, &b));
    ASSERT_OK(model_append_to_pool(pool, a, 0, 9));
    ASSERT_OK(model_append_to_pool(pool, b, 0, 5));
    ck_assert_int_eq(block_pool_free_pages(pool), 3);
    ASSERT_OK(block_pool_close(pool, a));
    ck_assert_int_eq(block_pool_free_pages(pool), 6);
    ASSERT_FAILS(block_pool_close(pool, a), ATTN_ERR_ARGUMENT, "sequence 0 is not open");
    ASSERT_FAILS(block_pool_close(pool, -1), ATTN_ERR_ARGUMENT, "-1");
    ASSERT_FAILS(block_pool_close(pool, 99), ATTN_ERR_ARGUMENT, "99");
    ck_assert_int_eq(block_pool_free_pages(pool), 6);
    ck_assert_int_eq(block_pool_length(pool, a), -1);
    ck_assert_ptr_null(block_pool_table(pool, a));
    ASSERT_OK(block_pool_check(pool));
    ASSERT_OK(block_pool_close(pool, b));
    ck_assert_int_eq(block_pool_free_pages(pool), 8);
    ASSERT_OK(block_pool_check(pool));
    block_pool_free(pool);
}
END_TEST

START_TEST(sequences_run_out) {
    BlockPool *pool;
    int64_t sequence = 7, fork = 7;
    ASSERT_OK(block_pool_make(&pool, GPU_SIMT, &small, 4, 2));
    ASSERT_FAILS(block_pool_fork(pool, 0, &fork), ATTN_ERR_ARGUMENT, "sequence 0 is not open");
    ASSERT_OK(block_pool_open(pool, &sequence));
    ASSERT_OK(block_pool_fork(pool, sequence, &fork)); // of nothing
    ck_assert_int_ne(fork, sequence);
    ASSERT_FAILS(block_pool_open(pool, &sequence), ATTN_ERR_MEMORY, "all 2 sequences are in use");
    ASSERT_FAILS(block_pool_fork(pool, 0, &sequence), ATTN_ERR_MEMORY, "all 2 sequences");
    ASSERT_OK(block_pool_close(pool, 0));
    ASSERT_OK(block_pool_open(pool, &sequence));
    ck_assert_int_eq(sequence, 0);
    ck_assert_int_eq(block_pool_length(pool, 0), 0);
    ASSERT_OK(block_pool_check(pool));
    block_pool_free(pool);
}
END_TEST

START_TEST(forks_copy_on_write) {
    BlockPool *pool = model_pool(gpu_tests.target[_i], &small, 8);
    static Model models[3];
    memset(models, 0, sizeof models);
    int64_t a, b, c;
    ASSERT_OK(block_pool_open(pool, &a));
    ASSERT_OK(model_append_to_pool(pool, a, 100, 6));
    models[0].open = true;
    model_append(&models[0], 100, 6);
    ASSERT_OK(block_pool_fork(pool, a, &b));
    ASSERT_OK(block_pool_fork(pool, b, &c));
    models[1] = models[2] = models[0];
    const int32_t first = block_pool_table(pool, a)[0], second = block_pool_table(pool, a)[1];
    ck_assert_int_eq(block_pool_free_pages(pool), 6); // nothing was copied
    ck_assert_int_eq(block_pool_references(pool, first), 3);
    ck_assert_int_eq(block_pool_references(pool, second), 3);
    model_check_pool(pool, models, 3);
    // The page that b writes into is copied; the one before it stays shared.
    ASSERT_OK(model_append_to_pool(pool, b, 200, 1));
    model_append(&models[1], 200, 1);
    ck_assert_int_eq(block_pool_table(pool, b)[0], first);
    ck_assert_int_ne(block_pool_table(pool, b)[1], second);
    ck_assert_int_eq(block_pool_references(pool, first), 3);
    ck_assert_int_eq(block_pool_references(pool, second), 2);
    ck_assert_int_eq(block_pool_free_pages(pool), 5);
    model_check_pool(pool, models, 3);
    // So is a's; then c is the page's last reader, and may write into it.
    ASSERT_OK(model_append_to_pool(pool, a, 300, 7));
    model_append(&models[0], 300, 7);
    ck_assert_int_eq(block_pool_references(pool, second), 1);
    ASSERT_OK(model_append_to_pool(pool, c, 400, 2));
    model_append(&models[2], 400, 2);
    ck_assert_int_eq(block_pool_table(pool, c)[1], second);
    model_check_pool(pool, models, 3);
    // Full pages are not copied: a fork of c continues in a page of its own.
    int64_t d;
    ASSERT_OK(block_pool_fork(pool, c, &d));
    const int64_t before = block_pool_free_pages(pool);
    ASSERT_OK(model_append_to_pool(pool, d, 500, 1));
    ck_assert_int_eq(block_pool_free_pages(pool), before - 1);
    ck_assert_int_eq(block_pool_table(pool, d)[1], second);
    model_check_pool(pool, models, 3);
    // A page is free when its last reader has gone.
    ASSERT_OK(block_pool_close(pool, a));
    ASSERT_OK(block_pool_close(pool, b));
    ASSERT_OK(block_pool_close(pool, d));
    models[0] = models[1] = (Model){0};
    model_check_pool(pool, models, 3);
    ck_assert_int_eq(block_pool_references(pool, first), 1);
    ASSERT_OK(block_pool_close(pool, c));
    ck_assert_int_eq(block_pool_references(pool, first), 0);
    ck_assert_int_eq(block_pool_free_pages(pool), 8);
    ASSERT_OK(block_pool_check(pool));
    block_pool_free(pool);
}
END_TEST

START_TEST(drafts_are_taken_back) {
    BlockPool *pool = model_pool(gpu_tests.target[_i], &small, 8);
    static Model models[2];
    memset(models, 0, sizeof models);
    int64_t a, b;
    ASSERT_OK(block_pool_open(pool, &a));
    ASSERT_OK(model_append_to_pool(pool, a, 100, 11));
    models[0].open = true;
    model_append(&models[0], 100, 11);
    ASSERT_FAILS(block_pool_truncate(pool, a, 12), ATTN_ERR_ARGUMENT, "has 11 tokens");
    ASSERT_FAILS(block_pool_truncate(pool, a, -1), ATTN_ERR_ARGUMENT, "tokens -1");
    ASSERT_FAILS(block_pool_truncate(pool, 5, 0), ATTN_ERR_ARGUMENT, "sequence 5 is not open");
    ASSERT_OK(block_pool_truncate(pool, a, 9));
    ck_assert_int_eq(block_pool_free_pages(pool), 5); // slot 0 of the third page is in use
    ASSERT_OK(block_pool_truncate(pool, a, 8));
    ck_assert_int_eq(block_pool_free_pages(pool), 6);
    models[0].length = 8;
    model_check_pool(pool, models, 1);
    // A draft on top of a shared prefix: what the other sequence has must not change.
    ASSERT_OK(block_pool_fork(pool, a, &b));
    models[1] = models[0];
    ASSERT_OK(block_pool_truncate(pool, b, 6));
    models[1].length = 6;
    ASSERT_OK(model_append_to_pool(pool, b, 200, 3));
    model_append(&models[1], 200, 3);
    model_check_pool(pool, models, 2);
    ASSERT_OK(block_pool_truncate(pool, a, 0));
    models[0].length = 0;
    model_check_pool(pool, models, 2);
    ck_assert_int_eq(block_pool_free_pages(pool), 5);
    block_pool_free(pool);
}
END_TEST

int main(void) {
    gpu_tests_find();
    Suite *suite = suite_create("ch09_pool");
    TCase *tests = tcase_create("ch09_pool");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, addresses);
    tcase_add_test(tests, what_no_pool_is_made_of);
    tcase_add_test(tests, sequences_run_out);
    tcase_add_loop_test(tests, layouts_are_checked, 0, gpu_tests.count);
    tcase_add_loop_test(tests, tokens_lie_in_their_slots, 0, gpu_tests.count);
    tcase_add_loop_test(tests, appends_that_are_refused, 0, gpu_tests.count);
    tcase_add_loop_test(tests, exhaustion_loses_nothing, 0, gpu_tests.count);
    tcase_add_loop_test(tests, closing_twice_is_an_error, 0, gpu_tests.count);
    tcase_add_loop_test(tests, forks_copy_on_write, 0, gpu_tests.count);
    tcase_add_loop_test(tests, drafts_are_taken_back, 0, gpu_tests.count);
    suite_add_tcase(suite, tests);
    return gpu_tests_run(suite);
}
