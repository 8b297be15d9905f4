// Shell commands in tests: see shell.h.
#include "tests/unit/shell.h"

#include "tests/unit/capture.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int run(char **output, const char *format, va_list args) {
    char command[4096];
    const char *argv[] = {"/bin/sh", "-c", command, NULL};
    Captured captured;
    size_t size;

    ck_assert_int_lt(vsnprintf(command, sizeof(command), format, args), (int)sizeof(command));
    captured = capture_program(argv);
    size = strlen(captured.out) + strlen(captured.err) + 1;
    *output = malloc(size);
    ck_assert_ptr_nonnull(*output);
    snprintf(*output, size, "%s%s", captured.out, captured.err);
    captured_free(&captured);
    return captured.status;
}

int shell(char **output, const char *format, ...) {
    va_list args;
    int status;

    va_start(args, format);
    status = run(output, format, args);
    va_end(args);
    return status;
}

static char *run_well(const char *format, va_list args) {
    char *output;
    const int status = run(&output, format, args);

    if (status != 0) {
        ck_abort_msg("status %d of: %s\n%s", status, format, output);
    }
    return output;
}

char *shell_output(const char *format, ...) {
    va_list args;
    char *output;

    va_start(args, format);
    output = run_well(format, args);
    va_end(args);
    return output;
}

void shell_run(const char *format, ...) {
    va_list args;

    va_start(args, format);
    free(run_well(format, args));
    va_end(args);
}

bool works(const char *command) {
    char *output;
    const bool here = shell(&output, "%s", command) == 0;

    free(output);
    if (!here) {
        printf("not run: `%s` does not work here\n", command);
    }
    return here;
}

char *file_text(const char *path) {
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t room = 0;

    ck_assert_msg(file != NULL, "there is no %s", path);
    if (getdelim(&text, &room, '\0', file) < 0) { // it is empty
        free(text);
        text = strdup("");
    }
    fclose(file);
    ck_assert_ptr_nonnull(text);
    return text;
}
