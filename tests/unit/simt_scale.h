// Kernels for the tests of the host API: see simt_scale.cu.
#ifndef TESTS_UNIT_SIMT_SCALE_H
#define TESTS_UNIT_SIMT_SCALE_H

#include "common/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

// x[i] = factor x[i], x [n].
GPU_DECLARE(scale, (float *x, int n, float factor, GpuStream stream));

// Writes the n numbers n - 1 ... 0 into x [n], through n floats of dynamic shared memory; beyond
// 48 KB after opting in, if opt_in.
GPU_DECLARE(count_down, (float *x, int n, bool opt_in, GpuStream stream));

// A launch that no device accepts: 2,048 threads a block.
GPU_DECLARE(too_many_threads, (float *x, GpuStream stream));

// Writes x[0 .. n], one element more than x [n] has.
GPU_DECLARE(write_past, (float *x, int n, GpuStream stream));

#ifdef __cplusplus
}
#endif

#endif
