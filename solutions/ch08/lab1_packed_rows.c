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
    // GAP 1: head and token, in the order of p->order
    const int64_t group = p->heads_q / p->heads_kv;
    const bool by_token = p->order == TOKEN_MAJOR;
    query.head = kv_head * group + (by_token ? row % group : row / p->len_q);
    query.token = by_token ? row / group : row % p->len_q;
    // END 1
    return query;
}

PackedPlace packed_place(const PackedRows *p, HeadToken query) {
    PackedPlace place = {0, 0};
    // GAP 2: the KV head that the query's head reads, and the row
    const int64_t group = p->heads_q / p->heads_kv, number = query.head % group;
    place.kv_head = query.head / group;
    place.row =
        p->order == TOKEN_MAJOR ? query.token * group + number : number * p->len_q + query.token;
    // END 2
    return place;
}

// The keys that a token's queries see.
static KeyRange token_keys(const PackedRows *p, int64_t token) {
    KeyRange keys = {0, 0};
    // GAP 3: causal, aligned at the bottom right, with the window; a token before key 0 sees none
    const int64_t end = token + p->len_kv - p->len_q + 1;
    if (end > 0) {
        keys.begin = p->window > 0 ? larger(end - p->window, 0) : 0;
        keys.end = end;
    }
    // END 3
    return keys;
}

KeyRange packed_keys(const PackedRows *p, int64_t row) {
    KeyRange keys = {0, 0};
    // GAP 4: the same for a packed row
    keys = token_keys(p, packed_source(p, 0, row).token);
    // END 4
    return keys;
}

PackedTile packed_tile(const PackedRows *p, int64_t tile) {
    const int64_t all_rows = p->heads_q / p->heads_kv * p->len_q; // of a KV head
    const int64_t row0 = tile * p->tile_rows;
    PackedTile t = {0, {0, 0}, {0, 0}};
    // GAP 5: the number of rows; the least and the greatest token among them; the two ranges. Some
    // tokens may see no key. In head-major order a tile may go from one head to the next.
    t.rows = smaller(p->tile_rows, all_rows - row0);
    const int64_t last_row = row0 + t.rows - 1;
    int64_t least = packed_source(p, 0, row0).token, greatest = packed_source(p, 0, last_row).token;
    if (p->order == HEAD_MAJOR && row0 / p->len_q != last_row / p->len_q) {
        least = 0; // of the next head
        greatest = p->len_q - 1;
    }
    const KeyRange first = token_keys(p, least), last = token_keys(p, greatest);
    t.any = (KeyRange){first.begin, last.end}; // both grow from token to token
    t.all = (KeyRange){last.begin, larger(first.end, last.begin)};
    // END 5
    return t;
}

PackedTotals packed_totals(const PackedRows *p) {
    const int64_t all_rows = p->heads_q / p->heads_kv * p->len_q; // of a KV head
    PackedTotals totals = {0, 0, 0};
    // GAP 6: the tiles of one KV head, then those of all
    const int64_t tiles = (all_rows + p->tile_rows - 1) / p->tile_rows;
    for (int64_t i = 0; i < tiles; i++) {
        const PackedTile t = packed_tile(p, i);
        totals.idle += p->heads_kv * (p->tile_rows - t.rows);
        totals.requested += p->heads_kv * (t.any.end - t.any.begin);
    }
    totals.tiles = p->heads_kv * tiles;
    // END 6
    return totals;
}
