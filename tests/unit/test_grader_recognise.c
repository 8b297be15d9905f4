// The grader's recognition of known wrong answers: what is recorded of a mutant, and which failures
// are taken for it.
#include "tests/unit/fake_course.h"
#include "tests/unit/shell.h"

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SOLUTION                                                                                   \
    "#include \"labs.h\"\n"                                                                        \
    "int lab_add(int a, int b) {\n    return a + b;\n}\n"                                          \
    "void lab_fill(float *out, size_t count) {\n"                                                  \
    "    for (size_t i = 0; i < count; i++) {\n        out[i] = (float)i;\n    }\n}\n"

#define KNOWN "tests/grade/ch77/wrong_answers.txt"

static void put_mutant(const char *name, const char *test, const char *cause, const char *becomes) {
    char path[100];
    char text[600];

    snprintf(path, sizeof(path), "tests/mutants/ch77/lab1_%s.mutant", name);
    snprintf(text, sizeof(text), "lab1 fails on: %s\n%s\n--- was\n%s+++ becomes\n    %s\n", test,
             cause,
             strcmp(test, "adds") == 0 ? "    return a + b;\n" : "        out[i] = (float)i;\n",
             becomes);
    course_put(path, text);
}

static void enter(void) {
    course_enter();
    course_put("solutions/ch77/lab1_sum.c", SOLUTION);
    put_mutant("minus", "adds", "The second number\nis taken off.", "return a - b;");
    put_mutant("thirds", "fills", "Counts in thirds.", "out[i] = (float)i / 3.0f;");
    put_mutant("from_one", "fills", "Counts from 1.", "out[i] = (float)i + 1.0f;");
    put_mutant("after", "fills", "The next index is written.", "out[i] = (float)(i + 1);");
    put_mutant("past", "fills", "One value too many.", "out[i] = (float)i; out[i + 1] = 0.0f;");
}

// The file that the other tests here grade with.
START_TEST(recording) {
    char *out = grade_status("--record --timeout 60 ch77", 0);
    char *known;

    has(out, "ch77: 5 of 5 known wrong answers recorded in " KNOWN "\n");
    known = file_text(KNOWN);
    has(known, "\nlab1_minus\nThe second number is taken off.\nadds 46d43615 sum: got -1\n\n");
    has(known, "\nlab1_thirds\nCounts in thirds.\n"
               "fills 2601b547 out[row 0][column 1]: off by -0.6667 / 3 of 4 values are wrong\n");
    has(known, "\nlab1_from_one\nCounts from 1.\n"
               "fills 2601b547 out[row 0][column 0]: off by 1 / 4 of 4 values are wrong\n");
    has(known, "\nlab1_past\nOne value too many.\nfills ");
    lacks(known, "lab1_sum.c");
    lacks(known, "return");
    free(known);
    free(out);
}
END_TEST

typedef struct Trial {
    const char *add;
    const char *fill;
    const char *cause; // as the report has it; NULL: none
    bool hint;         // it has the test's own hint as well
} Trial;

#define LOOP(statement) "for (size_t i = 0; i < count; i++) { " statement " }"

static const Trial trials[] = {
    {"return -b + a;", NULL, "It fails as a known fault does: The second number is taken off.",
     true},
    // Other rounding, other code: still the same values.
    {NULL, "float x = 0; for (size_t i = 0; i < count; i++, x += 0.33331f) { out[i] = x; }",
     "These are the values of a known fault: Counts in thirds.", false},
    // Two faults with the same values are both told.
    {NULL, LOOP("out[i] = 1.0f + (float)i;"),
     "It fails as two known faults do. Either: The next index is written. Or: Counts from 1.",
     true},
    {NULL, LOOP("out[i + 1] = 0.0f; out[i] = 1.0f * (float)i;"),
     "It fails as a known fault does: One value too many.", true},
    // What is certain alone: a small number is told when it explains everything, or not at all.
    {"return a - b;", LOOP("out[i] = 9.0f;"), NULL, true},
    // Not known: another number, near or far; a known number in fewer places; nothing; a crash.
    {"return a * b;", NULL, NULL, true},
    {NULL, LOOP("out[i] = 0.3f * (float)i;"), NULL, true},
    {NULL, LOOP("out[i] = 2.0f * (float)i;"), NULL, true},
    {NULL, LOOP("out[i] = i == 0 ? 1.0f : (float)i;"), NULL, true},
    {NULL, "(void)out; (void)count;", NULL, true},
    {NULL, "abort();", NULL, true},
};

// A text without line ends and the blanks that stand before a report's lines, to be freed.
static char *flat(const char *text) {
    char *line = strdup(text);
    size_t length = 0;

    ck_assert_ptr_nonnull(line);
    for (size_t i = 0; text[i] != '\0'; i++) {
        const char c = text[i] == '\n' ? ' ' : text[i];

        if (c != ' ' || length == 0 || line[length - 1] != ' ') {
            line[length++] = c;
        }
    }
    line[length] = '\0';
    return line;
}

