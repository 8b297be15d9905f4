// What instructors hand out: the student copy, the autograder for Gradescope, the workflow for
// GitHub Classroom, made from this course's chapter 2. TEST_FULL builds the copies from nothing and
// grades a class of 200.
#include "tests/unit/capture.h"
#include "tests/unit/fake_course.h"
#include "tests/unit/shell.h"

#include <check.h>
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static char root[PATH_MAX];
static char build[PATH_MAX]; // absolute
static char folder[64];      // of the running test, and its working directory

// What is compiled already is good for a copy as well: its files keep their times.
static void lend_build(const char *copy) {
    shell_run("mkdir -p '%s/build' && cp -p '%s/grade' '%s/build/' && cp -rp '%s/grade.d' "
              "'%s/build/'",
              copy, build, copy, build, copy);
}

// The last line of a report on chapter 2 of the copy, blanks squeezed. To be freed.
static char *score_of(const char *copy) {
    return shell_output(
        "cd '%s' && { BUILD=build build/grade ch02 || [ $? -eq 1 ]; } | tail -n 1 | "
        "cut -d'[' -f1 | tr -s ' '",
        copy);
}

static void enter(void) {
    ck_assert_int_eq(chdir(root), 0);
    setenv("BUILD", build, 1);
    shell_run("BUILD='%s' '%s/grade' --from solutions ch02", build, build);
    enter_folder(folder);
}

// The instructor of this course may have set something; the tests count on the suites' points.
static void set_nothing(const char *copy) {
    shell_run(
        "for file in '%s'/tests/grade/ch*/assignment.txt; do echo '# nothing' >\"$file\"; done",
        copy);
}

// A course of its own to set things in, so much of it as chapter 2 needs. What is compiled lies in
// its build/.
static void make_course(void) {
    shell_run("mkdir course && cd '%s' && tar cf - Makefile LICENSE README.md .gitignore "
              ".clang-format common docs exercises solutions tests/grade tests/instructor "
              "tests/mutants tests/unit chapters/ch02* | tar xf - -C '%s/course'",
              root, folder);
    set_nothing("course");
    lend_build("course");
    setenv("BUILD", "build", 1);
}

START_TEST(a_student_copy_grades_without_answers) {
    char *out;

    enter();
    make_course();
    shell_run("course/tests/instructor/handout.sh copy 2");
    shell_run("cd copy && [ -f Makefile ] && [ -f LICENSE ] && [ -d exercises/ch02 ] && "
              "[ -d tests/grade/ch02 ] && [ -d common/simt ] && [ -f docs/grading.md ]");
    out = shell_output("cd copy && find . -name '*.mutant' -o -name solutions -o -name mutants "
                       "-o -name instructor -o -name 'instructor.md' -o -name 'test_*' "
                       "-o -name 'ch0[13-9]*'");
    ck_assert_str_eq(out, "");
    free(out);
    ck_assert_int_eq(shell(&out, "grep -rE '// GAP [0-9]' copy/exercises copy/tests/grade/ch02"),
                     1);
    free(out);
    ck_assert_int_eq(shell(&out, "grep -rF '](instructor.md)' copy/docs"), 1);
    free(out);
    lend_build("copy");
    out = score_of("copy");
    ck_assert_str_eq(out, "ch02 0/69 \n");
    free(out);
    shell_run("cp '%s'/solutions/ch02/* copy/exercises/ch02/", root);
    out = score_of("copy");
    ck_assert_str_eq(out, "ch02 69/69 \n");
    free(out);
    remove_folder(folder);
}
END_TEST

