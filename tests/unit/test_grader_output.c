// The grader's answers to numeric questions, its reports in each format, and the scores it keeps.
#include "tests/unit/fake_course.h"

#include <check.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- questions ----------------------------------------------------------------------------------

typedef struct Answer {
    const char *line;    // a line of answers.txt
    bool right;          // its question gets its point
    const char *message; // what the report contains
} Answer;

// q1 is 512 MiB within 1 %, q2 the plain number 3 within 0.1 %.
static const Answer answers[] = {
    {"q1 = 512 MiB", true, "ok   q1"},
    {"q1=512MiB # with a comment", true, "ok   q1"},
    {"  q1 =\t+5.12e2   MiB  ", true, "ok   q1"},
    {"q1 = 516.9", true, "ok   q1"},
    {"q1 = 0.000512E6", true, "ok   q1"},
    {"q1 = 518 MiB", false, "why:   wrong"},
    {"q1 = ?", false, "not answered yet"},
    {"q1 =", false, "not answered yet"},
    {"# q1 = 512", false, "not answered yet"},
    {"q1 = 512 MB", false, "the unit asked for is MiB, not `MB`"},
    {"q1 = 512 mib", false, "the unit asked for is MiB, not `mib`"},
    {"q1 = 1024 MiB", false, "too large by a factor of 2"},
    {"q1 = 128 MiB", false, "too small by a factor of 4"},
    {"q1 = 524,288", false, "too large by a factor of 1,024"},
    {"q1 = 512,000", false, "too large by a factor of 1,000"},
    {"q1 = 0.5", false, "too small by a factor of 1,024"},
    {"q1 = 536.87", false, "too large by a factor of 1.049"},
    {"q1 = 536,870,912", false, "too large by a factor of 1,048,576"},
    {"q1 = -512", false, "wrong sign"},
    {"q1 = 0", false, "why:   wrong"},
    {"q1 = 5,12", false, "does not begin with a number"},
    {"q1 = 51,2000", false, "does not begin with a number"},
    {"q1 = ,512", false, "does not begin with a number"},
    {"q1 = 1.2.3", false, "does not begin with a number"},
    {"q1 = nan", false, "does not begin with a number"},
    {"q1 = inf", false, "does not begin with a number"},
    {"q1 = 0x200", false, "the unit asked for is MiB, not `x200`"},
    {"q1 = 1e999", false, "does not begin with a number"},
    {"q1 = about 512", false, "does not begin with a number"},
    {"q2 = 3.0", true, "ok   q2"},
    {"q2 = 3.072", false, "why:   wrong"}, // no prefix can be meant
    {"q2 = 3 bytes", false, "a plain number is asked for, without `bytes`"},
    {"q1 512", false,
     "exercises/ch77/answers.txt:1: expected `name = number unit`, found `q1 512`"},
    {"= 512", false, "exercises/ch77/answers.txt:1: expected `name = number unit`"},
    {"q9 = 1", false, "exercises/ch77/answers.txt:1: there is no question `q9`"},
    {"q1 = 512\nq1 = 7", true, "exercises/ch77/answers.txt:2: `q1` is answered twice"},
};

START_TEST(one_answer) {
    const char *words =
        strncmp(answers[_i].line, "q2", 2) == 0 ? "--test q2 ch77" : "--test q1 ch77";
    bool right = answers[_i].right;
    char *out;

    course_put("exercises/ch77/answers.txt", answers[_i].line);
    out = grade_status(words, right ? 0 : 1);
    has(out, answers[_i].message);
    if (!right) {
        lacks(out, "expected 512"); // the expected value is never shown
    }
    free(out);
}
END_TEST

START_TEST(a_wrong_answer_gets_its_hint) {
    char *out;

    course_put("exercises/ch77/answers.txt", "q1 = 7\n");
    out = grade_status("--test q1 ch77", 1);
    has(out, "case:  7");
    has(out, "hint:  count the bytes");
    lacks(out, "512");
    free(out);
}
END_TEST

