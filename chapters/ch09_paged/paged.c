// What the rungs of chapter 9 share on the host: the check of a table, the cache of a batch, the
// kernels' parameters, the rungs. The rest is common/split_kv.c and block_pool.c.
#include "chapters/ch09_paged/paged.h"

#include "chapters/ch09_paged/page_walk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PAGE_ROWS = 1 << 30 };

// ---- tables -------------------------------------------------------------------------------------

AttnStatus paged_check_table(const int32_t *table, int64_t columns, const int32_t *lens,
                             int64_t batch, int64_t page_size, int64_t pages) {
    for (int64_t b = 0; b < batch; b++) {
        const int64_t used = attn_ceil_div(lens[b], page_size);
        if (lens[b] < 0 || used > columns) {
            return attn_fail(ATTN_ERR_ARGUMENT,
                             "sequence %" PRId64 ": length %" PRId32 " does not fit in %" PRId64
                             " columns of %" PRId64 " tokens",
                             b, lens[b], columns, page_size);
        }
        for (int64_t column = 0; column < used; column++) {
            const int32_t page = table[b * columns + column];
            if (page < 0 || page >= pages) {
                return attn_fail(ATTN_ERR_ARGUMENT,
                                 "sequence %" PRId64 ", column %" PRId64 ": page %" PRId32
                                 " is not in 0..%" PRId64,
                                 b, column, page, pages - 1);
            }
        }
    }
    return ATTN_OK;
}

// What goes to the target: table [batch][columns] and lens [batch], in host memory.
static void gather_tables(const BlockPool *pool, const int64_t *sequences, int64_t batch,
                          int64_t columns, int32_t *table, int32_t *lens) {
    const int64_t page_size = block_pool_layout(pool)->page_size;
    for (int64_t b = 0; b < batch; b++) {
        const int32_t *pages = block_pool_table(pool, sequences[b]);
        lens[b] = (int32_t)block_pool_length(pool, sequences[b]);
        const int64_t used = attn_ceil_div(lens[b], page_size);
        for (int64_t column = 0; column < columns; column++) {
            table[b * columns + column] = column < used ? pages[column] : -1;
        }
    }
}

static AttnStatus upload_tables(PagedCache *cache, const int32_t *table, const int32_t *lens) {
    const GpuTarget target = cache->target;
    const size_t entries = (size_t)(cache->batch * cache->columns), batch = (size_t)cache->batch;
    void *device_table = NULL, *device_lens = NULL;
    AttnStatus status = gpu_alloc(target, &device_table, "table", entries, sizeof(*table));
    if (status == ATTN_OK) {
        status = gpu_alloc(target, &device_lens, "kv_lens", batch, sizeof(*lens));
    }
    cache->table = device_table;
    cache->kv_lens = device_lens;
    if (status == ATTN_OK) {
        status = gpu_upload(target, device_table, table, entries * sizeof(*table));
    }
    if (status == ATTN_OK) {
        status = gpu_upload(target, device_lens, lens, batch * sizeof(*lens));
    }
    return status;
}

AttnStatus paged_cache_make(PagedCache *cache, const BlockPool *pool, const int64_t *sequences,
                            int64_t batch) {
    *cache = (PagedCache){0};
    const PageLayout *layout = block_pool_layout(pool);
    int64_t columns = 1;
    for (int64_t b = 0; b < batch; b++) {
        const int64_t length = block_pool_length(pool, sequences[b]);
        if (length < 0) {
            return attn_fail(ATTN_ERR_ARGUMENT,
                             "sequence %" PRId64 " of the batch: %" PRId64 " is not open", b,
                             sequences[b]);
        }
        const int64_t used = attn_ceil_div(length, layout->page_size);
        columns = used > columns ? used : columns;
    }
    int32_t *table = calloc((size_t)(batch * columns) + 1, sizeof(*table));
    int32_t *lens = calloc((size_t)batch + 1, sizeof(*lens));
    AttnStatus status = ATTN_OK;
    if (table == NULL || lens == NULL) {
        status = attn_fail(ATTN_ERR_MEMORY, "no memory for tables of %" PRId64 " sequences", batch);
    } else {
        gather_tables(pool, sequences, batch, columns, table, lens);
        *cache = (PagedCache){.target = block_pool_target(pool),
                              .layout = *layout,
                              .pages = block_pool_pages(pool),
                              .k = block_pool_k(pool),
                              .v = block_pool_v(pool),
                              .columns = columns,
                              .batch = batch};
        status = upload_tables(cache, table, lens);
    }
    if (status != ATTN_OK) {
        paged_cache_free(cache);
    }
    free(table);
    free(lens);
    return status;
}

