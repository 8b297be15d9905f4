// Names the likely cause of a failure: the learner's failed tests are compared with those of the
// known wrong answers, which tests/grade/chNN/wrong_answers.txt holds. A wrong answer is there with
// its name, the cause, and a line for each test that it fails: the test, the hash of its case, and
// the message as evidence.c leaves it. Blocks are parted by empty lines.
#include "tests/grade/recognise.h"

#include "tests/grade/assignment.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_CAUSES = 3 }; // that one answer names

static const size_t record_limit = 4 << 20;

// One failed test: of the learner, or of a known fault.
typedef struct Symptom {
    const char *test;
    uint32_t in_case;
    char *evidence;
    double allowed; // of the learner's
} Symptom;

typedef struct Fault {
    const char *cause;
    Symptom *symptoms;
    size_t count;
    bool contradicted; // it fails a test that the learner passes
    size_t matched;    // failed tests of the learner that look the same here
    size_t explained;  // failed tests of the learner that fail here, whatever they say
    bool distinctive;  // one of those that look the same has a number of three digits or more
} Fault;

typedef struct Faults {
    char *text; // the file, which the faults point into
    Fault *fault;
    size_t count;
} Faults;

char *wrong_answers_path(const char *chapter) {
    return format_text("tests/grade/%s/wrong_answers.txt", chapter);
}

// ---- the file -----------------------------------------------------------------------------------

// "test 1a2b3c4d evidence"; false when the line is something else.
static bool parse_symptom(Symptom *symptom, char *line) {
    char *rest = line;
    char *test = strsep(&rest, " ");
    char *in_case = strsep(&rest, " ");

    if (rest == NULL) {
        return false;
    }
    *symptom = (Symptom){.test = test, .evidence = rest};
    symptom->in_case = (uint32_t)strtoul(in_case, NULL, 16);
    return true;
}

// The faults of one lab ("lab1"). None when the file is missing: a copy of the course may lack it.
static Faults read_faults(const char *chapter, const char *id) {
    char *path = wrong_answers_path(chapter);
    char *prefix = format_text("%s_", id);
    Faults faults = {.text = read_file(path, record_limit)};
    char *rest = faults.text;
    char *line;
    Fault *fault = NULL; // the one whose lines these are
    int line_of_block = 0;

    while ((line = strsep(&rest, "\n")) != NULL) {
        line_of_block = line[0] != '\0' ? line_of_block + 1 : 0;
        if (line_of_block == 1) {
            fault = NULL;
            if (strncmp(line, prefix, strlen(prefix)) == 0) {
                faults.fault = grown(faults.fault, faults.count, sizeof(Fault));
                fault = &faults.fault[faults.count++];
                *fault = (Fault){.cause = ""};
            }
        } else if (line_of_block == 2 && fault != NULL) {
            fault->cause = line;
        } else if (line_of_block > 2 && fault != NULL) {
            fault->symptoms = grown(fault->symptoms, fault->count, sizeof(Symptom));
            if (!parse_symptom(&fault->symptoms[fault->count++], line)) {
                die("%s: \"%.60s\" is not a test, a case and a message; `build/grade --record %s` "
                    "writes the file anew",
                    path, line, chapter);
            }
        }
    }
    free(prefix);
    free(path);
    return faults;
}

static void free_faults(Faults *faults) {
    for (size_t f = 0; f < faults->count; f++) {
        free(faults->fault[f].symptoms);
    }
    free(faults->fault);
    free(faults->text);
}

// ---- comparing ----------------------------------------------------------------------------------

static const Symptom *symptom_of(const Fault *fault, const char *test) {
    for (size_t s = 0; s < fault->count; s++) {
        if (strcmp(fault->symptoms[s].test, test) == 0) {
            return &fault->symptoms[s];
        }
    }
    return NULL;
}

static bool looks_the_same(const Fault *fault, const Symptom *seen) {
    const Symptom *known = symptom_of(fault, seen->test);

    return known != NULL && known->in_case == seen->in_case &&
           same_evidence(known->evidence, seen->evidence, seen->allowed);
}

