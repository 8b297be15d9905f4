// Rung 4: one launch. A block stores its part as in split_kv.cu, and counts itself; the block that
// counts last merges the parts of its queries. No second launch has to wait for the slowest block
// of all queries.
//
// Which block merges differs from run to run. The result does not: whoever it is reads all parts
// from memory, its own too, in the order of their numbers.
//
// Three things make it safe. A block's part is in memory before the block is counted: every thread
// has passed __threadfence before the barrier, and the count comes after it. The counter needs no
// reset, because atomicInc wraps from parts - 1 to 0: a launch leaves it as it found it. And no
// block waits for another, so that they need not all be on the GPU at a time.
#include "common/simt/simt.h"

#include "chapters/ch06_decode/decode.h"
#include "chapters/ch06_decode/load_row.h"

enum { THREADS = DECODE_THREADS, KEYS = 4, MAX_ROWS = DECODE_ROWS, MAX_GROUPS = THREADS / 8 };
#define LOG2_E 1.44269504f

// What a group of lanes has seen so far, for each query of the tile: chapter 2's state.
typedef struct State {
    float m[MAX_ROWS], l[MAX_ROWS]; // m: of scores not yet scaled
    float acc[MAX_ROWS][8];         // this lane's columns
} State;

// What the keys of a block meet.
typedef struct Tile {
    float q[MAX_ROWS][8]; // this lane's columns of each query
    int limit[MAX_ROWS];  // query r sees the keys before limit[r], at most `end`
    int end;              // keys from here on are not the block's
    Columns columns;
    int dim, vectors;
    float scale_log2; // exp(scale x) = 2^(scale_log2 x)
} Tile;

__device__ __forceinline__ void state_clear(State *state, const int rows) {
    UNROLL
    for (int r = 0; r < rows; r++) {
        state->m[r] = -INFINITY;
        state->l[r] = 0.0f;
        UNROLL
        for (int e = 0; e < 8; e++) {
            state->acc[r][e] = 0.0f;
        }
    }
}

// The online softmax update of chapter 2 for the keys key + stride * i, whose scores are s[r][i]
// and whose values are v[i]. Where `tested`, row r sees only keys before limit[r].
__device__ __forceinline__ void update(State *state, float s[MAX_ROWS][KEYS], const Eight *v,
                                       float scale_log2, int key, const int stride,
                                       const int *limit, const int rows, const int dtype,
                                       const int tested) {
    UNROLL
    for (int r = 0; r < rows; r++) {
        float m_new = state->m[r];
        UNROLL
        for (int i = 0; i < KEYS; i++) {
            s[r][i] = !tested || key + stride * i < limit[r] ? s[r][i] : -INFINITY;
            m_new = fmaxf(m_new, s[r][i]);
        }
        const float reference = m_new == -INFINITY ? 0.0f : m_new; // -inf - -inf is NaN
        const float alpha = exp2_approx((state->m[r] - reference) * scale_log2);
        state->m[r] = m_new;
        state->l[r] *= alpha;
        UNROLL
        for (int e = 0; e < 8; e++) {
            state->acc[r][e] *= alpha;
        }
        UNROLL
        for (int i = 0; i < KEYS; i++) {
            s[r][i] = exp2_approx((s[r][i] - reference) * scale_log2);
            state->l[r] += s[r][i];
        }
    }
    UNROLL
    for (int i = 0; i < KEYS; i++) {
        float x[8];
        widen(x, v[i], dtype);
        UNROLL
        for (int r = 0; r < rows; r++) {
            if (!tested || key + stride * i < limit[r]) { // a hidden value may be NaN
                UNROLL
                for (int e = 0; e < 8; e++) {
                    state->acc[r][e] += s[r][i] * x[e];
                }
            }
        }
    }
}

// Four keys of a group, key + stride * i, the first of which is at k and v: all loads, then the
// scores, then the update. Where `tested`, some of the keys may not be there.
__device__ __forceinline__ void take_keys(State *state, const Tile *tile, const char *k,
                                          const char *v, int key, const int head_dim,
                                          const int rows, const int dtype, const int whole,
                                          const int tested) {
    const int lanes = head_dim / 8, stride = THREADS / lanes;
    const size_t row_bytes = bytes_of((size_t)(whole ? head_dim : tile->dim), dtype);
    Eight k_row[KEYS], v_row[KEYS];
    UNROLL
    for (int i = 0; i < KEYS; i++) {
        const bool there = !tested || key + stride * i < tile->end;
        k_row[i] = load_eight(k + (size_t)(stride * i) * row_bytes, tile->columns, there, tile->dim,
                              tile->vectors, dtype, whole);
    }
    UNROLL
    for (int i = 0; i < KEYS; i++) {
        const bool there = !tested || key + stride * i < tile->end;
        v_row[i] = load_eight(v + (size_t)(stride * i) * row_bytes, tile->columns, there, tile->dim,
                              tile->vectors, dtype, whole);
    }
    float s[MAX_ROWS][KEYS];
    UNROLL
    for (int i = 0; i < KEYS; i++) {
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
            for (int i = 0; i < KEYS; i++) {
                s[r][i] += __shfl_xor_sync(FULL_MASK, s[r][i], step, 32);
            }
        }
    }
    update(state, s, v_row, tile->scale_log2, key, stride, tile->limit, rows, dtype, tested);
}

