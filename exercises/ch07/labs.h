// Chapter 7's labs: what they are given, and the functions that you write. README.md beside this
// file says what each lab is about. This header stays as it is.
//
// T is the number of queries, S of keys. A query's own key is key i + (S - T), so that the last
// query stands at the last key (bottom-right aligned). A row that sees no key gets O = 0 and
// LSE = -infinity. Keys that a row does not see may hold NaN; none of it may reach the row.
#ifndef CH07_LABS_H
#define CH07_LABS_H

#include "common/attn.h"
#include "common/gpu.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- of several labs ----------------------------------------------------------------------------

// What the queries of a block see of a tile of keys.
typedef enum TileClass {
    TILE_SKIP,    // nothing: it need not be loaded
    TILE_PARTIAL, // some pairs: every score is asked for
    TILE_FULL,    // all pairs: nothing is asked
} TileClass;

// ---- lab 1: sinks and a window ------------------------------------------------------------------

// Attention over the first `sinks` keys and a causal window. Query i, whose own key is
// i + (S - T), sees key j when
//     j <= own  and  (j < sinks  or  window == 0  or  j > own - window)
// All pointers are to device memory. Lengths, sinks and window are at most 2^28.
typedef struct SinkWindow {
    const float *q;    // [heads][len_q][dim]
    const float *k;    // [heads][len_kv][dim]
    const float *v;    // [heads][len_kv][dim]
    float *o;          // [heads][len_q][dim]
    float *lse;        // [heads][len_q]
    int *masked;       // [heads][ceil(len_q / SINK_TILE)] visited tiles that are not full
    int heads;         // 1 or more
    int len_q, len_kv; // T and S, 1 or more; either may be the longer one
    int dim;           // 1..SINK_MAX_DIM
    int sinks;         // 0 or more, also more than S
    int window;        // keys of the window, the query's own counted; 0: no limit
    float scale;       // multiplies q . k
} SinkWindow;

// Lab 1. O and LSE. A block has SINK_TILE queries of a head, and visits tiles of SINK_TILE keys:
// those of which at least one of its queries sees a key, each of them once. K and V of other tiles
// are not loaded. A tile is full when every query of the block that exists sees all its SINK_TILE
// keys. A negative window or a negative number of sinks is ATTN_ERR_ARGUMENT with a message
// (attn_fail) that names the argument and its value, and nothing is launched; otherwise the result
// is LAUNCH's.
enum { SINK_TILE = 16, SINK_MAX_DIM = 64 };
GPU_DECLARE(sink_window_attention, (const SinkWindow *attention, GpuStream stream));

// ---- lab 2: prefix-LM ---------------------------------------------------------------------------

// The first `prefix` keys (a prompt, an image) are visible to every query, in both directions; the
// others causally: query i sees key j when j < prefix or j <= i + (S - T).
typedef struct PrefixMask {
    int64_t len_q;  // T, 1..2^30
    int64_t len_kv; // S, 1..2^30; either may be the longer one
    int64_t prefix; // P, 0..S
} PrefixMask;

// Lab 2. Whether query `row` (0..T-1) sees `key` (0..S-1).
bool prefix_sees(const PrefixMask *mask, int64_t row, int64_t key);

// Lab 2. What queries row0 .. row0 + rows - 1 see of keys key0 .. key0 + keys - 1, in a few
// comparisons: it looks at no single pair. rows and keys are 1 or more. Rows from T on do not
// count; keys from S on are seen by nobody, so that a tile which reaches behind S is never full,
// and one without an existing row is TILE_SKIP.
TileClass prefix_tile(const PrefixMask *mask, int64_t row0, int64_t rows, int64_t key0,
                      int64_t keys);

typedef struct PrefixTotals {
    int64_t pairs;   // (query, key) that are visible
    int64_t visited; // tiles that are partial or full
    int64_t partial;
} PrefixTotals;

// Lab 2. The sums over the whole problem, tiles of block_q x block_k from 0 on. Looks at each block
// of queries once, and at no single tile; the pairs come from a formula.
PrefixTotals prefix_totals(const PrefixMask *mask, int64_t block_q, int64_t block_k);

// ---- lab 3: packed documents --------------------------------------------------------------------

// Several documents one behind the other in one row. Document d has queries q_offsets[d] ..
// q_offsets[d + 1] - 1 and keys k_offsets[d] .. k_offsets[d + 1] - 1. It may have fewer queries
// than keys (the rest of it is in a cache), more, or none of one or both.
typedef struct Documents {
    int64_t count;            // 1 or more
    const int64_t *q_offsets; // [count + 1] the first is 0
    const int64_t *k_offsets; // [count + 1]
} Documents;

