// The oracle: attention in float64, forward and backward, written for nothing but being right.
// Its mask predicate is its own and is shared with no kernel.
#ifndef COMMON_REFERENCE_H
#define COMMON_REFERENCE_H

#include "common/attn.h"

#ifdef __cplusplus
extern "C" {
#endif

// What the forward oracle computes; any pointer may be NULL.
typedef struct ReferenceForward {
    double *o;         // [batch][heads_q][len_q][dim]   output
    double *lse;       // [batch][heads_q][len_q]        natural log-sum-exp; -inf for an empty row
    double *o_abs;     // [batch][heads_q][len_q][dim]   sum_j p_j |v_jc|, for error bounds
    double *score_abs; // [batch][heads_q][len_q]        max_j scale * sum_c |q_c k_jc|
} ReferenceForward;

// O = softmax(scale Q K^T + mask) V and its log-sum-exp, every sum in float64.
// q [batch][heads_q][len_q][dim], k and v [batch][heads_kv][len_kv][dim], float32.
// Errors: those of attn_check_shape, ATTN_ERR_MEMORY; nothing is written then.
AttnStatus reference_forward(const AttnShape *shape, const float *q, const float *k, const float *v,
                             const ReferenceForward *out);

// The same with a mask of any pattern: visible [len_q][len_kv], not 0 where a query may see a key,
// the same for all heads and batch entries. It is applied on top of the shape's own masks: a key is
// seen where both allow it. NULL: all.
AttnStatus reference_forward_masked(const AttnShape *shape, const uint8_t *visible, const float *q,
                                    const float *k, const float *v, const ReferenceForward *out);

// Gradients of sum(O * dO): with P = softmax, D_i = sum_c dO_ic O_ic,
// dV = P^T dO, dS = P * (dO V^T - D), dQ = scale dS K, dK = scale dS^T Q; dK and dV are summed
// over the query heads of a group. d_o like q; d_q like q; d_k, d_v like k. Errors as above.
AttnStatus reference_backward(const AttnShape *shape, const float *q, const float *k,
                              const float *v, const float *d_o, double *d_q, double *d_k,
                              double *d_v);

#ifdef __cplusplus
}
#endif

#endif
