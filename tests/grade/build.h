// What build.c offers to shared.c: running the compiler, and where things lie.
#ifndef TESTS_GRADE_BUILD_H
#define TESTS_GRADE_BUILD_H

#include "tests/grade/grader.h"

// Adds the words of a line, split at blanks.
void add_words(Names *argv, const char *line);

// The compiler with the flags that every file has; the caller adds the rest and calls execute.
Names compiler_command(void);

// What every linker command ends with: kernels' barriers are counted by tests/grade/simt/.
void add_link_flags(Names *argv);

// Runs the command and frees it. What it printed goes to log; true when it succeeded.
bool execute(Names *argv, Text *log);

// $BUILD/grade.d/sanitized/name (or plain/name), to be freed.
char *cache_path(const char *name);

// This process's own directory, made on first use.
const char *own_directory(void);

#endif
