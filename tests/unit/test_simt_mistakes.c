// What the scheduler says about kernels that are wrong: each mistake, in every thread order, plain
// and traced, ends with a finding that names its kind, its line and its thread; the program goes
// on.
#include "tests/unit/simt_places.h"
#include "tests/unit/simt_probe.h"

#include "common/simt/fiber.h"
#include "common/timer.h"

#include <check.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum { N = 1000, THREADS = 64, CULPRIT = 37 };

static AttnStatus (*const probe[])(ProbeMistake, float *, int, int *, int, int, int,
                                   int) = GPU_BUILDS(probe_mistake);

static float *buffer;   // [N], zeros
static int *line_noted; // [256]

static void set_up(void) {
    const float zero[N] = {0};
    buffer = simt_test_array(GPU_SIMT, "data", N, sizeof(float), zero);
    line_noted = simt_test_array(GPU_SIMT, "line", 256, sizeof(int), NULL);
    simt_settings()->slice_s = 0.1;
    simt_settings()->timeout_s = 60;
    simt_settings()->workers = 1;
    simt_settings()->uninitialised_ok = true;
}

static const SimtFinding *provoke(int place, ProbeMistake mistake) {
    ck_assert(simt_test_begin(place));
    const AttnStatus status = probe[simt_test_places[place].target](mistake, buffer, N, line_noted,
                                                                    3, THREADS, 2, CULPRIT);
    ck_assert_msg(status == ATTN_ERR_CUDA, "mistake %d: %s", (int)mistake,
                  attn_status_name(status));
    return simt_finding();
}

static bool said(const char *text) {
    return strstr(attn_last_error(), text) != NULL;
}

static void check_place(const SimtPlace *at) {
    ck_assert_str_eq(at->file, "simt_probe_mistakes.cu");
    ck_assert_uint_eq(at->block[0], 2);
    ck_assert_uint_eq(at->block[1] + at->block[2] + at->thread[1] + at->thread[2], 0);
    ck_assert_msg(at->line == line_noted[at->thread[0]], "line %d, not %d: %s", at->line,
                  line_noted[at->thread[0]], attn_last_error());
}

// AddressSanitizer and UBSan, which come together, end the program themselves in some cases.
static bool is_sanitizers(int place, ProbeMistake mistake) {
    return SIMT_ASAN && simt_test_places[place].target == GPU_SIMT &&
           (mistake == MISTAKE_NULL || mistake == MISTAKE_WILD || mistake == MISTAKE_DIVIDE ||
            mistake == MISTAKE_MISALIGNED_VECTOR || mistake == MISTAKE_MEMCPY);
}

// The message names what the finding says, and the launch after it works.
static void check_finding(int place, ProbeMistake mistake, SimtFindingKind kind) {
    const SimtFinding *finding = provoke(place, mistake);
    char text[128];
    ck_assert_msg(finding->kind == kind, "mistake %d: %s", (int)mistake, attn_last_error());
    ck_assert_str_eq(finding->kernel, "mistake_kernel");
    check_place(&finding->here);
    snprintf(text, sizeof text,
             "mistake_kernel, simt_probe_mistakes.cu:%d, thread (%u, 0, 0) of "
             "block (2, 0, 0): %s: ",
             finding->here.line, finding->here.thread[0], simt_finding_name(kind));
    ck_assert_msg(said(text), "%s", attn_last_error());
    ck_assert(probe[simt_test_places[place].target](MISTAKE_NONE, buffer, N, line_noted, 3, THREADS,
                                                    0, 0) == ATTN_OK);
    ck_assert(simt_finding()->kind == SIMT_NOTHING);
}

static void check_culprit(int place, ProbeMistake mistake, SimtFindingKind kind, const char *text) {
    if (is_sanitizers(place, mistake)) {
        return;
    }
    const SimtFinding *finding = provoke(place, mistake);
    ck_assert_msg(finding->kind == kind && said(text), "mistake %d: %s", (int)mistake,
                  attn_last_error());
    ck_assert_uint_eq(finding->here.thread[0], CULPRIT);
    check_finding(place, mistake, kind);
}

