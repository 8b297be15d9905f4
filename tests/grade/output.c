// The report for a reader at a terminal, 80 columns.
#include "tests/grade/assignment.h"
#include "tests/grade/protocol.h"

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

// The columns that the scores of a lab take.
static int score_width(const LabResult *lab) {
    int width = 2;

    for (size_t i = 0; i < lab->count; i++) {
        const int columns = (int)strlen(show_points(lab->tests[i].earned));

        width = columns > width ? columns : width;
    }
    return width;
}

// Lab tests that failed after the first get one line: the first one is the one to mend.
static void write_test(FILE *out, const TestResult *test, int width, bool in_full) {
    const char *word = test->status == STATUS_PASS   ? "ok  "
                       : test->status == STATUS_FAIL ? "FAIL"
                                                     : "-   ";
    char *name = format_text("%s%s", test->name, test->hidden ? " (hidden)" : "");
    int used = fprintf(out, "  %s %-*s %*s/%s", word, NAME, name, width, show_points(test->earned),
                       show_points(test->worth));

    free(name);

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
    if (test->cause != NULL) {
        write_wrapped(out, "cause: ", test->cause, 7);
    }
    if (test->hint != NULL && test->hint[0] != '\0' && !test->by_values) {
        write_wrapped(out, "hint:  ", test->hint, 7);
    }
}

// A lab without a file: all of its tests in one line.
static void write_missing(FILE *out, const LabResult *lab, int width) {
    char *tests = format_text("(all of %zu)", lab->count);

    fprintf(out, "  FAIL %-*s %*s/%s\n", NAME, tests, width, show_points(lab->earned),
            show_points(lab->worth));
    free(tests);
}

static void write_lab(FILE *out, const char *chapter, const LabResult *lab) {
    bool first = true;
    bool questions = strcmp(lab->id, "questions") == 0;
    const TestResult *example = NULL;
    const int width = score_width(lab);

    int used = fprintf(out, "%s %s: %s", chapter, lab->id, lab->title);
    bool fits = used + 4 + (int)strlen(lab->file) <= WIDTH;

    fprintf(out, "%s(%s)\n", fits ? "  " : "\n  ", lab->file);
    if (lab->notes != NULL) {
        write_wrapped(out, "", lab->notes, 4);
    }
    if (lab->missing) {
        write_missing(out, lab, width);
    }
    for (size_t i = 0; i < lab->count && !lab->missing; i++) {
        const TestResult *test = &lab->tests[i];
        bool failed = test->status == STATUS_FAIL;

        // A lab that did not build has said so above; an answer that is wrong gets its hint.
        write_test(out, test, width,
                   lab->built && failed && (questions ? test->in_case != NULL : first));
        example = example == NULL && failed && !first && !questions ? test : example;
        first = first && !failed;
    }
    if (lab->built && !lab->missing && example != NULL) {
        fprintf(out, "  (one test in full: make grade-%s LAB=%s TEST=%s)\n", chapter, lab->id + 3,
                example->name);
    }
    if (lab->program != NULL && lab->score < lab->points) {
        const unsigned long long seed = chapter_seed(chapter);

        fputs("  (debug: ", out);
        if (seed != 0) {
            fprintf(out, SEED_VARIABLE "=%llx ", seed);
        }
        fprintf(out, "gdb --args %s --run %s)\n", lab->program, lab->tests[0].name);
    }
    if (lab->hidden > 0) {
        fprintf(out, "  (%s)\n", show_hidden(lab));
    }
    fputc('\n', out);
}

// Of numbers of hundredths.
static void write_bar_line(FILE *out, const char *name, int earned, int worth, const char *remark) {
    const int filled = worth > 0 ? (int)((int64_t)earned * BAR / worth) : 0;

    fprintf(out, "%-5s %4s/%-4s [%.*s%.*s]%s%s\n", name, show_points(earned), show_points(worth),
            filled, "##########", BAR - filled, "----------", remark[0] != '\0' ? "  " : "",
            remark);
}

void write_score_line(FILE *out, const char *name, int score, int points, const char *remark) {
    write_bar_line(out, name, POINT * score, POINT * points, remark);
}

// When the chapter is due, what lateness takes off, and which random cases it had.
static void write_terms(FILE *out, const ChapterResult *chapter) {
    if (chapter->due != NULL && chapter->lateness == NULL) {
        fprintf(out, "%6sdue %s\n", "", chapter->due);
    } else if (chapter->lateness != NULL) {
        fprintf(out, "%6sdue %s; handed in %s\n", "", chapter->due, chapter->lateness);
    }
    if (chapter->percent > 0) {
        fprintf(out, "%6sfor lateness %d %% is taken off: %s points become %s\n", "",
                chapter->percent, show_points(chapter->earned), show_points(chapter->final));
    }
    if (chapter->seed != NULL) {
        fprintf(out, "%6srandom cases of the seed `%s`\n", "", chapter->seed);
    } else if (assignment_of(chapter->name)->own_seeds) {
        fprintf(out, "%6srandom cases for everybody; SEED=your-id gives those of your own\n", "");
    }
}

// Whether the options leave something of a lab to report.
static bool has_content(const LabResult *lab) {
    return lab->count > 0 || (lab->hidden > 0 && options.test == NULL);
}

// Labs that nobody has begun: a line each, followed by an empty one behind the last of them.
static void write_untouched(FILE *out, const char *chapter, const LabResult *lab) {
    fprintf(out, "%s %s: %s  (not begun, %s/%s)\n", chapter, lab->id, lab->title,
            show_points(lab->earned), show_points(lab->worth));
}

static void write_labs(FILE *out, const ChapterResult *chapters, size_t count) {
    bool in_list = false;

    for (size_t c = 0; c < count; c++) {
        for (size_t l = 0; l < chapters[c].count; l++) {
            const LabResult *lab = &chapters[c].labs[l];
            const bool brief = count > 1 && lab->untouched && lab->score == 0;

            if (!has_content(lab)) {
                continue;
            }
            if (in_list && !brief) {
                fputc('\n', out);
            }
            in_list = brief;
            (brief ? write_untouched : write_lab)(out, chapters[c].name, lab);
        }
    }
    if (in_list) {
        fputc('\n', out);
    }
}

void write_text(FILE *out, const ChapterResult *chapters, size_t count) {
    int final = 0;
    int worth = 0;
    bool late = false;

    write_labs(out, chapters, count);
    for (size_t c = 0; c < count; c++) {
        write_bar_line(out, chapters[c].name, chapters[c].earned, chapters[c].worth, "");
        write_terms(out, &chapters[c]);
        final += chapters[c].final;
        worth += chapters[c].worth;
        late |= chapters[c].percent > 0;
    }
    if (count > 1) {
        write_bar_line(out, "total", final, worth, late ? "after lateness" : "");
    }
}
