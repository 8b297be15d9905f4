// Lab 1: attention of one query row in one pass over its keys, with a sink in the denominator.
//
// The chapter's loop meets three new things: keys that are not visible, whole blocks of them
// included; a last block that may be shorter; and a sink, a logit that takes its share of the
// softmax and has no value. The scores of one block stand in row->scratch; a row of scores is never
// stored.
#include "labs.h"

#include <math.h>

void sink_attention(const KeyRow *row, float *o, float *lse) {
    const int64_t dim = row->dim;
    float m = -INFINITY; // the largest score so far
    float l = 0.0f;      // the sum of exp(score - m) so far
    for (int64_t c = 0; c < dim; c++) {
        o[c] = 0.0f; // the sum of exp(score - m) * v so far, divided once, at the end
    }

    for (int64_t begin = 0; begin < row->len; begin += row->block_k) {
        // The keys of this block are begin .. begin + count - 1. A key that is not visible has the
        // score -INFINITY, and so has the maximum of a block without a visible key.
        // TODO 1: count, the block's scores in row->scratch, and m_block, their maximum
        // END 1

        // While nothing has been seen m stays at -INFINITY. Then exp must not be given
        // -INFINITY - -INFINITY, which is NaN: guard its argument, and leave m as it is.
        // TODO 2: the new maximum; m, l and o corrected to it
        // END 2

        // The value of a key that is not visible may be NaN, and 0 * NaN is NaN: leave it out.
        // TODO 3: the block's visible keys added to l and o
        // END 3
    }

    // The sink is one more key, with the score row->sink and without a value. It may be larger than
    // every score, smaller, or -INFINITY. A row that has neither a key nor a sink keeps o = 0.
    // TODO 4: the sink joins m and l, o follows, and o is divided by l
    // END 4
    *lse = m + logf(l);
}