START_TEST(a_copy_is_made_only_where_nothing_is) {
    char *out;

    enter();
    shell_run("mkdir full empty && touch full/mine");
    ck_assert_int_eq(shell(&out, "'%s/tests/instructor/handout.sh' full 1", root), 2);
    has(out, "full is there already and not an empty folder");
    free(out);
    shell_run("[ \"$(ls full)\" = mine ] && '%s/tests/instructor/handout.sh' empty 1-2,9 && "
              "[ \"$(ls empty/exercises | tr '\\n' ' ')\" = 'ch01 ch02 ch09 ' ]",
              root);
    ck_assert_int_eq(shell(&out, "'%s/tests/instructor/handout.sh' other 1-77", root), 2);
    has(out, "there is no chapter");
    free(out);
    ck_assert_int_eq(shell(&out, "'%s/tests/instructor/handout.sh' other 1,5-2", root), 2);
    has(out, "CHAPTERS=1,5-2: 5-2 runs backwards; write 2-5");
    free(out);
    shell_run("[ ! -e other ]");
    ck_assert_int_eq(shell(&out, "'%s/tests/instructor/handout.sh'", root), 2);
    has(out, "make handout OUT=");
    free(out);
    remove_folder(folder);
}
END_TEST

// The links of the copy's pages that lead nowhere, one a line. To be freed.
static char *dead_links(const char *copy) {
    return shell_output(
        "cd '%s' && find . -name '*.md' | while read -r page; do "
        "grep -oE '\\]\\([^)# ]+' \"$page\" | sed 's/^](//' | grep -v : | while read -r link; do "
        "[ -e \"${page%%/*}/$link\" ] || echo \"$page $link\"; done; done",
        copy);
}

START_TEST(no_link_in_a_copy_is_dead) {
    char *out;

    enter();
    shell_run("'%s/tests/instructor/handout.sh' some 1-3 && '%s/tests/instructor/handout.sh' all",
              root, root);
    out = dead_links("some");
    ck_assert_str_eq(out, "");
    free(out);
    out = dead_links("all");
    ck_assert_str_eq(out, "");
    free(out);
    shell_run("grep -qF '](../chapters/ch03_merge/README.md)' some/docs/drill.md && "
              "grep -qF '](../chapters/ch09_paged/README.md)' all/docs/drill.md && "
              "cmp '%s/docs/drill.md' all/docs/drill.md",
              root);
    remove_folder(folder);
}
END_TEST

// Where the course is a git checkout, what git does not know stays.
START_TEST(files_that_git_does_not_know_stay) {
    char *out;

    if (!works("git --version")) {
        return;
    }
    enter();
    make_course();
    shell_run("cd course && git init -q . && git add -A && echo mine >docs/mine.md && "
              "echo mine >exercises/ch02/mine.c");
    out = shell_output("course/tests/instructor/handout.sh 'a copy' 2");
    has(out, "docs/mine.md is not in git: left out\nexercises/ch02/mine.c is not in git: left out");
    has(out, "/a copy' && make next\n");
    has(out, "try it: cd '/");
    free(out);
    shell_run("cd 'a copy' && ! find . -name 'mine*' | grep . && [ -f docs/drill.md ] && "
              "[ -f exercises/ch02/.untouched/lab2_resume.c ]");
    remove_folder(folder);
}
END_TEST

// The grader refuses these; so does the handout, and with its words.
START_TEST(mistakes_in_the_settings_are_told) {
    static const char *const wrong[][2] = {
        {"hidden lab1.nix", "lab1 has no test `nix`; its tests are:"},
        {"Hidden lab1.only_the_sink", "`Hidden` is no setting"},
        {"foo bar", "`foo` is no setting"},
        {"points lab1 abc", "points `abc`: expected 0 to 1000"},
        {"due yesterday", "due `yesterday`: expected a date and a time"},
        {"hidden lab1.one_block", "`one_block` is the first test of lab1"},
        {"hidden lab1.a lab1.b lab1.c lab1.d lab1.e lab1.f lab1.g lab1.h lab1.i lab1.j lab1.k "
         "lab1.l",
         "expected a setting of at most 12 words"},
    };
    char *out;

    enter();
    make_course();
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        shell_run("printf '# settings\\n%s\\n' >course/tests/grade/ch02/assignment.txt",
                  wrong[i][0]);
        ck_assert_int_eq(shell(&out, "course/tests/instructor/handout.sh copy 2"), 2);
        has(out, "tests/grade/ch02/assignment.txt:2:\n");
        has(out, wrong[i][1]);
        free(out);
        shell_run("[ ! -e copy ]");
    }
    ck_assert_int_eq(shell(&out, "course/tests/instructor/gradescope.sh 2 \"$PWD/ag.zip\""), 2);
    has(out, "expected a setting of at most 12 words");
    free(out);
    ck_assert_int_eq(shell(&out, "BUILD=none course/tests/instructor/handout.sh copy 2"), 2);
    has(out, "there is no none/grade, which checks assignment.txt");
    free(out);
    shell_run("[ ! -e ag.zip ] && course/tests/instructor/handout.sh copy 1");
    remove_folder(folder);
}
END_TEST

