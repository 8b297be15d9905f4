// Attention as three kernels and as one: the four whose requests and sectors are known from an
// H200's counters (N = 512, d = 64). Written for counting, not for speed.
#include "tests/unit/simt_trace_probe.h"

#include "common/simt/simt.h"

enum { N = TRACE_N, DIM = TRACE_DIM, TILE = 16, ROWS = 32, THREADS = 128, VECTORS = DIM / 4 };
#define FULL_MASK 0xffffffffu

// S = Q K^T / sqrt(d): a block makes a tile of S from tiles of Q and K.
__global__ void __launch_bounds__(TILE *TILE)
    trace_scores_kernel(const __grid_constant__ TraceAttention a) {
    const float *restrict q = a.q; // [N][d]
    const float *restrict k = a.k; // [N][d]
    float *restrict s = a.s;       // [N][N]
    __shared__ float q_tile[TILE][TILE], k_tile[TILE][TILE + 1];
    const int x = (int)threadIdx.x, y = (int)threadIdx.y;
    const int row = (int)blockIdx.y * TILE + y, column = (int)blockIdx.x * TILE + x;
    const int key = (int)blockIdx.x * TILE + y;
    float sum = 0;
    for (int first = 0; first < DIM; first += TILE) {
        q_tile[y][x] = q[row * DIM + first + x];
        k_tile[y][x] = k[key * DIM + first + x];
        __syncthreads();
        for (int c = 0; c < TILE; c++) {
            sum += q_tile[y][c] * k_tile[x][c];
        }
        __syncthreads();
    }
    s[row * N + column] = sum * 0.125f;
}
SIMT_KERNEL(trace_scores_kernel, TraceAttention, TILE *TILE);

AttnStatus ENTRY(trace_scores)(const TraceAttention *a) {
    const TraceAttention params = *a;
    const dim3 grid = {N / TILE, N / TILE, 1}, block = {TILE, TILE, 1};
    return LAUNCH(trace_scores_kernel, grid, block, 0, NULL, params);
}

// P = softmax(S): a warp takes a row, in three passes.
__global__ void __launch_bounds__(THREADS)
    trace_softmax_kernel(const __grid_constant__ TraceAttention a) {
    const float *restrict s = a.s; // [N][N]
    float *restrict p = a.p;       // [N][N]
    const int lane = (int)threadIdx.x % 32;
    const int row = ((int)blockIdx.x * THREADS + (int)threadIdx.x) / 32;
    float m = -INFINITY, l = 0;
    for (int j = lane; j < N; j += 32) {
        m = fmaxf(m, s[row * N + j]);
    }
    for (int step = 16; step > 0; step /= 2) {
        m = fmaxf(m, __shfl_xor_sync(FULL_MASK, m, step, 32));
    }
    for (int j = lane; j < N; j += 32) {
        l += __expf(s[row * N + j] - m);
    }
    for (int step = 16; step > 0; step /= 2) {
        l += __shfl_xor_sync(FULL_MASK, l, step, 32);
    }
    for (int j = lane; j < N; j += 32) {
        p[row * N + j] = __expf(s[row * N + j] - m) / l;
    }
}
SIMT_KERNEL(trace_softmax_kernel, TraceAttention, THREADS);

AttnStatus ENTRY(trace_softmax)(const TraceAttention *a) {
    const TraceAttention params = *a;
    const dim3 grid = {N * 32 / THREADS, 1, 1}, block = {THREADS, 1, 1};
    return LAUNCH(trace_softmax_kernel, grid, block, 0, NULL, params);
}

// O = P V, as the scores.
__global__ void __launch_bounds__(TILE *TILE)
    trace_output_kernel(const __grid_constant__ TraceAttention a) {
    const float *restrict p = a.p; // [N][N]
    const float *restrict v = a.v; // [N][d]
    float *restrict o = a.o;       // [N][d]
    __shared__ float p_tile[TILE][TILE], v_tile[TILE][TILE];
    const int x = (int)threadIdx.x, y = (int)threadIdx.y;
    const int row = (int)blockIdx.y * TILE + y, column = (int)blockIdx.x * TILE + x;
    float sum = 0;
    for (int first = 0; first < N; first += TILE) {
        p_tile[y][x] = p[row * N + first + x];
        v_tile[y][x] = v[(first + y) * DIM + column];
        __syncthreads();
        for (int j = 0; j < TILE; j++) {
            sum += p_tile[y][j] * v_tile[j][x];
        }
        __syncthreads();
    }
    o[row * DIM + column] = sum;
}
SIMT_KERNEL(trace_output_kernel, TraceAttention, TILE *TILE);

