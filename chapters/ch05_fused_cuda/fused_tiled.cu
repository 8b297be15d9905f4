// Rung 4: the loops turned round. A block owns 32 queries of a head and goes through the keys: O, m
// and l stay in registers from the first tile to the last and are written once. What
// fused_keys_outside.cu read and wrote for every pair of tiles is gone; K and V are read once for
// each block instead, and a head now makes as many blocks as it has tiles of queries.
//
// How lanes share a tile, and the padding, are as in fused_keys_outside.cu.
#include "common/simt/simt.h"

#include "chapters/ch05_fused_cuda/fused.h"
#include "chapters/ch05_fused_cuda/load_tile.h"

enum { THREADS = 128, LANES = 4, BLOCK_Q = THREADS / LANES, PAD = 4 };
enum { MAX_KEYS = 8, MAX_COLUMNS = FUSED_MAX_DIM / (4 * LANES) }; // of a lane; columns by fours

__device__ __forceinline__ float row_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(FULL_MASK, x, 2, 32));
    return fmaxf(x, __shfl_xor_sync(FULL_MASK, x, 1, 32));
}

__device__ __forceinline__ float row_sum(float x) {
    x += __shfl_xor_sync(FULL_MASK, x, 2, 32);
    return x + __shfl_xor_sync(FULL_MASK, x, 1, 32);
}

