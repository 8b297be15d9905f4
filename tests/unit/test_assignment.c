// An instructor's file of a chapter: every mistake in it is told with its line, every chapter has
// one, and the options that go with it are checked. What it sets is in test_assignment_terms.c.
#include "tests/unit/fake_course.h"
#include "tests/unit/shell.h"

#include <check.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const file = "tests/grade/ch77/assignment.txt";

// ---- mistakes -----------------------------------------------------------------------------------

typedef struct Mistake {
    const char *text;    // of the file
    const char *message; // what stderr contains
} Mistake;

static const Mistake mistakes[] = {
    {"pts lab1 10\n", "assignment.txt:1:\n`pts` is no setting; there are points, hidden, due"},
    {"\n# fine\nPoints lab1 10\n", "assignment.txt:3:\n`Points` is no setting"},
    {"points lab1\n", ":1:\nexpected `points LAB NUMBER` or `points LAB.TEST NUMBER`"},
    {"points lab1 10 20\n", ":1:\nexpected `points LAB NUMBER`"},
    {"points lab1 ten\n", ":1:\npoints `ten`: expected 0 to 1000, with two decimals at most"},
    {"points lab1 -1\n", "points `-1`: expected 0 to 1000"},
    {"points lab1 1000.01\n", "points `1000.01`: expected 0 to 1000"},
    {"points lab1 99999999999\n", "expected 0 to 1000"},
    {"points lab1 1.234\n", "points `1.234`: expected 0 to 1000, with two decimals at most"},
    {"points lab1 1.\n", "points `1.`: expected"},
    {"points lab1 nan\n", "points `nan`: expected"},
    {"points lab2 10\n", ":1:\nch77 has no lab `lab2`; it has:\n  lab1, questions\n"},
    {"points lab 10\n", "ch77 has no lab `lab`"},
    {"points lab1.nope 1\n",
     ":1:\nlab1 has no test `nope`; its tests are:\n  adds, fills, nothing\n"},
    {"points questions.q9 1\n", "questions has no test `q9`; its tests are:\n  q1, q2\n"},
    {"points .adds 1\n", "`.adds` is neither LAB nor LAB.TEST, like lab1.three_keys"},
    {"points lab1. 1\n", "`lab1.` is neither LAB nor LAB.TEST"},
    {"points lab1 10\npoints lab1 10\n", ":2:\n`lab1` is set in line 1 already"},
    {"hidden lab1.fills\n\nhidden lab1.fills\n", ":3:\n`lab1.fills` is set in line 1 already"},
    {"points lab1.adds 8\npoints lab1 5\npoints lab1.fills 1\n",
     ":2:\nlab1 counts 5 points, but its tests with points of their own\nadd up to 9"},
    {"points questions 5\npoints questions.q1 1\npoints questions.q2 3.5\n",
     ":1:\nquestions counts 5 points, but its tests with points of their own\nadd up to 4.5"},
    {"hidden\n", ":1:\nexpected `hidden LAB.TEST`"},
    {"hidden lab1\n", "hidden `lab1`: expected LAB.TEST, one test of the lab"},
    {"hidden lab1.nope\n", "lab1 has no test `nope`"},
    {"hidden lab1.adds\n", "`adds` is the first test of lab1, on which others depend"},
    {"due tomorrow\n", ":1:\ndue `tomorrow`: expected a date and a time,\nlike `due 2027-03-01 2"},
    {"due\n", ":1:\ndue ``: expected a date and a time"},
    {"due 2027-02-29 23:59\n", "due `2027-02-29 23:59`: expected"},
    {"due 2027-13-01 23:59\n", "due `2027-13-01 23:59`: expected"},
    {"due 2027-03-01 24:00\n", "due `2027-03-01 24:00`: expected"},
    {"due 2027-03-01\n", "due `2027-03-01`: expected"},
    {"due 2027-03-01 23:59 PST\n", "due `2027-03-01 23:59 PST`: expected"},
    {"due 2027-03-01 23:59 -15:00\n", "due `2027-03-01 23:59 -15:00`: expected"},
    {"due 2027-03-01 23:59\ndue 2027-03-01 23:59\n", ":2:\n`due` is set in line 1 already"},
    {"late 10 per day\n", ":1:\n`late` needs a line `due DATE TIME` as well"},
    {"late 10\n", ":1:\nexpected `late N per day, at most M` or `late N per hour"},
    {"late 0 per day\n", "expected `late N per day"},
    {"late 101 per day\n", "expected `late N per day"},
    {"late 10 per week\n", "expected `late N per day"},
    {"late 10 per day at most 5\n", "expected `late N per day"},
    {"late 10 per day, at least 50\n", "expected `late N per day"},
    {"late 10 per day\nlate 10 per day\n", ":2:\n`late` is set in line 1 already"},
    {"seed alice\n",
     ":1:\nexpected `seed fixed` (the same random cases for all) or `seed student`"},
    {"seed\n", "expected `seed fixed`"},
    {"seed fixed\nseed student\n", ":2:\n`seed` is set in line 1 already"},
    {"hidden a.a b.b c.c d.d e.e f.f g.g h.h i.i j.j k.k l.l\n", "a setting of at most 12 words"},
};

