// Lab 1: tiled attention with the keys in the outer loop.
//
// The chapter keeps a block of queries in fast memory and sends all keys past it. Here a block of
// keys stays and the queries go past it, as in the first FlashAttention. A block of queries is then
// never finished until the last block of keys, so its O, m and l live in slow memory, and come and
// go with it.
#include "labs.h"

#include <math.h>

// Sets the tiles to what every row starts from: m = -INFINITY, l = 0, O = 0.
static void begin_rows(KeysOutside *a) {
    for (int64_t e = 0; e < a->block_q * a->o.columns; e++) {
        a->o_tile[e] = 0.0f;
    }
    for (int64_t i = 0; i < a->block_q; i++) {
        a->m_tile[i] = -INFINITY;
        a->l_tile[i] = 0.0f;
    }
}

// Loads the state of the rows first .. first+block_q-1, as an earlier block of keys left it.
static void load_rows(KeysOutside *a, int64_t first) {
    load_tile(&a->o, first, a->block_q, a->o_tile);
    load_tile(&a->m, first, a->block_q, a->m_tile);
    load_tile(&a->l, first, a->block_q, a->l_tile);
}

// Stores the state of `rows` rows, all of which must exist.
static void store_rows(KeysOutside *a, int64_t first, int64_t rows) {
    store_tile(&a->o, first, rows, a->o_tile);
    store_tile(&a->m, first, rows, a->m_tile);
    store_tile(&a->l, first, rows, a->l_tile);
}

// The score tile. Only the first `keys` keys of the tile exist. load_tile has filled the others
// with 0, and the score of such a key would be 0, not -INFINITY.
static void score_tile(KeysOutside *a, int64_t keys) {
    const int64_t dim = a->q.columns;
    for (int64_t i = 0; i < a->block_q; i++) {
        const float *q = a->q_tile + i * dim;
        float *s = a->s_tile + i * a->block_k;
        // TODO 1: s[0] .. s[block_k - 1], the scaled scores of this row
        (void)q, (void)s, (void)keys;
        // END 1
    }
}

// The online softmax of chapter 2, for every row of the tile. The first key of a block always
// exists, so that no row's maximum is -INFINITY after it.
static void add_tile(KeysOutside *a) {
    const int64_t dim = a->q.columns;
    for (int64_t i = 0; i < a->block_q; i++) {
        const float *s = a->s_tile + i * a->block_k;
        float *o = a->o_tile + i * dim;
        // TODO 2: m_tile[i], l_tile[i] and o corrected to the new maximum, and the block added
        (void)s, (void)o;
        // END 2
    }
}

// Turns the state of the rows in the tiles into the result: O divided, the LSE in m's place.
static void finish_tile(KeysOutside *a) {
    const int64_t dim = a->q.columns;
    for (int64_t i = 0; i < a->block_q; i++) {
        // TODO 3: row i of o_tile, and m_tile[i]
        (void)dim;
        // END 3
    }
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

void keys_outside_attention(KeysOutside *a) {
    const int64_t len_q = a->q.rows, len_kv = a->k.rows;
    if (len_kv == 0) { // no block of keys will come: the state of every row is its result
        begin_rows(a);
        for (int64_t i = 0; i < len_q; i += a->block_q) {
            store_rows(a, i, smaller(a->block_q, len_q - i));
        }
    }
    // Keys outside, queries inside; K and V are loaded outside of the inner loop. The first block
    // of keys has no state to load. The last one finishes the rows: a pass over them of its own
    // would load and store O once more.
    // TODO 4: the two loops
    (void)load_rows, (void)score_tile, (void)add_tile, (void)finish_tile;
    // END 4
}
