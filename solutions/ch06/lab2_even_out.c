// Lab 2: a ragged batch evened out over a fixed number of blocks.
//
// With parts of one size the number of blocks is what it is, and the last wave is seldom full. The
// other way round the number of blocks is given, one full wave, and the keys are dealt out evenly:
// a block may finish one sequence and begin the next.
#include "labs.h"

// Tiles of a sequence of len keys.
static int64_t tiles_of(const TiledBatch *batch, int64_t len) {
    int64_t tiles = 0;
    // GAP 1: tiles
    tiles = len / batch->tile_keys + (len % batch->tile_keys != 0 ? 1 : 0);
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
    // GAP 2: limit
    int64_t used = 0; // sequences that have keys
    for (int64_t s = 0; s < batch->sequences; s++) {
        used += batch->lens[s] > 0 ? 1 : 0;
    }
    limit = used + batch->blocks - 1 < tiles ? used + batch->blocks - 1 : tiles;
    // END 2
    return limit;
}

int64_t tiles_of_block(int64_t tiles, int64_t blocks, int64_t block) {
    int64_t share = 0;
    // GAP 3: share
    share = tiles / blocks + (block < tiles % blocks ? 1 : 0);
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
        // GAP 4: the items of this block, until no tile is left to it
        while (left > 0) {
            const int64_t len = batch->lens[sequence];
            const int64_t rest = tiles_of(batch, len) - done;
            const int64_t take = rest < left ? rest : left;
            if (take > 0) {
                const int64_t end = (done + take) * batch->tile_keys;
                plan->items[count] = (WorkItem){sequence, done * batch->tile_keys,
                                                end < len ? end : len, plan->parts[sequence]};
                plan->parts[sequence]++;
                count++;
            }
            done += take;
            left -= take;
            if (take == rest) {
                sequence++;
                done = 0;
            }
        }
        // END 4
    }
    plan->first_item[batch->blocks] = count;
}
