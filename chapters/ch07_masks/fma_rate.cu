// How many multiply-adds a GPU does when nothing else is in the way: registers only, 16 independent
// chains a thread.
#include "chapters/ch07_masks/fma_rate.h"

#include "common/simt/simt.h"

typedef struct FmaRateParams {
    float *y; // [blocks][FMA_RATE_THREADS]
    int rounds;
    float factor, summand; // unknown to the compiler
} FmaRateParams;

__global__ void __launch_bounds__(FMA_RATE_THREADS)
    fma_rate_kernel(const __grid_constant__ FmaRateParams p) {
    float chain[FMA_RATE_CHAINS];
    UNROLL
    for (int c = 0; c < FMA_RATE_CHAINS; c++) {
        chain[c] = (float)c;
    }
    for (int round = 0; round < p.rounds; round++) {
        UNROLL
        for (int c = 0; c < FMA_RATE_CHAINS; c++) {
            chain[c] = fmaf(chain[c], p.factor, p.summand);
        }
    }
    float sum = 0.0f;
    UNROLL
    for (int c = 0; c < FMA_RATE_CHAINS; c++) {
        sum += chain[c];
    }
    p.y[blockIdx.x * FMA_RATE_THREADS + threadIdx.x] = sum;
}
SIMT_KERNEL(fma_rate_kernel, FmaRateParams, FMA_RATE_THREADS);

AttnStatus ENTRY(fma_rate)(float *y, int blocks, int rounds, GpuStream stream) {
    const FmaRateParams params = {y, rounds, 0.5f, 1.0f};
    const dim3 grid = {(unsigned)blocks, 1, 1}, block = {FMA_RATE_THREADS, 1, 1};
    return LAUNCH(fma_rate_kernel, grid, block, 0, stream, params);
}
