// Rung 2, the trap: chapter 4's tiled.c with a thread for each query. One launch, no score in
// memory, K and V read once for 64 queries; and slower than the three kernels.
//
// A thread's q_row and acc are arrays that are indexed by a loop to p.dim, which is known only at
// run time. Registers have no indices: nvcc puts such arrays into local memory, which is memory,
// and every multiply-add loads an operand from there. (simt cannot show that: `make resources`
// does, as `stack` in build/resources.csv.) Neighbouring threads read and write rows of Q and O,
// dim floats apart, so that a request touches 32 sectors where 4 would do. And a head of N queries
// makes N threads: with few heads most of the machine has nothing to do.
#include "common/simt/simt.h"

#include "chapters/ch05_fused_cuda/fused.h"

enum { BLOCK_Q = 64, BLOCK_K = 16 };

__global__ void __launch_bounds__(BLOCK_Q)
    thread_per_row_kernel(const __grid_constant__ FusedParams p) {
    __shared__ float k_tile[BLOCK_K * FUSED_MAX_DIM]; // [BLOCK_K][dim]
    __shared__ float v_tile[BLOCK_K * FUSED_MAX_DIM]; // [BLOCK_K][dim]
    const int dim = p.dim, tiles = (p.len_q + BLOCK_Q - 1) / BLOCK_Q;
    const int head = (int)blockIdx.x / tiles;
    const int row = (int)blockIdx.x % tiles * BLOCK_Q + (int)threadIdx.x;
    const size_t kv_head = (size_t)(head / p.group);
    const float *restrict q = p.q + ((size_t)head * p.len_q + row) * dim; // [dim], this row
    const float *restrict k = p.k + kv_head * p.len_kv * dim;             // [len_kv][dim]
    const float *restrict v = p.v + kv_head * p.len_kv * dim;             // [len_kv][dim]
    float *restrict o = p.o + ((size_t)head * p.len_q + row) * dim;       // [dim], this row
    float *restrict lse = p.lse + (size_t)head * p.len_q;                 // [len_q]

    float q_row[FUSED_MAX_DIM], acc[FUSED_MAX_DIM], m = -INFINITY, l = 0.0f;
    for (int c = 0; c < dim; c++) {
        q_row[c] = row < p.len_q ? q[c] : 0.0f;
        acc[c] = 0.0f;
    }
    for (int key0 = 0; key0 < p.len_kv; key0 += BLOCK_K) {
        const int keys = p.len_kv - key0 < BLOCK_K ? p.len_kv - key0 : BLOCK_K;
        __syncthreads(); // the tiles before have served
        for (int e = (int)threadIdx.x; e < keys * dim; e += BLOCK_Q) {
            k_tile[e] = k[(size_t)key0 * dim + e];
            v_tile[e] = v[(size_t)key0 * dim + e];
        }
        __syncthreads();

        float s[BLOCK_K], m_new = m;
        for (int j = 0; j < keys; j++) {
            s[j] = 0.0f;
            for (int c = 0; c < dim; c++) {
                s[j] += q_row[c] * k_tile[j * dim + c];
            }
            s[j] *= p.scale;
            m_new = fmaxf(m_new, s[j]);
        }
        const float reference = m_new == -INFINITY ? 0.0f : m_new; // -inf - -inf is NaN
        const float alpha = __expf(m - reference);
        m = m_new;
        l *= alpha;
        for (int c = 0; c < dim; c++) {
            acc[c] *= alpha;
        }
        for (int j = 0; j < keys; j++) {
            const float probability = __expf(s[j] - reference);
            l += probability;
            for (int c = 0; c < dim; c++) {
                acc[c] += probability * v_tile[j * dim + c];
            }
        }
    }
    if (row < p.len_q) {
        for (int c = 0; c < dim; c++) {
            o[c] = l == 0.0f ? 0.0f : acc[c] / l; // l = 0: there is no key
        }
        lse[row] = m + logf(l);
    }
}
SIMT_KERNEL(thread_per_row_kernel, FusedParams, BLOCK_Q);

AttnStatus ENTRY(fused_thread_per_row)(const AttnShape *shape, const float *q, const float *k,
                                       const float *v, float *o, float *lse, float *workspace,
                                       GpuStream stream) {
    FusedParams p;
    const AttnStatus status =
        fused_prepare(&p, shape, q, k, v, o, lse, workspace, 0, sizeof(float));
    if (status != ATTN_OK || p.heads == 0) {
        return status;
    }
    const dim3 grid = {(unsigned)((p.len_q + BLOCK_Q - 1) / BLOCK_Q * p.heads), 1, 1};
    const dim3 block = {BLOCK_Q, 1, 1};
    return LAUNCH(thread_per_row_kernel, grid, block, 0, stream, p);
}
