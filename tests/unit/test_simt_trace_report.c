// What is told of traced launches: lines, the table, CSV, and which launches are kept.
#include "tests/unit/capture.h"
#include "tests/unit/simt_places.h"
#include "tests/unit/simt_trace_cases.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static TraceProbe probe;
static TraceProbeRun *const copy[] = GPU_BUILDS(trace_copy);
static TraceProbeRun *const columns[] = GPU_BUILDS(trace_columns);

// Runs a probe, traced; n, stride and shift are set before.
static void run(TraceProbeRun *const *builds, unsigned grid, unsigned block) {
    ck_assert_msg(builds[GPU_TRACE](&probe, grid, block, 0) == ATTN_OK, "%s", attn_last_error());
}

START_TEST(lines) {
    if (!trace_begin(SIMT_FORWARD, &probe)) {
        return;
    }
    run(columns, 1, 32);
    const SimtLaunchTrace *trace = simt_trace_launch(0);
    ck_assert_int_eq(simt_trace_launches(), 1);
    ck_assert_str_eq(trace->kernel, "trace_columns_kernel");
    ck_assert_str_eq(trace->line[0].file, "simt_trace_probe.cu");
    ck_assert_int_eq(trace->line[0].line, trace_line("simt_trace_probe.cu", "column"));
    ck_assert_uint_eq(trace->line[0].shared.load_wavefronts, 32 * 32);
    ck_assert_uint_eq(trace->line[0].shared.load_requests, 32);
    ck_assert_ptr_null(simt_trace_launch(1));
    ck_assert_ptr_null(simt_trace_launch(-1));
}
END_TEST

static char *report(void (*print)(FILE *out)) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    print(out);
    fclose(out);
    return text;
}

START_TEST(table) {
    if (!trace_begin(SIMT_FORWARD, &probe)) {
        return;
    }
    probe.n = 1024;
    run(copy, 8, 128);
    run(columns, 1, 32);
    char *text = report(simt_trace_print);
    ck_assert_msg(longest_line(text) <= 80, "%d columns:\n%s", longest_line(text), text);
    static const char *const parts[] = {"trace_copy_kernel",
                                        "trace_columns_kernel",
                                        "x ",
                                        "y ",
                                        "asked",
                                        "block-unique",
                                        "launch-unique",
                                        "sectors",
                                        "model",
                                        "simt_trace_probe.cu:",
                                        "1,024",
                                        "992 conflicts"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        ck_assert_msg(strstr(text, parts[i]) != NULL, "no \"%s\" in:\n%s", parts[i], text);
    }
    free(text);
}
END_TEST

START_TEST(csv) {
    if (!trace_begin(SIMT_FORWARD, &probe)) {
        return;
    }
    probe.n = 1024;
    run(copy, 8, 128);
    float *again = simt_test_array(GPU_TRACE, "a, \"b\"", TRACE_FLOATS, sizeof(float), NULL);
    probe.y = again;
    run(copy, 8, 128);
    char *text = report(simt_trace_csv);
    int rows = 0, columns_of_heading = 0;
    for (char *row = text, *end; (end = strchr(row, '\n')) != NULL; row = end + 1, rows++) {
        int count = 1;
        bool quoted = false;
        for (const char *at = row; at < end; at++) {
            quoted = quoted != (*at == '"');
            count += *at == ',' && !quoted;
        }
        columns_of_heading = rows == 0 ? count : columns_of_heading;
        ck_assert_msg(count == columns_of_heading && !quoted, "%.*s", (int)(end - row), row);
    }
    // Heading; for each launch two buffers, shared memory and one line.
    ck_assert_int_eq(rows, 1 + 2 * (2 + 1 + 1));
    ck_assert_ptr_nonnull(strstr(text, "\"a, \"\"b\"\"\""));
    ck_assert_ptr_nonnull(
        strstr(text, "1,trace_copy_kernel,8,1,1,128,1,1,buffer,x,0,32,128,0,0,0,0,4096,0,4096,0,"
                     "4096,0,0,0,0,0,0,0\n"));
    free(text);
}
END_TEST

// Two buffers of one name are one row; what is not traced, or was abandoned, is not kept.
START_TEST(launches) {
    if (!trace_begin(SIMT_FORWARD, &probe)) {
        return;
    }
    probe.n = 1024;
    float *more = simt_test_array(GPU_TRACE, "x", TRACE_FLOATS, sizeof(float), NULL);
    probe.y = more;
    run(copy, 8, 128);
    const SimtLaunchTrace *trace = simt_trace_launch(0);
    ck_assert_int_eq(trace->buffers, 1);
    ck_assert_uint_eq(trace->buffer[0].bytes, 2 * TRACE_FLOATS * sizeof(float));
    ck_assert_uint_eq(trace->buffer[0].counts.load_requests, 32);
    ck_assert_uint_eq(trace->buffer[0].counts.store_requests, 32);
    ck_assert_uint_eq(trace->grid[0], 8);
    ck_assert_uint_eq(trace->block[0], 128);

    ck_assert_int_eq(copy[GPU_SIMT](&probe, 8, 128, 0), ATTN_OK);
    ck_assert_int_eq(simt_trace_launches(), 1);
    probe.shift = TRACE_FLOATS; // out of bounds
    ck_assert_int_ne(copy[GPU_TRACE](&probe, 8, 128, 0), ATTN_OK);
    ck_assert_int_eq(simt_trace_launches(), 1);
    probe.shift = 0;
    run(copy, 8, 128); // nothing of the abandoned one is left
    ck_assert_int_eq(simt_trace_launches(), 2);
    ck_assert_uint_eq(simt_trace_launch(1)->total.load_requests, 32);
    ck_assert_uint_eq(simt_trace_sum("").load_requests, 64);
    simt_trace_reset();
    ck_assert_int_eq(simt_trace_launches(), 0);
    ck_assert_uint_eq(simt_trace_sum("").load_requests, 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("simt_trace_report");
    TCase *tcase = tcase_create("report");
    tcase_set_timeout(tcase, 60);
    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, lines);
    tcase_add_test(tcase, table);
    tcase_add_test(tcase, csv);
    tcase_add_test(tcase, launches);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