// A file that cannot be read as answers is not a missing one.
START_TEST(answers_that_are_not_text) {
    const char zero[] = "q1 = 512\0q2 = 3\n";
    FILE *file = fopen("exercises/ch77/answers.txt", "w");
    char *out;

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(zero, 1, sizeof(zero), file), sizeof(zero));
    ck_assert_int_eq(fclose(file), 0);
    out = grade_status("--test q1 ch77", 1);
    has(out, "exercises/ch77/answers.txt: too large or not text");
    free(out);
    file = fopen("exercises/ch77/answers.txt", "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < 10000; i++) {
        fputs("# a comment\n", file);
    }
    ck_assert_int_eq(fclose(file), 0);
    out = grade_status("--test q1 ch77", 1);
    has(out, "exercises/ch77/answers.txt: too large or not text");
    free(out);
    ck_assert_int_eq(unlink("exercises/ch77/answers.txt"), 0);
    out = grade_status("--test q1 ch77", 1);
    has(out, "there is no file exercises/ch77/answers.txt");
    free(out);
    course_put("exercises/ch77/answers.txt", "q1 = ?\nq2 = ?\n");
}
END_TEST

// ---- formats ------------------------------------------------------------------------------------

// A learner's program that prints what must not get through: markup, an escape sequence, a byte
// that is not UTF-8, a zero byte; a first test that fails, so that there is a gated one.
static void put_nasty_lab(void) {
    course_put_lab("exercises",
                   "fputs(\"<&>\\\"']]>\\x1b[31m\\xff\\xc3\\xa9\\n\", stdout); return 4;", NULL);
}

// Checks that tags are balanced and that text holds no bare `<` or `&`. Not a full parser.
static void check_xml(const char *text) {
    char open[16][64];
    int depth = 0;

    for (const char *at = strstr(text, "?>") + 2; *at != '\0'; at++) {
        char name[64];

        if (*at == '&') {
            ck_assert(strncmp(at, "&lt;", 4) == 0 || strncmp(at, "&gt;", 4) == 0 ||
                      strncmp(at, "&amp;", 5) == 0 || strncmp(at, "&quot;", 6) == 0);
        }
        ck_assert_msg((unsigned char)*at >= ' ' || *at == '\n' || *at == '\t', "control character");
        if (*at != '<') {
            continue;
        }
        if (at[1] == '/') {
            ck_assert_int_eq(sscanf(at + 2, "%63[a-z-]", name), 1);
            ck_assert_int_gt(depth, 0);
            ck_assert_str_eq(name, open[--depth]);
        } else {
            const char *end = strchr(at, '>');

            ck_assert_int_eq(sscanf(at + 1, "%63[a-z-]", name), 1);
            ck_assert_ptr_nonnull(end);
            ck_assert_int_lt(depth, 16);
            if (end[-1] != '/') {
                snprintf(open[depth++], sizeof(open[0]), "%s", name);
            }
        }
    }
    ck_assert_int_eq(depth, 0);
}

START_TEST(junit_is_well_formed) {
    char *out;

    put_nasty_lab();
    out = grade_status("--format junit ch77", 1);
    check_xml(out);
    has(out, "<testsuite name=\"ch77.lab1\" tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\"");
    has(out, "<failure message=\"sum: got 4, expected 5\">");
    has(out, "&lt;&amp;&gt;&quot;']]&gt;?[31m?\xc3\xa9");
    has(out, "<skipped message=\"not counted: pass `adds` first\"/>");
    free(out);
}
END_TEST

START_TEST(tap_has_its_plan) {
    char *out;

    put_nasty_lab();
    out = grade_status("--format tap ch77", 1);
    has(out, "TAP version 13\n1..5\n");
    has(out, "\nnot ok 1 - ch77 lab1 adds 0/1\n  ---\n  case: \"2 + 3\"\n");
    has(out, "\nok 2 - ch77 lab1 fills 2/2\n");
    has(out, "\nnot ok 5 - ch77 questions q2 0/1\n");
    free(out);
}
END_TEST

