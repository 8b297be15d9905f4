// What the lesson programs share: a right kernel passes, a wrong one fails, a bad call ends them.
#include "common/lesson.h"

#include "common/model.h"
#include "common/reference.h"
#include "common/simt/runtime.h"
#include "tests/unit/capture.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const Program program = {.name = "ch99", .title = "a test", .summary = "nothing"};

// How the stand-in kernel below behaves.
typedef enum Behaviour {
    RIGHT,
    WRONG_ELEMENT,
    WRITES_NOTHING,
    WRITES_OUTSIDE,
    NUMBER_FOR_NAN,
    FAILS
} Behaviour;

// The oracle as a kernel, with one fault at most.
static AttnStatus stand_in(void *context, const AttnShape *shape, const float *q, const float *k,
                           const float *v, float *o, float *lse) {
    const Behaviour behaviour = *(const Behaviour *)context;
    if (behaviour == FAILS) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "dim %lld: no", (long long)shape->dim);
    }
    if (behaviour == WRITES_NOTHING) {
        return ATTN_OK;
    }
    const size_t count = attn_count_q(shape), rows = attn_count_lse(shape);
    double *o_wide = calloc(count, sizeof(*o_wide));
    double *lse_wide = calloc(rows, sizeof(*lse_wide));
    ck_assert(o_wide != NULL && lse_wide != NULL);
    const ReferenceForward out = {.o = o_wide, .lse = lse_wide};
    const AttnStatus status = reference_forward(shape, q, k, v, &out);
    for (size_t e = 0; e < count; e++) {
        o[e] = (float)o_wide[e];
    }
    for (size_t e = 0; e < rows; e++) {
        lse[e] = (float)lse_wide[e];
    }
    free(o_wide);
    free(lse_wide);
    if (behaviour == WRONG_ELEMENT) {
        o[count - 2] += 0.5F;
    }
    if (behaviour == NUMBER_FOR_NAN) {
        o[0] = 0.5F;
    }
    if (behaviour == WRITES_OUTSIDE) {
        volatile float *past = o;
        past[count] = 0.0F; // a guard word, inside the allocation
    }
    return status;
}

static const AttnShape small = {1, 2, 1, 5, 7, 8, 0, true, 0, NULL};

static bool check_passes(Behaviour behaviour, DType dtype) {
    Problem problem;
    LessonCheck check;
    ck_assert_int_eq(problem_random(&problem, &small, dtype, 3), ATTN_OK);
    ck_assert_int_eq(lesson_check(stand_in, &behaviour, &problem, 0, &check), ATTN_OK);
    ck_assert_uint_eq(check.o.checked, attn_count_q(&small));
    ck_assert_uint_eq(check.lse.checked, attn_count_lse(&small));
    ck_assert(check.passed == (check.o.message[0] == '\0' && check.lse.message[0] == '\0'));
    problem_free(&problem);
    return check.passed;
}

START_TEST(check_tells_right_from_wrong) {
    ck_assert(check_passes(RIGHT, DTYPE_F32));
    ck_assert(check_passes(RIGHT, DTYPE_F16));
    ck_assert(check_passes(RIGHT, DTYPE_BF16));
    ck_assert(!check_passes(WRONG_ELEMENT, DTYPE_F32));
    ck_assert(!check_passes(WRITES_NOTHING, DTYPE_F32));
    ck_assert(!check_passes(WRITES_OUTSIDE, DTYPE_F32));
}
END_TEST

// Checks a problem whose first query has a NaN in row 0 and whose V has an infinity in the last
// column of key 1, with an output to be written by `behaviour`.
static LessonCheck check_with_nans(Behaviour behaviour, DType dtype) {
    const AttnShape shape = {1, 1, 1, 3, 4, 8, 0, false, 0, NULL};
    Problem problem;
    LessonCheck check;
    ck_assert_int_eq(problem_random(&problem, &shape, dtype, 3), ATTN_OK);
    ((float *)problem.q.data)[2] = NAN;
    ((float *)problem.v.data)[15] = INFINITY;
    ck_assert_int_eq(lesson_check(stand_in, &behaviour, &problem, 0, &check), ATTN_OK);
    if (behaviour == RIGHT) { // the outputs are left as the kernel wrote them
        ck_assert_int_eq(isnan(((float *)problem.o.data)[0]), 1);
        ck_assert_int_eq(isnan(((float *)problem.lse.data)[0]), 1);
    }
    problem_free(&problem);
    return check;
}

