// What an instructor's file of a chapter sets: points, hidden tests, lateness, seeds.
#include "tests/unit/fake_course.h"

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const file = "tests/grade/ch77/assignment.txt";

// ---- points -------------------------------------------------------------------------------------

// The report of a run with these words, which ends with this status.
static json_t *report(const char *words, int status) {
    char line[512];
    char *out;
    json_error_t error;
    json_t *value;

    snprintf(line, sizeof(line), "--format json %s ch77", words);
    out = grade_status(line, status);
    value = json_loads(out, 0, &error);
    ck_assert_msg(value != NULL, "%s\n%s", error.text, out);
    free(out);
    return value;
}

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);

    ck_assert_msg(json_is_number(value), "no number `%s`", key);
    return json_number_value(value);
}

// Chapter, or a lab of it; borrowed.
static json_t *chapter_of(const json_t *json) {
    return json_array_get(json_object_get(json, "chapters"), 0);
}

static json_t *lab_of(const json_t *json, size_t lab) {
    return json_array_get(json_object_get(chapter_of(json), "labs"), lab);
}

typedef struct Sharing {
    const char *text;
    double q[2];  // what the two questions count, one point each in the suite
    double whole; // of both
} Sharing;

static const Sharing sharings[] = {
    {"", {1, 1}, 2},
    {"# points questions 10\n\n   \n", {1, 1}, 2},
    {"points questions 10\n", {5, 5}, 10},
    {"points questions 0.01\n", {0.01, 0}, 0.01}, // the first of equals gets the odd hundredth
    {"points questions 2.57 # with a comment\r\n", {1.29, 1.28}, 2.57},
    {"points questions 0\n", {0, 0}, 0},
    {"\tpoints   questions.q2\t0.5\n", {1, 0.5}, 1.5},
    {"points questions.q1 7\npoints questions 10\n", {7, 3}, 10},
    {"points questions 10\npoints questions.q1 10\n", {10, 0}, 10},
    {"points questions 1000\npoints lab1 3\n", {500, 500}, 1000},
};

START_TEST(points_are_shared) {
    const Sharing *sharing = &sharings[_i];
    json_t *json;
    const json_t *tests;

    course_put(file, sharing->text);
    json = report("--from right --lab questions", 0);
    tests = json_object_get(lab_of(json, 0), "tests");
    for (size_t q = 0; q < 2; q++) {
        const json_t *test = json_array_get(tests, q);

        ck_assert_double_eq_tol(number(test, "points"), sharing->q[q], 1e-9);
        ck_assert_double_eq_tol(number(test, "score"), sharing->q[q], 1e-9);
    }
    ck_assert_double_eq_tol(number(lab_of(json, 0), "points"), sharing->whole, 1e-9);
    ck_assert_double_eq_tol(number(json, "score"), sharing->whole, 1e-9);
    json_decref(json);
}
END_TEST

// Seven questions cannot share 10 evenly: every sum of hundredths adds up all the same.
START_TEST(shares_add_up) {
    static const char questions[] =
        "#include \"tests/grade/grade.h\"\n"
        "static double one(void) {\n    return 1.0;\n}\n"
        "const GradeQuestion grade_questions[] = {\n"
        "    {\"q1\", 1, one, 0.01, \"\", \"\"}, {\"q2\", 2, one, 0.01, \"\", \"\"},\n"
        "    {\"q3\", 3, one, 0.01, \"\", \"\"}, {\"q4\", 1, one, 0.01, \"\", \"\"},\n"
        "    {\"q5\", 1, one, 0.01, \"\", \"\"}, {\"q6\", 5, one, 0.01, \"\", \"\"},\n"
        "    {\"q7\", 1, one, 0.01, \"\", \"\"}, {NULL, 0, NULL, 0, NULL, NULL}};\n";
    const int points[] = {1, 2, 3, 1, 1, 5, 1};
    const int totals[] = {1000, 1, 13, 99999, 733};

    course_put("tests/grade/ch77/questions.c", questions);
    course_put("right/ch77/answers.txt", "q1=1\nq2=1\nq3=1\nq4=1\nq5=1\nq6=1\nq7=1\n");
    for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
        char text[64];
        json_t *json;
        int sum = 0;

        snprintf(text, sizeof(text), "points questions %d.%02d\n", totals[i] / 100,
                 totals[i] % 100);
        course_put(file, text);
        json = report("--from right --lab questions", 0);
        for (size_t q = 0; q < 7; q++) {
            const double exact = totals[i] * points[q] / 14.0;
            const double got =
                100.0 *
                number(json_array_get(json_object_get(lab_of(json, 0), "tests"), q), "points");

            ck_assert_double_lt(got > exact ? got - exact : exact - got, 1.0);
            sum += (int)(got + 0.5);
        }
        ck_assert_int_eq(sum, totals[i]);
        ck_assert_double_eq_tol(number(json, "points"), totals[i] / 100.0, 1e-9);
        json_decref(json);
    }
}
END_TEST

