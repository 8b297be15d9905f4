// Masked attention in CUDA: tiles that no query sees are not visited, and only the tiles on the
// border of the mask ask for each score whether it counts.
//
// causal.cu        causal, windows, padding: which tiles follows from the rule (mask.h)
// block_sparse.cu  any pattern of tiles: a list of key blocks for each block of queries
//
// Rungs: causal.cu block_sparse.cu
//
// Both take Q [batch][heads_q][len_q][dim], K and V [batch][heads_kv][len_kv][dim], O like Q,
// stored as f32, f16 or bf16, and LSE [batch][heads_q][len_q] in f32, in the memory of their target
// (common/gpu.h). Arithmetic is f32. dim is 1..256; any lengths, scale and grouping of heads,
// causal or not, any window, with key lengths of their own for each batch entry: `kv_lens` [batch]
// is in the target's memory (clamped to 0..len_kv by the kernels), NULL where all entries have
// len_kv keys; shape->kv_lens, the same numbers in host memory, may be NULL even so. Rows that see
// no key get O = 0, LSE = -inf. A NaN behind the mask reaches nobody.
//
// Errors, for both: those of attn_check_shape and attn_check_pointers; ATTN_ERR_ARGUMENT for
// another dtype or visit, shape->kv_lens without kv_lens, and a list that is not of this shape;
// ATTN_ERR_UNSUPPORTED for dim and for more than 2^30 rows of queries or keys; nothing is written
// then. ATTN_ERR_CUDA and what a launch on simt finds.
#ifndef CH07_MASKS_H
#define CH07_MASKS_H

#include "common/attn.h"
#include "common/dtype.h"
#include "common/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MASKS_MAX_DIM = 256 };

// How causal_attention treats tiles. MASK_SKIP is what a kernel should do; the other two are there
// to be measured beside it.
typedef enum MaskVisit {
    MASK_SKIP = 0,    // visits the tiles that somebody sees, masks those on the border
    MASK_EVERY_SCORE, // the same tiles, but asks for every score of every one
    MASK_EVERY_TILE,  // visits all tiles, and asks for every score
} MaskVisit;

#define CAUSAL_ARGUMENTS                                                                           \
    (const AttnShape *shape, DType dtype, const void *q, const void *k, const void *v, void *o,    \
     float *lse, const int32_t *kv_lens, MaskVisit visit, GpuStream stream)
typedef AttnStatus CausalEntry CAUSAL_ARGUMENTS;
GPU_DECLARE(causal_attention, CAUSAL_ARGUMENTS);
extern CausalEntry *const causal_builds[3]; // by GpuTarget

// The tile of queries and keys of a block of causal_attention for this dim (where the device has
// the shared memory for it).
void causal_tile(int64_t dim, int *block_q, int *block_k);

// ---- block-sparse lists -------------------------------------------------------------------------

// Which key blocks each block of queries visits, in compressed sparse rows (CSR), the same for all
// heads and batch entries. Query block i has queries i * BLOCK_SPARSE .. + BLOCK_SPARSE - 1, and
// visits the key blocks blocks[offsets[i]] .. blocks[offsets[i + 1] - 1], ascending, each once; it
// may visit none. A key is seen when its block is listed and the shape's own masks allow it.
enum { BLOCK_SPARSE = 64 }; // queries, and keys, of a block, for every dim

typedef struct BlockList {
    int64_t query_blocks; // ceil(len_q / BLOCK_SPARSE)
    int64_t key_blocks;   // ceil(len_kv / BLOCK_SPARSE)
    int32_t *offsets;     // [query_blocks + 1]
    int32_t *blocks;      // [offsets[query_blocks]]
} BlockList;

// An empty list for these lengths with room for `listed` blocks; offsets are 0. Errors:
// ATTN_ERR_ARGUMENT for a negative number, ATTN_ERR_MEMORY; *list is zeroed then.
AttnStatus block_list_alloc(BlockList *list, int64_t len_q, int64_t len_kv, int64_t listed);
void block_list_free(BlockList *list);

// The list of what this shape's own masks let batch entry 0 see: every key block of which mask_tile
// says that it is not TILE_SKIP. Errors as block_list_alloc and attn_check_shape.
AttnStatus block_list_of_shape(BlockList *list, const AttnShape *shape);

// Every key block of every query block with probability `density`, seeded; the diagonal block (the
// last key block that a causal query of the block sees) always where `keep_diagonal`.
AttnStatus block_list_random(BlockList *list, const AttnShape *shape, double density,
                             bool keep_diagonal, uint64_t seed);

// Offsets begin at 0 and do not fall; block numbers are 0..key_blocks - 1 and rise within a list;
// both counts are those of the shape. Else ATTN_ERR_ARGUMENT naming the entry, its value and rule.
AttnStatus block_list_check(const BlockList *list, const AttnShape *shape);

// A checked copy in a target's memory, for the kernel. Errors: those of block_list_check, gpu_alloc
// and gpu_upload; *device is zeroed then.
typedef struct DeviceBlockList {
    GpuTarget target;
    int64_t query_blocks, key_blocks;
    int32_t *offsets, *blocks; // in the target's memory
} DeviceBlockList;
AttnStatus device_block_list_make(DeviceBlockList *device, GpuTarget target, const BlockList *list,
                                  const AttnShape *shape);
void device_block_list_free(DeviceBlockList *device);

#define BLOCK_SPARSE_ARGUMENTS                                                                     \
    (const AttnShape *shape, DType dtype, const void *q, const void *k, const void *v, void *o,    \
     float *lse, const int32_t *kv_lens, const DeviceBlockList *list, GpuStream stream)
typedef AttnStatus BlockSparseEntry BLOCK_SPARSE_ARGUMENTS;
GPU_DECLARE(block_sparse_attention, BLOCK_SPARSE_ARGUMENTS);
extern BlockSparseEntry *const block_sparse_builds[3]; // by GpuTarget

// ---- for the kernels ----------------------------------------------------------------------------

// What both kernels get. Heads are numbered over the batch: head h of len_q rows is head
// h % heads_q of entry h / heads_q, and reads KV head h / group.
typedef struct MasksParams {
    const void *q;          // [heads][len_q][dim]
    const void *k;          // [heads / group][len_kv][dim]
    const void *v;          // [heads / group][len_kv][dim]
    void *o;                // [heads][len_q][dim]
    float *lse;             // [heads][len_q]
    const int32_t *kv_lens; // [heads / heads_q], or NULL
    const int32_t *offsets; // block_sparse.cu: [query_blocks + 1]
    const int32_t *blocks;  // block_sparse.cu
    int heads;              // batch * heads_q
    int heads_q;
    int group; // query heads that share a KV head
    int len_q, len_kv, dim;
    int causal, window;
    int visit; // causal.cu: MaskVisit
    int dtype; // DType of Q, K, V and O
    float scale;
    int vectors; // 1: rows begin at multiples of four elements, and may be read four at a time
} MasksParams;

// Checks shape, dtype and pointers; *params is filled when the result is ATTN_OK.
AttnStatus masks_prepare(MasksParams *params, const AttnShape *shape, DType dtype, const void *q,
                         const void *k, const void *v, void *o, float *lse, const int32_t *kv_lens);

// Takes a list into *params. Errors: ATTN_ERR_ARGUMENT for a null pointer and for a list whose
// counts of blocks are not the shape's.
AttnStatus masks_prepare_list(MasksParams *params, const AttnShape *shape,
                              const DeviceBlockList *list);

#ifdef __cplusplus
}
#endif

#endif
