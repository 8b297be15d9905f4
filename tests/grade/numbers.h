// Numbers as learners write them, and by what a wrong one is off: of the questions of a chapter and
// of the drill.
#ifndef TESTS_GRADE_NUMBERS_H
#define TESTS_GRADE_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>

// Reads "-1.05e6" or "1,048,576" from the start of a text. Returns what follows, or NULL when there
// is no number. Commas are accepted only where thousands are separated.
const char *read_number(const char *text, double *value);

// Within this share of `want`.
bool is_near(double got, double want, double share);

typedef struct Factor {
    double value;
    const char *name;
} Factor;

enum { USUAL_FACTORS = 10, BYTE_FACTORS = 4 };

// Factors by which an answer is often off; and those of bits, and between decimal and binary
// prefixes, to be looked at first where bytes are asked for.
extern const Factor usual_factors[USUAL_FACTORS], byte_factors[BYTE_FACTORS];

// The first of the factors by which `got` is off, within this share; *large says that it is too
// large. NULL when none of them is it.
const Factor *find_factor(const Factor *table, size_t count, double got, double want, double share,
                          bool *large);

#endif
