// Kernels for the tests of the scheduler: each uses one primitive and writes down what it gave
// (simt_probe.cu), or makes one mistake (simt_probe_mistakes.cu).
#ifndef TESTS_UNIT_SIMT_PROBE_H
#define TESTS_UNIT_SIMT_PROBE_H

#include "common/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

// A block or grid: x, y, z.
typedef struct ProbeSize {
    unsigned x, y, z;
} ProbeSize;

// seen[thread of the launch][12]: threadIdx, blockIdx, blockDim, gridDim.
GPU_DECLARE(probe_index, (unsigned *seen, ProbeSize grid, ProbeSize block));

// turn[phase][thread]: which turn the thread had between two barriers; count[phase] are 0 at first.
enum { PROBE_PHASES = 3 };
GPU_DECLARE(probe_order, (int *turn, int *count, int threads));

// What threads that have ended, of number `end_from` and up, leave to the others: result[thread]
// of __syncthreads_count, _and, _or over predicate[thread].
GPU_DECLARE(probe_reduce, (const int *predicate, int (*result)[3], int threads, int end_from));

// Lanes below `split` vote with the mask of these, the others with that of the rest.
// result[lane]: ballot, all, any, activemask.
GPU_DECLARE(probe_vote, (const int *predicate, unsigned (*result)[4], int split));

// result[lane] of a shuffle of value[lane], by type and kind (0 idx, 1 up, 2 down, 3 xor).
typedef enum ProbeType {
    PROBE_INT = 0,
    PROBE_UNSIGNED,
    PROBE_FLOAT,
    PROBE_LONG,
    PROBE_UNSIGNED_LONG,
    PROBE_DOUBLE,
    PROBE_TYPES
} ProbeType;
GPU_DECLARE(probe_shuffle, (ProbeType type, int kind, const double *value, const int *argument,
                            int width, double *result));

// One thread applies one atomic to cell[i] with value[i], i < n; old[i] is what it gave.
typedef enum ProbeAtomic {
    PROBE_ADD = 0,
    PROBE_SUB,
    PROBE_EXCH,
    PROBE_CAS, // compares with value[i] + 1
    PROBE_MIN,
    PROBE_MAX,
    PROBE_AND,
    PROBE_OR,
    PROBE_XOR,
    PROBE_INC,
    PROBE_DEC,
    PROBE_ATOMICS
} ProbeAtomic;
GPU_DECLARE(probe_atomic_int,
            (ProbeAtomic operation, int *cell, const int *value, int *old, int n));
GPU_DECLARE(probe_atomic_unsigned,
            (ProbeAtomic operation, unsigned *cell, const unsigned *value, unsigned *old, int n));
GPU_DECLARE(probe_atomic_long, (ProbeAtomic operation, unsigned long long *cell,
                                const unsigned long long *value, unsigned long long *old, int n));

// Every thread of every block adds 1 to the three counts and takes a ticket: taken[ticket]++.
GPU_DECLARE(probe_count, (float *float_count, unsigned long long *long_count, int *ticket,
                          int *taken, int blocks, int threads));

// What a block finds in its shared memory before it writes there: the AND of all its bytes, for
// the static array and the dynamic one, and the dynamic one's address modulo 16.
GPU_DECLARE(probe_fresh, (unsigned (*found)[3], int blocks, int dynamic_bytes));

// sum[block] of value[block][threads]: a tree in shared memory, then shuffles; threads is a power
// of two of at least 64. A kernel of `rounds` of it, for times. ran[block], host memory, is set by
// whoever ran the block, or is NULL.
GPU_DECLARE(probe_sum,
            (const float *value, float *sum, int blocks, int threads, int rounds, char *ran));

// Nothing, but with any launch: for the limits.
GPU_DECLARE(probe_nothing, (ProbeSize grid, ProbeSize block, size_t dynamic_bytes));
GPU_DECLARE(probe_opt_in, (size_t bytes));
GPU_DECLARE(probe_narrow, (int threads));          // __launch_bounds__(64)
GPU_DECLARE(probe_static, (size_t dynamic_bytes)); // 40 KiB of static shared memory, alone
GPU_DECLARE(probe_static_opt_in, (size_t bytes));
GPU_DECLARE(probe_large, (void)); // 64 KiB of static shared memory; not for CUDA

// Costs: `times` barriers of the block, or shuffles of one warp.
GPU_DECLARE(probe_barriers, (int threads, int times));
GPU_DECLARE(probe_shuffles, (int times, float *result));

// ---- mistakes -----------------------------------------------------------------------------------

typedef enum ProbeMistake {
    MISTAKE_NONE = 0,
    MISTAKE_DIVERGENT_BARRIER,  // half the block at one barrier, half at another
    MISTAKE_DIVERGENT_KIND,     // a barrier and a counting one
    MISTAKE_BARRIER_IN_BRANCH,  // lanes below 8 at a shuffle, the others at a barrier
    MISTAKE_OTHER_SHUFFLE,      // lanes at different shuffles
    MISTAKE_MASKS_DISAGREE,     // lanes give different masks that overlap
    MISTAKE_NOT_IN_MASK,        // a mask without the caller
    MISTAKE_SHUFFLE_FROM_ENDED, // lane 0 reads from lane 31, which has returned
    MISTAKE_SHUFFLE_UNNAMED,    // lane 0 reads from a lane that the mask does not name
    MISTAKE_WIDTH,              // a width that is no power of two
    MISTAKE_PAST_END,           // writes just past the buffer's last page
    MISTAKE_BEFORE_START,       // reads far before the buffer
    MISTAKE_NULL,               // writes through a null pointer
    MISTAKE_WILD,               // reads through a pointer that is none
    MISTAKE_DYNAMIC,            // writes past dynamic shared memory
    MISTAKE_MISALIGNED_ATOMIC,  // an atomic at an odd address
    MISTAKE_MISALIGNED_VECTOR,  // a float4 at a multiple of 4
    MISTAKE_DIVIDE,             // an integer by zero
    MISTAKE_TRAP,               // an illegal instruction
    MISTAKE_DEEP,               // recursion without end
    MISTAKE_ENDLESS,            // a loop without end
    MISTAKE_ENDLESS_BARRIERS,   // the same with barriers in it
    MISTAKE_MEMCPY,             // a library function that reads past the end
    MISTAKE_EXIT,               // ends a worker that has a block from bad_block on (simt only)
    MISTAKE_FROM_BLOCK_ON,      // MISTAKE_PAST_END in every block from bad_block on
    MISTAKES
} ProbeMistake;

// Thread `culprit` (or the part of its warp or block that the mistake says) of block `bad_block`
// makes the mistake on buffer[n]; the others leave at once or wait. line[thread] is the line that
// the thread has come to. Blocks before bad_block take some time, so that workers start.
GPU_DECLARE(probe_mistake, (ProbeMistake mistake, float *buffer, int n, int *line, int blocks,
                            int threads, int bad_block, int culprit));

#ifdef __cplusplus
}
#endif

#endif
