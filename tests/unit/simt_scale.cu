// Kernels for the tests of the host API: one that is right, one with much dynamic shared memory,
// one launch that must be refused, and one kernel that writes outside its buffer.
#include "tests/unit/simt_scale.h"

#include "common/simt/simt.h"

enum { BLOCK = 128 };

typedef struct ScaleParams {
    float *x; // [n]
    int n;
    float factor;
} ScaleParams;

__global__ void __launch_bounds__(BLOCK) scale_kernel(const __grid_constant__ ScaleParams p) {
    float *restrict x = p.x;
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < p.n) {
        x[i] *= p.factor;
    }
}
SIMT_KERNEL(scale_kernel, ScaleParams, BLOCK);

AttnStatus ENTRY(scale)(float *x, int n, float factor, GpuStream stream) {
    const ScaleParams params = {x, n, factor};
    const dim3 grid = {(unsigned)(n + BLOCK - 1) / BLOCK, 1, 1}, block = {BLOCK, 1, 1};
    return LAUNCH(scale_kernel, grid, block, 0, stream, params);
}

AttnStatus ENTRY(too_many_threads)(float *x, GpuStream stream) {
    const ScaleParams params = {x, 1, 1.0f};
    const dim3 grid = {1, 1, 1}, block = {2048, 1, 1};
    return LAUNCH(scale_kernel, grid, block, 0, stream, params);
}

typedef struct CountParams {
    float *x; // [n]
    int n;
} CountParams;

__global__ void __launch_bounds__(BLOCK) count_down_kernel(const __grid_constant__ CountParams p) {
    float *restrict x = p.x;
    DYNAMIC_SHARED(float, line); // [n]
    for (int i = (int)threadIdx.x; i < p.n; i += BLOCK) {
        line[i] = (float)i;
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < p.n; i += BLOCK) {
        x[i] = line[p.n - 1 - i];
    }
}
SIMT_KERNEL(count_down_kernel, CountParams, BLOCK);

AttnStatus ENTRY(count_down)(float *x, int n, bool opt_in, GpuStream stream) {
    const CountParams params = {x, n};
    const dim3 grid = {1, 1, 1}, block = {BLOCK, 1, 1};
    const size_t bytes = (size_t)n * sizeof(float);
    if (opt_in) {
        const AttnStatus status = SHARED_OPT_IN(count_down_kernel, bytes);
        if (status != ATTN_OK) {
            return status;
        }
    }
    return LAUNCH(count_down_kernel, grid, block, bytes, stream, params);
}

__global__ void __launch_bounds__(BLOCK) write_past_kernel(const __grid_constant__ CountParams p) {
    float *restrict x = p.x;
    for (int i = (int)threadIdx.x; i <= p.n; i += BLOCK) {
        x[i] = (float)i;
    }
}
SIMT_KERNEL(write_past_kernel, CountParams, BLOCK);

AttnStatus ENTRY(write_past)(float *x, int n, GpuStream stream) {
    const CountParams params = {x, n};
    const dim3 grid = {1, 1, 1}, block = {BLOCK, 1, 1};
    return LAUNCH(write_past_kernel, grid, block, 0, stream, params);
}
