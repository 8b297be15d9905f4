// Grading one coding lab: its table of tests, the build, one process a test.
#include "tests/grade/assignment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Suites and learners' programs.
static Limits test_limits(void) {
    return (Limits){options.seconds, 64 << 10, (size_t)1 << 30};
}

// ---- what there is ------------------------------------------------------------------------------

Names chapter_suites(const char *chapter, bool *questions) {
    char *directory = format_text("tests/grade/%s", chapter);
    char *path = format_text("%s/questions.c", directory);
    Names suites = list_files(directory, "lab", ".c");

    for (size_t i = 0; i < suites.count; i++) {
        suites.name[i][strlen(suites.name[i]) - 2] = '\0';
    }
    *questions = file_exists(path);
    free(path);
    free(directory);
    return suites;
}

Names all_chapters(void) {
    Names chapters = {0};

    for (int number = 0; number < 100; number++) {
        char *name = format_text("ch%02d", number);
        bool questions;
        Names suites = chapter_suites(name, &questions);

        if (suites.count > 0 || questions) {
            names_add(&chapters, name);
        }
        names_free(&suites);
        free(name);
    }
    return chapters;
}

char *lab_id(const char *suite) {
    return format_text("%.*s", (int)strcspn(suite, "_"), suite);
}

const char *lab_suffix(const char *chapter, const char *suite) {
    char *kernel = format_text("exercises/%s/%s.cu", chapter, suite);
    char *untouched = format_text("exercises/%s/.untouched/%s.cu", chapter, suite);
    const char *suffix = file_exists(kernel) || file_exists(untouched) ? ".cu" : ".c";

    free(untouched);
    free(kernel);
    return suffix;
}

char *lab_file(const char *from, const char *chapter, const char *suite) {
    const char *suffix = lab_suffix(chapter, suite);
    char *directory = format_text("%s/%s", from, chapter);
    char *id = lab_id(suite);
    char *prefix = format_text("%s_", id);
    char *path = format_text("%s/%s%s", directory, suite, suffix);
    Names files = list_files(directory, prefix, suffix);

    if (!file_exists(path)) {
        free(path);
        path = files.count > 0 ? format_text("%s/%s", directory, files.name[0]) : NULL;
    }
    names_free(&files);
    free(prefix);
    free(id);
    free(directory);
    return path;
}

char *explain_missing(const char *from, const char *chapter, const char *name) {
    char *above = format_text("%s/%s", from, name); // not in the chapter's folder
    Text text = {0};

    text_format(&text, "there is no file %s/%s/%s", from, chapter, name);
    if (file_exists(above) && strcmp(base_name(from), chapter) == 0) {
        text_format(&text, "; %s is there: leave /%s out of FROM", above, chapter);
    } else if (file_exists(above)) {
        text_format(&text, "; %s is there: move it to %s/%s/", above, from, chapter);
    }
    free(above);
    return text.data;
}

bool is_untouched(const char *chapter, const char *name, const char *file) {
    const size_t limit = 1 << 20;
    char *path = format_text("exercises/%s/.untouched/%s", chapter, name);
    char *original = read_file(path, limit);
    char *text = original != NULL ? read_file(file, limit) : NULL;
    const bool same = text != NULL && strcmp(original, text) == 0;

    free(text);
    free(original);
    free(path);
    return same;
}

// ---- the table ----------------------------------------------------------------------------------

// The next field of an entry: up to a tab, which is replaced by the end of the string.
char *next_field(char **rest) {
    char *field = strsep(rest, "\t");

    return field != NULL ? field : "";
}

LabResult lab_table(const char *chapter, const char *suite) {
    const Limits limits = test_limits();
    char *lister = lister_path(chapter, suite);
    char *const argv[] = {"suite", "--list", NULL};
    LabResult lab = {.id = lab_id(suite)};
    Run run;

    run_suite(&run, lister, argv, &limits);
    if (run.end != END_EXIT || run.code != 0 || run.entries.count == 0) {
        die("tests/grade/%s/%s.c does not list its tests\n%s", chapter, suite,
            run.output.data != NULL ? run.output.data : "");
    }
    lab.title = copy_text(run.title != NULL ? run.title : suite);
    lab.debugging = run.debugging;
    lab.count = run.entries.count;
    lab.tests = allocate(lab.count, sizeof(TestResult));
    for (size_t i = 0; i < lab.count; i++) {
        char *rest = run.entries.name[i];
        TestResult *test = &lab.tests[i];

        test->name = copy_text(next_field(&rest));
        test->points = atoi(next_field(&rest));
        test->gated = atoi(next_field(&rest)) != 0 && i > 0;
        test->hint = copy_text(next_field(&rest));
        test->timeout_hint = copy_text(next_field(&rest));
        test->status = STATUS_FAIL;
    }
    run_free(&run);
    free(lister);
    return lab;
}

