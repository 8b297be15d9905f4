// The ceiling of this chapter, as of chapter 6: memory is read, each byte once, and nothing is done
// with it but what keeps the compiler from leaving the loads out. A decode step that reads its
// cache once cannot be faster than this.
#include "common/simt/simt.h"

#include "chapters/ch08_gqa/gqa_read.h"

enum { THREADS = 128, LOADS = 8 }; // of 16 bytes, on their way at a time

typedef struct ReadParams {
    const uint4 *data; // [quads]
    size_t quads;      // of 16 bytes
    unsigned *sums;    // [blocks]
} ReadParams;

__global__ void __launch_bounds__(THREADS) gqa_read_kernel(const __grid_constant__ ReadParams p) {
    const uint4 *restrict data = p.data;
    const size_t stride = (size_t)gridDim.x * THREADS;
    unsigned sum = 0;
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < p.quads; i += LOADS * stride) {
        uint4 x[LOADS];
        UNROLL
        for (int n = 0; n < LOADS; n++) {
            x[n] = i + n * stride < p.quads ? data[i + n * stride] : make_uint4(0, 0, 0, 0);
        }
        UNROLL
        for (int n = 0; n < LOADS; n++) {
            sum ^= (x[n].x ^ x[n].y) ^ (x[n].z ^ x[n].w);
        }
    }
    UNROLL
    for (int step = 16; step > 0; step /= 2) {
        sum ^= __shfl_xor_sync(FULL_MASK, sum, step, 32);
    }
    __shared__ unsigned warps[THREADS / 32];
    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        p.sums[blockIdx.x] = warps[0] ^ warps[1] ^ warps[2] ^ warps[3];
    }
}
SIMT_KERNEL(gqa_read_kernel, ReadParams, THREADS);

AttnStatus ENTRY(gqa_read)(const void *data, size_t bytes, unsigned *sums, GpuStream stream) {
    if (data == NULL || sums == NULL) {
        return attn_fail(ATTN_ERR_ARGUMENT, "%s is a null pointer", data == NULL ? "data" : "sums");
    }
    if (bytes == 0 || bytes % 16 != 0 || (uintptr_t)data % 16 != 0) {
        return attn_fail(ATTN_ERR_ARGUMENT,
                         "bytes %zu at %p: both must be multiples of 16, and not 0", bytes, data);
    }
    const size_t quads = bytes / 16, blocks = (quads + THREADS - 1) / THREADS;
    const ReadParams params = {(const uint4 *)data, quads, sums};
    const dim3 grid = {(unsigned)(blocks < GQA_READ_SUMS ? blocks : GQA_READ_SUMS), 1, 1};
    const dim3 block = {THREADS, 1, 1};
    return LAUNCH(gqa_read_kernel, grid, block, 0, stream, params);
}
