// What recognise.c, record.c and the tests know of a failure's message as evidence.
#ifndef TESTS_GRADE_RECOGNISE_H
#define TESTS_GRADE_RECOGNISE_H

#include "tests/grade/grader.h"

#include <stdint.h>

// ---- evidence.c ---------------------------------------------------------------------------------

// 32 bits of a text: a case stands so in wrong_answers.txt.
uint32_t text_hash(const char *text);

// The message in one line, to be freed. Places in the learner's file, threads, blocks, lanes and
// offsets are taken out; of a value and its expected value their difference remains. *allowed is
// the tolerance that the message names, 0 when it names none.
char *as_evidence(const char *message, double *allowed);

// Whether two of these are the same: the text exactly, differences within 1 % and a quarter of
// `allowed`, other numbers with a fraction within 0.1 %, whole numbers exactly.
bool same_evidence(const char *a, const char *b, double allowed);

// Whether it is about a result: a number that was got, NaN and infinite ones included.
bool is_about_values(const char *evidence);

// Whether it has a number that another fault hardly gives: three significant digits or more.
bool is_distinctive(const char *evidence);

// ---- recognise.c --------------------------------------------------------------------------------

// Where a chapter's known wrong answers are recorded, to be freed.
char *wrong_answers_path(const char *chapter);

#endif
