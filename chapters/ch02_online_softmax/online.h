// Online softmax: the running maximum, sum and output of a row, corrected as keys arrive.
//
// The first half is one row in four steps, from safe softmax to blocks; the second half is the
// chapter's result, attention in one pass over the keys without a score row.
#ifndef CH02_ONLINE_H
#define CH02_ONLINE_H

#include "common/attn.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- the state of a row, and what is done with it -----------------------------------------------

// What is known of a row after some of its keys. l = 0 exactly when m = -inf; otherwise the largest
// score contributes exp(0), so that l >= 1.
typedef struct OnlineState {
    float m;     // largest score so far; -inf before the first
    float l;     // sum over the keys so far of exp(score - m)
    float *acc;  // [dim] sum over the keys so far of exp(score - m) * value, not yet divided by l
    int64_t dim; // elements of a value
} OnlineState;

// An empty row: m = -inf, l = 0, acc (the caller's, [dim]) set to 0.
void online_softmax_begin(OnlineState *state, float *acc, int64_t dim);

// Folds a block of keys into the row. scores [count], v [count][dim]; count may be 0.
// A score of -inf gives its key the weight 0, in an otherwise empty row too; its value is still
// multiplied by that 0, so that a NaN there reaches the row. NaN scores reach the row.
void online_softmax_update(OnlineState *state, const float *scores, const float *v, int64_t count);

// Divides once: o [dim] = acc / l, or 0 where no key was seen; o may be state->acc. Returns the
// log-sum-exp m + log(l), -inf where no key was seen.
float online_softmax_end(const OnlineState *state, float *o);

// ---- one row, step by step ----------------------------------------------------------------------

// A row whose scores are all there already.
typedef struct ScoreRow {
    const float *scores; // [count]
    const float *v;      // [count][dim]
    int64_t count, dim;
} ScoreRow;

// What a row cost besides its products p * v, counted as it ran.
typedef struct RowCost {
    int64_t exps;      // exponentials
    int64_t rescales;  // multiplications of a sum or an accumulator element by a correction
    int64_t divisions; // divisions by a sum
} RowCost;

// Each writes o [dim] and returns the log-sum-exp of the row.

// exp(score) with no maximum taken off: overflows float32 at scores above 88.7.
float row_unguarded(const ScoreRow *row, float *o);

// Safe softmax in three passes over the scores: maximum, sum, weights. p [count] is workspace.
float row_safe(const ScoreRow *row, float *p, float *o);

// One pass, one key at a time.
float row_by_element(const ScoreRow *row, float *o, RowCost *cost);

// One pass, `block` keys at a time (at least 1), divided once at the end.
float row_by_block(const ScoreRow *row, int64_t block, float *o, RowCost *cost);

// The same, with o kept normalised: divided by the sum after every block.
float row_divide_each_block(const ScoreRow *row, int64_t block, float *o, RowCost *cost);

// ---- the kernel ---------------------------------------------------------------------------------

// Floats of workspace that online_attention needs: the scores of one block, min(block_k, S), for
// the whole problem, since the rows are computed one after the other. 0 when block_k < 1.
size_t online_workspace_floats(const AttnShape *shape, int64_t block_k);

// O = softmax(scale Q K^T + mask) V and its log-sum-exp, in f32, in one pass over the keys of each
// row, block_k keys at a time (at least 1; more than there are is legal).
// q, o [batch][heads_q][len_q][dim]; k, v [batch][heads_kv][len_kv][dim];
// lse [batch][heads_q][len_q]; workspace [online_workspace_floats]. A row of o is its own
// accumulator, so o may overlap no input. A row that sees no key gives O = 0 and LSE = -inf.
// Errors: those of attn_check_shape; ATTN_ERR_ARGUMENT when block_k < 1 or for a null pointer to a
// tensor that has elements. Nothing is written then.
AttnStatus online_attention(const AttnShape *shape, const float *q, const float *k, const float *v,
                            int64_t block_k, float *o, float *lse, float *workspace);

#ifdef __cplusplus
}
#endif

#endif
