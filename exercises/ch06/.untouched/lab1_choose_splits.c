// Lab 1: the size of a part, for sequences of different lengths.
//
// The chapter cuts one length into parts. Here the sequences differ, so that the same size gives
// each of them another number of parts. What the GPU sees of it is one number of blocks, and the
// longest of them.
#include "labs.h"

#include <math.h>

enum { FLOAT_SIZE = 4 };

int64_t parts_of(int64_t len, int64_t part_keys) {
    int64_t parts = 0;
    // TODO 1: parts
    // END 1
    return parts;
}

// Adds to *cost what a sequence of len keys, cut into parts of part_keys, brings: to the blocks and
// the workspace of all heads, and to the longest part.
static void add_sequence(SplitCost *cost, const RaggedBatch *batch, int64_t len,
                         int64_t part_keys) {
    const int64_t parts = parts_of(len, part_keys);
    // TODO 2: blocks, longest, workspace
    (void)parts;
    // END 2
}

// Fills in what follows from blocks and longest.
static void fill_waves(SplitCost *cost, const SplitGpu *gpu) {
    const int64_t slots = gpu->sms * gpu->blocks_per_sm;
    // TODO 3: waves, idle, time
    (void)slots;
    // END 3
}

SplitCost cost_of_size(const RaggedBatch *batch, const SplitGpu *gpu, int64_t part_keys) {
    SplitCost cost = {0};
    for (int64_t b = 0; b < batch->sequences; b++) {
        add_sequence(&cost, batch, batch->lens[b], part_keys);
    }
    fill_waves(&cost, gpu);
    return cost;
}

SplitCost cost_of_splits(const RaggedBatch *batch, const SplitGpu *gpu, int64_t splits) {
    SplitCost cost = {0};
    for (int64_t b = 0; b < batch->sequences; b++) {
        const int64_t len = batch->lens[b];
        // TODO 4: what this sequence brings, in parts of a size of its own
        (void)len, (void)splits;
        // END 4
    }
    fill_waves(&cost, gpu);
    return cost;
}

int64_t choose_part_keys(const RaggedBatch *batch, const SplitGpu *gpu, const SplitLimits *limits) {
    int64_t best = limits->granule;
    // TODO 5: best, of the candidates in the rule of labs.h
    // END 5
    return best;
}