// The states of the block's groups become one by chapter 3's merge: O of `count` queries at
// o + o_stride * r, stored as o_dtype, and LSE at lse[lse_stride * r].
__device__ __forceinline__ void merge_groups(const State *state, float *shared, Columns columns,
                                             float scale, void *o, size_t o_stride, int o_dtype,
                                             float *lse, size_t lse_stride, int count, int dim,
                                             const int head_dim, const int rows) {
    const int lanes = head_dim / 8, groups = THREADS / lanes;
    const int group = (int)threadIdx.x / lanes, lane = (int)threadIdx.x % lanes;
    float *acc = shared;                       // [rows][groups][head_dim]
    float *m = acc + rows * groups * head_dim; // [rows][groups]
    float *l = m + rows * groups;              // [rows][groups]
    __syncthreads();                           // what was there before has served
    UNROLL
    for (int r = 0; r < rows; r++) {
        const float *a = state->acc[r];
        float *row = acc + (r * groups + group) * head_dim;
        *(float4 *)(row + columns.first) = make_float4(a[0], a[1], a[2], a[3]);
        *(float4 *)(row + columns.second) = make_float4(a[4], a[5], a[6], a[7]);
        if (lane == 0) {
            m[r * groups + group] = state->m[r];
            l[r * groups + group] = state->l[r];
        }
    }
    __syncthreads();
    for (int r = 0; r < count; r++) {
        float m_all = -INFINITY, l_all = 0.0f, weight[MAX_GROUPS];
        UNROLL
        for (int g = 0; g < groups; g++) {
            m_all = fmaxf(m_all, m[r * groups + g]);
        }
        const float reference = m_all == -INFINITY ? 0.0f : m_all;
        UNROLL
        for (int g = 0; g < groups; g++) {
            weight[g] = exp2_approx((m[r * groups + g] - reference) * (scale * LOG2_E));
            l_all += weight[g] * l[r * groups + g];
        }
        const float factor = l_all == 0.0f ? 0.0f : 1.0f / l_all; // 0: no key is seen
        for (int c = (int)threadIdx.x; c < dim; c += THREADS) {
            float sum = 0.0f;
            UNROLL
            for (int g = 0; g < groups; g++) {
                sum += weight[g] * acc[(r * groups + g) * head_dim + c];
            }
            store_element((char *)o + o_stride * (size_t)r, c, sum * factor, o_dtype);
        }
        if (threadIdx.x == 0) {
            lse[lse_stride * (size_t)r] = m_all * scale + logf(l_all);
        }
    }
}

// Parts 0 .. parts - 1 of one query become its O and LSE. That is attention once more, with parts
// in the place of keys: their LSE are the scores, their O the values, and the scale is 1.
__device__ __forceinline__ void merge_parts(const DecodeParams *p, float *shared, size_t row,
                                            int parts, const int head_dim, const int whole) {
    const int lanes = head_dim / 8, groups = THREADS / lanes, dim = whole ? head_dim : p->dim;
    const int group = (int)threadIdx.x / lanes, lane = (int)threadIdx.x % lanes;
    const size_t first = row * (size_t)p->splits;
    const float *part_o = p->part_o + first * dim; // [splits][dim]
    const float *part_lse = p->part_lse + first;   // [splits]
    const Columns columns = columns_of(lane, head_dim, DTYPE_F32);
    State state;
    state_clear(&state, 1);
    for (int part = group; part - group < parts; part += groups * KEYS) {
        float s[MAX_ROWS][KEYS];
        Eight o_row[KEYS];
        UNROLL
        for (int i = 0; i < KEYS; i++) {
            const int at = part + groups * i;
            s[0][i] = at < parts ? part_lse[at] : -INFINITY;
            o_row[i] = load_eight(part_o + (size_t)at * dim, columns, at < parts, dim, dim % 4 == 0,
                                  DTYPE_F32, whole);
        }
        update(&state, s, o_row, LOG2_E, part, groups, &parts, 1, DTYPE_F32, 1);
    }
    merge_groups(&state, shared, columns, 1.0f, (char *)p->o + bytes_of(row * dim, p->dtype), 0,
                 p->dtype, p->lse + row, 0, 1, dim, head_dim, 1);
}

