// Lab 3: one query over keys that come in chunks: a partial result a chunk, then one merge of all.
//
// This is how decoding is spread over many workers, and how a cache of several pieces is read. The
// chunks may have any lengths. When they are made by dividing, some may have no keys at all; the
// worker of such a chunk writes an LSE and nothing else.
#include "labs.h"

#include <math.h>

void attend_keys(int64_t count, int64_t dim, const float *q, const float *k, const float *v,
                 float scale, float *o, float *lse) {
    float m = -INFINITY; // the largest score so far
    float l = 0.0f;      // the sum of exp(score - m) so far
    *lse = -INFINITY;
    if (count == 0) {
        return;
    }
    for (int64_t c = 0; c < dim; c++) {
        o[c] = 0.0f; // the sum of exp(score - m) * v so far
    }
    for (int64_t j = 0; j < count; j++) {
        float score = 0.0f;
        for (int64_t c = 0; c < dim; c++) {
            score += q[c] * k[j * dim + c];
        }
        score *= scale;
        const float m_new = fmaxf(m, score);
        const float alpha = expf(m - m_new), p = expf(score - m_new);
        m = m_new;
        l = l * alpha + p;
        for (int64_t c = 0; c < dim; c++) {
            o[c] = o[c] * alpha + p * v[j * dim + c];
        }
    }
    for (int64_t c = 0; c < dim; c++) {
        o[c] /= l;
    }
    *lse = m + logf(l);
}

KeyRange chunk_range(int64_t len, int64_t chunks, int64_t index) {
    KeyRange range = {0, 0};
    // Rounded up, chunks * size may exceed len: 5 keys over 4 chunks are 2, 2, 1 and none.
    // TODO 1: begin and end
    // END 1
    return range;
}

void decode_chunks(const DecodeRow *row, int64_t chunks, const int64_t *boundaries, float *part_o,
                   float *part_lse, float *o, float *lse) {
    for (int64_t i = 0; i < chunks; i++) { // on a GPU, a block of threads each
        // TODO 2: the partial of chunk i, by attend_keys
        // END 2
    }
    // With the largest LSE taken off, the weight of a part is exp(LSE - m), and they are divided by
    // their sum. The same three traps as in lab 1: no key at all, an O never written, NaN.
    // TODO 3: o and *lse, all parts at once
    // END 3
}
