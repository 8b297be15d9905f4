// One mistake at a time, for the tests of what the scheduler says about them. Every thread notes
// the line that it comes to before it does what stands there.
#include "tests/unit/simt_probe.h"

#include "common/simt/simt.h"

#include <string.h>

enum { BLOCK = 256, ROUNDS = 200 };
#ifdef __CUDACC__
#define TRAP()            __trap()
#define END_PROCESS(host) ((void)(host))
#define PROCESS()         0
#else
#include <unistd.h>
#define TRAP()            __builtin_trap()
#define END_PROCESS(host) (getpid() == (host) ? (void)0 : _exit(3))
#define PROCESS()         getpid()
#endif

typedef struct MistakeParams {
    ProbeMistake mistake;
    float *buffer; // [n]
    int n;
    int *line; // [threads]
    int bad_block, culprit;
    int zero;
    int host; // the process that launches
} MistakeParams;

// Notes its own line, then does it.
#define AT(statement)                                                                              \
    do {                                                                                           \
        *here = __LINE__;                                                                          \
        statement;                                                                                 \
    } while (0)

// Mistakes of a block or a warp, which all of it must reach.
__device__ __forceinline__ void wrong_collective(const MistakeParams *p, volatile int *here) {
    const int t = (int)threadIdx.x, lane = t % 32;
    const bool first_half = t < (int)blockDim.x / 2;
    float x = 1.0f;
    switch (p->mistake) {
    case MISTAKE_DIVERGENT_BARRIER:
        if (first_half) {
            AT(__syncthreads());
        } else {
            AT(__syncthreads());
        }
        break;
    case MISTAKE_DIVERGENT_KIND:
        if (first_half) {
            AT(__syncthreads());
        } else {
            AT(x += (float)__syncthreads_count(1));
        }
        break;
    case MISTAKE_BARRIER_IN_BRANCH:
        if (lane < 8) {
            AT(x += __shfl_xor_sync(FULL_MASK, x, 1, 32));
        }
        AT(__syncthreads());
        break;
    case MISTAKE_OTHER_SHUFFLE:
        if (lane < 16) {
            AT(x += __shfl_xor_sync(FULL_MASK, x, 1, 32));
        } else {
            AT(x -= __shfl_xor_sync(FULL_MASK, x, 1, 32));
        }
        break;
    case MISTAKE_MASKS_DISAGREE:
        AT(x += __shfl_sync(lane < 16 ? FULL_MASK : 0xffff8000U, x, lane, 32));
        break;
    case MISTAKE_NOT_IN_MASK:
        AT(__syncwarp(lane == p->culprit % 32 ? FULL_MASK & ~(1U << lane) : FULL_MASK));
        break;
    case MISTAKE_SHUFFLE_FROM_ENDED:
        if (lane < 31) {
            AT(x += __shfl_sync(FULL_MASK, x, lane == 0 ? 31 : lane, 32));
        }
        break;
    case MISTAKE_SHUFFLE_UNNAMED:
        if (lane < 16) {
            AT(x += __shfl_sync(0xffffU, x, lane == 0 ? 20 : lane, 32));
        }
        break;
    default: // MISTAKE_WIDTH
        AT(x += __shfl_xor_sync(FULL_MASK, x, 1, 12));
    }
    p->buffer[t] = x;
}

__device__ __noinline__ int without_end(int depth) {
    volatile int local[64];
    local[depth % 64] = depth;
    return depth < 0 ? 0 : without_end(depth + 1) + local[depth % 64];
}

// Mistakes of one thread.
__device__ __forceinline__ void wrong_thread(const MistakeParams *p, float *dynamic,
                                             volatile int *here) {
    float copy[1024];
    volatile float *buffer = p->buffer;
    const size_t past = ((size_t)p->n + 63) / 64 * 64; // where the next page begins
    volatile int none = 0;                             // keeps the library's function
    switch (p->mistake) {
    case MISTAKE_PAST_END:
    case MISTAKE_FROM_BLOCK_ON:
        AT(buffer[past] = 1.0f);
        break;
    case MISTAKE_BEFORE_START:
        AT(buffer[0] = buffer[-16384]);
        break;
    case MISTAKE_NULL:
        AT(*(volatile float *)(uintptr_t)(p->zero + 8) = 1.0f);
        break;
    case MISTAKE_WILD:
        AT(buffer[0] = *(volatile float *)(uintptr_t)0x123456789abcU);
        break;
    case MISTAKE_DYNAMIC:
        AT(((volatile float *)dynamic)[32] = 1.0f);
        break;
    case MISTAKE_MISALIGNED_ATOMIC:
        AT(atomicAdd((int *)(void *)((char *)p->buffer + 2), 1));
        break;
    case MISTAKE_MISALIGNED_VECTOR:
        AT(*(float4 *)(void *)(p->buffer + 1) = *(const float4 *)(void *)p->buffer);
        break;
    case MISTAKE_DIVIDE:
        AT(buffer[0] = (float)(p->n / p->zero));
        break;
    case MISTAKE_TRAP:
        AT(TRAP());
        break;
    case MISTAKE_DEEP:
        AT(buffer[0] = (float)without_end(p->zero));
        break;
    case MISTAKE_ENDLESS:
        for (;;) {
            AT(buffer[1] = buffer[1] + 1.0f);
        }
    case MISTAKE_MEMCPY:
        AT(memcpy(copy, p->buffer + p->n - 512, sizeof copy - (size_t)(4 * none)));
        buffer[0] = copy[p->n % 1024];
        break;
    case MISTAKE_EXIT:
        AT(END_PROCESS(p->host));
        break;
    default:
        break;
    }
}

__global__ void __launch_bounds__(BLOCK) mistake_kernel(const __grid_constant__ MistakeParams p) {
    DYNAMIC_SHARED(float, dynamic); // [32]
    const int t = (int)threadIdx.x;
    volatile int *here = p.line + t;
    if ((int)blockIdx.x < p.bad_block || p.mistake == MISTAKE_EXIT) {
        for (int i = 0; i < ROUNDS; i++) {
            __syncthreads();
        }
    }
    if ((int)blockIdx.x < p.bad_block) {
        return;
    }
    const bool bad = (int)blockIdx.x == p.bad_block || p.mistake == MISTAKE_EXIT ||
                     p.mistake == MISTAKE_FROM_BLOCK_ON;
    if (!bad || p.mistake == MISTAKE_NONE) {
        return;
    }
    if (p.mistake == MISTAKE_ENDLESS_BARRIERS) {
        for (;;) {
            AT(__syncthreads());
        }
    }
    if (p.mistake <= MISTAKE_WIDTH) {
        wrong_collective(&p, here);
    } else if (t == p.culprit) {
        wrong_thread(&p, dynamic, here);
    }
}
SIMT_KERNEL(mistake_kernel, MistakeParams, BLOCK);

AttnStatus ENTRY(probe_mistake)(ProbeMistake mistake, float *buffer, int n, int *line, int blocks,
                                int threads, int bad_block, int culprit) {
    const MistakeParams params = {mistake, buffer, n, line, bad_block, culprit, 0, PROCESS()};
    const dim3 grid = {(unsigned)blocks, 1, 1}, block = {(unsigned)threads, 1, 1};
    return LAUNCH(mistake_kernel, grid, block, 32 * sizeof(float), NULL, params);
}
