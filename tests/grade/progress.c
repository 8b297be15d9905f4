// The best score of each lab so far, kept in $BUILD/progress/chNN, one line a lab: "lab1 9".
#include "tests/grade/grader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const size_t progress_limit = 4096;

// The text of a chapter's file, to be freed; NULL when there is none.
static char *read_progress(const char *chapter) {
    char *path = format_text("%s/progress/%s", options.build, chapter);
    char *text = read_file(path, progress_limit);

    free(path);
    return text;
}

static void write_progress(const char *chapter, const char *text) {
    char *directory = format_text("%s/progress", options.build);
    char *path = format_text("%s/%s", directory, chapter);

    if (!make_directories(directory) || !write_file(path, text)) {
        die("%s: %s", path, strerror(errno));
    }
    free(path);
    free(directory);
}

// The score that the text remembers for a lab; -1 when it was never graded. text may be NULL.
static int best_score(const char *text, const char *lab) {
    char id[32];
    int score;

    while (text != NULL && *text != '\0') {
        if (sscanf(text, "%31s %d", id, &score) == 2 && strcmp(id, lab) == 0) {
            return score;
        }
        text += strcspn(text, "\n");
        text += *text == '\n' ? 1 : 0;
    }
    return -1;
}

static bool has_lab(const ChapterResult *chapter, const char *id) {
    for (size_t i = 0; i < chapter->count; i++) {
        if (strcmp(chapter->labs[i].id, id) == 0) {
            return true;
        }
    }
    return false;
}

void remember_progress(const ChapterResult *chapter) {
    char *old = read_progress(chapter->name);
    Text text = {0};

    text_add(&text, "", 0);
    for (size_t i = 0; i < chapter->count; i++) {
        const LabResult *lab = &chapter->labs[i];
        int best = best_score(old, lab->id);

        text_format(&text, "%s %d\n", lab->id, lab->score > best ? lab->score : best);
    }
    for (const char *line = old; line != NULL && *line != '\0';) { // labs that did not run now
        int length = (int)strcspn(line, "\n");
        char id[32];

        if (sscanf(line, "%31s", id) == 1 && !has_lab(chapter, id)) {
            text_format(&text, "%.*s\n", length, line);
        }
        line += length;
        line += *line == '\n' ? 1 : 0;
    }
    if (chapter->count > 0) {
        write_progress(chapter->name, text.data);
    }
    text_free(&text);
    free(old);
}

typedef struct Sum {
    int score;
    int points;
    bool tried;
} Sum;

// Adds a lab that is worth `points` and was graded with `best`, -1 if never.
static void add_lab(Sum *sum, int points, int best) {
    sum->points += points;
    sum->score += best < 0 ? 0 : best < points ? best : points; // labs may have changed since
    sum->tried |= best >= 0;
}

// What a chapter's labs and questions are worth, tried or not, and the best scores.
static Sum chapter_sum(const char *chapter) {
    bool questions;
    Names suites = chapter_suites(chapter, &questions);
    char *text = read_progress(chapter);
    Sum sum = {0};

    for (size_t i = 0; i < suites.count; i++) {
        LabResult lab = lab_table(chapter, suites.name[i]);
        int points = 0;

        for (size_t t = 0; t < lab.count; t++) {
            points += lab.tests[t].points;
        }
        add_lab(&sum, points, best_score(text, lab.id));
        lab_free(&lab);
    }
    if (questions) {
        LabResult lab = grade_questions_of(chapter, "exercises", NULL);

        add_lab(&sum, lab.points, best_score(text, lab.id));
        lab_free(&lab);
    }
    names_free(&suites);
    free(text);
    return sum;
}

void show_progress(const Names *chapters) {
    int total_score = 0;
    int total_points = 0;

    build_shared(chapters);
    for (size_t i = 0; i < chapters->count; i++) {
        Sum sum = chapter_sum(chapters->name[i]);

        write_score_line(stdout, chapters->name[i], sum.score, sum.points,
                         sum.tried ? "" : "not tried yet");
        total_score += sum.score;
        total_points += sum.points;
    }
    write_score_line(stdout, "total", total_score, total_points, "");
}
