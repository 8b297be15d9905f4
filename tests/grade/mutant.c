// Mutants: a solution with one classic fault planted. The file says which test must catch it:
//
//   lab1 fails on: test_name
//   what the fault is, in any number of lines
//   --- was
//   exact lines of the solution
//   +++ becomes
//   the lines in their place, perhaps none; then the next "--- was", or the end
#include "tests/grade/build.h"
#include "tests/grade/grader.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const size_t mutant_limit = 64 << 10;

// The start of the line after the one that `at` is in; the end of the text when there is none.
static char *next_line(char *at) {
    at += strcspn(at, "\n");
    return *at == '\n' ? at + 1 : at;
}

// True when the line is exactly `words`, blanks at its end aside.
static bool line_is(const char *line, const char *words) {
    size_t length = strcspn(line, "\n");

    while (length > 0 && isspace((unsigned char)line[length - 1])) {
        length--;
    }
    return length == strlen(words) && strncmp(line, words, length) == 0;
}

// How often `lines` stands in the text from a line's start; *first is the first place.
static size_t occurrences(char *text, const char *lines, char **first) {
    size_t found = 0;

    for (char *at = text; *at != '\0'; at = next_line(at)) {
        if (strncmp(at, lines, strlen(lines)) == 0) {
            *first = found == 0 ? at : *first;
            found++;
        }
    }
    return found;
}

// "lab1 fails on: test_name"
static bool parse_head(Mutant *mutant, const char *line) {
    char lab[16];
    char test[80];
    int used = 0;

    if (sscanf(line, "%15[a-z0-9] fails on: %79[A-Za-z0-9_]%n", lab, test, &used) != 2 ||
        strncmp(lab, "lab", 3) != 0 || line[used + (int)strspn(line + used, " \t\r")] != '\n') {
        return false;
    }
    mutant->suite_prefix = format_text("%s_", lab);
    mutant->test = copy_text(test);
    return true;
}

// Takes the lines up to one that is `stop` (or the end), to be freed. *at moves to that line.
static char *take_lines(char **at, const char *stop) {
    Text lines = {0};

    text_add(&lines, "", 0);
    while (**at != '\0' && !line_is(*at, stop)) {
        char *next = next_line(*at);

        text_add(&lines, *at, (size_t)(next - *at));
        *at = next;
    }
    return lines.data;
}

// The lines joined by single blanks, to be freed.
static char *one_line(const char *lines) {
    Text line = {0};

    text_add(&line, "", 0);
    while (*(lines += strspn(lines, " \t\r\n")) != '\0') {
        const size_t length = strcspn(lines, " \t\r\n");

        text_format(&line, "%s%.*s", line.length > 0 ? " " : "", (int)length, lines);
        lines += length;
    }
    return line.data;
}

// Plants the hunks that start at `at`. NULL, or what is wrong, to be freed.
static char *plant(Mutant *mutant, char *at) {
    char *original = copy_text(mutant->text);
    char *error = NULL;
    int hunk = 0;

    while (error == NULL && *at != '\0') {
        char *was;
        char *becomes;
        char *place = NULL;

        hunk++;
        at = next_line(at); // past "--- was"
        was = take_lines(&at, "+++ becomes");
        if (*at == '\0' || was[0] == '\0') {
            error = format_text("change %d has no `+++ becomes`, or nothing before it", hunk);
            free(was);
            break;
        }
        at = next_line(at);
        becomes = take_lines(&at, "--- was");
        if (occurrences(original, was, &place) != 1 ||
            occurrences(mutant->text, was, &place) != 1) {
            error = format_text("the lines of change %d stand %zu times in the solution, not once",
                                hunk, occurrences(original, was, &place));
        } else {
            char *changed = format_text("%.*s%s%s", (int)(place - mutant->text), mutant->text,
                                        becomes, place + strlen(was));

            free(mutant->text);
            mutant->text = changed;
        }
        free(was);
        free(becomes);
    }
    free(original);
    return error != NULL || hunk > 0 ? error : copy_text("there is no `--- was`");
}

// Plants the faults of the mutant's text in its lab's solution. NULL, or what is wrong.
static char *apply(Mutant *mutant, char *text, const char *solutions_directory) {
    Names files = list_files(solutions_directory, mutant->suite_prefix, ".c");
    char *error = NULL;

    if (files.count == 0) {
        files = list_files(solutions_directory, mutant->suite_prefix, ".cu");
    }
    if (files.count != 1) {
        error = format_text("%zu files in %s begin with %s", files.count, solutions_directory,
                            mutant->suite_prefix);
    } else {
        char *solution = format_text("%s/%s", solutions_directory, files.name[0]);
        char *at = next_line(text);
        char *description = take_lines(&at, "--- was");

        mutant->text = read_file(solution, (size_t)1 << 20);
        error = mutant->text == NULL ? copy_text("the solution cannot be read") : plant(mutant, at);
        mutant->cause = one_line(description);
        if (error == NULL && mutant->cause[0] == '\0') {
            error = copy_text("the description is missing");
        }
        free(description);
        free(solution);
    }
    names_free(&files);
    return error;
}

bool read_mutant(Mutant *mutant, const char *path, const char *solutions_directory, char **error) {
    char *text = read_file(path, mutant_limit);
    const char *base = base_name(path);

    *mutant = (Mutant){0};
    if (text == NULL) {
        *error = copy_text("cannot be read");
    } else if (!parse_head(mutant, text)) {
        *error = copy_text("the first line is not `labK fails on: test_name`");
    } else if (strncmp(base, mutant->suite_prefix, strlen(mutant->suite_prefix)) != 0) {
        *error = format_text("the first line names %s, the file another lab", mutant->suite_prefix);
    } else {
        *error = apply(mutant, text, solutions_directory);
    }
    free(text);
    if (*error != NULL) {
        mutant_free(mutant);
    }
    return *error == NULL;
}

void mutant_free(Mutant *mutant) {
    free(mutant->suite_prefix);
    free(mutant->test);
    free(mutant->cause);
    free(mutant->text);
    *mutant = (Mutant){0};
}

Names mutants_of(const char *chapter, const char *prefix) {
    char *directory = format_text("tests/mutants/%s", chapter);
    Names mutants = list_files(directory, prefix, ".mutant");

    free(directory);
    return mutants;
}

char *mutant_suite(const Mutant *mutant, const char *chapter) {
    bool questions;
    Names suites = chapter_suites(chapter, &questions);
    char *found = NULL;

    for (size_t i = 0; i < suites.count && found == NULL; i++) {
        if (strncmp(suites.name[i], mutant->suite_prefix, strlen(mutant->suite_prefix)) == 0) {
            found = copy_text(suites.name[i]);
        }
    }
    names_free(&suites);
    return found;
}

LabResult grade_mutant(const Mutant *mutant, const char *chapter, const char *suite,
                       const char *only) {
    char *directory = format_text("%s/mutant", own_directory());
    char *source = format_text("%s/%s%s", directory, suite, lab_suffix(chapter, suite));
    LabResult lab;

    if (!make_directories(directory) || !write_file(source, mutant->text)) {
        die("%s: %s", source, strerror(errno));
    }
    lab = grade_lab(chapter, suite, source, only);
    free(source);
    free(directory);
    return lab;
}
