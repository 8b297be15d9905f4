// The grader's proof of itself: that it accepts a course that is right, and names what is not.
#include "tests/unit/fake_course.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAB(first, last, add, fill)                                                                \
    "#include \"labs.h\"\n"                                                                        \
    "int lab_add(int a, int b) {\n    // " first " 1: add them.\n" add "    // END 1\n}\n"         \
    "void lab_fill(float *out, size_t count) {\n    // " first " 2: count.\n" fill last "}\n"

#define ADD      "    int sum = a + b;\n    return sum;\n"
#define FILL     "    for (size_t i = 0; i < count; i++) {\n        out[i] = (float)i;\n    }\n"
#define END      "    // END 2\n"
#define SOLUTION LAB("GAP", END, ADD, FILL)
#define EXERCISE LAB("TODO", END, "    return 0;\n", "")
#define MUTANT                                                                                     \
    "lab1 fails on: fills\nCounts from 1.\n--- was\n        out[i] = (float)i;\n+++ becomes\n"     \
    "        out[i] = (float)i + 1.0f;\n"

// What the mutants of these tests give; the numbers are the hashes of the cases.
#define KNOWN                                                                                      \
    "lab1_from_one\nCounts from 1.\n"                                                              \
    "fills 2601b547 out[row 0][column 0]: off by 1 / 4 of 4 values are wrong\n\n"                  \
    "lab1_two_changes\nTwo changes, in any order.\nadds 46d43615 sum: got -1\n"

static void put_course(const char *exercise, const char *solution) {
    course_put("exercises/ch77/lab1_sum.c", exercise);
    course_put("exercises/ch77/answers.txt", "q1 = ?\nq2 = ?\n");
    course_put("solutions/ch77/lab1_sum.c", solution);
    course_put("solutions/ch77/answers.txt", "q1 = 512\nq2 = 3\n");
    course_put("tests/mutants/ch77/lab1_from_one.mutant", MUTANT);
    course_put("tests/grade/ch77/wrong_answers.txt", KNOWN);
}

START_TEST(a_course_that_is_right) {
    char *out;

    put_course(EXERCISE, SOLUTION);
    out = grade_status("--prove ch77", 0);
    has(out, "ok   ch77 lab1: solution scores 4/4\n");
    has(out, "ok   ch77 lab1: untouched exercise scores 0/4\n");
    has(out, "ok   ch77 lab1: exercise and solution are the same outside the gaps\n");
    has(out, "ok   ch77 lab1: 1 mutants\n");
    has(out, "ok   ch77 questions: solution scores 2/2\n");
    has(out, "ok   ch77 questions: untouched exercise scores 0/2\n");
    has(out, "ok   ch77 questions: both answers.txt name the questions asked\n");
    has(out, "ok   ch77 lab1_from_one: fails on `fills`\n");
    has(out, "\n8 passed, 0 failed\n");
    free(out);
}
END_TEST

START_TEST(points_of_the_readme) {
    char *out;

    put_course(EXERCISE, SOLUTION);
    course_put("exercises/ch77/README.md", "# Labs\n\n| file | points |\n|---|---|\n"
                                           "| `lab1_sum.c` | a | sum | 4 |\n"
                                           "| `answers.txt` | two numbers | 3 |\n");
    out = grade_status("--prove ch77", 1);
    has(out, "ok   ch77 lab1: the README tells its 4 points\n");
    has(out, "FAIL ch77 questions: has 2 points; the table of exercises/ch77/README.md says 3\n");
    has(out, "\n9 passed, 1 failed\n");
    free(out);
    ck_assert_int_eq(unlink("exercises/ch77/README.md"), 0);
}
END_TEST

typedef struct Pair {
    const char *exercise;
    const char *solution;
    const char *said; // the line of the gap rule; the proof fails on it
} Pair;