// ---- hidden tests -------------------------------------------------------------------------------

START_TEST(hidden_tests_are_left_out) {
    char *out;

    course_put(file, "hidden lab1.fills questions.q2\npoints lab1 10\n");
    course_put_lab("exercises", NULL, "out[0] = 7.0f; (void)count;"); // wrong where it is hidden
    course_put("exercises/ch77/answers.txt", "q1 = 512\nq2 = 8\n");
    out = grade_status("ch77", 1); // `nothing` writes out[0]
    lacks(out, "fills");
    lacks(out, "q2");
    has(out, "ok   adds                       2.5/2.5");
    has(out, "  (1 hidden test is graded by your instructor)\n");
    has(out, "ch77   3.5/6    [#####-----]");
    free(out);
    out = grade_status("--hidden ch77", 1);
    has(out, "  FAIL fills (hidden)               0/5");
    has(out, "  FAIL q2 (hidden)                 0/1");
    has(out, "ch77   3.5/12   [##--------]");
    lacks(out, "instructor");
    free(out);
    grade_error("--test fills ch77", "no test or question is named `fills` there");
    free(grade_status("--test fills --hidden --from right ch77", 0));
}
END_TEST

// What a learner cannot run is no part of their progress.
START_TEST(progress_leaves_hidden_tests_out) {
    char *out;

    course_put(file, "hidden lab1.fills\n");
    out = grade_status("--progress", 0);
    has(out, "/4 ");
    free(out);
}
END_TEST

// ---- lateness -----------------------------------------------------------------------------------

typedef struct Late {
    const char *due; // the lines of the file
    const char *submitted;
    double final;
    const char *said; // what the text contains
} Late;

// The questions count 10 and 5.55 of them are earned.
static const Late lates[] = {
    {"due 2027-03-01 23:59\nlate 10 per day, at most 50\n", NULL, 5.55,
     "      due 2027-03-01 23:59\n"},
    {"due 2027-03-01 23:59\nlate 10 per day, at most 50\n", "2027-03-01T23:59", 5.55,
     "due 2027-03-01 23:59; handed in in time\n"},
    {"due 2027-03-01 23:59\nlate 10 per day, at most 50\n", "2027-03-01T23:59:01", 5.0,
     "      for lateness 10 % is taken off: 5.55 points become 5\n"}, // 0.555 rounded down
    {"due 2027-03-01 23:59\nlate 10 per day, at most 50\n", "2027-03-02T23:59", 5.0,
     "1 day 0 h late"},
    {"due 2027-03-01 23:59\nlate 10% per day at most 50%\n", "2027-03-03T00:00", 4.44,
     "1 day 0 h late\n      for lateness 20 %"},
    {"late 10 per day, at most 50\ndue 2027-03-01 23:59\n", "2028-03-02T10:00", 2.78,
     "366 days 10 h late"}, // a leap year
    {"due 2027-03-01 23:59\nlate 30 per day\n", "2027-04-02T10:00", 0, "for lateness 100 %"},
    {"due 2027-03-01T23:59\nlate 1 per hour, at most 24\n", "2027-03-02T02:30:00.25", 5.39,
     "2 h 31 min late\n      for lateness 3 %"},
    {"due 2027-03-01 23:59\n", "2027-03-02T00:09", 5.55, "10 min late\n"},
    {"late 10 per day\ndue 2027-03-01 23:59 -08:00\n", "2027-03-02T07:59:00Z", 5.55, "in time"},
    {"late 10 per day\ndue 2027-03-01 23:59 -08:00\n", "2027-03-02T09:59:01+02:00", 5.0, "late"},
    {"late 10 per day\ndue 2027-03-01 23:59\n", "2027-03-01T23:58:00.5-07:00", 5.55, "in time"},
    {"late 10 per day\ndue 2027-03-01 23:59 +0530\n", "2027-03-02T00:00", 5.0, "1 min late"},
};

