// Every format of one run, read by parsers: Gradescope's results.json against the fields that are
// published for it, JUnit XML by xmllint and Python, TAP by a parser here and by Perl's. Parsers
// that are not installed are named, and their tests pass.
#include "tests/unit/fake_course.h"
#include "tests/unit/shell.h"

#include <check.h>
#include <ctype.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The run: a first test that fails, one that is gated therefore, one that passes and prints what
// must not get through; a hidden question that is wrong; a chapter handed in late.
static const char assignment[] = "points lab1 10\n"
                                 "points questions 5\n"
                                 "hidden questions.q2\n"
                                 "due 2027-03-01 23:59\n"
                                 "late 10 per day\n"
                                 "seed student\n";

static void grade_all_formats(void) {
    course_enter();
    course_put("tests/grade/ch77/assignment.txt", assignment);
    course_put_lab("exercises",
                   "fputs(\"<&>\\\"']]>\\x1b[31m\\xff\\xc3\\xa9\\n\", stdout); return 4;", NULL);
    course_put("exercises/ch77/answers.txt", "q1 = 512\nq2 = 8\n");
    free(grade_status(
        "--hidden --seed alice --submitted 2027-03-02T10:00 --format json --out r.json "
        "--also gradescope=results.json --also junit=r.xml --also tap=r.tap ch77",
        1));
}

static json_t *load(const char *path) {
    json_error_t error;
    json_t *value = json_load_file(path, JSON_REJECT_DUPLICATES, &error);

    ck_assert_msg(value != NULL, "%s:%d: %s", path, error.line, error.text);
    return value;
}

// ---- Gradescope ---------------------------------------------------------------------------------

typedef enum Kind { A_NUMBER, A_TEXT, A_STATUS, A_VISIBILITY, A_FORMAT, AN_OBJECT, A_LIST } Kind;

typedef struct Field {
    const char *name;
    Kind kind;
    bool required; // by this course; Gradescope requires only a score, at the top or in each test
} Field;

// https://gradescope-autograders.readthedocs.io/en/latest/specs/
static const Field top_fields[] = {
    {"score", A_NUMBER, true},
    {"execution_time", A_NUMBER, true},
    {"output", A_TEXT, true},
    {"output_format", A_FORMAT, false},
    {"test_output_format", A_FORMAT, false},
    {"test_name_format", A_FORMAT, false},
    {"visibility", A_VISIBILITY, true},
    {"stdout_visibility", A_VISIBILITY, true},
    {"extra_data", AN_OBJECT, true},
    {"tests", A_LIST, true},
    {"leaderboard", A_LIST, false},
    {NULL, A_TEXT, false},
};

static const Field test_fields[] = {
    {"score", A_NUMBER, true},        {"max_score", A_NUMBER, true},
    {"status", A_STATUS, true},       {"name", A_TEXT, true},
    {"name_format", A_FORMAT, false}, {"number", A_TEXT, true},
    {"output", A_TEXT, true},         {"output_format", A_FORMAT, false},
    {"tags", A_LIST, false},          {"visibility", A_VISIBILITY, true},
    {"extra_data", AN_OBJECT, true},  {NULL, A_TEXT, false},
};

