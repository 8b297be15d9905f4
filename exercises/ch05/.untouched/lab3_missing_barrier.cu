// Lab 3: find the missing barrier.
//
// A block has two warps with different tasks. The first computes: every lane has one query, its
// output and its softmax in registers. The second loads: it brings the keys and values of a tile
// from memory to shared memory, where the first finds them. All queries of a block use every key.
#include "labs.h"

#include "common/simt/simt.h"

enum { ROWS = 32, THREADS = 64 };

// Copies keys first .. first+LOADER_KEYS-1 of [len_kv][dim] into a tile; those that do not exist
// become 0. Called by the second warp.
__device__ __forceinline__ void load_keys(float *tile, const float *restrict from, int first,
                                          int len_kv, int dim) {
    for (int e = (int)threadIdx.x - ROWS; e < LOADER_KEYS * dim; e += THREADS - ROWS) {
        const int key = first + e / dim;
        tile[e] = key < len_kv ? from[(size_t)key * dim + e % dim] : 0.0f;
    }
}

__global__ void __launch_bounds__(THREADS)
    loader_kernel(const __grid_constant__ LoaderAttention p) {
    __shared__ float k_tile[LOADER_KEYS * LOADER_MAX_DIM], v_tile[LOADER_KEYS * LOADER_MAX_DIM];
    const int dim = p.dim;
    const size_t head = blockIdx.y;
    const float *restrict q = p.q + head * p.len_q * dim;  // [len_q][dim]
    const float *restrict k = p.k + head * p.len_kv * dim; // [len_kv][dim]
    const float *restrict v = p.v + head * p.len_kv * dim; // [len_kv][dim]
    float *restrict o = p.o + head * p.len_q * dim;        // [len_q][dim]
    float *restrict lse = p.lse + head * p.len_q;          // [len_q]
    const bool computes = threadIdx.x < ROWS;
    const int row = (int)(blockIdx.x * ROWS + threadIdx.x); // of a thread that computes
    float query[LOADER_MAX_DIM], acc[LOADER_MAX_DIM], m = -INFINITY, l = 0.0f;
    for (int c = 0; c < dim; c++) {
        query[c] = computes && row < p.len_q ? q[(size_t)row * dim + c] : 0.0f;
        acc[c] = 0.0f;
    }

    for (int first = 0; first < p.len_kv; first += LOADER_KEYS) {
        const int keys = p.len_kv - first < LOADER_KEYS ? p.len_kv - first : LOADER_KEYS;
        if (!computes) {
            load_keys(k_tile, k, first, p.len_kv, dim);
            load_keys(v_tile, v, first, p.len_kv, dim);
        }
        __syncthreads();
        for (int j = 0; computes && j < keys; j++) {
            float score = 0.0f;
            for (int c = 0; c < dim; c++) {
                score += query[c] * k_tile[j * dim + c];
            }
            score *= p.scale;
            const float m_new = fmaxf(m, score);
            const float alpha = expf(m - m_new), weight = expf(score - m_new);
            l = l * alpha + weight;
            m = m_new;
            for (int c = 0; c < dim; c++) {
                acc[c] = acc[c] * alpha + weight * v_tile[j * dim + c];
            }
        }
    }

    if (computes && row < p.len_q) {
        for (int c = 0; c < dim; c++) {
            o[(size_t)row * dim + c] = acc[c] / l;
        }
        lse[row] = m + logf(l);
    }
}
SIMT_KERNEL(loader_kernel, LoaderAttention, THREADS);

AttnStatus ENTRY(loader_attention)(const LoaderAttention *attention, GpuStream stream) {
    const LoaderAttention params = *attention;
    const dim3 grid = {(unsigned)(params.len_q + ROWS - 1) / ROWS, (unsigned)params.heads, 1};
    const dim3 block = {THREADS, 1, 1};
    if (params.dim > LOADER_MAX_DIM) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "dim %d: at most %d", params.dim, LOADER_MAX_DIM);
    }
    return LAUNCH(loader_kernel, grid, block, 0, stream, params);
}
