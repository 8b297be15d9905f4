// Tests of common/report.c: numbers as text, the printed layout byte for byte, CSV files.
#include "common/report.h"

#include "tests/unit/capture.h"

#include <check.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct NumberCase {
    double value;
    const char *text;
} NumberCase;

START_TEST(iec) {
    const NumberCase cases[] = {
        {0, "0 B"},
        {96, "96 B"},
        {1023, "1023 B"},
        {1024, "1 KiB"},
        {1536, "1.5 KiB"},
        {134217728, "128 MiB"},
        {545259520, "520 MiB"},
        {1.5 * 1073741824, "1.5 GiB"},
        {1023.9 * 1024 * 1024, "1024 MiB"},
        {3e12, "2.728 TiB"},
        {ldexp(1, 50), "1 PiB"},
        {ldexp(1, 61), "2 EiB"},
        {NAN, "nan B"},
    };
    char text[32];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_str_eq(format_iec(text, cases[i].value), cases[i].text);
    }
}
END_TEST

START_TEST(si) {
    const struct {
        double value;
        const char *unit, *text;
    } cases[] = {
        {34359738368, "FLOP", "34.4 GFLOP"},
        {549755813888, "B", "549.8 GB"},
        {3.35e12, "B/s", "3.35 TB/s"},
        {12, "FLOP", "12 FLOP"},
        {0, "B", "0 B"},
        {0.25, "FLOP/byte", "0.25 FLOP/byte"},
        {999.94, "B", "999.9 B"},
        {999.96, "B", "1.00 kB"},
        {9.994e9, "FLOP/s", "9.99 GFLOP/s"},
        {9.996e9, "FLOP/s", "10.0 GFLOP/s"},
        {-2.5e6, "B", "-2.50 MB"},
        {1e21, "B", "1000.0 EB"},
    };
    char text[32];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_str_eq(format_si(text, cases[i].value, cases[i].unit), cases[i].text);
    }
}
END_TEST

START_TEST(count) {
    const NumberCase cases[] = {
        {0, "0"},
        {7, "7"},
        {999, "999"},
        {1000, "1,000"},
        {4096, "4,096"},
        {123456, "123,456"},
        {4294967295, "4,294,967,295"},
        {-4096, "-4,096"},
        {-0.2, "0"},
        {4095.6, "4,096"},
        {1e18, "1e+18"},
        {NAN, "nan"},
    };
    char text[32];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_str_eq(format_count(text, cases[i].value), cases[i].text);
    }
}
END_TEST

START_TEST(seconds) {
    const NumberCase cases[] = {
        {0.16411, "164 ms"},   {0.00125, "1.25 ms"}, {12.34e-6, "12.3 us"}, {950e-9, "950 ns"},
        {1.5, "1.50 s"},       {75, "75.0 s"},       {1234, "1234 s"},      {999.6e-6, "1.00 ms"},
        {0.009996, "10.0 ms"}, {0, "0.00 ns"},       {NAN, "nan s"},
    };
    char text[32];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_str_eq(format_seconds(text, cases[i].value), cases[i].text);
    }
}
END_TEST

// Checks what body prints on stdout, that stderr stays empty and that the child ends well.
static void assert_prints(void (*body)(void *context), const char *expected) {
    Captured captured = capture(body, NULL);
    ck_assert_int_eq(captured.status, 0);
    ck_assert_str_eq(captured.err, "");
    ck_assert_str_eq(captured.out, expected);
    captured_free(&captured);
}

static void print_title(void *context) {
    (void)context;
    report_title("ch01", "naive attention", "Three passes over a matrix.\nA second line.");
    report_section("Cards");
}

START_TEST(title_and_section) {
    assert_prints(print_title, "ch01  naive attention\n"
                               "  Three passes over a matrix.\n"
                               "  A second line.\n"
                               "\n"
                               "Cards\n");
}
END_TEST

static void print_paragraphs(void *context) {
    (void)context;
    report_text("This text has %d words and more than eighty columns, so that it must be broken.",
                16);
    report_text("%s",
                "12345678901234567890123456789012345678 12345678901234567890123456789012345678"
                "9");
    report_text("First.\nSecond.\n\nThird   %s", "word.");
}

START_TEST(text_wraps_at_80_columns) {
    assert_prints(print_paragraphs,
                  "  This text has 16 words and more than eighty columns, so that it must be\n"
                  "  broken.\n"
                  "  12345678901234567890123456789012345678 123456789012345678901234567890123456789"
                  "\n"
                  "  First.\n"
                  "  Second.\n"
                  "\n"
                  "  Third word.\n");
}
END_TEST

