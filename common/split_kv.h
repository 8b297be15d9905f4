// Splitting the keys of a decode step (chapter 6), for every chapter after it: how many parts,
// where they lie in a workspace, and the parameters of kernels that pack rows of queries by KV
// head.
#ifndef COMMON_SPLIT_KV_H
#define COMMON_SPLIT_KV_H

#include "common/attn.h"
#include "common/dtype.h"
#include "common/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

// Heads times tiles of rows that have a counter in a workspace. With more of them the GPU is full
// without splitting: one part is made of all keys, whatever splits is.
enum { SPLIT_KV_MAX_UNITS = 1 << 14 };
enum { SPLIT_KV_THREADS = 128 }; // of a block
// The fewest keys that are worth a block of their own, and what a block costs besides its keys, in
// keys: where several of SPLIT_KV_THREADS share an SM, and fill in for each other.
enum { SPLIT_KV_MIN_KEYS = 64, SPLIT_KV_BLOCK_COST = 64 };
// The kernels with a matrix instruction (common/mma_rows.h): threads of a block; keys that it takes
// in a step, and a part has at least; what it costs besides its keys. It has an SM to itself, or
// shares it with one other: while it begins or ends, little else goes on there.
enum { SPLIT_KV_MMA_THREADS = 256, SPLIT_KV_MMA_KEYS = 128, SPLIT_KV_MMA_BLOCK_COST = 512 };

// Blocks over the blocks that a GPU holds at a time: 1 is a full wave. 0 where slots is 0.
double split_kv_waves(double blocks, double slots);

// The number of parts by chapter 6's model: units s blocks run in ceil(units s / slots) waves, each
// as long as ceil(keys / s) keys and a fixed cost worth block_cost keys. s from 1 to keys /
// min_keys; of equals the smallest. At least 1, also where units, keys or slots is 0.
int64_t split_kv_choose(int64_t units, int64_t keys, int64_t slots, int64_t min_keys,
                        int64_t block_cost);

// What the kernels of chapters 8 and 9 get. The rows of a KV head are packed: row r of KV head h is
// token r / group of query head h * group + r % group, so that a tile of rows has few tokens, and
// all of its rows read the same keys. KV heads are numbered over the batch.
typedef struct SplitKvParams {
    const void *q;          // [batch][heads_q][len_q][dim]
    const void *k;          // [batch][heads_kv][len_kv][dim]; of a paged cache: its pages
    const void *v;          // the same
    void *o;                // [batch][heads_q][len_q][dim]
    float *lse;             // [batch][heads_q][len_q]
    const int32_t *kv_lens; // [batch], or NULL
    float *part_o;          // [units of rows: batch * heads_q * len_q, as q][splits][dim]
    float *part_lse;        // [batch * heads_q * len_q][splits]
    unsigned *counters;     // [units]: parts that are done; 0 between launches
    int heads_q, heads_kv;  // of an entry
    int group;              // heads_q / heads_kv
    int batch, len_q, len_kv, dim;
    int rows;  // of a KV head: group * len_q
    int tiles; // of rows, of a KV head: ceil(rows / rows of a tile)
    int units; // batch * heads_kv * tiles; 0: nothing to do
    int causal, window;
    int splits;    // parts that a tile has at most: of len_kv, or of what its windows cover
    int part_keys; // ceil(len_kv / splits), at least 1: a tile that sees n keys has ceil(n /
                   // part_keys) parts. On CUDA cores a part is so many keys that follow each other;
                   // with the matrix instruction the parts take steps of SPLIT_KV_MMA_KEYS in turn.
    float scale;
    int vectors; // 1: rows begin at multiples of eight elements, and may be read eight at a time
} SplitKvParams;

// Bytes of workspace for tiles of tile_rows packed rows: counters, part_lse, part_o. For a legal
// shape and splits. A workspace is 256-byte aligned.
size_t split_kv_workspace_bytes(const AttnShape *shape, int64_t tile_rows, int64_t splits);

// Makes a workspace of `bytes` bytes ready for its first launch. On the stream.
AttnStatus split_kv_workspace_clear(GpuTarget target, void *workspace, size_t bytes,
                                    GpuStream stream);

// Checks shape, dtype (f32, f16, bf16), pointers, splits; *params is filled when the result is
// ATTN_OK. max_dim: the kernel's. Errors as in chapter 6's decode.h, but windows are allowed.
AttnStatus split_kv_prepare(SplitKvParams *params, const AttnShape *shape, DType dtype,
                            const void *q, const void *k, const void *v, void *o, float *lse,
                            const int32_t *kv_lens, int64_t tile_rows, int64_t splits,
                            int64_t max_dim, void *workspace);

// Packed rows of a tile for this shape: 1, 4 or 8 on CUDA cores, 8 or 16 in a matrix instruction.
int64_t split_kv_core_rows(const AttnShape *shape);
int64_t split_kv_mma_rows(const AttnShape *shape);

// Parts of len_kv, of min_keys keys or more, for a device that holds `slots` blocks at a time, each
// at a fixed cost of block_cost keys; ragged lengths (shape->kv_lens) are cut as their mean length
// asks.
int64_t split_kv_splits(const AttnShape *shape, int64_t tile_rows, int64_t slots, int64_t min_keys,
                        int64_t block_cost);

// The splits that the kernels with a matrix instruction make of those asked for: no more than leave
// each part of len_kv a step of SPLIT_KV_MMA_KEYS keys; one where there are fewer keys. Errors of
// split_kv_prepare name this number.
int64_t split_kv_mma_limit(const AttnShape *shape, int64_t splits);

// What split_kv_splits chooses for these kernels, of which an SM holds two blocks at d = 64 and one
// at d = 128.
int64_t split_kv_mma_splits(const AttnShape *shape, const GpuProperties *properties);

#ifdef __cplusplus
}
#endif

#endif
