// Lab 2: attention of one query row whose scores are soft-capped.
//
// A score s becomes cap * tanh(s / cap): nearly s while it is small, never beyond +-cap. Three
// things happen to q.k before the softmax, and their order is the lab. The rules are in labs.h.
#include "labs.h"

#include <math.h>

float capped_attention_row(const CappedRow *row, const float *q, const float *k, const float *v,
                           float *probs, float *o) {
    float lse = NAN;

    // TODO 1: the score of every key, kept in probs: scaled, then capped, then masked (a hidden
    // key's score is -inf). Do not read the hidden rows of k. A cap of 0 leaves the score as it is.
    (void)row, (void)q, (void)k, (void)probs;
    // END 1

    // TODO 2: the softmax of the scores in probs, in place, and the LSE, as in lab 1; -inf is now
    // what tells a hidden key. A row that sees no key has probs 0 and LSE -inf.
    // END 2

    // TODO 3: o = the sum of probs[j] * v[j]. What is 0 * NaN?
    (void)v, (void)o;
    // END 3
    return lse;
}