static void print_long_words(void *context) {
    (void)context;
    for (int i = 0; i < 40; i++) {
        report_text("%.*s", i * 7,
                    "a bc def ghij klmno pqrstu vwxyzab cdefghij klmnopqr stuvw x y "
                    "z a bc def ghij klmno pqrstu vwxyzab cdefghij klmnopqr stuvw x "
                    "y z a bc def ghij klmno pqrstu vwxyzab cdefghij klmnopqr stuvw");
    }
}

START_TEST(text_never_passes_80_columns) {
    Captured captured = capture(print_long_words, NULL);
    ck_assert_int_le(longest_line(captured.out), 80);
    ck_assert_int_gt(longest_line(captured.out), 70);
    ck_assert_ptr_null(strstr(captured.out, " \n"));
    captured_free(&captured);
}
END_TEST

static void print_cards(void *context) {
    (void)context;
    report_card("score matrix", "128 MiB", "N^2 elements x 2 B");
    report_card("arithmetic intensity", "4,096 FLOP/byte", "34.4 GFLOP / 8 MiB");
    report_card("unicode N²", "1 B", "N² B");
    report_card("no formula", "7", NULL);
    report_card("a name that is longer than its column is", "520 MiB", "formula");
    report_card("naive traffic", "520 MiB", "(4N^2 + 4Nd) x 2 B: a formula that takes two lines");
}

START_TEST(cards_are_aligned) {
    assert_prints(print_cards,
                  "  score matrix                  128 MiB   N^2 elements x 2 B\n"
                  "  arithmetic intensity  4,096 FLOP/byte   34.4 GFLOP / 8 MiB\n"
                  "  unicode N²                        1 B   N² B\n"
                  "  no formula                          7\n"
                  "  a name that is longer than its column is  520 MiB  formula\n"
                  "  naive traffic                 520 MiB   (4N^2 + 4Nd) x 2 B: a formula that\n"
                  "                                          takes two lines\n");
}
END_TEST

static void print_tables(void *context) {
    (void)context;
    static Table table;
    table_begin(&table, "N|time|GFLOP/s");
    table_row(&table, "%d|%s|%.1f", 1024, "1.25 ms", 10.24);
    table_row(&table, "%d|%s|%.1f", 16384, "320 ms", 9.5);
    table_row(&table, "none||%d", 3);
    table_row(&table, "only");
    table_print(&table);
    table_begin(&table, "case|N²");
    table_row(&table, "%s|x", "a cell that is longer than thirty-one bytes");
    table_print(&table);
}

START_TEST(tables_are_aligned) {
    assert_prints(print_tables, "  N         time  GFLOP/s\n"
                                "  1024   1.25 ms     10.2\n"
                                "  16384   320 ms      9.5\n"
                                "  none                  3\n"
                                "  only\n"
                                "  case                             N²\n"
                                "  a cell that is longer than thir   x\n");
}
END_TEST

static void fill_table(void *context) {
    static Table table;
    table_begin(&table, "a|b");
    for (int row = 1; row < *(int *)context; row++) {
        table_row(&table, "%d|x", row);
    }
    table_print(&table);
}

static void overfill_row(void *context) {
    static Table table;
    table_begin(&table, "a|b");
    table_row(&table, "1|2|%s", (char *)context);
}

START_TEST(tables_abort_beyond_their_capacity) {
    int rows = REPORT_MAX_ROWS;
    Captured captured = capture(fill_table, &rows);
    ck_assert_int_eq(captured.status, 0);
    ck_assert_int_eq(count_lines(captured.out), REPORT_MAX_ROWS);
    captured_free(&captured);
    rows++;
    captured = capture(fill_table, &rows);
    ck_assert_int_eq(captured.status, -SIGABRT);
    ck_assert_ptr_nonnull(strstr(captured.err, "too many rows"));
    captured_free(&captured);
    captured = capture(overfill_row, (void *)"3");
    ck_assert_int_eq(captured.status, -SIGABRT);
    ck_assert_ptr_nonnull(strstr(captured.err, "too many cells"));
    captured_free(&captured);
}
END_TEST

// ---- on a terminal ------------------------------------------------------------------------------

static void print_on_terminal(void) {
    report_section("Cards");
    report_progress("timing", 3, 10);
    report_progress("timing", 0, 0);
}

// False where the system gives no pseudo-terminals, as in a container without /dev/pts.
static bool has_terminals(void) {
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0) {
        return false;
    }
    close(master);
    return true;
}

