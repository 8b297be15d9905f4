// Rung 1, the baseline: chapter 1's three passes, each a kernel. The score matrix of every head
// goes to memory after the first, through memory in the second, and back in the third.
//
// scores_kernel   S = scale Q K^T, a block for each tile of 16 x 16 scores
// softmax_kernel  P = softmax(S) in place, and LSE: a warp for each row
// values_kernel   O = P V, a block for each tile of 16 x 16 outputs
//
// Elements that cross from one launch to the next: S written and read, P written and read, 4 T S a
// head.
#include "common/simt/simt.h"

#include "chapters/ch05_fused_cuda/fused.h"

enum { TILE = 16, WARPS = 4 }; // of softmax_kernel: rows a block

// Heads and tiles of rows share the x axis of the grid, which ends at 2^31 - 1; y ends at 65,535.
__device__ __forceinline__ int row_tiles(int len) {
    return (len + TILE - 1) / TILE;
}

__global__ void __launch_bounds__(TILE *TILE) scores_kernel(const __grid_constant__ FusedParams p) {
    __shared__ float q_tile[TILE][TILE];
    // A warp reads a column of K's tile, 16 rows: one float of padding spreads it over 16 banks.
    __shared__ float k_tile[TILE][TILE + 1];
    const int tiles = row_tiles(p.len_q);
    const int head = (int)blockIdx.x / tiles, row0 = (int)blockIdx.x % tiles * TILE;
    const size_t kv_head = (size_t)(head / p.group);
    const float *restrict q = p.q + (size_t)head * p.len_q * p.dim;      // [len_q][dim]
    const float *restrict k = p.k + kv_head * p.len_kv * p.dim;          // [len_kv][dim]
    float *restrict s = p.workspace + (size_t)head * p.len_q * p.len_kv; // [len_q][len_kv]
    const int y = (int)threadIdx.y, x = (int)threadIdx.x;
    const int row = row0 + y, key0 = (int)blockIdx.y * TILE;

    float sum = 0.0f; // q[row] . k[key0 + x], 16 columns at a time
    for (int c = 0; c < p.dim; c += TILE) {
        const bool column = c + x < p.dim;
        q_tile[y][x] = column && row < p.len_q ? q[(size_t)row * p.dim + c + x] : 0.0f;
        k_tile[y][x] = column && key0 + y < p.len_kv ? k[(size_t)(key0 + y) * p.dim + c + x] : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; i++) {
            sum += q_tile[y][i] * k_tile[x][i];
        }
        __syncthreads(); // before the tiles are written again
    }
    if (row < p.len_q && key0 + x < p.len_kv) {
        s[(size_t)row * p.len_kv + key0 + x] = p.scale * sum;
    }
}
SIMT_KERNEL(scores_kernel, FusedParams, TILE *TILE);

// In all 32 lanes: the largest of the lanes' values, and their sum.
__device__ __forceinline__ float warp_max(float x) {
    UNROLL
    for (int step = 16; step > 0; step /= 2) {
        x = fmaxf(x, __shfl_xor_sync(FULL_MASK, x, step, 32));
    }
    return x;
}

__device__ __forceinline__ float warp_sum(float x) {
    UNROLL
    for (int step = 16; step > 0; step /= 2) {
        x += __shfl_xor_sync(FULL_MASK, x, step, 32);
    }
    return x;
}

