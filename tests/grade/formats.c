// The machine-readable reports: TAP, JUnit XML, Gradescope's results.json, and this course's JSON.
// All text in the results is printable UTF-8 by now (make_printable).
#include "tests/grade/grader.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *status_word(Status status) {
    switch (status) {
    case STATUS_PASS:
        return "passed";
    case STATUS_GATED:
        return "not counted";
    case STATUS_NOT_RUN:
        return "not run";
    case STATUS_FAIL:
        break;
    }
    return "failed";
}

// Case, message, output and hint as one text, to be freed; empty for a test that passed.
static char *details(const TestResult *test) {
    Text text = {0};

    text_add(&text, "", 0);
    if (test->in_case != NULL) {
        text_format(&text, "case: %s\n", test->in_case);
    }
    if (test->message != NULL) {
        text_format(&text, "why: %s\n", test->message);
    }
    if (test->status == STATUS_FAIL && test->hint != NULL && test->hint[0] != '\0') {
        text_format(&text, "hint: %s\n", test->hint);
    }
    if (test->status == STATUS_FAIL && test->output != NULL) {
        text_format(&text, "printed:\n%s\n", test->output);
    }
    return text.data;
}

// ---- TAP ----------------------------------------------------------------------------------------

// One line of the YAML block; JSON strings are YAML strings.
static void write_yaml(FILE *out, const char *key, const char *text) {
    json_t *value = json_string(text);
    char *quoted = json_dumps(value, JSON_ENCODE_ANY);

    fprintf(out, "  %s: %s\n", key, quoted != NULL ? quoted : "null");
    free(quoted);
    json_decref(value);
}

static void write_tap_test(FILE *out, const char *chapter, const char *lab, const TestResult *test,
                           int number) {
    fprintf(out, "%s %d - %s %s %s %d/%d\n", test->status == STATUS_PASS ? "ok" : "not ok", number,
            chapter, lab, test->name, test->score, test->points);
    if (test->status == STATUS_PASS) {
        return;
    }
    fprintf(out, "  ---\n");
    if (test->in_case != NULL) {
        write_yaml(out, "case", test->in_case);
    }
    if (test->message != NULL) {
        write_yaml(out, "message", test->message);
    }
    if (test->status == STATUS_FAIL && test->hint != NULL && test->hint[0] != '\0') {
        write_yaml(out, "hint", test->hint);
    }
    fprintf(out, "  ...\n");
}

void write_tap(FILE *out, const ChapterResult *chapters, size_t count) {
    int tests = 0;
    int number = 0;

    for (size_t c = 0; c < count; c++) {
        for (size_t l = 0; l < chapters[c].count; l++) {
            tests += (int)chapters[c].labs[l].count;
        }
    }
    fprintf(out, "TAP version 13\n1..%d\n", tests);
    for (size_t c = 0; c < count; c++) {
        for (size_t l = 0; l < chapters[c].count; l++) {
            const LabResult *lab = &chapters[c].labs[l];

            for (size_t t = 0; t < lab->count; t++) {
                write_tap_test(out, chapters[c].name, lab->id, &lab->tests[t], ++number);
            }
        }
    }
}

// ---- JUnit --------------------------------------------------------------------------------------

