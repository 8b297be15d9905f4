// Fibers by themselves, and the scheduler's kernels on them. test_simt_portable.c runs all of this
// again with the fibers that need no assembly.
#include "common/simt/fiber.h"

#include "common/timer.h"
#include "tests/unit/simt_places.h"
#include "tests/unit/simt_probe.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef SIMT_PORTABLE_FIBERS
#define SUITE "simt_portable"
#else
#define SUITE "simt_fibers"
#endif

// ---- fibers -------------------------------------------------------------------------------------

enum { ROUNDS = 40, LOCALS = 64 };

static Fiber home;
static Fiber ring[FIBER_COUNT];
static int ring_size, ring_at, ring_errors;
static long ring_switches;

// Keeps values in registers and on the stack, gives way, and finds them again.
static void run_ring(void) {
    fiber_entered();
    const int me = ring_at;
    volatile double kept = me * 0.5;
    long a = me, b = me + 1, c = me + 2, d = me + 3, e = me + 4, f = me + 5;
    int locals[LOCALS];
    for (int i = 0; i < LOCALS; i++) {
        locals[i] = me * LOCALS + i;
    }
    for (int round = 0; round < ROUNDS; round++) {
        ring_at = (me + 1) % ring_size;
        ring_switches++;
        fiber_switch(&ring[me], &ring[ring_at]);
        a += 1, b += 2, c += 3, d += 4, e += 5, f += 6;
        for (int i = 0; i < LOCALS; i++) {
            ring_errors += locals[i] != me * LOCALS + i;
        }
        ring_errors += kept != me * 0.5;
        ring_errors += a - round - 1 != me || b - 2 * (round + 1) != me + 1;
        ring_errors += c - 3 * (round + 1) != me + 2 || d - 4 * (round + 1) != me + 3;
        ring_errors += e - 5 * (round + 1) != me + 4 || f - 6 * (round + 1) != me + 5;
    }
    fiber_leave(&home);
}

static void check_ring(int size) {
    ring_size = size;
    ring_at = ring_errors = 0;
    ring_switches = 0;
    for (int i = 0; i < size; i++) {
        ck_assert(fiber_prepare(&ring[i], i, run_ring));
    }
    fiber_switch(&home, &ring[0]); // until the first has done its rounds
    ck_assert_int_eq(ring_errors, 0);
    ck_assert_int_eq(ring_switches, (long)size * ROUNDS);
}

START_TEST(fibers_keep_their_registers_and_locals) {
    check_ring(2);
    check_ring(33);
    check_ring(FIBER_COUNT);
    check_ring(2); // the same stacks again, left in the middle
}
END_TEST

static const char *local_address;
static void note_address(void) {
    fiber_entered();
    char local = 0;
    local_address = &local + local;
    fiber_leave(&home);
}

START_TEST(stacks_have_their_size_and_a_guard) {
    static Fiber fiber;
    char here = 0;
    for (int index = 0; index < FIBER_COUNT; index += 31) {
        ck_assert(fiber_prepare(&fiber, index, note_address));
        ck_assert_uint_eq(fiber.stack_bytes, FIBER_STACK_BYTES);
        ck_assert(!fiber_is_guard(fiber.stack));
        ck_assert(!fiber_is_guard(fiber.stack + fiber.stack_bytes - 1));
        ck_assert(fiber_is_guard(fiber.stack - 1));
        ck_assert(fiber_is_guard(fiber.stack - FIBER_GUARD_BYTES));
        fiber_switch(&home, &fiber);
#if !SIMT_ASAN // which may keep locals elsewhere
        ck_assert(local_address >= fiber.stack && local_address < fiber.stack + fiber.stack_bytes);
        ck_assert(local_address > fiber.stack + fiber.stack_bytes - 8192);
#endif
    }
    ck_assert(!fiber_is_guard(&here) && !fiber_is_guard(NULL));
}
END_TEST

// ---- kernels on them ----------------------------------------------------------------------------

// Whether turn[threads] is one of each of 0..threads - 1.
static bool is_permutation(const int *turn, int threads) {
    bool seen[1024] = {false};
    for (int t = 0; t < threads; t++) {
        if (turn[t] < 0 || turn[t] >= threads || seen[turn[t]]) {
            return false;
        }
        seen[turn[t]] = true;
    }
    return true;
}

static void run_order(int place, int threads, int *turn) {
    static AttnStatus (*const probe[])(int *, int *, int) = GPU_BUILDS(probe_order);
    const GpuTarget target = simt_test_places[place].target;
    const int zero[PROBE_PHASES] = {0};
    const size_t all = (size_t)threads * PROBE_PHASES;
    int *device_turn = simt_test_array(target, "turn", all, sizeof *turn, NULL);
    int *device_count = simt_test_array(target, "count", PROBE_PHASES, sizeof *turn, zero);
    ck_assert_msg(probe[target](device_turn, device_count, threads) == ATTN_OK, "%s",
                  attn_last_error());
    simt_test_download(target, turn, device_turn, all * sizeof *turn);
    gpu_free(target, device_turn);
    gpu_free(target, device_count);
}

