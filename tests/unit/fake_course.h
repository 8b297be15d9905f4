// A small course in a temporary folder, for tests of the grader: chapter 77 with one lab and two
// questions, to be graded by the real program.
#ifndef TESTS_UNIT_FAKE_COURSE_H
#define TESTS_UNIT_FAKE_COURSE_H

#include "tests/unit/capture.h"

// The lab: lab_add(a, b) and lab_fill(out, count), which writes 0, 1, 2, ... Its tests are `adds`
// (1 point, the gate), `fills` (2) and `nothing` (1, gated: lab_fill of 0 values).
// The questions: q1 = 512 MiB, q2 = 3, one point each.

// Fixtures: makes the folder and enters it; leaves and removes it.
void course_enter(void);
void course_leave(void);

// Writes a file of the course, folders included.
void course_put(const char *path, const char *text);

// Writes from/ch77/lab1_sum.c with these two bodies; NULL stands for the right one.
void course_put_lab(const char *from, const char *add_body, const char *fill_body);

// The grader's path, for a test that starts it by itself.
const char *course_grader(void);

// Runs the grader with the words of the line, parted by single blanks.
Captured course_grade(const char *words);

// The same, failing unless the exit status is this one. Returns stdout, to be freed.
char *grade_status(const char *words, int status);

// The same for a mistake: status 2, nothing on stdout, `piece` on stderr.
void grade_error(const char *words, const char *piece);

// Fails unless the text contains the piece, or if it does.
void has(const char *text, const char *piece);
void lacks(const char *text, const char *piece);

#endif