// ---- barriers and masks -------------------------------------------------------------------------

START_TEST(divergent_barriers_name_both_places) {
    for (int mistake = MISTAKE_DIVERGENT_BARRIER; mistake <= MISTAKE_DIVERGENT_KIND; mistake++) {
        const SimtFinding *finding = provoke(_i, (ProbeMistake)mistake);
        check_place(&finding->before);
        ck_assert_int_ne(finding->before.line, finding->here.line);
        ck_assert((finding->before.thread[0] < THREADS / 2) !=
                  (finding->here.thread[0] < THREADS / 2));
        ck_assert(said(mistake == MISTAKE_DIVERGENT_KIND ? "__syncthreads_count"
                                                         : "every thread of a block"));
        check_finding(_i, (ProbeMistake)mistake, SIMT_DIVERGENT_BARRIER);
    }
}
END_TEST

START_TEST(missing_lanes_are_named_with_where_they_are) {
    const SimtFinding *finding = provoke(_i, MISTAKE_BARRIER_IN_BRANCH);
    ck_assert_uint_lt(finding->here.thread[0] % 32, 8);
    ck_assert_uint_ge(finding->before.thread[0] % 32, 8);
    check_place(&finding->before);
    ck_assert_msg(said("lanes 8-31 of warp") && said("__shfl_xor_sync") && said("__syncthreads"),
                  "%s", attn_last_error());
    check_finding(_i, MISTAKE_BARRIER_IN_BRANCH, SIMT_MISSING_LANE);

    provoke(_i, MISTAKE_OTHER_SHUFFLE);
    check_place(&finding->before);
    ck_assert_int_ne(finding->before.line, finding->here.line);
    ck_assert(said("lanes 0-15 of warp") || said("lanes 16-31 of warp"));
    check_finding(_i, MISTAKE_OTHER_SHUFFLE, SIMT_MISSING_LANE);
}
END_TEST

START_TEST(shuffles_from_no_lane) {
    provoke(_i, MISTAKE_SHUFFLE_FROM_ENDED);
    ck_assert_msg(said("lane 0 reads from lane 31 in __shfl_sync, and that lane has ended"), "%s",
                  attn_last_error());
    check_finding(_i, MISTAKE_SHUFFLE_FROM_ENDED, SIMT_MISSING_LANE);
    provoke(_i, MISTAKE_SHUFFLE_UNNAMED);
    ck_assert_msg(said("lane 0 reads from lane 20"), "%s", attn_last_error());
    check_finding(_i, MISTAKE_SHUFFLE_UNNAMED, SIMT_MISSING_LANE);
}
END_TEST

START_TEST(bad_masks) {
    provoke(_i, MISTAKE_MASKS_DISAGREE);
    ck_assert_msg(said("0xffffffff") && said("0xffff8000"), "%s", attn_last_error());
    check_finding(_i, MISTAKE_MASKS_DISAGREE, SIMT_BAD_MASK);
    const SimtFinding *finding = provoke(_i, MISTAKE_NOT_IN_MASK);
    ck_assert_uint_eq(finding->here.thread[0] % 32, CULPRIT % 32);
    ck_assert_msg(said("0xffffffdf") && said("lane 5"), "%s", attn_last_error());
    check_finding(_i, MISTAKE_NOT_IN_MASK, SIMT_BAD_MASK);
    provoke(_i, MISTAKE_WIDTH);
    ck_assert_msg(said("width 12"), "%s", attn_last_error());
    check_finding(_i, MISTAKE_WIDTH, SIMT_BAD_MASK);
}
END_TEST

// ---- addresses and signals ----------------------------------------------------------------------