void test_free(TestResult *test) {
    free(test->name);
    free(test->hint);
    free(test->timeout_hint);
    free(test->in_case);
    free(test->message);
    free(test->cause);
    free(test->output);
}

void lab_free(LabResult *lab) {
    for (size_t i = 0; i < lab->count; i++) {
        test_free(&lab->tests[i]);
    }
    free(lab->tests);
    free(lab->id);
    free(lab->title);
    free(lab->file);
    free(lab->notes);
    free(lab->program);
    *lab = (LabResult){0};
}

// ---- grading ------------------------------------------------------------------------------------

// What the learner's code printed: the output without a sanitizer's report.
static char *printed(const Run *run) {
    const char *text = run->output.data;
    const char *stops[] = {"=================================================================\n",
                           "AddressSanitizer:DEADLYSIGNAL\n", "runtime error: "};
    size_t length;
    char *result;

    if (text == NULL) {
        return NULL;
    }
    length = strlen(text); // up to a zero byte, if it printed one
    for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++) {
        const char *stop = strstr(text, stops[i]);

        while (stop != NULL && stop > text && stop[-1] != '\n') {
            stop--;
        }
        if (stop != NULL && (size_t)(stop - text) < length) {
            length = (size_t)(stop - text);
        }
    }
    result = length > 0 ? format_text("%.*s", (int)length, text) : NULL;
    make_printable(result);
    return result;
}

// Runs one test. Returns false when it had to be stopped because of its time.
static bool run_test(TestResult *test, const char *program, const Limits *limits) {
    char *const argv[] = {"suite", "--run", test->name, NULL};
    bool in_time;
    Run run;

    run_suite(&run, program, argv, limits);
    in_time = run.end != END_TIME;
    test->seconds = run.seconds;
    test->output = printed(&run);
    if (run.passed) {
        test->status = STATUS_PASS;
    } else if (run.end == END_EXIT && run.not_run && run.failure != NULL) {
        test->status = STATUS_NOT_RUN;
        test->message = format_text("not run: %s", run.failure);
    } else {
        test->status = STATUS_FAIL;
        test->message = explain_run(&run, limits);
        if (hint_for_end(&run, test) != NULL) {
            char *hint = copy_text(hint_for_end(&run, test));

            free(test->hint);
            test->hint = hint;
        }
        test->in_case = run.in_case != NULL ? copy_text(run.in_case) : NULL;
        make_printable(test->message);
        make_printable(test->in_case);
    }
    run_free(&run);
    return in_time;
}

void select_test(LabResult *lab, const char *only) {
    size_t kept = 0;

    for (size_t i = 0; i < lab->count; i++) {
        if (strcmp(lab->tests[i].name, only) == 0) {
            TestResult test = lab->tests[i];

            lab->tests[i] = lab->tests[kept];
            lab->tests[kept++] = test;
        }
    }
    for (size_t i = kept; i < lab->count; i++) {
        test_free(&lab->tests[i]);
    }
    lab->count = kept;
}

