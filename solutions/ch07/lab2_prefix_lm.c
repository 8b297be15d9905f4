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
    // GAP 1: the rule of labs.h
    const int64_t own = row + mask->len_kv - mask->len_q;
    visible = key < mask->prefix || key <= own;
    // END 1
    return visible;
}

// Query `row` sees keys 0 .. row_end - 1, and no other.
static int64_t row_end(const PrefixMask *mask, int64_t row) {
    int64_t end = 0;
    // GAP 2: without asking for single keys; between 0 and S for every row from 0 to T - 1
    end = larger(mask->prefix, row + mask->len_kv - mask->len_q + 1);
    // END 2
    return end;
}

TileClass prefix_tile(const PrefixMask *mask, int64_t row0, int64_t rows, int64_t key0,
                      int64_t keys) {
    if (row0 >= mask->len_q) {
        return TILE_SKIP;
    }
    const int64_t last = smaller(row0 + rows, mask->len_q) - 1; // the last query that exists
    // GAP 3: the class, from row_end of two queries
    if (key0 >= row_end(mask, last)) {
        return TILE_SKIP;
    }
    if (key0 + keys <= row_end(mask, row0)) {
        return TILE_FULL;
    }
    // END 3
    return TILE_PARTIAL;
}

// The sum over all queries of the number of keys that they see.
static int64_t visible_pairs(const PrefixMask *mask) {
    int64_t pairs = 0;
    // GAP 4: the queries that see just the prefix, and those of which each sees one key more than
    // the one before; a formula, no loop over queries
    const int64_t offset = mask->len_kv - mask->len_q;
    const int64_t level = smaller(larger(mask->prefix - offset, 0), mask->len_q);
    const int64_t rising = mask->len_q - level;
    pairs = level * mask->prefix + rising * (level + offset + 1 + mask->len_kv) / 2;
    // END 4
    return pairs;
}

PrefixTotals prefix_totals(const PrefixMask *mask, int64_t block_q, int64_t block_k) {
    PrefixTotals totals = {visible_pairs(mask), 0, 0};
    for (int64_t row0 = 0; row0 < mask->len_q; row0 += block_q) {
        const int64_t last = smaller(row0 + block_q, mask->len_q) - 1;
        // GAP 5: this block of queries' visited tiles, and the partial ones of them
        const int64_t visited = (row_end(mask, last) + block_k - 1) / block_k;
        totals.visited += visited;
        totals.partial += visited - row_end(mask, row0) / block_k;
        // END 5
    }
    return totals;
}
