// Lab 3: decode with multi-query attention, where all query heads read one KV head.
//
// The keys of an entry are cut into parts, and each part runs in a block of its own. What a part
// loads serves all heads: four neighbouring lanes have one head, as in lab 2. A second kernel
// merges the parts, a block for each head. It is given, and so is what a row does with a tile of
// keys; who has which keys and which head is yours.
#include "labs.h"

#include "common/simt/simt.h"

enum { TILE = 16, LANES = 4, MAX_THREADS = LANES * MQA_MAX_HEADS };
enum { LANE_KEYS = TILE / LANES, LANE_COLUMNS = MQA_MAX_DIM / LANES, MERGE_THREADS = 64 };

__device__ __forceinline__ float row_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(FULL_MASK, x, 2, 32));
    return fmaxf(x, __shfl_xor_sync(FULL_MASK, x, 1, 32));
}

__device__ __forceinline__ float row_sum(float x) {
    x += __shfl_xor_sync(FULL_MASK, x, 2, 32);
    return x + __shfl_xor_sync(FULL_MASK, x, 1, 32);
}

// What a thread has of its head's row.
typedef struct State {
    float m, l, acc[LANE_COLUMNS]; // acc: columns lane, lane + 4, ... of the sum, not divided yet
} State;

// Copies rows 0 .. count-1 of `from` [count][dim], count <= 16, into a tile, all threads of the
// block together; the other rows of the tile become 0.
__device__ __forceinline__ void load_tile(float (*tile)[MQA_MAX_DIM + 1],
                                          const float *restrict from, int count, int dim) {
    for (int e = (int)threadIdx.x; e < TILE * dim; e += (int)blockDim.x) {
        tile[e / dim][e % dim] = e / dim < count ? from[e] : 0.0f;
    }
}

// Takes the first `count` keys of a tile into a row. All lanes of a warp call it, those without a
// head too. q_row [dim], weights [TILE] of this row.
__device__ __forceinline__ void take_tile(State *state, const float *q_row,
                                          float (*k_tile)[MQA_MAX_DIM + 1],
                                          float (*v_tile)[MQA_MAX_DIM + 1], float *weights,
                                          int count, int dim, float scale) {
    const int lane = (int)threadIdx.x % LANES;
    float s[LANE_KEYS], m_new = state->m;
    for (int j = 0; j < LANE_KEYS; j++) {
        float dot = 0.0f;
        for (int c = 0; c < dim; c++) {
            dot += q_row[c] * k_tile[lane + LANES * j][c];
        }
        s[j] = lane + LANES * j < count ? scale * dot : -INFINITY;
        m_new = fmaxf(m_new, s[j]);
    }
    m_new = row_max(m_new); // a number: count is 1 or more
    const float alpha = expf(state->m - m_new);
    float sum = 0.0f;
    for (int j = 0; j < LANE_KEYS; j++) {
        weights[lane + LANES * j] = expf(s[j] - m_new);
        sum += weights[lane + LANES * j];
    }
    state->l = state->l * alpha + row_sum(sum);
    state->m = m_new;
    __syncwarp(FULL_MASK); // the weights of this warp's rows are there
    for (int u = 0; u * LANES + lane < dim; u++) {
        state->acc[u] *= alpha;
        for (int j = 0; j < count; j++) {
            state->acc[u] += weights[j] * v_tile[j][u * LANES + lane];
        }
    }
    __syncwarp(FULL_MASK); // and may be overwritten
}

__global__ void __launch_bounds__(MAX_THREADS) mqa_kernel(const __grid_constant__ MqaDecode p) {
    __shared__ float q_tile[MQA_MAX_HEADS][MQA_MAX_DIM + 1];
    __shared__ float k_tile[TILE][MQA_MAX_DIM + 1], v_tile[TILE][MQA_MAX_DIM + 1];
    __shared__ float weights[MQA_MAX_HEADS][TILE + 1];
    const int dim = p.dim, lane = (int)threadIdx.x % LANES;
    const float *restrict q = p.q;         // [batch][heads][dim]
    const float *restrict k = p.k;         // [batch][len_kv][dim]
    const float *restrict v = p.v;         // [batch][len_kv][dim]
    float *restrict part_o = p.part_o;     // [batch][parts][heads][dim]
    float *restrict part_lse = p.part_lse; // [batch][parts][heads]
    int entry = 0, part = 0;               // of this block
    int head = p.heads;                    // of this thread; p.heads or more: none
    int begin = 0, end = 0;                // the keys of the part
    // TODO 1: all of them; the loads below ask for no key twice
    (void)begin, (void)end;
    // END 1

    State state = {-INFINITY, 0.0f, {0}};
    // TODO 2: the queries to q_tile; the part's keys and values, tile by tile, for all heads. A
    // thread without a head takes part in loads, barriers and take_tile, on memory that is its own
    (void)q, (void)k, (void)v, (void)entry, (void)q_tile, (void)k_tile, (void)v_tile;
    (void)weights, (void)state, (void)load_tile, (void)take_tile;
    // END 2

    // TODO 3: O and LSE of the part for this thread's head. Nobody reads O of an empty part
    (void)part_o, (void)part_lse, (void)part, (void)head, (void)dim, (void)lane;
    // END 3
}
SIMT_KERNEL(mqa_kernel, MqaDecode, MAX_THREADS);

// A head of an entry: its parts become O and LSE. Thread c has dimension c.
__global__ void __launch_bounds__(MERGE_THREADS) merge_kernel(const __grid_constant__ MqaDecode p) {
    const int head = (int)blockIdx.x, entry = (int)blockIdx.y, c = (int)threadIdx.x;
    const float *restrict part_o = p.part_o;     // [batch][parts][heads][dim]
    const float *restrict part_lse = p.part_lse; // [batch][parts][heads]
    const size_t first = (size_t)entry * p.parts * p.heads + head,
                 row = (size_t)entry * p.heads + head;
    float m = -INFINITY, l = 0.0f, acc = 0.0f;
    for (int i = 0; i < p.parts; i++) {
        m = fmaxf(m, part_lse[first + (size_t)i * p.heads]);
    }
    for (int i = 0; i < p.parts; i++) {
        const size_t at = first + (size_t)i * p.heads;
        if (part_lse[at] != -INFINITY) {
            const float weight = expf(part_lse[at] - m);
            l += weight;
            acc += c < p.dim ? weight * part_o[at * p.dim + c] : 0.0f;
        }
    }
    if (c < p.dim) {
        p.o[row * p.dim + c] = l == 0.0f ? 0.0f : acc / l;
    }
    if (c == 0) {
        p.lse[row] = m + logf(l);
    }
}
SIMT_KERNEL(merge_kernel, MqaDecode, MERGE_THREADS);

AttnStatus ENTRY(mqa_decode)(const MqaDecode *decode, GpuStream stream) {
    const MqaDecode params = *decode;
    dim3 grid = {1, 1, 1}, block = {32, 1, 1}; // of mqa_kernel
    // TODO 4: blocks, and threads of a block: whole warps, at most MAX_THREADS
    // END 4
    const AttnStatus status = LAUNCH(mqa_kernel, grid, block, 0, stream, params);
    if (status != ATTN_OK) {
        return status;
    }
    const dim3 merge_grid = {(unsigned)params.heads, (unsigned)params.batch, 1};
    const dim3 merge_block = {MERGE_THREADS, 1, 1};
    return LAUNCH(merge_kernel, merge_grid, merge_block, 0, stream, params);
}
