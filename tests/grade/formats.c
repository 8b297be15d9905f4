// The machine-readable reports TAP and JUnit XML; those in JSON are in formats_json.c. All text in
// the results is printable UTF-8 by now (make_printable).
#include "tests/grade/assignment.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

char *test_details(const TestResult *test) {
    Text text = {0};

    text_add(&text, "", 0);
    if (test->in_case != NULL) {
        text_format(&text, "case: %s\n", test->in_case);
    }
    if (test->message != NULL) {
        text_format(&text, "why: %s\n", test->message);
    }
    if (test->cause != NULL) {
        text_format(&text, "cause: %s\n", test->cause);
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

// The first line of a message, after a directive.
static void write_reason(FILE *out, const char *message) {
    if (message != NULL) {
        fprintf(out, " %.*s", (int)strcspn(message, "\n"), message);
    }
}

// A test that was not counted or not run is skipped, as TAP has it: neither passed nor failed.
static void write_tap_test(FILE *out, const char *chapter, const char *lab, const TestResult *test,
                           int number) {
    const bool failed = test->status == STATUS_FAIL;

    fprintf(out, "%s %d - %s %s %s %s/%s", failed ? "not ok" : "ok", number, chapter, lab,
            test->name, show_points(test->earned), show_points(test->worth));
    if (!failed && test->status != STATUS_PASS) {
        fputs(" # SKIP", out);
        write_reason(out, test->message);
    }
    fputc('\n', out);
    if (!failed) {
        return;
    }
    fprintf(out, "  ---\n");
    if (test->in_case != NULL) {
        write_yaml(out, "case", test->in_case);
    }
    if (test->message != NULL) {
        write_yaml(out, "message", test->message);
    }
    if (test->cause != NULL) {
        write_yaml(out, "cause", test->cause);
    }
    if (test->hint != NULL && test->hint[0] != '\0') {
        write_yaml(out, "hint", test->hint);
    }
    if (test->output != NULL) {
        write_yaml(out, "printed", test->output);
    }
    fprintf(out, "  ...\n");
}

// The chapter's score, as a comment.
static void write_tap_score(FILE *out, const ChapterResult *chapter) {
    fprintf(out, "# %s: %s of %s points", chapter->name, show_points(chapter->earned),
            show_points(chapter->worth));
    if (chapter->percent > 0) {
        fprintf(out, ", %s, less %d %%: %s", chapter->lateness, chapter->percent,
                show_points(chapter->final));
    }
    fputc('\n', out);
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
            if (lab->hidden > 0) {
                fprintf(out, "# %s %s: %s\n", chapters[c].name, lab->id, show_hidden(lab));
            }
        }
        write_tap_score(out, &chapters[c]);
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
    char *text = test_details(test);

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

// What a lab or a run of several sums up to.
typedef struct Counts {
    size_t tests;
    size_t failures;
    size_t skipped;
    double seconds;
} Counts;

static void count_lab(Counts *counts, const LabResult *lab) {
    for (size_t t = 0; t < lab->count; t++) {
        const Status status = lab->tests[t].status;

        counts->tests++;
        counts->failures += status == STATUS_FAIL ? 1 : 0;
        counts->skipped += status == STATUS_GATED || status == STATUS_NOT_RUN ? 1 : 0;
        counts->seconds += lab->tests[t].seconds;
    }
}

static void write_counts(FILE *out, const Counts *counts) {
    fprintf(out, " tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"%zu\" time=\"%.3f\">\n",
            counts->tests, counts->failures, counts->skipped, counts->seconds);
}

// The points of a lab, for programs that show a suite's properties.
static void write_properties(FILE *out, const LabResult *lab) {
    fprintf(out, "    <properties>\n      <property name=\"score\" value=\"%s\"/>\n",
            show_points(lab->earned));
    fprintf(out, "      <property name=\"points\" value=\"%s\"/>\n", show_points(lab->worth));
    if (lab->hidden > 0) {
        fprintf(out, "      <property name=\"hidden\" value=\"%zu\"/>\n", lab->hidden);
    }
    fputs("    </properties>\n", out);
}

static void write_junit_lab(FILE *out, const char *chapter, const LabResult *lab) {
    Counts counts = {0};

    count_lab(&counts, lab);
    fprintf(out, "  <testsuite name=\"%s.%s\"", chapter, lab->id);
    write_counts(out, &counts);
    write_properties(out, lab);
    for (size_t t = 0; t < lab->count; t++) {
        write_junit_test(out, chapter, lab->id, &lab->tests[t]);
    }
    if (lab->notes != NULL) {
        fputs("    <system-err>", out);
        write_xml(out, lab->notes);
        fputs("</system-err>\n", out);
    }
    fputs("  </testsuite>\n", out);
}

void write_junit(FILE *out, const ChapterResult *chapters, size_t count) {
    Counts counts = {0};

    for (size_t c = 0; c < count; c++) {
        for (size_t l = 0; l < chapters[c].count; l++) {
            count_lab(&counts, &chapters[c].labs[l]);
        }
    }
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites", out);
    write_counts(out, &counts);
    for (size_t c = 0; c < count; c++) {
        for (size_t l = 0; l < chapters[c].count; l++) {
            write_junit_lab(out, chapters[c].name, &chapters[c].labs[l]);
        }
    }
    fputs("</testsuites>\n", out);
}
