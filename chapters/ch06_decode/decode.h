// Decode attention in CUDA: one query, or a few, against a long cache of keys and values.
//
// decode.cu            a block for each head: most of the GPU idles
// split_kv_unfused.cu  the keys split, every operation a launch of its own: why it cannot help
// split_kv.cu          the keys split, one kernel for the parts and one that merges them
// split_kv_fused.cu    one launch: the block that finishes last merges
//
// Rungs: decode.cu split_kv_unfused.cu split_kv.cu split_kv_fused.cu
//
// All take Q [batch][heads_q][len_q][dim], K and V [batch][heads_kv][len_kv][dim], O like Q, stored
// as f32, f16 or bf16, and LSE [batch][heads_q][len_q] in f32, in the memory of their target
// (common/gpu.h). Arithmetic is f32. dim is 1..256. They are made for len_q of 1 to 16, and right
// for any: four queries of a head share a block, so that keys are read once for each four queries.
//
// Masks: causal, and key lengths of their own for each batch entry. `kv_lens` [batch] is in the
// target's memory, read by the kernels (clamped to 0..len_kv), NULL where all entries have len_kv
// keys; shape->kv_lens, the same numbers in host memory, may be NULL even so. Windows are
// chapter 7.
//
// `splits`, at least 1, is the number of parts that len_kv keys are cut into: a part has
// ceil(len_kv / splits) keys, a shorter entry has fewer parts, and parts without keys cost nothing.
// Every number gives the same answer but for rounding; the same number gives the same bits. Where
// there are more than DECODE_MAX_UNITS heads times tiles of queries, one part is made of all keys,
// whatever `splits` says: there are blocks enough.
//
// The workspace has workspace_bytes bytes, 256-byte aligned, in the target's memory, and is made
// ready once by decode_workspace_clear. After that any number of launches may use it, one after the
// other, each with any shape and splits that it is large enough for: launches leave it ready. A
// captured graph may be replayed.
//
// Errors, for all: those of attn_check_shape and attn_check_pointers; ATTN_ERR_ARGUMENT for splits
// below 1, another dtype, a null workspace where one is needed, and shape->kv_lens without kv_lens;
// ATTN_ERR_UNSUPPORTED for dim, window, for more than 2^30 rows of queries or keys, and more parts
// than 2^30 in all; nothing is written then. ATTN_ERR_CUDA and what a launch on simt finds.
#ifndef CH06_DECODE_H
#define CH06_DECODE_H

#include "common/attn.h"
#include "common/dtype.h"
#include "common/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DECODE_MAX_DIM = 256 };

#define DECODE_ARGUMENTS                                                                           \
    (const AttnShape *shape, DType dtype, const void *q, const void *k, const void *v, void *o,    \
     float *lse, const int32_t *kv_lens, int64_t splits, void *workspace, GpuStream stream)
typedef AttnStatus DecodeEntry DECODE_ARGUMENTS;

GPU_DECLARE(decode, DECODE_ARGUMENTS); // splits is checked and not used
GPU_DECLARE(split_kv_unfused, DECODE_ARGUMENTS);
GPU_DECLARE(split_kv, DECODE_ARGUMENTS);
GPU_DECLARE(split_kv_fused, DECODE_ARGUMENTS);

// ---- the table ----------------------------------------------------------------------------------

typedef struct DecodeRung {
    const char *name;       // "split_kv"
    const char *file;       // "split_kv.cu"
    DecodeEntry *builds[3]; // by GpuTarget; NULL where the target was not built
    int launches;           // of one call
    // Bytes of workspace for a legal shape and splits; 0: none, and workspace may be NULL.
    size_t (*workspace_bytes)(const AttnShape *shape, int64_t splits);
} DecodeRung;

enum { DECODE_RUNGS = 4 };
extern const DecodeRung decode_rungs[DECODE_RUNGS]; // in the order of the ladder

// Makes a workspace of `bytes` bytes ready for its first launch. On the stream.
AttnStatus decode_workspace_clear(GpuTarget target, void *workspace, size_t bytes,
                                  GpuStream stream);

