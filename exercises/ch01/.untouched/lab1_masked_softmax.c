// Lab 1: the softmax of one row, of which any part may be hidden, with its log-sum-exp.
//
// The chapter's rows see a run of keys. Here each key has a flag, and what stands in a hidden key's
// place must not matter. The signature and its rules are in labs.h.
#include "labs.h"

#include <math.h>

// The largest score among the visible keys, -INFINITY when there is none. A visible NaN may be
// passed over here: the sum of the exponentials will still meet it.
static float visible_max(const float *scores, const bool *visible, int64_t len) {
    // TODO 1: look at the visible keys only, and start from the value that an empty row must keep.
    (void)scores, (void)visible, (void)len;
    return NAN;
    // END 1
}

float masked_softmax(const float *scores, const bool *visible, int64_t len, float *probs) {
    const float m = visible_max(scores, visible, len);
    float l = 0.0f; // the sum of the exponentials

    // TODO 2: write exp(scores[j] - m) to probs and add it to l; a hidden key gets exactly 0.
    // When m is -inf, scores[j] - m may be -inf - -inf, which is NaN: guard that, inside exp only.
    (void)probs;
    // END 2

    // TODO 3: divide by l, and return the LSE. In which rows is l zero, and what is right there?
    return m + l;
    // END 3
}
