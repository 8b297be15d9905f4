// Two small demonstrations beside the rungs: what a stride does in shared memory, and what a
// missing barrier does.
#ifndef CH05_SHARED_DEMOS_H
#define CH05_SHARED_DEMOS_H

#include "common/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TRANSPOSE_TILE = 32, SHIFT_THREADS = 64 };

// y = x^T for one 32 x 32 tile that passes through shared memory in rows of `pitch` floats, 32
// (conflicts) or 33 (none). x and y [32][32].
GPU_DECLARE(transpose_tile, (const float *x, float *y, int pitch, GpuStream stream));

// y_i = x_(i-1), y_0 = x_0, through shared memory; x and y [64]. Without `barrier` the kernel is
// wrong: a thread may read its neighbour's value before it is there.
GPU_DECLARE(shift_by_one, (const float *x, float *y, bool barrier, GpuStream stream));

#ifdef __cplusplus
}
#endif

#endif
