// Shell commands in tests of programs that are scripts.
#ifndef TESTS_UNIT_SHELL_H
#define TESTS_UNIT_SHELL_H

#include <stdbool.h>

// Runs the command by sh. Returns its exit status, or minus the signal that ended it; *output is
// what it printed, stdout and then stderr, to be freed.
int shell(char **output, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The same, failing the test unless the status is 0. Returns the output, to be freed.
char *shell_output(const char *format, ...) __attribute__((format(printf, 1, 2)));

// The same; the output is not wanted.
void shell_run(const char *format, ...) __attribute__((format(printf, 1, 2)));

// True when the command's status is 0. When it is not, a line says that the test was not run.
bool works(const char *command);

// The whole file, to be freed; fails the test when there is none.
char *file_text(const char *path);

#endif
