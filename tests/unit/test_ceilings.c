// Tests of common/ceilings.c: the figures against what plain code on this machine reaches.
#include "common/ceilings.h"

#include "common/timer.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHAIN_STEPS = 2000000, COPY_BYTES = 8 << 20 };

// A chain of dependent multiply-adds, one after the other: latency, not throughput.
static void run_chain(void *context, int run) {
    float x = (float)run;
    for (int i = 0; i < CHAIN_STEPS; i++) {
        x = x * 0.5f + 1.0f;
    }
    *(volatile float *)context = x;
}

START_TEST(fma_peak_is_far_above_one_chain) {
    volatile float result;
    double seconds = timer_measure(run_chain, (void *)&result, 5).min;
    double chain = 2.0 * CHAIN_STEPS / seconds;
    Ceilings ceilings = ceilings_measure(1);
    ck_assert_double_gt(ceilings.fma_flops_per_s, 2 * chain);
    // No core does more than 1024 float32 operations in 0.1 ns.
    ck_assert_double_lt(ceilings.fma_flops_per_s, 1e13);
}
END_TEST

// Copies through memory one byte at a time, which no compiler may speed up.
static void copy_bytewise(void *context, int run) {
    volatile char *buffer = context;
    for (size_t i = 0; i < COPY_BYTES; i++) {
        buffer[COPY_BYTES + i] = (char)(buffer[i] + run);
    }
}

START_TEST(copy_rate_is_above_a_bytewise_copy) {
    char *buffer = calloc(2, COPY_BYTES);
    ck_assert_ptr_nonnull(buffer);
    double seconds = timer_measure(copy_bytewise, buffer, 3).min;
    free(buffer);
    Ceilings ceilings = ceilings_measure(1);
    ck_assert_double_gt(ceilings.copy_bytes_per_s, 2.0 * COPY_BYTES / seconds);
    ck_assert_double_lt(ceilings.copy_bytes_per_s, 1e13);
}
END_TEST

START_TEST(more_threads_can_do_what_fewer_can) {
    const Ceilings one = {1, 10e9, 170e9, "AVX2"};
    Ceilings disturbed = {2, 12e9, 15e9, "AVX2"}, fine = {2, 9.8e9, 300e9, "AVX2"};
    ck_assert(ceilings_raise(&disturbed, &one));
    ck_assert_double_eq(disturbed.copy_bytes_per_s, 12e9);
    ck_assert_double_eq(disturbed.fma_flops_per_s, 170e9);
    ck_assert_int_eq(disturbed.threads, 2);
    ck_assert(!ceilings_raise(&fine, &one));
    ck_assert_double_eq(fine.copy_bytes_per_s, 10e9);
    ck_assert_double_eq(fine.fma_flops_per_s, 300e9);
}
END_TEST

START_TEST(threads_are_as_asked) {
    Ceilings all = ceilings_measure(0);
    ck_assert_int_ge(all.threads, 1);
    ck_assert(isfinite(all.copy_bytes_per_s) && all.copy_bytes_per_s > 0);
    ck_assert(isfinite(all.fma_flops_per_s) && all.fma_flops_per_s > 0);
    ck_assert_int_gt((int)strlen(all.vector_unit), 0);
    Ceilings three = ceilings_measure(3); // more workers than cores must work as well
#ifdef _OPENMP
    ck_assert_int_eq(three.threads, 3);
#else
    ck_assert_int_eq(three.threads, 1);
#endif
    ck_assert(isfinite(three.copy_bytes_per_s) && three.copy_bytes_per_s > 0);
}
END_TEST

START_TEST(measuring_takes_little_time) {
    double start = timer_now();
    ceilings_measure(0);
    ck_assert_double_lt(timer_now() - start, 20); // 0.5 s on an idle machine
}
END_TEST

START_TEST(roofline) {
    Ceilings ceilings = {1, 20e9, 160e9, "a machine on paper"};
    ck_assert_double_eq(ceilings_roofline(&ceilings, 0.5), 10e9);
    ck_assert_double_eq(ceilings_roofline(&ceilings, 8), 160e9);
    ck_assert_double_eq(ceilings_roofline(&ceilings, 4096), 160e9);
    ck_assert_double_eq(ceilings_roofline(&ceilings, 0), 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ceilings");
    TCase *tests = tcase_create("ceilings");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, fma_peak_is_far_above_one_chain);
    tcase_add_test(tests, copy_rate_is_above_a_bytewise_copy);
    tcase_add_test(tests, more_threads_can_do_what_fewer_can);
    tcase_add_test(tests, threads_are_as_asked);
    tcase_add_test(tests, measuring_takes_little_time);
    tcase_add_test(tests, roofline);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
