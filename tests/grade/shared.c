// What every lab shares, compiled once and again when a source, a header, the compiler or its flags
// change: the harness, common/, the suites. Two graders at a time take turns here by a lock.
#include "tests/grade/build.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const size_t file_limit = 1 << 20;

typedef struct Unit {
    char *source;
    char *object;
    char *include; // "-Iexercises/chNN" for a suite, NULL otherwise
    char *lister;  // a suite's or the questions' lister, NULL otherwise
} Unit;

typedef struct Units {
    Unit *unit;
    size_t count;
    bool failed;
} Units;

static void push(Units *units, Unit unit) {
    units->unit = grown(units->unit, units->count, sizeof(Unit));
    units->unit[units->count++] = unit;
}

static void add_unit(Units *units, const char *source, const char *chapter, const char *suite) {
    char *name = format_text("%.*s.o", (int)(strlen(source) - 2), source);

    push(units, (Unit){
                    .source = copy_text(source),
                    .object = cache_path(name),
                    .include = chapter != NULL ? format_text("-Iexercises/%s", chapter) : NULL,
                    .lister = chapter != NULL ? lister_path(chapter, suite) : NULL,
                });
    free(name);
}

// True when `path` exists and is older than `than`; seconds and nanoseconds count.
static bool is_older(const char *path, const struct timespec *than) {
    struct stat info;

    return stat(path, &info) == 0 &&
           (info.st_mtim.tv_sec < than->tv_sec ||
            (info.st_mtim.tv_sec == than->tv_sec && info.st_mtim.tv_nsec < than->tv_nsec));
}

// True when the object is newer than all that its .d file names.
static bool is_fresh(const char *object) {
    char *path = format_text("%.*s.d", (int)(strlen(object) - 2), object);
    char *rules = read_file(path, file_limit);
    struct stat info;
    bool fresh = rules != NULL && stat(object, &info) == 0;
    char *rest = NULL;

    if (fresh) {
        strtok_r(rules, " \\\n", &rest); // the target
        for (char *word = strtok_r(NULL, " \\\n", &rest); word != NULL && fresh;
             word = strtok_r(NULL, " \\\n", &rest)) {
            fresh = is_older(word, &info.st_mtim);
        }
    }
    free(rules);
    free(path);
    return fresh;
}

// Ends the program: a file of the course itself is broken, which is no learner's fault.
static void require(bool ok, const char *what, Text *log) {
    if (!ok) {
        die("%s does not build\n%s", what, log->data != NULL ? log->data : "");
    }
    text_free(log);
}

static void compile_unit(void *context, size_t i) {
    const Unit *unit = &((const Units *)context)->unit[i];
    char *directory = copy_text(unit->object);
    char *temporary = format_text("%s.%ld.o", unit->object, (long)getpid());
    char *rules = format_text("%.*s.d", (int)(strlen(unit->object) - 2), unit->object);
    Names argv = compiler_command();
    Text log = {0};

    *strrchr(directory, '/') = '\0';
    if (!make_directories(directory)) {
        die("%s: %s", directory, strerror(errno));
    }
    if (unit->include != NULL) {
        names_add(&argv, unit->include);
    }
    add_words(&argv, "-w -MMD -MF");
    names_add(&argv, rules);
    names_add(&argv, "-c");
    names_add(&argv, unit->source);
    names_add(&argv, "-o");
    names_add(&argv, temporary);
    require(execute(&argv, &log), unit->source, &log);
    if (rename(temporary, unit->object) != 0) {
        die("%s: %s", unit->object, strerror(errno));
    }
    free(directory);
    free(temporary);
    free(rules);
}

