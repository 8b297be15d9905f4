// The grader against labs that misbehave, answers of all kinds, and its own output formats.
#include "tests/unit/fake_course.h"
#include "tests/unit/shell.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// A file that whoever started the grader has open is closed to a lab.
START_TEST(inherited_files_are_closed) {
    struct stat info;
    const int fd = open("inherited", O_RDWR | O_CREAT | O_TRUNC, 0600);

    ck_assert_int_ge(fd, 0);
    course_put_lab("exercises",
                   "for (int fd = 3; fd < 40; fd++) { if (write(fd, \"x\", 1) < 0) { continue; } } "
                   "return a + b;",
                   NULL);
    free(grade_status("--lab 1 ch77", 1));
    ck_assert_int_eq(fstat(fd, &info), 0);
    ck_assert_int_eq(info.st_size, 0);
    close(fd);
    unlink("inherited");
}
END_TEST

// ---- helpers ------------------------------------------------------------------------------------

static json_t *parse(const char *text) {
    json_error_t error;
    json_t *value = json_loads(text, 0, &error);

    if (value == NULL) {
        ck_abort_msg("not JSON, line %d: %s\n%s", error.line, error.text, text);
    }
    return value;
}

// The lab's tests of a JSON report, borrowed.
static json_t *lab_tests(const json_t *report) {
    const json_t *chapter = json_array_get(json_object_get(report, "chapters"), 0);
    const json_t *lab = json_array_get(json_object_get(chapter, "labs"), 0);

    return json_object_get(lab, "tests");
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

// Processes whose name is `name`.
static int count_processes(const char *name) {
    DIR *proc = opendir("/proc");
    const struct dirent *entry;
    int found = 0;

    ck_assert_ptr_nonnull(proc);
    while ((entry = readdir(proc)) != NULL) {
        char path[300];
        char line[64] = "";
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
        file = fopen(path, "r");
        if (file != NULL) {
            if (fgets(line, sizeof(line), file) != NULL) {
                line[strcspn(line, "\n")] = '\0';
            }
            fclose(file);
        }
        found += strcmp(line, name) == 0 ? 1 : 0;
    }
    closedir(proc);
    return found;
}

// ---- labs that misbehave ------------------------------------------------------------------------

typedef struct Hostile {
    const char *add;     // the body of lab_add, NULL for the right one
    const char *fill;    // of lab_fill
    int score;           // of 4
    const char *test;    // the test whose message is checked
    const char *message; // what it contains; "" when the test passes
} Hostile;

static const Hostile hostiles[] = {
    {NULL, NULL, 4, "adds", ""},
    {"return 0;", "", 0, "adds", "sum: got 0, expected 5"},
    {"return 0;", "", 0, "fills", "4 of 4 values are wrong; all are NaN"},
    {"return 0;", "", 0, "nothing", "not counted: pass `adds` first"},
    {NULL, "out[0] = 0; out[1] = 1; out[2] = 7; out[3] = 3; (void)count;", 1, "fills",
     "out[row 1][column 0]: got 7, expected 2 (off by 5, allowed 1e-06)"},
    {NULL, "for (size_t i = 0; i < count; i++) { out[i] = NAN; }", 2, "fills", "got nan"},
    {NULL, "for (size_t i = 0; i < count; i++) { out[i] = INFINITY; }", 2, "fills", "got inf"},
    // memory
    {NULL, "out[count] = 1.0f;", 1, "fills",
     "heap-buffer-overflow: a write of 4 bytes, 0 bytes past the end of an array of 16 bytes"},
    {NULL, "if (count) { out[0] = out[-1]; }", 2, "fills",
     "a read of 4 bytes, 4 bytes before the start of an array of 16 bytes"},
    {"volatile int v[2] = {a, b}; return v[a + b];", NULL, 2, "adds", "lab1_sum.c:10"},
    {"int *volatile p = NULL; return *p + a + b;", NULL, 2, "adds", "null pointer"},
    {"volatile int big = 2147483647; return big + a + b;", NULL, 2, "adds",
     "undefined behaviour at lab1_sum.c:10:"},
    {"char *volatile p = malloc(4); free(p); return p[0] + a + b;", NULL, 2, "adds",
     "heap-use-after-free"},
    {"char *volatile p = malloc(4); free(p); free(p); return a + b;", NULL, 2, "adds",
     "memory freed twice"},
    // the end of the process
    {"exit(a + b - 5);", NULL, 2, "adds", "exit(0) before the test was over"},
    {"_exit(a + b);", NULL, 2, "adds", "exit(5) before the test was over"},
    {"abort(); return a + b;", NULL, 2, "adds", "SIGABRT"},
    {"raise(SIGTERM); return a + b;", NULL, 2, "adds", "SIGTERM"},
    {"kill(0, SIGKILL); return a + b;", NULL, 2, "adds", "SIGKILL"},
    {"volatile int zero = 0; return (a + b) / zero;", NULL, 2, "adds", "division by zero"},
    // time
    {"for (volatile unsigned i = (unsigned)(a + b);; i++) {}", NULL, 2, "adds", "still running"},
    {"for (;;) { pause(); } return a + b;", NULL, 2, "adds", "still running after 2 s"},
    {"raise(SIGSTOP); return a + b;", NULL, 2, "adds", "still running after 2 s"},
    // output
    {"for (;;) { puts(\"0123456789012345678901234567890123456789\"); } return a + b;", NULL, 2,
     "adds", "printed more than 64 KiB"},
    {"puts(\"  ok   adds 1/1\"); return a - b;", NULL, 2, "adds", "got -1"},
    {"char fake[37] = \"P\\x20\"; for (int fd = 3; fd < 20; fd++) { if (write(fd, fake, 37) < 0) { "
     "continue; } } return a - b;",
     NULL, 2, "adds", "wrote into a file descriptor that it did not open"},
    {"close(0); close(1); close(2); return a + b;", NULL, 4, "adds", ""},
    {"for (int fd = 0; fd < 64; fd++) { close(fd); } return a + b;", NULL, 2, "adds",
     "could not report its result"},
    // processes
    {"fork(); return a + b;", NULL, 4, "adds", ""},
    {"return fork() == 0 ? a + b : 0;", NULL, 2, "adds", "got 0"},
    {"for (;;) { fork(); } return a + b;", NULL, 2, "adds", "started more than 64 processes"},
};

START_TEST(misbehaving_lab) {
    const Hostile *hostile = &hostiles[_i];
    char words[64];
    json_t *report;
    json_t *test;
    size_t index;
    char *out;
    bool found = false;

    course_put_lab("exercises", hostile->add, hostile->fill);
    snprintf(words, sizeof(words), "--lab 1 --timeout %d --format json ch77",
             strstr(hostile->message, "still running") != NULL ? 2 : 30);
    out = grade_status(words, hostile->score == 4 ? 0 : 1);
    report = parse(out);
    json_array_foreach(lab_tests(report), index, test) {
        if (strcmp(text_of(test, "name"), hostile->test) == 0) {
            found = true;
            if (strstr(text_of(test, "message"), hostile->message) == NULL ||
                (hostile->message[0] == '\0') != (strcmp(text_of(test, "status"), "passed") == 0)) {
                ck_abort_msg("`%s` is not in:\n%s", hostile->message, out);
            }
        }
    }
    ck_assert(found);
    if (json_integer_value(json_object_get(report, "score")) != hostile->score) {
        ck_abort_msg("expected a score of %d:\n%s", hostile->score, out);
    }
    json_decref(report);
    free(out);
}
END_TEST

// clang's symbolizer is a program of its own and may be missing, so this asks gcc.
START_TEST(a_sanitizer_report_names_the_line) {
    const char *compiler = getenv("CC");
    char *out;

    if (compiler != NULL && strstr(compiler, "clang") != NULL) {
        return;
    }
    course_put_lab("exercises", NULL, "out[count] = 1.0f;");
    out = grade_status("--lab 1 --format json ch77", 1);
    has(out, "of an array of 16 bytes, at lab1_sum.c:13 in lab_fill()");
    free(out);
}
END_TEST

START_TEST(memory_without_end_is_stopped) {
    char *out;

    course_put_lab("exercises",
                   "for (;;) { char *volatile p = malloc(1 << 20); memset(p, a + b, 1 << 20); }",
                   NULL);
    out = grade_status("--lab 1 --test adds --timeout 60 ch77", 1);
    has(out, "used more than 1024 MiB of memory, stopped");
    free(out);
}
END_TEST

START_TEST(lingering_children_are_killed) {
    char *out;

    course_put_lab("exercises",
                   "if (fork() == 0) { setsid(); if (fork() == 0) { setsid(); "
                   "prctl(PR_SET_NAME, \"tbt-lingers\"); for (;;) { pause(); } } _exit(0); } "
                   "usleep(50000); return a + b;",
                   NULL);
    out = grade_status("--lab 1 ch77", 0);
    ck_assert_int_eq(count_processes("tbt-lingers"), 0);
    free(out);
}
END_TEST

START_TEST(a_constructor_cannot_end_the_run) {
    char *out;

    course_put("exercises/ch77/lab1_sum.c",
               "#include \"labs.h\"\n#include <unistd.h>\n"
               "__attribute__((constructor)) static void first(void) { _exit(0); }\n"
               "int lab_add(int a, int b) { return a + b; }\n"
               "void lab_fill(float *out, size_t count) { (void)out; (void)count; }\n");
    out = grade_status("--lab 1 ch77", 1);
    has(out, "exit(0) before the test was over");
    has(out, "0/4");
    free(out);
}
END_TEST

START_TEST(compile_error_costs_its_lab_alone) {
    char *out;

    course_put_lab("exercises", "return a + ;", NULL);
    course_put("exercises/ch77/answers.txt", "q1 = 512 MiB\nq2 = 3\n");
    out = grade_status("ch77", 1);
    has(out, "lab1_sum.c:10:16: error: expected expression");
    has(out, "FAIL fills");
    has(out, "does not compile");
    has(out, "ok   q1");
    has(out, "ch77     2/6");
    lacks(out, "grade.d");
    free(out);
    course_put("exercises/ch77/lab1_sum.c", "int lab_add(int a, int b) { return a + b; }\n");
    out = grade_status("--lab 1 ch77", 1);
    has(out, "`lab_fill` is not defined");
    free(out);
    ck_assert_int_eq(unlink("exercises/ch77/lab1_sum.c"), 0);
    out = grade_status("--lab 1 ch77", 1);
    has(out, "there is no file exercises/ch77/lab1_sum.c");
    free(out);
}
END_TEST

START_TEST(warnings_are_shown) {
    char *out;

    course_put_lab("exercises", "int unused; return a + b;", NULL);
    out = grade_status("--lab 1 ch77", 0);
    has(out, "unused variable");
    free(out);
}
END_TEST

START_TEST(a_stub_gets_a_short_report) {
    char *out;

    course_put_lab("exercises", "return 0;", "printf(\"%zu\\n\", count); (void)out;");
    course_put("exercises/ch77/answers.txt", "q1 = ?\nq2 = ?\n");
    out = grade_status("ch77", 1);
    has(out, "case:  2 + 3");
    has(out, "hint:  add a to b");
    lacks(out, "hint:  count from 0");
    lacks(out, "count the bytes");
    has(out, "not answered yet");
    has(out, "ch77     0/6    [----------]");
    ck_assert_int_le(longest_line(out), 80);
    ck_assert_int_le(count_lines(out), 20);
    free(out);
    out = grade_status("--lab 1 --test fills ch77", 1);
    has(out, "hint:  count from 0");
    has(out, "print: 4");
    has(out, "gdb --args build/labs/ch77_lab1 --run fills");
    lacks(out, "adds");
    free(out);
}
END_TEST

// The test's own hint is about its result, so what ended otherwise gets another one.
START_TEST(hints_fit_the_failure) {
    char *out;

    course_put_lab("exercises", "abort(); return a + b;", NULL);
    out = grade_status("--lab 1 --test adds ch77", 1);
    has(out, "hint:  This is a crash");
    lacks(out, "add a to b");
    free(out);
    course_put_lab("exercises", "for (;;) { pause(); } return a + b;", "out[count] = 1.0f;");
    out = grade_status("--lab 1 --timeout 1 --test adds ch77", 1);
    has(out, "hint:  Look at the loops");
    free(out);
    out = grade_status("--lab 1 --test fills ch77", 1);
    has(out, "hint:  Start at the line named above");
    lacks(out, "count from 0");
    free(out);
    course_put_lab("exercises", NULL, "for (size_t i = 0; i < count; i++) { out[i] += 1.0f; }");
    out = grade_status("--lab 1 --test fills ch77", 1);
    has(out, "4 of 4 values are wrong; all are NaN\n");
    has(out, "NaN is often memory that was never written, or added to before");
    has(out, "hint:  count from 0");
    free(out);
    course_put_lab("exercises", NULL, "out[0] = (float)count; for (;;) { pause(); }");
    out = grade_status("--lab 1 --timeout 1 --test fills ch77", 1);
    has(out, "hint:  count once"); // a test may have words of its own for this
    lacks(out, "count from 0");
    free(out);
}
END_TEST

// What asked for too much memory has no index to look at.
START_TEST(hints_about_amounts_of_memory) {
    const char *const bodies[] = {
        "volatile char huge[64 << 20]; huge[a] = 1; return huge[a] + b;",
        "char *volatile p = malloc((size_t)1 << 45); return p == NULL ? a : b;",
    };

    for (int i = 0; i < 2; i++) {
        char *out;

        course_put_lab("exercises", bodies[i], NULL);
        out = grade_status("--lab 1 --test adds ch77", 1);
        has(out, "hint:  See how much memory");
        lacks(out, "operands");
        free(out);
    }
}
END_TEST

// A NaN that the hint explains is not blamed on memory that was never written.
START_TEST(a_hint_about_nan_stands_alone) {
    const char *const hints[] = {"exp(89) overflows", "0 * NaN is NaN", "start from 0"};

    for (int i = 0; i < 3; i++) {
        char suite[640], *out;

        snprintf(suite, sizeof(suite),
                 "#include \"labs.h\"\n"
                 "#include \"tests/grade/grade.h\"\n"
                 "static void adds(void) {\n"
                 "    float *out = grade_floats(1);\n"
                 "    lab_fill(out, 0);\n"
                 "    expect_close(\"sum\", (double)out[0], lab_add(0, 0), 1.0);\n"
                 "}\n"
                 "const char grade_title[] = \"a sum\";\n"
                 "const GradeTest grade_tests[] = {\n"
                 "    {\"adds\", 1, false, adds, \"%s\", NULL},\n"
                 "    {NULL, 0, false, NULL, NULL, NULL},\n"
                 "};\n",
                 hints[i]);
        course_put("tests/grade/ch77/lab1_sum.c", suite);
        course_put_lab("exercises", NULL, NULL);
        out = grade_status("--lab 1 --test adds ch77", 1);
        has(out, hints[i]);
        (i < 2 ? lacks : has)(out, "NaN is often memory");
        free(out);
    }
}
END_TEST

// lab_fill is given `out` as an input here, and the expected values come after it.
START_TEST(a_changed_input_is_named) {
    char *out;

    course_put("tests/grade/ch77/lab1_sum.c",
               "#include \"labs.h\"\n"
               "#include \"tests/grade/grade.h\"\n"
               "static void keeps(void) {\n"
               "    float *in = grade_floats(4);\n"
               "    for (int i = 0; i < 4; i++) { in[i] = 1.0f; }\n"
               "    grade_freeze(\"in\", in, sizeof(float));\n"
               "    grade_case(\"four ones\");\n"
               "    lab_fill(in, 4);\n"
               "    grade_case(\"the next case\");\n"
               "    expect_close(\"in[3]\", lab_add(1, 2), in[3], 0.0);\n"
               "}\n"
               "const char grade_title[] = \"inputs\";\n"
               "const GradeTest grade_tests[] = {{\"keeps\", 1, false, keeps, \"\"},\n"
               "                                 {NULL, 0, false, NULL, NULL}};\n");
    course_put_lab("exercises", NULL, NULL); // writes 0 first, so in[0] differs, and in[3] is 3
    out = grade_status("--lab 1 ch77", 1);
    has(out, "case:  four ones");
    has(out, "your code changed its input `in[0]`");
    has(out, "hint:  Write only to the outputs");
    free(out);
    course_put_lab("exercises", "return 1;", "");
    free(grade_status("--lab 1 ch77", 0));
}
END_TEST

START_TEST(guard_words_without_sanitizers) {
    char *out;

    course_put_lab("exercises", NULL, "for (size_t i = 0; i <= count; i++) { out[i] = (float)i; }");
    out = grade_status("--no-sanitizers --lab 1 ch77", 1);
    has(out, "a write 0 bytes past the end of an array of 16 bytes");
    free(out);
}
END_TEST

START_TEST(from_takes_labs_and_not_their_header) {
    char *out;

    course_put("right/ch77/labs.h", "#error this header must not be used\n");
    out = grade_status("--from right ch77", 0);
    has(out, "ch77     6/6    [##########]");
    free(out);
    grade_error("--from nowhere ch77", "--from nowhere: no such folder");
    course_put("empty/README", "no labs\n");
    out = grade_status("--from empty ch77", 1);
    has(out, "ch77     0/6    [----------]");
    free(out);
}
END_TEST

// A file that is missing is told once, with the place where it is looked for.
START_TEST(files_beside_the_chapter_are_named) {
    char *out;

    shell_run("rm -rf flat && mkdir flat && cp right/ch77/lab1_sum.c right/ch77/answers.txt flat");
    out = grade_status("--from flat ch77", 1);
    has(out, "there is no file flat/ch77/lab1_sum.c; flat/lab1_sum.c is there: move it to");
    has(out, "flat/answers.txt is");
    has(out, "  FAIL (all of 3)                  0/4\n");
    lacks(out, "adds");
    free(out);
    out = grade_status("--from right/ch77 --lab 1 ch77", 1);
    has(out, "leave /ch77 out of FROM\n");
    free(out);
    out = grade_status("--from flat --format tap ch77", 1); // these name every test
    has(out, "not ok 2");
    has(out, "fills");
    free(out);
}
END_TEST

// In a report of several chapters a lab that nobody has begun is one line.
START_TEST(untouched_labs_are_brief) {
    const char *copy = "cp -r tests/grade/ch77 tests/grade/ch78 && "
                       "cp -r exercises/ch77 exercises/ch78 && "
                       "mkdir -p exercises/ch78/.untouched && "
                       "cp exercises/ch78/*.* exercises/ch78/.untouched";
    char *out;

    course_put_lab("exercises", "return 0;", "");
    course_put("exercises/ch77/answers.txt", "q1 = ?\nq2 = ?\n");
    shell_run("%s", copy);
    out = grade_status("ch77 ch78", 1);
    has(out, "ch77 lab1: a sum & more  (exercises/ch77/lab1_sum.c)\n");
    has(out, "\n\nch78 lab1: a sum & more  (not begun, 0/4)\n"
             "ch78 questions: Questions  (not begun, 0/2)\n\nch77 ");
    free(out);
    out = grade_status("ch78", 1);
    has(out, "  FAIL adds                        0/1\n");
    lacks(out, "not begun");
    free(out);
    out = grade_status("--format tap ch77 ch78", 1);
    has(out, "1..10\n");
    free(out);
    shell_run("rm -r tests/grade/ch78 exercises/ch78");
}
END_TEST

START_TEST(changed_sources_are_rebuilt) {
    char *out;

    course_put("common/extra.h", "#define EXTRA 5\n");
    course_put("common/extra.c", "#include \"common/extra.h\"\nint extra(void);\n"
                                 "int extra(void) { return EXTRA; }\n");
    course_put_lab("exercises", "int extra(void); return extra() + 0 * a * b;", NULL);
    free(grade_status("--lab 1 ch77", 0));
    course_put("common/extra.h", "#define EXTRA 6\n");
    out = grade_status("--lab 1 ch77", 1);
    has(out, "got 6, expected 5");
    free(out);
    unlink("common/extra.c");
    out = grade_status("--lab 1 ch77", 1);
    has(out, "`extra` is not defined");
    free(out);
}
END_TEST

// A watch that has nothing to watch for ends; it has said when it began.
START_TEST(watch_of_no_such_test) {
    Captured run = course_grade("--watch --lab 1 --test nope ch77");

    ck_assert_int_eq(run.status, 2);
    has(run.err, "no test or question is named `nope`");
    lacks(run.out, "Waiting");
    captured_free(&run);
}
END_TEST

START_TEST(mistakes_in_the_command) {
    grade_error("ch99", "ch99 has no labs; chapters with labs: ch77");
    grade_error("--format html ch77", "the formats are");
    grade_error("--lab 5 ch77", "there is no lab 5");
    grade_error("--lab x ch77", "--lab x");
    grade_error("--test nope ch77", "no test or question is named `nope`");
    grade_error("--timeout 0 ch77", "--timeout 0");
    grade_error("--nonsense", "--help");
    grade_error("--from right --out /nonexistent/file ch77", "/nonexistent/file");
}
END_TEST

// What the suites look for in the learner's error messages.
START_TEST(numbers_in_messages) {
    char *out;

    course_put(
        "tests/grade/ch77/lab1_sum.c",
        "#include \"tests/grade/grade.h\"\n"
        "static const struct {\n"
        "    const char *text;\n"
        "    int64_t number;\n"
        "    bool has;\n"
        "} cases[] = {\n"
        "    {\"14\", 14, true}, {\"14 of 15\", 14, true}, {\"there are 14.\", 14, true},\n"
        "    {\"(3,2)\", 3, true}, {\"(3,2)\", 2, true}, {\"len=14, n=1\", 14, true},\n"
        "    {\"0-14\", 14, true}, {\"0..14\", 14, true}, {\"0..14\", 0, true},\n"
        "    {\"114, 141, 14\", 14, true}, {\"window -1: \", -1, true}, {\"[-1]\", -1, true},\n"
        "    {\"-9223372036854775808\", INT64_MIN, true},\n"
        "    {\"9223372036854775807\", INT64_MAX, true},\n"
        "    {\"\", 0, false}, {\"10\", 1, false}, {\"21\", 1, false}, {\"-1\", 1, false},\n"
        "    {\"x -1\", 1, false}, {\"1\", -1, false}, {\"2-1\", -1, false},\n"
        "    {\"0.5\", 5, false}, {\"0.5\", 0, false}, {\".5\", 5, false}, {\"14x\", 14, false},\n"
        "    {\"14_0\", 14, false}, {\"len_3\", 3, false}, {\"q3\", 3, false}, {\"5e-3\", 3, "
        "false},\n"
        "};\n"
        "static void numbers(void) {\n"
        "    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {\n"
        "        grade_case(\"%lld in %s\", (long long)cases[i].number, cases[i].text);\n"
        "        expect_int(\"has\", grade_has_number(cases[i].text, cases[i].number),\n"
        "                   cases[i].has);\n"
        "    }\n"
        "}\n"
        "const char grade_title[] = \"numbers\";\n"
        "const GradeTest grade_tests[] = {{\"numbers\", 1, false, numbers, \"\", NULL},\n"
        "                                 {NULL, 0, false, NULL, NULL, NULL}};\n");
    course_put_lab("exercises", NULL, NULL);
    out = grade_status("--lab 1 ch77", 0);
    has(out, "1/1");
    free(out);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("grader");
    TCase *tests = tcase_create("grader");
    const int hostile_count = sizeof(hostiles) / sizeof(hostiles[0]);
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(tests, 120);
    tcase_add_unchecked_fixture(tests, course_enter, course_leave);
    tcase_add_loop_test(tests, misbehaving_lab, 0, hostile_count);
    tcase_add_test(tests, a_sanitizer_report_names_the_line);
    tcase_add_test(tests, inherited_files_are_closed);
    tcase_add_test(tests, memory_without_end_is_stopped);
    tcase_add_test(tests, lingering_children_are_killed);
    tcase_add_test(tests, a_constructor_cannot_end_the_run);
    tcase_add_test(tests, compile_error_costs_its_lab_alone);
    tcase_add_test(tests, warnings_are_shown);
    tcase_add_test(tests, a_stub_gets_a_short_report);
    tcase_add_test(tests, hints_fit_the_failure);
    tcase_add_test(tests, hints_about_amounts_of_memory);
    tcase_add_test(tests, guard_words_without_sanitizers);
    tcase_add_test(tests, from_takes_labs_and_not_their_header);
    tcase_add_test(tests, files_beside_the_chapter_are_named);
    tcase_add_test(tests, untouched_labs_are_brief);
    tcase_add_test(tests, changed_sources_are_rebuilt);
    tcase_add_test(tests, watch_of_no_such_test);
    tcase_add_test(tests, mistakes_in_the_command);
    // Last, as they have suites of their own.
    tcase_add_test(tests, a_hint_about_nan_stands_alone);
    tcase_add_test(tests, a_changed_input_is_named);
    tcase_add_test(tests, numbers_in_messages);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