START_TEST(a_mistake_is_told_with_its_line) {
    Captured captured;

    course_put(file, mistakes[_i].text);
    captured = course_grade("--lab questions ch77");
    ck_assert_int_eq(captured.status, 2);
    ck_assert_str_eq(captured.out, "");
    has(captured.err, "grade: tests/grade/ch77/assignment.txt:");
    has(captured.err, mistakes[_i].message);
    ck_assert_int_le(longest_line(captured.err), 80);
    captured_free(&captured);
}
END_TEST

START_TEST(a_file_that_is_not_text) {
    const char zero[] = "seed fixed\0seed fixed\n";
    FILE *out = fopen(file, "w");

    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(zero, 1, sizeof(zero), out), sizeof(zero));
    ck_assert_int_eq(fclose(out), 0);
    grade_error("--lab questions ch77", "assignment.txt: too large, or not text");
}
END_TEST

START_TEST(options_are_checked) {
    course_put(file, "");
    grade_error("--submitted yesterday ch77",
                "--submitted yesterday: a date and a time are needed");
    grade_error("--seed \x1b ch77", "--seed: a printable text is needed");
    grade_error("--also xml=a ch77", "--also xml: the formats are text, tap, junit, gradescope");
    grade_error("--also json ch77", "--also json: expected FORMAT=FILE, like junit=report.xml");
    grade_error("--also json=a --also tap=a ch77", "a: two reports cannot go to one file");
    grade_error("--also json=no/such/folder ch77", "no/such/folder: No such file");
}
END_TEST

// ---- the files that are here --------------------------------------------------------------------

// The line of a chapter's file with this setting, after its `# `; NULL when there is none.
static char *example(const char *text, const char *setting, char *line, size_t bytes) {
    char start[64];
    const char *at;

    snprintf(start, sizeof(start), "\n# %s ", setting);
    at = strstr(text, start);
    if (at == NULL) {
        return NULL;
    }
    snprintf(line, bytes, "%.*s", (int)strcspn(at + 3, "\n"), at + 3);
    return line;
}

// Fails unless the suite of this chapter that begins with the lab's name has the test "lab1.test".
static void check_named(const char *chapter, const char *place) {
    const int lab = (int)strcspn(place, ".");
    char *output;

    if (shell(&output, "grep -q '^    {\"%s\",' tests/grade/%s/%.*s_*.c", place + lab + 1, chapter,
              lab, place) != 0) {
        ck_abort_msg("%s: there is no %s", chapter, place);
    }
    free(output);
}

// Whether the file is as it was handed out: comments alone.
static bool sets_nothing(const char *text) {
    for (const char *at = text; *at != '\0'; at += strcspn(at, "\n"), at += *at == '\n' ? 1 : 0) {
        if (*at != '#') {
            return false;
        }
    }
    return true;
}

static void check_examples(const char *chapter, const char *text) {
    char line[256];
    char place[64];

    ck_assert_ptr_nonnull(example(text, "points lab1", line, sizeof(line)));
    ck_assert_ptr_nonnull(example(text, "due", line, sizeof(line)));
    ck_assert_ptr_nonnull(example(text, "late", line, sizeof(line)));
    ck_assert_ptr_nonnull(example(text, "seed", line, sizeof(line)));
    ck_assert_ptr_nonnull(example(text, "hidden", line, sizeof(line)));
    ck_assert_int_eq(sscanf(line, "hidden %63s", place), 1);
    check_named(chapter, place);
    ck_assert_ptr_nonnull(strstr(text, "# points lab1."));
    ck_assert_int_eq(sscanf(strstr(text, "# points lab1."), "# points %63s", place), 1);
    check_named(chapter, place);
}

// Each chapter has a file, with examples that are right for it until an instructor sets something.
START_TEST(each_chapter_has_its_file) {
    DIR *folder = opendir("tests/grade");
    const struct dirent *entry;
    int chapters = 0;

    ck_assert_ptr_nonnull(folder);
    while ((entry = readdir(folder)) != NULL) {
        char path[300];
        char *text;

        if (strncmp(entry->d_name, "ch", 2) == 0 && strlen(entry->d_name) == 4) {
            snprintf(path, sizeof(path), "tests/grade/%s/assignment.txt", entry->d_name);
            text = file_text(path);
            if (sets_nothing(text)) {
                check_examples(entry->d_name, text);
            }
            free(text);
            chapters++;
        }
    }
    closedir(folder);
    ck_assert_int_ge(chapters, 1);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("assignment");
    TCase *here = tcase_create("here");
    TCase *tests = tcase_create("assignment");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(here, 60);
    tcase_add_test(here, each_chapter_has_its_file);
    tcase_set_timeout(tests, 120);
    tcase_add_unchecked_fixture(tests, course_enter, course_leave);
    tcase_add_loop_test(tests, a_mistake_is_told_with_its_line, 0,
                        (int)(sizeof(mistakes) / sizeof(mistakes[0])));
    tcase_add_test(tests, a_file_that_is_not_text);
    tcase_add_test(tests, options_are_checked);
    suite_add_tcase(suite, here);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
