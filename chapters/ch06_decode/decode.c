// What the rungs of chapter 6 share on the host: the checks, the kernels' parameters, the workspace
// and how many splits to take.
#include "chapters/ch06_decode/decode.h"

#include "common/split_kv.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

enum { MAX_LEN = 1 << 30, MAX_PARTS = 1 << 30 };

// ---- splits and the workspace -------------------------------------------------------------------

static int64_t tiles_of(const AttnShape *shape) {
    return shape->len_q == 1 ? 1 : attn_ceil_div(shape->len_q, DECODE_ROWS);
}

static int64_t units_of(const AttnShape *shape) {
    return shape->batch * shape->heads_q * tiles_of(shape);
}

// Keys of a part, at least 1. With more splits than keys a part has one key.
static int64_t keys_of_part(const AttnShape *shape, int64_t splits) {
    if (shape->len_kv == 0) {
        return 1;
    }
    return units_of(shape) > DECODE_MAX_UNITS ? shape->len_kv
                                              : attn_ceil_div(shape->len_kv, splits);
}

// The parts that have a key: at most `splits`, at least 1.
static int64_t parts_of(const AttnShape *shape, int64_t splits) {
    return shape->len_kv == 0 ? 1 : attn_ceil_div(shape->len_kv, keys_of_part(shape, splits));
}

// Where the pieces of a workspace begin, in floats. The counters come first, and their place has
// one size for all shapes: what one launch leaves there is where the next one looks for it, and no
// launch writes anything else there.
typedef struct Layout {
    size_t part_lse, part_o, scores, end;
} Layout;

enum { COUNTER_BYTES = DECODE_MAX_UNITS * sizeof(unsigned) };

// The next multiple of 256 bytes.
static size_t after(size_t offset, size_t floats) {
    return (offset + floats + 63) / 64 * 64;
}

static Layout layout_of(const AttnShape *shape, int64_t splits) {
    const size_t rows = attn_count_lse(shape), parts = rows * (size_t)parts_of(shape, splits);
    Layout layout = {.part_lse = COUNTER_BYTES / sizeof(float)};
    layout.part_o = after(layout.part_lse, parts);
    layout.scores = after(layout.part_o, parts * (size_t)shape->dim);
    layout.end = after(layout.scores, rows * (size_t)shape->len_kv + parts); // and sums of parts
    return layout;
}

static size_t no_workspace(const AttnShape *shape, int64_t splits) {
    (void)shape;
    (void)splits;
    return 0;
}

static size_t parts_bytes(const AttnShape *shape, int64_t splits) {
    return layout_of(shape, splits).scores * sizeof(float);
}

static size_t parts_and_scores_bytes(const AttnShape *shape, int64_t splits) {
    return layout_of(shape, splits).end * sizeof(float);
}

AttnStatus decode_workspace_clear(GpuTarget target, void *workspace, size_t bytes,
                                  GpuStream stream) {
    const size_t counters = bytes < COUNTER_BYTES ? bytes : COUNTER_BYTES;
    return counters == 0 ? ATTN_OK : gpu_fill(target, workspace, 0, counters, stream);
}

// ---- checks and parameters ----------------------------------------------------------------------

static AttnStatus check_supported(const AttnShape *shape) {
    if (shape->dim > DECODE_MAX_DIM) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "dim %" PRId64 ": these kernels go up to %d",
                         shape->dim, DECODE_MAX_DIM);
    }
    if (shape->window != 0) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "window %" PRId64 ": windows come in chapter 7",
                         shape->window);
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
        return attn_fail(ATTN_ERR_ARGUMENT, "dtype %s: it is f32, f16 or bf16", dtype_name(dtype));
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