static const Pair pairs[] = {
    {"// another comment\n" EXERCISE, SOLUTION,
     "line 1 of the exercise and line 1 of the solution differ"},
    {EXERCISE "int more;\n", SOLUTION,
     "line 11 of the exercise and line 15 of the solution differ"},
    {LAB("TODO", "", "    return 0;\n", ""), SOLUTION, "has no `// END 2` in both files"},
    {EXERCISE, LAB("GAP", "", ADD, FILL), "has no `// END 2` in both files"},
    {EXERCISE, LAB("TODO", END, ADD, FILL), "the solution says TODO"},
    {SOLUTION, SOLUTION, "line 6 ends a gap that has not begun"},
    {"// nothing\n", "// nothing\n", "there is no gap"},
    {LAB("TODO", "        // END 2\n", "    return 0;\n", ""), SOLUTION,
     "the last lines of gap 2 differ"},
};

START_TEST(gaps_that_are_not_right) {
    char *out;

    put_course(pairs[_i].exercise, pairs[_i].solution);
    out = grade_status("--prove ch77", 1);
    has(out, "FAIL ch77 lab1: exercise and solution are the same outside the gaps: ");
    has(out, pairs[_i].said);
    free(out);
}
END_TEST

START_TEST(scores_and_answers_that_are_not_right) {
    char *out;

    put_course(LAB("TODO", END, ADD, ""), LAB("GAP", END, ADD, ""));
    course_put("solutions/ch77/answers.txt", "q1 = 512\n");
    course_put("exercises/ch77/answers.txt", "q1 = 512\nq2 = ?\nq3 = ?\n");
    unlink("tests/mutants/ch77/lab1_from_one.mutant");
    out = grade_status("--prove ch77", 1);
    has(out, "FAIL ch77 lab1: solution scores 2/4: `fills` ");
    has(out, "FAIL ch77 lab1: untouched exercise scores 2/4: `adds` passes");
    has(out, "FAIL ch77 lab1: 0 mutants");
    has(out, "FAIL ch77 questions: solution scores 1/2: `q2` not answered yet");
    has(out, "FAIL ch77 questions: untouched exercise: exercises/ch77/answers.txt:3: there is no "
             "question `q3`");
    has(out, "FAIL ch77 questions: asked: q1 q2 ; exercises: q1 q2 q3 ; solutions: q1 ");
    has(out, "\n1 passed, 6 failed\n");
    free(out);
}
END_TEST

// In a git checkout an exercise that has been filled in since proves nothing, and is no failure.
START_TEST(an_exercise_that_has_been_worked_on) {
    char *out;

    if (system("git --version >/dev/null 2>&1") != 0) {
        return; // without git such an exercise fails the proof, as above
    }
    put_course(EXERCISE, SOLUTION);
    ck_assert_int_eq(system("git init -q . && git add exercises && git -c user.name=t -c "
                            "user.email=t@t commit -q -m exercises"),
                     0);
    course_put("exercises/ch77/lab1_sum.c", LAB("TODO", END, ADD, ""));
    out = grade_status("--prove ch77", 0);
    has(out, "skip ch77 lab1: not proved: exercises/ch77 has been worked on\n");
    has(out, " passed, 0 failed\n");
    free(out);
    ck_assert_int_eq(system("rm -rf .git"), 0);
}
END_TEST

typedef struct Wrong {
    const char *file;
    const char *text;
    const char *said;
} Wrong;

