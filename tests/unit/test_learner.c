// The grader's commands for learners: next, hint, watch, reset, solution, on a small course; and
// that the real course has what they need.
#include "tests/unit/fake_course.h"
#include "tests/unit/shell.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char stub[] = "// TODO\n";

// Fails unless this is all that the file holds.
static void holds(const char *path, const char *want) {
    char *text = file_text(path);

    ck_assert_str_eq(text, want);
    free(text);
}

static bool exists(const char *path) {
    return access(path, F_OK) == 0;
}

// A chapter as handed out, nothing remembered.
static void start_over(void) {
    unlink("build/progress/ch77");
    unlink("build/progress/ch77.hints");
    unlink("exercises/ch77/hints.txt");
    course_put_lab("exercises", "return 0;", "");
    course_put("exercises/ch77/answers.txt", "q1 = ?\nq2 = ?\n");
}

// A refusal: the exit status is 1 and stderr contains the piece.
static void refused(const char *words, const char *piece) {
    Captured captured = course_grade(words);

    ck_assert_int_eq(captured.status, 1);
    has(captured.err, piece);
    ck_assert_int_le(longest_line(captured.err), 80);
    captured_free(&captured);
}

// ---- hints --------------------------------------------------------------------------------------

static const char hints[] = "# a comment\n\n[lab1]\nLook at +.\n  a [lab9] inside\n---\n\n"
                            "Add them.\n\n---\nreturn a + b;\n\n[lab2]\nanother lab\n";

START_TEST(hints_come_in_their_order) {
    const char *const want[] = {"hint 1 of 3\n\n  Look at +.\n    a [lab9] inside\n\n",
                                "hint 2 of 3\n\n  Add them.\n\n",
                                "hint 3 of 3\n\n  return a + b;\n\n", "you have seen all 3 hints"};
    char *out;

    course_put("exercises/ch77/hints.txt", hints);
    for (int i = 0; i < 4; i++) {
        out = grade_status("--hint --lab lab1 77", 0);
        has(out, want[i]);
        lacks(out, i == 0 ? "of 3\n\n  Add" : "Look");
        has(out, i < 3 ? "Not graded yet: make grade-ch77 LAB=1" : "make hint CH=77 LAB=1 AGAIN=1");
        free(out);
    }
    out = grade_status("--hint --again --lab 1 ch77", 0);
    has(out, want[0]);
    has(out, want[1]);
    has(out, want[2]);
    lacks(out, "another");
    free(out);
}
END_TEST

START_TEST(hints_seen_are_shown_again) {
    char *out;

    course_put("exercises/ch77/hints.txt", hints);
    free(grade_status("--lab 1 ch77", 1));
    out = grade_status("--hint --again --lab 1 ch77", 0); // none seen: the first
    has(out, "hint 1 of 3");
    lacks(out, "Not graded yet");
    free(out);
    out = grade_status("--hint --again --lab 1 ch77", 0);
    has(out, "hint 1 of 3");
    lacks(out, "hint 2 of 3");
    free(out);
    out = grade_status("--hint --lab 1 ch77", 0);
    has(out, "hint 2 of 3");
    free(out);
    course_put("exercises/ch77/hints.txt", "[lab1]\nOne is left.\n");
    out = grade_status("--hint --lab 1 ch77", 0);
    has(out, "you have seen its one hint.\n");
    free(out);
}
END_TEST

START_TEST(missing_hints_are_said) {
    refused("--hint --lab 1 ch77", "No hints for ch77: exercises/ch77/hints.txt: No such file");
    course_put("exercises/ch77/hints.txt", hints);
    refused("--hint --lab questions ch77", "No hints for ch77 questions");
}
END_TEST

// ---- reset --------------------------------------------------------------------------------------

