// Tiling: attention over blocks of queries and keys, in four rungs of the same problem.
//
// untiled.c        three passes over whole score matrices: chapter 1's kernel, the baseline
// tiled.c          one pass over score tiles, fused: what is read of K and V serves a block of rows
// tiled_unfused.c  the same algorithm, every operation a function of its own over tiles in memory
// tiled_simd.c     the same algorithm in vector registers, on all threads
//
// Rungs: untiled.c tiled.c tiled_unfused.c tiled_simd.c
//
// All take Q [batch][heads_q][len_q][dim], K and V [batch][heads_kv][len_kv][dim], O like Q and LSE
// [batch][heads_q][len_q], and everything that AttnShape can say. Errors, for all: those of
// attn_check_shape and attn_check_pointers, ATTN_ERR_ARGUMENT for a block size below 1 or a null
// workspace; nothing is written then. What lies in a key that a row may not see, NaN included,
// never reaches that row.
#ifndef CH04_TILED_H
#define CH04_TILED_H

#include "common/attn.h"
#include "common/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- untiled.c ----------------------------------------------------------------------------------

// Floats of workspace, S and P of one head: 2 T S.
size_t untiled_workspace_floats(const AttnShape *shape);
AttnStatus untiled_attention(const AttnShape *shape, const float *q, const float *k, const float *v,
                             float *o, float *lse, float *workspace);

// ---- tiled.c ------------------------------------------------------------------------------------

// Block pairs of one query block and one key block, over all batch entries and query heads.
typedef struct TileCounts {
    int64_t visited; // computed: some row of the block sees some key of the block
    int64_t full;    // visited, and every row sees every key: no mask is looked at
    int64_t partial; // visited, and a mask boundary runs through it: visited = full + partial
    int64_t all;     // computed or skipped
} TileCounts;

// The counts of a problem without computing it; the shape is legal, the block sizes at least 1.
TileCounts tiled_count_pairs(const AttnShape *shape, int64_t block_q, int64_t block_k);

// Floats of workspace, a score tile and m, l of its rows: (block_k + 2) block_q, each block no
// larger than the problem. 0 where a block size is below 1.
size_t tiled_workspace_floats(const AttnShape *shape, int64_t block_q, int64_t block_k);
// counts may be NULL.
AttnStatus tiled_attention(const AttnShape *shape, const float *q, const float *k, const float *v,
                           int64_t block_q, int64_t block_k, float *o, float *lse, float *workspace,
                           TileCounts *counts);

// ---- tiled_unfused.c ----------------------------------------------------------------------------

// The operations that a run issued. In a framework each would be a kernel of its own, launched over
// tensors in memory.
typedef struct OperationCounts {
    int64_t operations; // in all
    int64_t elements;   // read and written by them: every operand of every operation
} OperationCounts;

// operations = UNFUSED_PAIR_OPERATIONS * visited + partial (the mask) + UNFUSED_BLOCK_OPERATIONS
// for each block of queries of each head (begin and end of its rows).
enum { UNFUSED_PAIR_OPERATIONS = 14, UNFUSED_BLOCK_OPERATIONS = 6 };

// Floats of workspace, a score tile, a tile of products and five columns: block_q (block_k + d +
// 5), each block no larger than the problem. 0 where a block size is below 1.
size_t tiled_unfused_workspace_floats(const AttnShape *shape, int64_t block_q, int64_t block_k);
// counts may be NULL.
AttnStatus tiled_unfused_attention(const AttnShape *shape, const float *q, const float *k,
                                   const float *v, int64_t block_q, int64_t block_k, float *o,
                                   float *lse, float *workspace, OperationCounts *counts);

// ---- tiled_simd.c -------------------------------------------------------------------------------

// q, k, v and o are stored as dtype (f32, f16 or bf16), lse is float; arithmetic is f32. threads 0:
// all that this process may use. Further errors: ATTN_ERR_MEMORY, and ATTN_ERR_UNSUPPORTED for
// another dtype.
AttnStatus tiled_simd_attention(const AttnShape *shape, DType dtype, const void *q, const void *k,
                                const void *v, void *o, float *lse, int threads);

// The same with a given vector width, for tests: 16, 8 or 4 lanes of f32. ATTN_ERR_UNSUPPORTED
// where this machine lacks it.
AttnStatus tiled_simd_attention_lanes(const AttnShape *shape, DType dtype, const void *q,
                                      const void *k, const void *v, void *o, float *lse,
                                      int threads, int lanes);

// What one call allocates, in bytes, for a legal shape with rows: scratch memory for each thread
// (0: all), and parts of rows where the keys are split.
size_t tiled_simd_scratch_bytes(const AttnShape *shape, int threads);

// The widest vectors that this machine has, in lanes.
int tiled_simd_lanes(void);

// y = exp(x), for x <= 0, as the kernel computes it with this vector width, for tests; count is a
// multiple of lanes, which the machine must have. At most 2 units in the last place off; 0 below
// -87, where f32 is about to turn subnormal.
void tiled_simd_exp(int lanes, const float *x, float *y, int64_t count);

#ifdef __cplusplus
}
#endif

#endif
