// Compiling a learner's file and linking it with its suite. Everything lies under $BUILD/grade.d/:
// sanitized/ (or plain/) holds what every lab shares, run.PID/ what one process made.
#include "tests/grade/build.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const double compile_share = 12.0;   // as long as so many tests may the compiler take
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
    add_words(&argv, "-std=c11 -D_GNU_SOURCE -O1 -g1 -fno-omit-frame-pointer -I. "
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
    add_words(&argv, "-x c -std=gnu11 -D_GNU_SOURCE -I. -O2 -g1 -ffp-contract=fast "
                     "-fsanitize=thread -fno-tree-sra --param tsan-instrument-func-entry-exit=0 "
                     "-DSIMT_UNIT=lab_trace -DSIMT_TRACED=1 -DGPU_HAVE_TRACE=1 -DGPU_HAVE_CUDA=0 "
                     "-fdiagnostics-color=never -w");
    return argv;
}

void add_link_flags(Names *argv) {
    add_words(argv, "-Wl,--wrap=simt_syncthreads -Wl,--wrap=simt_syncthreads_reduce");
    add_words(argv, "-Wl,--wrap=simt_shared_opt_in -lm");
}

// Runs the command as the user `user` if that is not 0, with temporary files in `temporary`.
static bool execute_as(Names *argv, Text *log, const char *temporary, uid_t user) {
    const Limits limits = {compile_share * options.seconds, 1 << 20, (size_t)2 << 30};
    char **words = allocate(argv->count + 1, sizeof(char *));
    Run run;
    bool ok;

    memcpy(words, argv->name, argv->count * sizeof(char *));
    run_tool(&run, words, &limits, temporary, user);
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

bool execute(Names *argv, Text *log) {
    return execute_as(argv, log, own_directory(), 0);
}

// The same for a learner's text: as that of --user, with temporary files in `work`.
static bool execute_confined(Names *argv, Text *log, const char *work) {
    return execute_as(argv, log, work, options.confine ? options.user : 0);
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

// Makes an empty folder for what the compiler writes, of the user that it runs as. This program
// writes nothing there. Its path is to be freed; drop_work removes it.
static char *make_work(void) {
    char *work = format_text("%s/work", own_directory());

    remove_tree(work);
    if (mkdir(work, 0700) != 0 ||
        (options.confine && chown(work, options.user, options.user) != 0)) {
        die("%s: %s", work, strerror(errno));
    }
    return work;
}

static void drop_work(char *work) {
    remove_tree(work);
    free(work);
}

// Moves the program out of the compiler's folder, to where the learner's code cannot change it.
static void take_program(const char *made, const char *program) {
    struct stat info;
    int fd;

    if (rename(made, program) != 0) {
        die("%s: %s", made, strerror(errno));
    }
    if (!options.confine) {
        return;
    }
    fd = open(program, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || fchown(fd, 0, 0) != 0 ||
        fchmod(fd, 0755) != 0) {
        die("%s: %s", program, strerror(errno));
    }
    close(fd);
}

// The file is copied into this process's directory, where no other labs.h can lie beside it, and
// compiled under its own name by `argv`, which is freed. The object is made in `work`.
static bool compile_lab(const char *chapter, const char *source, const char *object, Names argv,
                        const char *work, Text *log) {
    const char *base = base_name(source);
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
    ok = execute_confined(&argv, log, work);
    free(text);
    free(include);
    free(copy);
    return ok;
}

// Compiles the file into objects in `work` and adds their names to `objects`.
static bool compile_builds(const char *chapter, const char *source, Names *objects,
                           const char *work, Text *log) {
    const size_t length = strlen(source);
    const bool kernel = length > 3 && strcmp(source + length - 3, ".cu") == 0;
    char *object = format_text("%s/lab.o", work);
    char *traced = format_text("%s/lab_trace.o", work);
    Names argv = kernel ? kernel_command() : compiler_command();
    bool ok;

    add_words(&argv, "-Wall -Wextra -Wno-unused-parameter");
    ok = compile_lab(chapter, source, object, argv, work, log);
    names_add(objects, object);
    if (ok && kernel && options.trace_compiler != NULL) {
        ok = compile_lab(chapter, source, traced, trace_command(), work, log);
        names_add(objects, traced);
    }
    free(object);
    free(traced);
    return ok;
}

char *build_lab(const char *chapter, const char *suite, const char *source, Text *log) {
    char *program = format_text("%s/%s_%s", own_directory(), chapter, suite);
    char *work = make_work();
    char *made = format_text("%s/program", work);
    char *suite_name = format_text("tests/grade/%s/%s.o", chapter, suite);
    char *parts[] = {cache_path("tests/grade/harness.o"), cache_path(suite_name),
                     cache_path("libcommon.a")};
    char *directory = format_text("%s/", own_directory());
    char *below = format_text("%s/", work);
    Names objects = {0};
    Text raw = {0};
    bool ok = compile_builds(chapter, source, &objects, work, &raw);

    if (ok) {
        Names argv = compiler_command();

        names_add(&argv, "-o");
        names_add(&argv, made);
        for (size_t i = 0; i < objects.count; i++) {
            names_add(&argv, objects.name[i]);
        }
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
            names_add(&argv, parts[i]);
        }
        add_link_flags(&argv);
        ok = execute_confined(&argv, &raw, work);
    }
    names_free(&objects);
    if (raw.data != NULL) {
        char *outer = replace_text(raw.data, below, "");
        char *trimmed = replace_text(outer, directory, "");

        text_add(log, trimmed, strlen(trimmed));
        free(outer);
        free(trimmed);
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        free(parts[i]);
    }
    if (ok) {
        take_program(made, program);
    } else {
        free(program);
        program = NULL;
    }
    drop_work(work);
    free(made);
    free(below);
    text_free(&raw);
    free(directory);
    free(suite_name);
    return program;
}