START_TEST(nans_that_the_inputs_require_are_right) {
    LessonCheck check = check_with_nans(RIGHT, DTYPE_F32);
    ck_assert(check.passed);
    ck_assert_uint_eq(check.required_nans, 8 + 1); // row 0 of O, and its LSE
    ck_assert(check_with_nans(RIGHT, DTYPE_BF16).passed);
    check = check_with_nans(NUMBER_FOR_NAN, DTYPE_F32);
    ck_assert(!check.passed);
    ck_assert_uint_eq(check.o.failed, 1);
    ck_assert_uint_eq(check.required_nans, 7 + 1);
    ck_assert_ptr_nonnull(strstr(check.o.message, "expected NaN"));
    // NaN everywhere: right in row 0 alone.
    check = check_with_nans(WRITES_NOTHING, DTYPE_F32);
    ck_assert(!check.passed);
    ck_assert_uint_eq(check.o.failed, 2 * 8);
    ck_assert_uint_eq(check.lse.failed, 2);
    ck_assert(!check_with_nans(WRONG_ELEMENT, DTYPE_F32).passed);
}
END_TEST

// A failing check's line is wrapped, and the NaNs that are right are counted in words.
static void print_check(void *context) {
    LessonCheck check = check_with_nans(*(const Behaviour *)context, DTYPE_F32);
    Table table;
    table_begin(&table, LESSON_CHECK_HEADINGS);
    lesson_check_row(&table, "causal, T=9 S=5 (empty rows)", &check);
    table_print(&table);
}

START_TEST(a_check_is_told_within_80_columns) {
    Behaviour behaviour = NUMBER_FOR_NAN;
    Captured captured = capture(print_check, &behaviour);
    ck_assert_int_eq(captured.status, 0);
    ck_assert_int_le(longest_line(captured.out), 80);
    ck_assert_ptr_nonnull(strstr(captured.out, "FAILED"));
    captured_free(&captured);
    behaviour = RIGHT;
    captured = capture(print_check, &behaviour);
    ck_assert_ptr_nonnull(strstr(captured.out, "9 elements NaN, as the inputs require."));
    ck_assert_ptr_null(strstr(captured.out, "FAILED"));
    captured_free(&captured);
}
END_TEST

START_TEST(errors_are_returned) {
    Problem problem;
    LessonCheck check;
    LessonTiming timing;
    Behaviour behaviour = FAILS;
    ck_assert_int_eq(problem_random(&problem, &small, DTYPE_F32, 3), ATTN_OK);
    ck_assert_int_eq(lesson_check(stand_in, &behaviour, &problem, 0, &check), ATTN_ERR_UNSUPPORTED);
    ck_assert(!check.passed);
    problem_free(&problem);
    ck_assert_int_eq(lesson_time(stand_in, &behaviour, &small, DTYPE_F32, 1, 2, &timing),
                     ATTN_ERR_UNSUPPORTED);
    ck_assert_str_eq(attn_last_error(), "dim 8: no");
}
END_TEST

START_TEST(timing_checks_the_last_run) {
    LessonTiming timing;
    Behaviour behaviour = RIGHT;
    ck_assert_int_eq(lesson_time(stand_in, &behaviour, &small, DTYPE_F32, 1, 4, &timing), ATTN_OK);
    ck_assert_int_eq(timing.seconds.runs, 4);
    ck_assert(timing.seconds.median > 0);
    ck_assert(timing.last.passed);
    behaviour = WRONG_ELEMENT;
    ck_assert_int_eq(lesson_time(stand_in, &behaviour, &small, DTYPE_F32, 1, 4, &timing), ATTN_OK);
    ck_assert(!timing.last.passed);
}
END_TEST

START_TEST(flops_count_visible_keys) {
    AttnShape shape = {2, 6, 2, 40, 70, 16, 0, false, 0, NULL};
    ck_assert_double_eq(lesson_flops(&shape), 12 * attention_flops(40, 70, 16));
    shape.len_q = shape.len_kv = 10;
    shape.causal = true;
    ck_assert_double_eq(lesson_flops(&shape), 12.0 * 4 * 16 * 55);
    shape.window = 1;
    ck_assert_double_eq(lesson_flops(&shape), 12.0 * 4 * 16 * 10);
}
END_TEST

