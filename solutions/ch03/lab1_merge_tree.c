// Lab 1: any number of parts merged in place, pairwise, as a tree.
//
// Part i + stride joins part i, and the stride doubles. The merges of one level touch different
// parts, so that as many workers can do them at the same time, and log2(parts) levels are enough.
// The number of parts is whatever it is, and some of them may be empty.
#include "labs.h"

#include <math.h>

void merge_pair(int64_t dim, float *o_a, float *lse_a, const float *o_b, float lse_b) {
    // Subtract the larger LSE before exp, but never -INFINITY from -INFINITY, which is NaN. Leave
    // out the O of an empty part: a weight of 0 does not remove what it holds, 0 * NaN is NaN.
    // GAP 1: the weights of the two parts; o_a and *lse_a of both together
    const float m = fmaxf(*lse_a, lse_b);
    const float base = m == -INFINITY ? 0.0f : m;
    const float p_a = expf(*lse_a - base), p_b = expf(lse_b - base);
    const float sum = p_a + p_b;
    for (int64_t c = 0; c < dim; c++) {
        const float from_a = *lse_a == -INFINITY ? 0.0f : p_a / sum * o_a[c];
        const float from_b = lse_b == -INFINITY ? 0.0f : p_b / sum * o_b[c];
        o_a[c] = from_a + from_b;
    }
    *lse_a = m + logf(sum);
    // END 1
}

void merge_level(int64_t parts, int64_t dim, int64_t stride, float *o, float *lse) {
    // GAP 2: every merge of this level
    for (int64_t i = 0; i + stride < parts; i += 2 * stride) {
        const int64_t partner = i + stride;
        merge_pair(dim, o + i * dim, lse + i, o + partner * dim, lse[partner]);
    }
    // END 2
}

void merge_tree(int64_t parts, int64_t dim, float *o, float *lse) {
    // GAP 3: the levels; and O of an empty part 0 that no merge has touched
    for (int64_t stride = 1; stride < parts; stride *= 2) {
        merge_level(parts, dim, stride, o, lse);
    }
    if (lse[0] == -INFINITY) {
        for (int64_t c = 0; c < dim; c++) {
            o[c] = 0.0f;
        }
    }
    // END 3
}
