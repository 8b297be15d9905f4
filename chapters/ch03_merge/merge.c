// Any number of partial results of a row, merged at once.
#include "chapters/ch03_merge/merge.h"

void merge_many(int64_t parts, int64_t dim, const float *o_parts, const float *lse_parts, float *o,
                float *lse) {
    float m = -INFINITY;
    for (int64_t p = 0; p < parts; p++) {
        m = lse_parts[p] > m ? lse_parts[p] : m;
    }
    float sum = 0.0F; // at least 1 when some part has keys: the one with the largest LSE weighs 1
    for (int64_t c = 0; c < dim; c++) {
        o[c] = 0.0F;
    }
    for (int64_t p = 0; p < parts; p++) {
        if (lse_parts[p] == -INFINITY) {
            continue; // left out, not multiplied by 0: its output may hold anything
        }
        const float weight = expf(lse_parts[p] - m);
        sum += weight;
        for (int64_t c = 0; c < dim; c++) {
            o[c] += weight * o_parts[p * dim + c];
        }
    }
    for (int64_t c = 0; c < dim && sum != 0.0F; c++) {
        o[c] /= sum;
    }
    *lse = m + logf(sum);
}
