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
    // GAP 1: parts
    parts = len / part_keys + (len % part_keys != 0 ? 1 : 0);
    // END 1
    return parts;
}

// Adds to *cost what a sequence of len keys, cut into parts of part_keys, brings: to the blocks and
// the workspace of all heads, and to the longest part.
static void add_sequence(SplitCost *cost, const RaggedBatch *batch, int64_t len,
                         int64_t part_keys) {
    const int64_t parts = parts_of(len, part_keys);
    // GAP 2: blocks, longest, workspace
    const int64_t longest = len < part_keys ? len : part_keys;
    cost->blocks += parts * batch->heads;
    cost->longest = longest > cost->longest ? longest : cost->longest;
    if (parts > 1) {
        cost->workspace += parts * batch->heads * (batch->dim + 1) * FLOAT_SIZE;
    }
    // END 2
}

// Fills in what follows from blocks and longest.
static void fill_waves(SplitCost *cost, const SplitGpu *gpu) {
    const int64_t slots = gpu->sms * gpu->blocks_per_sm;
    // GAP 3: waves, idle, time
    const int64_t begun = cost->blocks / slots + (cost->blocks % slots != 0 ? 1 : 0);
    cost->waves = (double)cost->blocks / (double)slots;
    cost->idle = (double)(begun * slots - cost->blocks) / (double)slots;
    cost->time = begun * (cost->longest + gpu->block_cost);
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
        // GAP 4: what this sequence brings, in parts of a size of its own
        if (len > 0) {
            add_sequence(&cost, batch, len, parts_of(len, splits));
        }
        // END 4
    }
    fill_waves(&cost, gpu);
    return cost;
}

int64_t choose_part_keys(const RaggedBatch *batch, const SplitGpu *gpu, const SplitLimits *limits) {
    int64_t best = limits->granule;
    // GAP 5: best, of the candidates in the rule of labs.h
    int64_t longest = 0, least = INT64_MAX;
    for (int64_t b = 0; b < batch->sequences; b++) {
        longest = batch->lens[b] > longest ? batch->lens[b] : longest;
    }
    int64_t size = parts_of(limits->min_keys, limits->granule) * limits->granule;
    for (;; size += limits->granule) {
        const SplitCost cost = cost_of_size(batch, gpu, size);
        if (cost.workspace <= limits->workspace && cost.time <= least) {
            least = cost.time;
            best = size;
        }
        if (size >= longest) {
            break;
        }
    }
    // END 5
    return best;
}
