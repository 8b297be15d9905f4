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
    // TODO 1: the weights of the two parts; o_a and *lse_a of both together
    // END 1
}

void merge_level(int64_t parts, int64_t dim, int64_t stride, float *o, float *lse) {
    // TODO 2: every merge of this level
    // END 2
}

void merge_tree(int64_t parts, int64_t dim, float *o, float *lse) {
    // TODO 3: the levels; and O of an empty part 0 that no merge has touched
    // END 3
}