START_TEST(addresses_outside_buffers) {
    const SimtFinding *finding = simt_finding();
    check_culprit(_i, MISTAKE_PAST_END, SIMT_OUT_OF_BOUNDS, "\"data\"");
    provoke(_i, MISTAKE_PAST_END);
    ck_assert_str_eq(finding->buffer, "data");
    ck_assert_int_eq(finding->offset, 4096);
    ck_assert(finding->here.write && said("writes") && said("4000 bytes"));
    check_culprit(_i, MISTAKE_BEFORE_START, SIMT_OUT_OF_BOUNDS, "reads");
    provoke(_i, MISTAKE_BEFORE_START);
    ck_assert_int_eq(finding->offset, -65536);
    check_culprit(_i, MISTAKE_DYNAMIC, SIMT_OUT_OF_BOUNDS, "dynamic shared memory");
    provoke(_i, MISTAKE_DYNAMIC);
    ck_assert_int_eq(finding->offset, 128);
    check_culprit(_i, MISTAKE_MEMCPY, SIMT_OUT_OF_BOUNDS, "\"data\"");
    check_culprit(_i, MISTAKE_MISALIGNED_ATOMIC, SIMT_MISALIGNED, "offset 2 of \"data\"");
    check_culprit(_i, MISTAKE_MISALIGNED_VECTOR, SIMT_MISALIGNED, "multiple of");
}
END_TEST

START_TEST(bad_pointers_and_traps) {
    check_culprit(_i, MISTAKE_NULL, SIMT_CRASH, "a null pointer");
    check_culprit(_i, MISTAKE_WILD, SIMT_CRASH, "0x123456789abc");
    check_culprit(_i, MISTAKE_DIVIDE, SIMT_CRASH, "divided by zero");
    check_culprit(_i, MISTAKE_TRAP, SIMT_CRASH, "trap");
}
END_TEST

START_TEST(a_stack_that_is_full) {
    const SimtFinding *finding = provoke(_i, MISTAKE_DEEP);
    ck_assert_int_eq(finding->kind, SIMT_CRASH);
    ck_assert_uint_eq(finding->here.thread[0], CULPRIT);
    ck_assert_str_eq(finding->here.file, "simt_probe_mistakes.cu");
    ck_assert_msg(said("stack overflow"), "%s", attn_last_error());
}
END_TEST

// ---- time ---------------------------------------------------------------------------------------

START_TEST(endless_loops_end) {
    const double start = timer_now();
    check_culprit(_i, MISTAKE_ENDLESS, SIMT_TIMEOUT, "has run for 0.1 s");
    simt_settings()->timeout_s = 0.3;
    const SimtFinding *finding = provoke(_i, MISTAKE_ENDLESS_BARRIERS);
    ck_assert_int_eq(finding->kind, SIMT_TIMEOUT);
    ck_assert_str_eq(finding->here.file, "simt_probe_mistakes.cu");
    ck_assert_int_eq(finding->here.line, line_noted[0]);
    ck_assert_msg(said("longer than 0.3 s"), "%s", attn_last_error());
    ck_assert_double_lt(timer_now() - start, 20); // about 1 s on an idle machine
}
END_TEST

// ---- workers ------------------------------------------------------------------------------------

START_TEST(findings_of_workers_come_back) {
    static const struct {
        ProbeMistake mistake;
        SimtFindingKind kind;
    } cases[] = {{MISTAKE_DIVERGENT_BARRIER, SIMT_DIVERGENT_BARRIER},
                 {MISTAKE_PAST_END, SIMT_OUT_OF_BOUNDS},
                 {MISTAKE_ENDLESS, SIMT_TIMEOUT},
                 {MISTAKE_DEEP, SIMT_CRASH}};
    simt_settings()->workers = 3;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert(probe_mistake_simt(cases[i].mistake, buffer, N, line_noted, 120, THREADS, 77,
                                     CULPRIT) == ATTN_ERR_CUDA);
        const SimtFinding *finding = simt_finding();
        ck_assert_msg(finding->kind == cases[i].kind, "%s", attn_last_error());
        ck_assert_uint_eq(finding->here.block[0], 77);
        ck_assert_str_eq(finding->here.file, "simt_probe_mistakes.cu");
        ck_assert(said("block (77, 0, 0)") && said(simt_finding_name(cases[i].kind)));
    }
}
END_TEST