void paged_cache_free(PagedCache *cache) {
    void *table;
    memcpy(&table, &cache->table, sizeof table); // the cache made it
    gpu_free(cache->target, table);
    gpu_free(cache->target, cache->kv_lens);
    *cache = (PagedCache){0};
}

// ---- checks and parameters ----------------------------------------------------------------------

// The cache holds what the shape says.
static AttnStatus check_cache(const AttnShape *shape, DType dtype, const PagedCache *cache) {
    const PageLayout *layout = &cache->layout;
    const struct {
        const char *name;
        int64_t asked, there;
    } sizes[] = {{"batch", shape->batch, cache->batch},
                 {"heads_kv", shape->heads_kv, layout->heads_kv},
                 {"dim", shape->dim, layout->dim}};
    for (int i = 0; i < 3; i++) {
        if (sizes[i].asked != sizes[i].there) {
            return attn_fail(ATTN_ERR_ARGUMENT, "%s %" PRId64 ", but the cache has %" PRId64,
                             sizes[i].name, sizes[i].asked, sizes[i].there);
        }
    }
    if (dtype != layout->dtype) {
        return attn_fail(ATTN_ERR_ARGUMENT, "dtype %s, but the cache has %s", dtype_name(dtype),
                         dtype_name(layout->dtype));
    }
    if (layout->page_size < 1 || layout->page_size > MAX_PAGE_ROWS / layout->heads_kv) {
        return attn_fail(ATTN_ERR_UNSUPPORTED,
                         "page_size %" PRId64 ": at least 1, and heads_kv times it at most 2^30",
                         layout->page_size);
    }
    return ATTN_OK;
}

static AttnStatus check_lengths(const AttnShape *shape, const PagedCache *cache) {
    if (shape->batch > 0 && (shape->kv_lens == NULL || cache->kv_lens == NULL)) {
        return attn_fail(ATTN_ERR_ARGUMENT,
                         "kv_lens is a null pointer: sequences of a paged cache have lengths");
    }
    for (int64_t b = 0; b < shape->batch; b++) {
        const int64_t used = attn_ceil_div(shape->kv_lens[b], cache->layout.page_size);
        if (used > cache->columns) {
            return attn_fail(ATTN_ERR_ARGUMENT,
                             "sequence %" PRId64 ": length %" PRId32 " does not fit in %" PRId64
                             " columns of %" PRId64 " tokens",
                             b, shape->kv_lens[b], cache->columns, cache->layout.page_size);
        }
        if (used > 0 && cache->table == NULL) {
            return attn_fail(ATTN_ERR_ARGUMENT, "table is a null pointer");
        }
    }
    return ATTN_OK;
}

static AttnStatus check_rung(int rung, const AttnShape *shape, DType dtype) {
    if (rung == PAGED_MMA && dtype == DTYPE_F32) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "dtype f32: paged_mma takes f16 and bf16");
    }
    if (rung == PAGED_MMA && shape->dim != 64 && shape->dim != 128) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "dim %" PRId64 ": paged_mma takes 64 and 128",
                         shape->dim);
    }
    return ATTN_OK;
}

