// Kernels that use one primitive each and write down what it gave; simt_probe.h says what.
#include "tests/unit/simt_probe.h"

#include "common/simt/simt.h"

enum { BLOCK = 1024 };

static dim3 size_of(ProbeSize size) {
    const dim3 result = {size.x, size.y, size.z};
    return result;
}

static dim3 line_of(int n) {
    const dim3 result = {(unsigned)n, 1, 1};
    return result;
}

// ---- indices and order --------------------------------------------------------------------------

typedef struct IndexParams {
    unsigned *seen; // [threads of the launch][12]
} IndexParams;

__global__ void __launch_bounds__(BLOCK) index_kernel(const __grid_constant__ IndexParams p) {
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    unsigned *seen = p.seen + 12 * (block * blockDim.x * blockDim.y * blockDim.z + thread);
    seen[0] = threadIdx.x;
    seen[1] = threadIdx.y;
    seen[2] = threadIdx.z;
    seen[3] = blockIdx.x;
    seen[4] = blockIdx.y;
    seen[5] = blockIdx.z;
    seen[6] = blockDim.x;
    seen[7] = blockDim.y;
    seen[8] = blockDim.z;
    seen[9] = gridDim.x;
    seen[10] = gridDim.y;
    seen[11] = gridDim.z;
}
SIMT_KERNEL(index_kernel, IndexParams, BLOCK);

AttnStatus ENTRY(probe_index)(unsigned *seen, ProbeSize grid, ProbeSize block) {
    const IndexParams params = {seen};
    return LAUNCH(index_kernel, size_of(grid), size_of(block), 0, NULL, params);
}

typedef struct OrderParams {
    int *turn;  // [PROBE_PHASES][threads]
    int *count; // [PROBE_PHASES]
} OrderParams;

__global__ void __launch_bounds__(BLOCK) order_kernel(const __grid_constant__ OrderParams p) {
    for (int phase = 0; phase < PROBE_PHASES; phase++) {
        p.turn[phase * (int)blockDim.x + (int)threadIdx.x] = atomicAdd(&p.count[phase], 1);
        __syncthreads();
    }
}
SIMT_KERNEL(order_kernel, OrderParams, BLOCK);

AttnStatus ENTRY(probe_order)(int *turn, int *count, int threads) {
    const OrderParams params = {turn, count};
    return LAUNCH(order_kernel, line_of(1), line_of(threads), 0, NULL, params);
}

// ---- barriers and votes -------------------------------------------------------------------------

typedef struct ReduceParams {
    const int *predicate; // [threads]
    int (*result)[3];     // [threads]
    int end_from;
} ReduceParams;

__global__ void __launch_bounds__(BLOCK) reduce_kernel(const __grid_constant__ ReduceParams p) {
    const int t = (int)threadIdx.x;
    if (t >= p.end_from) {
        return;
    }
    p.result[t][0] = __syncthreads_count(p.predicate[t]);
    p.result[t][1] = __syncthreads_and(p.predicate[t]);
    p.result[t][2] = __syncthreads_or(p.predicate[t]);
}
SIMT_KERNEL(reduce_kernel, ReduceParams, BLOCK);

AttnStatus ENTRY(probe_reduce)(const int *predicate, int (*result)[3], int threads, int end_from) {
    const ReduceParams params = {predicate, result, end_from};
    return LAUNCH(reduce_kernel, line_of(1), line_of(threads), 0, NULL, params);
}

typedef struct VoteParams {
    const int *predicate;  // [32]
    unsigned (*result)[4]; // [32]
    int split;
} VoteParams;

__global__ void __launch_bounds__(32) vote_kernel(const __grid_constant__ VoteParams p) {
    const int lane = (int)threadIdx.x;
    const unsigned low = (unsigned)((1ULL << p.split) - 1);
    const unsigned mask = lane < p.split ? low : ~low;
    p.result[lane][3] = __activemask();
    __syncwarp(FULL_MASK);
    p.result[lane][0] = __ballot_sync(mask, p.predicate[lane]);
    p.result[lane][1] = (unsigned)__all_sync(mask, p.predicate[lane]);
    p.result[lane][2] = (unsigned)__any_sync(mask, p.predicate[lane]);
}
SIMT_KERNEL(vote_kernel, VoteParams, 32);