static bool is_one_of(const json_t *value, const char *const *words) {
    const char *text = json_string_value(value);

    for (; text != NULL && *words != NULL; words++) {
        if (strcmp(*words, text) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_kind(const json_t *value, Kind kind) {
    const char *const status[] = {"passed", "failed", NULL};
    const char *const visibility[] = {"hidden", "after_due_date", "after_published", "visible",
                                      NULL};
    const char *const format[] = {"text", "html", "simple_format", "md", "ansi", NULL};

    switch (kind) {
    case A_NUMBER:
        return json_is_number(value) && json_number_value(value) >= 0.0;
    case A_TEXT:
        return json_is_string(value);
    case A_STATUS:
        return is_one_of(value, status);
    case A_VISIBILITY:
        return is_one_of(value, visibility);
    case A_FORMAT:
        return is_one_of(value, format);
    case AN_OBJECT:
        return json_is_object(value);
    case A_LIST:
        return json_is_array(value);
    }
    return false;
}

// Every key is one of the fields, of its kind; no required one is missing.
static void check_fields(json_t *object, const Field *fields) {
    const char *key;
    json_t *value;

    ck_assert(json_is_object(object));
    json_object_foreach(object, key, value) {
        const Field *field = fields;

        while (field->name != NULL && strcmp(field->name, key) != 0) {
            field++;
        }
        ck_assert_msg(field->name != NULL, "`%s` is no field of results.json", key);
        ck_assert_msg(is_kind(value, field->kind), "`%s` is of the wrong kind", key);
    }
    for (const Field *field = fields; field->name != NULL; field++) {
        ck_assert_msg(!field->required || json_object_get(object, field->name) != NULL,
                      "there is no `%s`", field->name);
    }
}

static double number_of(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));

    ck_assert_msg(text != NULL, "no text `%s`", key);
    return text;
}

START_TEST(gradescope_follows_its_fields) {
    json_t *report = load("results.json");
    const json_t *tests = json_object_get(report, "tests");
    size_t index;
    json_t *test;
    double score = 0.0;
    double points = 0.0;

    check_fields(report, top_fields);
    ck_assert_uint_eq(json_array_size(tests), 5);
    json_array_foreach(tests, index, test) {
        check_fields(test, test_fields);
        ck_assert_double_le(number_of(test, "score"), number_of(test, "max_score"));
        score += number_of(test, "score");
        points += number_of(test, "max_score");
    }
    ck_assert_double_eq_tol(score, 7.5, 1e-9); // fills, q1
    ck_assert_double_eq_tol(points, 15.0, 1e-9);
    ck_assert_double_eq_tol(number_of(report, "score"), 6.75, 1e-9); // 10 % off
    has(text_of(report, "output"), "for lateness 10 % is taken off: 7.5 points become 6.75");
    ck_assert_str_eq(text_of(report, "visibility"), "visible");
    ck_assert_str_eq(text_of(report, "stdout_visibility"), "hidden");
    json_decref(report);
}
END_TEST

// The hidden test is the one that students do not see before grades are published.
START_TEST(gradescope_hides_what_is_hidden) {
    json_t *report = load("results.json");
    size_t index;
    json_t *test;

    json_array_foreach(json_object_get(report, "tests"), index, test) {
        const bool hidden = strcmp(text_of(test, "name"), "ch77 questions: q2") == 0;

        ck_assert_str_eq(text_of(test, "visibility"), hidden ? "after_published" : "visible");
    }
    test = json_array_get(json_object_get(report, "tests"), 0);
    ck_assert_str_eq(text_of(test, "number"), "77.1.1");
    has(text_of(test, "output"), "hint: add a to b");
    has(text_of(test, "output"), "<&>\"']]>?[31m?\xc3\xa9");
    test = json_array_get(json_object_get(report, "tests"), 2);
    ck_assert_str_eq(text_of(json_object_get(test, "extra_data"), "status"), "not counted");
    ck_assert_str_eq(text_of(json_array_get(json_object_get(report, "tests"), 4), "number"),
                     "77.q.2");
    json_decref(report);
}
END_TEST

// ---- JUnit --------------------------------------------------------------------------------------

// The elements and attributes that readers of JUnit XML agree on.
static const char junit_schema[] =
    "<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\">\n"
    "<xs:attributeGroup name=\"counts\">\n"
    "  <xs:attribute name=\"tests\" type=\"xs:nonNegativeInteger\" use=\"required\"/>\n"
    "  <xs:attribute name=\"failures\" type=\"xs:nonNegativeInteger\" use=\"required\"/>\n"
    "  <xs:attribute name=\"errors\" type=\"xs:nonNegativeInteger\" use=\"required\"/>\n"
    "  <xs:attribute name=\"skipped\" type=\"xs:nonNegativeInteger\" use=\"required\"/>\n"
    "  <xs:attribute name=\"time\" type=\"xs:decimal\" use=\"required\"/>\n"
    "</xs:attributeGroup>\n"
    "<xs:element name=\"testsuites\"><xs:complexType>\n"
    "  <xs:sequence><xs:element ref=\"testsuite\" maxOccurs=\"unbounded\"/></xs:sequence>\n"
    "  <xs:attributeGroup ref=\"counts\"/></xs:complexType></xs:element>\n"
    "<xs:element name=\"testsuite\"><xs:complexType><xs:sequence>\n"
    "    <xs:element ref=\"properties\" minOccurs=\"0\"/>\n"
    "    <xs:element ref=\"testcase\" minOccurs=\"0\" maxOccurs=\"unbounded\"/>\n"
    "    <xs:element name=\"system-out\" type=\"xs:string\" minOccurs=\"0\"/>\n"
    "    <xs:element name=\"system-err\" type=\"xs:string\" minOccurs=\"0\"/></xs:sequence>\n"
    "  <xs:attribute name=\"name\" type=\"xs:string\" use=\"required\"/>\n"
    "  <xs:attributeGroup ref=\"counts\"/></xs:complexType></xs:element>\n"
    "<xs:element name=\"properties\"><xs:complexType><xs:sequence>\n"
    "    <xs:element name=\"property\" maxOccurs=\"unbounded\"><xs:complexType>\n"
    "      <xs:attribute name=\"name\" type=\"xs:string\" use=\"required\"/>\n"
    "      <xs:attribute name=\"value\" type=\"xs:string\" use=\"required\"/>\n"
    "    </xs:complexType></xs:element></xs:sequence></xs:complexType></xs:element>\n"
    "<xs:element name=\"testcase\"><xs:complexType>\n"
    "  <xs:choice minOccurs=\"0\"><xs:element ref=\"failure\"/><xs:element ref=\"skipped\"/>\n"
    "  </xs:choice>\n"
    "  <xs:attribute name=\"classname\" type=\"xs:string\" use=\"required\"/>\n"
    "  <xs:attribute name=\"name\" type=\"xs:string\" use=\"required\"/>\n"
    "  <xs:attribute name=\"time\" type=\"xs:decimal\" use=\"required\"/>\n"
    "</xs:complexType></xs:element>\n"
    "<xs:element name=\"failure\"><xs:complexType><xs:simpleContent>\n"
    "  <xs:extension base=\"xs:string\"><xs:attribute name=\"message\" type=\"xs:string\"/>\n"
    "  </xs:extension></xs:simpleContent></xs:complexType></xs:element>\n"
    "<xs:element name=\"skipped\"><xs:complexType>\n"
    "  <xs:attribute name=\"message\" type=\"xs:string\"/></xs:complexType></xs:element>\n"
    "</xs:schema>\n";

START_TEST(junit_follows_its_schema) {
    char *out;

    if (!works("xmllint --version")) {
        return;
    }
    course_put("junit.xsd", junit_schema);
    out = shell_output("xmllint --noout --schema junit.xsd r.xml");
    has(out, "r.xml validates");
    free(out);
}
END_TEST

// Counts what Python's parser finds, and compares it with what the attributes say.
static const char junit_reader[] =
    "import xml.etree.ElementTree as tree\n"
    "root = tree.parse('r.xml').getroot()\n"
    "def counts(e):\n"
    "    return [len(list(e.iter(t))) for t in ('testcase', 'failure', 'skipped')]\n"
    "for e in [root] + root.findall('testsuite'):\n"
    "    said = [int(e.get(a)) for a in ('tests', 'failures', 'skipped')]\n"
    "    assert said == counts(e), (said, counts(e))\n"
    "    print(e.tag, e.get('name'), *said)\n"
    "for p in root.iter('property'):\n"
    "    print(p.get('name'), p.get('value'))\n"
    "for c in root.iter('testcase'):\n"
    "    print(c.get('classname'), c.get('name'), *[d.tag + ': ' + d.get('message') for d in c])\n"
    "print('failure:', ascii(root.find('.//failure').text))\n";

START_TEST(junit_is_read_by_python) {
    char *out;

    if (!works("python3 -c 'import xml.etree.ElementTree'")) {
        return;
    }
    course_put("junit.py", junit_reader);
    out = shell_output("python3 junit.py");
    has(out, "testsuites None 5 2 1\n");
    has(out, "testsuite ch77.lab1 3 1 1\n");
    has(out, "score 5\npoints 10\n");
    has(out, "ch77.lab1 adds failure: sum: got 4, expected 5\n");
    has(out, "ch77.lab1 fills\n");
    has(out, "ch77.lab1 nothing skipped: not counted: pass `adds` first\n");
    has(out, "<&>\"\\']]>?[31m?\\xe9");
    free(out);
}
END_TEST

// ---- TAP ----------------------------------------------------------------------------------------

typedef struct Tap {
    int planned;
    int passed;
    int failed;
    int skipped;
    int blocks; // YAML blocks
} Tap;

// One test line after its number, "ok" and "not ok" told by `ok`.
static void take_tap_test(Tap *tap, bool ok, const char *rest) {
    const char *directive = strstr(rest, " # ");

    if (directive != NULL) {
        ck_assert_msg(ok && strncmp(directive, " # SKIP ", 8) == 0 && directive[8] != '\0',
                      "directive: %s", rest);
        tap->skipped++;
    } else if (ok) {
        tap->passed++;
    } else {
        tap->failed++;
    }
}

// A line of a YAML block: "  key: " and a JSON string, which YAML reads as well.
static void check_yaml_line(const char *line) {
    const char *colon = strstr(line, ": ");
    json_t *value;

    ck_assert_msg(strncmp(line, "  ", 2) == 0 && islower((unsigned char)line[2]) && colon != NULL,
                  "YAML: %s", line);
    value = json_loads(colon + 2, JSON_DECODE_ANY, NULL);
    ck_assert_msg(json_is_string(value), "YAML: %s", line);
    json_decref(value);
}

// Reads TAP version 13: the version, the plan, then tests numbered from 1, blocks and comments.
static Tap parse_tap(char *text) {
    Tap tap = {0};
    char *line = strsep(&text, "\n");
    bool in_block = false;
    bool after_failure = false;
    int number = 0;

    ck_assert_str_eq(line, "TAP version 13");
    ck_assert_int_eq(sscanf(strsep(&text, "\n"), "1..%d", &tap.planned), 1);
    while ((line = strsep(&text, "\n")) != NULL && !(*line == '\0' && text == NULL)) {
        const bool ok = strncmp(line, "ok ", 3) == 0;

        if (in_block && strcmp(line, "  ...") != 0) {
            check_yaml_line(line);
        } else if (in_block) {
            in_block = false;
        } else if (strcmp(line, "  ---") == 0) {
            ck_assert(after_failure);
            in_block = true;
            tap.blocks++;
        } else if (*line != '#') {
            const char *at = line + (ok ? 3 : 7);
            char *end;

            ck_assert_msg(ok || strncmp(line, "not ok ", 7) == 0, "TAP: %s", line);
            ck_assert_int_eq(strtol(at, &end, 10), ++number);
            ck_assert_int_eq(strncmp(end, " - ", 3), 0);
            take_tap_test(&tap, ok, end);
            after_failure = !ok;
        }
    }
    ck_assert(!in_block);
    ck_assert_int_eq(number, tap.planned);
    return tap;
}

START_TEST(tap_is_read) {
    char *text = file_text("r.tap");
    Tap tap;

    has(text, "\nnot ok 1 - ch77 lab1 adds 0/2.5\n  ---\n  case: \"2 + 3\"\n");
    has(text, "\nok 2 - ch77 lab1 fills 5/5\n");
    has(text, "\nok 3 - ch77 lab1 nothing 0/2.5 # SKIP not counted: pass `adds` first\n");
    has(text, "\n# ch77: 7.5 of 15 points, 10 h 1 min late, less 10 %: 6.75\n");
    tap = parse_tap(text);
    ck_assert_int_eq(tap.planned, 5);
    ck_assert_int_eq(tap.passed, 2);
    ck_assert_int_eq(tap.failed, 2);
    ck_assert_int_eq(tap.skipped, 1);
    ck_assert_int_eq(tap.blocks, 2);
    free(text);
}
END_TEST

START_TEST(tap_is_read_by_perl) {
    char *out;

    if (!works("perl -MTAP::Parser -e 1")) {
        return;
    }
    out =
        shell_output("perl -MTAP::Parser -e '$p = TAP::Parser->new({source => q(r.tap)}); $p->run;"
                     "print join(q( ), $p->version, $p->tests_planned, $p->tests_run,"
                     "scalar($p->actual_passed), scalar($p->actual_failed), scalar($p->skipped),"
                     "scalar($p->parse_errors)), qq(\\n)'");
    ck_assert_str_eq(out, "13 5 5 3 2 1 0\n"); // a skipped test is among those that passed
    free(out);
}
END_TEST

// ---- json ---------------------------------------------------------------------------------------

START_TEST(json_has_raw_and_late_scores) {
    json_t *report = load("r.json");
    const json_t *chapter = json_array_get(json_object_get(report, "chapters"), 0);
    const json_t *questions = json_array_get(json_object_get(chapter, "labs"), 1);
    const json_t *hidden = json_array_get(json_object_get(questions, "tests"), 1);

    ck_assert_double_eq_tol(number_of(report, "score"), 7.5, 1e-9);
    ck_assert_double_eq_tol(number_of(report, "score_after_lateness"), 6.75, 1e-9);
    ck_assert_str_eq(text_of(report, "submitted"), "2027-03-02T10:00");
    ck_assert_str_eq(text_of(chapter, "due"), "2027-03-01 23:59");
    ck_assert_str_eq(text_of(chapter, "lateness"), "10 h 1 min late");
    ck_assert_str_eq(text_of(chapter, "seed"), "alice");
    ck_assert_int_eq(json_integer_value(json_object_get(chapter, "percent_off")), 10);
    ck_assert(json_is_integer(json_object_get(chapter, "points"))); // 15, not 15.0
    ck_assert_str_eq(text_of(hidden, "name"), "q2");
    ck_assert(json_is_true(json_object_get(hidden, "hidden")));
    ck_assert(json_is_false(json_object_get(questions, "debugging")));
    json_decref(report);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("grader_formats");
    TCase *tests = tcase_create("grader_formats");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(tests, 120);
    tcase_add_unchecked_fixture(tests, grade_all_formats, course_leave);
    tcase_add_test(tests, gradescope_follows_its_fields);
    tcase_add_test(tests, gradescope_hides_what_is_hidden);
    tcase_add_test(tests, junit_follows_its_schema);
    tcase_add_test(tests, junit_is_read_by_python);
    tcase_add_test(tests, tap_is_read);
    tcase_add_test(tests, tap_is_read_by_perl);
    tcase_add_test(tests, json_has_raw_and_late_scores);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