__device__ __forceinline__ float dot_four(float4 a, float4 b, float sum) {
    return sum + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

__device__ __forceinline__ float4 times(float a, float4 x) {
    return make_float4(a * x.x, a * x.y, a * x.z, a * x.w);
}

__device__ __forceinline__ void add_product(float4 *acc, float a, float4 x) {
    acc->x += a * x.x;
    acc->y += a * x.y;
    acc->z += a * x.z;
    acc->w += a * x.w;
}

// Bytes of shared memory: Q [BLOCK_Q][head_dim + PAD], K [block_k][head_dim + PAD], V
// [block_k][head_dim], P [BLOCK_Q][block_k + PAD].
static size_t tile_bytes(int head_dim, int keys) {
    const int block_k = LANES * keys;
    return sizeof(float) * (size_t)((BLOCK_Q + block_k) * (head_dim + PAD) + block_k * head_dim +
                                    BLOCK_Q * (block_k + PAD));
}

// The kernel for dim <= head_dim and tiles of LANES * keys keys, both constants: only then do s and
// acc stay in registers.
__device__ __forceinline__ void attend(const FusedParams *p, const int head_dim, const int keys) {
    const int block_k = LANES * keys, stride = head_dim + PAD, columns = head_dim / (4 * LANES);
    DYNAMIC_SHARED(float, shared);
    float *q_tile = shared;                      // [BLOCK_Q][stride]
    float *k_tile = q_tile + BLOCK_Q * stride;   // [block_k][stride]
    float *v_tile = k_tile + block_k * stride;   // [block_k][head_dim]
    float *p_tile = v_tile + block_k * head_dim; // [BLOCK_Q][block_k + PAD]

    const int len_q = p->len_q, len_kv = p->len_kv, dim = p->dim, vectors = p->vectors;
    const int tiles = (len_q + BLOCK_Q - 1) / BLOCK_Q;
    const int head = (int)blockIdx.x / tiles, row0 = (int)blockIdx.x % tiles * BLOCK_Q;
    const size_t kv_head = (size_t)(head / p->group);
    const float *restrict q = p->q + (size_t)head * len_q * dim; // [len_q][dim]
    const float *restrict k = p->k + kv_head * len_kv * dim;     // [len_kv][dim]
    const float *restrict v = p->v + kv_head * len_kv * dim;     // [len_kv][dim]
    float *restrict o = p->o + (size_t)head * len_q * dim;       // [len_q][dim]
    float *restrict lse = p->lse + (size_t)head * len_q;         // [len_q]

    const int r = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES;
    const float *q_row = q_tile + r * stride;
    float *p_row = p_tile + r * (block_k + PAD);
    float m = -INFINITY, l = 0.0f;
    float4 acc[MAX_COLUMNS]; // columns 4 (lane + LANES x) and the next three
    UNROLL
    for (int x = 0; x < columns; x++) {
        acc[x] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    load_tile(q_tile, stride, BLOCK_Q, head_dim, q, row0, len_q, dim, vectors, THREADS, 0);

    for (int key0 = 0; key0 < len_kv; key0 += block_k) {
        __syncthreads(); // the tiles before have served
        load_tile(k_tile, stride, block_k, head_dim, k, key0, len_kv, dim, vectors, THREADS, 0);
        load_tile(v_tile, head_dim, block_k, head_dim, v, key0, len_kv, dim, vectors, THREADS, 0);
        __syncthreads();

        // Scores of row r with keys key0 + lane + LANES j.
        float s[MAX_KEYS], m_new = m;
        UNROLL
        for (int j = 0; j < keys; j++) {
            s[j] = 0.0f;
        }
        UNROLL_BY(4)
        for (int c = 0; c < head_dim; c += 4) {
            const float4 a = *(const float4 *)(q_row + c);
            UNROLL
            for (int j = 0; j < keys; j++) {
                s[j] =
                    dot_four(a, *(const float4 *)(k_tile + (lane + LANES * j) * stride + c), s[j]);
            }
        }
        UNROLL
        for (int j = 0; j < keys; j++) {
            s[j] = key0 + lane + LANES * j < len_kv ? p->scale * s[j] : -INFINITY;
            m_new = fmaxf(m_new, s[j]);
        }

        // The online softmax update of chapter 2.
        m_new = row_max(m_new);
        const float reference = m_new == -INFINITY ? 0.0f : m_new; // -inf - -inf is NaN
        const float alpha = __expf(m - reference);
        float sum = 0.0f;
        UNROLL
        for (int j = 0; j < keys; j++) {
            const float probability = __expf(s[j] - reference);
            sum += probability;
            p_row[lane + LANES * j] = probability;
        }
        m = m_new;
        l = alpha * l + row_sum(sum);
        __syncwarp(FULL_MASK); // the row's probabilities are in p_row
        UNROLL
        for (int x = 0; x < columns; x++) {
            acc[x] = times(alpha, acc[x]);
        }
        UNROLL_BY(4)
        for (int j = 0; j < block_k; j++) {
            UNROLL
            for (int x = 0; x < columns; x++) {
                add_product(&acc[x], p_row[j],
                            *(const float4 *)(v_tile + j * head_dim + 4 * (lane + LANES * x)));
            }
        }
    }
    if (row0 + r < len_q) {
        const float factor = l == 0.0f ? 0.0f : 1.0f / l; // l = 0: there is no key
        UNROLL
        for (int x = 0; x < columns; x++) {
            store_four(o + (size_t)(row0 + r) * dim, 4 * (lane + LANES * x), dim, vectors,
                       times(factor, acc[x]), 0);
        }
        if (lane == 0) {
            lse[row0 + r] = m + logf(l);
        }
    }
}

#define TILED_KERNEL(name, head_dim, keys)                                                         \
    __global__ void __launch_bounds__(THREADS) name(const __grid_constant__ FusedParams p) {       \
        attend(&p, head_dim, keys);                                                                \
    }                                                                                              \
    SIMT_KERNEL(name, FusedParams, THREADS)
TILED_KERNEL(tiled_kernel_64, 64, 8);
TILED_KERNEL(tiled_kernel_128, 128, 8);
TILED_KERNEL(tiled_kernel_256, 256, 4); // half the tile: the rest would not fit 99 KB

AttnStatus ENTRY(fused_tiled)(const AttnShape *shape, const float *q, const float *k,
                              const float *v, float *o, float *lse, float *workspace,
                              GpuStream stream) {
    FusedParams p;
    AttnStatus status = fused_prepare(&p, shape, q, k, v, o, lse, workspace, 0, sizeof(float));
    if (status != ATTN_OK || p.heads == 0) {
        return status;
    }
    const dim3 grid = {(unsigned)((p.len_q + BLOCK_Q - 1) / BLOCK_Q * p.heads), 1, 1};
    const dim3 block = {THREADS, 1, 1};
    if (p.dim <= 64) {
        return LAUNCH(tiled_kernel_64, grid, block, tile_bytes(64, 8), stream, p);
    }
    // More than 48 KB of shared memory has to be asked for.
    if (p.dim <= 128) {
        status = SHARED_OPT_IN(tiled_kernel_128, tile_bytes(128, 8));
        return status != ATTN_OK
                   ? status
                   : LAUNCH(tiled_kernel_128, grid, block, tile_bytes(128, 8), stream, p);
    }
    status = SHARED_OPT_IN(tiled_kernel_256, tile_bytes(256, 4));
    return status != ATTN_OK ? status
                             : LAUNCH(tiled_kernel_256, grid, block, tile_bytes(256, 4), stream, p);
}