static void write_xml(FILE *out, const char *text) {
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

static void write_junit_test(FILE *out, const char *chapter, const char *lab,
                             const TestResult *test) {
    char *text = details(test);

    fprintf(out, "    <testcase classname=\"%s.%s\" name=\"", chapter, lab);
    write_xml(out, test->name);
    fprintf(out, "\" time=\"%.3f\">\n", test->seconds);
    if (test->status == STATUS_FAIL) {
        fputs("      <failure message=\"", out);
        write_xml(out, test->message != NULL ? test->message : "");
        fputs("\">", out);
        write_xml(out, text);
        fputs("</failure>\n", out);
    } else if (test->status != STATUS_PASS) {
        fputs("      <skipped message=\"", out);
        write_xml(out, test->message);
        fputs("\"/>\n", out);
    }
    fputs("    </testcase>\n", out);
    free(text);
}

static size_t count_status(const LabResult *lab, Status status) {
    size_t found = 0;

    for (size_t t = 0; t < lab->count; t++) {
        found += lab->tests[t].status == status ? 1 : 0;
    }
    return found;
}

void write_junit(FILE *out, const ChapterResult *chapters, size_t count) {
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n", out);
    for (size_t c = 0; c < count; c++) {
        for (size_t l = 0; l < chapters[c].count; l++) {
            const LabResult *lab = &chapters[c].labs[l];

            fprintf(out,
                    "  <testsuite name=\"%s.%s\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" "
                    "skipped=\"%zu\">\n",
                    chapters[c].name, lab->id, lab->count, count_status(lab, STATUS_FAIL),
                    count_status(lab, STATUS_GATED) + count_status(lab, STATUS_NOT_RUN));
            for (size_t t = 0; t < lab->count; t++) {
                write_junit_test(out, chapters[c].name, lab->id, &lab->tests[t]);
            }
            if (lab->notes != NULL) {
                fputs("    <system-err>", out);
                write_xml(out, lab->notes);
                fputs("</system-err>\n", out);
            }
            fputs("  </testsuite>\n", out);
        }
    }
    fputs("</testsuites>\n", out);
}

// ---- JSON ---------------------------------------------------------------------------------------

// The value of an optional text: null when there is none.
static json_t *json_text(const char *text) {
    return text != NULL && text[0] != '\0' ? json_string(text) : json_null();
}

// Writes and releases the value; a NULL anywhere in its making ends here.
static void finish_json(FILE *out, json_t *value) {
    if (value == NULL || json_dumpf(value, out, JSON_INDENT(2)) != 0) {
        die("cannot write the JSON report");
    }
    fputc('\n', out);
    json_decref(value);
}

static void append(json_t *array, json_t *value) {
    if (json_array_append_new(array, value) != 0) {
        die("cannot make the JSON report");
    }
}

static json_t *lab_json(const LabResult *lab) {
    json_t *tests = json_array();

    for (size_t t = 0; t < lab->count; t++) {
        const TestResult *test = &lab->tests[t];

        append(tests, json_pack("{s:s, s:i, s:i, s:s, s:b, s:o, s:o, s:o, s:o, s:f}", "name",
                                test->name, "score", test->score, "points", test->points, "status",
                                status_word(test->status), "gated", test->gated, "case",
                                json_text(test->in_case), "message", json_text(test->message),
                                "hint", json_text(test->hint), "output", json_text(test->output),
                                "seconds", test->seconds));
    }
    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:b, s:o, s:o}", "id", lab->id, "title", lab->title,
                     "file", lab->file, "score", lab->score, "points", lab->points, "built",
                     lab->built, "notes", json_text(lab->notes), "tests", tests);
}

void write_json(FILE *out, const ChapterResult *chapters, size_t count) {
    json_t *list = json_array();
    int score = 0;
    int points = 0;

    for (size_t c = 0; c < count; c++) {
        json_t *labs = json_array();

        for (size_t l = 0; l < chapters[c].count; l++) {
            append(labs, lab_json(&chapters[c].labs[l]));
        }
        append(list, json_pack("{s:s, s:i, s:i, s:o}", "name", chapters[c].name, "score",
                               chapters[c].score, "points", chapters[c].points, "labs", labs));
        score += chapters[c].score;
        points += chapters[c].points;
    }
    finish_json(out,
                json_pack("{s:i, s:i, s:o}", "score", score, "points", points, "chapters", list));
}

// The results.json of a Gradescope autograder.
void write_gradescope(FILE *out, const ChapterResult *chapters, size_t count) {
    json_t *tests = json_array();
    Text notes = {0};
    int score = 0;

    text_add(&notes, "", 0);
    for (size_t c = 0; c < count; c++) {
        for (size_t l = 0; l < chapters[c].count; l++) {
            const LabResult *lab = &chapters[c].labs[l];

            if (lab->notes != NULL) {
                text_format(&notes, "%s %s:\n%s\n", chapters[c].name, lab->id, lab->notes);
            }
            for (size_t t = 0; t < lab->count; t++) {
                const TestResult *test = &lab->tests[t];
                char *name = format_text("%s %s: %s", chapters[c].name, lab->id, test->name);
                char *text = details(test);

                append(tests, json_pack("{s:s, s:i, s:i, s:s, s:s, s:s}", "name", name, "score",
                                        test->score, "max_score", test->points, "status",
                                        test->status == STATUS_PASS ? "passed" : "failed", "output",
                                        text, "visibility", "visible"));
                free(name);
                free(text);
            }
        }
        score += chapters[c].score;
    }
    finish_json(out, json_pack("{s:i, s:s, s:s, s:o}", "score", score, "visibility", "visible",
                               "output", notes.data, "tests", tests));
    text_free(&notes);
}
