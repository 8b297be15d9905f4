// Splitting the keys of a decode step: how many parts, their workspace, and the checks and
// parameters of the kernels that read them. Chapter 6's rules, for packed rows and windows.
#include "common/split_kv.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

enum { MAX_LEN = 1 << 30, MAX_PARTS = 1 << 30 };

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// ---- how many parts -----------------------------------------------------------------------------

double split_kv_waves(double blocks, double slots) {
    return slots > 0 ? blocks / slots : 0;
}

int64_t split_kv_choose(int64_t units, int64_t keys, int64_t slots, int64_t min_keys,
                        int64_t block_cost) {
    if (units < 1 || keys < 1 || slots < 1) {
        return 1;
    }
    const int64_t most = min_keys > 0 ? keys / min_keys : keys;
    int64_t best = 1, best_time = attn_ceil_div(units, slots) * (keys + block_cost);
    for (int64_t s = 2; s <= most; s++) {
        // However its waves fall out, time(s) is at least all of the work over the slots.
        const double work = (double)units * ((double)keys + (double)s * (double)block_cost);
        if (work >= (double)best_time * (double)slots) {
            break;
        }
        // Where some of s parts have no key, fewer parts of the same size were tried before.
        const int64_t time =
            attn_ceil_div(units * s, slots) * (attn_ceil_div(keys, s) + block_cost);
        if (time < best_time) {
            best = s;
            best_time = time;
        }
    }
    return best;
}

static int64_t group_of(const AttnShape *shape) {
    return shape->heads_q / shape->heads_kv;
}

static int64_t tiles_of(const AttnShape *shape, int64_t tile_rows) {
    return attn_ceil_div(group_of(shape) * shape->len_q, tile_rows);
}

static int64_t units_of(const AttnShape *shape, int64_t tile_rows) {
    return shape->batch * shape->heads_kv * tiles_of(shape, tile_rows);
}

// The keys that a tile sees at most, of an entry with `keys` keys: a window for its first token,
// and one key more for each token after it. tile_rows rows begin and end anywhere in a group.
static int64_t tile_keys(const AttnShape *shape, int64_t tile_rows, int64_t keys) {
    if (shape->window == 0) {
        return keys;
    }
    const int64_t tokens = smaller(attn_ceil_div(tile_rows - 1, group_of(shape)) + 1,
                                   shape->len_q > 0 ? shape->len_q : 1);
    return smaller(keys, smaller(shape->window, MAX_LEN) + tokens - 1);
}

// Keys of a part, at least 1. With more splits than keys a part has one key.
static int64_t keys_of_part(const AttnShape *shape, int64_t tile_rows, int64_t splits) {
    if (shape->len_kv == 0) {
        return 1;
    }
    return units_of(shape, tile_rows) > SPLIT_KV_MAX_UNITS ? shape->len_kv
                                                           : attn_ceil_div(shape->len_kv, splits);
}

// The parts that a tile has at most: at least 1, no more than `splits`.
static int64_t parts_of(const AttnShape *shape, int64_t tile_rows, int64_t splits) {
    const int64_t keys = tile_keys(shape, tile_rows, shape->len_kv);
    return keys == 0 ? 1 : attn_ceil_div(keys, keys_of_part(shape, tile_rows, splits));
}

int64_t split_kv_splits(const AttnShape *shape, int64_t tile_rows, int64_t slots, int64_t min_keys,
                        int64_t block_cost) {
    int64_t sum = 0;
    for (int64_t b = 0; b < shape->batch; b++) {
        sum += tile_keys(shape, tile_rows, attn_keys(shape, b));
    }
    const int64_t keys = shape->batch > 0 ? attn_ceil_div(sum, shape->batch) : 0; // their mean
    const int64_t splits =
        split_kv_choose(units_of(shape, tile_rows), keys, slots, min_keys, block_cost);
    // As many keys to a part, but of len_kv keys.
    return keys > 0 ? attn_ceil_div(shape->len_kv, attn_ceil_div(keys, splits)) : 1;
}

int64_t split_kv_core_rows(const AttnShape *shape) {
    const int64_t rows = group_of(shape) * shape->len_q;
    return rows == 1 ? 1 : rows <= 4 ? 4 : 8;
}

int64_t split_kv_mma_rows(const AttnShape *shape) {
    return group_of(shape) * shape->len_q <= 8 ? 8 : 16;
}

int64_t split_kv_mma_limit(const AttnShape *shape, int64_t splits) {
    const int64_t most = shape->len_kv / SPLIT_KV_MMA_KEYS;
    return smaller(splits, most > 0 ? most : 1);
}

int64_t split_kv_mma_splits(const AttnShape *shape, const GpuProperties *properties) {
    const int64_t blocks = shape->dim == 64 ? 2 : 1; // of an SM, by the launch bounds
    const int64_t splits =
        split_kv_splits(shape, split_kv_mma_rows(shape), properties->multiprocessors * blocks,
                        SPLIT_KV_MMA_KEYS, SPLIT_KV_MMA_BLOCK_COST);
    return split_kv_mma_limit(shape, splits);
}

// ---- the workspace ------------------------------------------------------------------------------

// Where the pieces of a workspace begin, in bytes. The counters come first, and their place has one
// size for all shapes: what one launch leaves there is where the next one looks for it, and no
// launch writes anything else there.
typedef struct Layout {
    size_t part_lse, part_o, end;
} Layout;

enum { COUNTER_BYTES = SPLIT_KV_MAX_UNITS * sizeof(unsigned) };

