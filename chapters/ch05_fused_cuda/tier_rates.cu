// How fast a GPU's tiers are: multiply-adds between registers, reads of shared memory, reads of
// global memory (of the L2 when the buffer is small, else of device memory).
#include "chapters/ch05_fused_cuda/tier_rates.h"

#include "common/simt/simt.h"

typedef struct TierParams {
    const float *x; // [4 quads]
    float *y;       // [blocks][TIER_THREADS]
    int64_t quads;
    int rounds;
    float factor, summand; // unknown to the compiler
} TierParams;

__global__ void __launch_bounds__(TIER_THREADS)
    tier_fma_kernel(const __grid_constant__ TierParams p) {
    float chain[TIER_CHAINS];
    UNROLL
    for (int c = 0; c < TIER_CHAINS; c++) {
        chain[c] = (float)c;
    }
    for (int round = 0; round < p.rounds; round++) {
        UNROLL
        for (int c = 0; c < TIER_CHAINS; c++) {
            chain[c] = fmaf(chain[c], p.factor, p.summand);
        }
    }
    float sum = 0.0f;
    UNROLL
    for (int c = 0; c < TIER_CHAINS; c++) {
        sum += chain[c];
    }
    p.y[blockIdx.x * TIER_THREADS + threadIdx.x] = sum;
}
SIMT_KERNEL(tier_fma_kernel, TierParams, TIER_THREADS);

__device__ __forceinline__ float sum_of(float4 quad) {
    return (quad.x + quad.y) + (quad.z + quad.w);
}

__global__ void __launch_bounds__(TIER_THREADS)
    tier_shared_kernel(const __grid_constant__ TierParams p) {
    __shared__ float4 tile[TIER_SHARED_QUADS];
    const int thread = (int)threadIdx.x;
    for (int i = thread; i < TIER_SHARED_QUADS; i += TIER_THREADS) {
        const float4 quad = {p.summand, p.summand, p.summand, p.summand};
        tile[i] = quad;
    }
    __syncthreads();
    float sum = 0.0f;
    _Pragma("unroll 8") for (int round = 0; round < p.rounds; round++) {
        sum += sum_of(tile[(thread + 32 * round) % TIER_SHARED_QUADS]);
    }
    p.y[blockIdx.x * TIER_THREADS + threadIdx.x] = sum;
}
SIMT_KERNEL(tier_shared_kernel, TierParams, TIER_THREADS);

__global__ void __launch_bounds__(TIER_THREADS)
    tier_global_kernel(const __grid_constant__ TierParams p) {
    const float4 *restrict x = (const float4 *)p.x; // [quads]
    const int64_t stride = (int64_t)gridDim.x * TIER_THREADS;
    float sum = 0.0f;
    for (int round = 0; round < p.rounds; round++) {
        const int64_t part = ((int64_t)blockIdx.x + 37 * round) % (int64_t)gridDim.x;
        _Pragma("unroll 8") for (int64_t i = part * TIER_THREADS + (int64_t)threadIdx.x;
                                 i < p.quads; i += stride) {
            sum += sum_of(x[i]);
        }
    }
    p.y[blockIdx.x * TIER_THREADS + threadIdx.x] = sum;
}
SIMT_KERNEL(tier_global_kernel, TierParams, TIER_THREADS);

AttnStatus ENTRY(tier_fma)(float *y, int blocks, int rounds, GpuStream stream) {
    const TierParams params = {NULL, y, 0, rounds, 0.5f, 1.0f};
    const dim3 grid = {(unsigned)blocks, 1, 1}, block = {TIER_THREADS, 1, 1};
    return LAUNCH(tier_fma_kernel, grid, block, 0, stream, params);
}

AttnStatus ENTRY(tier_shared)(float *y, int blocks, int rounds, GpuStream stream) {
    const TierParams params = {NULL, y, 0, rounds, 0.0f, 1.0f};
    const dim3 grid = {(unsigned)blocks, 1, 1}, block = {TIER_THREADS, 1, 1};
    return LAUNCH(tier_shared_kernel, grid, block, 0, stream, params);
}

AttnStatus ENTRY(tier_global)(const float *x, int64_t quads, float *y, int blocks, int rounds,
                              GpuStream stream) {
    const TierParams params = {x, y, quads, rounds, 0.0f, 0.0f};
    const dim3 grid = {(unsigned)blocks, 1, 1}, block = {TIER_THREADS, 1, 1};
    return LAUNCH(tier_global_kernel, grid, block, 0, stream, params);
}