static bool has_test(const LabResult *lab, const char *name) {
    for (size_t i = 0; i < lab->count; i++) {
        if (strcmp(lab->tests[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void fail_all(LabResult *lab, const char *message) {
    for (size_t i = 0; i < lab->count; i++) {
        lab->tests[i].status = STATUS_FAIL;
        lab->tests[i].message = copy_text(message);
    }
}

// With `only`, the first test runs as well when the one asked for is gated. Once a test hung, the
// others get a fifth of the time, so that a lab that always hangs is graded within a minute.
static void run_tests(LabResult *lab, const char *program, const char *only) {
    Limits limits = test_limits();
    bool gate = false;

    for (size_t i = 0; i < lab->count; i++) {
        gate |= lab->tests[i].gated && (only == NULL || strcmp(lab->tests[i].name, only) == 0);
    }
    for (size_t i = 0; i < lab->count; i++) {
        TestResult *test = &lab->tests[i];
        bool wanted = only == NULL || strcmp(test->name, only) == 0;

        if (!wanted && !(gate && i == 0)) {
            continue;
        }
        if (test->gated && lab->tests[0].status != STATUS_PASS) {
            test->status = STATUS_GATED;
            test->message = format_text("not counted: pass `%s` first", lab->tests[0].name);
        } else {
            show_step(lab, test->name);
            if (!run_test(test, program, &limits)) {
                limits.seconds = options.seconds / 5;
            }
            test->score = test->status == STATUS_PASS ? test->points : 0;
        }
    }
}

// The points of a debugging lab are given for all its tests together.
static void give_all_or_none(LabResult *lab) {
    const TestResult *first = NULL;

    for (size_t i = 0; i < lab->count && first == NULL; i++) {
        first = lab->tests[i].status != STATUS_PASS ? &lab->tests[i] : NULL;
    }
    for (size_t i = 0; i < lab->count && first != NULL; i++) {
        TestResult *test = &lab->tests[i];

        if (test->status == STATUS_PASS) {
            test->status = STATUS_GATED;
            test->score = 0;
            test->message = format_text("not counted: all or nothing, pass `%s`", first->name);
        }
    }
}

// Leaves the executable of a single test where a debugger can be pointed at it. To be freed.
static char *keep_program(const char *program, const char *chapter, const char *id) {
    char *directory = format_text("%s/labs", options.build);
    char *path = format_text("%s/%s_%s", directory, chapter, id);

    if (!make_directories(directory) || rename(program, path) != 0) {
        die("%s: %s", path, strerror(errno));
    }
    free(directory);
    return path;
}

LabResult grade_lab(const char *chapter, const char *suite, const char *source, const char *only) {
    LabResult lab = lab_table(chapter, suite);
    char *name = format_text("%s%s", suite, lab_suffix(chapter, suite));
    Text log = {0};
    char *program;

    if (source == NULL) {
        drop_hidden(chapter, &lab);
    }
    if (only != NULL && !has_test(&lab, only)) {
        select_test(&lab, only);
        free(name);
        return lab;
    }
    show_step(&lab, "compiling");
    lab.file = source != NULL ? copy_text(source) : lab_file(options.from, chapter, suite);
    if (lab.file == NULL) {
        lab.file = format_text("%s/%s/%s", options.from, chapter, name);
        lab.missing = true;
        lab.notes = explain_missing(options.from, chapter, name);
        fail_all(&lab, "the lab's file is missing");
    } else if ((program = build_lab(chapter, suite, lab.file, &log)) == NULL) {
        lab.notes = compile_errors(log.data, lab.file);
        fail_all(&lab, "does not compile");
    } else {
        lab.built = true;
        lab.untouched = is_untouched(chapter, name, lab.file);
        lab.notes = compile_warnings(log.data);
        run_tests(&lab, program, only);
        name_causes(&lab, chapter);
        if (lab.debugging && only == NULL) {
            give_all_or_none(&lab);
        }
        if (only != NULL && source == NULL) {
            lab.program = keep_program(program, chapter, lab.id);
        }
        unlink(program);
        free(program);
    }
    make_printable(lab.notes);
    make_printable(lab.file);
    text_free(&log);
    free(name);
    if (only != NULL) {
        select_test(&lab, only);
    }
    lab.points = 0;
    for (size_t i = 0; i < lab.count; i++) {
        lab.points += lab.tests[i].points;
        lab.score += lab.tests[i].score;
    }
    return lab;
}

ChapterResult grade_chapter(const char *chapter) {
    ChapterResult result = {.name = chapter};
    bool questions;
    Names suites = chapter_suites(chapter, &questions);

    suite_seed = chapter_seed(chapter);
    result.labs = allocate(suites.count + 1, sizeof(LabResult));
    for (size_t i = 0; i < suites.count; i++) {
        if (options.lab == ALL_LABS || atoi(suites.name[i] + 3) == options.lab) {
            result.labs[result.count++] = grade_lab(chapter, suites.name[i], NULL, options.test);
        }
    }
    if (questions && (options.lab == ALL_LABS || options.lab == ONLY_QUESTIONS)) {
        result.labs[result.count] = grade_questions_of(chapter, options.from, options.test);
        drop_hidden(chapter, &result.labs[result.count++]);
    }
    for (size_t i = 0; i < result.count; i++) {
        result.score += result.labs[i].score;
        result.points += result.labs[i].points;
    }
    assign_chapter(&result);
    names_free(&suites);
    return result;
}

void chapter_free(ChapterResult *chapter) {
    for (size_t i = 0; i < chapter->count; i++) {
        lab_free(&chapter->labs[i]);
    }
    free(chapter->labs);
    free(chapter->due);
    free(chapter->lateness);
    *chapter = (ChapterResult){0};
}
