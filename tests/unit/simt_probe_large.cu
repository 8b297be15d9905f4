// A kernel with 64 KiB of static shared memory: no compiler for the GPU takes it, simt refuses the
// launch.
#include "tests/unit/simt_probe.h"

#include "common/simt/simt.h"

#ifdef __CUDACC__
AttnStatus ENTRY(probe_large)(void) {
    return attn_fail(ATTN_ERR_CUDA, "too much static shared memory");
}
#else
typedef struct LargeParams {
    float *result; // [32]
} LargeParams;

__global__ void __launch_bounds__(32) large_kernel(const __grid_constant__ LargeParams p) {
    __shared__ float words[16 * 1024];
    words[threadIdx.x] = 1.0f;
    __syncthreads();
    p.result[threadIdx.x] = words[(threadIdx.x + 1) % 32];
}
SIMT_KERNEL(large_kernel, LargeParams, 32);

AttnStatus ENTRY(probe_large)(void) {
    const LargeParams params = {NULL};
    const dim3 grid = {1, 1, 1}, block = {32, 1, 1};
    return LAUNCH(large_kernel, grid, block, 0, NULL, params);
}
#endif