START_TEST(reset_keeps_each_backup) {
    const char *lab = "exercises/ch77/lab1_sum.c";
    char *out;

    course_put("exercises/ch77/.untouched/lab1_sum.c", stub);
    course_put(lab, "first try\n");
    out = grade_status("--reset --yes --lab 1 ch77", 0);
    has(out, "exercises/ch77/lab1_sum.c is untouched again.\n");
    has(out, "Your file is now exercises/ch77/lab1_sum.c.backup-1\n");
    free(out);
    holds(lab, stub);
    course_put(lab, "second try\n");
    out = grade_status("--reset --yes --lab 1 ch77", 0);
    has(out, "lab1_sum.c.backup-2\n");
    free(out);
    holds("exercises/ch77/lab1_sum.c.backup-1", "first try\n");
    holds("exercises/ch77/lab1_sum.c.backup-2", "second try\n");
    out = grade_status("--reset --lab 1 ch77", 0);
    has(out, "is untouched already");
    free(out);
    ck_assert_int_eq(unlink(lab), 0);
    out = grade_status("--reset --lab 1 ch77", 0); // nothing can be lost: nothing is asked
    has(out, "is untouched again");
    lacks(out, "backup");
    free(out);
    ck_assert(!exists("exercises/ch77/lab1_sum.c.backup-3"));
    holds(lab, stub);
}
END_TEST

START_TEST(reset_of_the_answers) {
    course_put("exercises/ch77/.untouched/answers.txt", "q1 = ?\n");
    course_put("exercises/ch77/answers.txt", "q1 = 7\n");
    free(grade_status("--reset --yes --lab questions ch77", 0));
    holds("exercises/ch77/answers.txt", "q1 = ?\n");
    holds("exercises/ch77/answers.txt.backup-1", "q1 = 7\n");
    ck_assert_int_eq(unlink("exercises/ch77/.untouched/answers.txt"), 0);
    grade_error("--reset --yes --lab questions ch77", "without it there is nothing to put back");
}
END_TEST

// Makes stdin a terminal on which `answer` was typed.
static void type(const char *answer) {
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    int keyboard;

    ck_assert_int_ge(terminal, 0);
    ck_assert_int_eq(grantpt(terminal), 0);
    ck_assert_int_eq(unlockpt(terminal), 0);
    keyboard = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    ck_assert_int_ge(keyboard, 0);
    ck_assert_int_eq(write(terminal, answer, strlen(answer)), (ssize_t)strlen(answer));
    ck_assert_int_eq(dup2(keyboard, STDIN_FILENO), STDIN_FILENO);
}

START_TEST(reset_asks_first) {
    const char *const no[] = {"n\n", "\n", "\004", "yellow\n"};
    const int nothing = open("/dev/null", O_RDONLY);
    char *out;

    course_put("exercises/ch77/.untouched/lab1_sum.c", stub);
    course_put("exercises/ch77/lab1_sum.c", "mine\n");
    ck_assert_int_eq(dup2(nothing, STDIN_FILENO), STDIN_FILENO);
    refused("--reset --lab 1 ch77", "make reset CH=77 LAB=1 YES=1");
    for (int i = 0; i < 4; i++) {
        type(no[i]);
        out = grade_status("--reset --lab 1 ch77", 1);
        has(out, "Put exercises/ch77/lab1_sum.c back to its untouched state?");
        has(out, "Nothing was changed.");
        free(out);
    }
    holds("exercises/ch77/lab1_sum.c", "mine\n");
    type("y\n");
    free(grade_status("--reset --lab 1 ch77", 0));
    holds("exercises/ch77/lab1_sum.c", stub);
}
END_TEST

// ---- next and solution --------------------------------------------------------------------------

START_TEST(next_is_the_first_lab_without_full_marks) {
    char *out = grade_status("--next", 0);

    course_put("chapters/ch77_sums/README.md", "a lesson\n");
    has(out, "ch77     0/6 ");
    has(out, "Next: ch77 lab1, a sum & more\n  points   4, not graded yet\n");
    lacks(out, "make ch77");
    free(out);
    course_put_lab("exercises", NULL, "");
    free(grade_status("ch77", 1));
    out = grade_status("--next", 0);
    has(out, "points   2 of 4 so far");
    has(out, "read     chapters/ch77_sums/README.md\n");
    has(out, "run      make ch77 && ./ch77\n");
    has(out, "edit     exercises/ch77/lab1_sum.c\n");
    has(out, "grade    make grade-ch77 LAB=1\n");
    ck_assert_int_le(longest_line(out), 80);
    free(out);
    course_put_lab("exercises", NULL, NULL);
    free(grade_status("--lab 1 ch77", 0));
    out = grade_status("--next", 0);
    has(out, "ch77     4/6 ");
    has(out, "Next: ch77 questions, the numbers\n");
    has(out, "edit     exercises/ch77/answers.txt\n");
    has(out, "make hint CH=77 LAB=questions\n");
    free(out);
    course_put("exercises/ch77/answers.txt", "q1 = 512\nq2 = 3\n");
    free(grade_status("--lab questions ch77", 0));
    out = grade_status("--next", 0);
    has(out, "Well done: full marks in ch77, 6 points.");
    free(out);
    out = grade_status("--progress", 0);
    has(out, "ch77     6/6    [##########]  done\n");
    free(out);
}
END_TEST

