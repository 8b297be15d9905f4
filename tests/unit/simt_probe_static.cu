// A kernel alone in its file, with 40 KiB of static shared memory: for the limits of what is left.
#include "tests/unit/simt_probe.h"

#include "common/simt/simt.h"

enum { WORDS = 10 * 1024 };

typedef struct StaticParams {
    float *unused; // NULL
} StaticParams;

__global__ void __launch_bounds__(32) static_kernel(const __grid_constant__ StaticParams p) {
    __shared__ float words[WORDS];
    words[threadIdx.x] = 1.0f;
    __syncthreads();
    if (p.unused != NULL) {
        p.unused[threadIdx.x] = words[(threadIdx.x + 1) % 32];
    }
}
SIMT_KERNEL(static_kernel, StaticParams, 32);

AttnStatus ENTRY(probe_static)(size_t dynamic_bytes) {
    const StaticParams params = {NULL};
    const dim3 grid = {1, 1, 1}, block = {32, 1, 1};
    return LAUNCH(static_kernel, grid, block, dynamic_bytes, NULL, params);
}

AttnStatus ENTRY(probe_static_opt_in)(size_t bytes) {
    return SHARED_OPT_IN(static_kernel, bytes);
}
