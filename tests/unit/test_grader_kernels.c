// The grader on debugging labs, on labs that are kernel files, and on tests that cannot be run
// here.
#include "tests/unit/fake_course.h"

#include <check.h>
#include <stdlib.h>

// Lab 0 is a debugging lab with two tests; the second one is not run where the lab returns -1.
static const char debugging_suite[] =
    "#include \"labs.h\"\n"
    "#include \"tests/grade/grade.h\"\n"
    "static void adds(void) {\n"
    "    expect_int(\"sum\", lab_add(2, 3), 5);\n"
    "}\n"
    "static void adds_more(void) {\n"
    "    if (lab_add(0, 0) == -1) {\n"
    "        grade_not_run(\"there is no %s\", \"counter\");\n"
    "    }\n"
    "    expect_int(\"sum\", lab_add(2, -3), -1);\n"
    "}\n"
    "const char grade_title[] = \"find the fault\";\n"
    "const bool grade_debugging = true;\n"
    "const GradeTest grade_tests[] = {\n"
    "    {\"adds\", 1, false, adds, \"\"},\n"
    "    {\"adds_more\", 2, false, adds_more, \"mind the sign\"},\n"
    "    {NULL, 0, false, NULL, NULL},\n"
    "};\n";

static const char right[] = "#include \"labs.h\"\nint lab_add(int a, int b) {\n"
                            "    return a + b;\n}\n";
static const char wrong[] = "#include \"labs.h\"\nint lab_add(int a, int b) {\n"
                            "    return a + (b < 0 ? -b : b);\n}\n";
static const char not_run[] = "#include \"labs.h\"\nint lab_add(int a, int b) {\n"
                              "    return a + b == 0 ? -1 : a + b;\n}\n";

static void put_debugging_lab(const char *exercise, const char *solution) {
    course_put("tests/grade/ch77/lab0_debug.c", debugging_suite);
    course_put("exercises/ch77/lab0_debug.c", exercise);
    course_put("solutions/ch77/lab0_debug.c", solution);
    course_put("tests/mutants/ch77/lab0_sign.mutant",
               "lab0 fails on: adds_more\nThe sign is lost.\n--- was\n    return a + b;\n"
               "+++ becomes\n    return a + (b < 0 ? -b : b);\n");
}

START_TEST(all_points_or_none) {
    char *out;

    put_debugging_lab(wrong, right);
    out = grade_status("--lab 0 --from solutions ch77", 0);
    has(out, "ok   adds_more                   2/2");
    free(out);
    out = grade_status("--lab 0 ch77", 1);
    has(out, "-    adds                        0/1\n"
             "       not counted: all or nothing, pass `adds_more`");
    has(out, "FAIL adds_more                   0/2");
    has(out, "ch77     0/3");
    free(out);
    out = grade_status("--lab 0 --test adds ch77", 0); // one test alone
    has(out, "ch77     1/1");
    free(out);
}
END_TEST

START_TEST(a_test_that_cannot_be_run) {
    char *out;

    put_debugging_lab(not_run, right);
    out = grade_status("--lab 0 --test adds_more ch77", 1);
    has(out, "-    adds_more                   0/2  not run: there is no counter");
    lacks(out, "mind the sign");
    free(out);
    out = grade_status("--lab 0 --format json ch77", 1);
    has(out, "\"not run\"");
    free(out);
}
END_TEST

START_TEST(debugging_labs_are_proved) {
    char *out;

    put_debugging_lab(wrong, right);
    Captured recorded = course_grade("--record ch77"); // what the mutant is known by
    captured_free(&recorded);
    out = grade_status("--prove ch77", 1); // lab 1 has no solution here
    has(out, "ok   ch77 lab0: solution scores 3/3\n");
    has(out, "ok   ch77 lab0: untouched exercise scores 0/3\n");
    has(out, "ok   ch77 lab0: exercise and solution differ, without gaps\n");
    has(out, "ok   ch77 lab0_sign: fails on `adds_more`\n");
    free(out);
    put_debugging_lab("// TODO 1: mend\n", right);
    out = grade_status("--prove ch77", 1);
    has(out, "differ, without gaps: a debugging lab has no `// TODO`");
    free(out);
    put_debugging_lab(right, right);
    out = grade_status("--prove ch77", 1);
    has(out, "differ, without gaps: they are the same");
    free(out);
    put_debugging_lab(wrong, not_run);
    out = grade_status("--prove ch77", 1);
    has(out, "skip ch77 lab0: not proved: `adds_more` is not run: there is no counter\n");
    free(out);
}
END_TEST

// A kernel file is compiled twice, the second time by an instrumentation that calls __tsan_init.
static void put_kernel_lab(const char *text) {
    course_put("tests/grade/ch77/lab2_kernel.c",
               "#include \"tests/grade/grade.h\"\n"
               "int kernel_simt(void);\n"
               "int kernel_trace(void);\n"
               "void __tsan_init(void);\n"
               "void __tsan_init(void) {\n}\n"
               "static void both(void) {\n"
               "    expect_int(\"plain\", kernel_simt(), 1);\n"
               "    if (!GPU_HAVE_TRACE) {\n        grade_not_run(\"no trace\");\n    }\n"
               "#if GPU_HAVE_TRACE\n    expect_int(\"traced\", kernel_trace(), 2);\n#endif\n"
               "}\n"
               "const char grade_title[] = \"a kernel\";\n"
               "const GradeTest grade_tests[] = {\n"
               "    {\"both\", 1, false, both, \"\"},\n    {NULL, 0, false, NULL, NULL},\n};\n");
    course_put("exercises/ch77/lab2_kernel.cu", text);
}

static const char kernel[] = "#ifdef SIMT_TRACED\n"
                             "int kernel_trace(void);\nint kernel_trace(void) {\n    return 2;\n}\n"
                             "#else\n"
                             "int kernel_simt(void);\nint kernel_simt(void) {\n    return 1;\n}\n"
                             "#endif\n";

START_TEST(kernel_files) {
    char *out;

    put_kernel_lab(kernel);
    setenv("TRACE_CC", "", 1);
    out = grade_status("--lab 2 ch77", 1);
    has(out, "not run: no trace");
    free(out);
    unsetenv("TRACE_CC");
    out = grade_status("--lab 2 --format json ch77", GPU_HAVE_TRACE ? 0 : 1);
    has(out, "exercises/ch77/lab2_kernel.cu");
    free(out);
    put_kernel_lab("int kernel_simt(void) {\n    return nothing;\n}\n");
    out = grade_status("--lab 2 ch77", 1);
    has(out, "lab2_kernel.cu:2:12: error: ");
    has(out, "does not compile");
    free(out);
    out = grade_status("--lab 2 --from right ch77", 1);
    has(out, "there is no file right/ch77/lab2_kernel.cu");
    free(out);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("grader_kernels");
    TCase *tests = tcase_create("grader_kernels");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tests, course_enter, course_leave);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, all_points_or_none);
    tcase_add_test(tests, a_test_that_cannot_be_run);
    tcase_add_test(tests, debugging_labs_are_proved);
    tcase_add_test(tests, kernel_files);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