AttnStatus ENTRY(probe_vote)(const int *predicate, unsigned (*result)[4], int split) {
    const VoteParams params = {predicate, result, split};
    return LAUNCH(vote_kernel, line_of(1), line_of(32), 0, NULL, params);
}

// ---- shuffles -----------------------------------------------------------------------------------

typedef struct ShuffleParams {
    ProbeType type;
    int kind;
    const double *value; // [32]
    const int *argument; // [32]
    int width;
    double *result; // [32]
} ShuffleParams;

#define SHUFFLE(type, argument)                                                                    \
    do {                                                                                           \
        const type x = (type)p.value[lane];                                                        \
        type y = x;                                                                                \
        switch (p.kind) {                                                                          \
        case 0:                                                                                    \
            y = __shfl_sync(FULL_MASK, x, argument, p.width);                                      \
            break;                                                                                 \
        case 1:                                                                                    \
            y = __shfl_up_sync(FULL_MASK, x, (unsigned)(argument), p.width);                       \
            break;                                                                                 \
        case 2:                                                                                    \
            y = __shfl_down_sync(FULL_MASK, x, (unsigned)(argument), p.width);                     \
            break;                                                                                 \
        default:                                                                                   \
            y = __shfl_xor_sync(FULL_MASK, x, argument, p.width);                                  \
        }                                                                                          \
        p.result[lane] = (double)y;                                                                \
    } while (0)

__global__ void __launch_bounds__(32) shuffle_kernel(const __grid_constant__ ShuffleParams p) {
    const int lane = (int)threadIdx.x;
    const int argument = p.argument[lane];
    switch (p.type) {
    case PROBE_INT:
        SHUFFLE(int, argument);
        break;
    case PROBE_UNSIGNED:
        SHUFFLE(unsigned, argument);
        break;
    case PROBE_FLOAT:
        SHUFFLE(float, argument);
        break;
    case PROBE_LONG:
        SHUFFLE(long long, argument);
        break;
    case PROBE_UNSIGNED_LONG:
        SHUFFLE(unsigned long long, argument);
        break;
    default:
        SHUFFLE(double, argument);
    }
}
SIMT_KERNEL(shuffle_kernel, ShuffleParams, 32);

AttnStatus ENTRY(probe_shuffle)(ProbeType type, int kind, const double *value, const int *argument,
                                int width, double *result) {
    const ShuffleParams params = {type, kind, value, argument, width, result};
    return LAUNCH(shuffle_kernel, line_of(1), line_of(32), 0, NULL, params);
}

// ---- atomics ------------------------------------------------------------------------------------

// The operations that CUDA has for all three types; the others follow below it.
#define ATOMIC_CASES(old, cell, value, compare)                                                    \
    case PROBE_EXCH:                                                                               \
        old = atomicExch(cell, value);                                                             \
        break;                                                                                     \
    case PROBE_CAS:                                                                                \
        old = atomicCAS(cell, compare, value);                                                     \
        break;                                                                                     \
    case PROBE_MIN:                                                                                \
        old = atomicMin(cell, value);                                                              \
        break;                                                                                     \
    case PROBE_MAX:                                                                                \
        old = atomicMax(cell, value);                                                              \
        break;                                                                                     \
    case PROBE_AND:                                                                                \
        old = atomicAnd(cell, value);                                                              \
        break;                                                                                     \
    case PROBE_OR:                                                                                 \
        old = atomicOr(cell, value);                                                               \
        break;                                                                                     \
    case PROBE_XOR:                                                                                \
        old = atomicXor(cell, value);                                                              \
        break;                                                                                     \
    case PROBE_ADD:                                                                                \
        old = atomicAdd(cell, value);                                                              \
        break

typedef struct AtomicIntParams {
    ProbeAtomic operation;
    int *cell;        // [n]
    const int *value; // [n]
    int *old;         // [n]
    int n;
} AtomicIntParams;

