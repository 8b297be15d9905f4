// Lab 2: the merge undone: a part is taken out of the whole, as when a cache evicts old keys.
//
// The merge adds sums of exp(score), so taking a part out subtracts them. Subtraction can cancel:
// the less remains, the more of it is rounding error. The function therefore says by how much it
// multiplies the errors of what it is given, and refuses when that is too much.
#include "labs.h"

#include <math.h>

float unmerge_amplification(float lse_whole, float lse_part) {
    float amplification = INFINITY;
    // TODO 1: 1 / (1 - w); 1 for an empty part, even of an empty whole
    // END 1
    return amplification;
}

UnmergeStatus unmerge(int64_t dim, Attended *whole, const Attended *part, float limit) {
    // The number of keys alone tells that everything goes: two LSE of the same keys, computed in
    // different ways, differ in their last bits. An empty part may hold NaN in O.
    // TODO 2: what remains in *whole (keys, LSE and O), or the refusal
    // END 2
    return UNMERGE_OK;
}