START_TEST(a_solution_is_shown_after_passing) {
    Captured captured;
    char *out;

    refused("--solution --lab 1 ch77", "This copy of the course has no solutions/");
    course_put("solutions/ch77/lab1_sum.c", "// one way\n");
    captured = course_grade("--solution --lab 1 ch77");
    ck_assert_int_eq(captured.status, 1);
    has(captured.out, "FAIL adds"); // what is missing
    has(captured.err, "The solution is shown once ch77 lab1 has full marks.");
    lacks(captured.out, "one way");
    captured_free(&captured);
    course_put_lab("exercises", NULL, NULL);
    out = grade_status("--solution --lab 1 ch77", 0); // graded on the spot
    has(out, "solutions/ch77/lab1_sum.c:\n\n// one way\n");
    free(out);
    course_put_lab("exercises", "return 0;", "");
    out = grade_status("--solution --lab 1 ch77", 0); // passed before
    has(out, "// one way\n");
    lacks(out, "FAIL");
    free(out);
    refused("--solution --lab questions ch77", "There is no solution of this lab");
}
END_TEST

// ---- watch --------------------------------------------------------------------------------------

static const char waiting[] = "Waiting for the next save";

static int count(const char *text, const char *piece) {
    int found = 0;

    while ((text = strstr(text, piece)) != NULL) {
        text++;
        found++;
    }
    return found;
}

// Starts the watch of one lab with its output in watch.out.
static pid_t start_watch(const char *lab) {
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (child == 0) {
        int out = open("watch.out", O_WRONLY | O_CREAT | O_TRUNC, 0644);

        dup2(out, STDOUT_FILENO);
        dup2(out, STDERR_FILENO);
        execl(course_grader(), "grade", "--watch", "--lab", lab, "ch77", (char *)NULL);
        _exit(127);
    }
    return child;
}

// Waits until the watch has waited `times` times; returns its output, valid until the next call.
static const char *watched(int times) {
    static char *text; // of the last call

    for (int turn = 0; turn == 0 || (turn < 4800 && count(text, waiting) < times); turn++) {
        usleep(turn > 0 ? 25000 : 0);
        free(text);
        text = file_text("watch.out");
    }
    if (count(text, waiting) != times) {
        ck_abort_msg("the watch graded %d times, not %d:\n%s", count(text, waiting), times, text);
    }
    return text;
}

