// Lab 2: the merge undone: a part is taken out of the whole, as when a cache evicts old keys.
//
// The merge adds sums of exp(score), so taking a part out subtracts them. Subtraction can cancel:
// the less remains, the more of it is rounding error. The function therefore says by how much it
// multiplies the errors of what it is given, and refuses when that is too much.
#include "labs.h"

#include <math.h>

float unmerge_amplification(float lse_whole, float lse_part) {
    float amplification = INFINITY;
    // GAP 1: 1 / (1 - w); 1 for an empty part, even of an empty whole
    if (lse_part == -INFINITY) {
        amplification = 1.0f;
    } else if (lse_part < lse_whole) {
        amplification = -1.0f / expm1f(lse_part - lse_whole);
    }
    // END 1
    return amplification;
}

UnmergeStatus unmerge(int64_t dim, Attended *whole, const Attended *part, float limit) {
    // The number of keys alone tells that everything goes: two LSE of the same keys, computed in
    // different ways, differ in their last bits. An empty part may hold NaN in O.
    // GAP 2: what remains in *whole (keys, LSE and O), or the refusal
    if (part->keys == whole->keys) {
        whole->keys = 0;
        whole->lse = -INFINITY;
        for (int64_t c = 0; c < dim; c++) {
            whole->o[c] = 0.0f;
        }
    } else if (part->keys > 0) {
        const float amplification = unmerge_amplification(whole->lse, part->lse);
        if (!(amplification <= limit)) {
            return UNMERGE_REFUSED;
        }
        // (O - w O_p) / (1 - w), with w written as 1 - 1 / amplification
        for (int64_t c = 0; c < dim; c++) {
            whole->o[c] = part->o[c] + amplification * (whole->o[c] - part->o[c]);
        }
        whole->lse -= logf(amplification);
        whole->keys -= part->keys;
    }
    // END 2
    return UNMERGE_OK;
}
