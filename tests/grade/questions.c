// A chapter's numeric questions: answers.txt against tests/grade/chNN/questions.c.
#include "tests/grade/grader.h"
#include "tests/grade/numbers.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const size_t answers_limit = 64 << 10;

// ---- one answer ---------------------------------------------------------------------------------

// Whole numbers that are asked for exactly are compared so, however large they are.
static bool is_right(double got, double expected, double tolerance) {
    const double exact_tolerance = 1e-6, exact_limit = 0x1p53;

    if (tolerance <= exact_tolerance && fabs(expected) < exact_limit &&
        expected == rint(expected)) {
        return got == expected;
    }
    return is_near(got, expected, tolerance);
}

// B, KiB, GB, bytes, but not FLOP/B: what a decimal or a binary prefix can stand before.
static bool counts_bytes(const char *unit) {
    const size_t length = strlen(unit);

    return strcmp(unit, "bytes") == 0 ||
           (length > 0 && length <= 3 && unit[length - 1] == 'B' && strchr(unit, '/') == NULL);
}

static const Factor percent_factor = {100, "100 (a share, or percent?)"};

static bool is_percentage(const char *unit) {
    return strcmp(unit, "%") == 0;
}

// Whether the two make `one`, and are not about the same.
static bool are_reciprocal(double got, double expected, double one, double share) {
    const double same = 0.1;

    return is_near(got * expected, one, share) && !is_near(got, expected, same);
}

// Whether the answer is a ratio the other way round; that of percent in percent or not.
static bool is_reciprocal(double got, double expected, const char *unit, double share) {
    if (is_percentage(unit)) {
        return are_reciprocal(got, expected, 1e4, share) ||
               are_reciprocal(got, expected, 100.0, share);
    }
    return (unit[0] == '\0' || strchr(unit, '/') != NULL) &&
           are_reciprocal(got, expected, 1.0, share);
}

static char *judge_value(double got, double expected, double tolerance, const char *unit) {
    // A factor near 1 can be told from rounding only where the tolerance is smaller than it.
    const double narrow = tolerance < 0.005 ? tolerance : 0.005;
    const Factor *factor = NULL;
    bool large = false;

    if (is_right(got, expected, tolerance)) {
        return NULL;
    }
    if (expected == 0.0 || got == 0.0) {
        return copy_text("wrong");
    }
    if (is_near(-got, expected, tolerance)) {
        return copy_text("wrong sign");
    }
    if (counts_bytes(unit)) {
        factor = find_factor(byte_factors, BYTE_FACTORS, got, expected, narrow, &large);
    }
    if (is_reciprocal(got, expected, unit, narrow)) {
        return copy_text("the other way round: the reciprocal is asked for");
    }
    if (is_percentage(unit) || (unit[0] == '\0' && fabs(expected) <= 1.0)) {
        factor = find_factor(&percent_factor, 1, got, expected, narrow, &large);
    }
    if (factor == NULL) {
        factor = find_factor(usual_factors, USUAL_FACTORS, got, expected, narrow, &large);
    }
    if (factor == NULL) {
        return copy_text("wrong");
    }
    return format_text("too %s by a factor of %s", large ? "large" : "small", factor->name);
}

// Units that mean the same. Of things counted one by one, it does not matter how they are called.
static const char *const same_units[][4] = {
    {"FLOP/byte", "FLOP/B"},
    {"bytes", "byte", "B"},
    {"queries", "keys", "tokens", "elements"},
};

static bool is_unit(const char *given, const char *unit) {
    for (size_t i = 0; i < sizeof(same_units) / sizeof(same_units[0]); i++) {
        bool has_given = false;
        bool has_unit = false;

        for (size_t j = 0; j < 4 && same_units[i][j] != NULL; j++) {
            has_given |= strcmp(same_units[i][j], given) == 0;
            has_unit |= strcmp(same_units[i][j], unit) == 0;
        }
        if (has_given && has_unit) {
            return true;
        }
    }
    return strcmp(given, unit) == 0;
}

char *judge_answer(const char *answer, double expected, double tolerance, const char *unit) {
    double value;
    const char *end;

    if (strcmp(answer, "?") == 0 || answer[0] == '\0') {
        return copy_text("not answered yet");
    }
    end = read_number(answer, &value);
    if (end == NULL) {
        return format_text("`%.40s` does not begin with a number (like 512, 1,048,576 or 1.5e9)",
                           answer);
    }
    while (isspace((unsigned char)*end)) {
        end++;
    }
    if (*end != '\0' && !is_unit(end, unit)) {
        return unit[0] == '\0' ? format_text("a plain number is asked for, without `%.40s`", end)
                               : format_text("the unit asked for is %s, not `%.40s`", unit, end);
    }
    return judge_value(value, expected, tolerance, unit);
}

// ---- answers.txt --------------------------------------------------------------------------------

