// Kernels that do nothing but use one tier of a GPU, to measure how fast it is.
#ifndef CH05_TIER_RATES_H
#define CH05_TIER_RATES_H

#include "common/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TIER_THREADS = 256, TIER_CHAINS = 16, TIER_SHARED_QUADS = 1024 };

// Every thread does `rounds` * TIER_CHAINS multiply-adds, in as many independent chains: y_t = what
// comes out. y [blocks][TIER_THREADS].
GPU_DECLARE(tier_fma, (float *y, int blocks, int rounds, GpuStream stream));

// Every thread reads `rounds` groups of four floats from shared memory, 32 lanes side by side:
// 16 * rounds bytes a thread. y [blocks][TIER_THREADS]: the sums.
GPU_DECLARE(tier_shared, (float *y, int blocks, int rounds, GpuStream stream));

// The blocks together read x, `quads` groups of four floats, `rounds` times, in each round another
// part per block, so that an SM's own cache is of no use. y [blocks][TIER_THREADS]: the sums.
GPU_DECLARE(tier_global,
            (const float *x, int64_t quads, float *y, int blocks, int rounds, GpuStream stream));

#ifdef __cplusplus
}
#endif

#endif
