// Compiling a learner's file and linking it with its suite. Everything lies under $BUILD/grade.d/:
// sanitized/ (or plain/) holds what every lab shares, run.PID/ what one process made.
#include "tests/grade/build.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const Limits compile_limits = {120.0, 1 << 20, (size_t)3 << 30};
static const size_t source_limit = 1 << 20; // bytes of a learner's file

static char *run_directory; // of the process run_owner
static pid_t run_owner;

// ---- commands -----------------------------------------------------------------------------------

void add_words(Names *argv, const char *line) {
    char *copy = copy_text(line);
    char *rest = NULL;

    for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        names_add(argv, word);
    }
    free(copy);
}

static const char *sanitizer_flags(void) {
    return options.sanitize ? "-fsanitize=address,undefined -fno-sanitize-recover=all" : "";
}

Names compiler_command(void) {
    Names argv = {0};

    add_words(&argv, options.compiler);
    add_words(&argv, "-std=c11 -D_GNU_SOURCE -O1 -g -fno-omit-frame-pointer -I. "
                     "-fdiagnostics-color=never");
    add_words(&argv, sanitizer_flags());
    return argv;
}

bool execute(Names *argv, Text *log) {
    char **words = allocate(argv->count + 1, sizeof(char *));
    Run run;
    bool ok;

    memcpy(words, argv->name, argv->count * sizeof(char *));
    run_tool(&run, words, &compile_limits, own_directory());
    ok = run.end == END_EXIT && run.code == 0;
    if (run.output.length > 0) {
        text_add(log, run.output.data, run.output.length);
    }
    if (run.end == END_EXIT && run.code == 127) {
        die("cannot run the compiler `%s`", words[0]);
    }
    if (run.end != END_EXIT) {
        text_format(log, "error: the compiler was stopped: %s\n",
                    run.end == END_TIME     ? "it took too long"
                    : run.end == END_MEMORY ? "it used too much memory"
                    : run.end == END_OUTPUT ? "it printed too much"
                                            : "it crashed");
    }
    run_free(&run);
    free(words);
    names_free(argv);
    return ok;
}

// ---- paths --------------------------------------------------------------------------------------

char *cache_path(const char *name) {
    return format_text("%s/grade.d/%s/%s", options.build, options.sanitize ? "sanitized" : "plain",
                       name);
}

char *lister_path(const char *chapter, const char *suite) {
    char *name = format_text("tests/grade/%s/%s.list", chapter, suite);
    char *path = cache_path(name);

    free(name);
    return path;
}

const char *own_directory(void) {
    if (run_owner != getpid()) {
        run_directory = format_text("%s/grade.d/run.%ld", options.build, (long)getpid());
        run_owner = getpid();
        remove_tree(run_directory);
        if (!make_directories(run_directory)) {
            die("%s: %s", run_directory, strerror(errno));
        }
    }
    return run_directory;
}

void build_end(void) {
    if (run_owner == getpid()) {
        remove_tree(run_directory);
        free(run_directory);
        run_owner = 0;
    }
}

// ---- a learner's file ---------------------------------------------------------------------------

// The file is copied into this process's directory, where no other labs.h can lie beside it, and
// compiled there under its own name.
static bool compile_lab(const char *chapter, const char *source, const char *object, Text *log) {
    const char *base = strrchr(source, '/') != NULL ? strrchr(source, '/') + 1 : source;
    char *text = read_file(source, source_limit);
    char *copy = format_text("%s/%s", own_directory(), base);
    char *include = format_text("-Iexercises/%s", chapter);
    Names argv = compiler_command();
    bool ok;

    if (text == NULL) {
        text_format(log, "error: cannot read %s: %s\n", source, strerror(errno));
        names_free(&argv);
        free(include);
        free(copy);
        return false;
    }
    if (!write_file(copy, text)) {
        die("%s: %s", copy, strerror(errno));
    }
    add_words(&argv, "-Wall -Wextra -Wno-unused-parameter -c -o");
    names_add(&argv, object);
    names_add(&argv, copy);
    names_add(&argv, include);
    ok = execute(&argv, log);
    free(text);
    free(include);
    free(copy);
    return ok;
}

char *build_lab(const char *chapter, const char *suite, const char *source, Text *log) {
    char *object = format_text("%s/lab.o", own_directory());
    char *program = format_text("%s/%s_%s", own_directory(), chapter, suite);
    char *suite_name = format_text("tests/grade/%s/%s.o", chapter, suite);
    char *parts[] = {cache_path("tests/grade/harness.o"), cache_path(suite_name), object,
                     cache_path("libcommon.a")};
    char *directory = format_text("%s/", own_directory());
    Text raw = {0};
    bool ok = compile_lab(chapter, source, object, &raw);

    if (ok) {
        Names argv = compiler_command();

        names_add(&argv, "-o");
        names_add(&argv, program);
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
            names_add(&argv, parts[i]);
        }
        names_add(&argv, "-lm");
        ok = execute(&argv, &raw);
    }
    if (raw.data != NULL) {
        char *trimmed = replace_text(raw.data, directory, "");

        text_add(log, trimmed, strlen(trimmed));
        free(trimmed);
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        free(parts[i]);
    }
    if (!ok) {
        free(program);
        program = NULL;
    }
    text_free(&raw);
    free(directory);
    free(suite_name);
    return program;
}