START_TEST(gradescope_has_scores) {
    json_error_t error;
    json_t *report;
    json_t *tests;
    json_t *test;
    char *out;
    size_t index;
    double score = 0.0;

    put_nasty_lab();
    out = grade_status("--format gradescope ch77", 1);
    report = json_loads(out, 0, &error);
    ck_assert_msg(report != NULL, "%s\n%s", error.text, out);
    tests = json_object_get(report, "tests");
    ck_assert_uint_eq(json_array_size(tests), 5);
    json_array_foreach(tests, index, test) {
        score += json_number_value(json_object_get(test, "score"));
        ck_assert(json_is_number(json_object_get(test, "max_score")));
        ck_assert(json_is_string(json_object_get(test, "name")));
        ck_assert(json_is_string(json_object_get(test, "output")));
        ck_assert_str_eq(json_string_value(json_object_get(test, "visibility")), "visible");
    }
    ck_assert(score == 2.0);
    ck_assert_int_eq(json_integer_value(json_object_get(report, "score")), 2);
    has(json_string_value(json_object_get(json_array_get(tests, 0), "output")), "hint: add a to b");
    has(json_string_value(json_object_get(json_array_get(tests, 0), "output")), "<&>\"']]>?[31m");
    json_decref(report);
    free(out);
}
END_TEST

START_TEST(out_takes_the_report_and_text_stays) {
    json_error_t error;
    json_t *report;
    char *out = grade_status("--from right --format json --out report.json ch77", 0);

    has(out, "[##########]");
    report = json_load_file("report.json", 0, &error);
    ck_assert_msg(report != NULL, "%s", error.text);
    ck_assert_int_eq(json_integer_value(json_object_get(report, "score")), 6);
    json_decref(report);
    free(out);
}
END_TEST

// ---- progress -----------------------------------------------------------------------------------

START_TEST(progress_remembers_the_best) {
    char *out = grade_status("--progress", 0);

    has(out, "ch77     0/6    [----------]  not begun");
    has(out, "total    0/6    [----------]");
    free(out);
    free(grade_status("--from right ch77", 0)); // somebody else's
    out = grade_status("--progress", 0);
    has(out, "not begun");
    free(out);
    course_put_lab("exercises", NULL, NULL);
    course_put("exercises/ch77/answers.txt", "q1 = ?\nq2 = ?\n");
    free(grade_status("ch77", 1));
    course_put_lab("exercises", NULL, "");
    free(grade_status("ch77", 1));
    free(grade_status("--test adds ch77", 0)); // not a full run
    out = grade_status("--progress", 0);
    has(out, "ch77     4/6    [######----]  open: questions\n");
    free(out);
}
END_TEST

// A run of one lab counts, and leaves what is known of the others.
START_TEST(progress_remembers_each_lab) {
    char *out;

    course_put("exercises/ch77/answers.txt", "q1 = 512\nq2 = ?\n");
    course_put_lab("exercises", "return 0;", "");
    free(grade_status("ch77", 1));
    course_put("exercises/ch77/answers.txt", "q1 = ?\nq2 = ?\n");
    course_put_lab("exercises", NULL, NULL);
    free(grade_status("--lab 1 ch77", 0));
    out = grade_status("--progress", 0);
    has(out, "ch77     5/6    [########--]  open: questions\n");
    free(out);
}
END_TEST

// Questions of chapter 77: a share in percent, one as a plain number, a ratio, bytes.
static const char ratios[] = "#include \"tests/grade/grade.h\"\n"
                             "static double q1(void) {\n    return 12.84;\n}\n"
                             "static double q2(void) {\n    return 0.4923;\n}\n"
                             "static double q3(void) {\n    return 40.0;\n}\n"
                             "static double q4(void) {\n    return 335876.0;\n}\n"
                             "const GradeQuestion grade_questions[] = {\n"
                             "    {\"q1\", 1, q1, 0.005, \"%\", \"\"},\n"
                             "    {\"q2\", 1, q2, 0.005, \"\", \"\"},\n"
                             "    {\"q3\", 1, q3, 0.005, \"FLOP/byte\", \"\"},\n"
                             "    {\"q4\", 1, q4, 1e-6, \"bytes\", \"\"},\n"
                             "    {NULL, 0, NULL, 0, NULL, NULL},\n"
                             "};\n";

