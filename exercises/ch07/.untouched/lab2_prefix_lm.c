// Lab 2: tile classes and totals of a prefix-LM mask, in which a prompt is visible in both
// directions and what follows is causal.
//
// What a query sees always begins at key 0: the prefix does, and the causal part does. So one
// number says it all, the end of the range, and it never falls from one query to the next.
#include "labs.h"

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

bool prefix_sees(const PrefixMask *mask, int64_t row, int64_t key) {
    bool visible = false;
    // TODO 1: the rule of labs.h
    (void)mask, (void)row, (void)key;
    // END 1
    return visible;
}

// Query `row` sees keys 0 .. row_end - 1, and no other.
static int64_t row_end(const PrefixMask *mask, int64_t row) {
    int64_t end = 0;
    // TODO 2: without asking for single keys; between 0 and S for every row from 0 to T - 1
    (void)mask, (void)row, (void)larger;
    // END 2
    return end;
}

TileClass prefix_tile(const PrefixMask *mask, int64_t row0, int64_t rows, int64_t key0,
                      int64_t keys) {
    if (row0 >= mask->len_q) {
        return TILE_SKIP;
    }
    const int64_t last = smaller(row0 + rows, mask->len_q) - 1; // the last query that exists
    // TODO 3: the class, from row_end of two queries
    (void)last, (void)key0, (void)keys, (void)row_end;
    // END 3
    return TILE_PARTIAL;
}

// The sum over all queries of the number of keys that they see.
static int64_t visible_pairs(const PrefixMask *mask) {
    int64_t pairs = 0;
    // TODO 4: the queries that see just the prefix, and those of which each sees one key more than
    // the one before; a formula, no loop over queries
    (void)mask;
    // END 4
    return pairs;
}

PrefixTotals prefix_totals(const PrefixMask *mask, int64_t block_q, int64_t block_k) {
    PrefixTotals totals = {visible_pairs(mask), 0, 0};
    for (int64_t row0 = 0; row0 < mask->len_q; row0 += block_q) {
        const int64_t last = smaller(row0 + block_q, mask->len_q) - 1;
        // TODO 5: this block of queries' visited tiles, and the partial ones of them
        (void)last, (void)block_k;
        // END 5
    }
    return totals;
}