static AttnStatus check_workspace(const DecodeRung *rung, const AttnShape *shape, int64_t splits,
                                  const void *workspace) {
    const size_t rows = attn_count_lse(shape);
    if (rung->workspace_bytes == no_workspace || rows == 0) {
        return ATTN_OK;
    }
    const int64_t parts = parts_of(shape, splits);
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

AttnStatus decode_prepare(DecodeParams *params, const DecodeRung *rung, const AttnShape *shape,
                          DType dtype, const void *q, const void *k, const void *v, void *o,
                          float *lse, const int32_t *kv_lens, int64_t splits, void *workspace) {
    AttnStatus status = attn_check_shape(shape);
    if (status == ATTN_OK) {
        status = check_supported(shape);
    }
    if (status == ATTN_OK) {
        status = check_arguments(shape, dtype, kv_lens, splits);
    }
    if (status == ATTN_OK) {
        status = attn_check_pointers(shape, q, k, v, o, lse);
    }
    if (status == ATTN_OK) {
        status = check_workspace(rung, shape, splits, workspace);
    }
    if (status != ATTN_OK) {
        return status;
    }
    const size_t eight = 8 * dtype_size(dtype);
    *params = (DecodeParams){
        .q = q,
        .k = k,
        .v = v,
        .o = o,
        .lse = lse,
        .kv_lens = kv_lens,
        .heads = attn_count_lse(shape) > 0 ? (int)(shape->batch * shape->heads_q) : 0,
        .heads_q = (int)shape->heads_q,
        .group = (int)(shape->heads_q / shape->heads_kv),
        .len_q = (int)shape->len_q,
        .len_kv = (int)shape->len_kv,
        .dim = (int)shape->dim,
        .causal = shape->causal,
        .dtype = (int)dtype,
        .splits = 1,
        .part_keys = shape->len_kv > 0 ? (int)shape->len_kv : 1,
        .scale = fmaxf((float)attn_scale(shape), FLT_MIN), // not 0: -inf * 0 is NaN
        .vectors = shape->dim % 8 == 0 && is_aligned(q, eight) && is_aligned(k, eight) &&
                   is_aligned(v, eight),
    };
    if (params->heads > 0 && rung->workspace_bytes != no_workspace) {
        const Layout layout = layout_of(shape, splits);
        params->counters = workspace;
        params->part_lse = (float *)workspace + layout.part_lse;
        params->part_o = (float *)workspace + layout.part_o;
        params->scores = (float *)workspace + layout.scores;
        params->splits = (int)parts_of(shape, splits);
        params->part_keys = (int)keys_of_part(shape, splits);
    }
    return ATTN_OK;
}

// ---- the table ----------------------------------------------------------------------------------

const DecodeRung decode_rungs[DECODE_RUNGS] = {
    {"decode", "decode.cu", GPU_BUILDS(decode), 1, no_workspace},
    {"split_kv_unfused", "split_kv_unfused.cu", GPU_BUILDS(split_kv_unfused), 7,
     parts_and_scores_bytes},
    {"split_kv", "split_kv.cu", GPU_BUILDS(split_kv), 2, parts_bytes},
    {"split_kv_fused", "split_kv_fused.cu", GPU_BUILDS(split_kv_fused), 1, parts_bytes},
};

// ---- how many splits ----------------------------------------------------------------------------

// Later chapters choose by the same model: it stands in common/split_kv.c.
double decode_waves(double blocks, double slots) {
    return split_kv_waves(blocks, slots);
}

int64_t choose_splits(int64_t units, int64_t keys, int64_t slots, int64_t min_keys,
                      int64_t block_cost) {
    return split_kv_choose(units, keys, slots, min_keys, block_cost);
}

// The mean of the entries' lengths, rounded up.
static int64_t mean_keys(const AttnShape *shape) {
    int64_t sum = 0;
    for (int64_t b = 0; b < shape->batch; b++) {
        sum += attn_keys(shape, b);
    }
    return shape->batch > 0 ? attn_ceil_div(sum, shape->batch) : 0;
}

int64_t decode_slots(const AttnShape *shape, DType dtype, const GpuProperties *properties) {
    const int blocks = shape->len_q != 1        ? DECODE_BLOCKS_FOUR
                       : dtype_size(dtype) == 4 ? DECODE_BLOCKS_ONE_32
                                                : DECODE_BLOCKS_ONE_16;
    // Launch bounds that ask for so many blocks leave a thread so many registers, in eights.
    const int registers =
        properties->registers_per_multiprocessor / DECODE_THREADS / blocks / 8 * 8;
    const int rows = shape->len_q != 1 ? DECODE_ROWS : 1;
    // Eight columns of each row a thread, and each group's m and l (two at most for eight threads).
    const size_t shared = sizeof(float) * (size_t)(rows * DECODE_THREADS / 8 * (8 * 8 + 2));
    return (int64_t)properties->multiprocessors *
           gpu_blocks_per_multiprocessor(properties, DECODE_THREADS, registers, shared);
}

int64_t decode_splits(const AttnShape *shape, DType dtype, const GpuProperties *properties) {
    const int64_t keys = mean_keys(shape);
    const int64_t slots = decode_slots(shape, dtype, properties);
    const int64_t splits =
        choose_splits(units_of(shape), keys, slots, DECODE_MIN_KEYS, DECODE_BLOCK_COST);
    // As many keys to a part, but of len_kv keys.
    return keys > 0 ? attn_ceil_div(shape->len_kv, attn_ceil_div(keys, splits)) : 1;
}