START_TEST(a_worker_that_dies_is_a_crash) {
    simt_settings()->workers = 3;
    ck_assert(probe_mistake_simt(MISTAKE_EXIT, buffer, N, line_noted, 400, THREADS, 100, CULPRIT) ==
              ATTN_ERR_CUDA);
    ck_assert_int_eq(simt_finding()->kind, SIMT_CRASH);
    ck_assert_uint_ge(simt_finding()->here.block[0], 100);
    ck_assert_msg(said("status 3"), "%s", attn_last_error());
}
END_TEST

// ---- the program around it ----------------------------------------------------------------------

static sigjmp_buf back;
static void jump_back(int signal) {
    siglongjmp(back, signal);
}

START_TEST(handlers_and_timers_are_put_back) {
    const struct itimerval timer = {{7, 0}, {5000, 0}};
    struct itimerval timer_now_set;
    struct sigaction action;
    ck_assert(signal(SIGSEGV, jump_back) != SIG_ERR);
    ck_assert(signal(SIGVTALRM, SIG_IGN) != SIG_ERR);
    ck_assert_int_eq(setitimer(ITIMER_VIRTUAL, &timer, NULL), 0);
    check_finding(0, MISTAKE_BEFORE_START, SIMT_OUT_OF_BOUNDS);
    ck_assert_int_eq(sigaction(SIGSEGV, NULL, &action), 0);
    ck_assert(action.sa_handler == jump_back);
    ck_assert_int_eq(sigaction(SIGVTALRM, NULL, &action), 0);
    ck_assert(action.sa_handler == SIG_IGN);
    ck_assert_int_eq(getitimer(ITIMER_VIRTUAL, &timer_now_set), 0);
    ck_assert_int_eq(timer_now_set.it_interval.tv_sec, 7);
    ck_assert_int_gt(timer_now_set.it_value.tv_sec, 4000);
    // The host's own fault is the host's own.
    if (sigsetjmp(back, 1) == 0) {
        ((volatile float *)buffer)[-8192] = 1;
        ck_abort_msg("the gap before a buffer could be written");
    }
}
END_TEST

START_TEST(every_kind_has_a_name) {
    for (int kind = SIMT_NOTHING; kind <= SIMT_CRASH; kind++) {
        ck_assert_str_ne(simt_finding_name((SimtFindingKind)kind), "unknown");
        for (int other = SIMT_NOTHING; other < kind; other++) {
            ck_assert_str_ne(simt_finding_name((SimtFindingKind)kind),
                             simt_finding_name((SimtFindingKind)other));
        }
    }
    ck_assert_str_eq(simt_finding_name((SimtFindingKind)99), "unknown");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("simt_mistakes");
    TCase *tests = tcase_create("mistakes");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_loop_test(tests, divergent_barriers_name_both_places, 0, SIMT_TEST_SIMT_PLACES);
    tcase_add_loop_test(tests, missing_lanes_are_named_with_where_they_are, 0,
                        SIMT_TEST_SIMT_PLACES);
    tcase_add_loop_test(tests, shuffles_from_no_lane, 0, SIMT_TEST_SIMT_PLACES);
    tcase_add_loop_test(tests, bad_masks, 0, SIMT_TEST_SIMT_PLACES);
    tcase_add_loop_test(tests, addresses_outside_buffers, 0, SIMT_TEST_SIMT_PLACES);
    tcase_add_loop_test(tests, bad_pointers_and_traps, 0, SIMT_TEST_SIMT_PLACES);
    tcase_add_loop_test(tests, a_stack_that_is_full, 0, SIMT_TEST_SIMT_PLACES);
    tcase_add_loop_test(tests, endless_loops_end, 0, SIMT_TEST_SIMT_PLACES);
    tcase_add_test(tests, findings_of_workers_come_back);
    tcase_add_test(tests, a_worker_that_dies_is_a_crash);
    tcase_add_test(tests, handlers_and_timers_are_put_back);
    tcase_add_test(tests, every_kind_has_a_name);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
