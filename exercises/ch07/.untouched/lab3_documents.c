// Lab 3: attention over packed documents, several in one row, of which each sees itself alone.
//
// The loop is chapter 4's, a block of queries at a time. A block may reach into several documents,
// so its queries do not see neighbouring ranges: every query has a range of its own, and the class
// of a tile follows from these.
#include "labs.h"

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

void document_offsets(int64_t count, const int64_t *lens, int64_t *offsets) {
    // TODO 1: count + 1 offsets, the last of them the sum of all lengths
    (void)count, (void)lens, (void)offsets;
    // END 1
}

KeyRange document_keys(const Documents *documents, int64_t row) {
    const int64_t *q = documents->q_offsets, *k = documents->k_offsets;
    int64_t d = 0;
    KeyRange range = {0, 0};
    // TODO 2: which document the query is of (documents without queries are passed over), and what
    // it sees of its keys; begin == end where that is nothing
    (void)q, (void)k, (void)d, (void)row;
    // END 2
    return range;
}

TileClass document_tile(const KeyRange *ranges, int64_t rows, int64_t key0, int64_t keys) {
    bool some = false, all = true; // queries that see a key of the tile; that see all of them
    // TODO 3: both, from the ranges; a range may be empty
    (void)ranges, (void)rows, (void)key0, (void)keys;
    // END 3
    return !some ? TILE_SKIP : all ? TILE_FULL : TILE_PARTIAL;
}

// Takes a tile of keys into a query's state: o [dim] (not divided yet), m and l. Only the keys of
// `range` count, or all of the tile where it is full; they are numbered over all documents.
static void take_tile(const DocumentAttention *a, const float *q, KeyRange range, int64_t key0,
                      bool full, float *o, float *m, float *l) {
    const int64_t dim = a->dim;
    float *s = a->scores; // [block_k]
    // TODO 4: the first and the last key of the tile that count; their scores; o, m and l over them
    (void)q, (void)range, (void)key0, (void)full, (void)o, (void)m, (void)l, (void)dim, (void)s;
    // END 4
}

// From the first key that one of the rows sees to the last; where none sees any, end is 0.
static KeyRange keys_of_block(const KeyRange *ranges, int64_t rows) {
    KeyRange keys = {INT64_MAX, 0};
    for (int64_t r = 0; r < rows; r++) {
        if (ranges[r].begin < ranges[r].end) {
            keys.begin = smaller(keys.begin, ranges[r].begin);
            keys.end = larger(keys.end, ranges[r].end);
        }
    }
    return keys;
}

static void begin_block(DocumentAttention *a, int64_t row0, int64_t rows) {
    for (int64_t r = 0; r < rows; r++) {
        a->ranges[r] = document_keys(&a->documents, row0 + r);
        a->m[r] = -INFINITY;
        a->l[r] = 0.0f;
        for (int64_t c = 0; c < a->dim; c++) {
            a->o[(row0 + r) * a->dim + c] = 0.0f;
        }
    }
}

static void end_block(DocumentAttention *a, int64_t row0, int64_t rows) {
    for (int64_t r = 0; r < rows; r++) {
        // TODO 5: O divided, and the LSE
        (void)a, (void)row0;
        // END 5
    }
}

void document_attention(DocumentAttention *a) {
    const int64_t queries = a->documents.q_offsets[a->documents.count];
    for (int64_t row0 = 0; row0 < queries; row0 += a->block_q) {
        const int64_t rows = smaller(a->block_q, queries - row0);
        begin_block(a, row0, rows);
        const KeyRange keys = keys_of_block(a->ranges, rows);
        for (int64_t key0 = keys.begin / a->block_k * a->block_k; key0 < keys.end;
             key0 += a->block_k) {
            const TileClass class = document_tile(a->ranges, rows, key0, a->block_k);
            if (class == TILE_SKIP) {
                continue; // of a document that has keys and no queries
            }
            a->masked += class == TILE_PARTIAL ? 1 : 0;
            load_rows(&a->k, key0, a->block_k, a->k_tile);
            load_rows(&a->v, key0, a->block_k, a->v_tile);
            for (int64_t r = 0; r < rows; r++) {
                take_tile(a, a->q + (row0 + r) * a->dim, a->ranges[r], key0, class == TILE_FULL,
                          a->o + (row0 + r) * a->dim, &a->m[r], &a->l[r]);
            }
        }
        end_block(a, row0, rows);
    }
}
