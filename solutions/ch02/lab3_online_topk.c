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
        // GAP 1: m and l corrected, and the block's scores added to l
        float m_new = m;
        for (int64_t j = 0; j < count; j++) {
            m_new = fmaxf(m_new, scores[j]);
        }
        const float base = m_new == -INFINITY ? 0.0f : m_new;
        l *= expf(m - base);
        for (int64_t j = 0; j < count; j++) {
            l += expf(scores[j] - base);
        }
        m = m_new;
        // END 1

        // The list is sorted, largest score first. The position of scores[j] in the row is
        // seen + j. A score equal to one in the list comes later in the row: it goes behind it.
        // GAP 2: the block's scores sorted into index and prob
        for (int64_t j = 0; j < count; j++) {
            int64_t place = k; // the first entry smaller than scores[j]
            while (place > 0 && scores[j] > prob[place - 1]) {
                place--;
            }
            for (int64_t i = k - 1; i > place; i--) {
                prob[i] = prob[i - 1];
                index[i] = index[i - 1];
            }
            if (place < k) {
                prob[place] = scores[j];
                index[place] = seen + j;
            }
        }
        // END 2
        seen += count;
    }

    // An entry that was never filled has the probability 0. Where scores are large, lse has lost
    // digits that m and l still have.
    // GAP 3: the scores in prob turned into probabilities
    for (int64_t i = 0; i < k; i++) {
        prob[i] = index[i] < 0 ? 0.0f : expf(prob[i] - m) / l;
    }
    // END 3
    *lse = m + logf(l);
    return seen;
}
