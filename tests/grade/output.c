// The report for a reader at a terminal, 80 columns.
#include "tests/grade/grader.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 80, BAR = 10, NAME = 26, PRINTED_LINES = 5 };

void show_step(const LabResult *lab, const char *step) {
    if (options.show_steps) {
        end_steps();
        fprintf(stderr, "%s: %.*s ", lab->id, WIDTH / 2, step);
    }
}

void end_steps(void) {
    if (options.show_steps) {
        fprintf(stderr, "\r%*s\r", WIDTH - 1, "");
    }
}

// Prints text wrapped at WIDTH, each line after `indent` blanks. Line ends in the text are kept.
static void write_wrapped(FILE *out, const char *label, const char *text, int indent) {
    int width = WIDTH - indent - (int)strlen(label);

    for (const char *at = text; *at != '\0';) {
        int length = (int)strcspn(at, "\n");

        if (length > width) {
            int cut = width;

            while (cut > 0 && at[cut] != ' ') {
                cut--;
            }
            length = cut > 0 ? cut : width;
        }
        fprintf(out, "%*s%s%.*s\n", indent, "", label, length, at);
        label = label[0] != '\0' ? "       " : label; // as wide as the labels below
        at += length;
        at += *at == '\n' || *at == ' ' ? 1 : 0;
    }
}

// What the learner's code printed: its first lines.
static void write_printed(FILE *out, const char *text) {
    const char *label = "print: ";

    for (int line = 0; *text != '\0' && line < PRINTED_LINES; line++) {
        int length = (int)strcspn(text, "\n");

        fprintf(out, "%7s%s%.*s\n", "", label, length > 65 ? 65 : length, text);
        label = "       ";
        text += length;
        text += *text == '\n' ? 1 : 0;
    }
    if (*text != '\0') {
        fprintf(out, "%14s...\n", "");
    }
}

// The message's first line, beside the score where it fits, otherwise below and perhaps cut.
static void write_brief(FILE *out, const char *message, int used) {
    int length = (int)strcspn(message, "\n");
    bool cut = length > WIDTH - 7;

    if (used + 2 + length <= WIDTH) {
        fprintf(out, "  %.*s\n", length, message);
    } else {
        fprintf(out, "\n%7s%.*s%s\n", "", cut ? WIDTH - 10 : length, message, cut ? "..." : "");
    }
}

// Lab tests that failed after the first get one line: the first one is the one to mend.
static void write_test(FILE *out, const TestResult *test, bool in_full) {
    const char *word = test->status == STATUS_PASS   ? "ok  "
                       : test->status == STATUS_FAIL ? "FAIL"
                                                     : "-   ";

    int used = fprintf(out, "  %s %-*s %2d/%d", word, NAME, test->name, test->score, test->points);

    if (test->message == NULL || in_full) {
        fputc('\n', out);
    }
    if (test->message == NULL) {
        return;
    }
    if (!in_full) {
        write_brief(out, test->message, used);
        return;
    }
    if (test->in_case != NULL) {
        write_wrapped(out, "case:  ", test->in_case, 7);
    }
    write_wrapped(out, "why:   ", test->message, 7);
    if (test->output != NULL) {
        write_printed(out, test->output);
    }
    if (test->hint != NULL && test->hint[0] != '\0') {
        write_wrapped(out, "hint:  ", test->hint, 7);
    }
}

static void write_lab(FILE *out, const char *chapter, const LabResult *lab) {
    bool first = true;
    bool questions = strcmp(lab->id, "questions") == 0;
    const TestResult *example = NULL;

    int used = fprintf(out, "%s %s: %s", chapter, lab->id, lab->title);
    bool fits = used + 4 + (int)strlen(lab->file) <= WIDTH;

    fprintf(out, "%s(%s)\n", fits ? "  " : "\n  ", lab->file);
    if (lab->notes != NULL) {
        write_wrapped(out, "", lab->notes, 4);
    }
    for (size_t i = 0; i < lab->count; i++) {
        const TestResult *test = &lab->tests[i];
        bool failed = test->status == STATUS_FAIL;

        // A lab that did not build has said so above; an answer that is wrong gets its hint.
        write_test(out, test, lab->built && failed && (questions ? test->in_case != NULL : first));
        example = example == NULL && failed && !first && !questions ? test : example;
        first = first && !failed;
    }
    if (lab->built && example != NULL) {
        fprintf(out, "  (one test in full: make grade-%s LAB=%s TEST=%s)\n", chapter, lab->id + 3,
                example->name);
    }
    if (lab->program != NULL && lab->score < lab->points) {
        fprintf(out, "  (debug: gdb --args %s --run %s)\n", lab->program, lab->tests[0].name);
    }
    fputc('\n', out);
}

void write_score_line(FILE *out, const char *name, int score, int points, const char *remark) {
    int filled = points > 0 ? score * BAR / points : 0;

    fprintf(out, "%-5s %4d/%-4d [%.*s%.*s]%s%s\n", name, score, points, filled, "##########",
            BAR - filled, "----------", remark[0] != '\0' ? "  " : "", remark);
}

void write_text(FILE *out, const ChapterResult *chapters, size_t count) {
    int score = 0;
    int points = 0;

    for (size_t c = 0; c < count; c++) {
        for (size_t l = 0; l < chapters[c].count; l++) {
            if (chapters[c].labs[l].count > 0) {
                write_lab(out, chapters[c].name, &chapters[c].labs[l]);
            }
        }
    }
    for (size_t c = 0; c < count; c++) {
        write_score_line(out, chapters[c].name, chapters[c].score, chapters[c].points, "");
        score += chapters[c].score;
        points += chapters[c].points;
    }
    if (count > 1) {
        write_score_line(out, "total", score, points, "");
    }
}
