// The compiler's and the linker's messages, cut down to what a learner needs.
#include "tests/grade/grader.h"

#include <stdlib.h>
#include <string.h>

enum { ERROR_LINES = 14, WARNING_LINES = 5 };

// Adds a sentence unless it is there already: the linker repeats itself.
static void add_once(Text *text, char *sentence) {
    if (text->data == NULL || strstr(text->data, sentence) == NULL) {
        text_add(text, sentence, strlen(sentence));
    }
    free(sentence);
}

// The name that follows `pattern` in the line, to be freed; NULL when the line has no such pattern.
static char *name_after(const char *line, const char *pattern) {
    const char *hit = strstr(line, pattern);

    return hit != NULL ? format_text("%.*s", (int)strcspn(hit + strlen(pattern), "'\n"),
                                     hit + strlen(pattern))
                       : NULL;
}

// Names that the linker misses or finds twice, in the learner's terms. NULL when it is not that.
static char *link_errors(const char *log, const char *file) {
    Text text = {0};

    for (const char *line = log; *line != '\0'; line += strcspn(line, "\n")) {
        line += *line == '\n' ? 1 : 0;
        char *copy = format_text("%.*s", (int)strcspn(line, "\n"), line);
        char *missing = name_after(copy, "undefined reference to `");
        char *twice = name_after(copy, "multiple definition of `");

        if (missing != NULL) {
            add_once(&text, format_text("error: `%s` is not defined. %s must define it, under this "
                                        "name, not static.\n",
                                        missing, file));
        } else if (twice != NULL) {
            add_once(&text, format_text("error: `%s` is already defined by the course or the "
                                        "tests. %s must not define it.\n",
                                        twice, file));
        }
        free(copy);
        free(missing);
        free(twice);
    }
    return text.data;
}

char *compile_errors(const char *log, const char *file) {
    const char *base = base_name(file);
    char *linking = log != NULL ? link_errors(log, base) : NULL;
    Text text = {0};
    const char *line = log;
    size_t lines = 0;
    bool found = false;

    if (linking != NULL || log == NULL) {
        return linking != NULL ? linking
                               : copy_text("error: the compiler failed without a message");
    }
    for (; *line != '\0' && lines < ERROR_LINES; line += strcspn(line, "\n")) {
        line += *line == '\n' ? 1 : 0;
        size_t length = strcspn(line, "\n");
        char *copy = format_text("%.*s", (int)length, line);

        found = found || strstr(copy, "error:") != NULL;
        if (found && length > 0) {
            text_format(&text, "%s\n", copy);
            lines++;
        }
        free(copy);
    }
    if (!found) {
        text_format(&text, "%.1000s", log);
    } else if (*line != '\0' && line[1] != '\0') {
        text_format(&text, "(more messages follow)\n");
    }
    return text.data;
}

char *compile_warnings(const char *log) {
    Text text = {0};
    size_t count = 0;

    for (const char *line = log; line != NULL && *line != '\0'; line += strcspn(line, "\n")) {
        line += *line == '\n' ? 1 : 0;
        char *copy = format_text("%.*s", (int)strcspn(line, "\n"), line);

        if (strstr(copy, "warning:") != NULL && ++count <= WARNING_LINES) {
            text_format(&text, "%s\n", copy);
        }
        free(copy);
    }
    if (count > WARNING_LINES) {
        text_format(&text, "(%zu more warnings)\n", count - WARNING_LINES);
    }
    return text.data;
}
