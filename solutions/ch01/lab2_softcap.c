// Lab 2: attention of one query row whose scores are soft-capped.
//
// A score s becomes cap * tanh(s / cap): nearly s while it is small, never beyond +-cap. Three
// things happen to q.k before the softmax, and their order is the lab. The rules are in labs.h.
#include "labs.h"

#include <math.h>

float capped_attention_row(const CappedRow *row, const float *q, const float *k, const float *v,
                           float *probs, float *o) {
    float lse = NAN;

    // GAP 1: the score of every key, kept in probs: scaled, then capped, then masked (a hidden
    // key's score is -inf). Do not read the hidden rows of k. A cap of 0 leaves the score as it is.
    for (int64_t j = 0; j < row->len; j++) {
        probs[j] = -INFINITY;
        if (j < row->visible.begin || j >= row->visible.end) {
            continue;
        }
        float dot = 0.0f;
        for (int64_t c = 0; c < row->dim; c++) {
            dot += q[c] * k[j * row->dim + c];
        }
        const float score = row->scale * dot;
        probs[j] = row->cap > 0.0f ? row->cap * tanhf(score / row->cap) : score;
    }
    // END 1

    // GAP 2: the softmax of the scores in probs, in place, and the LSE, as in lab 1; -inf is now
    // what tells a hidden key. A row that sees no key has probs 0 and LSE -inf.
    float m = -INFINITY;
    for (int64_t j = 0; j < row->len; j++) {
        m = probs[j] > m ? probs[j] : m;
    }
    const float shift = m == -INFINITY ? 0.0f : m;
    float l = 0.0f;
    for (int64_t j = 0; j < row->len; j++) {
        probs[j] = expf(probs[j] - shift);
        l += probs[j];
    }
    for (int64_t j = row->visible.begin; j < row->visible.end && l != 0.0f; j++) {
        probs[j] /= l; // a hidden key keeps its 0, also when l is NaN
    }
    lse = l == 0.0f ? -INFINITY : m + logf(l);
    // END 2

    // GAP 3: o = the sum of probs[j] * v[j]. What is 0 * NaN?
    for (int64_t c = 0; c < row->dim; c++) {
        o[c] = 0.0f;
    }
    for (int64_t j = row->visible.begin; j < row->visible.end; j++) {
        for (int64_t c = 0; c < row->dim; c++) {
            o[c] += probs[j] * v[j * row->dim + c];
        }
    }
    // END 3
    return lse;
}