// A suite is linked without a learner's file: its references to the learner's functions become weak
// and stay empty, since listing the tests calls none of them.
static void link_lister(void *context, size_t i) {
    const Unit *unit = &((const Units *)context)->unit[i];
    char *harness = cache_path("tests/grade/harness.o");
    char *library = cache_path("libcommon.a");
    char *weak = format_text("%s/weak.o", own_directory());
    char *temporary = format_text("%s.%ld", unit->lister, (long)getpid());
    bool questions = strstr(unit->lister, "/questions.list") != NULL;
    Names argv = {0};
    Text log = {0};

    add_words(&argv, "objcopy --weaken");
    names_add(&argv, unit->object);
    names_add(&argv, weak);
    require(execute(&argv, &log), unit->source, &log);
    argv = compiler_command();
    names_add(&argv, "-o");
    names_add(&argv, temporary);
    names_add(&argv, harness);
    names_add(&argv, questions ? unit->object : weak);
    names_add(&argv, library);
    add_link_flags(&argv);
    require(execute(&argv, &log), unit->source, &log);
    if (rename(temporary, unit->lister) != 0) {
        die("%s: %s", unit->lister, strerror(errno));
    }
    free(harness);
    free(library);
    free(weak);
    free(temporary);
}

static void job_ended(void *context, size_t i, bool ok) {
    (void)i;
    ((Units *)context)->failed |= !ok;
}

static void run_all(Units *units, Job job) {
    if (units->count > 0) {
        run_jobs(units->count, units, job, job_ended);
    }
    if (units->failed) {
        die("a file of the course does not build; nothing was graded");
    }
}

// Can the compiler link the sanitizers? Without them guard words have to do.
static void probe_sanitizers(void) {
    char *source = format_text("%s/probe.c", own_directory());
    char *program = format_text("%s/probe", own_directory());
    Names argv = compiler_command();
    Text log = {0};

    if (!write_file(source, "int main(void) { return 0; }\n")) {
        die("%s: %s", source, strerror(errno));
    }
    names_add(&argv, "-o");
    names_add(&argv, program);
    names_add(&argv, source);
    if (options.sanitize && !execute(&argv, &log)) {
        options.sanitize = false;
        argv = compiler_command();
        names_add(&argv, "-o");
        names_add(&argv, program);
        names_add(&argv, source);
        require(execute(&argv, &log), "an empty program", &log);
        fprintf(stderr,
                "grade: %s cannot link the sanitizers; writes outside an array are found "
                "by guard words alone\n",
                options.compiler);
    }
    text_free(&log);
    free(source);
    free(program);
}

// The cache is good for one compiler and one set of flags: those that its stamp names.
static char *stamp_text(void) {
    Names argv = {0};
    Text text = {0};

    add_words(&argv, options.compiler);
    names_add(&argv, "--version");
    if (!execute(&argv, &text)) {
        die("`%s --version` fails", options.compiler);
    }
    argv = compiler_command();
    for (size_t i = 0; i < argv.count; i++) {
        text_format(&text, "%s ", argv.name[i]);
    }
    names_free(&argv);
    return text.data;
}

static bool stamp_matches(void) {
    char *path = cache_path("flags");
    char *want = stamp_text();
    char *have = read_file(path, file_limit);
    bool same = have != NULL && strcmp(have, want) == 0;

    free(path);
    free(want);
    free(have);
    return same;
}

// Empties the cache when the compiler or its flags are not those that filled it.
static void check_stamp(void) {
    char *directory;
    char *path;
    char *stamp;

    if (stamp_matches()) {
        return;
    }
    probe_sanitizers();
    if (stamp_matches()) {
        return;
    }
    directory = cache_path("");
    path = cache_path("flags");
    stamp = stamp_text();
    remove_tree(directory);
    if (!make_directories(directory) || !write_file(path, stamp)) {
        die("%s: %s", path, strerror(errno));
    }
    free(directory);
    free(path);
    free(stamp);
}

// The library holds common/ and the kernel labs' part of the harness.
static bool is_in_library(const Unit *unit) {
    return strncmp(unit->source, "common/", 7) == 0 ||
           strncmp(unit->source, "tests/grade/simt/", 17) == 0;
}

