// Comparing a kernel's output with the oracle. The bound is derived in docs/numerics.md.
#ifndef COMMON_COMPARE_H
#define COMMON_COMPARE_H

#include "common/tensor.h"

#ifdef __FAST_MATH__
#error "the checker must not be compiled with -ffast-math: it would not see NaN"
#endif

#ifdef __cplusplus
extern "C" {
#endif

// The right answer of one problem, and how far each element may be from it.
typedef struct Expected {
    AttnShape shape;
    double *o;         // [batch][heads_q][len_q][dim]
    double *lse;       // [batch][heads_q][len_q]
    double *o_bound;   // like o: largest allowed |got - expected|
    double *lse_bound; // like lse
} Expected;

// Runs the oracle on Q, K, V (any storage type) and derives the bounds for a kernel that stores its
// output as `dtype`: analytic for f32; for f16 and bf16 twice the error of a plain implementation
// in the same precision plus one rounding unit of the output. Errors: those of reference_forward.
// Free with expected_free.
AttnStatus expected_make(Expected *expected, const AttnShape *shape, const Tensor *q,
                         const Tensor *k, const Tensor *v, DType dtype);

// The same with a mask of any pattern on top of the shape's own: visible [len_q][len_kv], see
// reference_forward_masked.
AttnStatus expected_make_masked(Expected *expected, const AttnShape *shape, const uint8_t *visible,
                                const Tensor *q, const Tensor *k, const Tensor *v, DType dtype);
void expected_free(Expected *expected);

// The result of one comparison.
typedef struct Comparison {
    size_t checked;     // elements compared
    size_t failed;      // elements outside their bound
    double max_error;   // largest |got - expected| (NaN counts as infinite)
    double worst_ratio; // largest error / bound: at most 1 when everything passed
    char message[512];  // empty, or the first failure: where, got, expected, bound, tile, how many
} Comparison;

// Compares every element, NaN-safely: fails unless |got - expected| <= bound, or both are the same
// infinity. NaN in got *or* expected fails. `name` is "O" or "LSE"; got is [b][h][t][d] or
// [b][h][t]; block_q (0: untiled) only serves to name the row tile a failure lies in.
Comparison compare_elements(const char *name, const Tensor *got, const double *expected,
                            const double *bound, int64_t block_q);

// O and LSE together; true when both pass. Either result pointer may be NULL.
bool compare_output(const Expected *expected, const Tensor *o, const Tensor *lse, int64_t block_q,
                    Comparison *o_result, Comparison *lse_result);

#ifdef __cplusplus
}
#endif

#endif