// What somebody has written into the labs here does not go out, and neither do hidden tests.
START_TEST(own_work_and_hidden_tests_stay) {
    char *out;

    enter();
    make_course();
    shell_run("cd course && cp solutions/ch02/lab1* exercises/ch02 && "
              "printf 'hidden lab1.only_the_sink questions.q2,lab2.every_interruption # both\\n"
              "points lab1.only_the_sink,3\\nhidden questions.q3\\n"
              "# nobody expects lab1.only_the_sink\\n# every_interruption neither\\n"
              "points lab2 26 # only_the_sink: lab 1\\n# the end\\n' "
              ">tests/grade/ch02/assignment.txt");
    out = shell_output("course/tests/instructor/handout.sh copy 2");
    has(out, "exercises/ch02/lab1_sink_attention.c has been worked on");
    has(out, "not in the copy, since hidden: lab1.only_the_sink lab2.every_interruption");
    free(out);
    shell_run("cmp copy/exercises/ch02/lab1_sink_attention.c "
              "course/exercises/ch02/.untouched/lab1_sink_attention.c");
    out = shell_output("cd copy/tests/grade/ch02 && cat lab1*.c lab2*.c wrong_answers.txt "
                       "assignment.txt");
    lacks(out, "only_the_sink");
    lacks(out, "\"every_interruption\"");
    lacks(out, "static void test_every_interruption");
    lacks(out, "\nevery_interruption ");
    has(out, "static void test_rows_without_keys");
    free(out);
    out = file_text("copy/tests/grade/ch02/assignment.txt");
    ck_assert_str_eq(out, "hidden questions.q2\nhidden questions.q3\npoints lab2 26\n# the end\n");
    free(out);
    set_nothing("copy");
    lend_build("copy");
    shell_run("cp '%s'/solutions/ch02/* copy/exercises/ch02/", root);
    out = score_of("copy");
    ck_assert_str_eq(out, "ch02 66/66 \n");
    free(out);
    // Solutions in the copy are found.
    ck_assert_int_eq(shell(&out,
                           "awk -f '%s/tests/instructor/leaks.awk' '%s'/solutions/ch02/lab*.c "
                           "copy=1 copy/exercises/ch02/lab*.c",
                           root, root),
                     1);
    free(out);
    remove_folder(folder);
}
END_TEST

// A suite in another form than hide.awk reads: the test would go out.
START_TEST(a_hidden_test_that_stays_is_told) {
    char *out;

    enter();
    make_course();
    shell_run("cd course && sed -i 's/^    {\"only_the_sink\",/   &/' tests/grade/ch02/lab1*.c && "
              "echo 'hidden lab1.only_the_sink' >tests/grade/ch02/assignment.txt");
    ck_assert_int_eq(shell(&out, "course/tests/instructor/handout.sh copy 2"), 2);
    has(out, "lab1.only_the_sink is hidden but still in the suite; ");
    has(out, "copy is not fit to be handed out");
    free(out);
    remove_folder(folder);
}
END_TEST

// Other strings of the suite that equal its name are no reason to refuse: here "window" of ch07.
START_TEST(a_hidden_test_may_be_called_as_what_it_tests) {
    char *out;

    enter();
    make_course();
    shell_run("cd course && echo 'hidden lab1.window' >tests/grade/ch07/assignment.txt");
    out = shell_output("course/tests/instructor/handout.sh copy 7");
    has(out, "ch07: not in the copy, since hidden: lab1.window");
    free(out);
    out = shell_output("cat copy/tests/grade/ch07/lab1*.c");
    lacks(out, "    {\"window\",");
    has(out, "\"window\"");
    has(out, "    {\"sinks_stay_causal\",");
    free(out);
    remove_folder(folder);
}
END_TEST