// ---- how many splits ----------------------------------------------------------------------------

// Blocks over the blocks that a GPU holds at a time: 1 is a full wave. 0 where slots is 0.
double decode_waves(double blocks, double slots);

// The number of parts that makes decode fastest by this model: `units` (batch * heads * tiles of
// queries) times s blocks run in ceil(units s / slots) waves, each as long as its ceil(keys / s)
// keys and a fixed cost worth `block_cost` keys (starting the block, writing its part, its share of
// the merge):
//     time(s) = ceil(units s / slots) (ceil(keys / s) + block_cost)
// where s counts the parts that have keys.
// s runs from 1 to keys / min_keys; of equals the smallest is taken. slots = SMs * blocks per SM.
// At least 1, also where units, keys or slots is 0.
int64_t choose_splits(int64_t units, int64_t keys, int64_t slots, int64_t min_keys,
                      int64_t block_cost);

// The fewest keys that are worth a block of their own, and what a block costs besides its keys,
// counted in keys: so chosen that the choice is close to the best of the sweeps measured on an H200
// (docs/benchmarks/h200.md).
enum { DECODE_MIN_KEYS = 64, DECODE_BLOCK_COST = 96 };

// Blocks of the kernels for this shape that the device holds at a time: SMs * blocks per SM.
int64_t decode_slots(const AttnShape *shape, DType dtype, const GpuProperties *properties);

// What choose_splits takes for this shape on this device for the kernels of this chapter:
// decode_slots, and the two constants above. Ragged lengths (shape->kv_lens) are cut as their mean
// length asks. Returns the splits of len_kv.
int64_t decode_splits(const AttnShape *shape, DType dtype, const GpuProperties *properties);

// ---- for the rungs ------------------------------------------------------------------------------

enum {
    DECODE_THREADS = 128,       // of a block
    DECODE_ROWS = 4,            // queries of a tile where len_q > 1
    DECODE_MAX_UNITS = 1 << 14, // heads times tiles of queries that have a counter in a workspace
    // Blocks that an SM shall hold, as the kernels' launch bounds ask: with one query to a tile and
    // storage of 16 or of 32 bits; with four.
    DECODE_BLOCKS_ONE_16 = 6,
    DECODE_BLOCKS_ONE_32 = 4,
    DECODE_BLOCKS_FOUR = 3,
};

// What every kernel of the chapter gets. Heads are numbered over the batch: head h of len_q rows is
// head h % heads_q of entry h / heads_q, and reads KV head h / group.
typedef struct DecodeParams {
    const void *q;          // [heads][len_q][dim]
    const void *k;          // [heads / group][len_kv][dim]
    const void *v;          // [heads / group][len_kv][dim]
    void *o;                // [heads][len_q][dim]
    float *lse;             // [heads][len_q]
    const int32_t *kv_lens; // [heads / heads_q], or NULL
    float *part_o;          // [heads][len_q][splits][dim] of the workspace: a part's O
    float *part_lse;        // [heads][len_q][splits] its LSE
    unsigned *counters;     // [heads][tiles of queries]: parts that are done; 0 between launches
    float *scores;          // split_kv_unfused's own
    int heads;              // batch * heads_q
    int heads_q;
    int group; // query heads that share a KV head
    int len_q, len_kv, dim;
    int causal;
    int dtype;     // DType of Q, K, V and O
    int splits;    // parts of len_kv
    int part_keys; // keys of a part, at least 1
    float scale;
    int vectors; // 1: rows begin at multiples of eight elements, and may be read eight at a time
} DecodeParams;

// Checks shape, pointers and splits; *params is filled when the result is ATTN_OK.
AttnStatus decode_prepare(DecodeParams *params, const DecodeRung *rung, const AttnShape *shape,
                          DType dtype, const void *q, const void *k, const void *v, void *o,
                          float *lse, const int32_t *kv_lens, int64_t splits, void *workspace);

#ifdef __cplusplus
}
#endif

#endif