__global__ void __launch_bounds__(1) atomic_int_kernel(const __grid_constant__ AtomicIntParams p) {
    for (int i = 0; i < p.n; i++) {
        switch (p.operation) {
            ATOMIC_CASES(p.old[i], &p.cell[i], p.value[i], (int)((unsigned)p.value[i] + 1));
        case PROBE_SUB:
            p.old[i] = atomicSub(&p.cell[i], p.value[i]);
            break;
        default:
            break;
        }
    }
}
SIMT_KERNEL(atomic_int_kernel, AtomicIntParams, 1);

AttnStatus ENTRY(probe_atomic_int)(ProbeAtomic operation, int *cell, const int *value, int *old,
                                   int n) {
    const AtomicIntParams params = {operation, cell, value, old, n};
    return LAUNCH(atomic_int_kernel, line_of(1), line_of(1), 0, NULL, params);
}

typedef struct AtomicUnsignedParams {
    ProbeAtomic operation;
    unsigned *cell;        // [n]
    const unsigned *value; // [n]
    unsigned *old;         // [n]
    int n;
} AtomicUnsignedParams;

__global__ void __launch_bounds__(1)
    atomic_unsigned_kernel(const __grid_constant__ AtomicUnsignedParams p) {
    for (int i = 0; i < p.n; i++) {
        switch (p.operation) {
            ATOMIC_CASES(p.old[i], &p.cell[i], p.value[i], p.value[i] + 1);
        case PROBE_SUB:
            p.old[i] = atomicSub(&p.cell[i], p.value[i]);
            break;
        case PROBE_INC:
            p.old[i] = atomicInc(&p.cell[i], p.value[i]);
            break;
        case PROBE_DEC:
            p.old[i] = atomicDec(&p.cell[i], p.value[i]);
            break;
        default:
            break;
        }
    }
}
SIMT_KERNEL(atomic_unsigned_kernel, AtomicUnsignedParams, 1);

AttnStatus ENTRY(probe_atomic_unsigned)(ProbeAtomic operation, unsigned *cell,
                                        const unsigned *value, unsigned *old, int n) {
    const AtomicUnsignedParams params = {operation, cell, value, old, n};
    return LAUNCH(atomic_unsigned_kernel, line_of(1), line_of(1), 0, NULL, params);
}

typedef struct AtomicLongParams {
    ProbeAtomic operation;
    unsigned long long *cell;        // [n]
    const unsigned long long *value; // [n]
    unsigned long long *old;         // [n]
    int n;
} AtomicLongParams;

__global__ void __launch_bounds__(1)
    atomic_long_kernel(const __grid_constant__ AtomicLongParams p) {
    for (int i = 0; i < p.n; i++) {
        switch (p.operation) {
            ATOMIC_CASES(p.old[i], &p.cell[i], p.value[i], p.value[i] + 1);
        default:
            break;
        }
    }
}
SIMT_KERNEL(atomic_long_kernel, AtomicLongParams, 1);

AttnStatus ENTRY(probe_atomic_long)(ProbeAtomic operation, unsigned long long *cell,
                                    const unsigned long long *value, unsigned long long *old,
                                    int n) {
    const AtomicLongParams params = {operation, cell, value, old, n};
    return LAUNCH(atomic_long_kernel, line_of(1), line_of(1), 0, NULL, params);
}

typedef struct CountParams {
    float *float_count;
    unsigned long long *long_count;
    int *ticket;
    int *taken; // [blocks * threads]
} CountParams;

__global__ void __launch_bounds__(BLOCK) count_kernel(const __grid_constant__ CountParams p) {
    atomicAdd(p.float_count, 1.0f);
    atomicAdd(p.long_count, 1ULL);
    atomicAdd(&p.taken[atomicAdd(p.ticket, 1)], 1);
}
SIMT_KERNEL(count_kernel, CountParams, BLOCK);

AttnStatus ENTRY(probe_count)(float *float_count, unsigned long long *long_count, int *ticket,
                              int *taken, int blocks, int threads) {
    const CountParams params = {float_count, long_count, ticket, taken};
    return LAUNCH(count_kernel, line_of(blocks), line_of(threads), 0, NULL, params);
}