// Keys that at least one of the queries row0 .. row0 + rows - 1 of a head sees.
__device__ __forceinline__ int tile_keys(const DecodeParams *p, int head, int row0, int rows) {
    const int in_use = p->kv_lens == NULL ? p->len_kv : p->kv_lens[head / p->heads_q];
    const int keys = in_use < p->len_kv ? in_use : p->len_kv;
    const int after = row0 + rows < p->len_q ? p->len_q - row0 - rows : 0; // queries that follow
    const int seen = p->causal ? keys - after : keys;
    return seen > 0 ? seen : 0;
}

// Parts of that many keys: at least one, be it without keys.
__device__ __forceinline__ int parts_of(const DecodeParams *p, int keys) {
    return keys > p->part_keys ? (keys + p->part_keys - 1) / p->part_keys : 1;
}

// One block: a part of the keys for a tile of `rows` queries of a head, dim <= head_dim.
__device__ __forceinline__ void attend(const DecodeParams *p, const int head_dim, const int rows,
                                       const int dtype, const int whole) {
    const int lanes = head_dim / 8, groups = THREADS / lanes, step = groups * KEYS;
    DYNAMIC_SHARED(float, shared);
    const int len_q = p->len_q, dim = whole ? head_dim : p->dim;
    const int tiles = rows == 1 ? 1 : (len_q + rows - 1) / rows;
    const int unit = (int)blockIdx.x / p->splits, part = (int)blockIdx.x % p->splits;
    const int head = unit / tiles, row0 = unit % tiles * rows;
    const int keys = tile_keys(p, head, row0, rows), parts = parts_of(p, keys);
    if (part >= parts) {
        return;
    }
    const int begin = part * p->part_keys;
    const int end = begin + p->part_keys < keys ? begin + p->part_keys : keys;

    const size_t row_bytes = bytes_of(dim, dtype), row = (size_t)head * len_q + row0;
    const size_t kv_row = (size_t)(p->group == 1 ? head : head / p->group) * p->len_kv + begin;
    const int group = (int)threadIdx.x / lanes, lane = (int)threadIdx.x % lanes;
    const size_t first = begin < end ? kv_row + group : 0;           // the group's first key
    const char *restrict q = (const char *)p->q + row * row_bytes;   // [rows][dim]
    const char *restrict k = (const char *)p->k + first * row_bytes; // [len_kv][dim]
    const char *restrict v = (const char *)p->v + first * row_bytes; // [len_kv][dim]
    const int count = len_q - row0 < rows ? len_q - row0 : rows;     // queries of the tile
    Tile tile = {.end = end, .dim = dim, .vectors = p->vectors};
    tile.columns = columns_of(lane, head_dim, dtype);
    tile.scale_log2 = p->scale * LOG2_E;
    UNROLL
    for (int r = 0; r < rows; r++) {
        widen(tile.q[r],
              load_eight(q + r * row_bytes, tile.columns, r < count, dim, p->vectors, dtype, whole),
              dtype);
        // Of a causal tile, the last query sees all of its keys, the one before it one less.
        const int own = keys - (count - 1 - r);
        tile.limit[r] = rows > 1 && p->causal && own < end ? own : end;
    }
    State state;
    state_clear(&state, rows);

    int key = begin;
    if (whole) { // the steps whose keys are all there and seen by all queries: no tests
        for (; key + step <= tile.limit[0]; key += step) {
            take_keys(&state, &tile, k, v, key + group, head_dim, rows, dtype, whole, 0);
            k += step * row_bytes;
            v += step * row_bytes;
        }
    }
    for (; key < end; key += step) {
        take_keys(&state, &tile, k, v, key + group, head_dim, rows, dtype, whole, 1);
        k += step * row_bytes;
        v += step * row_bytes;
    }

    if (parts == 1) {
        merge_groups(&state, shared, tile.columns, p->scale, (char *)p->o + row * row_bytes,
                     row_bytes, dtype, p->lse + row, 1, count, dim, head_dim, rows);
        return;
    }
    const size_t at = row * p->splits + part; // of the workspace
    merge_groups(&state, shared, tile.columns, p->scale, p->part_o + at * dim,
                 sizeof(float) * p->splits * dim, DTYPE_F32, p->part_lse + at, p->splits, count,
                 dim, head_dim, rows);

    // The part is counted. Whoever counts last goes on.
    __shared__ int is_last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned last = (unsigned)parts - 1;
        is_last = atomicInc(p->counters + unit, last) == last;
        __threadfence();
    }
    __syncthreads();
    for (int r = 0; is_last && r < count; r++) {
        merge_parts(p, shared, row + r, parts, head_dim, whole);
    }
}

