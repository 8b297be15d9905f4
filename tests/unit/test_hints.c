// exercises/chNN/hints.txt: a series for every lab and none for others, lines that fit a terminal,
// and no line of a solution among them.
#include <check.h>
#include <ctype.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_LINES = 512, MAX_SERIES = 16, COLUMNS = 76, LONG_LINE = 30 };
enum { LEAST_HINTS = 3, MOST_HINTS = 5, LEAST_LINES = 2, MOST_LINES = 14 };

// A line of a hint; number counts the file's lines, hint those of the series, both from 1.
typedef struct Line {
    char *text;
    const char *series; // NULL in front of the first series
    int hint, number;
} Line;

typedef struct HintFile {
    char *text; // cut into lines
    Line lines[MAX_LINES];
    size_t count;
    char *series[MAX_SERIES];
    size_t series_count;
} HintFile;

// The whole file, to be freed; NULL when there is none.
static char *read_text(const char *path) {
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t room = 0;

    if (file == NULL) {
        return NULL;
    }
    if (getdelim(&text, &room, '\0', file) < 0) {
        free(text);
        text = strdup("");
    }
    fclose(file);
    ck_assert_ptr_nonnull(text);
    return text;
}

// The name in a line "[name]", cut out in place; NULL for any other line.
static char *heading(char *line) {
    char *end = strchr(line, ']');

    if (line[0] != '[' || end == NULL || end[1] != '\0') {
        return NULL;
    }
    *end = '\0';
    return line + 1;
}

static HintFile *read_hints(const char *chapter) {
    char path[64];
    HintFile *file = calloc(1, sizeof(*file));
    const char *series = NULL;
    int number = 0, hint = 1;
    char *rest, *line;

    snprintf(path, sizeof(path), "%s/hints.txt", chapter);
    ck_assert_ptr_nonnull(file);
    rest = file->text = read_text(path);
    ck_assert_msg(rest != NULL, "%s is missing", path);
    while ((line = strsep(&rest, "\n")) != NULL) {
        char *name = heading(line);

        number++;
        if (name != NULL) {
            ck_assert_uint_lt(file->series_count, MAX_SERIES);
            file->series[file->series_count++] = name;
            series = name;
            hint = 1;
        } else if (strcmp(line, "---") == 0) {
            ck_assert_msg(series != NULL, "%s:%d: no series has begun", path, number);
            hint++;
        } else {
            ck_assert_uint_lt(file->count, MAX_LINES);
            file->lines[file->count++] = (Line){line, series, hint, number};
        }
    }
    return file;
}

static void free_hints(HintFile *file) {
    free(file->text);
    free(file);
}

// The hints of a series. Each must have a number of lines that can be read at a glance.
static int hints_of(const HintFile *file, const char *chapter, const char *series) {
    int lines[MOST_HINTS + 1] = {0}, hints = 0;

    for (size_t i = 0; i < file->count; i++) {
        const Line *line = &file->lines[i];
        if (line->series != NULL && strcmp(line->series, series) == 0) {
            ck_assert_msg(line->hint <= MOST_HINTS, "%s [%s]: more than %d hints", chapter, series,
                          MOST_HINTS);
            hints = line->hint;
            lines[line->hint] += line->text[0] != '\0' ? 1 : 0;
        }
    }
    for (int hint = 1; hint <= hints; hint++) {
        ck_assert_msg(lines[hint] >= LEAST_LINES && lines[hint] <= MOST_LINES,
                      "%s [%s], hint %d has %d lines", chapter, series, hint, lines[hint]);
    }
    return hints;
}

// ---- the chapters and their labs ----------------------------------------------------------------

static glob_t chapters;

static void find_chapters(void) {
    ck_assert_int_eq(glob("exercises/ch[0-9][0-9]", 0, NULL, &chapters), 0);
}

static void forget_chapters(void) {
    globfree(&chapters);
}

// The lab files of exercises/chNN.
static glob_t labs_of(const char *chapter) {
    char pattern[64];
    glob_t labs;

    snprintf(pattern, sizeof(pattern), "%s/lab[0-9]*_*", chapter);
    ck_assert_int_eq(glob(pattern, 0, NULL, &labs), 0);
    return labs;
}

// "lab2" of exercises/chNN/lab2_name.c.
static void lab_name(char *name, size_t room, const char *path) {
    const char *file = strrchr(path, '/') + 1;

    snprintf(name, room, "%.*s", (int)strcspn(file, "_"), file);
}

static bool is_lab(const char *chapter, const char *name) {
    glob_t labs = labs_of(chapter);
    bool found = false;

    for (size_t i = 0; i < labs.gl_pathc; i++) {
        char lab[16];
        lab_name(lab, sizeof(lab), labs.gl_pathv[i]);
        found = found || strcmp(lab, name) == 0;
    }
    globfree(&labs);
    return found;
}

// ---- tests --------------------------------------------------------------------------------------

