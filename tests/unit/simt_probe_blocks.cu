// Kernels for the tests of blocks and launches: shared memory, sums over many blocks, limits and
// costs; simt_probe.h says what each does.
#include "tests/unit/simt_probe.h"

#include "common/simt/simt.h"

enum { BLOCK = 1024, FRESH_WORDS = 256 };

static dim3 line_of(int n) {
    const dim3 result = {(unsigned)n, 1, 1};
    return result;
}

// ---- shared memory ------------------------------------------------------------------------------

typedef struct FreshParams {
    unsigned (*found)[3]; // [blocks]
    int dynamic_words;
} FreshParams;

__global__ void __launch_bounds__(32) fresh_kernel(const __grid_constant__ FreshParams p) {
    __shared__ unsigned words[FRESH_WORDS];
    DYNAMIC_SHARED(unsigned, dynamic); // [dynamic_words]
    if (threadIdx.x != 0) {
        return;
    }
    unsigned static_and = FULL_MASK, dynamic_and = FULL_MASK;
    for (int i = 0; i < FRESH_WORDS; i++) {
        static_and &= words[i];
        words[i] = blockIdx.x;
    }
    for (int i = 0; i < p.dynamic_words; i++) {
        dynamic_and &= dynamic[i];
        dynamic[i] = blockIdx.x;
    }
    p.found[blockIdx.x][0] = static_and;
    p.found[blockIdx.x][1] = dynamic_and;
    p.found[blockIdx.x][2] = (unsigned)((uintptr_t)dynamic % 16);
}
SIMT_KERNEL(fresh_kernel, FreshParams, 32);

AttnStatus ENTRY(probe_fresh)(unsigned (*found)[3], int blocks, int dynamic_bytes) {
    const FreshParams params = {found, dynamic_bytes / 4};
    return LAUNCH(fresh_kernel, line_of(blocks), line_of(32), (size_t)dynamic_bytes, NULL, params);
}

// ---- a sum --------------------------------------------------------------------------------------

typedef struct SumParams {
    const float *value; // [blocks][threads]
    float *sum;         // [blocks]
    int rounds;
    char *ran; // [blocks] of host memory, or NULL
} SumParams;

__global__ void __launch_bounds__(BLOCK) sum_kernel(const __grid_constant__ SumParams p) {
    __shared__ float part[BLOCK];
    const int t = (int)threadIdx.x, threads = (int)blockDim.x;
    for (int round = 0; round < p.rounds; round++) {
        part[t] = p.value[(size_t)blockIdx.x * blockDim.x + threadIdx.x];
        __syncthreads();
        for (int half = threads / 2; half >= 32; half /= 2) {
            if (t < half) {
                part[t] += part[t + half];
            }
            __syncthreads();
        }
        float x = part[t % 32];
        for (int reach = 16; reach > 0; reach /= 2) {
            x += __shfl_xor_sync(FULL_MASK, x, reach, 32);
        }
        if (t == 0) {
            p.sum[blockIdx.x] = x;
        }
        __syncthreads();
    }
    if (p.ran != NULL && t == 0) {
        p.ran[blockIdx.x] = 1;
    }
}
SIMT_KERNEL(sum_kernel, SumParams, BLOCK);

AttnStatus ENTRY(probe_sum)(const float *value, float *sum, int blocks, int threads, int rounds,
                            char *ran) {
    const SumParams params = {value, sum, rounds, ran};
    return LAUNCH(sum_kernel, line_of(blocks), line_of(threads), 0, NULL, params);
}

// ---- limits -------------------------------------------------------------------------------------

typedef struct NoParams {
    int nothing;
} NoParams;

__global__ void __launch_bounds__(BLOCK) nothing_kernel(const __grid_constant__ NoParams p) {
    (void)p;
}
SIMT_KERNEL(nothing_kernel, NoParams, 0);

AttnStatus ENTRY(probe_nothing)(ProbeSize grid, ProbeSize block, size_t dynamic_bytes) {
    const NoParams params = {0};
    const dim3 grid_size = {grid.x, grid.y, grid.z}, block_size = {block.x, block.y, block.z};
    return LAUNCH(nothing_kernel, grid_size, block_size, dynamic_bytes, NULL, params);
}

AttnStatus ENTRY(probe_opt_in)(size_t bytes) {
    return SHARED_OPT_IN(nothing_kernel, bytes);
}

__global__ void __launch_bounds__(64) narrow_kernel(const __grid_constant__ NoParams p) {
    (void)p;
}
SIMT_KERNEL(narrow_kernel, NoParams, 64);

AttnStatus ENTRY(probe_narrow)(int threads) {
    const NoParams params = {0};
    return LAUNCH(narrow_kernel, line_of(1), line_of(threads), 0, NULL, params);
}

// ---- costs --------------------------------------------------------------------------------------

typedef struct CostParams {
    int times;
    float *result; // [32], or NULL
} CostParams;

__global__ void __launch_bounds__(BLOCK) barriers_kernel(const __grid_constant__ CostParams p) {
    for (int i = 0; i < p.times; i++) {
        __syncthreads();
    }
}
SIMT_KERNEL(barriers_kernel, CostParams, BLOCK);

AttnStatus ENTRY(probe_barriers)(int threads, int times) {
    const CostParams params = {times, NULL};
    return LAUNCH(barriers_kernel, line_of(1), line_of(threads), 0, NULL, params);
}

__global__ void __launch_bounds__(32) shuffles_kernel(const __grid_constant__ CostParams p) {
    float x = (float)threadIdx.x;
    for (int i = 0; i < p.times; i++) {
        x = __shfl_xor_sync(FULL_MASK, x, 1, 32);
    }
    p.result[threadIdx.x] = x;
}
SIMT_KERNEL(shuffles_kernel, CostParams, 32);

AttnStatus ENTRY(probe_shuffles)(int times, float *result) {
    const CostParams params = {times, result};
    return LAUNCH(shuffles_kernel, line_of(1), line_of(32), 0, NULL, params);
}