START_TEST(time_text) {
    char text[64];
    const TimeStats milli = {.median = 0.01234, .p10 = 0.0121, .p90 = 0.0129};
    const TimeStats second = {.median = 1.5, .p10 = 1.25, .p90 = 2};
    const TimeStats micro = {.median = 250e-6, .p10 = 249e-6, .p90 = 1300e-6};
    ck_assert_str_eq(lesson_time_text(text, &milli), "12.3 ms [12.1, 12.9]");
    ck_assert_str_eq(lesson_time_text(text, &second), "1.50 s [1.25, 2.00]");
    ck_assert_str_eq(lesson_time_text(text, &micro), "250 us [249, 1300]");
}
END_TEST

START_TEST(csv_is_written_where_asked) {
    LessonCsv csv;
    Options options = {0};
    ck_assert_int_eq(lesson_csv_open(&csv, &options, "a,b"), ATTN_OK);
    ck_assert_ptr_null(csv.file);
    csv_row(csv.file, "1,2");
    ck_assert_int_eq(lesson_csv_finish(&csv, &program, "none.gp", &options), ATTN_OK);

    char path[] = "/tmp/test-lesson-XXXXXX", line[16] = "";
    const int descriptor = mkstemp(path);
    ck_assert_int_ge(descriptor, 0);
    options.csv = path;
    ck_assert_int_eq(lesson_csv_open(&csv, &options, "a,b"), ATTN_OK);
    csv_row(csv.file, "1,2");
    ck_assert_int_eq(lesson_csv_finish(&csv, &program, "none.gp", &options), ATTN_OK);
    ck_assert_int_eq(read(descriptor, line, sizeof(line) - 1), 8);
    ck_assert_str_eq(line, "a,b\n1,2\n");
    close(descriptor);
    unlink(path);

    options = (Options){.plot = PLOT_TERM};
    ck_assert_int_eq(lesson_csv_open(&csv, &options, "a,b"), ATTN_OK);
    ck_assert(csv.temporary);
    ck_assert_int_eq(access(csv.path, F_OK), 0);
    options.plot = PLOT_NONE;
    ck_assert_int_eq(lesson_csv_finish(&csv, &program, "none.gp", &options), ATTN_OK);
    ck_assert_int_ne(access(csv.path, F_OK), 0);

    options = (Options){.csv = "/no/such/folder/file.csv"};
    ck_assert_int_eq(lesson_csv_open(&csv, &options, "a,b"), ATTN_ERR_IO);
}
END_TEST

START_TEST(an_error_ends_the_program) {
    lesson_require(&program, ATTN_OK);
    lesson_require(&program, attn_fail(ATTN_ERR_SHAPE, "expected in this test"));
}
END_TEST

START_TEST(simt_ends_a_cpu_chapter) {
    Options options = {.backend = BACKEND_CPU};
    lesson_require_cpu(&program, &options);
    options.backend = BACKEND_SIMT;
    lesson_require_cpu(&program, &options);
}
END_TEST

static void announce(void *context) {
    lesson_announce(&(Options){0}, *(const double *)context * LESSON_SCALAR_RATE);
}

static void assert_announced(double seconds, const char *text) {
    Captured captured = capture(announce, &seconds);
    ck_assert_str_eq(captured.out, text);
    captured_free(&captured);
}

START_TEST(long_runs_are_announced) {
    assert_announced(20, "");
    assert_announced(41, "  About 50 seconds at this size; a smaller --len is quicker.\n");
    assert_announced(290, "  About 5 minutes at this size; a smaller --len is quicker.\n");
    assert_announced(7e3, "  About 2 hours at this size; a smaller --len is quicker.\n");
}
END_TEST

START_TEST(a_script_that_is_not_there_ends_the_program) {
    Options options = {.plot = PLOT_NONE};
    lesson_require_script(&program, "no/such/plot.gp", &options);
    options.plot = PLOT_SVG;
    lesson_require_script(&program, "no/such/plot.gp", &options);
}
END_TEST

static void end_on_a_full_disk(void *context) {
    if (freopen("/dev/full", "w", stdout) == NULL) {
        exit(99);
    }
    report_section("A heading");
    exit(lesson_exit_status(context, true));
}

