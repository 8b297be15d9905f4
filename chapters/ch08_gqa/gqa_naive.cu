// Rung 1: a block for each query head, as in chapter 6. The query heads of a group read the same
// keys and values, and each of their blocks reads all of them again.
//
// A tile is one query, or four queries of a head where there are more.
#include "common/simt/simt.h"

#include "chapters/ch08_gqa/gqa.h"
#include "common/merge_parts.h"

// What the keys of a block meet.
typedef struct Tile {
    float q[STATE_ROWS][8];     // this lane's columns of each row
    MaskRange seen[STATE_ROWS]; // the keys that row r sees, up to `end`
    int end;                    // keys from here on are not the block's
    Columns columns;
    int dim, vectors;
    float scale_log2; // exp(scale x) = 2^(scale_log2 x)
} Tile;

// Four keys of a group, key + stride * i, the first of which is at k and v: all loads, then the
// scores, then the update. Where `tested`, keys may be missing, or hidden from some rows.
__device__ __forceinline__ void take_keys(State *state, const Tile *tile, const char *k,
                                          const char *v, int key, const int head_dim,
                                          const int rows, const int dtype, const int whole,
                                          const int tested) {
    const int lanes = head_dim / 8, stride = SPLIT_KV_THREADS / lanes;
    const size_t row_bytes = bytes_of((size_t)(whole ? head_dim : tile->dim), dtype);
    Eight k_row[STATE_KEYS], v_row[STATE_KEYS];
    UNROLL
    for (int i = 0; i < STATE_KEYS; i++) {
        const bool there = !tested || key + stride * i < tile->end;
        k_row[i] = load_eight(k + (size_t)(stride * i) * row_bytes, tile->columns, there, tile->dim,
                              tile->vectors, dtype, whole);
    }
    UNROLL
    for (int i = 0; i < STATE_KEYS; i++) {
        const bool there = !tested || key + stride * i < tile->end;
        v_row[i] = load_eight(v + (size_t)(stride * i) * row_bytes, tile->columns, there, tile->dim,
                              tile->vectors, dtype, whole);
    }
    float s[STATE_ROWS][STATE_KEYS];
    UNROLL
    for (int i = 0; i < STATE_KEYS; i++) {
        float x[8];
        widen(x, k_row[i], dtype);
        UNROLL
        for (int r = 0; r < rows; r++) {
            s[r][i] = 0.0f;
            UNROLL
            for (int e = 0; e < 8; e++) {
                s[r][i] += tile->q[r][e] * x[e];
            }
        }
    }
    UNROLL
    for (int step = lanes / 2; step > 0; step /= 2) { // over the group's lanes, all scores at once
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int i = 0; i < STATE_KEYS; i++) {
                s[r][i] += __shfl_xor_sync(FULL_MASK, s[r][i], step, 32);
            }
        }
    }
    update(state, s, v_row, tile->scale_log2, key, stride, tile->seen, rows, dtype, tested);
}

// One block: a part of the keys for a tile of `rows` queries of a head, dim <= head_dim.
__device__ __forceinline__ void attend(const SplitKvParams *p, const int head_dim, const int rows,
                                       const int dtype, const int whole) {
    const int lanes = head_dim / 8, groups = SPLIT_KV_THREADS / lanes, step = groups * STATE_KEYS;
    DYNAMIC_SHARED(float, shared);
    const int unit = (int)blockIdx.x / p->splits, part = (int)blockIdx.x % p->splits;
    const int head = unit / p->tiles, row0 = unit % p->tiles * rows; // of the query heads, a row
    const int kv_head = head / (p->heads_q / p->heads_kv);
    const int count = p->rows - row0 < rows ? p->rows - row0 : rows; // rows of the tile
    const int first = row0, last = row0 + count - 1;                 // tokens of the tile
    const Mask mask = {p->len_q, keys_in_use(p, kv_head), p->causal, p->window};
    const MaskRange some = mask_tile_keys(mask, first, last - first + 1); // what any row sees
    const int parts = parts_of(p, some.end - some.begin);
    const Place place = {unit, head, row0, count, part, parts};
    if (part >= parts) {
        return;
    }
    int key = some.begin + part * p->part_keys;
    const int end = key + p->part_keys < some.end ? key + p->part_keys : some.end;
    // What all rows see begins with the last token's keys and ends with the first one's.
    const int all_begin = mask_row_keys(mask, last).begin;
    const int first_end = mask_row_keys(mask, first).end;
    const int all_end = first_end < end ? first_end : end;

    const int dim = whole ? head_dim : p->dim;
    const size_t row_bytes = bytes_of(dim, dtype);
    const int group = (int)threadIdx.x / lanes, lane = (int)threadIdx.x % lanes;
    const size_t kv_row = key < end ? (size_t)kv_head * p->len_kv + key + group : 0;
    const char *restrict q = (const char *)p->q;                      // rows of [dim]
    const char *restrict k = (const char *)p->k + kv_row * row_bytes; // [len_kv][dim]
    const char *restrict v = (const char *)p->v + kv_row * row_bytes; // [len_kv][dim]
    Tile tile = {.end = end, .dim = dim, .vectors = p->vectors};
    tile.columns = columns_of(lane, head_dim, dtype);
    tile.scale_log2 = p->scale * LOG2_E;
    UNROLL
    for (int r = 0; r < rows; r++) {
        const int row = row0 + (r < count ? r : 0); // behind the last: the first once more
        const char *from = q + packed_row(p, head, row) * row_bytes;
        widen(tile.q[r], load_eight(from, tile.columns, r < count, dim, p->vectors, dtype, whole),
              dtype);
        tile.seen[r] = mask_row_keys(mask, row);
        tile.seen[r].end = tile.seen[r].end < end ? tile.seen[r].end : end;
    }
    State state;
    state_clear(&state, rows);

    for (; key < end; key += step) {
        if (whole && key >= all_begin && key + step <= all_end) { // all there, seen by all rows
            take_keys(&state, &tile, k, v, key + group, head_dim, rows, dtype, whole, 0);
        } else {
            take_keys(&state, &tile, k, v, key + group, head_dim, rows, dtype, whole, 1);
        }
        k += step * row_bytes;
        v += step * row_bytes;
    }
    const States states = states_at(shared, rows, groups, head_dim);
    store_state(states, &state, tile.columns, rows, head_dim);
    finish_part(p, place, states, groups, head_dim, dtype);
}