static const Wrong wrongs[] = {
    {"lab1_a", "lab1 fails: fills\nWhat.\n--- was\n    return sum;\n+++ becomes\n",
     "the first line is not `labK fails on: test_name`"},
    {"lab1_b", "lab1 fails on: fills extra\nWhat.\n--- was\n    return sum;\n+++ becomes\n",
     "the first line is not"},
    {"lab1_c", "lab2 fails on: fills\nWhat.\n--- was\n    return sum;\n+++ becomes\n",
     "the first line names lab2_, the file another lab"},
    {"lab9_d", "lab9 fails on: fills\nWhat.\n--- was\n    return sum;\n+++ becomes\n",
     "0 files in solutions/ch77 begin with lab9_"},
    {"lab1_e", "lab1 fails on: fills\n--- was\n    return sum;\n+++ becomes\n",
     "the description is missing"},
    {"lab1_f", "lab1 fails on: fills\nWhat.\n", "there is no `--- was`"},
    {"lab1_g", "lab1 fails on: fills\nWhat.\n--- was\n    return sum;\n",
     "change 1 has no `+++ becomes`"},
    {"lab1_h", "lab1 fails on: fills\nWhat.\n--- was\n    return su;\n+++ becomes\n",
     "the lines of change 1 stand 0 times in the solution, not once"},
    {"lab1_i", "lab1 fails on: fills\nWhat.\n--- was\n}\n+++ becomes\n",
     "the lines of change 1 stand 2 times in the solution, not once"},
    {"lab1_j",
     "lab1 fails on: fills\nWhat.\n--- was\n    return sum;\n+++ becomes\n    return sum\n",
     "does not compile: lab1_sum.c:5:15: error: "},
    {"lab1_k",
     "lab1 fails on: fills\nWhat.\n--- was\n    return sum;\n+++ becomes\n    return b + a;\n",
     "passes `fills`"},
    {"lab1_l", "lab1 fails on: filled\nWhat.\n--- was\n    return sum;\n+++ becomes\n",
     "there is no test `filled`"},
    {"lab1_m",
     "lab1 fails on: nothing\nWhat.\n--- was\n    return sum;\n+++ becomes\n    return sum + 1;\n",
     "fails the lab's first test already, before `nothing`"},
    {"lab1_n",
     "lab1 fails on: adds\nWhat.\n--- was\n    return sum;\n+++ becomes\n    return sum + 1;\n",
     "fails on `adds`, whose report does not name it: build/grade --record ch77"},
};

START_TEST(mutants_that_are_not_right) {
    const size_t count = sizeof(wrongs) / sizeof(wrongs[0]);
    char path[80];
    char line[256];
    char *out;

    put_course(EXERCISE, SOLUTION);
    course_put("tests/mutants/ch77/lab1_two_changes.mutant",
               "lab1 fails on: adds\nTwo changes, in any order.\n--- was\n    return sum;\n"
               "+++ becomes\n    return total;\n--- was\n    int sum = a + b;\n+++ becomes\n"
               "    int total = a - b;\n");
    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "tests/mutants/ch77/%s.mutant", wrongs[i].file);
        course_put(path, wrongs[i].text);
    }
    out = grade_status("--prove ch77", 1);
    for (size_t i = 0; i < count; i++) {
        snprintf(line, sizeof(line), "FAIL ch77 %s: %s", wrongs[i].file, wrongs[i].said);
        has(out, line);
        snprintf(path, sizeof(path), "tests/mutants/ch77/%s.mutant", wrongs[i].file);
        unlink(path);
    }
    has(out, "ok   ch77 lab1_from_one: fails on `fills`");
    has(out, "ok   ch77 lab1_two_changes: fails on `adds`");
    has(out, "\n9 passed, 14 failed\n");
    free(out);
}
END_TEST

START_TEST(a_copy_without_solutions) {
    char *out;

    put_course(EXERCISE, SOLUTION);
    ck_assert_int_eq(rename("solutions", "elsewhere"), 0);
    out = grade_status("--prove", 0);
    has(out, "there is no solutions/ here");
    has(out, "\n0 passed, 0 failed\n");
    free(out);
    ck_assert_int_eq(rename("elsewhere", "solutions"), 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("grader_prove");
    TCase *tests = tcase_create("grader_prove");
    const int pair_count = sizeof(pairs) / sizeof(pairs[0]);
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(tests, 120);
    tcase_add_unchecked_fixture(tests, course_enter, course_leave);
    tcase_add_test(tests, a_course_that_is_right);
    tcase_add_test(tests, points_of_the_readme);
    tcase_add_loop_test(tests, gaps_that_are_not_right, 0, pair_count);
    tcase_add_test(tests, scores_and_answers_that_are_not_right);
    tcase_add_test(tests, an_exercise_that_has_been_worked_on);
    tcase_add_test(tests, mutants_that_are_not_right);
    tcase_add_test(tests, a_copy_without_solutions);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
