// What is remembered between runs, in $BUILD/progress/: the best score of each lab in chNN, how
// many hints were shown in chNN.hints. A file has one line a lab, "lab1 9".
#include "tests/grade/assignment.h"
#include "tests/grade/learner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const size_t progress_limit = 4096;

// ---- numbers by name ----------------------------------------------------------------------------

// The file's text, to be freed; NULL when there is none.
static char *read_numbers(const char *file) {
    char *path = format_text("%s/progress/%s", options.build, file);
    char *text = read_file(path, progress_limit);

    free(path);
    return text;
}

static void write_numbers(const char *file, const char *text) {
    char *directory = format_text("%s/progress", options.build);
    char *path = format_text("%s/%s", directory, file);

    if (!make_directories(directory) || !write_file(path, text)) {
        die("%s: %s", path, strerror(errno));
    }
    free(path);
    free(directory);
}

// Reads the line at *text and moves on to the next one. False at the end, or when the line is not
// a key and a number.
static bool read_line(const char **text, char key[32], int *number) {
    const char *line = *text;

    *text += strcspn(*text, "\n");
    *text += **text == '\n' ? 1 : 0;
    return sscanf(line, "%31s %d", key, number) == 2;
}

// The number that the text has for a key; -1 when there is none. text may be NULL.
static int find_number(const char *text, const char *key) {
    char found[32];
    int number;

    while (text != NULL && *text != '\0') {
        if (read_line(&text, found, &number) && strcmp(found, key) == 0) {
            return number;
        }
    }
    return -1;
}

int recall_number(const char *file, const char *key) {
    char *text = read_numbers(file);
    const int number = find_number(text, key);

    free(text);
    return number;
}

void remember_number(const char *file, const char *key, int number) {
    char *old = read_numbers(file);
    const char *rest = old;
    Text text = {0};
    char other[32];
    int kept;

    text_format(&text, "%s %d\n", key, number);
    while (rest != NULL && *rest != '\0') {
        if (read_line(&rest, other, &kept) && strcmp(other, key) != 0) {
            text_format(&text, "%s %d\n", other, kept);
        }
    }
    write_numbers(file, text.data);
    text_free(&text);
    free(old);
}

void remember_progress(const ChapterResult *chapter) {
    for (size_t i = 0; i < chapter->count; i++) {
        const LabResult *lab = &chapter->labs[i];

        if (lab->score > recall_number(chapter->name, lab->id)) {
            remember_number(chapter->name, lab->id, lab->score);
        }
    }
}

// ---- where a learner stands ---------------------------------------------------------------------

// Adds the lab without its hidden tests and releases it.
static void add_standing(Standings *standings, const char *chapter, LabResult *lab) {
    Standing *standing = &standings->lab[standings->count++];
    int best = recall_number(chapter, lab->id);

    drop_hidden(chapter, lab);
    *standing = (Standing){.id = copy_text(lab->id), .title = copy_text(lab->title)};
    for (size_t t = 0; t < lab->count; t++) {
        standing->points += lab->tests[t].points;
    }
    // The lab may have changed since.
    standing->best = best < standing->points ? best : standing->points;
    standings->points += standing->points;
    standings->score += standing->best > 0 ? standing->best : 0;
    lab_free(lab);
}

Standings chapter_standings(const char *chapter) {
    bool questions;
    Names suites = chapter_suites(chapter, &questions);
    Standings standings = {.lab = allocate(suites.count + 1, sizeof(Standing))};

    for (size_t i = 0; i < suites.count; i++) {
        LabResult lab = lab_table(chapter, suites.name[i]);

        add_standing(&standings, chapter, &lab);
    }
    if (questions) {
        LabResult lab = grade_questions_of(chapter, "exercises", NULL);

        add_standing(&standings, chapter, &lab);
    }
    names_free(&suites);
    return standings;
}

void standings_free(Standings *standings) {
    for (size_t i = 0; i < standings->count; i++) {
        free(standings->lab[i].id);
        free(standings->lab[i].title);
    }
    free(standings->lab);
    *standings = (Standings){0};
}

const Standing *first_open(const Standings *standings) {
    for (size_t i = 0; i < standings->count; i++) {
        if (standings->lab[i].best < standings->lab[i].points) {
            return &standings->lab[i];
        }
    }
    return NULL;
}

// "not begun", "done", or which labs are open. To be freed.
static char *describe(const Standings *standings) {
    Text text = {0};
    bool begun = false;

    for (size_t i = 0; i < standings->count; i++) {
        const Standing *lab = &standings->lab[i];

        begun |= lab->best >= 0;
        if (lab->best < lab->points) {
            text_format(&text, "%s%s", text.length == 0 ? "open: " : ", ", lab->id);
        }
    }
    if (begun && text.length > 0) {
        return text.data;
    }
    text_free(&text);
    return copy_text(begun ? "done" : "not begun");
}

void show_progress(const Names *chapters) {
    int score = 0;
    int points = 0;

    build_shared(chapters);
    for (size_t i = 0; i < chapters->count; i++) {
        Standings standings = chapter_standings(chapters->name[i]);
        char *remark = describe(&standings);

        write_score_line(stdout, chapters->name[i], standings.score, standings.points, remark);
        score += standings.score;
        points += standings.points;
        free(remark);
        standings_free(&standings);
    }
    write_score_line(stdout, "total", score, points,
                     score < points ? "make next: what to do now" : "");
}