// The library, renewed when one of its objects changed or the list did.
static void archive(const Units *units, bool changed) {
    char *library = cache_path("libcommon.a");
    char *temporary = format_text("%s.%ld", library, (long)getpid());
    char *list_path = cache_path("libcommon.list");
    char *old = read_file(list_path, file_limit);
    Text list = {0};
    Text log = {0};
    Names argv = {0};

    add_words(&argv, "ar qcs"); // two files may have one name
    names_add(&argv, temporary);
    text_add(&list, "", 0);
    for (size_t i = 0; i < units->count; i++) {
        if (is_in_library(&units->unit[i])) {
            text_format(&list, "%s\n", units->unit[i].source);
            names_add(&argv, units->unit[i].object);
        }
    }
    if (changed || !file_exists(library) || old == NULL || strcmp(old, list.data) != 0) {
        require(execute(&argv, &log), library, &log);
        if (rename(temporary, library) != 0 || !write_file(list_path, list.data)) {
            die("%s: %s", library, strerror(errno));
        }
    }
    names_free(&argv);
    text_free(&list);
    free(old);
    free(list_path);
    free(temporary);
    free(library);
}

// Everything that the chapters need: the harness, common/, the suites.
static Units all_units(const Names *chapters) {
    Units units = {0};
    const char *const folders[] = {"common", "common/simt", "tests/grade/simt"};

    add_unit(&units, "tests/grade/harness.c", NULL, NULL);
    for (size_t f = 0; f < sizeof(folders) / sizeof(folders[0]); f++) {
        Names files = list_files(folders[f], "", ".c");

        for (size_t i = 0; i < files.count; i++) {
            char *source = format_text("%s/%s", folders[f], files.name[i]);

            add_unit(&units, source, NULL, NULL);
            free(source);
        }
        names_free(&files);
    }
    for (size_t c = 0; c < chapters->count; c++) {
        bool questions;
        Names suites = chapter_suites(chapters->name[c], &questions);

        if (questions) {
            names_add(&suites, "questions");
        }
        for (size_t i = 0; i < suites.count; i++) {
            char *source = format_text("tests/grade/%s/%s.c", chapters->name[c], suites.name[i]);

            add_unit(&units, source, chapters->name[c], suites.name[i]);
            free(source);
        }
        names_free(&suites);
    }
    return units;
}

// True when something the lister was linked from is newer.
static bool lister_stale(const Unit *unit, const char *harness) {
    struct stat info;

    return stat(unit->lister, &info) != 0 || !is_older(unit->object, &info.st_mtim) ||
           !is_older(harness, &info.st_mtim);
}

void build_shared(const Names *chapters) {
    char *root = format_text("%s/grade.d", options.build);
    char *lock_path = format_text("%s/lock", root);
    char *harness;
    Units units;
    Units stale = {0};
    Units listers = {0};
    int lock;
    bool common_changed = false;

    if (!make_directories(root) ||
        (lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0644)) < 0 ||
        flock(lock, LOCK_EX) != 0) {
        die("%s: %s", lock_path, strerror(errno));
    }
    check_stamp();
    units = all_units(chapters); // the paths depend on whether there are sanitizers
    for (size_t i = 0; i < units.count; i++) {
        Unit *unit = &units.unit[i];

        if (!is_fresh(unit->object)) {
            push(&stale, *unit);
            common_changed |= is_in_library(unit);
        }
    }
    if (stale.count > 8 && isatty(STDERR_FILENO)) {
        fprintf(stderr, "Compiling the tests: once, up to a minute.\n");
    }
    run_all(&stale, compile_unit);
    archive(&units, common_changed);
    harness = cache_path("tests/grade/harness.o");
    for (size_t i = 0; i < units.count; i++) {
        if (units.unit[i].lister != NULL &&
            (common_changed || lister_stale(&units.unit[i], harness))) {
            push(&listers, units.unit[i]);
        }
    }
    run_all(&listers, link_lister);
    close(lock);
    for (size_t i = 0; i < units.count; i++) {
        free(units.unit[i].source);
        free(units.unit[i].object);
        free(units.unit[i].include);
        free(units.unit[i].lister);
    }
    free(units.unit);
    free(stale.unit);
    free(listers.unit);
    free(harness);
    free(lock_path);
    free(root);
}
