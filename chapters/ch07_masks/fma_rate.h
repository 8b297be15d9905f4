// A kernel that does nothing but multiply and add: the ceiling of every kernel of this chapter,
// whose arithmetic is f32.
#ifndef CH07_FMA_RATE_H
#define CH07_FMA_RATE_H

#include "common/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FMA_RATE_THREADS = 256, FMA_RATE_CHAINS = 16 };

// Every thread does `rounds` * FMA_RATE_CHAINS multiply-adds, x = x / 2 + 1, in as many independent
// chains, and stores their sum in y [blocks][FMA_RATE_THREADS]: 2 FMA_RATE_CHAINS in the limit.
GPU_DECLARE(fma_rate, (float *y, int blocks, int rounds, GpuStream stream));

#ifdef __cplusplus
}
#endif

#endif