START_TEST(watch_grades_at_each_save) {
    const char *lab = "exercises/ch77/lab1_sum.c";
    const char *text;
    char *all;
    int status;
    pid_t child;

    course_put("watch.out", "");
    child = start_watch("1");
    text = watched(1);
    has(text, "ch77 lab1, lab1_sum.c ----");
    has(text, "Stuck? make hint CH=77 LAB=1\n");
    course_put_lab("exercises", NULL, ""); // written in place
    has(watched(2), "ch77     2/4");
    course_put("exercises/ch77/lab1_sum.c.swp", "an editor's own file\n");
    course_put("exercises/ch77/answers.txt", "q1 = 512\n");
    usleep(700000);
    watched(2);
    course_put_lab("other", NULL, NULL); // saved by a rename
    ck_assert_int_eq(rename("other/ch77/lab1_sum.c", lab), 0);
    text = watched(3);
    has(text, "ch77     4/4    [##########]\n");
    has(text, "Next: questions, Questions: make watch CH=77 LAB=questions\n");
    ck_assert_int_eq(rename("exercises/ch77", "exercises/old"), 0); // inotify does not see this
    ck_assert_int_eq(rename("exercises/old", "exercises/ch77"), 0);
    course_put_lab("other", "return 7;", NULL);
    ck_assert_int_eq(rename("other/ch77/lab1_sum.c", lab), 0);
    has(watched(4), "sum: got 7, expected 5");
    ck_assert_int_eq(kill(child, SIGINT), 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    all = file_text("watch.out");
    has(all, "The watch has ended.");
    ck_assert_int_le(longest_line(all), 80);
    free(all);
    unlink("exercises/ch77/lab1_sum.c.swp");
}
END_TEST

START_TEST(watch_ends_while_a_test_runs) {
    char *all;
    int status;
    pid_t child;

    course_put_lab("exercises", "for (;;) { pause(); } return a + b;", NULL);
    course_put("watch.out", "");
    child = start_watch("lab1");
    shell_run("for i in $(seq 600); do sleep 0.1; grep -q 'ch77 lab1' watch.out && exit 0; done; "
              "exit 1");
    usleep(1000000); // most likely the test runs by now; the end is the same if it does not
    ck_assert_int_eq(kill(child, SIGINT), 0); // to the watch alone, which passes it on
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    all = file_text("watch.out");
    has(all, "The watch has ended.");
    lacks(all, waiting);
    free(all);
}
END_TEST

// ---- mistakes -----------------------------------------------------------------------------------

START_TEST(mistakes_in_the_commands) {
    const char *const commands[] = {"hint", "reset", "solution"};

    for (int i = 0; i < 3; i++) {
        char words[64];
        char piece[80];

        snprintf(words, sizeof(words), "--%s", commands[i]);
        snprintf(piece, sizeof(piece), "make %s needs a chapter and a lab: make %s CH=01 LAB=1",
                 commands[i], commands[i]);
        grade_error(words, piece);
        snprintf(words, sizeof(words), "--%s 77", commands[i]);
        grade_error(words, "needs a lab as well: LAB= one of 1, questions");
        snprintf(words, sizeof(words), "--%s --lab 3 ch77", commands[i]);
        grade_error(words, "ch77 has no such lab; LAB= takes one of 1, questions");
    }
    grade_error("--watch", "make watch needs a chapter");
    grade_error("--watch --lab 3 ch77", "ch77 has no such lab");
    grade_error("--hint --lab two ch77", "--lab two: a lab's number is needed");
    grade_error("--hint --lab 1 5", "ch05 has no labs; chapters with labs: ch77");
}
END_TEST

// ---- the real course ----------------------------------------------------------------------------

// The output of a command, one line a call; false at its end.
static bool next_line(FILE *pipe, char line[256]) {
    if (fgets(line, 256, pipe) == NULL) {
        return false;
    }
    line[strcspn(line, "\n")] = '\0';
    return true;
}

// Each exercise has its untouched copy, and is that copy as long as git sees no change in it.
START_TEST(untouched_copies_equal_the_exercises) {
    FILE *files = popen("find exercises/ch[0-9][0-9] -maxdepth 1 -name 'lab[0-9]*_*.c' -o "
                        "-maxdepth 1 -name 'lab[0-9]*_*.cu' -o -maxdepth 1 -name answers.txt",
                        "r");
    char path[256];
    int found = 0;

    for (; next_line(files, path); found++) {
        const char *name = strrchr(path, '/') + 1;
        char copy[300];
        char command[1024];

        snprintf(copy, sizeof(copy), "%.*s.untouched/%s", (int)(name - path), path, name);
        ck_assert_msg(exists(copy), "there is no %s", copy);
        snprintf(command, sizeof(command),
                 "git diff --quiet HEAD -- %s 2>/dev/null || exit 0; cmp %s %s", path, path, copy);
        ck_assert_msg(system(command) == 0, "%s is not %s: make untouched", path, copy);
    }
    pclose(files);
    ck_assert_int_ge(found, 9);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("learner");
    TCase *real = tcase_create("the course");
    TCase *tests = tcase_create("learner");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(real, 600);
    tcase_add_test(real, untouched_copies_equal_the_exercises);
    suite_add_tcase(suite, real);
    tcase_set_timeout(tests, 600);
    tcase_add_unchecked_fixture(tests, course_enter, course_leave);
    tcase_add_checked_fixture(tests, start_over, NULL);
    tcase_add_test(tests, hints_come_in_their_order);
    tcase_add_test(tests, hints_seen_are_shown_again);
    tcase_add_test(tests, missing_hints_are_said);
    tcase_add_test(tests, next_is_the_first_lab_without_full_marks);
    tcase_add_test(tests, a_solution_is_shown_after_passing);
    tcase_add_test(tests, watch_grades_at_each_save);
    tcase_add_test(tests, watch_ends_while_a_test_runs);
    tcase_add_test(tests, mistakes_in_the_commands);
    tcase_add_test(tests, reset_keeps_each_backup);
    tcase_add_test(tests, reset_of_the_answers);
    tcase_add_test(tests, reset_asks_first);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
