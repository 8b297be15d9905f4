// Lab 1: the queries of a group as the rows of a tile.
//
// The chapter's kernels have this arithmetic inside; here it stands alone, for both orders of the
// rows, and can be counted. A row's limits go by its token: rows of one token and different heads
// see the same keys.
#include "labs.h"

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

HeadToken packed_source(const PackedRows *p, int64_t kv_head, int64_t row) {
    HeadToken query = {0, 0};
    // TODO 1: head and token, in the order of p->order
    (void)kv_head, (void)row, (void)p;
    // END 1
    return query;
}

PackedPlace packed_place(const PackedRows *p, HeadToken query) {
    PackedPlace place = {0, 0};
    // TODO 2: the KV head that the query's head reads, and the row
    (void)query, (void)p;
    // END 2
    return place;
}

// The keys that a token's queries see.
static KeyRange token_keys(const PackedRows *p, int64_t token) {
    KeyRange keys = {0, 0};
    // TODO 3: causal, aligned at the bottom right, with the window; a token before key 0 sees none
    (void)p, (void)token, (void)larger;
    // END 3
    return keys;
}

KeyRange packed_keys(const PackedRows *p, int64_t row) {
    KeyRange keys = {0, 0};
    // TODO 4: the same for a packed row
    (void)p, (void)row, (void)token_keys;
    // END 4
    return keys;
}

PackedTile packed_tile(const PackedRows *p, int64_t tile) {
    const int64_t all_rows = p->heads_q / p->heads_kv * p->len_q; // of a KV head
    const int64_t row0 = tile * p->tile_rows;
    PackedTile t = {0, {0, 0}, {0, 0}};
    // TODO 5: the number of rows; the least and the greatest token among them; the two ranges. Some
    // tokens may see no key. In head-major order a tile may go from one head to the next.
    (void)all_rows, (void)row0, (void)token_keys, (void)smaller;
    // END 5
    return t;
}

PackedTotals packed_totals(const PackedRows *p) {
    const int64_t all_rows = p->heads_q / p->heads_kv * p->len_q; // of a KV head
    PackedTotals totals = {0, 0, 0};
    // TODO 6: the tiles of one KV head, then those of all
    (void)all_rows;
    // END 6
    return totals;
}
