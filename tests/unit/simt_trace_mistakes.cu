// Kernels with one mistake each, and the same without it. A comment "line: ..." marks the places
// that the tracer must name.
#include "tests/unit/simt_trace_probe.h"

#include "common/simt/simt.h"

#define FULL_MASK 0xffffffffu

// The entry point of a kernel: the grid and block are one-dimensional.
#define PROBE(name)                                                                                \
    SIMT_KERNEL(name##_kernel, TraceProbe, 1024);                                                  \
    AttnStatus ENTRY(name)(const TraceProbe *probe, unsigned grid_x, unsigned block_x,             \
                           size_t shared_bytes) {                                                  \
        const TraceProbe params = *probe;                                                          \
        const dim3 grid = {grid_x, 1, 1}, block = {block_x, 1, 1};                                 \
        return LAUNCH(name##_kernel, grid, block, shared_bytes, NULL, params);                     \
    }

__device__ __forceinline__ int next(int t, int n) {
    return (t + 1) % n;
}

// The thread's number in the grid.
__device__ __forceinline__ int number(void) {
    return (int)(blockIdx.x * blockDim.x + threadIdx.x);
}

// ---- between the threads of a block -------------------------------------------------------------

__global__ void __launch_bounds__(1024) trace_pass_kernel(const __grid_constant__ TraceProbe p) {
    __shared__ float tile[1024];
    const int t = (int)threadIdx.x;
    tile[t] = p.x[t];
    __syncthreads();
    p.y[number()] = tile[next(t, p.n)];
}
PROBE(trace_pass)

__global__ void __launch_bounds__(1024)
    trace_pass_no_barrier_kernel(const __grid_constant__ TraceProbe p) {
    __shared__ float tile[1024];
    const int t = (int)threadIdx.x;
    tile[t] = p.x[t];            // line: no barrier, write
    p.y[t] = tile[next(t, p.n)]; // line: no barrier, read
}
PROBE(trace_pass_no_barrier)

__global__ void __launch_bounds__(1024)
    trace_pass_twice_kernel(const __grid_constant__ TraceProbe p) {
    __shared__ float tile[1024];
    const int t = (int)threadIdx.x;
    float value = p.x[t];
    for (int round = 0; round < p.n; round++) {
        tile[t] = value; // line: twice, write
        __syncthreads();
        value = tile[next(t, p.n)]; // line: twice, read
    }
    p.y[t] = value;
}
PROBE(trace_pass_twice)

__global__ void __launch_bounds__(1024)
    trace_pass_warp_kernel(const __grid_constant__ TraceProbe p) {
    __shared__ float tile[32];
    const int t = (int)threadIdx.x;
    tile[t] = p.x[t];
    __syncwarp(FULL_MASK);
    p.y[number()] = tile[next(t, p.n)];
}
PROBE(trace_pass_warp)

__global__ void __launch_bounds__(1024)
    trace_pass_no_syncwarp_kernel(const __grid_constant__ TraceProbe p) {
    __shared__ float tile[32];
    const int t = (int)threadIdx.x;
    tile[t] = p.x[t];            // line: no syncwarp, write
    p.y[t] = tile[next(t, p.n)]; // line: no syncwarp, read
}
PROBE(trace_pass_no_syncwarp)

__global__ void __launch_bounds__(1024)
    trace_pass_shuffle_kernel(const __grid_constant__ TraceProbe p) {
    __shared__ float tile[32];
    const int t = (int)threadIdx.x;
    tile[t] = p.x[t]; // line: shuffle, write
    const float zero = 0 * __shfl_xor_sync(FULL_MASK, p.x[t], 1, 32);
    p.y[t] = zero + tile[next(t, p.n)]; // line: shuffle, read
}
PROBE(trace_pass_shuffle)

__global__ void __launch_bounds__(1024)
    trace_pass_half_mask_kernel(const __grid_constant__ TraceProbe p) {
    __shared__ float tile[32];
    const int t = (int)threadIdx.x;
    tile[t] = p.x[t]; // line: half mask, write
    __syncwarp(3u << t / 2 * 2);
    p.y[t] = tile[next(t, p.n)]; // line: half mask, read
}
PROBE(trace_pass_half_mask)

__global__ void __launch_bounds__(1024)
    trace_pass_chain_kernel(const __grid_constant__ TraceProbe p) {
    __shared__ float tile[32];
    const int t = (int)threadIdx.x;
    tile[t] = p.x[t];
    if (t > 0) {
        __syncwarp(3u << (t - 1));
    }
    if (t < p.n - 1) {
        __syncwarp(3u << t);
    }
    if (t == p.n - 1) { // knows of all others, by way of each
        float sum = 0;
        for (int i = 0; i < p.n; i++) {
            sum += tile[i];
        }
        p.y[0] = sum;
    }
}
PROBE(trace_pass_chain)

__global__ void __launch_bounds__(1024)
    trace_pass_device_kernel(const __grid_constant__ TraceProbe p) {
    const int t = (int)threadIdx.x;
    p.y[t] = p.x[t];
    __syncthreads();
    const float value = p.y[next(t, p.n)];
    __syncthreads();
    p.y[t] = value;
}
PROBE(trace_pass_device)

__global__ void __launch_bounds__(1024) trace_halves_kernel(const __grid_constant__ TraceProbe p) {
    __shared__ unsigned short tile[1024];
    const int t = (int)threadIdx.x;
    tile[t] = (unsigned short)t;
    p.y[number()] = (float)tile[t];
}
PROBE(trace_halves)

__global__ void __launch_bounds__(1024)
    trace_halves_race_kernel(const __grid_constant__ TraceProbe p) {
    __shared__ unsigned short tile[1024];
    const int t = (int)threadIdx.x;
    tile[t] = (unsigned short)t; // line: halves, write
    p.y[t] = (float)tile[t ^ 1]; // line: halves, read
}
PROBE(trace_halves_race)

__global__ void __launch_bounds__(1024) trace_count_kernel(const __grid_constant__ TraceProbe p) {
    __shared__ unsigned count;
    if (threadIdx.x == 0) {
        count = 0;
    }
    __syncthreads();
    atomicAdd(&count, 1u);
    __syncthreads();
    p.y[number()] = (float)count;
}
PROBE(trace_count)

__global__ void __launch_bounds__(1024)
    trace_count_no_barrier_kernel(const __grid_constant__ TraceProbe p) {
    __shared__ unsigned count;
    if (threadIdx.x == 0) {
        count = 0;
    }
    __syncthreads();
    atomicAdd(&count, 1u); // line: count, atomic
    if (threadIdx.x == 0) {
        p.y[0] = (float)count; // line: count, read
    }
}
PROBE(trace_count_no_barrier)

// ---- single accesses ----------------------------------------------------------------------------

__global__ void __launch_bounds__(1024)
    trace_unwritten_kernel(const __grid_constant__ TraceProbe p) {
    __shared__ float tile[1024];
    const int t = (int)threadIdx.x;
    if (t < p.n) {
        tile[t] = 1;
    }
    __syncthreads();
    p.y[t] = tile[t]; // line: unwritten
}
PROBE(trace_unwritten)

__global__ void __launch_bounds__(1024) trace_dynamic_kernel(const __grid_constant__ TraceProbe p) {
    DYNAMIC_SHARED(float, line); // [n]
    const int t = (int)threadIdx.x;
    if (t < p.n) {
        line[t] = (float)t;
    }
    __syncthreads();
    p.y[t] = line[p.stride * t + p.shift]; // line: dynamic
}
PROBE(trace_dynamic)

__global__ void __launch_bounds__(1024)
    trace_write_at_kernel(const __grid_constant__ TraceProbe p) {
    if (threadIdx.x == 0) {
        p.y[p.shift] = 1; // line: write at
    }
}
PROBE(trace_write_at)

// ---- between the blocks of a launch -------------------------------------------------------------

__global__ void __launch_bounds__(1024)
    trace_blocks_read_kernel(const __grid_constant__ TraceProbe p) {
    const int b = (int)blockIdx.x;
    if (threadIdx.x == 0) {
        p.y[b] = (float)b; // line: blocks, write
        if (b > 0) {
            p.y[p.n + b] = p.y[b - 1]; // line: blocks, read
        }
    }
}
PROBE(trace_blocks_read)

__global__ void __launch_bounds__(1024)
    trace_blocks_write_kernel(const __grid_constant__ TraceProbe p) {
    const int b = (int)blockIdx.x;
    if (threadIdx.x == 0) {
        const float value = p.y[b + 1]; // line: blocks, read first
        __threadfence();
        p.y[b] = value; // line: blocks, write later
    }
}
PROBE(trace_blocks_write)

// index[0] counts the blocks that are done; it is 0 again at the end.
__global__ void __launch_bounds__(1024)
    trace_last_block_kernel(const __grid_constant__ TraceProbe p) {
    __shared__ unsigned is_last;
    const int t = (int)threadIdx.x, threads = (int)blockDim.x;
    p.y[(int)blockIdx.x * threads + t] = (float)t;
    __threadfence();
    __syncthreads();
    if (t == 0) {
        is_last = atomicAdd(&p.index[0], 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last) {
        float sum = 0;
        for (int i = 0; i < (int)gridDim.x; i++) {
            sum += p.y[i * threads + t];
        }
        p.y[(int)gridDim.x * threads + t] = sum;
        if (t == 0) {
            p.index[0] = 0;
        }
    }
}
PROBE(trace_last_block)

__global__ void __launch_bounds__(1024)
    trace_last_block_no_atomic_kernel(const __grid_constant__ TraceProbe p) {
    const int t = (int)threadIdx.x, threads = (int)blockDim.x;
    p.y[(int)blockIdx.x * threads + t] = (float)t; // line: no atomic, write
    __threadfence();
    __syncthreads();
    if (blockIdx.x == gridDim.x - 1) {
        float sum = 0;
        for (int i = 0; i < (int)gridDim.x; i++) {
            sum += p.y[i * threads + t]; // line: no atomic, read
        }
        p.y[(int)gridDim.x * threads + t] = sum;
    }
}
PROBE(trace_last_block_no_atomic)

__global__ void __launch_bounds__(1024)
    trace_last_block_early_kernel(const __grid_constant__ TraceProbe p) {
    const int t = (int)threadIdx.x, threads = (int)blockDim.x;
    __shared__ unsigned is_last;
    if (t == 0) {
        is_last = atomicAdd(&p.index[0], 1u) == gridDim.x - 1;
    }
    __syncthreads();
    p.y[(int)blockIdx.x * threads + t] = (float)t; // line: early, write
    __threadfence();
    __syncthreads();
    if (is_last) {
        float sum = 0;
        for (int i = 0; i < (int)gridDim.x; i++) {
            sum += p.y[i * threads + t]; // line: early, read
        }
        p.y[(int)gridDim.x * threads + t] = sum;
    }
}
PROBE(trace_last_block_early)