START_TEST(lateness_is_taken_off) {
    const Late *late = &lates[_i];
    char text[512];
    char words[128];
    json_t *json;
    char *out;

    snprintf(text, sizeof(text), "points questions 10\npoints questions.q1 5.55\n%s", late->due);
    course_put(file, text);
    course_put("exercises/ch77/answers.txt", "q1 = 512\nq2 = 8\n");
    snprintf(words, sizeof(words), "--lab questions%s%s",
             late->submitted != NULL ? " --submitted " : "",
             late->submitted != NULL ? late->submitted : "");
    json = report(words, 1);
    ck_assert_double_eq_tol(number(json, "score"), 5.55, 1e-9);
    ck_assert_double_eq_tol(number(json, "score_after_lateness"), late->final, 1e-9);
    ck_assert_double_eq_tol(number(chapter_of(json), "score_after_lateness"), late->final, 1e-9);
    json_decref(json);
    snprintf(text, sizeof(text), "%s ch77", words);
    out = grade_status(text, 1);
    has(out, late->said);
    has(out, "ch77  5.55/10   [#####-----]\n");
    free(out);
}
END_TEST

// The exit status is about the labs, not about the clock.
START_TEST(late_full_marks_are_full_marks) {
    course_put(file, "due 2027-03-01 23:59\nlate 10 per day\n");
    free(grade_status("--from right --lab questions --submitted 2029-01-01T00:00 ch77", 0));
}
END_TEST

// ---- seeds --------------------------------------------------------------------------------------

// A suite whose tests say what they draw.
static const char drawing_suite[] =
    "#include \"labs.h\"\n"
    "#include \"tests/grade/grade.h\"\n"
    "static void adds(void) {\n"
    "    expect_int(\"sum\", lab_add(2, 3), 5);\n"
    "}\n"
    "static void draws(void) {\n"
    "    grade_fail(\"drawn: %a %a %llx\", (double)grade_normal(1, 0),\n"
    "               (double)grade_normal(2, 0), (unsigned long long)grade_seed(7));\n"
    "}\n"
    "const char grade_title[] = \"random cases\";\n"
    "const GradeTest grade_tests[] = {{\"adds\", 1, false, adds, \"\"},\n"
    "                                 {\"draws\", 1, false, draws, \"\"},\n"
    "                                 {NULL, 0, false, NULL, NULL}};\n";

// What the second test drew, to be freed.
static char *drawn(const char *words) {
    json_t *json = report(words, 1);
    const json_t *tests = json_object_get(lab_of(json, 0), "tests");
    char *message = strdup(json_string_value(
        json_object_get(json_array_get(tests, json_array_size(tests) - 1), "message")));

    json_decref(json);
    has(message, "drawn: ");
    return message;
}

START_TEST(seeds_differ_from_student_to_student) {
    char *seen[4];
    char *out;

    course_put("tests/grade/ch77/lab1_sum.c", drawing_suite);
    course_put(file, "seed student\n");
    seen[0] = drawn("--from right --lab 1 --test draws --seed alice");
    seen[1] = drawn("--from right --lab 1 --test draws --seed bob");
    seen[2] = drawn("--from right --lab 1 --test draws --seed alice");
    seen[3] = drawn("--from right --lab 1 --test draws");
    ck_assert_str_ne(seen[0], seen[1]);
    ck_assert_str_eq(seen[0], seen[2]);
    ck_assert_str_ne(seen[0], seen[3]);
    has(seen[3], " 7"); // grade_seed without a student
    out = grade_status("--from right --lab 1 --test draws ch77", 1);
    has(out, "random cases for everybody; SEED=your-id gives those of your own");
    free(out);
    out = grade_status("--from right --lab 1 --test draws --seed alice ch77", 1);
    has(out, "random cases of the seed `alice`");
    has(out, "(debug: GRADE_SEED=");
    free(out);
    free(seen[0]);
    course_put(file, "seed fixed\n"); // --seed alone changes nothing
    seen[0] = drawn("--from right --lab 1 --test draws --seed alice");
    ck_assert_str_eq(seen[0], seen[3]);
    for (size_t i = 0; i < 4; i++) {
        free(seen[i]);
    }
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

int main(void) {
    Suite *suite = suite_create("assignment_terms");
    TCase *tests = tcase_create("assignment_terms");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(tests, 120);
    tcase_add_unchecked_fixture(tests, course_enter, course_leave);
    tcase_add_loop_test(tests, points_are_shared, 0, COUNT(sharings));
    tcase_add_test(tests, hidden_tests_are_left_out);
    tcase_add_test(tests, progress_leaves_hidden_tests_out);
    tcase_add_loop_test(tests, lateness_is_taken_off, 0, COUNT(lates));
    tcase_add_test(tests, late_full_marks_are_full_marks);
    tcase_add_test(tests, shares_add_up); // these two last: they change the suites
    tcase_add_test(tests, seeds_differ_from_student_to_student);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
