// Chapter 4's labs: what they are given, and the functions that you write. README.md beside this
// file says what each lab is about. This header stays as it is.
#ifndef CH04_LABS_H
#define CH04_LABS_H

#include "common/attn.h"

#include <stdbool.h>
#include <stdint.h>

// ---- lab 1: keys outside ------------------------------------------------------------------------

// A matrix in slow memory, row-major. It is read and written in tiles, and counts what passes.
typedef struct SlowMatrix {
    float *data;           // [rows][columns]
    int64_t rows, columns; // 0 rows are legal
    int64_t loaded;        // elements that load_tile has read so far
    int64_t stored;        // elements that store_tile has written so far
} SlowMatrix;

// Copies rows first .. first+rows-1 into tile [rows][columns]. Rows behind the end of the matrix
// are filled with 0 and not counted, as the copy units of a GPU do it.
static inline void load_tile(SlowMatrix *from, int64_t first, int64_t rows, float *tile) {
    for (int64_t r = 0; r < rows; r++) {
        const bool exists = first + r < from->rows;
        for (int64_t c = 0; c < from->columns; c++) {
            const int64_t element = (first + r) * from->columns + c;
            tile[r * from->columns + c] = exists ? from->data[element] : 0.0f;
        }
        from->loaded += exists ? from->columns : 0;
    }
}

// Copies tile [rows][columns] to rows first .. first+rows-1, all of which must exist.
static inline void store_tile(SlowMatrix *to, int64_t first, int64_t rows, const float *tile) {
    for (int64_t e = 0; e < rows * to->columns; e++) {
        to->data[first * to->columns + e] = tile[e];
    }
    to->stored += rows * to->columns;
}

// One head, not causal, and the fast memory it is computed in. The tiles hold NaN at first.
typedef struct KeysOutside {
    int64_t block_q, block_k; // at least 1 each, also larger than the problem
    float scale;              // multiplies the scores
    SlowMatrix q;             // [T][d]
    SlowMatrix k, v;          // [S][d]
    SlowMatrix o;             // [T][d] sum of exp(score - m) v so far; at the end the output
    SlowMatrix m;             // [T][1] the largest score so far; at the end the row's LSE
    SlowMatrix l;             // [T][1] the sum of exp(score - m) so far
    float *q_tile, *o_tile;   // [block_q][d]
    float *k_tile, *v_tile;   // [block_k][d]
    float *m_tile, *l_tile;   // [block_q]
    float *s_tile;            // [block_q][block_k] scores
} KeysOutside;

// Lab 1. O = softmax(scale Q K^T) V and the LSE, block of keys by block of keys. What passes:
//   K and V  loaded once in all
//   Q        loaded once for every block of keys
//   O, m, l  stored once for every block of keys, and loaded once for each but the first
// With S = 0 O is 0 and the LSE -infinity.
void keys_outside_attention(KeysOutside *a);

// ---- lab 2: block pairs under a causal mask with a window ---------------------------------------

// Which keys the queries of one head see. Causal is bottom-right aligned: query i sees key j when
// j <= i + (S - T). A window of W keys counts the query's own: j > i + (S - T) - W as well.
typedef struct TileMask {
    int64_t len_q;  // T, 1 or more
    int64_t len_kv; // S, 1 or more; T and S may differ either way
    bool causal;
    int64_t window; // W, 1 or more; 0 = unlimited; always 0 when not causal
} TileMask;

// Query rows row_begin .. row_end-1 with keys key_begin .. key_end-1. Never empty, and inside the
// problem: at its end a tile is smaller than the others.
typedef struct Tile {
    int64_t row_begin, row_end;
    int64_t key_begin, key_end;
} Tile;

typedef enum TileClass {
    TILE_SKIP,    // no row of the tile sees a key of it: it need not be computed
    TILE_PARTIAL, // some pairs are visible and some are not: computed with the mask
    TILE_FULL,    // every row sees every key: computed without looking at the mask
} TileClass;

// Lab 2. The class of one tile, in a few comparisons: it looks at no single row or key.
TileClass classify_tile(const TileMask *mask, const Tile *tile);

typedef struct TileTotals {
    int64_t visited; // partial and full tiles
    int64_t full;
    int64_t partial;
    int64_t all; // visited and skipped
} TileTotals;

// Lab 2. How many tiles of each class `heads` heads of the problem have, with blocks of block_q
// rows and block_k keys from 0 on, the last ones smaller. Looks at each block of rows once, not at
// each tile: a million tokens in blocks of 16 have 2^32 tiles a head.
TileTotals count_tiles(const TileMask *mask, int64_t block_q, int64_t block_k, int64_t heads);

// ---- lab 3: block sizes for a cache -------------------------------------------------------------

// A fast memory, and the problem whose tiles it has to hold.
typedef struct CacheBudget {
    int64_t bytes;        // M: what all tiles together may take
    int64_t len_q;        // T, 0 or more
    int64_t len_kv;       // S, 0 or more
    int64_t dim;          // d, 1 or more
    int64_t element_size; // bytes of one element of Q, K, V and O in slow memory: 4 or 2
    int64_t granule;      // block sizes are multiples of this, 1 or more
} CacheBudget;

typedef struct BlockChoice {
    int64_t block_q, block_k;
    int64_t tile_bytes; // what the tiles of these blocks take in fast memory
    int64_t traffic;    // bytes between slow memory and the tiles, one head, not causal
} BlockChoice;

// Lab 3. Bytes in fast memory of the tiles of one block pair: Q [block_q][d] and K and V
// [block_k][d] in the storage type; O [block_q][d], the scores [block_q][block_k], and m and l
// [block_q] in float, 4 bytes.
int64_t tiles_bytes(const CacheBudget *cache, int64_t block_q, int64_t block_k);

// Lab 3. The rule. Both blocks are multiples of the granule, at least one granule, and at most the
// smallest multiple that covers T (block_q) or S (block_k). block_q is the largest that fits
// together with one granule of keys, because the traffic falls with block_q alone; block_k is then
// the largest that fits. traffic: Q and O once, K and V once for every block of queries.
// Where one granule of each does not fit: ATTN_ERR_UNSUPPORTED with a message (attn_fail) that
// names the bytes needed and the bytes there are, and *choice is not written.
AttnStatus choose_blocks(const CacheBudget *cache, BlockChoice *choice);

#endif
