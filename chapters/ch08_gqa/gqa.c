// What the rungs of chapter 8 share on the host: which problems a rung takes, the tiles of packed
// rows, the tables. The rest is common/split_kv.c.
#include "chapters/ch08_gqa/gqa.h"

#include <inttypes.h>

// ---- what a rung takes --------------------------------------------------------------------------

AttnStatus gqa_supports(int rung, const AttnShape *shape, DType dtype) {
    if (rung == GQA_MMA && dtype == DTYPE_F32) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "dtype f32: gqa_mma takes f16 and bf16");
    }
    if (rung == GQA_MMA && shape->dim != 64 && shape->dim != 128) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "dim %" PRId64 ": gqa_mma takes 64 and 128",
                         shape->dim);
    }
    if (shape->dim > GQA_MAX_DIM) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "dim %" PRId64 ": these kernels go up to %d",
                         shape->dim, GQA_MAX_DIM);
    }
    return ATTN_OK;
}

static int64_t naive_tile_rows(const AttnShape *shape) {
    return shape->len_q == 1 ? 1 : 4;
}

static int64_t splits_made(int rung, const AttnShape *shape, int64_t splits) {
    return rung == GQA_MMA ? split_kv_mma_limit(shape, splits) : splits;
}

// gqa_naive packs the rows of one query head, as if each had a KV head of its own.
static AttnShape shape_of(int rung, const AttnShape *shape) {
    AttnShape own = *shape;
    if (rung == GQA_NAIVE) {
        own.heads_kv = own.heads_q;
    }
    return own;
}

AttnStatus gqa_prepare(SplitKvParams *params, int rung, const AttnShape *shape, DType dtype,
                       const void *q, const void *k, const void *v, void *o, float *lse,
                       const int32_t *kv_lens, int64_t splits, void *workspace) {
    AttnStatus status = attn_check_shape(shape);
    if (status == ATTN_OK) {
        status = gqa_supports(rung, shape, dtype);
    }
    if (status != ATTN_OK) {
        return status;
    }
    const AttnShape own = shape_of(rung, shape);
    status = split_kv_prepare(params, &own, dtype, q, k, v, o, lse, kv_lens,
                              gqa_rungs[rung].tile_rows(shape), splits_made(rung, shape, splits),
                              GQA_MAX_DIM, workspace);
    if (status != ATTN_OK) {
        return status;
    }
    if (rung == GQA_MMA && params->units > 0 && !params->vectors) {
        return attn_fail(ATTN_ERR_UNSUPPORTED,
                         "q, k, v, o: gqa_mma takes tensors that are aligned to 16 bytes");
    }
    params->heads_kv = (int)shape->heads_kv;
    return ATTN_OK;
}

// ---- splits and the workspace -------------------------------------------------------------------

static size_t workspace_bytes(int rung, const AttnShape *shape, int64_t splits) {
    const AttnShape own = shape_of(rung, shape);
    return split_kv_workspace_bytes(&own, gqa_rungs[rung].tile_rows(shape),
                                    splits_made(rung, shape, splits));
}

// The head_dim of the kernel that takes rows of `dim`: those of 64, 128 and 256 have their own, all
// others share one up to 64 and one up to 256.
static int64_t head_dim_of(int64_t dim) {
    return dim == 128 ? 128 : dim <= 64 ? 64 : 256;
}

// Registers of a thread, as the kernels' launch bounds allow them to gqa_naive and gqa.
static int registers_of(int rung, const AttnShape *shape, DType dtype) {
    enum { TWO_BLOCKS = 255, THREE_BLOCKS = 168, FOUR_BLOCKS = 128, SIX_BLOCKS = 80 };
    const int64_t rows = gqa_rungs[rung].tile_rows(shape);
    const bool narrow = dtype_size(dtype) == 2;
    if (shape->dim != head_dim_of(shape->dim) || rows == 8) {
        return TWO_BLOCKS;
    }
    if (rows == 1) {
        return narrow ? SIX_BLOCKS : FOUR_BLOCKS;
    }
    return narrow ? THREE_BLOCKS : TWO_BLOCKS;
}

static int64_t splits_of(int rung, const AttnShape *shape, DType dtype,
                         const GpuProperties *properties) {
    if (rung == GQA_MMA) {
        return split_kv_mma_splits(shape, properties);
    }
    const AttnShape own = shape_of(rung, shape);
    const int64_t rows = gqa_rungs[rung].tile_rows(shape), head_dim = head_dim_of(shape->dim);
    const int64_t groups = SPLIT_KV_THREADS * 8 / head_dim; // of lanes that have a state
    const size_t shared = sizeof(float) * (size_t)(rows * groups * (head_dim + 2));
    const int blocks = gpu_blocks_per_multiprocessor(properties, SPLIT_KV_THREADS,
                                                     registers_of(rung, shape, dtype), shared);
    return split_kv_splits(&own, rows, (int64_t)properties->multiprocessors * blocks,
                           SPLIT_KV_MIN_KEYS, SPLIT_KV_BLOCK_COST);
}

#define RUNG_FUNCTIONS(name, rung)                                                                 \
    static size_t name##_bytes(const AttnShape *shape, int64_t splits) {                           \
        return workspace_bytes(rung, shape, splits);                                               \
    }                                                                                              \
    static int64_t name##_splits(const AttnShape *shape, DType dtype,                              \
                                 const GpuProperties *properties) {                                \
        return splits_of(rung, shape, dtype, properties);                                          \
    }
RUNG_FUNCTIONS(naive, GQA_NAIVE)
RUNG_FUNCTIONS(packed, GQA_PACKED)
RUNG_FUNCTIONS(mma, GQA_MMA)

const GqaRung gqa_rungs[GQA_RUNGS] = {
    {"gqa_naive", "gqa_naive.cu", GPU_BUILDS(gqa_naive), naive_tile_rows, naive_bytes,
     naive_splits},
    {"gqa", "gqa.cu", GPU_BUILDS(gqa), split_kv_core_rows, packed_bytes, packed_splits},
    {"gqa_mma", "gqa_mma.cu", GPU_BUILDS(gqa_mma), split_kv_mma_rows, mma_bytes, mma_splits},
};