START_TEST(gradescope_gets_its_results) {
    json_error_t error;
    json_t *report;
    const json_t *test;
    char *out;

    if (!works("python3 --version")) {
        return;
    }
    enter();
    ck_assert_int_eq(shell(&out, "'%s/tests/instructor/gradescope.sh' 77", root), 2);
    ck_assert_str_eq(out, "gradescope: CH=77: there is no chapter 77 here\n");
    free(out);
    ck_assert_int_eq(shell(&out, "'%s/tests/instructor/gradescope.sh' ''", root), 2);
    has(out, "name the chapter: make gradescope CH=05");
    free(out);
    shell_run(
        "BUILD='%s' '%s/tests/instructor/gradescope.sh' 02 ag.zip && mkdir -p base/submission/w "
        "base/source && python3 -m zipfile -e ag.zip base/source && "
        "chmod +x base/source/run_autograder base/source/course/tests/instructor/gradebook",
        build, root);
    out = shell_output("find base -name '*.mutant' -o -name solutions -o -name mutants; "
                       "grep -rlE '// GAP [0-9]' base || true");
    ck_assert_str_eq(out, "");
    free(out);
    lend_build("base/source/course");
    set_nothing("base/source/course");
    shell_run("cp '%s'/solutions/ch02/lab[12]* base/submission/w && touch base/submission/notes.md",
              root);
    shell_run("printf '{\"created_at\": \"2018-07-01T14:22:32.365935-07:00\", \"users\": "
              "[{\"email\": \"s@example.com\"}]}' >base/submission_metadata.json");
    shell_run("unset BUILD; AUTOGRADER_BASE=\"$PWD/base\" base/source/run_autograder");
    report = json_load_file("base/results/results.json", 0, &error);
    ck_assert_msg(report != NULL, "not JSON: %s", error.text);
    ck_assert_int_eq(json_integer_value(json_object_get(report, "score")), 43);
    has(json_string_value(json_object_get(report, "output")), "not graded: notes.md");
    ck_assert_int_eq(json_array_size(json_object_get(report, "tests")), 62);
    test = json_array_get(json_object_get(report, "tests"), 1);
    ck_assert_str_eq(json_string_value(json_object_get(test, "status")), "passed");
    ck_assert_int_eq(json_integer_value(json_object_get(test, "max_score")), 2);
    ck_assert_int_eq(json_integer_value(json_object_get(test, "score")), 2);
    has(json_string_value(json_object_get(test, "name")), "rising_ladder");
    ck_assert_str_eq(json_string_value(json_object_get(test, "visibility")), "visible");
    json_decref(report);
    remove_folder(folder);
}
END_TEST

START_TEST(classroom_has_a_step_for_each_test) {
    char *out;

    if (!works("python3 --version")) {
        return;
    }
    enter();
    make_course();
    lend_build("course");
    shell_run("CLASSROOM=2 BUILD=build course/tests/instructor/handout.sh copy 2 && "
              "[ ! -e course/build/progress ]");
    out = shell_output("cat copy/.github/workflows/classroom.yml");
    has(out, "          command: make grade-ch02 LAB=1 TEST=rising_ladder\n"
             "          timeout: 5\n          max-score: 2\n");
    has(out, "          command: make grade-ch02 TEST=q8\n");
    has(out, "          LAB1_ONE_BLOCK_RESULTS: \"${{steps.lab1_one_block.outputs.result}}\"\n");
    has(out, "          runners: lab1_one_block,lab1_rising_ladder,");
    free(out);
    out = shell_output("grep -c 'uses: classroom-resources/autograding-command-grader@v1' "
                       "copy/.github/workflows/classroom.yml");
    ck_assert_str_eq(out, "62\n");
    free(out);
    remove_folder(folder);
}
END_TEST