__global__ void __launch_bounds__(WARPS * 32)
    softmax_kernel(const __grid_constant__ FusedParams p) {
    const size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / 32; // of all heads' rows
    const int lane = (int)threadIdx.x % 32;
    if (row >= (size_t)p.heads * p.len_q) {
        return; // a whole warp
    }
    float *restrict s = p.workspace + row * p.len_kv; // [len_kv]
    float *restrict lse = p.lse;                      // [heads * len_q]

    float m = -INFINITY;
    for (int j = lane; j < p.len_kv; j += 32) {
        m = fmaxf(m, s[j]);
    }
    m = warp_max(m);
    const float reference = m == -INFINITY ? 0.0f : m; // -inf - -inf is NaN
    float l = 0.0f;
    for (int j = lane; j < p.len_kv; j += 32) {
        l += __expf(s[j] - reference);
    }
    l = warp_sum(l);
    const float factor = l == 0.0f ? 0.0f : 1.0f / l;
    for (int j = lane; j < p.len_kv; j += 32) {
        s[j] = __expf(s[j] - reference) * factor;
    }
    if (lane == 0) {
        lse[row] = m + logf(l);
    }
}
SIMT_KERNEL(softmax_kernel, FusedParams, WARPS * 32);

__global__ void __launch_bounds__(TILE *TILE) values_kernel(const __grid_constant__ FusedParams p) {
    __shared__ float p_tile[TILE][TILE];
    __shared__ float v_tile[TILE][TILE];
    const int tiles = row_tiles(p.len_q);
    const int head = (int)blockIdx.x / tiles, row0 = (int)blockIdx.x % tiles * TILE;
    const size_t kv_head = (size_t)(head / p.group);
    const float *restrict probs =
        p.workspace + (size_t)head * p.len_q * p.len_kv;        // [len_q][len_kv]
    const float *restrict v = p.v + kv_head * p.len_kv * p.dim; // [len_kv][dim]
    float *restrict o = p.o + (size_t)head * p.len_q * p.dim;   // [len_q][dim]
    const int y = (int)threadIdx.y, x = (int)threadIdx.x;
    const int row = row0 + y, column = (int)blockIdx.y * TILE + x;

    float sum = 0.0f; // probs[row] . v[][column], 16 keys at a time
    for (int j = 0; j < p.len_kv; j += TILE) {
        p_tile[y][x] =
            row < p.len_q && j + x < p.len_kv ? probs[(size_t)row * p.len_kv + j + x] : 0.0f;
        v_tile[y][x] =
            j + y < p.len_kv && column < p.dim ? v[(size_t)(j + y) * p.dim + column] : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; i++) {
            sum += p_tile[y][i] * v_tile[i][x];
        }
        __syncthreads();
    }
    if (row < p.len_q && column < p.dim) {
        o[(size_t)row * p.dim + column] = sum;
    }
}
SIMT_KERNEL(values_kernel, FusedParams, TILE *TILE);

AttnStatus ENTRY(naive_three_kernels)(const AttnShape *shape, const float *q, const float *k,
                                      const float *v, float *o, float *lse, float *workspace,
                                      GpuStream stream) {
    FusedParams p;
    const size_t floats = fused_rungs[0].workspace_floats(shape);
    AttnStatus status = fused_prepare(&p, shape, q, k, v, o, lse, workspace, floats, sizeof(float));
    if (status != ATTN_OK || p.heads == 0) {
        return status;
    }
    const unsigned tiles = (unsigned)((p.len_q + TILE - 1) / TILE * p.heads);
    const dim3 tile = {TILE, TILE, 1}, warps = {WARPS * 32, 1, 1};
    const dim3 scores = {tiles, (unsigned)(p.len_kv + TILE - 1) / TILE, 1};
    const dim3 rows = {(unsigned)(((size_t)p.heads * p.len_q + WARPS - 1) / WARPS), 1, 1};
    const dim3 values = {tiles, (unsigned)(p.dim + TILE - 1) / TILE, 1};
    if (p.len_kv > 0) { // a grid without blocks is an error
        status = LAUNCH(scores_kernel, scores, tile, 0, stream, p);
    }
    if (status == ATTN_OK) {
        status = LAUNCH(softmax_kernel, rows, warps, 0, stream, p);
    }
    if (status == ATTN_OK) {
        status = LAUNCH(values_kernel, values, tile, 0, stream, p);
    }
    return status;
}
