// Tests of common/recorded: columns in any order, rows that are too short, files that are not
// there.
#include "common/recorded.h"
#include "tests/unit/capture.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

// What was read, as text: values with '/' between them, rows with ';' behind them.
typedef struct Seen {
    int columns;
    char text[4096];
} Seen;

static void see(void *context, char *const *values) {
    Seen *seen = context;
    for (int i = 0; i < seen->columns; i++) {
        const size_t used = strlen(seen->text);
        snprintf(seen->text + used, sizeof seen->text - used, "%s%c", values[i],
                 i + 1 < seen->columns ? '/' : ';');
    }
}

static void assert_read(const char *headings, int columns, const char *expected) {
    Seen seen = {.columns = columns};
    ck_assert(recorded_read("f.csv", headings, see, &seen));
    ck_assert_str_eq(seen.text, expected);
}

static void assert_not_read(const char *path, const char *headings) {
    Seen seen = {.columns = 1};
    ck_assert(!recorded_read(path, headings, see, &seen));
    ck_assert_str_eq(seen.text, "");
}

START_TEST(columns_are_found_by_name) {
    write_file("f.csv", "gpu,rung,n,median_ms\nH200,tiled,1024,0.5\nH200,naive,2048,7\n");
    assert_read("rung,n", 2, "tiled/1024;naive/2048;");
    assert_read("median_ms,gpu,rung", 3, "0.5/H200/tiled;7/H200/naive;");
    assert_read("n", 1, "1024;2048;");
    assert_read("n,n", 2, "1024/1024;2048/2048;");
}
END_TEST

START_TEST(a_part_of_a_name_is_no_name) {
    write_file("f.csv", "gpu,rung,n,median_ms\nH200,tiled,1024,0.5\n");
    assert_not_read("f.csv", "median");
    assert_not_read("f.csv", "median_ms2");
    assert_not_read("f.csv", "rung,dim");
    assert_not_read("f.csv", "");
    assert_not_read("absent.csv", "n");
}
END_TEST

START_TEST(short_rows_are_left_out) {
    write_file("f.csv", "a,b,c\n1,2\n\n3,4,5\n6,,7\n8,9,10,11\n12,13,14");
    assert_read("a,c", 2, "3/5;6/7;8/10;12/14;");
    assert_read("b", 1, "2;4;;9;13;");
}
END_TEST

START_TEST(line_ends_of_other_systems) {
    write_file("f.csv", "a,b\r\n1,2\r\n3,4\r\n");
    assert_read("b,a", 2, "2/1;4/3;");
}
END_TEST

START_TEST(files_without_rows) {
    write_file("f.csv", "");
    assert_not_read("f.csv", "a");
    write_file("f.csv", "a,b\n");
    assert_read("a", 1, "");
}
END_TEST

// A file of more columns than are kept, and a line longer than any buffer.
START_TEST(wide_files) {
    enum { COLUMNS = RECORDED_COLUMNS + 8, LONG = 20000 };
    FILE *file = fopen("f.csv", "w");
    for (int row = 0; row < 2; row++) {
        for (int c = 0; c < COLUMNS; c++) {
            fprintf(file, "%s%c%d", c > 0 ? "," : "", row == 0 ? 'h' : 'v', c);
        }
        fputc('\n', file);
    }
    for (int i = 0; i < LONG; i++) {
        fputc('x', file);
    }
    fputs(",y\n", file);
    ck_assert_int_eq(fclose(file), 0);
    char last[16];
    snprintf(last, sizeof last, "v%d;", RECORDED_COLUMNS - 1);
    char heading[16];
    snprintf(heading, sizeof heading, "h%d", RECORDED_COLUMNS - 1);
    assert_read(heading, 1, last);
    assert_read("h1", 1, "v1;y;");
    snprintf(heading, sizeof heading, "h%d", RECORDED_COLUMNS);
    assert_not_read("f.csv", heading);
}
END_TEST

// As many columns as there may be, and one more.
START_TEST(asked_for_too_many) {
    char headings[2 * (RECORDED_COLUMNS + 1)] = "";
    write_file("f.csv", "a\n1\n");
    for (int c = 0; c <= RECORDED_COLUMNS; c++) {
        headings[2 * c] = 'a';
        headings[2 * c + 1] = c < RECORDED_COLUMNS ? ',' : '\0';
    }
    assert_not_read("f.csv", headings);
    headings[2 * RECORDED_COLUMNS - 1] = '\0';
    Seen seen = {.columns = RECORDED_COLUMNS};
    ck_assert(recorded_read("f.csv", headings, see, &seen));
    ck_assert_uint_eq(strlen(seen.text), 2 * RECORDED_COLUMNS);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("recorded");
    TCase *rows = tcase_create("rows");
    tcase_set_timeout(rows, 60);
    tcase_add_checked_fixture(rows, enter, leave);
    tcase_add_test(rows, columns_are_found_by_name);
    tcase_add_test(rows, a_part_of_a_name_is_no_name);
    tcase_add_test(rows, short_rows_are_left_out);
    tcase_add_test(rows, line_ends_of_other_systems);
    tcase_add_test(rows, files_without_rows);
    tcase_add_test(rows, wide_files);
    tcase_add_test(rows, asked_for_too_many);
    suite_add_tcase(suite, rows);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
