// Chapter 3's labs: what they are given, and the functions that you write. README.md beside this
// file says what each lab is about. This header stays as it is.
//
// Everywhere a *part* is the attention of one query over some of its keys: its output O [dim] and
// the natural log-sum-exp LSE of the scores of these keys. A part without a key has LSE = -INFINITY
// and is called empty; its O may never have been written and may hold anything, NaN included.
#ifndef CH03_LABS_H
#define CH03_LABS_H

#include "common/attn.h"

// ---- lab 1 --------------------------------------------------------------------------------------

// One merge, in place: part b joins part a. o_a and o_b are [dim] and do not overlap.
// Two empty parts give O = 0, LSE = -INFINITY. A NaN in O of a part that is not empty reaches o_a.
void merge_pair(int64_t dim, float *o_a, float *lse_a, const float *o_b, float lse_b);

// One level of the tree: for every multiple i of 2 * stride, part i + stride joins part i, if there
// is a part i + stride. Nothing else is written. o [parts][dim], lse [parts]; stride is at least 1.
void merge_level(int64_t parts, int64_t dim, int64_t stride, float *o, float *lse);

// The whole tree, in place: the levels of stride 1, 2, 4, ... as far as they have something to
// merge. parts is at least 1, and not always a power of two. Afterwards part 0 is the merge of all
// of them, with O = 0 if all were empty. Part i > 0 is the merge of the parts i .. i + b - 1 (those
// that exist), where b is the largest power of two that divides i.
void merge_tree(int64_t parts, int64_t dim, float *o, float *lse);

// ---- lab 2 --------------------------------------------------------------------------------------

// A part that knows how many keys it stands for.
typedef struct Attended {
    int64_t keys; // keys that the query saw; 0 when lse is -INFINITY, and only then
    float lse;    // natural log-sum-exp of their scores
    float *o;     // [dim] the output over them
} Attended;

typedef enum UnmergeStatus {
    UNMERGE_OK,      // whole is now what remains
    UNMERGE_REFUSED, // too little would remain to be told from rounding: nothing was written
} UnmergeStatus;

// By how much taking a part out of the whole multiplies the errors of O and LSE: 1 / (1 - w), where
// w is the share of the part in the whole's sum of exp(score). 1 for an empty part. INFINITY when
// in float32 the part weighs as much as the whole, or more.
float unmerge_amplification(float lse_whole, float lse_part);

// Takes `part`, some of the keys of `whole`, out of it: afterwards keys, lse and o of `whole` are
// those of what remains, so keys has fallen by part->keys.
//   part->keys == whole->keys   nothing remains, whatever the two LSE are: keys 0, LSE = -INFINITY,
//                               O = 0, exactly
//   an empty part               whole stays as it is, exactly
//   otherwise                   UNMERGE_REFUSED if the amplification is above `limit`
// `limit` is finite and at least 1; an amplification that equals it is still allowed.
UnmergeStatus unmerge(int64_t dim, Attended *whole, const Attended *part, float limit);

// ---- lab 3 --------------------------------------------------------------------------------------

// One query and the cache that it reads.
typedef struct DecodeRow {
    int64_t len;    // keys, 0 or more; what lies behind them belongs to somebody else
    int64_t dim;    // d, at least 1
    const float *q; // [dim]
    const float *k; // [len][dim]
    const float *v; // [len][dim]
    float scale;    // multiplies q . k
} DecodeRow;

// Given with lab 3: attention of q over `count` keys, k and v [count][dim]. o [dim], *lse. With
// count = 0 it sets *lse to -INFINITY and leaves o alone, as a kernel whose block has nothing to do
// leaves early.
void attend_keys(int64_t count, int64_t dim, const float *q, const float *k, const float *v,
                 float scale, float *o, float *lse);

// The keys of chunk `index` when len keys are dealt out in order over `chunks` chunks, the same
// number to each, len / chunks rounded up, as long as there are any. The last chunk that has keys
// may have fewer, and those behind it are {len, len}. Always 0 <= begin <= end <= len.
KeyRange chunk_range(int64_t len, int64_t chunks, int64_t index);

// Attention of one query whose keys come in chunks: chunk i is the keys boundaries[i] ..
// boundaries[i + 1] - 1. boundaries [chunks + 1] never fall, from 0 to row->len; chunks is at
// least 1, and a chunk may be empty.
//   part_o [chunks][dim], part_lse [chunks]   work memory; holds the partials of the chunks after
//                                             the call (O of an empty chunk may hold anything)
//   o [dim], lse                              the attention over all keys; 0 and -INFINITY without
//                                             a key
void decode_chunks(const DecodeRow *row, int64_t chunks, const int64_t *boundaries, float *part_o,
                   float *part_lse, float *o, float *lse);

#endif
