// The ceiling of decoding: a kernel that reads memory and does nothing else. A decode step reads
// each key and value once; no kernel for it can be faster than this one on as many bytes.
//
// All blocks together pass over the memory, each reading beside its neighbours: the order that the
// memory likes best. A thread has eight loads of 16 bytes on their way at a time, and folds what it
// gets by exclusive or, so that the compiler cannot leave the loads out.
#include "common/simt/simt.h"

#include "common/read_rate.h"

enum { THREADS = 128, LOADS = 8 };

typedef struct ReadParams {
    const uint4 *data; // [quads]
    size_t quads;      // of 16 bytes
    unsigned *sums;    // [blocks]
} ReadParams;

__device__ __forceinline__ unsigned fold(uint4 x) {
    return (x.x ^ x.y) ^ (x.z ^ x.w);
}

__global__ void __launch_bounds__(THREADS) read_kernel(const __grid_constant__ ReadParams p) {
    const uint4 *restrict data = p.data;
    const size_t quads = p.quads, stride = (size_t)gridDim.x * THREADS;
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    unsigned sum = 0;
    for (; i + (LOADS - 1) * stride < quads; i += LOADS * stride) {
        uint4 x[LOADS];
        UNROLL
        for (int n = 0; n < LOADS; n++) {
            x[n] = __ldcs(data + i + n * stride);
        }
        UNROLL
        for (int n = 0; n < LOADS; n++) {
            sum ^= fold(x[n]);
        }
    }
    for (; i < quads; i += stride) {
        sum ^= fold(data[i]);
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
SIMT_KERNEL(read_kernel, ReadParams, THREADS);

AttnStatus ENTRY(read_rate)(const void *data, size_t bytes, unsigned *sums, GpuStream stream) {
    if (data == NULL || sums == NULL) {
        return attn_fail(ATTN_ERR_ARGUMENT, "%s is a null pointer", data == NULL ? "data" : "sums");
    }
    if (bytes == 0 || bytes % 16 != 0 || (uintptr_t)data % 16 != 0) {
        return attn_fail(ATTN_ERR_ARGUMENT,
                         "bytes %zu at %p: both must be multiples of 16, and not 0", bytes, data);
    }
    const size_t quads = bytes / 16, blocks = (quads + THREADS - 1) / THREADS;
    const ReadParams params = {(const uint4 *)data, quads, sums};
    const dim3 grid = {(unsigned)(blocks < READ_RATE_SUMS ? blocks : READ_RATE_SUMS), 1, 1};
    const dim3 block = {THREADS, 1, 1};
    return LAUNCH(read_kernel, grid, block, 0, stream, params);
}
