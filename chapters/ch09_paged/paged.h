// Decode attention over a paged cache: logical position, block table, physical page.
//
// paged.cu       on CUDA cores: any dim, page size and storage type
// paged_mma.cu   with the matrix instruction, as gqa_mma.cu: f16 and bf16, dim 64 and 128
// append.cu      writes new tokens' keys and values into their slots (block_pool_append)
//
// Rungs: paged.cu paged_mma.cu
//
// Q [batch][heads_q][len_q][dim], O like it, LSE [batch][heads_q][len_q] f32. Sequences have
// lengths of their own: shape->kv_lens [batch] in host memory, required, and `kv_lens` the same in
// the target's. shape->len_kv is at least the longest. Grouped heads, causal, windows, splits and
// workspace as in chapter 8. Slots behind a length, and table entries behind the pages in use, may
// hold anything. Any page size >= 1.
#ifndef CH09_PAGED_H
#define CH09_PAGED_H

#include "chapters/ch09_paged/block_pool.h"

#include "common/split_kv.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { PAGED_MAX_DIM = 256 };

// A cache as the kernels read it, for a batch of sequences.
typedef struct PagedCache {
    GpuTarget target;
    PageLayout layout;
    int64_t pages;        // of the pool
    const void *k, *v;    // [pages][heads_kv][page_size][dim], in the target's memory
    const int32_t *table; // [batch][columns], in the target's memory
    int64_t columns;      // of a row of the table
    int64_t batch;
    int32_t *kv_lens; // [batch], in the target's memory
} PagedCache;

// Checks a table in host memory: every sequence's pages in use, ceil(length / page_size), are
// within `columns`, and their ids within 0..pages - 1. Else ATTN_ERR_ARGUMENT naming sequence,
// column and id (or the length and the number of columns). Entries behind the pages in use are not
// looked at.
AttnStatus paged_check_table(const int32_t *table, int64_t columns, const int32_t *lens,
                             int64_t batch, int64_t page_size, int64_t pages);

// The cache of these sequences of a pool, tables and lengths uploaded; unused table entries are -1.
// Errors: ATTN_ERR_ARGUMENT for a sequence that is not open, those of gpu_alloc; *cache is zeroed.
AttnStatus paged_cache_make(PagedCache *cache, const BlockPool *pool, const int64_t *sequences,
                            int64_t batch);
void paged_cache_free(PagedCache *cache);

#define PAGED_ARGUMENTS                                                                            \
    (const AttnShape *shape, DType dtype, const void *q, const PagedCache *cache, void *o,         \
     float *lse, int64_t splits, void *workspace, GpuStream stream)
typedef AttnStatus PagedEntry PAGED_ARGUMENTS;
GPU_DECLARE(paged, PAGED_ARGUMENTS);
GPU_DECLARE(paged_mma, PAGED_ARGUMENTS);

typedef struct PagedRung {
    const char *name, *file;
    PagedEntry *builds[3];
    int64_t (*tile_rows)(const AttnShape *shape);
    size_t (*workspace_bytes)(const AttnShape *shape, int64_t splits);
    int64_t (*splits)(const AttnShape *shape, DType dtype, const GpuProperties *properties);
} PagedRung;
enum { PAGED_CORES = 0, PAGED_MMA, PAGED_RUNGS };
extern const PagedRung paged_rungs[PAGED_RUNGS];

#ifdef __cplusplus
}
#endif

#endif
