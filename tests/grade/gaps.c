// The rule that an exercise is its solution with the gaps emptied. In an exercise a gap starts at a
// line with "// TODO n:" and ends at a line with "// END n"; in the solution the first line says
// GAP instead. The lines outside are the same, and so are these two.
#include "tests/grade/grader.h"

#include <stdlib.h>
#include <string.h>

// The n of "// TODO n:" (word: "TODO") or "// END n" in the line; 0 when it has none.
static int marker(const char *line, const char *word) {
    char *pattern = format_text("// %s ", word);
    const char *hit = strstr(line, pattern);
    int number = hit != NULL ? atoi(hit + strlen(pattern)) : 0;

    free(pattern);
    return number;
}

typedef struct Side {
    const char *word; // how a gap's first line is marked
    char **line;
    size_t count;
    size_t at;
} Side;

// Splits the text in place.
static Side split(char *text, const char *word) {
    Side side = {.word = word};
    char *line;

    while ((line = strsep(&text, "\n")) != NULL) {
        side.line = grown(side.line, side.count, sizeof(char *));
        side.line[side.count++] = line;
    }
    return side;
}

// Moves from a gap's first line to its last. False when there is no end to it.
static bool skip_gap(Side *side, int number) {
    for (side->at++; side->at < side->count; side->at++) {
        if (marker(side->line[side->at], "END") == number) {
            return true;
        }
        if (marker(side->line[side->at], side->word) != 0) {
            return false;
        }
    }
    return false;
}

static char *compare_sides(Side *exercise, Side *solution) {
    int gaps = 0;

    for (; exercise->at < exercise->count && solution->at < solution->count;
         exercise->at++, solution->at++) {
        const char *left = exercise->line[exercise->at];
        const char *right = solution->line[solution->at];
        int number = marker(left, "TODO");
        char *renamed = replace_text(left, "// TODO ", "// GAP ");
        bool same = strcmp(number != 0 ? renamed : left, right) == 0;

        free(renamed);
        if (!same) {
            return format_text("line %zu of the exercise and line %zu of the solution differ",
                               exercise->at + 1, solution->at + 1);
        }
        if (number != 0) {
            size_t start = exercise->at + 1;

            gaps++;
            if (number != gaps) {
                return format_text("line %zu: gap %d comes where gap %d is due", start, number,
                                   gaps);
            }
            if (!skip_gap(exercise, number) || !skip_gap(solution, number)) {
                return format_text("gap %d of line %zu has no `// END %d` in both files", number,
                                   start, number);
            }
        }
        if (marker(exercise->line[exercise->at], "END") != 0 && number == 0) {
            return format_text("line %zu ends a gap that has not begun", exercise->at + 1);
        }
        if (number != 0 &&
            strcmp(exercise->line[exercise->at], solution->line[solution->at]) != 0) {
            return format_text("the last lines of gap %d differ", number);
        }
    }
    if (exercise->at < exercise->count || solution->at < solution->count) {
        return copy_text("one of the two files ends early");
    }
    return gaps == 0 ? copy_text("there is no gap") : NULL;
}

char *compare_outside_gaps(const char *exercise, const char *solution) {
    char *left = copy_text(exercise);
    char *right = copy_text(solution);
    Side exercise_side = split(left, "TODO");
    Side solution_side = split(right, "GAP");
    char *difference = strstr(solution, "TODO") != NULL
                           ? copy_text("the solution says TODO")
                           : compare_sides(&exercise_side, &solution_side);

    free(exercise_side.line);
    free(solution_side.line);
    free(left);
    free(right);
    return difference;
}

char *compare_debugging(const char *exercise, const char *solution) {
    const char *const marks[] = {"// TODO", "// GAP", "// END"};

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        if (strstr(exercise, marks[i]) != NULL || strstr(solution, marks[i]) != NULL) {
            return format_text("a debugging lab has no `%s`", marks[i]);
        }
    }
    return strcmp(exercise, solution) == 0 ? copy_text("they are the same") : NULL;
}