// ---- kernels and launches -----------------------------------------------------------------------

static size_t shared_bytes(int head_dim, int rows) {
    const int groups = THREADS / (head_dim / 8);
    return sizeof(float) * (size_t)(rows * groups * (head_dim + 2));
}

// A kernel and its launch. `blocks` of it shall fit on an SM, which bounds a thread's registers.
#define KERNEL(name, head_dim, rows, dtype, whole, blocks)                                         \
    __global__ void __launch_bounds__(THREADS, blocks)                                             \
        name(const __grid_constant__ DecodeParams p) {                                             \
        attend(&p, head_dim, rows, dtype, whole);                                                  \
    }                                                                                              \
    SIMT_KERNEL(name, DecodeParams, THREADS);                                                      \
    static AttnStatus name##_launch(DecodeParams p, GpuStream stream) {                            \
        const int tiles = (p.len_q + (rows)-1) / (rows);                                           \
        const dim3 grid = {(unsigned)(tiles * p.heads * p.splits), 1, 1}, block = {THREADS, 1, 1}; \
        return LAUNCH(name, grid, block, shared_bytes(head_dim, rows), stream, p);                 \
    }                                                                                              \
    static_assert((rows) <= MAX_ROWS, "the arrays of State")

// Rows of head_dim elements, and any other rows of up to head_dim elements.
#define KERNEL_PAIR(name, head_dim, rows, dtype, blocks)                                           \
    KERNEL(name##_whole, head_dim, rows, dtype, 1, blocks);                                        \
    KERNEL(name##_any, head_dim, rows, dtype, 0, DECODE_BLOCKS_FOUR);                              \
    static AttnStatus name##_launch(DecodeParams p, GpuStream stream) {                            \
        return p.vectors && p.dim == (head_dim) ? name##_whole_launch(p, stream)                   \
                                                : name##_any_launch(p, stream);                    \
    }                                                                                              \
    static_assert((head_dim) <= DECODE_MAX_DIM, "the largest kernel's")

// The kernels of one storage type: one query to a tile where there is one, else four.
#define KERNELS(name, dtype, blocks_one, blocks_four)                                              \
    KERNEL_PAIR(name##_64_one, 64, 1, dtype, blocks_one);                                          \
    KERNEL_PAIR(name##_128_one, 128, 1, dtype, blocks_one);                                        \
    KERNEL_PAIR(name##_256_one, 256, 1, dtype, blocks_one);                                        \
    KERNEL_PAIR(name##_64_four, 64, 4, dtype, blocks_four);                                        \
    KERNEL_PAIR(name##_128_four, 128, 4, dtype, blocks_four);                                      \
    KERNEL_PAIR(name##_256_four, 256, 4, dtype, blocks_four);                                      \
    static AttnStatus name##_run(DecodeParams p, GpuStream stream) {                               \
        if (p.len_q == 1) {                                                                        \
            return p.dim > 128  ? name##_256_one_launch(p, stream)                                 \
                   : p.dim > 64 ? name##_128_one_launch(p, stream)                                 \
                                : name##_64_one_launch(p, stream);                                 \
        }                                                                                          \
        return p.dim > 128  ? name##_256_four_launch(p, stream)                                    \
               : p.dim > 64 ? name##_128_four_launch(p, stream)                                    \
                            : name##_64_four_launch(p, stream);                                    \
    }                                                                                              \
    static_assert(DECODE_MAX_DIM == 256, "the largest kernel's")

KERNELS(split_kv_fused_f32, DTYPE_F32, DECODE_BLOCKS_ONE_32, DECODE_BLOCKS_FOUR);
KERNELS(split_kv_fused_f16, DTYPE_F16, DECODE_BLOCKS_ONE_16, DECODE_BLOCKS_FOUR);
KERNELS(split_kv_fused_bf16, DTYPE_BF16, DECODE_BLOCKS_ONE_16, DECODE_BLOCKS_FOUR);

AttnStatus ENTRY(split_kv_fused)(const AttnShape *shape, DType dtype, const void *q, const void *k,
                                 const void *v, void *o, float *lse, const int32_t *kv_lens,
                                 int64_t splits, void *workspace, GpuStream stream) {
    DecodeParams p;
    const AttnStatus status = decode_prepare(&p, &decode_rungs[3], shape, dtype, q, k, v, o, lse,
                                             kv_lens, splits, workspace);
    if (status != ATTN_OK || p.heads == 0) {
        return status;
    }
    return dtype == DTYPE_F32   ? split_kv_fused_f32_run(p, stream)
           : dtype == DTYPE_F16 ? split_kv_fused_f16_run(p, stream)
                                : split_kv_fused_bf16_run(p, stream);
}
