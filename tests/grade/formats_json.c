// The reports in JSON: this course's own, and Gradescope's results.json. All text in the results is
// printable UTF-8 by now (make_printable).
#include "tests/grade/assignment.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

// ---- values -------------------------------------------------------------------------------------

// The value of an optional text: null when there is none.
static json_t *json_text(const char *text) {
    return text != NULL && text[0] != '\0' ? json_string(text) : json_null();
}

// A number of points: an integer where it is one.
static json_t *json_points(int hundredths) {
    return hundredths % POINT == 0 ? json_integer(hundredths / POINT)
                                   : json_real((double)hundredths / POINT);
}

// Writes and releases the value; a NULL anywhere in its making ends here. Twelve digits: 1.43 is
// not written as 1.4299999999999999.
static void finish_json(FILE *out, json_t *value) {
    if (value == NULL || json_dumpf(value, out, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) != 0) {
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

// ---- json ---------------------------------------------------------------------------------------

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

static json_t *test_json(const TestResult *test) {
    return json_pack("{s:s, s:o, s:o, s:s, s:b, s:b, s:o, s:o, s:o, s:o, s:o, s:f}", "name",
                     test->name, "score", json_points(test->earned), "points",
                     json_points(test->worth), "status", status_word(test->status), "gated",
                     test->gated, "hidden", test->hidden, "case", json_text(test->in_case),
                     "message", json_text(test->message), "cause", json_text(test->cause), "hint",
                     json_text(test->hint), "output", json_text(test->output), "seconds",
                     test->seconds);
}

static json_t *lab_json(const LabResult *lab) {
    json_t *tests = json_array();

    for (size_t t = 0; t < lab->count; t++) {
        append(tests, test_json(&lab->tests[t]));
    }
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:b, s:b, s:o, s:i, s:o}", "id", lab->id, "title",
                     lab->title, "file", lab->file, "score", json_points(lab->earned), "points",
                     json_points(lab->worth), "built", lab->built, "debugging", lab->debugging,
                     "notes", json_text(lab->notes), "hidden", (int)lab->hidden, "tests", tests);
}

static json_t *chapter_json(const ChapterResult *chapter) {
    json_t *labs = json_array();

    for (size_t l = 0; l < chapter->count; l++) {
        append(labs, lab_json(&chapter->labs[l]));
    }
    return json_pack("{s:s, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:o}", "name", chapter->name,
                     "score", json_points(chapter->earned), "points", json_points(chapter->worth),
                     "score_after_lateness", json_points(chapter->final), "percent_off",
                     chapter->percent, "due", json_text(chapter->due), "lateness",
                     json_text(chapter->lateness), "seed", json_text(chapter->seed), "labs", labs);
}

// Sums over the chapters.
typedef struct Sums {
    int earned;
    int worth;
    int final;
    double seconds;
} Sums;

static Sums sum_up(const ChapterResult *chapters, size_t count) {
    Sums sums = {0};

    for (size_t c = 0; c < count; c++) {
        sums.earned += chapters[c].earned;
        sums.worth += chapters[c].worth;
        sums.final += chapters[c].final;
        for (size_t l = 0; l < chapters[c].count; l++) {
            for (size_t t = 0; t < chapters[c].labs[l].count; t++) {
                sums.seconds += chapters[c].labs[l].tests[t].seconds;
            }
        }
    }
    return sums;
}

void write_json(FILE *out, const ChapterResult *chapters, size_t count) {
    const Sums sums = sum_up(chapters, count);
    json_t *list = json_array();

    for (size_t c = 0; c < count; c++) {
        append(list, chapter_json(&chapters[c]));
    }
    finish_json(out,
                json_pack("{s:o, s:o, s:o, s:o, s:o}", "score", json_points(sums.earned), "points",
                          json_points(sums.worth), "score_after_lateness", json_points(sums.final),
                          "submitted", json_text(options.submitted), "chapters", list));
}

// ---- Gradescope ---------------------------------------------------------------------------------

// "2.1.3": the chapter, the lab ("q" for the questions) and the test, as Gradescope shows them
// before the name. To be freed.
static char *test_number(const char *chapter, const char *lab, size_t test) {
    const char *which = strncmp(lab, "lab", 3) == 0 ? lab + 3 : "q";

    return format_text("%d.%s.%zu", atoi(chapter + 2), which, test + 1);
}

// A hidden test is shown to the student when the grades are published, and counts until then.
static json_t *gradescope_test(const char *chapter, const LabResult *lab, size_t t) {
    const TestResult *test = &lab->tests[t];
    char *name = format_text("%s %s: %s", chapter, lab->id, test->name);
    char *number = test_number(chapter, lab->id, t);
    char *text = test_details(test);
    json_t *value =
        json_pack("{s:o, s:o, s:s, s:s, s:s, s:s, s:s, s:{s:s, s:f}}", "score",
                  json_points(test->earned), "max_score", json_points(test->worth), "status",
                  test->status == STATUS_PASS ? "passed" : "failed", "name", name, "number", number,
                  "output", text, "visibility", test->hidden ? "after_published" : "visible",
                  "extra_data", "status", status_word(test->status), "seconds", test->seconds);

    free(name);
    free(number);
    free(text);
    return value;
}

// What stands above the tests: lateness, hidden tests that were not run, the compiler's words.
static void add_remarks(Text *text, const ChapterResult *chapter) {
    if (chapter->due != NULL && chapter->lateness != NULL) {
        text_format(text, "%s: due %s, handed in %s\n", chapter->name, chapter->due,
                    chapter->lateness);
    }
    if (chapter->percent > 0) {
        text_format(text, "%s: for lateness %d %% is taken off: %s points become %s\n",
                    chapter->name, chapter->percent, show_points(chapter->earned),
                    show_points(chapter->final));
    }
    for (size_t l = 0; l < chapter->count; l++) {
        const LabResult *lab = &chapter->labs[l];

        if (lab->hidden > 0) {
            text_format(text, "%s %s: %s\n", chapter->name, lab->id, show_hidden(lab));
        }
        if (lab->notes != NULL) {
            text_format(text, "%s %s:\n%s\n", chapter->name, lab->id, lab->notes);
        }
    }
}

// The results.json of a Gradescope autograder, with the fields of its published specification. The
// score at the top counts, not the sum of the tests: it has lateness taken off. What the grader
// prints stays with the instructor, since it names hidden tests.
void write_gradescope(FILE *out, const ChapterResult *chapters, size_t count) {
    const Sums sums = sum_up(chapters, count);
    json_t *tests = json_array();
    json_t *extra =
        json_pack("{s:o, s:o, s:o, s:o}", "score_before_lateness", json_points(sums.earned),
                  "points", json_points(sums.worth), "submitted", json_text(options.submitted),
                  "seed", json_text(count > 0 ? chapters[0].seed : NULL));
    Text remarks = {0};

    text_add(&remarks, "", 0);
    for (size_t c = 0; c < count; c++) {
        add_remarks(&remarks, &chapters[c]);
        for (size_t l = 0; l < chapters[c].count; l++) {
            const LabResult *lab = &chapters[c].labs[l];

            for (size_t t = 0; t < lab->count; t++) {
                append(tests, gradescope_test(chapters[c].name, lab, t));
            }
        }
    }
    finish_json(out, json_pack("{s:o, s:f, s:s, s:s, s:s, s:o, s:o}", "score",
                               json_points(sums.final), "execution_time", sums.seconds, "output",
                               remarks.data, "visibility", "visible", "stdout_visibility", "hidden",
                               "extra_data", extra, "tests", tests));
    text_free(&remarks);
}
