// The harness: linked with one lab's suite and the learner's file (or with a chapter's questions).
// It runs one test and reports to the grader over a pipe of its own, so that nothing the learner's
// code prints can be taken for a result. Run by hand, without the grader, it prints instead.
//
//   suite --list        the title and the table of tests
//   suite --run NAME    one test
//   suite --questions   the table of questions with the expected answers
#include "tests/grade/grade.h"
#include "tests/grade/protocol.h"

#include <ctype.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A suite has no questions, and a chapter's questions have no tests.
#pragma weak grade_title
#pragma weak grade_tests
#pragma weak grade_debugging
#pragma weak grade_questions

enum { GUARD_BYTES = 256, LINE_BYTES = MAX_PAYLOAD, MAX_ALLOCATIONS = 4096 };

static char nonce[NONCE_BYTES];
static bool has_grader;       // a nonce came, so the record pipe is there
static uint64_t student_seed; // of random cases, 0: the fixed ones
static pid_t test_process;
static const GradeTest *running; // NULL before the test's start

typedef struct Allocation {
    unsigned char *block; // guard, data, guard
    size_t bytes;         // of the data
    unsigned char *copy;  // of an input's data when it was frozen, NULL otherwise
    const char *name;     // of an input
    size_t element;       // bytes of one element of an input, 0: it is one thing
} Allocation;

static Allocation allocations[MAX_ALLOCATIONS];
static size_t allocation_count;

static void check_inputs(void);

// ---- reporting ----------------------------------------------------------------------------------

static void write_all(const char *data, size_t size) {
    while (size > 0) {
        ssize_t written = write(RECORD_FD, data, size);
        if (written <= 0) {
            _exit(EXIT_NO_CHANNEL);
        }
        data += written;
        size -= (size_t)written;
    }
}

// Without the grader: for a reader.
static void print_record(char type, const char *payload, int length) {
    const bool failure = type == RECORD_FAIL || type == RECORD_DAMAGE || type == RECORD_FOUND;

    if (type != RECORD_PASS) {
        fprintf(stderr, "%s%.*s\n",
                type == RECORD_CASE   ? "case: "
                : type == RECORD_SKIP ? "not run: "
                : failure             ? "FAILED: "
                                      : "",
                length, payload);
    }
}

// One record: type, length, payload. A process that the learner's code forked reports nothing.
static void record(char type, const char *payload, size_t size) {
    char frame[FRAME_HEADER + LINE_BYTES];
    uint32_t length = (uint32_t)(size < LINE_BYTES ? size : LINE_BYTES);

    if (getpid() != test_process) {
        return;
    }
    if (!has_grader) {
        print_record(type, payload, (int)length);
        return;
    }
    frame[0] = type;
    memcpy(frame + 1, &length, sizeof(length));
    memcpy(frame + FRAME_HEADER, payload, length);
    write_all(frame, FRAME_HEADER + length);
}

static void record_text(char type, const char *text) {
    record(type, text, strlen(text));
}

// Takes the seed and the nonce before main, and before any constructor of the learner's file.
__attribute__((constructor(101))) static void take_nonce(void) {
    struct pollfd ready = {NONCE_FD, POLLIN, 0};
    size_t have = 0;
    const char *seed = getenv(SEED_VARIABLE);

    student_seed = seed != NULL ? strtoull(seed, NULL, 16) : 0;
    test_process = getpid();
    if (poll(&ready, 1, 0) != 1 || (ready.revents & POLLIN) == 0) {
        return; // run by hand
    }
    while (have < sizeof(nonce)) {
        ssize_t got = read(NONCE_FD, nonce + have, sizeof(nonce) - have);
        if (got <= 0) {
            return;
        }
        have += (size_t)got;
    }
    close(NONCE_FD);
    has_grader = true;
}

void grade_case(const char *format, ...) {
    char line[512];
    va_list args;

    check_inputs(); // while the case before is the one that the report names
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    record_text(RECORD_CASE, line);
}

// Ends the test's process as failed.
static _Noreturn void end_failed(char type, const char *message) {
    fflush(NULL);
    record_text(type, message);
    _exit(EXIT_TEST_FAILED);
}

static const char *formatted(const char *format, va_list args) {
    static char message[LINE_BYTES];

    vsnprintf(message, sizeof(message), format, args);
    return message;
}

void grade_fail(const char *format, ...) {
    const char *message;
    va_list args;

    check_inputs(); // an input that was changed is the cause, a wrong result the symptom
    va_start(args, format);
    message = formatted(format, args);
    va_end(args);
    end_failed(RECORD_FAIL, message);
}

void grade_found(const char *format, ...) {
    const char *message;
    va_list args;

    va_start(args, format);
    message = formatted(format, args);
    va_end(args);
    end_failed(RECORD_FOUND, message);
}

void grade_not_run(const char *format, ...) {
    const char *message;
    va_list args;

    va_start(args, format);
    message = formatted(format, args);
    va_end(args);
    end_failed(RECORD_SKIP, message);
}

