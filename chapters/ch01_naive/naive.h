// Naive attention: three passes through memory and two T x S matrices. The course's readable
// specification: every later kernel computes this, and differs only in what it stores.
#ifndef CH01_NAIVE_H
#define CH01_NAIVE_H

#include "common/attn.h"

#ifdef __cplusplus
extern "C" {
#endif

// Floats of workspace that naive_attention needs: 2 T S, the score matrix and the probability
// matrix of one head. The heads are computed one after the other and use the same two matrices.
size_t naive_workspace_floats(const AttnShape *shape);

// O = softmax(scale Q K^T + mask) V and its log-sum-exp, in f32.
// q, o [batch][heads_q][len_q][dim]; k, v [batch][heads_kv][len_kv][dim];
// lse [batch][heads_q][len_q]; workspace [2][len_q][len_kv], which afterwards holds the scores and
// the probabilities of the last head. A row that sees no key gives O = 0 and LSE = -inf.
// Errors: those of attn_check_shape; ATTN_ERR_ARGUMENT for a null pointer to a tensor that has
// elements. Nothing is written then.
AttnStatus naive_attention(const AttnShape *shape, const float *q, const float *k, const float *v,
                           float *o, float *lse, float *workspace);

// The three passes, each over the whole of one head of batch entry `batch_index`; the shape has
// been checked. scores, probs [len_q][len_kv]; q, o [len_q][dim]; k, v [len_kv][dim]; lse [len_q].
// They are public so that the bytes each of them touches can be measured.
void naive_scores(const AttnShape *shape, int64_t batch_index, const float *q, const float *k,
                  float *scores);
void naive_softmax(const AttnShape *shape, const float *scores, float *probs, float *lse);
void naive_weighted_sum(const AttnShape *shape, int64_t batch_index, const float *probs,
                        const float *v, float *o);

#ifdef __cplusplus
}
#endif

#endif
