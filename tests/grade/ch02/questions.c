// The numeric questions of chapter 2, answered by running what they ask about in float64.
#include "tests/grade/grade.h"

#include <float.h>
#include <math.h>

// The row of questions 1 to 5, in two blocks of two.
static const double scores[] = {0.5, 2.0, 2.5, 1.5};

typedef struct Step {
    double m, l, alpha;
} Step;

// The state after keys begin and begin + 1 have joined it.
static Step add_pair(Step state, int begin) {
    const double m = fmax(state.m, fmax(scores[begin], scores[begin + 1]));
    const double alpha = exp(state.m - m);
    const double sum = exp(scores[begin] - m) + exp(scores[begin + 1] - m);
    return (Step){m, alpha * state.l + sum, alpha};
}

static Step first_block(void) {
    return add_pair((Step){-INFINITY, 0.0, 0.0}, 0);
}

static Step both_blocks(void) {
    return add_pair(first_block(), 2);
}

static double second_alpha(void) {
    return both_blocks().alpha;
}

static double final_sum(void) {
    return both_blocks().l;
}

static double final_lse(void) {
    return both_blocks().m + log(both_blocks().l);
}

static double second_weight(void) {
    return exp(scores[1] - final_lse());
}

static double sum_not_rescaled(void) {
    const Step first = first_block(), both = both_blocks();
    return both.l - both.alpha * first.l + first.l;
}

// One division per output element and block: 100,000 keys in blocks of 48, dim 96.
static double divisions_each_block(void) {
    return ceil(100000.0 / 48.0) * 96.0;
}

// In random order the largest of the first b blocks is as likely in each of them, so that block b
// holds it with probability 1/b: 2048 keys in blocks of 32.
static double expected_corrections(void) {
    double sum = 0.0;
    for (int b = 2; b <= 2048 / 32; b++) {
        sum += 1.0 / (double)b;
    }
    return sum;
}

// 4096 exp(s) = FLT_MAX.
static double overflowing_score(void) {
    return log((double)FLT_MAX / 4096.0);
}

const GradeQuestion grade_questions[] = {
    {"q1", 1, second_alpha, 0.005, "", "alpha = exp(m before the block - m after it)."},
    {"q2", 1, final_sum, 0.005, "",
     "alpha times the first block's sum, plus exp(score - m) of the second block's scores."},
    {"q3", 1, final_lse, 0.002, "", "m + ln(l); ln(exp(0.5) + ...) gives the same."},
    {"q4", 1, second_weight, 0.005, "",
     "exp(score - lse), or exp(score - m) / l with the final m and l."},
    {"q5", 1, sum_not_rescaled, 0.005, "",
     "Both blocks' sums as they were computed, each against its own maximum, added."},
    {"q6", 1, divisions_each_block, 1e-6, "divisions",
     "The whole output row is divided once a block. The last, shorter block counts."},
    {"q7", 1, expected_corrections, 0.003, "blocks",
     "With what probability is block b's maximum the largest of the first b blocks'? Add that up "
     "over the blocks after the first."},
    {"q8", 1, overflowing_score, 0.002, "",
     "The largest float is 3.4028e38, and it is the sum of all 4096 exponentials that must stay "
     "below it."},
    {NULL, 0, NULL, 0.0, NULL, NULL},
};
