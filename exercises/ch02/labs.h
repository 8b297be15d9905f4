// Chapter 2's labs: what they are given, and the functions that you write. README.md beside this
// file says what each lab is about. This header stays as it is.
#ifndef CH02_LABS_H
#define CH02_LABS_H

#include <stdbool.h>
#include <stdint.h>

// One query row and its keys (labs 1 and 2).
typedef struct KeyRow {
    int64_t len;         // keys, 0 or more
    int64_t dim;         // d, at least 1
    const float *q;      // [dim]
    const float *k;      // [len][dim]
    const float *v;      // [len][dim]
    const bool *visible; // [len]; a key that is not visible may hold anything in k and v, NaN too
    float scale;         // multiplies q . k
    float sink;          // lab 1: logit that joins the denominator only, -INFINITY for none
    int64_t block_k;     // keys per block, at least 1
    float *scratch;      // [block_k] room for the scores of one block
} KeyRow;

// The scaled score of one key: scale * (q . k[key]). Only meaningful for a visible key.
static inline float key_score(const KeyRow *row, int64_t key) {
    float sum = 0.0f;
    for (int64_t c = 0; c < row->dim; c++) {
        sum += row->q[c] * row->k[key * row->dim + c];
    }
    return row->scale * sum;
}

// Lab 1. Attention of one row in one pass over its keys, with a sink.
//   o[dim]  sum over visible keys of exp(s_j - lse) v_j
//   lse     natural log of (sum over visible keys of exp(s_j) + exp(sink))
// Without a visible key o is 0, and lse is the sink (-INFINITY when there is none either).
void sink_attention(const KeyRow *row, float *o, float *lse);

// The running state of a pass: keys 0 .. next-1 have been seen (lab 2).
typedef struct SoftmaxState {
    float m;      // in one pass the largest score so far; -INFINITY: no visible key was seen
    float l;      // sum of exp(s_j - m) so far; 0 when no visible key was seen
    float *o;     // [dim] sum of exp(s_j - m) v_j so far, not divided by l
    int64_t next; // the first key not yet seen
} SoftmaxState;

// A pass that has been put aside: the attention over keys 0 .. next-1.
typedef struct PausedRow {
    float lse;    // natural log of the sum of exp(s_j); -INFINITY: no visible key was seen, and
    float *o;     // [dim] the output over those keys; for an lse of -INFINITY it may hold anything
    int64_t next; // the first key not yet seen
} PausedRow;

// Given with lab 2: adds `count` keys to the state. scores[count], -INFINITY for a key that is not
// visible; v[count][dim]. Does not move state->next.
void state_add_block(SoftmaxState *state, int64_t dim, const float *scores, const float *v,
                     int64_t count);

// Lab 2. From the running state to (O, LSE) and back. paused->o may be the same memory as state->o.
// An empty state (m = -INFINITY, l = 0) and (O = 0, LSE = -INFINITY) stand for each other. A state
// whose l is NaN is not empty: it is saved as O and LSE of NaN and comes back as NaN.
void state_save(const SoftmaxState *state, int64_t dim, PausedRow *paused);
void state_restore(SoftmaxState *state, int64_t dim, const PausedRow *paused);

// Lab 2. Goes on with a paused pass for at most `blocks` blocks of row->block_k keys (the last one
// may be shorter) and pauses it again. A new pass has lse = -INFINITY and next = 0.
void attend_some(const KeyRow *row, int64_t blocks, PausedRow *paused);

// The scores of one row, delivered block by block in the order of the keys (lab 3).
typedef struct ScoreStream {
    // Sets *scores to the next block and returns how many scores it has; 0 when the row is over.
    // The next call overwrites the block: every score is seen once.
    int64_t (*next)(void *context, const float **scores);
    void *context;
} ScoreStream;

// Lab 3. The k largest scores of a row and their softmax probabilities over the whole row.
//   index[k]  their positions in the row, largest score first; of equal scores the lower position
//             first; -1 where the row has fewer than k scores above -INFINITY
//   prob[k]   exp(score - lse) in exact arithmetic; 0 where index is -1
//   lse       natural log-sum-exp of the whole row; -INFINITY when it has no score above that
// Scores are finite or -INFINITY (not visible). k may be 0. Returns the number of scores delivered.
int64_t online_topk(const ScoreStream *stream, int64_t k, int64_t *index, float *prob, float *lse);

#endif