START_TEST(every_lab_has_a_series) {
    for (size_t c = 0; c < chapters.gl_pathc; c++) {
        const char *chapter = chapters.gl_pathv[c];
        HintFile *file = read_hints(chapter);
        glob_t labs = labs_of(chapter);

        for (size_t i = 0; i < labs.gl_pathc; i++) {
            char lab[16];
            lab_name(lab, sizeof(lab), labs.gl_pathv[i]);
            const int hints = hints_of(file, chapter, lab);
            ck_assert_msg(hints >= LEAST_HINTS, "%s [%s] has %d hints", chapter, lab, hints);
        }
        ck_assert_int_ge(hints_of(file, chapter, "questions"), 1);
        globfree(&labs);
        free_hints(file);
    }
}
END_TEST

START_TEST(every_series_is_of_a_lab) {
    for (size_t c = 0; c < chapters.gl_pathc; c++) {
        const char *chapter = chapters.gl_pathv[c];
        HintFile *file = read_hints(chapter);

        for (size_t i = 0; i < file->series_count; i++) {
            const char *name = file->series[i];
            ck_assert_msg(strcmp(name, "questions") == 0 || is_lab(chapter, name),
                          "%s: there is no lab for [%s]", chapter, name);
            for (size_t j = 0; j < i; j++) {
                ck_assert_msg(strcmp(name, file->series[j]) != 0, "%s: [%s] comes twice", chapter,
                              name);
            }
        }
        free_hints(file);
    }
}
END_TEST

// Printable ASCII of at most COLUMNS columns; comments and blank lines alone before the first
// series.
START_TEST(every_line_fits) {
    for (size_t c = 0; c < chapters.gl_pathc; c++) {
        HintFile *file = read_hints(chapters.gl_pathv[c]);

        for (size_t i = 0; i < file->count; i++) {
            const Line *line = &file->lines[i];
            const size_t length = strlen(line->text);
            bool plain = length == 0 || line->text[length - 1] != ' ';
            for (size_t at = 0; at < length; at++) {
                plain = plain && line->text[at] >= ' ' && line->text[at] <= '~';
            }
            ck_assert_msg(length <= COLUMNS, "%s/hints.txt:%d has %zu columns",
                          chapters.gl_pathv[c], line->number, length);
            ck_assert_msg(plain, "%s/hints.txt:%d: not plain ASCII, or it ends with a blank",
                          chapters.gl_pathv[c], line->number);
            ck_assert_msg(line->series != NULL || length == 0 || line->text[0] == '#',
                          "%s/hints.txt:%d stands before the first series", chapters.gl_pathv[c],
                          line->number);
        }
        free_hints(file);
    }
}
END_TEST

// Removes all blanks, in place.
static void squeeze(char *line) {
    char *to = line;

    for (const char *from = line; *from != '\0'; from++) {
        if (!isspace((unsigned char)*from)) {
            *to++ = *from;
        }
    }
    *to = '\0';
}

// Whether a line of the text is this one, blanks aside.
static bool has_line(const char *text, const char *squeezed) {
    char *copy = strdup(text), *rest = copy, *line;
    bool found = false;

    ck_assert_ptr_nonnull(copy);
    while (!found && (line = strsep(&rest, "\n")) != NULL) {
        squeeze(line);
        found = strcmp(line, squeezed) == 0;
    }
    free(copy);
    return found;
}

// No hint has the line that a lab's solution has and its exercise has not: a line of a gap, or in a
// debugging lab the change. Short lines, such as a closing brace, are nobody's.
static void check_solution(HintFile *file, const char *chapter, const char *lab) {
    char path[256];
    char *exercise = read_text(lab), *solution, *rest, *line;

    snprintf(path, sizeof(path), "solutions/%s", lab + strlen("exercises/"));
    solution = rest = read_text(path);
    ck_assert_msg(exercise != NULL && solution != NULL, "%s cannot be read", path);
    while ((line = strsep(&rest, "\n")) != NULL) {
        squeeze(line);
        if (strlen(line) <= LONG_LINE || has_line(exercise, line)) {
            continue;
        }
        for (size_t i = 0; i < file->count; i++) {
            char hint[COLUMNS + 1];
            snprintf(hint, sizeof(hint), "%s", file->lines[i].text);
            squeeze(hint);
            ck_assert_msg(strstr(hint, line) == NULL, "%s/hints.txt:%d has a line of %s", chapter,
                          file->lines[i].number, path);
        }
    }
    free(exercise);
    free(solution);
}

START_TEST(no_line_of_a_solution) {
    for (size_t c = 0; c < chapters.gl_pathc && access("solutions", R_OK) == 0; c++) {
        HintFile *file = read_hints(chapters.gl_pathv[c]);
        glob_t labs = labs_of(chapters.gl_pathv[c]);

        for (size_t i = 0; i < labs.gl_pathc; i++) {
            check_solution(file, chapters.gl_pathv[c], labs.gl_pathv[i]);
        }
        globfree(&labs);
        free_hints(file);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("hints");
    TCase *tests = tcase_create("hints.txt");
    SRunner *runner;
    int failed;

    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, find_chapters, forget_chapters);
    tcase_add_test(tests, every_lab_has_a_series);
    tcase_add_test(tests, every_series_is_of_a_lab);
    tcase_add_test(tests, every_line_fits);
    tcase_add_test(tests, no_line_of_a_solution);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
