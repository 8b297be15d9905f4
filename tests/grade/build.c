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
    add_words(&argv, options.trace_compiler != NULL ? "-DGPU_HAVE_TRACE=1" : "-DGPU_HAVE_TRACE=0");
    add_words(&argv, "-DGPU_HAVE_CUDA=0");
    return argv;
}

// A kernel's plain build: as the C files, and as GNU C, since a kernel file is not pure C11.
static Names kernel_command(void) {
    Names argv = compiler_command();

    add_words(&argv, "-x c -std=gnu11 -ffp-contract=fast -DSIMT_UNIT=lab_simt");
    if (options.sanitize && !options.is_clang) {
        names_add(&argv, "-fsanitize-sections=simt_*"); // shared memory is checked as well
    }
    return argv;
}

// Its trace build, with the flags that the tracer asks for (docs/simt.md). It has no sanitizers:
// the tracer checks every access. The plain build has shown the warnings.
static Names trace_command(void) {
    Names argv = {0};

    add_words(&argv, options.trace_compiler);
    add_words(&argv, "-x c -std=gnu11 -D_GNU_SOURCE -I. -O2 -g -ffp-contract=fast "
                     "-fsanitize=thread -fno-tree-sra --param tsan-instrument-func-entry-exit=0 "
                     "-DSIMT_UNIT=lab_trace -DSIMT_TRACED=1 -DGPU_HAVE_TRACE=1 -DGPU_HAVE_CUDA=0 "
                     "-fdiagnostics-color=never -w");
    return argv;
}

void add_link_flags(Names *argv) {
    add_words(argv, "-Wl,--wrap=simt_syncthreads -Wl,--wrap=simt_syncthreads_reduce -lm");
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
// compiled there under its own name by `argv`, which is freed.
static bool compile_lab(const char *chapter, const char *source, const char *object, Names argv,
                        Text *log) {
    const char *base = strrchr(source, '/') != NULL ? strrchr(source, '/') + 1 : source;
    char *text = read_file(source, source_limit);
    char *copy = format_text("%s/%s", own_directory(), base);
    char *include = format_text("-Iexercises/%s", chapter);
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
    names_add(&argv, include);
    add_words(&argv, "-c -o");
    names_add(&argv, object);
    names_add(&argv, copy);
    ok = execute(&argv, log);
    free(text);
    free(include);
    free(copy);
    return ok;
}

// Compiles the file into objects of this process's directory and adds their names to `objects`.
static bool compile_builds(const char *chapter, const char *source, Names *objects, Text *log) {
    const size_t length = strlen(source);
    const bool kernel = length > 3 && strcmp(source + length - 3, ".cu") == 0;
    char *object = format_text("%s/lab.o", own_directory());
    char *traced = format_text("%s/lab_trace.o", own_directory());
    Names argv = kernel ? kernel_command() : compiler_command();
    bool ok;

    add_words(&argv, "-Wall -Wextra -Wno-unused-parameter");
    ok = compile_lab(chapter, source, object, argv, log);
    names_add(objects, object);
    if (ok && kernel && options.trace_compiler != NULL) {
        ok = compile_lab(chapter, source, traced, trace_command(), log);
        names_add(objects, traced);
    }
    free(object);
    free(traced);
    return ok;
}

char *build_lab(const char *chapter, const char *suite, const char *source, Text *log) {
    char *program = format_text("%s/%s_%s", own_directory(), chapter, suite);
    char *suite_name = format_text("tests/grade/%s/%s.o", chapter, suite);
    char *parts[] = {cache_path("tests/grade/harness.o"), cache_path(suite_name),
                     cache_path("libcommon.a")};
    char *directory = format_text("%s/", own_directory());
    Names objects = {0};
    Text raw = {0};
    bool ok = compile_builds(chapter, source, &objects, &raw);

    if (ok) {
        Names argv = compiler_command();

        names_add(&argv, "-o");
        names_add(&argv, program);
        for (size_t i = 0; i < objects.count; i++) {
            names_add(&argv, objects.name[i]);
        }
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
            names_add(&argv, parts[i]);
        }
        add_link_flags(&argv);
        ok = execute(&argv, &raw);
    }
    names_free(&objects);
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
