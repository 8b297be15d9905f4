// Which compilers are here. Kernels are traced by an instrumentation that clang and older gcc lack.
#include "tests/grade/grader.h"

#include <stdlib.h>
#include <string.h>

enum { TRACE_GCC = 12 };

// The first `size` bytes of what a shell command prints; empty when it fails.
static void output_of(const char *command, char *text, size_t size) {
    FILE *pipe = popen(command, "r");
    size_t length = 0;

    if (pipe != NULL) {
        length = fread(text, 1, size - 1, pipe);
        if (pclose(pipe) != 0) {
            length = 0;
        }
    }
    text[length] = '\0';
}

static bool is_clang(const char *compiler) {
    char *command = format_text("%s --version 2>/dev/null", compiler);
    char version[1024];

    output_of(command, version, sizeof(version));
    free(command);
    return strstr(version, "clang") != NULL;
}

static bool can_trace(const char *compiler) {
    char *command = format_text("%s -dumpfullversion 2>/dev/null", compiler);
    char version[64];

    output_of(command, version, sizeof(version));
    free(command);
    return atoi(version) >= TRACE_GCC && !is_clang(compiler);
}

void find_compilers(void) {
    const char *const candidates[] = {options.compiler, "gcc", "gcc-14", "gcc-13", "gcc-12"};
    const char *chosen = getenv("TRACE_CC"); // empty: without

    options.is_clang = is_clang(options.compiler);
    if (chosen != NULL) {
        options.trace_compiler = can_trace(chosen) ? chosen : NULL;
        return;
    }
    for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++) {
        if (can_trace(candidates[i])) {
            options.trace_compiler = candidates[i];
            return;
        }
    }
}
