// Tests of common/timer.c.
#include "common/timer.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

static void sleep_seconds(double seconds) {
    struct timespec pause = {.tv_sec = (time_t)seconds,
                             .tv_nsec = (long)(1e9 * (seconds - floor(seconds)))};
    nanosleep(&pause, NULL);
}

START_TEST(clock_counts_seconds) {
    double start = timer_now();
    sleep_seconds(0.05);
    double passed = timer_now() - start;
    ck_assert_double_ge(passed, 0.05);
    ck_assert_double_lt(passed, 5);
}
END_TEST

START_TEST(clock_never_goes_back) {
    double last = timer_now();
    for (int i = 0; i < 10000; i++) {
        double now = timer_now();
        ck_assert_double_ge(now, last);
        last = now;
    }
}
END_TEST

START_TEST(statistics_of_five_runs) {
    double seconds[] = {5, 1, 4, 2, 3};
    TimeStats stats = time_stats(seconds, 5);
    ck_assert_int_eq(stats.runs, 5);
    ck_assert_double_eq(stats.median, 3);
    ck_assert_double_eq(stats.min, 1);
    ck_assert_double_eq(stats.max, 5);
    ck_assert_double_eq_tol(stats.p10, 1.4, 1e-12);
    ck_assert_double_eq_tol(stats.p90, 4.6, 1e-12);
    for (int i = 0; i < 5; i++) {
        ck_assert_double_eq(seconds[i], i + 1);
    }
}
END_TEST

START_TEST(median_of_an_even_number_of_runs) {
    double seconds[] = {8, 2, 1, 4};
    ck_assert_double_eq(time_stats(seconds, 4).median, 3);
}
END_TEST

START_TEST(one_run_is_every_statistic) {
    double seconds[] = {0.25};
    TimeStats stats = time_stats(seconds, 1);
    double all[] = {stats.median, stats.p10, stats.p90, stats.min, stats.max};
    for (int i = 0; i < 5; i++) {
        ck_assert_double_eq(all[i], 0.25);
    }
}
END_TEST

START_TEST(no_runs_give_nan) {
    TimeStats stats = time_stats(NULL, 0);
    double all[] = {stats.median, stats.p10, stats.p90, stats.min, stats.max};
    for (int i = 0; i < 5; i++) {
        ck_assert_double_nan(all[i]);
    }
    ck_assert_int_eq(stats.runs, 0);
}
END_TEST

// Checks that the run numbers count up from 0.
static void count_run(void *context, int run) {
    int *calls = context;
    ck_assert_int_eq(run, *calls);
    ++*calls;
}

START_TEST(measure_warms_up_once_and_clamps) {
    const struct {
        int runs, timed;
    } cases[] = {{1, 1}, {10, 10}, {0, 1}, {-3, 1}, {5000, TIMER_MAX_RUNS}};
    for (int i = 0; i < 5; i++) {
        int calls = 0;
        TimeStats stats = timer_measure(count_run, &calls, cases[i].runs);
        ck_assert_int_eq(stats.runs, cases[i].timed);
        ck_assert_int_eq(calls, cases[i].timed + 1);
    }
}
END_TEST

typedef struct SlowRun {
    int run;
    double seconds;
} SlowRun;

static void sleep_in_one_run(void *context, int run) {
    const SlowRun *slow = context;
    if (run == slow->run) {
        sleep_seconds(slow->seconds);
    }
}

// On a busy machine the empty run takes a while as well: less than the slow warm-up.
START_TEST(measure_does_not_time_the_warm_up) {
    SlowRun slow = {.run = 0, .seconds = 3};
    ck_assert_double_lt(timer_measure(sleep_in_one_run, &slow, 1).max, 3);
    slow = (SlowRun){.run = 1, .seconds = 0.2};
    ck_assert_double_ge(timer_measure(sleep_in_one_run, &slow, 2).max, 0.2);
}
END_TEST

// Work in proportion to N: a chain of dependent additions.
static void add_up(void *context, int run) {
    volatile double sum = run;
    for (int i = 0; i < *(int *)context; i++) {
        sum = sum + i;
    }
}

START_TEST(timer_scale) {
    int n = 200000, n8 = 8 * n;
    double time_n = timer_measure(add_up, &n, 10).min;
    double time_8n = timer_measure(add_up, &n8, 10).min;
    ck_assert_double_gt(time_n, 0);
    ck_assert_double_gt(time_8n, 4 * time_n);
    double ceiling = n / time_n;
    ck_assert(rate_is_plausible(n8 / (8 * time_n), ceiling));
    ck_assert(!rate_is_plausible(n8 / time_n, ceiling));
}
END_TEST

START_TEST(plausible_rates) {
    ck_assert(rate_is_plausible(1, 100));
    ck_assert(rate_is_plausible(100, 100));
    ck_assert(rate_is_plausible(104.9, 100));
    ck_assert(!rate_is_plausible(105.1, 100));
    ck_assert(!rate_is_plausible(0, 100));
    ck_assert(!rate_is_plausible(-1, 100));
    ck_assert(!rate_is_plausible(NAN, 100));
    ck_assert(!rate_is_plausible(INFINITY, 100));
    ck_assert(!rate_is_plausible(INFINITY, INFINITY));
    ck_assert(!rate_is_plausible(1, NAN));
    ck_assert(!rate_is_plausible(1, 0));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("timer");
    TCase *tests = tcase_create("timer");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, clock_counts_seconds);
    tcase_add_test(tests, clock_never_goes_back);
    tcase_add_test(tests, statistics_of_five_runs);
    tcase_add_test(tests, median_of_an_even_number_of_runs);
    tcase_add_test(tests, one_run_is_every_statistic);
    tcase_add_test(tests, no_runs_give_nan);
    tcase_add_test(tests, measure_warms_up_once_and_clamps);
    tcase_add_test(tests, measure_does_not_time_the_warm_up);
    tcase_add_test(tests, timer_scale);
    tcase_add_test(tests, plausible_rates);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