START_TEST(a_learners_file) {
    const Trial *trial = &trials[_i];
    char *out;
    char *line;

    course_put_lab("tried", trial->add, trial->fill);
    out = grade_status("--from tried --lab 1 --timeout 60 ch77", 1);
    line = flat(out);
    if (trial->cause != NULL) {
        has(line, "cause: ");
        has(line, trial->cause);
    } else {
        lacks(line, "cause:");
    }
    (trial->hint ? has : lacks)(line, "hint: ");
    free(line);
    free(out);
}
END_TEST

// One test alone is compared as well, and every format tells the cause.
START_TEST(one_test_in_every_format) {
    static const struct {
        const char *format;
        const char *piece;
    } forms[] = {{"tap", "  cause: \"These are the values of a known fault: Counts in thirds.\"\n"},
                 {"junit", "cause: These are the values of a known fault: Counts in thirds.\n"},
                 {"gradescope", "\\ncause: These are the values of a known fault: Counts in th"},
                 {"json", "\"cause\": \"These are the values of a known fault: Counts in thir"}};

    course_put_lab("tried", NULL, LOOP("out[i] = (float)i / 3.0f;"));
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        char words[100];
        char *out;

        snprintf(words, sizeof(words), "--from tried --test fills --format %s ch77",
                 forms[i].format);
        out = grade_status(words, 1);
        has(out, forms[i].piece);
        free(out);
    }
}
END_TEST

// What another compiler's digits and another machine's counts change is within the tolerance; a
// fault that fails a test which passes here is not the cause.
START_TEST(files_by_hand) {
    char *out;

    course_put_lab("tried", NULL, LOOP("out[i] = (float)i / 3.0f;"));
    course_put(KNOWN, "lab1_a\nNear.\nfills 2601b547 out[row 0][column 1]: off by -0.6627 / 3 of "
                      "4 values are wrong\n\n"
                      "lab1_b\nFar.\nfills 2601b547 out[row 0][column 1]: off by -0.64 / 3 of 4 "
                      "values are wrong\n\n"
                      "lab1_c\nAnother case.\nfills 2601b548 out[row 0][column 1]: off by -0.6667 "
                      "/ 3 of 4 values are wrong\n\n"
                      "lab1_d\nFails `adds`.\nadds 46d43615 sum: got -1\n"
                      "fills 2601b547 out[row 0][column 1]: off by -0.6667 / 3 of 4 values are "
                      "wrong\n\n"
                      "lab2_e\nAnother lab.\nfills 2601b547 out[row 0][column 1]: off by -0.6667 "
                      "/ 3 of 4 values are wrong\n");
    out = grade_status("--from tried --lab 1 --timeout 60 ch77", 1);
    has(out, "These are the values of a known fault: Near.\n");
    free(out);
    course_put(KNOWN, "lab1_a\nA.\nfills 2601b547\n");
    grade_error("--from tried --lab 1 ch77", "`build/grade --record ch77` writes the file anew");
    ck_assert_int_eq(unlink(KNOWN), 0);
    out = grade_status("--from tried --lab 1 --timeout 60 ch77", 1);
    lacks(out, "cause:");
    free(out);
}
END_TEST

// More than three faults that look the same: none is named.
START_TEST(too_many_faults) {
    char text[1000] = "";
    char *out;

    course_put_lab("tried", "return a - b;", NULL);
    for (int i = 0; i < 4; i++) {
        const size_t used = strlen(text);

        snprintf(text + used, sizeof(text) - used,
                 "lab1_%d\nFault %d.\nadds 46d43615 sum: got -1\n\n", i, i);
        course_put(KNOWN, text);
        out = grade_status("--from tried --lab 1 --timeout 60 ch77", 1);
        (i < 3 ? has : lacks)(out, "Fault 0.");
        free(out);
    }
    unlink(KNOWN);
}
END_TEST

// A mutant that cannot be recorded leaves the file as it was.
START_TEST(a_mutant_that_does_not_compile) {
    char *out;

    put_mutant("broken", "adds", "No end.", "return a + b");
    course_put(KNOWN, "kept\n");
    out = grade_status("--record ch77", 1);
    has(out, "FAIL ch77 lab1_broken.mutant: does not compile: ");
    has(out, "ch77: 5 of 6 known wrong answers recorded; the file stays as it is\n");
    free(out);
    out = file_text(KNOWN);
    ck_assert_str_eq(out, "kept\n");
    free(out);
    ck_assert_int_eq(rename("solutions", "elsewhere"), 0);
    grade_error("--record ch77", "--record needs solutions/ and tests/mutants/");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("grader_recognise");
    TCase *tests = tcase_create("grader_recognise");
    const int trial_count = sizeof(trials) / sizeof(trials[0]);
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(tests, 120);
    tcase_add_unchecked_fixture(tests, enter, course_leave);
    tcase_add_test(tests, recording);
    tcase_add_loop_test(tests, a_learners_file, 0, trial_count);
    tcase_add_test(tests, one_test_in_every_format);
    tcase_add_test(tests, files_by_hand);
    tcase_add_test(tests, too_many_faults);
    tcase_add_test(tests, a_mutant_that_does_not_compile);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
