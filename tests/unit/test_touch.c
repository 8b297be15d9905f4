// Touched bytes: each page counts once, whichever way and however often it is accessed.
#include "common/touch.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static size_t page;

static void setup(void) {
    page = (size_t)sysconf(_SC_PAGESIZE);
}

START_TEST(counts_pages_once) {
    TouchBuffer buffers[2];
    ck_assert_int_eq(touch_alloc(&buffers[0], 10 * page), ATTN_OK);
    ck_assert_int_eq(touch_alloc(&buffers[1], 3 * page), ATTN_OK);
    volatile char *first = buffers[0].data;
    volatile char *second = buffers[1].data;
    ck_assert_int_eq(touch_begin(buffers, 2), ATTN_OK);
    for (int repeat = 0; repeat < 3; repeat++) {
        first[0] = 1;
        first[page - 1] = 2;
        first[7 * page] = 3;
        (void)second[2 * page + 5];
    }
    touch_end();
    ck_assert_uint_eq(buffers[0].touched, 2 * page);
    ck_assert_uint_eq(buffers[1].touched, page);
    ck_assert_int_eq(first[0], 1);
    ck_assert_int_eq(first[7 * page], 3);
    first[9 * page] = 4; // accessible again, and no longer counted
    ck_assert_uint_eq(buffers[0].touched, 2 * page);

    ck_assert_int_eq(touch_begin(buffers, 2), ATTN_OK); // a second watch starts from 0
    touch_end();
    ck_assert_uint_eq(buffers[0].touched, 0);
    touch_free(&buffers[0]);
    touch_free(&buffers[1]);
    touch_free(&buffers[1]);
}
END_TEST

START_TEST(partial_last_page) {
    TouchBuffer buffer;
    ck_assert_int_eq(touch_alloc(&buffer, page + 100), ATTN_OK);
    ck_assert_uint_eq(buffer.mapped, 2 * page);
    volatile char *data = buffer.data;
    ck_assert_int_eq(touch_begin(&buffer, 1), ATTN_OK);
    data[0] = 1;
    data[page + 99] = 1;
    touch_end();
    ck_assert_uint_eq(buffer.touched, page + 100);
    touch_free(&buffer);
}
END_TEST

START_TEST(rejects) {
    TouchBuffer buffers[TOUCH_MAX_BUFFERS + 1];
    for (int i = 0; i <= TOUCH_MAX_BUFFERS; i++) {
        ck_assert_int_eq(touch_alloc(&buffers[i], 0), ATTN_OK);
    }
    ck_assert_int_eq(touch_begin(buffers, 0), ATTN_ERR_ARGUMENT);
    ck_assert_int_eq(touch_begin(buffers, TOUCH_MAX_BUFFERS + 1), ATTN_ERR_ARGUMENT);
    ck_assert_int_eq(touch_begin(buffers, TOUCH_MAX_BUFFERS), ATTN_OK);
    ck_assert_int_eq(touch_begin(buffers, 1), ATTN_ERR_ARGUMENT);
    touch_end();
    touch_end(); // harmless when no watch is running
    for (int i = 0; i <= TOUCH_MAX_BUFFERS; i++) {
        touch_free(&buffers[i]);
    }
    TouchBuffer huge;
    ck_assert_int_eq(touch_alloc(&huge, SIZE_MAX), ATTN_ERR_MEMORY);
    ck_assert_ptr_null(huge.data);
}
END_TEST

static void exit_seven(int signal_number) {
    (void)signal_number;
    _exit(7);
}

// A fault elsewhere keeps the action it had before the watch.
START_TEST(other_faults_pass_through) {
    signal(SIGSEGV, exit_seven);
    signal(SIGBUS, exit_seven);
    TouchBuffer watched_one, other;
    ck_assert_int_eq(touch_alloc(&watched_one, page), ATTN_OK);
    ck_assert_int_eq(touch_alloc(&other, page), ATTN_OK);
    volatile char *gone = other.data;
    touch_free(&other);
    ck_assert_int_eq(touch_begin(&watched_one, 1), ATTN_OK);
    gone[0] = 1;
    touch_end();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("touch");
    TCase *tests = tcase_create("touch");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, counts_pages_once);
    tcase_add_test(tests, partial_last_page);
    tcase_add_test(tests, rejects);
    tcase_add_exit_test(tests, other_faults_pass_through, 7);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