static char *strip(char *text) {
    char *end = text + strlen(text);

    while (end > text && isspace((unsigned char)end[-1])) {
        *--end = '\0';
    }
    while (isspace((unsigned char)*text)) {
        text++;
    }
    return text;
}

static TestResult *find_question(LabResult *lab, const char *name) {
    for (size_t i = 0; i < lab->count; i++) {
        if (strcmp(lab->tests[i].name, name) == 0) {
            return &lab->tests[i];
        }
    }
    return NULL;
}

// Reads the file's lines into answers[i], the answer to question i. What is wrong with a line goes
// into lab->notes with the line's number.
static void read_answers(LabResult *lab, char **answers, char *text) {
    Text notes = {0};
    char *line;

    for (int number = 1; (line = strsep(&text, "\n")) != NULL; number++) {
        char *equals;
        TestResult *question;

        line[strcspn(line, "#")] = '\0';
        line = strip(line);
        if (*line == '\0') {
            continue;
        }
        equals = strchr(line, '=');
        if (equals == NULL || equals == line) {
            text_format(&notes, "%s:%d: expected `name = number unit`, found `%.40s`\n", lab->file,
                        number, line);
            continue;
        }
        *equals = '\0';
        question = find_question(lab, strip(line));
        if (question == NULL) {
            text_format(&notes, "%s:%d: there is no question `%.40s`\n", lab->file, number,
                        strip(line));
        } else if (answers[question - lab->tests] != NULL) {
            text_format(&notes, "%s:%d: `%s` is answered twice; the first answer counts\n",
                        lab->file, number, question->name);
        } else {
            answers[question - lab->tests] = copy_text(strip(equals + 1));
        }
    }
    lab->notes = notes.data;
}

// The text of answers.txt, to be freed; NULL with the reason in lab->notes.
static char *read_answers_file(LabResult *lab, const char *from, const char *chapter) {
    char *text = read_file(lab->file, answers_limit);
    struct stat info;

    if (text == NULL && errno == ENOENT) {
        lab->missing = true;
        lab->notes = explain_missing(from, chapter, "answers.txt");
    } else if (text == NULL || stat(lab->file, &info) != 0 ||
               (size_t)info.st_size != strlen(text)) { // a zero byte ends it early
        lab->notes = format_text("%s: too large or not text", lab->file);
        free(text);
        text = NULL;
    }
    make_printable(text);
    return text;
}

LabResult grade_questions_of(const char *chapter, const char *from, const char *only) {
    const Limits limits = {10.0, 64 << 10, (size_t)1 << 30};
    char *lister = lister_path(chapter, "questions");
    char *const argv[] = {"questions", "--questions", NULL};
    LabResult lab = {.id = copy_text("questions"), .title = copy_text("Questions")};
    char **answers;
    char *text;
    Run run;

    run_suite(&run, lister, argv, &limits);
    if (run.end != END_EXIT || run.code != 0) {
        die("tests/grade/%s/questions.c does not list its questions\n%s", chapter,
            run.output.data != NULL ? run.output.data : "");
    }
    lab.built = true;
    lab.file = format_text("%s/%s/answers.txt", from, chapter);
    lab.tests = allocate(run.entries.count, sizeof(TestResult));
    lab.count = run.entries.count;
    for (size_t i = 0; i < lab.count; i++) {
        lab.tests[i].name =
            format_text("%.*s", (int)strcspn(run.entries.name[i], "\t"), run.entries.name[i]);
    }
    answers = allocate(lab.count, sizeof(char *));
    text = read_answers_file(&lab, from, chapter);
    lab.untouched = text != NULL && is_untouched(chapter, "answers.txt", lab.file);
    if (text != NULL) {
        read_answers(&lab, answers, text);
    }
    for (size_t i = 0; i < lab.count; i++) {
        TestResult *question = &lab.tests[i];
        char *rest = run.entries.name[i];
        double expected;
        double tolerance;
        const char *unit;

        next_field(&rest);
        question->points = atoi(next_field(&rest));
        expected = strtod(next_field(&rest), NULL);
        tolerance = strtod(next_field(&rest), NULL);
        unit = next_field(&rest);
        question->hint = copy_text(next_field(&rest));
        question->message =
            judge_answer(answers[i] != NULL ? answers[i] : "?", expected, tolerance, unit);
        question->status = question->message == NULL ? STATUS_PASS : STATUS_FAIL;
        question->score = question->message == NULL ? question->points : 0;
        if (question->message != NULL && answers[i] != NULL && strcmp(answers[i], "?") != 0) {
            question->in_case = copy_text(answers[i]);
        }
        free(answers[i]);
    }
    make_printable(lab.file);
    make_printable(lab.notes);
    free(answers);
    free(text);
    run_free(&run);
    free(lister);
    if (only != NULL) {
        select_test(&lab, only);
    }
    for (size_t i = 0; i < lab.count; i++) {
        lab.points += lab.tests[i].points;
        lab.score += lab.tests[i].score;
    }
    return lab;
}
