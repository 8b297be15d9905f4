// Lab 2: which tiles of a causal mask with a window must be computed, and which need the mask.
//
// Key j and query i are apart by j - i - (S - T): 0 is the query's own key, negative ones lie
// before it. The mask is a statement about this distance alone, and in a tile it takes every value
// between its smallest and its largest one.
#include "labs.h"

// The range of distances in a tile.
typedef struct Distances {
    int64_t low, high; // both included
} Distances;

static Distances distances_of(const TileMask *mask, const Tile *tile) {
    const int64_t offset = mask->len_kv - mask->len_q;
    Distances d = {0, 0};
    // TODO 1: the smallest and the largest key - row - offset of the tile
    (void)tile, (void)offset;
    // END 1
    return d;
}

TileClass classify_tile(const TileMask *mask, const Tile *tile) {
    const Distances d = distances_of(mask, tile);
    if (!mask->causal) {
        return TILE_FULL;
    }
    // TODO 2: the class; the window counts the query's own key, and 0 is no window
    (void)d;
    // END 2
    return TILE_PARTIAL;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

// Counts the key blocks that lie in keys begin .. end-1: `touched`, those with at least one key in
// it, and `inside`, those with all their keys in it, where the last block ends at key S.
typedef struct BlockCount {
    int64_t touched, inside;
} BlockCount;

static BlockCount blocks_in(int64_t begin, int64_t end, int64_t block_k, int64_t len_kv) {
    BlockCount count = {0, 0};
    begin = larger(begin, 0); // before any division: C rounds -1 / 16 to 0
    end = smaller(end, len_kv);
    if (begin >= end) {
        return count;
    }
    // TODO 3: count.touched and count.inside
    (void)block_k;
    // END 3
    return count;
}

TileTotals count_tiles(const TileMask *mask, int64_t block_q, int64_t block_k, int64_t heads) {
    const int64_t offset = mask->len_kv - mask->len_q;
    const int64_t columns = (mask->len_kv + block_k - 1) / block_k; // key blocks
    TileTotals totals = {0, 0, 0, 0};
    for (int64_t begin = 0; begin < mask->len_q; begin += block_q) {
        const int64_t end = smaller(begin + block_q, mask->len_q);
        KeyRange some = {0, mask->len_kv}; // the keys that some row of the block sees
        KeyRange each = {0, mask->len_kv}; // the keys that every row of the block sees
        // TODO 4: both ranges for a causal mask; they may reach outside of 0 .. S
        (void)end, (void)offset;
        // END 4
        totals.visited += blocks_in(some.begin, some.end, block_k, mask->len_kv).touched;
        totals.full += blocks_in(each.begin, each.end, block_k, mask->len_kv).inside;
        totals.all += columns;
    }
    totals.visited *= heads;
    totals.full *= heads;
    totals.all *= heads;
    totals.partial = totals.visited - totals.full;
    return totals;
}
