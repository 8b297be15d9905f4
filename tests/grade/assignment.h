// What an instructor sets for a chapter in tests/grade/chNN/assignment.txt: points, hidden tests,
// when it is due and what lateness costs, seeds. docs/grading.md has the lines of that file.
#ifndef TESTS_GRADE_ASSIGNMENT_H
#define TESTS_GRADE_ASSIGNMENT_H

#include "tests/grade/grader.h"

#include <stdint.h>

enum { POINT = 100 }; // worth and earned are in hundredths of a point

// A point in time, as a calendar and a clock show it.
typedef struct Moment {
    int64_t seconds; // since 1970-01-01 00:00 of that clock
    bool has_offset; // it is known how far the clock is from UTC
    int offset;      // seconds east of UTC
} Moment;

// What one test counts. There is one for each test of each lab that the file names.
typedef struct PlannedTest {
    char *lab; // "lab1", "questions"
    char *test;
    int worth; // hundredths of a point
    bool hidden;
} PlannedTest;

typedef struct Assignment {
    char *chapter;
    PlannedTest *tests;
    size_t count;
    char *due; // as written; NULL: no time is set
    Moment due_moment;
    int percent;    // taken off for each period that has begun; 0: lateness costs nothing
    int64_t period; // seconds
    int most;       // percent
    bool own_seeds; // random cases differ from student to student
} Assignment;

// ---- assignment_file.c --------------------------------------------------------------------------

// Reads the chapter's file. Ends the program with the line's number when there is a mistake in it.
// The suites must have been built: the file names labs and tests. Without a file nothing is set.
Assignment read_assignment(const char *chapter);

// What a line says about a test, or with no test about a lab.
typedef struct Setting {
    char *lab;
    char *test;
    int worth; // hundredths; -1: the line is about hiding
    int line;
} Setting;

typedef struct Settings {
    const char *path; // of the file
    Setting *setting;
    size_t count;
} Settings;

// Ends the program with "path:line: " and what is wrong (printf-style).
_Noreturn void setting_mistake(const char *path, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// ---- assignment_plan.c --------------------------------------------------------------------------

// Adds the tests of the labs that the settings name. Ends the program when a lab or a test does not
// exist, or when the points do not add up.
void plan_tests(Assignment *assignment, const Settings *settings);

// ---- assignment.c -------------------------------------------------------------------------------

// The chapter's assignment, read at the first call.
const Assignment *assignment_of(const char *chapter);

// Removes the hidden tests and sums up again; with options.hidden marks them.
void drop_hidden(const char *chapter, LabResult *lab);

// Sets what the chapter's tests are worth and what was earned, lateness included.
void assign_chapter(ChapterResult *chapter);

// Shares `worth` hundredths among tests in proportion to their points: each gets the whole
// hundredths of its share, and those left over go to the largest remainders, the first of equals
// first. The shares add up to `worth`. The points must not all be 0.
void share_points(int worth, const int *points, int *shares, size_t count);

// The seed of a chapter's random cases: that of options.seed when the file gives each student their
// own, otherwise 0, the fixed cases. suite_seed is what the suites that run get.
uint64_t chapter_seed(const char *chapter);
extern uint64_t suite_seed;

uint64_t hash_seed(const char *text); // never 0

// "2 hidden tests are graded by your instructor". Valid until the next call.
const char *show_hidden(const LabResult *lab);

// A number of hundredths as text: "1.25", "1.5", "2". Valid until the fourth call after this one.
const char *show_points(int hundredths);

// ---- deadline.c ---------------------------------------------------------------------------------

// Reads "2027-03-01 23:59". A T may stand in place of the blank; seconds, with fractions, and an
// offset from UTC ("Z", "-08:00") may follow. False when the text is something else.
bool parse_moment(const char *text, Moment *moment);

// What of `earned` is left when the work was handed in at options.submitted. Sets the chapter's
// due, percent, lateness and final.
void apply_lateness(const Assignment *assignment, ChapterResult *chapter);

#endif