// ---- expectations -------------------------------------------------------------------------------

static bool is_close(double got, double want, double tolerance) {
    return (isinf(want) && got == want) || (isfinite(want) && fabs(got - want) <= tolerance);
}

// "got 1, expected 2 (off by 1, allowed 0.001)", without the difference where it says nothing.
static void describe(char *text, size_t size, double got, double want, double tolerance) {
    if (isfinite(got) && isfinite(want)) {
        snprintf(text, size, "got %.9g, expected %.9g (off by %.3g, allowed %.3g)", got, want,
                 fabs(got - want), tolerance);
    } else {
        snprintf(text, size, "got %.9g, expected %.9g", isnan(got) ? NAN : got, want);
    }
}

// Whether the running test's hint is about how a NaN is computed: then memory that was never
// written is not the likely cause, and a line about it would stand before the right one.
static bool hint_explains_nan(void) {
    const char *const words[] = {"NaN", "overflow", "infinite"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (running != NULL && running->hint != NULL && strstr(running->hint, words[i]) != NULL) {
            return true;
        }
    }
    return false;
}

// A line for a NaN where a number is expected; empty for anything else.
static const char *nan_note(double got, double want) {
    return isnan(got) && !isnan(want) && !hint_explains_nan()
               ? "\nNaN is often memory that was never written, or added to before it was set to 0"
               : "";
}

void expect_close(const char *what, double got, double want, double tolerance) {
    char text[160];

    if (!is_close(got, want, tolerance)) {
        describe(text, sizeof(text), got, want, tolerance);
        grade_fail("%s: %s%s", what, text, nan_note(got, want));
    }
}

void expect_array(const char *what, const float *got, const double *want, size_t rows,
                  size_t columns, double tolerance) {
    char text[160];
    size_t failed = 0;
    size_t first = 0;
    size_t unwritten = 0;

    for (size_t i = 0; i < rows * columns; i++) {
        if (!is_close((double)got[i], want[i], tolerance)) {
            first = failed == 0 ? i : first;
            failed++;
            unwritten += isnan(got[i]) ? 1 : 0;
        }
    }
    if (failed == 0) {
        return;
    }
    describe(text, sizeof(text), (double)got[first], want[first], tolerance);
    grade_fail("%s[row %zu][column %zu]: %s\n%zu of %zu values are wrong%s%s", what,
               first / columns, first % columns, text, failed, rows * columns,
               unwritten == rows * columns ? "; all are NaN" : "",
               nan_note((double)got[first], want[first]));
}

void expect_int(const char *what, int64_t got, int64_t want) {
    if (got != want) {
        grade_fail("%s: got %lld, expected %lld", what, (long long)got, (long long)want);
    }
}

static bool is_digit(char c) {
    return isdigit((unsigned char)c) != 0;
}

static bool is_of_word(char c) {
    return isalnum((unsigned char)c) != 0 || c == '_';
}

// Whether a number begins at `at`, where nothing before belongs to it: no letter or digit, no sign
// and no decimal point. In the ranges 0-14 and 0..14 the 14 does begin.
static bool number_begins(const char *text, const char *at) {
    const char before = at > text ? at[-1] : ' ';
    const char earlier = at > text + 1 ? at[-2] : ' ';

    if (before == '-') {
        return is_digit(earlier);
    }
    return before == '.' ? earlier == '.' : !is_of_word(before);
}

bool grade_has_number(const char *text, int64_t number) {
    char digits[24];
    const int length = snprintf(digits, sizeof(digits), "%lld", (long long)number);

    for (const char *at = strstr(text, digits); at != NULL; at = strstr(at + 1, digits)) {
        const char *after = at + length;

        if (number_begins(text, at) && !is_of_word(*after) &&
            !(*after == '.' && is_digit(after[1]))) {
            return true;
        }
    }
    return false;
}

// ---- memory -------------------------------------------------------------------------------------

// Under AddressSanitizer the block is exactly the data: its own red zones stop an access outside at
// once. Without it, the guard bytes on each side are compared when the test returns.
#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#ifdef HAS_ASAN
static const size_t guard = 0;
#else
static const size_t guard = GUARD_BYTES;
#endif

void *grade_alloc(size_t bytes) {
    unsigned char *block;

    if (allocation_count == MAX_ALLOCATIONS || bytes > SIZE_MAX - 2 * GUARD_BYTES) {
        grade_fail("the suite asked for too much memory");
    }
    block = malloc(bytes + 2 * guard);
    if (block != NULL) {
        memset(block, 0xFF, bytes + 2 * guard);
        allocations[allocation_count++] = (Allocation){.block = block, .bytes = bytes};
        return block + guard;
    }
    grade_fail("out of memory: %zu bytes for the test", bytes);
}

float *grade_floats(size_t count) {
    if (count > SIZE_MAX / sizeof(float)) {
        grade_fail("the suite asked for too much memory");
    }
    return grade_alloc(count * sizeof(float));
}