void paged_set_page_size(PagedParams *params, int64_t page_size) {
    params->page_size = (int)page_size;
    params->shift = 0;
    while (((int64_t)1 << params->shift) < page_size) {
        params->shift++;
    }
    params->inverse = (unsigned)attn_ceil_div((int64_t)1 << (31 + params->shift), page_size);
}

AttnStatus paged_prepare(PagedParams *params, int rung, const AttnShape *shape, DType dtype,
                         const void *q, const PagedCache *cache, void *o, float *lse,
                         int64_t splits, void *workspace) {
    AttnStatus status = attn_check_shape(shape);
    if (status == ATTN_OK) {
        status = check_rung(rung, shape, dtype);
    }
    if (status == ATTN_OK) {
        status = check_cache(shape, dtype, cache);
    }
    if (status == ATTN_OK) {
        status = check_lengths(shape, cache);
    }
    if (status != ATTN_OK) {
        return status;
    }
    *params = (PagedParams){.table = cache->table, .columns = (int)cache->columns};
    paged_set_page_size(params, cache->layout.page_size);
    params->page_rows = (unsigned)(shape->heads_kv * cache->layout.page_size);
    SplitKvParams *kv = &params->kv;
    const int64_t made = rung == PAGED_MMA ? split_kv_mma_limit(shape, splits) : splits;
    status = split_kv_prepare(kv, shape, dtype, q, cache->k, cache->v, o, lse, cache->kv_lens,
                              paged_rungs[rung].tile_rows(shape), made, PAGED_MAX_DIM, workspace);
    if (status == ATTN_OK && rung == PAGED_MMA && kv->units > 0 && !kv->vectors) {
        return attn_fail(ATTN_ERR_UNSUPPORTED,
                         "q, k, v, o: paged_mma takes tensors that are aligned to 16 bytes");
    }
    return status;
}

// ---- the rungs ----------------------------------------------------------------------------------

static size_t cores_bytes(const AttnShape *shape, int64_t splits) {
    return split_kv_workspace_bytes(shape, split_kv_core_rows(shape), splits);
}

static size_t mma_bytes(const AttnShape *shape, int64_t splits) {
    return split_kv_workspace_bytes(shape, split_kv_mma_rows(shape),
                                    split_kv_mma_limit(shape, splits));
}

// As many blocks as the kernel's launch bounds have it, or as their shared memory lets in: `rows`
// states of each group of head_dim / 8 lanes.
static int64_t cores_splits(const AttnShape *shape, DType dtype, const GpuProperties *properties) {
    const int64_t rows = split_kv_core_rows(shape);
    const int64_t head_dim = shape->dim <= 64 ? 64 : shape->dim <= 128 ? 128 : 256;
    const int one = dtype == DTYPE_F32 ? 4 : dtype == DTYPE_F16 ? 5 : 6;
    const int bound = rows == 1 ? one : rows == 4 && dtype != DTYPE_F32 ? 3 : 2;
    const int64_t groups = SPLIT_KV_THREADS * 8 / head_dim;
    const size_t shared = sizeof(float) * (size_t)(rows * groups * (head_dim + 2));
    const int fit = gpu_blocks_per_multiprocessor(properties, SPLIT_KV_THREADS, 0, shared);
    const int blocks = fit < bound ? fit : bound;
    return split_kv_splits(shape, rows, (int64_t)properties->multiprocessors * blocks,
                           SPLIT_KV_MIN_KEYS, SPLIT_KV_BLOCK_COST);
}

static int64_t mma_splits(const AttnShape *shape, DType dtype, const GpuProperties *properties) {
    (void)dtype;
    return split_kv_mma_splits(shape, properties);
}

const PagedRung paged_rungs[PAGED_RUNGS] = {
    {"paged", "paged.cu", GPU_BUILDS(paged), split_kv_core_rows, cores_bytes, cores_splits},
    {"paged_mma", "paged_mma.cu", GPU_BUILDS(paged_mma), split_kv_mma_rows, mma_bytes, mma_splits},
};
