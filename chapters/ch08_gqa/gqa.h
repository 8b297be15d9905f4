// Grouped-query attention in CUDA: query heads that share keys and values share their loads.
//
// gqa_naive.cu   a block for each query head: every head of a group reads the same keys again
// gqa.cu         the group's queries packed as rows of one tile, on CUDA cores
// gqa_mma.cu     the same rows in a matrix instruction, mma.m16n8k16
//
// Rungs: gqa_naive.cu gqa.cu gqa_mma.cu
//
// All take Q [batch][heads_q][len_q][dim], K and V [batch][heads_kv][len_kv][dim], O like Q, stored
// as f32, f16 or bf16, and LSE [batch][heads_q][len_q] in f32, in the memory of their target
// (common/gpu.h). Arithmetic is f32; gqa_mma rounds the probabilities to the storage type before
// the product with V. heads_q is any multiple of heads_kv, from multi-head (equal) to multi-query
// (one KV head). Decode steps and chunks of a prefill: any len_q; causal, windows and key lengths
// of their own (`kv_lens`, in the target's memory, see chapter 6), limits going by token and not by
// packed row. splits and workspace as in chapter 6 (common/split_kv.h).
//
// Limits: dim 1..256; gqa_mma takes f16 and bf16 with dim 64 or 128, aligned to 16 bytes. Errors,
// for all: those of split_kv_prepare; ATTN_ERR_UNSUPPORTED for what a rung does not take, naming
// it; nothing is written then. ATTN_ERR_CUDA and what a launch on simt finds.
#ifndef CH08_GQA_H
#define CH08_GQA_H

#include "common/split_kv.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GQA_MAX_DIM = 256 };

#define GQA_ARGUMENTS                                                                              \
    (const AttnShape *shape, DType dtype, const void *q, const void *k, const void *v, void *o,    \
     float *lse, const int32_t *kv_lens, int64_t splits, void *workspace, GpuStream stream)
typedef AttnStatus GqaEntry GQA_ARGUMENTS;
GPU_DECLARE(gqa_naive, GQA_ARGUMENTS);
GPU_DECLARE(gqa, GQA_ARGUMENTS);
GPU_DECLARE(gqa_mma, GQA_ARGUMENTS);

typedef struct GqaRung {
    const char *name;    // "gqa"
    const char *file;    // "gqa.cu"
    GqaEntry *builds[3]; // by GpuTarget; NULL where the target was not built
    // Packed rows of a block's tile for this shape (gqa_naive: rows of one query head).
    int64_t (*tile_rows)(const AttnShape *shape);
    size_t (*workspace_bytes)(const AttnShape *shape, int64_t splits);
    // The splits that make it fastest by chapter 6's model on this device.
    int64_t (*splits)(const AttnShape *shape, DType dtype, const GpuProperties *properties);
} GqaRung;
enum { GQA_NAIVE = 0, GQA_PACKED, GQA_MMA, GQA_RUNGS };
extern const GqaRung gqa_rungs[GQA_RUNGS];

// Whether a rung takes this problem; if not, why, as attn_last_error.
AttnStatus gqa_supports(int rung, const AttnShape *shape, DType dtype);

// For the rungs: gqa_supports, then split_kv_prepare with the rung's tile. Of gqa_naive the rows
// are those of one query head (*params has group 1), whose KV head is head / (heads_q / heads_kv).
AttnStatus gqa_prepare(SplitKvParams *params, int rung, const AttnShape *shape, DType dtype,
                       const void *q, const void *k, const void *v, void *o, float *lse,
                       const int32_t *kv_lens, int64_t splits, void *workspace);

// ---- cards --------------------------------------------------------------------------------------

// Bytes of K and V that one token adds to the cache: 2 layers heads_kv dim element.
double gqa_token_bytes(double layers, double heads_kv, double dim, double element);

// FLOP per byte of K and V, both products, a multiply-add counting 2: 4 S d group len_q FLOP on
// 2 S d elements, 2 group len_q / element. `element`: bytes of one.
double gqa_intensity(double group, double len_q, double element);

// Bytes of K and V that all blocks request together: each tile the keys that a row of it sees,
// once. Not packed, tiles are of the rows of one query head.
double gqa_requested_bytes(const AttnShape *shape, int64_t tile_rows, bool packed, double element);

#ifdef __cplusplus
}
#endif

#endif
