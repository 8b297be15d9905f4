// Lab 2: a ragged batch evened out over a fixed number of blocks.
//
// With parts of one size the number of blocks is what it is, and the last wave is seldom full. The
// other way round the number of blocks is given, one full wave, and the keys are dealt out evenly:
// a block may finish one sequence and begin the next.
#include "labs.h"

// Tiles of a sequence of len keys.
static int64_t tiles_of(const TiledBatch *batch, int64_t len) {
    int64_t tiles = 0;
    // TODO 1: tiles
    // END 1
    return tiles;
}

static int64_t tiles_of_all(const TiledBatch *batch) {
    int64_t tiles = 0;
    for (int64_t s = 0; s < batch->sequences; s++) {
        tiles += tiles_of(batch, batch->lens[s]);
    }
    return tiles;
}

int64_t item_limit(const TiledBatch *batch) {
    const int64_t tiles = tiles_of_all(batch);
    int64_t limit = 0;
    // TODO 2: limit
    (void)tiles;
    // END 2
    return limit;
}

int64_t tiles_of_block(int64_t tiles, int64_t blocks, int64_t block) {
    int64_t share = 0;
    // TODO 3: share
    // END 3
    return share;
}

void plan_blocks(const TiledBatch *batch, WorkPlan *plan) {
    const int64_t tiles = tiles_of_all(batch);
    int64_t sequence = 0; // the line is dealt out up to this sequence,
    int64_t done = 0;     // and up to this tile of it
    int64_t count = 0;    // items so far
    for (int64_t s = 0; s < batch->sequences; s++) {
        plan->parts[s] = 0;
    }
    for (int64_t block = 0; block < batch->blocks; block++) {
        int64_t left = tiles_of_block(tiles, batch->blocks, block);
        plan->first_item[block] = count;
        // TODO 4: the items of this block, until no tile is left to it
        (void)left, (void)sequence, (void)done;
        // END 4
    }
    plan->first_item[batch->blocks] = count;
}