START_TEST(threads_run_in_the_order_asked_for) {
    static const int sizes[] = {1, 31, 32, 33, 100, 1024};
    int turn[PROBE_PHASES * 1024], again[PROBE_PHASES * 1024];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const int threads = sizes[i];
        ck_assert(simt_test_begin(_i));
        run_order(_i, threads, turn);
        for (int phase = 0; phase < PROBE_PHASES; phase++) {
            const int *now = turn + phase * threads;
            ck_assert(is_permutation(now, threads));
            for (int t = 0; t < threads && simt_test_places[_i].order != SIMT_RANDOM; t++) {
                const bool forward = simt_test_places[_i].order == SIMT_FORWARD;
                ck_assert_int_eq(now[t], forward ? t : threads - 1 - t);
            }
        }
        if (simt_test_places[_i].order == SIMT_RANDOM && threads >= 31) {
            const size_t bytes = sizeof *turn * (size_t)(PROBE_PHASES * threads);
            const size_t phase_bytes = sizeof *turn * (size_t)threads;
            ck_assert(memcmp(turn, turn + threads, phase_bytes) != 0); // another every time
            run_order(_i, threads, again);
            ck_assert(memcmp(turn, again, bytes) == 0); // the same for the same seed
            simt_settings()->seed++;
            run_order(_i, threads, again);
            ck_assert(memcmp(turn, again, bytes) != 0);
        }
    }
}
END_TEST

START_TEST(barriers_and_shuffles_sum) {
    static AttnStatus (*const probe[])(const float *, float *, int, int, int, char *) =
        GPU_BUILDS(probe_sum);
    const GpuTarget target = simt_test_places[_i].target;
    enum { BLOCKS = 3, MOST = 1024 };
    static float value[BLOCKS * MOST];
    ck_assert(simt_test_begin(_i));
    for (int i = 0; i < BLOCKS * MOST; i++) {
        value[i] = (float)(i * 7 % 64);
    }
    float *device_value = simt_test_array(target, "value", BLOCKS * MOST, 4, value);
    for (int threads = 64; threads <= MOST; threads *= 2) {
        float sum[BLOCKS];
        float *device_sum = simt_test_array(target, "sum", BLOCKS, 4, NULL);
        ck_assert_msg(probe[target](device_value, device_sum, BLOCKS, threads, 2, NULL) == ATTN_OK,
                      "%s", attn_last_error());
        simt_test_download(target, sum, device_sum, sizeof sum);
        for (int block = 0; block < BLOCKS; block++) {
            float expected = 0; // whole numbers, exact in any order
            for (int t = 0; t < threads; t++) {
                expected += value[block * threads + t];
            }
            ck_assert_float_eq(sum[block], expected);
        }
        gpu_free(target, device_sum);
    }
    gpu_free(target, device_value);
}
END_TEST

START_TEST(launches_are_abandoned_and_the_next_works) {
    static const struct {
        ProbeMistake mistake;
        SimtFindingKind kind;
        const char *text;
    } cases[] = {{MISTAKE_DIVERGENT_BARRIER, SIMT_DIVERGENT_BARRIER, "every thread"},
                 {MISTAKE_BARRIER_IN_BRANCH, SIMT_MISSING_LANE, "lanes 8-31"},
                 {MISTAKE_PAST_END, SIMT_OUT_OF_BOUNDS, "\"data\""},
                 {MISTAKE_TRAP, SIMT_CRASH, "trap"},
                 {MISTAKE_DEEP, SIMT_CRASH, "stack overflow"},
                 {MISTAKE_ENDLESS, SIMT_TIMEOUT, "has run for"}};
    static const float zero[1000];
    simt_settings()->slice_s = 0.05;
    float *buffer = simt_test_array(GPU_SIMT, "data", 1000, 4, zero);
    int *line = simt_test_array(GPU_SIMT, "line", 256, 4, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert(probe_mistake_simt(cases[i].mistake, buffer, 1000, line, 2, 96, 1, 70) ==
                  ATTN_ERR_CUDA);
        ck_assert_msg(simt_finding()->kind == cases[i].kind &&
                          strstr(attn_last_error(), cases[i].text) != NULL,
                      "%s", attn_last_error());
        ck_assert_str_eq(simt_finding()->here.file, "simt_probe_mistakes.cu");
        ck_assert_uint_eq(simt_finding()->here.block[0], 1);
        run_order(0, 96, (int[PROBE_PHASES * 96]){0});
    }
}
END_TEST

// ---- costs --------------------------------------------------------------------------------------

// Far above what an idle machine takes (in the comments): these fail when a switch goes through the
// kernel, not when the machine is busy.
START_TEST(switches_are_cheap) {
    float *result = simt_test_array(GPU_SIMT, "result", 32, 4, NULL);
    ck_assert(simt_test_begin(0));
    simt_settings()->workers = 1;
    double start = timer_now();
    ck_assert(probe_barriers_simt(128, 2000) == ATTN_OK);
    const double barrier = (timer_now() - start) / 2000;
    start = timer_now();
    ck_assert(probe_shuffles_simt(2000, result) == ATTN_OK);
    const double shuffle = (timer_now() - start) / 2000;
    if (getenv("SIMT_TEST_COSTS") != NULL) {
        printf("barrier of 128 threads: %.2f us, shuffle of a warp: %.2f us\n", 1e6 * barrier,
               1e6 * shuffle);
    }
    ck_assert_double_lt(barrier, SIMT_ASAN ? 3e-3 : 3e-4); // 2 us; portable 6 us
    ck_assert_double_lt(shuffle, SIMT_ASAN ? 1e-3 : 1e-4); // 1 us; portable 2 us
}
END_TEST

int main(void) {
    Suite *suite = suite_create(SUITE);
    TCase *tests = tcase_create("fibers");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, fibers_keep_their_registers_and_locals);
    tcase_add_test(tests, stacks_have_their_size_and_a_guard);
    tcase_add_loop_test(tests, threads_run_in_the_order_asked_for, 0, SIMT_TEST_SIMT_PLACES);
    tcase_add_loop_test(tests, barriers_and_shuffles_sum, 0, SIMT_TEST_SIMT_PLACES);
    tcase_add_test(tests, launches_are_abandoned_and_the_next_works);
    tcase_add_test(tests, switches_are_cheap);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