static const Answer ratio_answers[] = {
    {"q1 = 12.84 %", true, "ok   q1"},
    {"q1 = 0.1284", false, "too small by a factor of 100 (a share, or percent?)"},
    {"q1 = 778.8 %", false, "the other way round: the reciprocal is asked for"},
    {"q1 = 7.788", false, "the other way round: the reciprocal is asked for"},
    {"q1 = 13.1", false, "why:   wrong\n"},
    {"q2 = 0.4923", true, "ok   q2"},
    {"q2 = 49.23", false, "too large by a factor of 100 (a share, or percent?)"},
    {"q2 = 2.031", false, "the other way round: the reciprocal is asked for"},
    {"q2 = 0.9846", false, "too large by a factor of 2"},
    {"q3 = 0.025", false, "the other way round: the reciprocal is asked for"},
    {"q3 = 4000", false, "why:   wrong\n"}, // no share
    {"q4 = 335,876 B", true, "ok   q4"},
    {"q4 = 335,876 bytes", true, "ok   q4"},
    {"q4 = 335,876 b", false, "the unit asked for is bytes, not `b`"},
};

START_TEST(ratios_and_bytes) {
    const bool right = ratio_answers[_i].right;
    char words[] = "--test q1 ch77";
    char *out;

    words[strlen("--test q")] = ratio_answers[_i].line[1];
    course_put("tests/grade/ch77/questions.c", ratios);
    course_put("exercises/ch77/answers.txt", ratio_answers[_i].line);
    out = grade_status(words, right ? 0 : 1);
    has(out, ratio_answers[_i].message);
    free(out);
}
END_TEST

START_TEST(units_that_mean_the_same) {
    const char *right[] = {"q1 = 8 FLOP/B\nq2 = 90 keys\n", "q1 = 8 FLOP/byte\nq2 = 90 tokens\n",
                           "q1 = 8\nq2 = 90\n"};
    char *out;

    course_put("tests/grade/ch77/questions.c", "#include \"tests/grade/grade.h\"\n"
                                               "static double q1(void) {\n    return 8.0;\n}\n"
                                               "static double q2(void) {\n    return 90.0;\n}\n"
                                               "const GradeQuestion grade_questions[] = {\n"
                                               "    {\"q1\", 1, q1, 0.01, \"FLOP/byte\", \"\"},\n"
                                               "    {\"q2\", 1, q2, 0.01, \"queries\", \"\"},\n"
                                               "    {NULL, 0, NULL, 0, NULL, NULL},\n"
                                               "};\n");
    course_put_lab("exercises", NULL, NULL);
    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
        course_put("exercises/ch77/answers.txt", right[i]);
        free(grade_status("ch77", 0));
    }
    course_put("exercises/ch77/answers.txt", "q1 = 8 FLOP\nq2 = 90 bytes\n");
    out = grade_status("ch77", 1);
    has(out, "the unit asked for is FLOP/byte, not `FLOP`");
    has(out, "the unit asked for is queries, not `bytes`");
    free(out);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("grader_output");
    TCase *tests = tcase_create("grader_output");
    const int answer_count = sizeof(answers) / sizeof(answers[0]);
    const int ratio_count = sizeof(ratio_answers) / sizeof(ratio_answers[0]);
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(tests, 120);
    tcase_add_unchecked_fixture(tests, course_enter, course_leave);
    tcase_add_test(tests, progress_remembers_the_best);
    tcase_add_test(tests, progress_remembers_each_lab);
    tcase_add_loop_test(tests, one_answer, 0, answer_count);
    tcase_add_test(tests, a_wrong_answer_gets_its_hint);
    tcase_add_test(tests, answers_that_are_not_text);
    tcase_add_test(tests, junit_is_well_formed);
    tcase_add_test(tests, tap_has_its_plan);
    tcase_add_test(tests, gradescope_has_scores);
    tcase_add_test(tests, out_takes_the_report_and_text_stays);
    tcase_add_test(tests, units_that_mean_the_same); // these have questions of their own
    tcase_add_loop_test(tests, ratios_and_bytes, 0, ratio_count);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