START_TEST(output_that_is_lost_is_a_failure) {
    ck_assert_int_eq(lesson_exit_status(&program, true), 0);
    ck_assert_int_eq(lesson_exit_status(&program, false), 1);
    Captured captured = capture(end_on_a_full_disk, (void *)&program);
    ck_assert_int_eq(captured.status, 1);
    ck_assert_int_eq(count_lines(captured.err), 1);
    ck_assert_int_eq(strncmp(captured.err, "ch99: the output could not be written", 37), 0);
    captured_free(&captured);
}
END_TEST

// What a program says of its backends, in a process in which nothing has been asked of CUDA, or in
// one in which "auto" has.
static void show_backend(void *context) {
    GpuTarget target;
    const Backend backend = *(const Backend *)context;
    if (gpu_choose(backend, &target) != ATTN_OK) {
        exit(3);
    }
    const bool asked = gpu_asked(GPU_CUDA);
    lesson_show_backend(&program, target);
    exit(gpu_asked(GPU_CUDA) == asked ? 0 : 4);
}

START_TEST(the_backends_are_told_apart) {
    const Backend backends[] = {BACKEND_SIMT, BACKEND_AUTO};
    for (int b = 0; b < 2; b++) {
        Captured captured = capture(show_backend, (void *)&backends[b]);
        ck_assert_int_eq(captured.status, 0);
        ck_assert_str_eq(captured.err, "");
        ck_assert_int_le(longest_line(captured.out), 80);
        ck_assert_ptr_nonnull(strstr(captured.out, "Backend\n"));
        ck_assert_ptr_nonnull(strstr(captured.out, "cpu: does not run"));
        const bool on_cuda = strstr(captured.out, "cuda: runs, on ") != NULL;
        ck_assert_int_eq(strstr(captured.out, "simt: runs: ") == NULL, on_cuda);
        if (!on_cuda) {
            const char *cuda = strstr(captured.out, "cuda: ");
            ck_assert_ptr_nonnull(cuda);
            const bool reason = strncmp(cuda, "cuda: does not run: ", 20) == 0;
            // Only "auto" looks for a device; without nvcc there is nothing to look for.
            ck_assert_int_eq(reason, backends[b] == BACKEND_AUTO || !GPU_HAVE_CUDA);
            ck_assert(reason ||
                      strncmp(cuda, "cuda: not asked for; ./ch99 --backend=cuda", 42) == 0);
        } else {
            ck_assert_int_eq(backends[b], BACKEND_AUTO);
            ck_assert_ptr_nonnull(strstr(captured.out, "./ch99 --backend=simt runs there."));
        }
        ck_assert_ptr_nonnull(strstr(captured.out, GPU_HAVE_TRACE ? "simt, traced: runs"
                                                                  : "simt, traced: does not run"));
        captured_free(&captured);
    }
}
END_TEST

static void show_unknown_device(void *context) {
    simt_settings()->device = "abacus";
    lesson_show_backend(context, GPU_SIMT);
}

START_TEST(an_unknown_device_ends_the_program) {
    Captured captured = capture(show_unknown_device, (void *)&program);
    ck_assert_int_eq(captured.status, 2);
    ck_assert_int_eq(count_lines(captured.err), 1);
    ck_assert_ptr_nonnull(strstr(captured.err, "ch99: SIMT_DEVICE=abacus: simt knows h200"));
    captured_free(&captured);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("lesson");
    TCase *tests = tcase_create("lesson");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, check_tells_right_from_wrong);
    tcase_add_test(tests, nans_that_the_inputs_require_are_right);
    tcase_add_test(tests, a_check_is_told_within_80_columns);
    tcase_add_test(tests, errors_are_returned);
    tcase_add_test(tests, timing_checks_the_last_run);
    tcase_add_test(tests, flops_count_visible_keys);
    tcase_add_test(tests, time_text);
    tcase_add_test(tests, csv_is_written_where_asked);
    tcase_add_exit_test(tests, an_error_ends_the_program, 2);
    tcase_add_test(tests, long_runs_are_announced);
    tcase_add_exit_test(tests, a_script_that_is_not_there_ends_the_program, 2);
    tcase_add_test(tests, output_that_is_lost_is_a_failure);
    tcase_add_exit_test(tests, simt_ends_a_cpu_chapter, 2);
    tcase_add_test(tests, the_backends_are_told_apart);
    tcase_add_test(tests, an_unknown_device_ends_the_program);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
