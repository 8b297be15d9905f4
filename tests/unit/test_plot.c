// Tests of common/plot.c, with stand-ins for gnuplot, and with gnuplot itself where it is
// installed.
#include "common/plot.h"

#include "tests/unit/capture.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

static char folder[64];

static void enter(void) {
    enter_folder(folder);
}

static void leave(void) {
    remove_folder(folder);
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

// Puts a shell script named gnuplot into ./bin and makes PATH an absent folder, then ./bin.
static void stand_in(const char *script) {
    char path[256], text[1024];
    mkdir("bin", 0777);
    snprintf(text, sizeof text, "#!/bin/sh\n%s\n", script);
    write_file("bin/gnuplot", text);
    ck_assert_int_eq(chmod("bin/gnuplot", 0755), 0);
    snprintf(path, sizeof path, "/nonexistent:%s/bin", folder);
    setenv("PATH", path, 1);
}

typedef struct PlotCall {
    const char *csv;
    PlotKind kind;
} PlotCall;

// Runs plot_run, then prints its status and message.
static void call(void *context) {
    const PlotCall *plot = context;
    AttnStatus status = plot_run("ch01", "plot.gp", plot->csv, plot->kind);
    printf("%s\n", attn_status_name(status));
    if (status != ATTN_OK) {
        printf("%s\n", attn_last_error());
    }
}

static void assert_plot(const char *csv, PlotKind kind, const char *expected) {
    PlotCall plot = {csv, kind};
    Captured captured = capture(call, &plot);
    ck_assert_int_eq(captured.status, 0);
    ck_assert_str_eq(captured.err, "");
    ck_assert_str_eq(captured.out, expected);
    captured_free(&captured);
}

START_TEST(no_plot_starts_nothing) {
    stand_in("echo started");
    assert_plot("a.csv", PLOT_NONE, "ATTN_OK\n");
}
END_TEST

START_TEST(without_gnuplot_the_package_is_named) {
    const char *expected = "plot: gnuplot is not installed (Debian/Ubuntu: sudo apt-get install "
                           "gnuplot-nox)\nATTN_OK\n";
    setenv("PATH", "/nonexistent", 1);
    assert_plot("a.csv", PLOT_SVG, expected);
    setenv("PATH", "", 1);
    assert_plot("a.csv", PLOT_TERM, expected);
    unsetenv("PATH");
    assert_plot("a.csv", PLOT_TERM, expected);
    ck_assert_int_ne(access("build", F_OK), 0);
}
END_TEST

START_TEST(what_cannot_be_run_is_not_gnuplot) {
    stand_in("echo started");
    ck_assert_int_eq(remove("bin/gnuplot"), 0);
    ck_assert_int_eq(mkdir("bin/gnuplot", 0777), 0); // a folder passes access(X_OK)
    Captured captured = capture(call, &(PlotCall){"a.csv", PLOT_TERM});
    ck_assert_ptr_nonnull(strstr(captured.out, "not installed"));
    captured_free(&captured);
}
END_TEST

START_TEST(gnuplot_gets_its_variables_and_the_script) {
    stand_in("printf '<%s>\\n' \"$@\"");
    assert_plot("out/a b.csv", PLOT_TERM,
                "<-e>\n<csv='out/a b.csv'; kind='term'; out='build/plots/ch01'; >\n<plot.gp>\n"
                "ATTN_OK\n");
}
END_TEST

START_TEST(quotes_are_doubled) {
    stand_in("printf '%s\\n' \"$2\"");
    assert_plot("it's'; system('x'); '", PLOT_TERM,
                "csv='it''s''; system(''x''); '''; kind='term'; out='build/plots/ch01'; \n"
                "ATTN_OK\n");
}
END_TEST

START_TEST(paths_that_gnuplot_cannot_take) {
    stand_in("echo started");
    Captured captured = capture(call, &(PlotCall){"a\nb.csv", PLOT_TERM});
    ck_assert_ptr_nonnull(strstr(captured.out, "ATTN_ERR_ARGUMENT"));
    ck_assert_ptr_null(strstr(captured.out, "started"));
    captured_free(&captured);
    for (size_t length = 4060; length < 4120; length += 3) { // around the longest that fits
        char *path = malloc(length + 1);
        memset(path, length % 2 == 0 ? '\'' : 'a', length);
        path[length] = '\0';
        captured = capture(call, &(PlotCall){path, PLOT_TERM});
        ck_assert_int_eq(captured.status, 0);
        ck_assert_ptr_nonnull(strstr(captured.out, "ATTN_"));
        captured_free(&captured);
        free(path);
    }
}
END_TEST

START_TEST(pictures_are_named) {
    stand_in("for f in time bytes; do echo x > build/plots/ch01-$f.svg; done\n"
             "echo x > build/plots/ch01-time.png; echo x > build/plots/ch02-time.svg\n"
             "echo x > build/plots/ch010.svg; echo x > build/plots/ch01-svg");
    assert_plot("a.csv", PLOT_SVG,
                "plot: build/plots/ch01-bytes.svg\nplot: build/plots/ch01-time.svg\nATTN_OK\n");
}
END_TEST

START_TEST(older_pictures_are_not_named) {
    stand_in("echo x > build/plots/ch01-now.png");
    mkdir("build", 0777);
    mkdir("build/plots", 0777);
    write_file("build/plots/ch01-before.png", "x");
    time_t old = time(NULL) - 60;
    ck_assert_int_eq(utime("build/plots/ch01-before.png", &(struct utimbuf){old, old}), 0);
    assert_plot("a.csv", PLOT_PNG, "plot: build/plots/ch01-now.png\nATTN_OK\n");
}
END_TEST

START_TEST(the_terminal_needs_no_folder) {
    stand_in("echo drawn");
    assert_plot("a.csv", PLOT_TERM, "drawn\nATTN_OK\n");
    ck_assert_int_ne(access("build", F_OK), 0);
}
END_TEST

START_TEST(a_folder_that_cannot_be_made) {
    stand_in("echo started");
    write_file("build", "a file");
    assert_plot("a.csv", PLOT_SVG,
                "ATTN_ERR_IO\nplot: build/plots: cannot be created: Not a directory\n");
}
END_TEST

START_TEST(failures_carry_the_last_message) {
    stand_in("echo 'plot x' >&2; echo '     ^' >&2; echo ' line 3: undefined' >&2; echo >&2; "
             "exit 1");
    assert_plot("a.csv", PLOT_TERM, "ATTN_ERR_IO\nplot: gnuplot failed: line 3: undefined\n");
    stand_in("exit 2");
    assert_plot("a.csv", PLOT_TERM, "ATTN_ERR_IO\nplot: gnuplot failed: it gave no reason\n");
    stand_in("kill -9 $$");
    assert_plot("a.csv", PLOT_TERM, "ATTN_ERR_IO\nplot: gnuplot failed: it gave no reason\n");
}
END_TEST

START_TEST(much_on_stderr_does_not_block) {
    stand_in("i=0; while [ $i -lt 20000 ]; do echo 'a warning, again and again' >&2; "
             "i=$((i + 1)); done");
    assert_plot("a.csv", PLOT_TERM, "ATTN_OK\n");
}
END_TEST

START_TEST(gnuplot_itself) {
    Captured found = capture_program((const char *[]){"/bin/sh", "-c", "command -v gnuplot", NULL});
    bool present = found.status == 0;
    captured_free(&found);
    if (!present) {
        return; // the stand-ins above have covered the program's own part
    }
    write_file("it's.csv", "1,1\n2,4\n3,9\n");
    write_file("plot.gp", "if (kind eq 'term') { set term dumb 79 20 } else {\n"
                          "  set term svg; set output out . '-squares.' . kind }\n"
                          "set datafile separator ','\nplot csv using 1:2 with points\n");
    Captured captured = capture(call, &(PlotCall){"it's.csv", PLOT_TERM});
    ck_assert_int_eq(captured.status, 0);
    ck_assert_str_eq(captured.err, "");
    ck_assert_ptr_nonnull(strstr(captured.out, "A"));
    ck_assert_ptr_nonnull(strstr(captured.out, "ATTN_OK"));
    ck_assert_int_ge(count_lines(captured.out), 20);
    ck_assert_int_le(longest_line(captured.out), 79);
    captured_free(&captured);
    assert_plot("it's.csv", PLOT_SVG, "plot: build/plots/ch01-squares.svg\nATTN_OK\n");
    write_file("plot.gp", "plot csv using nonsense(1)\n");
    captured = capture(call, &(PlotCall){"it's.csv", PLOT_TERM});
    ck_assert_ptr_nonnull(strstr(captured.out, "ATTN_ERR_IO\nplot: gnuplot failed: "));
    ck_assert_ptr_nonnull(strstr(captured.out, "line 1"));
    captured_free(&captured);
    ck_assert_int_eq(remove("plot.gp"), 0);
    captured = capture(call, &(PlotCall){"it's.csv", PLOT_TERM});
    ck_assert_ptr_nonnull(strstr(captured.out, "ATTN_ERR_IO\nplot: gnuplot failed: "));
    ck_assert_ptr_nonnull(strstr(captured.out, "plot.gp"));
    captured_free(&captured);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("plot");
    TCase *tests = tcase_create("plot");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, enter, leave);
    tcase_add_test(tests, no_plot_starts_nothing);
    tcase_add_test(tests, without_gnuplot_the_package_is_named);
    tcase_add_test(tests, what_cannot_be_run_is_not_gnuplot);
    tcase_add_test(tests, gnuplot_gets_its_variables_and_the_script);
    tcase_add_test(tests, quotes_are_doubled);
    tcase_add_test(tests, paths_that_gnuplot_cannot_take);
    tcase_add_test(tests, pictures_are_named);
    tcase_add_test(tests, older_pictures_are_not_named);
    tcase_add_test(tests, the_terminal_needs_no_folder);
    tcase_add_test(tests, a_folder_that_cannot_be_made);
    tcase_add_test(tests, failures_carry_the_last_message);
    tcase_add_test(tests, much_on_stderr_does_not_block);
    tcase_add_test(tests, gnuplot_itself);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