void grade_freeze(const char *name, const void *memory, size_t element) {
    for (size_t a = allocation_count; a-- > 0;) {
        Allocation *input = &allocations[a];

        if (input->block + guard != memory) {
            continue;
        }
        free(input->copy);
        input->copy = malloc(input->bytes + 1);
        if (input->copy == NULL) {
            grade_fail("out of memory: %zu bytes for the test", input->bytes);
        }
        memcpy(input->copy, memory, input->bytes);
        input->name = name;
        input->element = element;
        return;
    }
    grade_fail("the suite froze memory that grade_alloc did not give");
}

static void check_inputs(void) {
    char message[160];

    for (size_t a = 0; a < allocation_count; a++) {
        const Allocation *input = &allocations[a];
        const unsigned char *data = input->block + guard;
        size_t at = 0;

        if (input->copy == NULL || memcmp(input->copy, data, input->bytes) == 0) {
            continue;
        }
        while (input->copy[at] == data[at]) {
            at++;
        }
        if (input->element > 0) {
            snprintf(message, sizeof(message), "your code changed its input `%s[%zu]`", input->name,
                     at / input->element);
        } else {
            snprintf(message, sizeof(message), "your code changed its input `%s`", input->name);
        }
        end_failed(RECORD_DAMAGE, message);
    }
}

static void check_guards(void) {
    char message[160];

    for (size_t a = 0; a < allocation_count; a++) {
        const unsigned char *before = allocations[a].block;
        const unsigned char *after = before + guard + allocations[a].bytes;

        for (size_t i = 0; i < guard; i++) {
            if (before[guard - 1 - i] != 0xFF) {
                snprintf(message, sizeof(message),
                         "a write %zu bytes before the start of an array of %zu bytes", i + 1,
                         allocations[a].bytes);
                end_failed(RECORD_DAMAGE, message);
            }
            if (after[i] != 0xFF) {
                snprintf(message, sizeof(message),
                         "a write %zu bytes past the end of an array of %zu bytes", i,
                         allocations[a].bytes);
                end_failed(RECORD_DAMAGE, message);
            }
        }
    }
}

// SplitMix64's output function (Steele, Lea, Flood 2014).
static uint64_t mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
}

uint64_t grade_seed(uint64_t seed) {
    return student_seed == 0 ? seed : mix(seed + student_seed);
}

// Box and Muller's transform of two uniform values in (0, 1).
float grade_normal(uint64_t seed, uint64_t index) {
    uint64_t key = mix(mix(seed + student_seed) + index);
    double u = ((double)(key >> 11) + 0.5) * 0x1p-53;
    double v = ((double)(mix(key) >> 11) + 0.5) * 0x1p-53;

    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
}

// ---- the program --------------------------------------------------------------------------------

static int list_tests(void) {
    char line[LINE_BYTES];

    if (grade_tests == NULL || grade_title == NULL) {
        return EXIT_USAGE;
    }
    record_text(RECORD_TITLE, grade_title);
    if (&grade_debugging != NULL && grade_debugging) {
        record_text(RECORD_DEBUG, "");
    }
    for (const GradeTest *t = grade_tests; t->name != NULL; t++) {
        snprintf(line, sizeof(line), "%s\t%d\t%d\t%s\t%s", t->name, t->points, t->gated ? 1 : 0,
                 t->hint != NULL ? t->hint : "", t->timeout_hint != NULL ? t->timeout_hint : "");
        record_text(RECORD_ENTRY, line);
    }
    return 0;
}

static int list_questions(void) {
    char line[LINE_BYTES];

    if (grade_questions == NULL) {
        return EXIT_USAGE;
    }
    for (const GradeQuestion *q = grade_questions; q->name != NULL; q++) {
        snprintf(line, sizeof(line), "%s\t%d\t%.17g\t%.17g\t%s\t%s", q->name, q->points,
                 q->expected(), q->tolerance, q->unit, q->hint != NULL ? q->hint : "");
        record_text(RECORD_ENTRY, line);
    }
    return 0;
}

static int run_test(const char *name) {
    if (grade_tests == NULL) {
        return EXIT_USAGE;
    }
    for (const GradeTest *t = grade_tests; t->name != NULL; t++) {
        if (strcmp(t->name, name) == 0) {
            running = t;
            t->run();
            check_inputs();
            check_guards();
            fflush(NULL);
            record(RECORD_PASS, nonce, sizeof(nonce));
            if (!has_grader) {
                fprintf(stderr, "passed\n");
            }
            _exit(getpid() == test_process ? 0 : EXIT_TEST_FAILED);
        }
    }
    return EXIT_USAGE;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        return list_tests();
    }
    if (argc == 2 && strcmp(argv[1], "--questions") == 0) {
        return list_questions();
    }
    if (argc == 3 && strcmp(argv[1], "--run") == 0) {
        return run_test(argv[2]);
    }
    fprintf(stderr, "usage: %s --list | --run NAME | --questions\n", argv[0]);
    return EXIT_USAGE;
}
