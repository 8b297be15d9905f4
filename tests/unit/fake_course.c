// A small course in a temporary folder: see fake_course.h.
#include "tests/unit/fake_course.h"

#include <check.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];
static char grader[PATH_MAX];

static const char labs_h[] = "#include <stddef.h>\n"
                             "int lab_add(int a, int b);\n"
                             "void lab_fill(float *out, size_t count);\n";

static const char suite[] = "#include \"labs.h\"\n"
                            "#include \"tests/grade/grade.h\"\n"
                            "static void adds(void) {\n"
                            "    grade_case(\"2 + 3\");\n"
                            "    expect_int(\"sum\", lab_add(2, 3), 5);\n"
                            "}\n"
                            "static void fills(void) {\n"
                            "    const double want[4] = {0, 1, 2, 3};\n"
                            "    float *out = grade_floats(4);\n"
                            "    grade_case(\"2 x 2\");\n"
                            "    lab_fill(out, 4);\n"
                            "    expect_array(\"out\", out, want, 2, 2, 1e-6);\n"
                            "}\n"
                            "static void nothing(void) {\n"
                            "    lab_fill(grade_floats(0), 0);\n"
                            "}\n"
                            "const char grade_title[] = \"a sum & more\";\n"
                            "const GradeTest grade_tests[] = {\n"
                            "    {\"adds\", 1, false, adds, \"add a to b\"},\n"
                            "    {\"fills\", 2, false, fills, \"count from 0\",\n"
                            "     \"count once\"},\n"
                            "    {\"nothing\", 1, true, nothing, \"write nothing\"},\n"
                            "    {NULL, 0, false, NULL, NULL},\n"
                            "};\n";

static const char questions[] = "#include \"tests/grade/grade.h\"\n"
                                "static double q1(void) {\n    return 512.0;\n}\n"
                                "static double q2(void) {\n    return 3.0;\n}\n"
                                "const GradeQuestion grade_questions[] = {\n"
                                "    {\"q1\", 1, q1, 0.01, \"MiB\", \"count the bytes\"},\n"
                                "    {\"q2\", 1, q2, 0.001, \"\", \"count\"},\n"
                                "    {NULL, 0, NULL, 0, NULL, NULL},\n"
                                "};\n";

void course_put(const char *path, const char *text) {
    char part[PATH_MAX];
    FILE *file;

    snprintf(part, sizeof(part), "%s", path);
    for (char *slash = strchr(part, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        ck_assert(mkdir(part, 0755) == 0 || errno == EEXIST);
        *slash = '/';
    }
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

void course_put_lab(const char *from, const char *add_body, const char *fill_body) {
    char path[256];
    char text[4096];

    snprintf(path, sizeof(path), "%s/ch77/lab1_sum.c", from);
    snprintf(text, sizeof(text),
             "#include \"labs.h\"\n"
             "#include <math.h>\n#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
             "#include <string.h>\n#include <sys/prctl.h>\n#include <unistd.h>\n"
             "int lab_add(int a, int b) {\n    %s\n}\n"
             "void lab_fill(float *out, size_t count) {\n    %s\n}\n",
             add_body != NULL ? add_body : "return a + b;",
             fill_body != NULL ? fill_body
                               : "for (size_t i = 0; i < count; i++) { out[i] = (float)i; }");
    course_put(path, text);
}

static void link_source(const char *root, const char *name) {
    char from[PATH_MAX];
    char to[PATH_MAX];

    snprintf(from, sizeof(from), "%.*s/tests/grade/%s", PATH_MAX - 100, root, name);
    snprintf(to, sizeof(to), "tests/grade/%s", name);
    ck_assert_int_eq(symlink(from, to), 0);
}

void course_enter(void) {
    char root[PATH_MAX];
    char path[PATH_MAX];
    const char *build = getenv("BUILD");

    ck_assert_ptr_nonnull(getcwd(root, sizeof(root)));
    snprintf(path, sizeof(path), "%s/grade", build != NULL ? build : "build");
    if (realpath(path, grader) == NULL) {
        ck_abort_msg("there is no %s; `make grade` builds it", path);
    }
    enter_folder(folder);
    setenv("BUILD", "build", 1);
    course_put("exercises/ch77/labs.h", labs_h);
    course_put("exercises/ch77/answers.txt", "q1 = ?\nq2 = ?\n");
    course_put("tests/grade/ch77/lab1_sum.c", suite);
    course_put("tests/grade/ch77/questions.c", questions);
    link_source(root, "harness.c");
    link_source(root, "grade.h");
    link_source(root, "protocol.h");
    course_put_lab("exercises", "return 0;", "");
    course_put_lab("right", NULL, NULL);
    course_put("right/ch77/answers.txt", "q1 = 512\nq2 = 3\n");
}

void course_leave(void) {
    remove_folder(folder);
}

const char *course_grader(void) {
    return grader;
}

Captured course_grade(const char *words) {
    const char *argv[32] = {grader};
    char *copy = strdup(words);
    char *rest = copy;
    char *word;
    Captured captured;

    ck_assert_ptr_nonnull(copy);
    for (int i = 1; i < 31 && (word = strsep(&rest, " ")) != NULL; i++) {
        argv[i] = word;
    }
    captured = capture_program(argv);
    free(copy);
    return captured;
}

void has(const char *text, const char *piece) {
    if (text == NULL || strstr(text, piece) == NULL) {
        ck_abort_msg("`%s` is not in:\n%s", piece, text != NULL ? text : "(null)");
    }
}

void lacks(const char *text, const char *piece) {
    if (strstr(text, piece) != NULL) {
        ck_abort_msg("`%s` is in:\n%s", piece, text);
    }
}

char *grade_status(const char *words, int status) {
    Captured captured = course_grade(words);

    if (captured.status != status) {
        ck_abort_msg("grade %s: status %d, expected %d\n%s%s", words, captured.status, status,
                     captured.out, captured.err);
    }
    free(captured.err);
    return captured.out;
}

void grade_error(const char *words, const char *piece) {
    Captured captured = course_grade(words);

    ck_assert_int_eq(captured.status, 2);
    ck_assert_str_eq(captured.out, "");
    has(captured.err, piece);
    captured_free(&captured);
}