// Lab 3. Offsets [count + 1] from lengths [count], each 0 or more: where each document begins, and
// behind them where the last one ends.
void document_offsets(int64_t count, const int64_t *lens, int64_t *offsets);

// Lab 3. The keys that query `row` sees, counted over all documents: those of its own document up
// to its own key, where the document's last query stands at the document's last key.
KeyRange document_keys(const Documents *documents, int64_t row);

// Lab 3. What rows with these ranges see of keys key0 .. key0 + keys - 1 (keys 1 or more).
TileClass document_tile(const KeyRange *ranges, int64_t rows, int64_t key0, int64_t keys);

// A matrix in slow memory that is read in tiles, and counts what is read.
typedef struct SlowRows {
    const float *data; // [rows][columns]
    int64_t rows, columns;
    int64_t loaded; // rows read so far
} SlowRows;

// Copies rows first .. first + count - 1 into tile [count][columns]; what lies behind the end
// becomes NaN, and is not counted.
static inline void load_rows(SlowRows *from, int64_t first, int64_t count, float *tile) {
    for (int64_t r = 0; r < count; r++) {
        const bool exists = first + r < from->rows;
        for (int64_t c = 0; c < from->columns; c++) {
            tile[r * from->columns + c] =
                exists ? from->data[(first + r) * from->columns + c] : NAN;
        }
        from->loaded += exists ? 1 : 0;
    }
}

// One head, and the memory that it is computed in.
typedef struct DocumentAttention {
    Documents documents;
    int64_t dim;              // 1 or more
    int64_t block_q, block_k; // 1 or more, also larger than the problem
    float scale;              // multiplies q . k
    const float *q;           // [queries][dim]
    SlowRows k, v;            // [keys][dim]
    float *o;                 // [queries][dim]
    float *lse;               // [queries]
    int64_t masked;           // visited tiles that are not full
    KeyRange *ranges;         // [block_q]
    float *m, *l;             // [block_q]
    float *k_tile, *v_tile;   // [block_k][dim]
    float *scores;            // [block_k]
} DocumentAttention;

// Lab 3. O and LSE of all queries. A block of queries loads the tiles of keys of which one of its
// queries sees a key, each once, whatever number of documents it reaches into.
void document_attention(DocumentAttention *a);

// ---- lab 4: block lists from any mask -----------------------------------------------------------

// Whether query `row` sees `key`. May be asked for 0 <= row < len_q and 0 <= key < len_kv only.
typedef bool Sees(const void *context, int64_t row, int64_t key);

// Any mask at all, and the blocks it is to be cut into.
typedef struct AnyMask {
    Sees *sees;
    const void *context;      // handed to `sees`
    int64_t len_q, len_kv;    // 0 or more
    int64_t block_q, block_k; // 1 or more, up to INT64_MAX
} AnyMask;

// Which key blocks each block of queries visits, in compressed sparse rows: query block i visits
// blocks[offsets[i]] .. blocks[offsets[i + 1] - 1].
typedef struct BlockCsr {
    int64_t query_blocks; // ceil(len_q / block_q)
    int64_t key_blocks;   // ceil(len_kv / block_k)
    int64_t *offsets;     // [query_blocks + 1]
    int32_t *blocks;      // [offsets[query_blocks]] ascending within a query block
    uint8_t *full;        // [offsets[query_blocks]] 1: nothing need be asked; 0: every pair
} BlockCsr;

// Lab 4. ceil(len / block), for every len from 0 and every block from 1 on, INT64_MAX included.
int64_t blocks_of(int64_t len, int64_t block);

// Lab 4. What the mask lets a query block see of a key block (both exist). Rows from len_q on do
// not count; a key block that reaches behind len_kv is never full.
TileClass block_class(const AnyMask *mask, int64_t query_block, int64_t key_block);

// Lab 4. The list of all blocks that are not TILE_SKIP, in memory of exactly the size that is
// needed (NULL for none), which csr_free frees. Asks for each pair at most twice. More than
// INT32_MAX key blocks are ATTN_ERR_UNSUPPORTED, too little memory is ATTN_ERR_MEMORY; *csr is
// zeroed then.
AttnStatus csr_build(BlockCsr *csr, const AnyMask *mask);
void csr_free(BlockCsr *csr);

#ifdef __cplusplus
}
#endif

#endif
