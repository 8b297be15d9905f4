// What the rungs of chapter 5 share on the host: the checks, the kernels' parameters, the table.
#include "chapters/ch05_fused_cuda/fused.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

enum { MAX_LEN = 1 << 30 };

static AttnStatus check_supported(const AttnShape *shape) {
    if (shape->dim > FUSED_MAX_DIM) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "dim %" PRId64 ": these kernels go up to %d",
                         shape->dim, FUSED_MAX_DIM);
    }
    if (shape->window != 0) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "window %" PRId64 ": masks come in chapter 7",
                         shape->window);
    }
    if (shape->causal) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "causal: masks come in chapter 7");
    }
    if (shape->kv_lens != NULL) {
        return attn_fail(ATTN_ERR_UNSUPPORTED,
                         "kv_lens: key lengths of their own come in chapter 7");
    }
    // Kernels count rows and keys in int, and blocks along an axis that ends at 2^31 - 1.
    if (attn_count_lse(shape) > MAX_LEN) {
        return attn_fail(ATTN_ERR_UNSUPPORTED,
                         "batch * heads_q * len_q %zu: these kernels go up to 2^30",
                         attn_count_lse(shape));
    }
    if (shape->len_kv > MAX_LEN) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "len_kv %" PRId64 ": these kernels go up to 2^30",
                         shape->len_kv);
    }
    return ATTN_OK;
}

static bool is_aligned(const void *pointer, size_t bytes) {
    return (uintptr_t)pointer % bytes == 0;
}

AttnStatus fused_prepare(FusedParams *params, const AttnShape *shape, const void *q, const void *k,
                         const void *v, void *o, float *lse, float *workspace,
                         size_t workspace_floats, size_t element) {
    AttnStatus status = attn_check_shape(shape);
    if (status == ATTN_OK) {
        status = check_supported(shape);
    }
    if (status == ATTN_OK) {
        status = attn_check_pointers(shape, q, k, v, o, lse);
    }
    if (status == ATTN_OK && workspace == NULL && workspace_floats > 0) {
        status = attn_fail(ATTN_ERR_ARGUMENT, "workspace is a null pointer");
    }
    if (status != ATTN_OK) {
        return status;
    }
    const size_t four = 4 * element;
    *params = (FusedParams){
        .q = q,
        .k = k,
        .v = v,
        .o = o,
        .lse = lse,
        .workspace = workspace,
        .heads = attn_count_lse(shape) > 0 ? (int)(shape->batch * shape->heads_q) : 0,
        .group = (int)(shape->heads_q / shape->heads_kv),
        .len_q = (int)shape->len_q,
        .len_kv = (int)shape->len_kv,
        .dim = (int)shape->dim,
        .scale = fmaxf((float)attn_scale(shape), FLT_MIN), // not 0: -inf * 0 is NaN
        .vectors = shape->dim % 4 == 0 && is_aligned(q, four) && is_aligned(k, four) &&
                   is_aligned(v, four) && is_aligned(o, four),
    };
    return ATTN_OK;
}

// ---- the table ----------------------------------------------------------------------------------

static size_t no_workspace(const AttnShape *shape) {
    (void)shape;
    return 0;
}

// S, then P in its place, of every head.
static size_t score_matrices(const AttnShape *shape) {
    return attn_count_lse(shape) * (size_t)shape->len_kv;
}

// m and l of every row.
static size_t two_columns(const AttnShape *shape) {
    return 2 * attn_count_lse(shape);
}

static void tile_16(int64_t dim, int *block_q, int *block_k) {
    (void)dim;
    *block_q = *block_k = 16;
}

static void tile_32(int64_t dim, int *block_q, int *block_k) {
    *block_q = 32;
    *block_k = dim <= 128 ? 32 : 16;
}

static void tile_of_threads(int64_t dim, int *block_q, int *block_k) {
    (void)dim;
    *block_q = 64;
    *block_k = 16;
}

static void tile_of_registers(int64_t dim, int *block_q, int *block_k) {
    *block_q = dim > 64 && dim <= 128 ? 128 : 64;
    *block_k = 64;
}

const FusedRung fused_rungs[FUSED_RUNGS] = {
    {"naive_three_kernels", "naive_three_kernels.cu", GPU_BUILDS(naive_three_kernels), 3,
     score_matrices, tile_16},
    {"fused_thread_per_row", "fused_thread_per_row.cu", GPU_BUILDS(fused_thread_per_row), 1,
     no_workspace, tile_of_threads},
    {"fused_keys_outside", "fused_keys_outside.cu", GPU_BUILDS(fused_keys_outside), 1, two_columns,
     tile_32},
    {"fused_tiled", "fused_tiled.cu", GPU_BUILDS(fused_tiled), 1, no_workspace, tile_32},
    {"fused_register_tiled", "fused_register_tiled.cu", GPU_BUILDS(fused_register_tiled), 1,
     no_workspace, tile_of_registers},
};
FusedF16Entry *const fused_f16_builds[3] = GPU_BUILDS(fused_register_tiled_f16);
