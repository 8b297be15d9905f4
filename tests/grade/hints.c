// The hints of a lab, one more at each call. exercises/chNN/hints.txt has a series for each lab:
// a line "[lab1]" begins it, a line "---" parts two hints. How many were shown is remembered.
#include "tests/grade/learner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const size_t hints_limit = 1 << 20;

// "[lab2]" and "[questions]" alone on a line begin a series; a hint may have other brackets.
static bool is_series(const char *line) {
    const size_t length = strlen(line);

    return strcmp(line, "[questions]") == 0 ||
           (strncmp(line, "[lab", 4) == 0 && length > 5 && line[length - 1] == ']' &&
            strspn(line + 4, "0123456789") == length - 5);
}

// Whether the line is "[id]".
static bool names_series(const char *line, const char *id) {
    const size_t length = strlen(id);

    return line[0] == '[' && strncmp(line + 1, id, length) == 0 &&
           strcmp(line + 1 + length, "]") == 0;
}

// Adds a hint without the empty lines around it, unless nothing is left.
static void add_hint(Names *hints, Text *hint) {
    char *text = hint->data;

    while (hint->length > 0 && text[hint->length - 1] == '\n') {
        text[--hint->length] = '\0';
    }
    if (hint->length > 0) {
        names_add(hints, text + strspn(text, "\n"));
    }
    text_free(hint);
}

// The hints of one series in the text, which is cut into its lines.
static Names series_of(char *text, const char *id) {
    Names hints = {0};
    Text hint = {0};
    bool inside = false;
    char *line;

    while ((line = strsep(&text, "\n")) != NULL) {
        line[strcspn(line, "\r")] = '\0';
        if (is_series(line) || strcmp(line, "---") == 0) {
            add_hint(&hints, &hint);
            inside = is_series(line) ? names_series(line, id) : inside;
        } else if (inside) {
            text_format(&hint, "%s\n", line);
        }
    }
    add_hint(&hints, &hint);
    return hints;
}

// Prints hint `number`, counted from 0, of `count`.
static void print_hint(const LabChoice *lab, const char *hint, size_t number, size_t count) {
    printf("%s %s, hint %zu of %zu\n\n", lab->chapter, lab->id, number + 1, count);
    while (*hint != '\0') {
        const int length = (int)strcspn(hint, "\n");

        printf("%s%.*s\n", length > 0 ? "  " : "", length, hint);
        hint += length;
        hint += *hint == '\n' ? 1 : 0;
    }
    printf("\n");
}

// The next hint, or those that were shown.
static void show_of(const LabChoice *lab, const Names *hints, bool again) {
    char *file = format_text("%s.hints", lab->chapter);
    const int remembered = recall_number(file, lab->id);
    size_t shown = remembered > 0 ? (size_t)remembered : 0;

    shown = shown < hints->count ? shown : hints->count;
    for (size_t i = 0; again && i < shown; i++) {
        print_hint(lab, hints->name[i], i, hints->count);
    }
    if (shown == 0 || (!again && shown < hints->count)) {
        print_hint(lab, hints->name[shown], shown, hints->count);
        remember_number(file, lab->id, (int)shown + 1);
        if (recall_number(lab->chapter, lab->id) < 0) {
            printf("Not graded yet: make grade-%s LAB=%s shows what fails first.\n", lab->chapter,
                   lab_label(lab->id));
        }
    } else if (!again) {
        if (hints->count == 1) {
            printf("%s %s: you have seen its one hint.\n", lab->chapter, lab->id);
        } else {
            printf("%s %s: you have seen all %zu hints.\n", lab->chapter, lab->id, hints->count);
        }
        printf("To read them again: make hint %s AGAIN=1\n", lab->words);
    }
    free(file);
}

int show_hint(const char *chapter, bool again) {
    LabChoice lab = choose_lab("hint", chapter);
    char *path = format_text("exercises/%s/hints.txt", chapter);
    char *text = read_file(path, hints_limit);
    Names hints = {0};
    int status = 0;

    if (text != NULL) {
        hints = series_of(text, lab.id);
    }
    if (hints.count > 0) {
        show_of(&lab, &hints, again);
    } else if (text == NULL) {
        fprintf(stderr, "No hints for %s: %s: %s\n", chapter, path, strerror(errno));
        status = 1;
    } else {
        fprintf(stderr, "No hints for %s %s in %s.\n", chapter, lab.id, path);
        status = 1;
    }
    names_free(&hints);
    free(text);
    free(path);
    choice_free(&lab);
    return status;
}
