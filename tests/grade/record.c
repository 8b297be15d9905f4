// Records what the known wrong answers give: every mutant of a chapter is graded on all tests of
// its lab, and tests/grade/chNN/wrong_answers.txt is written anew. recognise.c reads that file.
#include "tests/grade/recognise.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 32 << 10 };

// What a job found out about one mutant; in memory shared with this process.
typedef struct Block {
    bool recorded;          // otherwise the text says why not
    char text[BLOCK_BYTES]; // the mutant's part of the file
} Block;

typedef struct Recording {
    const char *chapter;
    Names mutants;
    Block *blocks;
    size_t recorded;
} Recording;

static const char heading[] =
    "# What the known wrong answers of this chapter give: the name, the cause, and for each test\n"
    "# that fails the test, the hash of its case, and the message. `build/grade --record` writes\n"
    "# this file; docs/grading.md tells how a failure is compared with it.\n";

static void refuse(Block *block, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void refuse(Block *block, const char *format, ...) {
    va_list args;

    va_start(args, format);
    vsnprintf(block->text, sizeof(block->text), format, args);
    va_end(args);
}

static void record_symptoms(Block *block, const Mutant *mutant, const LabResult *lab,
                            const char *name) {
    Text text = {0};

    text_format(&text, "\n%s\n%s\n", name, mutant->cause);
    for (size_t t = 0; t < lab->count; t++) {
        const TestResult *test = &lab->tests[t];

        if (test->status == STATUS_FAIL) {
            double allowed;
            char *evidence = as_evidence(test->message, &allowed);

            text_format(&text, "%s %08x %s\n", test->name,
                        text_hash(test->in_case != NULL ? test->in_case : ""), evidence);
            free(evidence);
        }
    }
    block->recorded = text.length < sizeof(block->text);
    refuse(block, "%s", block->recorded ? text.data : "its messages are too long");
    text_free(&text);
}

// The first test that this machine cannot run; NULL when there is none.
static const TestResult *not_run_test(const LabResult *lab) {
    for (size_t t = 0; t < lab->count; t++) {
        if (lab->tests[t].status == STATUS_NOT_RUN) {
            return &lab->tests[t];
        }
    }
    return NULL;
}

static void record_graded(Block *block, const Mutant *mutant, const char *chapter,
                          const char *name) {
    char *suite = mutant_suite(mutant, chapter);
    LabResult lab;

    if (suite == NULL) {
        refuse(block, "there is no such lab");
        return;
    }
    lab = grade_mutant(mutant, chapter, suite, NULL);
    if (!lab.built) {
        refuse(block, "does not compile: %.200s", lab.notes);
    } else if (not_run_test(&lab) != NULL) {
        refuse(block, "`%s` was %s", not_run_test(&lab)->name, not_run_test(&lab)->message);
    } else {
        record_symptoms(block, mutant, &lab, name);
    }
    lab_free(&lab);
    free(suite);
}

static void record_mutant(void *context, size_t i) {
    const Recording *recording = context;
    const char *file = recording->mutants.name[i];
    Block *block = &recording->blocks[i];
    char *path = format_text("tests/mutants/%s/%s", recording->chapter, file);
    char *solutions = format_text("solutions/%s", recording->chapter);
    char *name = format_text("%.*s", (int)strcspn(file, "."), file);
    char *error;
    Mutant mutant;

    if (read_mutant(&mutant, path, solutions, &error)) {
        record_graded(block, &mutant, recording->chapter, name);
        mutant_free(&mutant);
    } else {
        refuse(block, "%s", error);
        free(error);
    }
    free(name);
    free(solutions);
    free(path);
}

static void report_mutant(void *context, size_t i, bool ok) {
    Recording *recording = context;
    const Block *block = &recording->blocks[i];

    if (ok && block->recorded) {
        recording->recorded++;
        return;
    }
    printf("FAIL %s %s: %s\n", recording->chapter, recording->mutants.name[i],
           ok ? block->text : "the job crashed");
    fflush(stdout);
}

// False, and nothing written, when a mutant could not be recorded.
static bool record_chapter(const char *chapter) {
    Recording recording = {.chapter = chapter, .mutants = mutants_of(chapter, "")};
    char *path = wrong_answers_path(chapter);
    const size_t count = recording.mutants.count;
    Text text = {0};

    recording.blocks = shared_memory(count * sizeof(Block));
    run_jobs(count, &recording, record_mutant, report_mutant);
    text_add(&text, heading, strlen(heading));
    for (size_t i = 0; i < count; i++) {
        text_format(&text, "%s", recording.blocks[i].text);
    }
    if (recording.recorded == count && !write_file(path, text.data)) {
        die("%s: %s", path, strerror(errno));
    }
    printf("%s: %zu of %zu known wrong answers recorded%s%s\n", chapter, recording.recorded, count,
           recording.recorded == count ? " in " : "; the file stays as it is",
           recording.recorded == count ? path : "");
    text_free(&text);
    names_free(&recording.mutants);
    free(path);
    return recording.recorded == count;
}

bool record_wrong_answers(const Names *chapters) {
    bool all = true;

    if (!directory_exists("solutions") || !directory_exists("tests/mutants")) {
        die("--record needs solutions/ and tests/mutants/, which a copy for learners lacks");
    }
    build_shared(chapters);
    for (size_t c = 0; c < chapters->count; c++) {
        all = record_chapter(chapters->name[c]) && all;
    }
    return all;
}

// ---- the proof ----------------------------------------------------------------------------------

static bool names_cause(const TestResult *test, const Mutant *mutant) {
    return test->cause != NULL && strstr(test->cause, mutant->cause) != NULL;
}

bool is_recognised(const Mutant *mutant, const char *chapter, const char *suite,
                   const TestResult *test) {
    bool named = names_cause(test, mutant);

    if (!named) {
        LabResult lab = grade_mutant(mutant, chapter, suite, NULL);

        for (size_t t = 0; t < lab.count; t++) {
            named |=
                strcmp(lab.tests[t].name, test->name) == 0 && names_cause(&lab.tests[t], mutant);
        }
        lab_free(&lab);
    }
    return named;
}
