// The numeric questions of chapter 3, answered by running what they ask about in float64.
#include "tests/grade/grade.h"

#include <math.h>

// The parts of questions 1 to 4: scores 0, 1 | 2, 0.5 | 1.5.
static double lse_of_pair(double a, double b) {
    return fmax(a, b) + log1p(exp(-fabs(a - b)));
}

static double lse_a(void) {
    return lse_of_pair(0.0, 1.0);
}

static double lse_b(void) {
    return lse_of_pair(2.0, 0.5);
}

static double lse_ab(void) {
    return lse_of_pair(lse_a(), lse_b());
}

static double weight_of_a(void) {
    return exp(lse_a() - lse_ab());
}

static double lse_abc(void) {
    return lse_of_pair(lse_ab(), 1.5);
}

static double weight_of_score_1(void) {
    return exp(1.0 - lse_a()) * exp(lse_a() - lse_ab()) * exp(lse_ab() - lse_abc());
}

// O = 6 with LSE 1 and O = 2 with LSE 3, merged with powers of 2.
static double mixed_bases(void) {
    return (6.0 * exp2(1.0) + 2.0 * exp2(3.0)) / (exp2(1.0) + exp2(3.0));
}

// A part of 99 % of a whole with LSE 12; a float of that size is rounded by half its spacing.
static double error_of_the_rest(void) {
    const double spacing = (double)(nextafterf(12.0f, 13.0f) - 12.0f);
    return 0.5 * spacing / (1.0 - 0.99);
}

// 100 keys over 64 splits.
static double empty_splits(void) {
    int empty = 0;
    for (int split = 0; split < 64; split++) {
        empty += split * ((100 + 63) / 64) >= 100 ? 1 : 0;
    }
    return (double)empty;
}

// 32 heads, 16 splits, 128 columns of O and one LSE, 4 bytes each.
static double partial_kib(void) {
    return 32.0 * 16.0 * (128.0 + 1.0) * 4.0 / 1024.0;
}

const GradeQuestion grade_questions[] = {
    {"q1", 1, lse_a, 0.002, "", "ln(exp(0) + exp(1))."},
    {"q2", 1, weight_of_a, 0.005, "",
     "exp(LSE of A - LSE of A and B): the share of A's sum of exp(score) in that of both."},
    {"q3", 1, lse_abc, 0.002, "", "In whatever order you merge, it is ln of the sum of all five."},
    {"q4", 1, weight_of_score_1, 0.005, "",
     "Its weight within A, times the weight of A within A and B, times that of A and B in all: "
     "the intermediate LSE cancel."},
    {"q5", 1, mixed_bases, 0.005, "",
     "Weights 2^1 and 2^3 over their sum, where e^1 and e^3 belong."},
    {"q6", 1, error_of_the_rest, 0.005, "",
     "How far apart are floats between 8 and 16? Half of that is what rounding may change; it is "
     "multiplied by 1 / (1 - w)."},
    {"q7", 1, empty_splits, 0.001, "splits",
     "Each split takes 100 / 64 keys, rounded up, as long as there are any."},
    {"q8", 1, partial_kib, 0.005, "KiB",
     "Heads times splits times (d + 1) floats: O and one LSE a part."},
    {NULL, 0, NULL, 0.0, NULL, NULL},
};
