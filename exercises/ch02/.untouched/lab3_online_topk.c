// Lab 3: the k largest scores of a row and their softmax probabilities, in one pass.
//
// This is how a sampler reads the logits of a vocabulary: once. The running maximum and sum are
// the chapter's; beside them a short sorted list keeps the k best scores. A probability needs the
// sum over the whole row, so the list holds scores until the row is over.
#include "labs.h"

#include <math.h>
#include <stddef.h>

int64_t online_topk(const ScoreStream *stream, int64_t k, int64_t *index, float *prob, float *lse) {
    float m = -INFINITY; // the largest score so far
    float l = 0.0f;      // the sum of exp(score - m) so far
    for (int64_t i = 0; i < k; i++) {
        index[i] = -1;       // no entry yet
        prob[i] = -INFINITY; // during the pass: the entry's score
    }

    int64_t seen = 0; // scores delivered before this block
    const float *scores = NULL;
    int64_t count = 0;
    while ((count = stream->next(stream->context, &scores)) > 0) {
        // A score of -INFINITY adds nothing; a block of nothing else leaves m and l as they are.
        // TODO 1: m and l corrected, and the block's scores added to l
        // END 1

        // The list is sorted, largest score first. The position of scores[j] in the row is
        // seen + j. A score equal to one in the list comes later in the row: it goes behind it.
        // TODO 2: the block's scores sorted into index and prob
        // END 2
        seen += count;
    }

    // An entry that was never filled has the probability 0. Where scores are large, lse has lost
    // digits that m and l still have.
    // TODO 3: the scores in prob turned into probabilities
    // END 3
    *lse = m + logf(l);
    return seen;
}