AttnStatus ENTRY(trace_output)(const TraceAttention *a) {
    const TraceAttention params = *a;
    const dim3 grid = {DIM / TILE, N / TILE, 1}, block = {TILE, TILE, 1};
    return LAUNCH(trace_output_kernel, grid, block, 0, NULL, params);
}

// A tile of 32 rows of d floats, read as float4 by the whole block.
__device__ __forceinline__ void load_tile(float (*tile)[DIM], const float *from) {
    const float4 *restrict source = (const float4 *)from;
    float4 *restrict target = (float4 *)&tile[0][0];
    for (int i = (int)threadIdx.x; i < ROWS * VECTORS; i += THREADS) {
        target[i] = source[i];
    }
}

// Everything in one kernel, by the online softmax: four threads share a row.
__global__ void __launch_bounds__(THREADS)
    trace_fused_kernel(const __grid_constant__ TraceAttention a) {
    const float *restrict q = a.q; // [N][d]
    const float *restrict k = a.k; // [N][d]
    const float *restrict v = a.v; // [N][d]
    float *restrict o = a.o;       // [N][d]
    __shared__ __align__(16) float q_tile[ROWS][DIM], k_tile[ROWS][DIM], v_tile[ROWS][DIM];
    __shared__ float p_tile[ROWS][ROWS + 1];
    enum { PARTS = THREADS / ROWS, KEYS = ROWS / PARTS, COLUMNS = DIM / PARTS };
    const int row = (int)threadIdx.x / PARTS, part = (int)threadIdx.x % PARTS;
    load_tile(q_tile, q + (size_t)blockIdx.x * ROWS * DIM);
    float m = -INFINITY, l = 0, acc[COLUMNS] = {0};
    for (int first = 0; first < N; first += ROWS) {
        __syncthreads();
        load_tile(k_tile, k + first * DIM);
        load_tile(v_tile, v + first * DIM);
        __syncthreads();
        float s[KEYS], tile_m = m;
        for (int j = 0; j < KEYS; j++) {
            s[j] = 0;
            for (int c = 0; c < DIM; c++) {
                s[j] += q_tile[row][c] * k_tile[j * PARTS + part][c];
            }
            s[j] *= 0.125f;
            tile_m = fmaxf(tile_m, s[j]);
        }
        tile_m = fmaxf(tile_m, __shfl_xor_sync(FULL_MASK, tile_m, 1, 32));
        tile_m = fmaxf(tile_m, __shfl_xor_sync(FULL_MASK, tile_m, 2, 32));
        const float alpha = __expf(m - tile_m);
        m = tile_m;
        l *= alpha;
        for (int j = 0; j < KEYS; j++) {
            const float p = __expf(s[j] - m);
            p_tile[row][j * PARTS + part] = p;
            l += p;
        }
        for (int c = 0; c < COLUMNS; c++) {
            acc[c] *= alpha;
        }
        __syncwarp(FULL_MASK);
        for (int j = 0; j < ROWS; j++) {
            for (int c = 0; c < COLUMNS; c++) {
                acc[c] += p_tile[row][j] * v_tile[j][c * PARTS + part];
            }
        }
    }
    l += __shfl_xor_sync(FULL_MASK, l, 1, 32);
    l += __shfl_xor_sync(FULL_MASK, l, 2, 32);
    for (int c = 0; c < COLUMNS; c++) {
        q_tile[row][c * PARTS + part] = acc[c] / l;
    }
    __syncthreads();
    float4 *restrict target = (float4 *)(o + (size_t)blockIdx.x * ROWS * DIM);
    for (int i = (int)threadIdx.x; i < ROWS * VECTORS; i += THREADS) {
        target[i] = ((const float4 *)&q_tile[0][0])[i];
    }
}
SIMT_KERNEL(trace_fused_kernel, TraceAttention, THREADS);

AttnStatus ENTRY(trace_fused)(const TraceAttention *a) {
    const TraceAttention params = *a;
    const dim3 grid = {N / ROWS, 1, 1}, block = {THREADS, 1, 1};
    return LAUNCH(trace_fused_kernel, grid, block, 0, NULL, params);
}
