// Chapter 6's labs: what they are given, and the functions that you write. README.md beside this
// file says what each lab is about. This header stays as it is.
#ifndef CH06_LABS_H
#define CH06_LABS_H

#include "common/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- lab 1: the size of a part ------------------------------------------------------------------

// A decode step: one query for each head of each sequence, against the keys of that head.
typedef struct RaggedBatch {
    int64_t sequences;   // 0 or more
    const int64_t *lens; // [sequences] keys of each sequence, 0 or more
    int64_t heads;       // 1 or more; every head has keys of its own, all of a sequence's length
    int64_t dim;         // d, 1 or more
} RaggedBatch;

// The GPU as the model sees it: slots = sms * blocks_per_sm blocks run at a time.
typedef struct SplitGpu {
    int64_t sms;           // 1 or more
    int64_t blocks_per_sm; // 1 or more
    int64_t block_cost;    // what a block costs beside its keys, in keys; 0 or more
} SplitGpu;

// What a way to cut the batch costs. A block is one part of one head of one sequence; parts without
// keys are not counted, and not run.
typedef struct SplitCost {
    int64_t blocks;    // over all sequences and heads
    int64_t longest;   // keys of the longest part
    int64_t workspace; // bytes for the parts of sequences that are cut: d + 1 floats a part, O and
                       // LSE; a sequence of one part writes its result itself, and needs none
    double waves;      // blocks over slots: 1 is one full wave
    double idle;       // share of the last wave's slots that have nothing to do: 0 .. less than 1
    int64_t time;      // in keys: waves, begun ones counted in full, times (longest + block_cost)
} SplitCost;

// Lab 1. The number of parts that `len` keys make in parts of part_keys keys, at least 1, the last
// one perhaps shorter. 0 keys make no part.
int64_t parts_of(int64_t len, int64_t part_keys);

// Lab 1. The cost when every sequence is cut into parts of part_keys keys, at least 1.
SplitCost cost_of_size(const RaggedBatch *batch, const SplitGpu *gpu, int64_t part_keys);

// Lab 1. The cost when every sequence is cut into `splits` parts, at least 1, whatever its length:
// its parts have ceil(len / splits) keys, as long as there are any. (Of 5 keys and 4 splits: 2, 2
// and 1 make three parts.)
SplitCost cost_of_splits(const RaggedBatch *batch, const SplitGpu *gpu, int64_t splits);

// What a size has to keep to.
typedef struct SplitLimits {
    int64_t granule;   // sizes are multiples of this, 1 or more
    int64_t min_keys;  // and at least this, 1 or more
    int64_t workspace; // bytes that there are, 0 or more
} SplitLimits;

// Lab 1. The rule. Candidates are the multiples of the granule from min_keys on, up to the first
// one that is as long as the longest sequence or longer: there nothing is cut any more. Of those
// whose workspace is within the limit, the one with the least time is taken; of equal ones the
// largest, which has the fewest parts to merge. The last candidate needs no workspace, so that
// there always is one.
int64_t choose_part_keys(const RaggedBatch *batch, const SplitGpu *gpu, const SplitLimits *limits);

// ---- lab 2: a ragged batch over a fixed number of blocks ----------------------------------------

// The keys of every sequence in tiles of tile_keys, the last one of a sequence perhaps shorter; the
// tiles of all sequences in one line, sequence 0 first. Heads are another dimension of the grid:
// each has the same plan.
typedef struct TiledBatch {
    int64_t sequences;   // 0 or more
    const int64_t *lens; // [sequences] keys of each sequence, 0 or more
    int64_t tile_keys;   // 1 or more
    int64_t blocks;      // 1 or more
} TiledBatch;

// Keys begin .. end - 1 of a sequence, for one block. They are part `part` of the sequence.
typedef struct WorkItem {
    int64_t sequence;
    int64_t begin, end; // begin < end; begin is a multiple of tile_keys, end too or the length
    int64_t part;       // counted from 0 in each sequence, in the order of its keys
} WorkItem;

// Block b does the items first_item[b] .. first_item[b + 1] - 1, in their order: those of one block
// are of different sequences. A block without tiles has none.
typedef struct WorkPlan {
    int64_t *first_item; // [blocks + 1]; first_item[blocks] is the number of items
    WorkItem *items;     // [item_limit]
    int64_t *parts;      // [sequences] into how many parts each was cut; 0 where it has no keys
} WorkPlan;

// Lab 2. The largest number of items that plan_blocks may need, from the number of tiles, of
// sequences that have any, and of blocks alone: every item begins where a block or a sequence
// begins, and has at least one tile.
int64_t item_limit(const TiledBatch *batch);

// Lab 2. The tiles of the line for each block: all blocks get tiles / blocks, rounded down, and the
// first ones one more, until all tiles are dealt out.
int64_t tiles_of_block(int64_t tiles, int64_t blocks, int64_t block);

// Lab 2. Deals the line of tiles out, block 0 first, and fills the plan. Its time grows with the
// blocks and the sequences, not with their keys.
void plan_blocks(const TiledBatch *batch, WorkPlan *plan);

// ---- lab 3: the last block merges, with a sink --------------------------------------------------

// All pointers are to device memory. One query for each head; heads of all sequences are counted
// through. The sink is a logit that joins the denominator and has no value:
//     lse = log(sum over keys of exp(score) + exp(sink))
//     o   = sum over keys of exp(score - lse) v
typedef struct SinkDecode {
    const float *q;     // [heads][dim]
    const float *k;     // [heads][len_kv][dim]
    const float *v;     // [heads][len_kv][dim]
    const int *bounds;  // [heads][parts + 1]: part p of head h has the keys bounds[h][p] ..
                        // bounds[h][p + 1] - 1. They never fall, and a part may have no keys
    const float *sink;  // [heads], natural logarithm; -infinity where a head has none
    float *o;           // [heads][dim]; 0 for a head without keys
    float *lse;         // [heads]; the sink for a head without keys
    float *part_o;      // [heads][parts][dim] the workspace: O of each part; of one without keys
                        // it is not written, and may hold anything, NaN included
    float *part_lse;    // [heads][parts] its LSE, natural; -infinity for one without keys
    unsigned *counters; // [heads] 0 before the first launch; a launch leaves them 0 again
    int heads, parts;   // at least 1
    int len_kv;         // 0 or more
    int dim;            // 1..SINK_MAX_DIM; more is ATTN_ERR_UNSUPPORTED
    float scale;        // multiplies q . k, not the sink
} SinkDecode;

// Lab 3. O and LSE in one launch: a block of SINK_THREADS threads for each part of each head, of
// which the one that finishes last merges its head's parts, in the order of their numbers. The O of
// a part is loaded once at most. Equal inputs give equal bits.
enum { SINK_MAX_DIM = 128, SINK_THREADS = 128 };
GPU_DECLARE(sink_decode, (const SinkDecode *decode, GpuStream stream));

// Where the parts of a workspace that is too large to allocate here would lie.
typedef struct PartPlaces {
    const int *head; // [count]
    const int *part; // [count]
    int64_t *place;  // [count] the element of part_o at which the O of that part begins
    int count;       // 1..SINK_THREADS
    int parts, dim;  // of the workspace [heads][parts][dim]
} PartPlaces;

// Lab 3. Given: asks your part_place. Its numbers may be beyond 32 bits.
GPU_DECLARE(part_places, (const PartPlaces *places, GpuStream stream));

#ifdef __cplusplus
}
#endif

#endif
