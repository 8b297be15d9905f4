// The labs of chapter 1: what their functions take and return. Given; nothing to fill in here.
#ifndef CH01_LABS_H
#define CH01_LABS_H

#include "common/attn.h"

#include <stdbool.h>
#include <stdint.h>

// ---- lab 1: the softmax of a masked row ---------------------------------------------------------

// Writes probs[j] = exp(scores[j]) / (sum of exp(scores[i]) over the visible keys i) for the
// visible keys, exactly 0 for the hidden ones, and returns the natural log of that sum, the LSE.
// scores, visible, probs: [len], len >= 0. A hidden key's score may be anything, NaN included, and
// has no influence; a visible NaN makes the LSE and every visible key's probability NaN. A row with
// no visible key, or with none above -inf, has probs all 0 and LSE -inf.
float masked_softmax(const float *scores, const bool *visible, int64_t len, float *probs);

// ---- lab 2: soft-capped scores ------------------------------------------------------------------

// One query row and the keys it may see.
typedef struct CappedRow {
    int64_t len;      // keys in k and v
    int64_t dim;      // d
    KeyRange visible; // the keys this query sees, 0 <= begin <= end <= len; the rest are hidden
    float scale;      // multiplies q.k, before the cap
    float cap;        // the score of a visible key is cap * tanh(scale * q.k / cap); 0 means no cap
} CappedRow;

// Attention of one query row with soft-capped scores: o = sum of probs[j] * v[j]. Writes o [dim]
// and probs [len] (which may serve as the room for the scores before); returns the LSE of the
// capped scores. q [dim], k and v [len][dim]. Hidden rows of k and v may hold anything, NaN
// included, and have no influence; a hidden key's probability is exactly 0. A NaN in a visible row
// of k makes the LSE and all of o NaN. A row that sees no key has o and probs 0 and LSE -inf.
float capped_attention_row(const CappedRow *row, const float *q, const float *k, const float *v,
                           float *probs, float *o);

// ---- lab 3: bytes of a list of passes -----------------------------------------------------------

enum { MAX_TENSORS = 8, MAX_PASSES = 8 };

// A tensor in memory, whole.
typedef struct PassTensor {
    const char *name;
    int64_t elements;
    int64_t element_size; // in bytes: 4 for fp32, 2 for the 16-bit types
    bool temporary;       // made and dropped by the passes; false for inputs and outputs
} PassTensor;

// A pass: an operation that runs from beginning to end before the next one starts.
typedef struct Pass {
    const char *name;
    int reads[MAX_TENSORS];  // how many times the pass reads the whole of tensor t
    int writes[MAX_TENSORS]; // how many times it writes the whole of tensor t
} Pass;

typedef struct PassPlan {
    int tensor_count;
    PassTensor tensors[MAX_TENSORS];
    int pass_count;
    Pass passes[MAX_PASSES]; // in the order in which they run
    int64_t repeats;         // the list runs this many times, one run after the other
} PassPlan;

// Bytes moved between memory and the processor, in both directions.
typedef struct Traffic {
    int64_t read;
    int64_t written;
} Traffic;

// Attention with a pass for every operation. Every layer runs the same passes, one layer after the
// other; within a layer, a pass handles all heads.
typedef struct UnfusedAttention {
    int64_t layers;
    int64_t heads; // each with its own Q, K, V and O
    int64_t len_q;
    int64_t len_kv;
    int64_t dim;
    int64_t element_size; // of every tensor, in bytes
    bool cap;             // the soft-cap is a pass of its own over the scores
    bool mask;            // so is the mask, after it
    bool in_place;        // the softmax overwrites the scores: there is no second matrix
} UnfusedAttention;

// The tensors of an UnfusedAttention, in a PassPlan: Q, K, V, O, the scores S, the probabilities P.
enum { TENSOR_Q, TENSOR_K, TENSOR_V, TENSOR_O, TENSOR_S, TENSOR_P, ATTENTION_TENSORS };

// traffic [tensor_count]: the bytes that all repeats of the plan move, for each tensor.
void plan_traffic(const PassPlan *plan, Traffic *traffic);

// The most memory, in bytes, that the plan's temporary tensors take at any time. A temporary exists
// from the first pass that touches it (reads or writes it) to the last one, both included, and
// takes nothing before or after; one that no pass touches takes nothing at all.
int64_t plan_peak_bytes(const PassPlan *plan);

// Describes `attention` as a plan. *plan is overwritten.
void attention_plan(const UnfusedAttention *attention, PassPlan *plan);

#endif