// ---- kernels and launches -----------------------------------------------------------------------

// A kernel and its launch. `blocks` of it shall fit on an SM, which bounds a thread's registers.
#define KERNEL(name, head_dim, rows, dtype, whole, blocks)                                         \
    __global__ void __launch_bounds__(SPLIT_KV_THREADS, blocks)                                    \
        name(const __grid_constant__ SplitKvParams p) {                                            \
        attend(&p, head_dim, rows, dtype, whole);                                                  \
    }                                                                                              \
    SIMT_KERNEL(name, SplitKvParams, SPLIT_KV_THREADS);                                            \
    static AttnStatus name##_launch(SplitKvParams p, GpuStream stream) {                           \
        const dim3 grid = {(unsigned)(p.units * p.splits), 1, 1};                                  \
        const dim3 block = {SPLIT_KV_THREADS, 1, 1};                                               \
        const size_t bytes = STATES_BYTES(rows, SPLIT_KV_THREADS * 8 / (head_dim), head_dim);      \
        return LAUNCH(name, grid, block, bytes, stream, p);                                        \
    }                                                                                              \
    static_assert((rows) <= STATE_ROWS, "the arrays of State")

// The kernels of one storage type, for rows of exactly 64, 128 or 256 elements.
#define KERNELS(name, dtype, blocks_one, blocks_four)                                              \
    KERNEL(name##_64_one, 64, 1, dtype, 1, blocks_one);                                            \
    KERNEL(name##_64_four, 64, 4, dtype, 1, blocks_four);                                          \
    KERNEL(name##_128_one, 128, 1, dtype, 1, blocks_one);                                          \
    KERNEL(name##_128_four, 128, 4, dtype, 1, blocks_four);                                        \
    KERNEL(name##_256_one, 256, 1, dtype, 1, blocks_one);                                          \
    KERNEL(name##_256_four, 256, 4, dtype, 1, blocks_four);                                        \
    KERNEL(name##_any_64, 64, 4, dtype, 0, 2); /* any other rows, at any address */                \
    KERNEL(name##_any_256, 256, 4, dtype, 0, 2);                                                   \
    static AttnStatus name##_launch(SplitKvParams p, GpuStream stream) {                           \
        if (p.vectors && p.dim == 64) {                                                            \
            return p.rows == 1 ? name##_64_one_launch(p, stream)                                   \
                               : name##_64_four_launch(p, stream);                                 \
        }                                                                                          \
        if (p.vectors && p.dim == 128) {                                                           \
            return p.rows == 1 ? name##_128_one_launch(p, stream)                                  \
                               : name##_128_four_launch(p, stream);                                \
        }                                                                                          \
        if (p.vectors && p.dim == 256) {                                                           \
            return p.rows == 1 ? name##_256_one_launch(p, stream)                                  \
                               : name##_256_four_launch(p, stream);                                \
        }                                                                                          \
        return p.dim <= 64 ? name##_any_64_launch(p, stream) : name##_any_256_launch(p, stream);   \
    }                                                                                              \
    static_assert(GQA_MAX_DIM == 256, "the largest kernel's")

KERNELS(gqa_naive_f32, DTYPE_F32, 4, 2);
KERNELS(gqa_naive_f16, DTYPE_F16, 6, 3);
KERNELS(gqa_naive_bf16, DTYPE_BF16, 6, 3);

AttnStatus ENTRY(gqa_naive)(const AttnShape *shape, DType dtype, const void *q, const void *k,
                            const void *v, void *o, float *lse, const int32_t *kv_lens,
                            int64_t splits, void *workspace, GpuStream stream) {
    SplitKvParams p;
    const AttnStatus status =
        gqa_prepare(&p, GQA_NAIVE, shape, dtype, q, k, v, o, lse, kv_lens, splits, workspace);
    if (status != ATTN_OK || p.units == 0) {
        return status;
    }
    return dtype == DTYPE_F32   ? gqa_naive_f32_launch(p, stream)
           : dtype == DTYPE_F16 ? gqa_naive_f16_launch(p, stream)
                                : gqa_naive_bf16_launch(p, stream);
}