static size_t after(size_t offset, size_t floats) {
    return (offset + floats * sizeof(float) + 255) / 256 * 256;
}

static Layout layout_of(const AttnShape *shape, int64_t tile_rows, int64_t splits) {
    const size_t parts = attn_count_lse(shape) * (size_t)parts_of(shape, tile_rows, splits);
    Layout layout = {.part_lse = COUNTER_BYTES};
    layout.part_o = after(layout.part_lse, parts);
    layout.end = after(layout.part_o, parts * (size_t)shape->dim);
    return layout;
}

size_t split_kv_workspace_bytes(const AttnShape *shape, int64_t tile_rows, int64_t splits) {
    return layout_of(shape, tile_rows, splits).end;
}

AttnStatus split_kv_workspace_clear(GpuTarget target, void *workspace, size_t bytes,
                                    GpuStream stream) {
    const size_t counters = bytes < COUNTER_BYTES ? bytes : COUNTER_BYTES;
    return counters == 0 ? ATTN_OK : gpu_fill(target, workspace, 0, counters, stream);
}

// ---- checks and parameters ----------------------------------------------------------------------

static AttnStatus check_supported(const AttnShape *shape, int64_t max_dim) {
    if (shape->dim > max_dim) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "dim %" PRId64 ": this kernel goes up to %" PRId64,
                         shape->dim, max_dim);
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

static AttnStatus check_arguments(const AttnShape *shape, DType dtype, const int32_t *kv_lens,
                                  int64_t splits) {
    if (dtype != DTYPE_F32 && dtype != DTYPE_F16 && dtype != DTYPE_BF16) {
        return attn_fail(ATTN_ERR_ARGUMENT, "dtype %d: it is f32, f16 or bf16", (int)dtype);
    }
    if (splits < 1) {
        return attn_fail(ATTN_ERR_ARGUMENT, "splits %" PRId64 " must be at least 1", splits);
    }
    if (shape->kv_lens != NULL && kv_lens == NULL && shape->batch > 0) {
        return attn_fail(ATTN_ERR_ARGUMENT,
                         "kv_lens is a null pointer, but the shape has lengths of its own");
    }
    return ATTN_OK;
}

static AttnStatus check_workspace(const AttnShape *shape, int64_t tile_rows, int64_t splits,
                                  const void *workspace) {
    const size_t rows = attn_count_lse(shape);
    if (rows == 0) {
        return ATTN_OK;
    }
    const int64_t parts = parts_of(shape, tile_rows, splits);
    if (parts > MAX_PARTS / (int64_t)rows) {
        return attn_fail(ATTN_ERR_UNSUPPORTED,
                         "splits %" PRId64 ": %" PRId64 " parts of %zu queries; these kernels go "
                         "up to 2^30 parts in all",
                         splits, parts, rows);
    }
    if (workspace == NULL) {
        return attn_fail(ATTN_ERR_ARGUMENT, "workspace is a null pointer");
    }
    return ATTN_OK;
}

static bool is_aligned(const void *pointer, size_t bytes) {
    return (uintptr_t)pointer % bytes == 0;
}

AttnStatus split_kv_prepare(SplitKvParams *params, const AttnShape *shape, DType dtype,
                            const void *q, const void *k, const void *v, void *o, float *lse,
                            const int32_t *kv_lens, int64_t tile_rows, int64_t splits,
                            int64_t max_dim, void *workspace) {
    AttnStatus status = attn_check_shape(shape);
    if (status == ATTN_OK) {
        status = check_supported(shape, max_dim);
    }
    if (status == ATTN_OK) {
        status = check_arguments(shape, dtype, kv_lens, splits);
    }
    if (status == ATTN_OK) {
        status = attn_check_pointers(shape, q, k, v, o, lse);
    }
    if (status == ATTN_OK) {
        status = check_workspace(shape, tile_rows, splits, workspace);
    }
    if (status != ATTN_OK) {
        return status;
    }
    const size_t eight = 8 * dtype_size(dtype);
    *params = (SplitKvParams){
        .q = q,
        .k = k,
        .v = v,
        .o = o,
        .lse = lse,
        .kv_lens = kv_lens,
        .heads_q = (int)shape->heads_q,
        .heads_kv = (int)shape->heads_kv,
        .group = (int)group_of(shape),
        .batch = (int)shape->batch,
        .len_q = (int)shape->len_q,
        .len_kv = (int)shape->len_kv,
        .dim = (int)shape->dim,
        .causal = shape->causal,
        .window = (int)smaller(shape->window, MAX_LEN), // both limit nothing
        .splits = 1,
        .part_keys = 1,
        .scale = fmaxf((float)attn_scale(shape), FLT_MIN), // not 0: -inf * 0 is NaN
        .vectors = shape->dim % 8 == 0 && is_aligned(q, eight) && is_aligned(k, eight) &&
                   is_aligned(v, eight) && is_aligned(o, eight),
    };
    if (attn_count_lse(shape) > 0) {
        const Layout layout = layout_of(shape, tile_rows, splits);
        params->rows = (int)(group_of(shape) * shape->len_q);
        params->tiles = (int)tiles_of(shape, tile_rows);
        params->units = (int)units_of(shape, tile_rows);
        params->counters = workspace;
        params->part_lse = (void *)((char *)workspace + layout.part_lse);
        params->part_o = (void *)((char *)workspace + layout.part_o);
        params->splits = (int)parts_of(shape, tile_rows, splits);
        params->part_keys = (int)keys_of_part(shape, tile_rows, splits);
    }
    return ATTN_OK;
}
