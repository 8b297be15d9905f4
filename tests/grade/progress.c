// The best score of each chapter so far, kept in $BUILD/progress/chNN as "score points".
#include "tests/grade/grader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static char *progress_path(const char *chapter) {
    return format_text("%s/progress/%s", options.build, chapter);
}

// The remembered score; -1 when the chapter was never graded.
static int best_score(const char *chapter) {
    char *path = progress_path(chapter);
    char *text = read_file(path, 100);
    int score = -1;

    if (text != NULL && sscanf(text, "%d", &score) != 1) {
        score = -1;
    }
    free(text);
    free(path);
    return score;
}

void remember_progress(const ChapterResult *chapter) {
    char *directory = format_text("%s/progress", options.build);
    char *path = progress_path(chapter->name);
    char *text = format_text("%d %d\n", chapter->score, chapter->points);

    if (chapter->score > best_score(chapter->name) &&
        (!make_directories(directory) || !write_file(path, text))) {
        die("%s: %s", path, strerror(errno));
    }
    free(text);
    free(path);
    free(directory);
}

// What a chapter's labs and questions are worth, whether tried or not.
static int chapter_points(const char *chapter) {
    bool questions;
    Names suites = chapter_suites(chapter, &questions);
    int points = 0;

    for (size_t i = 0; i < suites.count; i++) {
        LabResult lab = lab_table(chapter, suites.name[i]);

        for (size_t t = 0; t < lab.count; t++) {
            points += lab.tests[t].points;
        }
        lab_free(&lab);
    }
    if (questions) {
        LabResult lab = grade_questions_of(chapter, "exercises", NULL);

        points += lab.points;
        lab_free(&lab);
    }
    names_free(&suites);
    return points;
}

void show_progress(const Names *chapters) {
    int total_score = 0;
    int total_points = 0;

    build_shared(chapters);
    for (size_t i = 0; i < chapters->count; i++) {
        int points = chapter_points(chapters->name[i]);
        int best = best_score(chapters->name[i]);
        int score = best < 0 ? 0 : best < points ? best : points; // labs may have changed since

        write_score_line(stdout, chapters->name[i], score, points, best < 0 ? "not tried yet" : "");
        total_score += score;
        total_points += points;
    }
    write_score_line(stdout, "total", total_score, total_points, "");
}