// Runs print_on_terminal with stdout and stderr on a terminal; its output goes into `text`.
static void on_terminal(const char *no_color, const char *term, char *text, size_t bytes) {
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    ck_assert_int_ge(master, 0);
    ck_assert(grantpt(master) == 0 && unlockpt(master) == 0);
    int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    ck_assert_int_ge(terminal, 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(terminal, STDOUT_FILENO);
        dup2(terminal, STDERR_FILENO);
        setenv("TERM", term, 1);
        unsetenv("NO_COLOR");
        if (no_color != NULL) {
            setenv("NO_COLOR", no_color, 1);
        }
        print_on_terminal();
        fflush(NULL);
        _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ssize_t length = read(master, text, bytes - 1);
    ck_assert_int_gt((int)length, 0);
    text[length] = '\0';
    close(terminal);
    close(master);
}

START_TEST(bold_only_where_the_terminal_may_show_it) {
    char text[512];
    on_terminal(NULL, "xterm", text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "\033[1mCards\033[0m"));
    on_terminal("", "xterm", text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "\033[1mCards\033[0m"));
    on_terminal("1", "xterm", text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "Cards"));
    ck_assert_ptr_null(strstr(text, "\033[1m"));
    on_terminal(NULL, "dumb", text, sizeof text);
    ck_assert_ptr_null(strstr(text, "\033[1m"));
}
END_TEST

START_TEST(progress_on_a_terminal_is_cleared) {
    char text[512];
    on_terminal("1", "xterm", text, sizeof text);
    const char *line = strstr(text, "\r\033[K  timing: 3 of 10");
    ck_assert_ptr_nonnull(line);
    ck_assert_str_eq(line + strlen("\r\033[K  timing: 3 of 10"), "\r\033[K");
}
END_TEST

static void print_progress(void *context) {
    (void)context;
    report_progress("timing", 3, 10);
}

START_TEST(progress_elsewhere_is_silent) {
    assert_prints(print_progress, "");
}
END_TEST

// ---- CSV ----------------------------------------------------------------------------------------

START_TEST(csv_rows) {
    char folder[64];
    enter_folder(folder);
    FILE *file;
    ck_assert_int_eq(csv_open(&file, "out.csv", "n,seconds"), ATTN_OK);
    csv_row(file, "%d,%g", 1024, 0.25);
    csv_row(file, "%d,%g", 2048, 1.0);
    ck_assert_int_eq(csv_close(file), ATTN_OK);
    char text[128];
    file = fopen("out.csv", "r");
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    ck_assert_str_eq(text, "n,seconds\n1024,0.25\n2048,1\n");
    remove_folder(folder);
}
END_TEST

START_TEST(csv_without_a_path_does_nothing) {
    FILE *file = stdout;
    ck_assert_int_eq(csv_open(&file, NULL, "n"), ATTN_OK);
    ck_assert_ptr_null(file);
    csv_row(file, "%d", 1);
    ck_assert_int_eq(csv_close(file), ATTN_OK);
}
END_TEST

START_TEST(csv_errors) {
    FILE *file = stdout;
    ck_assert_int_eq(csv_open(&file, "/nonexistent/out.csv", "n"), ATTN_ERR_IO);
    ck_assert_ptr_null(file);
    ck_assert_str_eq(attn_last_error(),
                     "/nonexistent/out.csv: cannot be written: No such file or directory");
    if (access("/dev/full", W_OK) == 0) {
        ck_assert_int_eq(csv_open(&file, "/dev/full", "n"), ATTN_OK);
        csv_row(file, "%d", 1);
        ck_assert_int_eq(csv_close(file), ATTN_ERR_IO);
        ck_assert_ptr_nonnull(strstr(attn_last_error(), "No space left"));
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("report");
    TCase *tests = tcase_create("report");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, iec);
    tcase_add_test(tests, si);
    tcase_add_test(tests, count);
    tcase_add_test(tests, seconds);
    tcase_add_test(tests, title_and_section);
    tcase_add_test(tests, text_wraps_at_80_columns);
    tcase_add_test(tests, text_never_passes_80_columns);
    tcase_add_test(tests, cards_are_aligned);
    tcase_add_test(tests, tables_are_aligned);
    tcase_add_test(tests, tables_abort_beyond_their_capacity);
    if (has_terminals()) {
        tcase_add_test(tests, bold_only_where_the_terminal_may_show_it);
        tcase_add_test(tests, progress_on_a_terminal_is_cleared);
    } else {
        printf("no pseudo-terminal can be opened here: two tests are left out\n");
    }
    tcase_add_test(tests, progress_elsewhere_is_silent);
    tcase_add_test(tests, csv_rows);
    tcase_add_test(tests, csv_without_a_path_does_nothing);
    tcase_add_test(tests, csv_errors);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
