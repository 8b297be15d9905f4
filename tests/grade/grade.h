// What a lab's suite is written with. A suite is one file, tests/grade/chNN/labK_name.c, linked
// with the learner's labK_name.c, the harness and common/. The grader runs every test in a process
// of its own, so a test may crash, hang or call exit without hurting another.
#ifndef TESTS_GRADE_GRADE_H
#define TESTS_GRADE_GRADE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- a lab's suite: coding labs -----------------------------------------------------------------

typedef struct GradeTest {
    const char *name; // one word, as mutants name it
    int points;
    bool gated;        // an error or empty case: counts only when the lab's first test passes
    void (*run)(void); // returns when the test passes; calls grade_fail otherwise
    const char *hint;  // the likely cause, one or two sentences, printed when the test fails; where
                       // it speaks of NaN, overflow or infinite values, the harness does not
    const char *timeout_hint; // the same when the test ran out of time; may be left out: the
                              // grader's own words
} GradeTest;

// Each suite defines these two; the table ends with an entry whose name is NULL. Its first entry is
// the lab's first positive test and is not gated. Order: from the smallest case to the largest.
extern const char grade_title[];
extern const GradeTest grade_tests[];

// A debugging lab's suite defines this one as true: its exercise has a fault and no gaps, the
// solution may differ from it anywhere, and the points are given for all tests or not at all.
extern const bool grade_debugging;

// Says which case is about to run (printf-style, one line); shown when the test fails or crashes.
void grade_case(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Fails the test with a message (printf-style; may have several lines) and ends its process.
_Noreturn void grade_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Fails the test with what was found at a line of the learner's kernel (printf-style). The grader
// then says to start there, in place of the test's hint.
_Noreturn void grade_found(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Ends the test as not run, for want of something that is not the learner's to provide
// (printf-style: what is missing). It earns nothing.
_Noreturn void grade_not_run(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Fails unless |got - want| <= tolerance, or both are the same infinity. NaN always fails.
// `what` names the value: "lse", "o[3]".
void expect_close(const char *what, double got, double want, double tolerance);

// The same for rows x columns values; the message gives the first failing row and column, got and
// expected there, and how many of all failed. `tolerance` is absolute.
void expect_array(const char *what, const float *got, const double *want, size_t rows,
                  size_t columns, double tolerance);

// Fails unless got == want.
void expect_int(const char *what, int64_t got, int64_t want);

// Whether a text, as an error's message, has this number in it as one of its own: 1 is not in "10",
// "-1", "1.5", "1x" or "len_1". A comma ends a number.
bool grade_has_number(const char *text, int64_t number);

// Memory filled with NaN (0xFF bytes), with guard words on both sides that are checked when the
// test returns (the sanitizer build also stops at the first access outside). Freed at exit.
void *grade_alloc(size_t bytes);
float *grade_floats(size_t count);

// Declares memory of grade_alloc an input as it stands now: the test fails when it holds something
// else at the next grade_case, at a failure or at the test's end. Called after an input was filled
// in and before the learner's function is; once more after a change by the suite. `name` is the
// input's (it must outlive the test), as in "your code changed its input `scores[0]`", with the
// index of the first element of `element` bytes that differs; element 0: no index.
void grade_freeze(const char *name, const void *memory, size_t element);

// A deterministic value for element `index` of stream `seed`: normal, mean 0, deviation 1. Another
// one for each student where assignment.txt says so: a test must hold for whatever values come.
float grade_normal(uint64_t seed, uint64_t index);

// What a suite's own generator starts from: `seed`, or another number for each student.
uint64_t grade_seed(uint64_t seed);

// ---- a chapter's numeric questions: tests/grade/chNN/questions.c --------------------------------

typedef struct GradeQuestion {
    const char *name; // as in answers.txt: "q1"
    int points;
    double (*expected)(void); // computed, from the formulas of common/model.h where there is one
    double tolerance;         // relative: 0.01 accepts 1 %
    const char *unit;         // the unit asked for, "" when it is a plain number
    const char *hint;
} GradeQuestion;

extern const GradeQuestion grade_questions[]; // ends with an entry whose name is NULL

#endif
