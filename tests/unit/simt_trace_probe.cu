// Kernels whose requests, sectors, wavefronts and bytes can be counted by hand.
#include "tests/unit/simt_trace_probe.h"

#include "common/simt/simt.h"

#include <string.h>

// The entry point of a kernel: the grid and block are one-dimensional.
#define PROBE(name)                                                                                \
    SIMT_KERNEL(name##_kernel, TraceProbe, 1024);                                                  \
    AttnStatus ENTRY(name)(const TraceProbe *probe, unsigned grid_x, unsigned block_x,             \
                           size_t shared_bytes) {                                                  \
        const TraceProbe params = *probe;                                                          \
        const dim3 grid = {grid_x, 1, 1}, block = {block_x, 1, 1};                                 \
        return LAUNCH(name##_kernel, grid, block, shared_bytes, NULL, params);                     \
    }

__device__ __forceinline__ int number(void) {
    return (int)(blockIdx.x * blockDim.x + threadIdx.x);
}

__global__ void __launch_bounds__(1024) trace_copy_kernel(const __grid_constant__ TraceProbe p) {
    const float *restrict x = p.x;
    float *restrict y = p.y;
    const int i = number();
    if (i < p.n) {
        y[i] = x[p.stride * i + p.shift]; // line: copy
    }
}
PROBE(trace_copy)

__global__ void __launch_bounds__(1024)
    trace_copy_wide_kernel(const __grid_constant__ TraceProbe p) {
    const float4 *restrict x = (const float4 *)(p.x + p.shift);
    float4 *restrict y = (float4 *)p.y;
    const int i = number();
    if (i < p.n) {
        y[i] = x[p.stride * i]; // line: wide
    }
}
PROBE(trace_copy_wide)

__global__ void __launch_bounds__(1024) trace_gather_kernel(const __grid_constant__ TraceProbe p) {
    const float *restrict x = p.x;
    const unsigned *restrict index = p.index;
    float *restrict y = p.y;
    const int i = number();
    if (i < p.n) {
        y[i] = x[index[i]];
    }
}
PROBE(trace_gather)

typedef struct Pair {
    float a, b;
} Pair;

__global__ void __launch_bounds__(1024) trace_struct_kernel(const __grid_constant__ TraceProbe p) {
    const Pair *restrict x = (const Pair *)p.x;
    Pair *restrict y = (Pair *)p.y;
    y[number()] = x[number()];
}
PROBE(trace_struct)

__global__ void __launch_bounds__(1024) trace_memcpy_kernel(const __grid_constant__ TraceProbe p) {
    if (number() == 0) {
        memcpy(p.y, p.x, (size_t)p.n * sizeof(float));
    }
}
PROBE(trace_memcpy)

__global__ void __launch_bounds__(1024)
    trace_block_sum_kernel(const __grid_constant__ TraceProbe p) {
    const float *restrict x = p.x;
    float *restrict y = p.y;
    __shared__ float sum[1024];
    const int t = (int)threadIdx.x;
    sum[t] = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = t; i < p.n; i += (int)blockDim.x) {
            sum[t] += x[i];
        }
    }
    __syncthreads();
    if (t == 0) {
        for (int i = 1; i < (int)blockDim.x; i++) {
            sum[0] += sum[i];
        }
        y[blockIdx.x] = sum[0];
    }
}
PROBE(trace_block_sum)

__global__ void __launch_bounds__(1024) trace_atomic_kernel(const __grid_constant__ TraceProbe p) {
    atomicAdd(&p.index[p.stride * number()], 1u);
}
PROBE(trace_atomic)

__global__ void __launch_bounds__(1024) trace_columns_kernel(const __grid_constant__ TraceProbe p) {
    float *restrict y = p.y;
    __shared__ float tile[32][32];
    const int t = (int)threadIdx.x;
    for (int row = 0; row < 32; row++) {
        tile[row][t] = (float)row;
    }
    __syncwarp(0xffffffffu);
    float sum = 0;
    for (int column = 0; column < 32; column++) {
        sum += tile[t][column]; // line: column
    }
    y[t] = sum;
}
PROBE(trace_columns)

__global__ void __launch_bounds__(1024)
    trace_columns_padded_kernel(const __grid_constant__ TraceProbe p) {
    float *restrict y = p.y;
    __shared__ float tile[32][33];
    const int t = (int)threadIdx.x;
    for (int row = 0; row < 32; row++) {
        tile[row][t] = (float)row;
    }
    __syncwarp(0xffffffffu);
    float sum = 0;
    for (int column = 0; column < 32; column++) {
        sum += tile[t][column];
    }
    y[t] = sum;
}
PROBE(trace_columns_padded)

__global__ void __launch_bounds__(1024)
    trace_shared_wide_kernel(const __grid_constant__ TraceProbe p) {
    float4 *restrict y = (float4 *)p.y;
    __shared__ float4 tile[128];
    const int t = (int)threadIdx.x;
    for (int i = 0; i < 4; i++) {
        tile[32 * i + t] = make_float4(1, 2, 3, 4);
    }
    __syncwarp(0xffffffffu);
    const float4 near = tile[t];
    const float4 far = tile[4 * t];
    y[t] = make_float4(near.x + far.x, near.y + far.y, near.z + far.z, near.w + far.w);
}
PROBE(trace_shared_wide)

__global__ void __launch_bounds__(1024)
    trace_shared_halves_kernel(const __grid_constant__ TraceProbe p) {
    float *restrict y = p.y;
    __shared__ unsigned short half_word[32];
    const int t = (int)threadIdx.x;
    half_word[t] = (unsigned short)t;
    __syncwarp(0xffffffffu);
    y[t] = (float)half_word[31 - t];
}
PROBE(trace_shared_halves)

__global__ void __launch_bounds__(1024)
    trace_divergent_kernel(const __grid_constant__ TraceProbe p) {
    const float *restrict x = p.x;
    float *restrict y = p.y;
    const int t = (int)threadIdx.x;
    float sum = 0;
    NO_UNROLL
    for (int k = 0; k <= t % 2; k++) {
        sum += x[t + 32 * k];
    }
    y[t] = sum;
}
PROBE(trace_divergent)