// Compares a fault with everything that is known of the learner's lab.
static void weigh(Fault *fault, const LabResult *lab, const Symptom *seen, size_t failed) {
    for (size_t t = 0; t < lab->count; t++) {
        if (lab->tests[t].status == STATUS_PASS && symptom_of(fault, lab->tests[t].name) != NULL) {
            fault->contradicted = true;
        }
    }
    for (size_t i = 0; i < failed; i++) {
        fault->explained += symptom_of(fault, seen[i].test) != NULL ? 1 : 0;
        if (looks_the_same(fault, &seen[i])) {
            fault->matched++;
            fault->distinctive |= is_distinctive(seen[i].evidence);
        }
    }
}

// Whether the fault may be named as the cause of this failed test: it looks the same here and in
// every other failed test, or in half of them, with the same distinctive number here. The faults
// were recorded without a seed: with one, a test that fails otherwise may have other cases.
static bool is_likely(const Fault *fault, const Symptom *seen, size_t failed) {
    const size_t open = suite_seed != 0 ? fault->explained - fault->matched : 0;

    return !fault->contradicted && looks_the_same(fault, seen) &&
           (fault->matched == failed ||
            (2 * fault->matched >= failed - open && is_distinctive(seen->evidence)));
}

static bool is_better(const Fault *a, const Fault *b) {
    return a->matched != b->matched ? a->matched > b->matched : a->explained > b->explained;
}

// ---- the answer ---------------------------------------------------------------------------------

// The causes as one text, to be freed.
static char *in_words(const Fault *const *best, size_t count, bool by_values) {
    static const char *const numbers[] = {"", "a known fault", "two known faults",
                                          "three known faults"};
    Text text = {0};

    if (by_values) {
        text_format(&text, "These are the values of %s", numbers[count]);
    } else {
        text_format(&text, "It fails as %s %s", numbers[count], count == 1 ? "does" : "do");
    }
    if (count == 1) {
        text_format(&text, ": %s", best[0]->cause);
    }
    for (size_t i = 0; i < count && count > 1; i++) {
        text_format(&text, "%s: %s", i == 0 ? ". Either" : " Or", best[i]->cause);
    }
    return text.data;
}

// Sets the cause of one failed test, unless no fault looks like it, or too many do.
static void name_cause(TestResult *test, const Faults *faults, const Symptom *seen, size_t failed) {
    const Fault *best[MAX_CAUSES];
    size_t count = 0;

    for (size_t f = 0; f < faults->count; f++) {
        const Fault *fault = &faults->fault[f];
        bool repeated = false;

        if (!is_likely(fault, seen, failed) || (count > 0 && is_better(best[0], fault))) {
            continue;
        }
        if (count > 0 && is_better(fault, best[0])) {
            count = 0;
        }
        for (size_t i = 0; i < count && i < MAX_CAUSES; i++) {
            repeated |= strcmp(best[i]->cause, fault->cause) == 0;
        }
        if (!repeated) {
            if (count < MAX_CAUSES) {
                best[count] = fault;
            }
            count++;
        }
    }
    if (count > 0 && count <= MAX_CAUSES) {
        test->by_values = is_about_values(seen->evidence);
        for (size_t i = 0; i < count; i++) {
            test->by_values = test->by_values && best[i]->distinctive;
        }
        test->cause = in_words(best, count, test->by_values);
    }
}

static bool has_failed(const TestResult *test) {
    return test->status == STATUS_FAIL && test->message != NULL;
}

void name_causes(LabResult *lab, const char *chapter) {
    Symptom *seen = allocate(lab->count, sizeof(Symptom));
    size_t failed = 0;
    Faults faults;

    for (size_t t = 0; t < lab->count; t++) {
        const TestResult *test = &lab->tests[t];

        if (has_failed(test)) {
            Symptom *symptom = &seen[failed++];

            symptom->test = test->name;
            symptom->in_case = text_hash(test->in_case != NULL ? test->in_case : "");
            symptom->evidence = as_evidence(test->message, &symptom->allowed);
        }
    }
    faults = failed > 0 ? read_faults(chapter, lab->id) : (Faults){0};
    for (size_t f = 0; f < faults.count; f++) {
        weigh(&faults.fault[f], lab, seen, failed);
    }
    for (size_t t = 0, i = 0; t < lab->count; t++) {
        if (has_failed(&lab->tests[t])) {
            name_cause(&lab->tests[t], &faults, &seen[i], failed);
            free(seen[i++].evidence);
        }
    }
    free_faults(&faults);
    free(seen);
}
