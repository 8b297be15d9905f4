// A barrier that is missing, shown by the smallest kernel that needs one: every thread puts a value
// into shared memory and takes its neighbour's out. Without the barrier the answer depends on which
// thread runs first, and may well come out right.
#include "chapters/ch05_fused_cuda/shared_demos.h"

#include "common/simt/simt.h"

typedef struct ShiftParams {
    const float *x; // [64]
    float *y;       // [64]
} ShiftParams;

__global__ void __launch_bounds__(SHIFT_THREADS)
    shift_kernel(const __grid_constant__ ShiftParams p) {
    __shared__ float line[SHIFT_THREADS];
    const int i = (int)threadIdx.x;
    line[i] = p.x[i];
    __syncthreads();
    p.y[i] = line[i == 0 ? 0 : i - 1];
}
SIMT_KERNEL(shift_kernel, ShiftParams, SHIFT_THREADS);

__global__ void __launch_bounds__(SHIFT_THREADS)
    shift_without_barrier_kernel(const __grid_constant__ ShiftParams p) {
    __shared__ float line[SHIFT_THREADS];
    const int i = (int)threadIdx.x;
    line[i] = p.x[i];
    p.y[i] = line[i == 0 ? 0 : i - 1]; // the neighbour may not have written yet
}
SIMT_KERNEL(shift_without_barrier_kernel, ShiftParams, SHIFT_THREADS);

AttnStatus ENTRY(shift_by_one)(const float *x, float *y, bool barrier, GpuStream stream) {
    const ShiftParams params = {x, y};
    const dim3 grid = {1, 1, 1}, block = {SHIFT_THREADS, 1, 1};
    if (barrier) {
        return LAUNCH(shift_kernel, grid, block, 0, stream, params);
    }
    return LAUNCH(shift_without_barrier_kernel, grid, block, 0, stream, params);
}
