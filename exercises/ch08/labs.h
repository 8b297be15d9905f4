// Chapter 8's labs: what they are given, and the functions that you write. README.md beside this
// file says what each lab is about. This header stays as it is.
//
// T is the number of queries (tokens), S of keys. Query head h reads KV head h / group, where group
// = heads_q / heads_kv. A query's own key is key i + (S - T), so that the last query stands at the
// last key (bottom-right aligned). A row that sees no key gets O = 0 and LSE = -infinity.
#ifndef CH08_LABS_H
#define CH08_LABS_H

#include "common/attn.h" // KeyRange: a half-open range of keys, begin .. end - 1
#include "common/gpu.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- lab 1: packed rows -------------------------------------------------------------------------

// In which order the queries of a group, one for each of its heads and each token, are the packed
// rows 0 .. group T - 1 of their KV head. A head's number within its group is 0 .. group - 1.
typedef enum RowOrder {
    TOKEN_MAJOR, // row = token * group + number of the head: the rows of a token lie side by side
    HEAD_MAJOR,  // row = number of the head * T + token: the rows of a head lie side by side
} RowOrder;

typedef struct PackedRows {
    int64_t heads_q, heads_kv; // 1 or more; heads_kv divides heads_q
    int64_t len_q;             // T, 1..2^30
    int64_t len_kv;            // S, 1..2^30; either may be the longer one
    int64_t window;            // keys of the causal window, the query's own counted; 0: no limit
    int64_t tile_rows;         // packed rows of a tile, 1..2^30
    RowOrder order;
} PackedRows;

// A query: its head, of all query heads, and its token.
typedef struct HeadToken {
    int64_t head, token;
} HeadToken;

// Lab 1. The query that is packed row `row` of a KV head.
HeadToken packed_source(const PackedRows *p, int64_t kv_head, int64_t row);

// Lab 1. The other way round: of which KV head a query is a row, and which one.
typedef struct PackedPlace {
    int64_t kv_head, row;
} PackedPlace;
PackedPlace packed_place(const PackedRows *p, HeadToken query);

// Lab 1. The keys that a packed row sees; the mask is causal. 0 and 0 where it sees none.
KeyRange packed_keys(const PackedRows *p, int64_t row);

// A tile of a KV head's packed rows: tile * tile_rows and those behind it, as far as there are any.
typedef struct PackedTile {
    int64_t rows; // that there are: tile_rows, or in the last tile what remains
    KeyRange any; // what is loaded: from the least begin to the greatest end of its rows' ranges,
                  // of which a row that sees no key has 0 and 0
    KeyRange all; // the keys that each of the rows sees, which need no mask
} PackedTile;

// Lab 1. Tile number `tile`, which has at least one row. In a few steps, however many rows it has:
// it does not go through them. Where no key is in a range, begin == end, whatever they are.
PackedTile packed_tile(const PackedRows *p, int64_t tile);

typedef struct PackedTotals {
    int64_t tiles;     // of all KV heads; no tile has rows of two of them
    int64_t idle;      // rows that are not there, of all tiles
    int64_t requested; // rows of K that all tiles request together: each its `any`, once
} PackedTotals;

// Lab 1. The sums for all KV heads. Looks at each tile of one KV head once, since the others' are
// the same.
PackedTotals packed_totals(const PackedRows *p);

// ---- lab 2: a chunk in tiles of packed rows -----------------------------------------------------

// A chunk of T tokens, or a decode step (T = 1), causal. All pointers are to device memory. Lengths
// and the window are at most 2^28, and so is each product of a number of heads and a length.
typedef struct GroupedChunk {
    const float *q;         // [heads_q][len_q][dim]
    const float *k;         // [heads_kv][len_kv][dim]
    const float *v;         // [heads_kv][len_kv][dim]
    float *o;               // [heads_q][len_q][dim]
    float *lse;             // [heads_q][len_q]
    int heads_q, heads_kv;  // see below
    int len_q, len_kv, dim; // T and S, 1 or more; dim 1..CHUNK_MAX_DIM
    int window;             // keys of the causal window, the query's own counted; 0: no limit
    float scale;            // multiplies q . k
} GroupedChunk;

// Lab 2. O and LSE. A block has CHUNK_TILE packed rows of a KV head, and loads the tiles of
// CHUNK_TILE keys of which one of its rows sees a key, each once. heads_kv must be 1 or more and
// divide heads_q, which is 1 or more: otherwise ATTN_ERR_SHAPE with a message (attn_fail) that has
// both numbers, and nothing is launched. Otherwise the result is LAUNCH's.
enum { CHUNK_TILE = 16, CHUNK_MAX_DIM = 64 };
GPU_DECLARE(grouped_chunk, (const GroupedChunk *chunk, GpuStream stream));

// ---- lab 3: multi-query decode ------------------------------------------------------------------

// A decode step of multi-query attention: one query for each head, and one KV head for all of them.
// Each entry of the batch has a number of keys of its own, lens[entry]; what lies behind is not
// read. The keys of an entry are cut into `parts` parts of ceil(lens[entry] / parts) keys each, of
// which the last ones may have fewer, or none. Lengths are at most 2^28. All pointers are to device
// memory.
typedef struct MqaDecode {
    const float *q;  // [batch][heads][dim]
    const float *k;  // [batch][len_kv][dim]
    const float *v;  // [batch][len_kv][dim]
    const int *lens; // [batch] 0..len_kv
    float *o;        // [batch][heads][dim]
    float *lse;      // [batch][heads]
    float *part_o;   // [batch][parts][heads][dim] the workspace
    float *part_lse; // [batch][parts][heads]
    int batch;       // 1 or more
    int heads;       // 1..MQA_MAX_HEADS
    int len_kv;      // 1 or more
    int dim;         // 1..MQA_MAX_DIM
    int parts;       // 1 or more, also more than there are keys
    float scale;     // multiplies q . k
} MqaDecode;

// Lab 3. O and LSE. The parts of an entry run in different blocks, as many as there are parts; each
// row of K and of V is requested once in the whole launch. The result is LAUNCH's.
enum { MQA_MAX_HEADS = 64, MQA_MAX_DIM = 64 };
GPU_DECLARE(mqa_decode, (const MqaDecode *decode, GpuStream stream));

#ifdef __cplusplus
}
#endif

#endif
