// Fused attention in CUDA: one kernel instead of three, in five rungs of the same problem.
//
// naive_three_kernels.cu   scores, softmax, values: three launches, the score matrix in memory
// fused_thread_per_row.cu  one launch, a thread for each query: the trap
// fused_keys_outside.cu    tiles shared by a block; keys outside, queries inside, O in memory
// fused_tiled.cu           the loops turned round: queries outside, O in registers
// fused_register_tiled.cu  every thread computes a square of scores from registers: the fast one
//
// Rungs: naive_three_kernels.cu fused_thread_per_row.cu fused_keys_outside.cu fused_tiled.cu
// fused_register_tiled.cu
//
// All take Q [batch][heads_q][len_q][dim], K and V [batch][heads_kv][len_kv][dim], O like Q and LSE
// [batch][heads_q][len_q] in the memory of their target (common/gpu.h), and a workspace of
// workspace_floats floats. dim is 1..256; any lengths, scale and grouping of heads. What this
// chapter leaves out, masks and lengths of their own for each batch entry, comes in chapter 7.
// Errors, for all: those of attn_check_shape and attn_check_pointers; ATTN_ERR_UNSUPPORTED for dim,
// causal, window, kv_lens and for more than 2^30 rows of queries or keys;
// ATTN_ERR_ARGUMENT for a null workspace; nothing is written then. ATTN_ERR_CUDA and what a launch
// on simt finds.
#ifndef CH05_FUSED_H
#define CH05_FUSED_H

#include "common/attn.h"
#include "common/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FUSED_MAX_DIM = 256 };

#define FUSED_ARGUMENTS                                                                            \
    (const AttnShape *shape, const float *q, const float *k, const float *v, float *o, float *lse, \
     float *workspace, GpuStream stream)
typedef AttnStatus FusedEntry FUSED_ARGUMENTS;

GPU_DECLARE(naive_three_kernels, FUSED_ARGUMENTS);
GPU_DECLARE(fused_thread_per_row, FUSED_ARGUMENTS);
GPU_DECLARE(fused_keys_outside, FUSED_ARGUMENTS);
GPU_DECLARE(fused_tiled, FUSED_ARGUMENTS);
GPU_DECLARE(fused_register_tiled, FUSED_ARGUMENTS);

// fused_register_tiled with Q, K, V and O stored as f16 (their bits); arithmetic and LSE are f32.
#define FUSED_F16_ARGUMENTS                                                                        \
    (const AttnShape *shape, const uint16_t *q, const uint16_t *k, const uint16_t *v, uint16_t *o, \
     float *lse, GpuStream stream)
typedef AttnStatus FusedF16Entry FUSED_F16_ARGUMENTS;
GPU_DECLARE(fused_register_tiled_f16, FUSED_F16_ARGUMENTS);

// ---- the table ----------------------------------------------------------------------------------

typedef struct FusedRung {
    const char *name;      // "naive_three_kernels"
    const char *file;      // "naive_three_kernels.cu"
    FusedEntry *builds[3]; // by GpuTarget; NULL where the target was not built
    int launches;          // of one call
    // Floats of workspace for a legal shape; 0: none, and workspace may be NULL.
    size_t (*workspace_floats)(const AttnShape *shape);
    // The tile of queries and keys of a block for this dim (of fused_register_tiled, where the
    // device has the shared memory for it).
    void (*tile)(int64_t dim, int *block_q, int *block_k);
} FusedRung;

enum { FUSED_RUNGS = 5 };
extern const FusedRung fused_rungs[FUSED_RUNGS]; // in the order of the ladder
extern FusedF16Entry *const fused_f16_builds[3]; // fused_register_tiled_f16

// ---- for the rungs ------------------------------------------------------------------------------

// What every kernel of the chapter gets. Heads are numbered over the batch: head h of len_q rows is
// head h % heads_q of entry h / heads_q, and reads KV head h / group, because batch entries hold
// heads_q / group KV heads each.
typedef struct FusedParams {
    const float *q;   // [heads][len_q][dim]
    const float *k;   // [heads / group][len_kv][dim]
    const float *v;   // [heads / group][len_kv][dim]
    float *o;         // [heads][len_q][dim]
    float *lse;       // [heads][len_q]
    float *workspace; // the rung's own
    int heads;        // batch * heads_q
    int group;        // query heads that share a KV head
    int len_q, len_kv, dim;
    float scale;
    int vectors; // 1: rows begin at multiples of four elements, and may be read four at a time
} FusedParams;

// Checks shape and pointers; *params is filled when the result is ATTN_OK. `element` is the size of
// an element of Q, K, V and O in bytes; workspace may be NULL when workspace_floats is 0.
AttnStatus fused_prepare(FusedParams *params, const AttnShape *shape, const void *q, const void *k,
                         const void *v, void *o, float *lse, float *workspace,
                         size_t workspace_floats, size_t element);

#ifdef __cplusplus
}
#endif

#endif
