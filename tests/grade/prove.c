// The proof that the grader grades: solutions score full marks, untouched exercises score zero and
// are the solutions with the gaps emptied, every mutant fails on the test that it names and is
// recognised there.
#include "tests/grade/assignment.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAID = 400 };

static const size_t file_limit = 1 << 20;

typedef enum Kind {
    PROVE_SOLUTION,
    PROVE_EXERCISE,
    PROVE_GAPS,
    PROVE_MUTANTS_EXIST,
    PROVE_ANSWERS,
    PROVE_NO_ANSWERS,
    PROVE_ANSWER_NAMES,
    PROVE_POINTS,
    PROVE_MUTANT
} Kind;

typedef struct Proof {
    Kind kind;
    const char *chapter;
    char *name; // the suite, or the mutant's file
} Proof;

// What the job that tried a proof says; in memory shared with this process.
typedef struct Verdict {
    bool passed;
    bool skipped; // an exercise that is no longer untouched proves nothing
    char said[SAID];
} Verdict;

typedef struct Proofs {
    Proof *proof;
    size_t count;
    Verdict *verdicts;
    size_t passed, skipped;
} Proofs;

static void say(Verdict *verdict, bool passed, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void say(Verdict *verdict, bool passed, const char *format, ...) {
    va_list args;

    verdict->passed = passed;
    va_start(args, format);
    vsnprintf(verdict->said, SAID, format, args);
    va_end(args);
}

// ---- one proof each -----------------------------------------------------------------------------

// The first test of a lab whose score is not `wanted` of its points; NULL when there is none.
static const TestResult *odd_one(const LabResult *lab, bool want_points) {
    for (size_t t = 0; t < lab->count; t++) {
        if (lab->tests[t].score != (want_points ? lab->tests[t].points : 0)) {
            return &lab->tests[t];
        }
    }
    return NULL;
}

// The first test that could not be run here; NULL when all could, or when another one failed.
static const TestResult *not_run_one(const LabResult *lab) {
    const TestResult *found = NULL;

    for (size_t t = 0; t < lab->count; t++) {
        if (lab->tests[t].status == STATUS_FAIL) {
            return NULL;
        }
        if (lab->tests[t].status == STATUS_NOT_RUN && found == NULL) {
            found = &lab->tests[t];
        }
    }
    return found;
}

// The first test that was taken for a known fault's; NULL when there is none.
static const TestResult *caused_one(const LabResult *lab) {
    for (size_t t = 0; t < lab->count; t++) {
        if (lab->tests[t].cause != NULL) {
            return &lab->tests[t];
        }
    }
    return NULL;
}

static void say_not_run(Verdict *verdict, const TestResult *test) {
    say(verdict, false, "not proved: `%s` is %s", test->name, test->message);
    verdict->skipped = true;
}

// Scores of a lab's tests or a chapter's questions: all points, or none.
static void judge_scores(Verdict *verdict, const LabResult *lab, const char *who,
                         bool want_points) {
    const TestResult *odd = odd_one(lab, want_points);
    const TestResult *not_run = want_points ? not_run_one(lab) : NULL;
    const TestResult *cause = lab->debugging ? NULL : caused_one(lab);

    if (not_run != NULL) {
        say_not_run(verdict, not_run);
    } else if (lab->count == 0) {
        say(verdict, false, "%s: nothing to grade", who);
    } else if (lab->notes != NULL) {
        say(verdict, false, "%s: %.200s", who, lab->notes);
    } else if (odd != NULL) {
        say(verdict, false, "%s scores %d/%d: `%s` %s", who, lab->score, lab->points, odd->name,
            odd->message != NULL ? odd->message : "passes");
    } else if (cause != NULL) {
        say(verdict, false, "%s: `%s` is taken for a known fault: %s", who, cause->name,
            cause->cause);
    } else {
        say(verdict, true, "%s scores %d/%d", who, lab->score, lab->points);
    }
}

static void prove_lab(const Proof *proof, Verdict *verdict, const char *folder, const char *who,
                      bool want_points) {
    char *file = lab_file(folder, proof->chapter, proof->name);
    LabResult lab;

    if (file == NULL) {
        say(verdict, false, "%s: no file in %s/%s", who, folder, proof->chapter);
        return;
    }
    lab = grade_lab(proof->chapter, proof->name, file, NULL);
    judge_scores(verdict, &lab, who, want_points);
    lab_free(&lab);
    free(file);
}

static void prove_questions(const Proof *proof, Verdict *verdict, const char *folder,
                            const char *who, bool want_points) {
    LabResult lab = grade_questions_of(proof->chapter, folder, NULL);

    judge_scores(verdict, &lab, who, want_points);
    lab_free(&lab);
}

// Whether git knows the chapter's exercises and sees changes in them: then a learner has begun.
static bool worked_on(const char *chapter) {
    char *command = format_text("git status --porcelain -- exercises/%s 2>/dev/null", chapter);
    FILE *git = popen(command, "r");
    const bool changed = git != NULL && fgetc(git) != EOF;

    if (git != NULL) {
        pclose(git);
    }
    free(command);
    return changed;
}

// An exercise scores zero, unless it has been worked on since it was handed out.
static void prove_untouched(const Proof *proof, Verdict *verdict) {
    const char *who = "untouched exercise";

    if (proof->kind == PROVE_NO_ANSWERS) {
        prove_questions(proof, verdict, "exercises", who, false);
    } else {
        prove_lab(proof, verdict, "exercises", who, false);
    }
    if (!verdict->passed && worked_on(proof->chapter)) {
        say(verdict, false, "not proved: exercises/%s has been worked on", proof->chapter);
        verdict->skipped = true;
    }
}

static void prove_gaps(const Proof *proof, Verdict *verdict) {
    char *exercise_path = lab_file("exercises", proof->chapter, proof->name);
    char *solution_path = lab_file("solutions", proof->chapter, proof->name);
    char *exercise = exercise_path != NULL ? read_file(exercise_path, file_limit) : NULL;
    char *solution = solution_path != NULL ? read_file(solution_path, file_limit) : NULL;
    LabResult lab = lab_table(proof->chapter, proof->name);
    char *difference = exercise == NULL || solution == NULL
                           ? copy_text("one of the two cannot be read")
                       : lab.debugging ? compare_debugging(exercise, solution)
                                       : compare_outside_gaps(exercise, solution);

    say(verdict, difference == NULL, "exercise and solution %s%s%s",
        lab.debugging ? "differ, without gaps" : "are the same outside the gaps",
        difference != NULL ? ": " : "", difference != NULL ? difference : "");
    lab_free(&lab);
    free(difference);
    free(exercise);
    free(solution);
    free(exercise_path);
    free(solution_path);
}

// Both answers.txt name the questions, all of them, once, in their order.
static char *answer_names(const char *folder, const char *chapter) {
    char *path = format_text("%s/%s/answers.txt", folder, chapter);
    char *text = read_file(path, file_limit);
    char *rest = text;
    char *line;
    Text names = {0};

    text_add(&names, "", 0);
    while (text != NULL && (line = strsep(&rest, "\n")) != NULL) {
        char name[80];

        if (sscanf(line, " %79[A-Za-z0-9_] =", name) == 1) {
            text_format(&names, "%s ", name);
        }
    }
    free(text);
    free(path);
    return names.data;
}

static void prove_names(const Proof *proof, Verdict *verdict) {
    LabResult lab = grade_questions_of(proof->chapter, "solutions", NULL);
    char *exercise = answer_names("exercises", proof->chapter);
    char *solution = answer_names("solutions", proof->chapter);
    Text asked = {0};

    text_add(&asked, "", 0);
    for (size_t i = 0; i < lab.count; i++) {
        text_format(&asked, "%s ", lab.tests[i].name);
    }
    if (strcmp(exercise, asked.data) == 0 && strcmp(solution, asked.data) == 0) {
        say(verdict, true, "both answers.txt name the questions asked");
    } else {
        say(verdict, false, "asked: %s; exercises: %s; solutions: %s", asked.data, exercise,
            solution);
    }
    text_free(&asked);
    free(exercise);
    free(solution);
    lab_free(&lab);
}

// The points in the last column of the README's row for a lab's file; -1 when there is no such row.
static int points_in_table(const char *readme, const char *file) {
    char *start = format_text("\n| `%s", file);
    const char *row = strstr(readme, start);
    const char *last = row; // the bar before the last column
    int points = -1;

    for (const char *at = row; row != NULL && at[1] != '\0' && at[1] != '\n'; at++) {
        last = at[0] == '|' ? at : last;
    }
    if (row != NULL) {
        points = atoi(last + 1);
    }
    free(start);
    return points;
}

// The table of exercises/chNN/README.md tells what the lab is worth.
static void prove_points(const Proof *proof, Verdict *verdict) {
    const bool questions = strcmp(proof->name, "questions") == 0;
    char *path = format_text("exercises/%s/README.md", proof->chapter);
    char *readme = read_file(path, file_limit);
    char *file = questions ? copy_text("answers.txt") : format_text("%s.", proof->name);
    LabResult lab = questions ? grade_questions_of(proof->chapter, "solutions", NULL)
                              : lab_table(proof->chapter, proof->name);
    const int told = readme != NULL ? points_in_table(readme, file) : -1;
    int points = 0;

    for (size_t t = 0; t < lab.count; t++) {
        points += lab.tests[t].points;
    }
    if (told == points) {
        say(verdict, true, "the README tells its %d points", points);
    } else {
        say(verdict, false, "has %d points; the table of %s says %d", points, path, told);
    }
    lab_free(&lab);
    free(file);
    free(readme);
    free(path);
}

static void prove_mutants_exist(const Proof *proof, Verdict *verdict) {
    char *prefix = format_text("%.*s_", (int)strcspn(proof->name, "_"), proof->name);
    Names mutants = mutants_of(proof->chapter, prefix);

    say(verdict, mutants.count > 0, "%zu mutants", mutants.count);
    names_free(&mutants);
    free(prefix);
}

static void run_mutant(const Proof *proof, Verdict *verdict, const Mutant *mutant,
                       const char *suite) {
    LabResult lab = grade_mutant(mutant, proof->chapter, suite, mutant->test);

    if (lab.count == 0) {
        say(verdict, false, "there is no test `%s`", mutant->test);
    } else if (!lab.built) {
        say(verdict, false, "does not compile: %.200s", lab.notes);
    } else if (lab.tests[0].status == STATUS_NOT_RUN) {
        say_not_run(verdict, &lab.tests[0]);
    } else if (lab.tests[0].status == STATUS_GATED) {
        say(verdict, false, "fails the lab's first test already, before `%s`", mutant->test);
    } else if (lab.tests[0].status == STATUS_PASS) {
        say(verdict, false, "passes `%s`", mutant->test);
    } else if (suite_seed == 0 && !is_recognised(mutant, proof->chapter, suite, &lab.tests[0])) {
        say(verdict, false, "fails on `%s`, whose report does not name it: build/grade --record %s",
            mutant->test, proof->chapter);
    } else {
        say(verdict, true, "fails on `%s`", mutant->test);
    }
    lab_free(&lab);
}

static void prove_mutant(const Proof *proof, Verdict *verdict) {
    char *path = format_text("tests/mutants/%s/%s", proof->chapter, proof->name);
    char *solutions = format_text("solutions/%s", proof->chapter);
    char *suite = NULL;
    char *error;
    Mutant mutant;

    if (!read_mutant(&mutant, path, solutions, &error)) {
        say(verdict, false, "%s", error);
        free(error);
    } else {
        suite = mutant_suite(&mutant, proof->chapter);
        if (suite == NULL) {
            say(verdict, false, "there is no such lab");
        } else {
            run_mutant(proof, verdict, &mutant, suite);
        }
        mutant_free(&mutant);
    }
    free(suite);
    free(solutions);
    free(path);
}

// ---- all of them --------------------------------------------------------------------------------

static void try_proof(void *context, size_t i) {
    Proofs *proofs = context;
    const Proof *proof = &proofs->proof[i];
    Verdict *verdict = &proofs->verdicts[i];

    switch (proof->kind) {
    case PROVE_SOLUTION:
        prove_lab(proof, verdict, "solutions", "solution", true);
        break;
    case PROVE_EXERCISE:
    case PROVE_NO_ANSWERS:
        prove_untouched(proof, verdict);
        break;
    case PROVE_GAPS:
        prove_gaps(proof, verdict);
        break;
    case PROVE_MUTANTS_EXIST:
        prove_mutants_exist(proof, verdict);
        break;
    case PROVE_ANSWERS:
        prove_questions(proof, verdict, "solutions", "solution", true);
        break;
    case PROVE_ANSWER_NAMES:
        prove_names(proof, verdict);
        break;
    case PROVE_POINTS:
        prove_points(proof, verdict);
        break;
    case PROVE_MUTANT:
        prove_mutant(proof, verdict);
        break;
    }
}

static void report_proof(void *context, size_t i, bool ok) {
    Proofs *proofs = context;
    const Proof *proof = &proofs->proof[i];
    const Verdict *verdict = &proofs->verdicts[i];
    const char *said = ok ? verdict->said : "the job crashed";
    bool passed = ok && verdict->passed;

    const bool skipped = ok && verdict->skipped;

    proofs->passed += passed ? 1 : 0;
    proofs->skipped += skipped ? 1 : 0;
    printf("%s %s %.*s: %.*s\n",
           passed    ? "ok  "
           : skipped ? "skip"
                     : "FAIL",
           proof->chapter, (int)strcspn(proof->name, proof->kind == PROVE_MUTANT ? "." : "_"),
           proof->name, (int)strcspn(said, "\n"), said);
    fflush(stdout);
}

static void add_proof(Proofs *proofs, Kind kind, const char *chapter, const char *name) {
    proofs->proof = grown(proofs->proof, proofs->count, sizeof(Proof));
    proofs->proof[proofs->count++] = (Proof){kind, chapter, copy_text(name)};
}

static void add_chapter(Proofs *proofs, const char *chapter) {
    bool questions;
    Names suites = chapter_suites(chapter, &questions);
    Names mutants = mutants_of(chapter, "");
    char *readme = format_text("exercises/%s/README.md", chapter);
    const bool has_readme = file_exists(readme);

    for (size_t i = 0; i < suites.count; i++) {
        if (has_readme) {
            add_proof(proofs, PROVE_POINTS, chapter, suites.name[i]);
        }
        add_proof(proofs, PROVE_SOLUTION, chapter, suites.name[i]);
        add_proof(proofs, PROVE_EXERCISE, chapter, suites.name[i]);
        add_proof(proofs, PROVE_GAPS, chapter, suites.name[i]);
        add_proof(proofs, PROVE_MUTANTS_EXIST, chapter, suites.name[i]);
    }
    if (questions && has_readme) {
        add_proof(proofs, PROVE_POINTS, chapter, "questions");
    }
    if (questions) {
        add_proof(proofs, PROVE_ANSWERS, chapter, "questions");
        add_proof(proofs, PROVE_NO_ANSWERS, chapter, "questions");
        add_proof(proofs, PROVE_ANSWER_NAMES, chapter, "questions");
    }
    for (size_t i = 0; i < mutants.count; i++) {
        add_proof(proofs, PROVE_MUTANT, chapter, mutants.name[i]);
    }
    free(readme);
    names_free(&suites);
    names_free(&mutants);
}

bool prove(const Names *chapters) {
    Proofs proofs = {0};
    bool all;

    if (access("solutions", F_OK) != 0) {
        printf("there is no solutions/ here, as in a copy for learners: nothing to prove\n"
               "0 passed, 0 failed\n");
        return true;
    }
    build_shared(chapters);
    suite_seed = options.seed != NULL ? hash_seed(options.seed) : 0;
    for (size_t i = 0; i < chapters->count; i++) {
        assignment_of(chapters->name[i]); // a mistake in it is found here as well
        add_chapter(&proofs, chapters->name[i]);
    }
    proofs.verdicts = shared_memory(proofs.count * sizeof(Verdict));
    run_jobs(proofs.count, &proofs, try_proof, report_proof);
    printf("%zu passed, %zu failed\n", proofs.passed,
           proofs.count - proofs.passed - proofs.skipped);
    all = proofs.passed + proofs.skipped == proofs.count;
    for (size_t i = 0; i < proofs.count; i++) {
        free(proofs.proof[i].name);
    }
    free(proofs.proof);
    return all;
}