// From nothing, as a student and an instructor would.
START_TEST(copies_build_by_themselves) {
    char *out;

    if (!works("python3 --version")) {
        return;
    }
    enter();
    shell_run("'%s/tests/instructor/handout.sh' copy 1-2 && cd copy && unset BUILD && "
              "make NVCC= -j2 build/grade",
              root);
    out = shell_output("cd copy && unset BUILD && make NVCC= next && make NVCC= test");
    has(out, "Next: ch01 lab1");
    has(out, "2 passed, 0 failed");
    free(out);
    ck_assert_int_ne(shell(&out, "cd copy && unset BUILD && make NVCC= bench"), 0);
    has(out, "not in this copy");
    free(out);
    shell_run(
        "'%s/tests/instructor/gradescope.sh' 01 ag.zip && mkdir -p base/submission base/source "
        "&& python3 -m zipfile -e ag.zip base/source && cp '%s'/solutions/ch01/* "
        "base/submission",
        root, root);
    set_nothing("base/source/course");
    shell_run("export AUTOGRADER_BASE=\"$PWD/base\" AUTOGRADER_NO_INSTALL=1 && "
              "unset BUILD && sh base/source/setup.sh && sh base/source/run_autograder");
    out = shell_output("cat base/results/results.json");
    has(out, "\"score\": 42,");
    free(out);
    remove_folder(folder);
}
END_TEST

// Processor seconds of the programs that have ended.
static double processor_seconds(void) {
    struct rusage used;

    ck_assert_int_eq(getrusage(RUSAGE_CHILDREN, &used), 0);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

// Under 5 minutes on two cores. On a busy machine it takes longer, but not more processor time.
START_TEST(a_class_of_two_hundred) {
    time_t start;
    double before;
    double used;
    char *out;

    if (!works("python3 --version")) {
        return;
    }
    enter();
    make_course();
    shell_run("here=$PWD && cd '%s' && tests/instructor/make_class.py \"$here/class\" ch02 200",
              root);
    start = time(NULL);
    before = processor_seconds();
    out = shell_output(
        "course/tests/instructor/gradebook grade --grader '%s/grade' --submissions class "
        "--chapter ch02 --out results --jobs 2",
        build);
    has(out, "200 submissions, 200 graded, 0 without a score");
    free(out);
    used = processor_seconds() - before;
    printf("200 submissions: %ld s, %.0f s of processor time\n", (long)(time(NULL) - start), used);
    ck_assert_double_lt(used / 2, 300);
    // What was solved has full marks, what was not touched none, a fault costs something.
    shell_run("'%s/tests/instructor/gradebook' merge results >scores.csv && "
              "awk -F, 'NR == FNR { kind[$1] = $2; next } FNR > 1 { k = kind[$1]; wrong += "
              "(k == \"solved\" && $2 != 69) || (k == \"untouched\" && $2 != 0) || "
              "(k == \"fault\" && $2 >= 69) || (k == \"broken\" && $2 >= 69) } "
              "END { exit wrong > 0 }' class.csv scores.csv",
              root);
    remove_folder(folder);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("handout");
    TCase *tests = tcase_create("handout");
    SRunner *runner;
    int failed;

    if (getcwd(root, sizeof(root)) == NULL ||
        realpath(getenv("BUILD") != NULL ? getenv("BUILD") : "build", build) == NULL) {
        fprintf(stderr, "run it from the course's top folder, with BUILD set\n");
        return 2;
    }
    tcase_set_timeout(tests, 1200);
    tcase_add_test(tests, a_student_copy_grades_without_answers);
    tcase_add_test(tests, a_copy_is_made_only_where_nothing_is);
    tcase_add_test(tests, no_link_in_a_copy_is_dead);
    tcase_add_test(tests, files_that_git_does_not_know_stay);
    tcase_add_test(tests, mistakes_in_the_settings_are_told);
    tcase_add_test(tests, own_work_and_hidden_tests_stay);
    tcase_add_test(tests, a_hidden_test_that_stays_is_told);
    tcase_add_test(tests, a_hidden_test_may_be_called_as_what_it_tests);
    tcase_add_test(tests, gradescope_gets_its_results);
    tcase_add_test(tests, classroom_has_a_step_for_each_test);
    if (getenv("TEST_FULL") != NULL) {
        tcase_add_test(tests, copies_build_by_themselves);
        tcase_add_test(tests, a_class_of_two_hundred);
    }
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
