// simt.h under a C compiler: CUDA's names for kernels that run as fibers (schedule.c). Compiled
// with -DSIMT_UNIT=<an identifier that no other object has>, and for the trace build with
// -DSIMT_TRACED=1. Every name here means what CUDA's programming guide says it means.
#ifndef COMMON_SIMT_SIMT_CPU_H
#define COMMON_SIMT_SIMT_CPU_H

#include "common/attn.h"
#include "common/simt/types.h" // uint3, dim3, float4, ..., __half, __nv_bfloat16, conversions

#include <assert.h> // static_assert
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef SIMT_TRACED
#define SIMT_TRACED 0
#endif
#ifndef SIMT_UNIT
#error "compile .cu files with -DSIMT_UNIT=name, a different name for every object file"
#endif
#define SIMT_PASTE_(a, b) a##b
#define SIMT_PASTE(a, b)  SIMT_PASTE_(a, b)
#define SIMT_TEXT_(a)     #a
#define SIMT_TEXT(a)      SIMT_TEXT_(a)

// ---- qualifiers ---------------------------------------------------------------------------------

#define __global__ static
#define __device__ static
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__    __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define UNROLL
#define NO_UNROLL
#define UNROLL_BY(times)
// Static shared memory: in a section of its own for each object, so that it can be filled, bounded
// and named.
#define __shared__        static __attribute__((section("simt_shared_" SIMT_TEXT(SIMT_UNIT))))
#define SIMT_SHARED_START SIMT_PASTE(__start_simt_shared_, SIMT_UNIT)
#define SIMT_SHARED_STOP  SIMT_PASTE(__stop_simt_shared_, SIMT_UNIT)
extern char SIMT_SHARED_START[] __attribute__((weak)), SIMT_SHARED_STOP[] __attribute__((weak));
// One byte for each kernel of the object, which share that section.
#define SIMT_KERNELS_SECTION __attribute__((section("kernels_of_" SIMT_TEXT(SIMT_UNIT)), used))
#define SIMT_KERNELS_START   SIMT_PASTE(__start_kernels_of_, SIMT_UNIT)
#define SIMT_KERNELS_STOP    SIMT_PASTE(__stop_kernels_of_, SIMT_UNIT)
extern const char SIMT_KERNELS_START[] __attribute__((weak)),
    SIMT_KERNELS_STOP[] __attribute__((weak));

// ---- which thread this is -----------------------------------------------------------------------

// Constant for the life of a fiber, so that the compiler may keep them in registers.
uint3 simt_thread_idx(void) __attribute__((const));
uint3 simt_block_idx(void) __attribute__((const));
uint3 simt_block_dim(void) __attribute__((const));
uint3 simt_grid_dim(void) __attribute__((const));
#define threadIdx (simt_thread_idx())
#define blockIdx  (simt_block_idx())
#define blockDim  (simt_block_dim())
#define gridDim   (simt_grid_dim())
#define warpSize  32

void *simt_dynamic_shared(void) __attribute__((const));
#define DYNAMIC_SHARED(type, name) type *const name = (type *)simt_dynamic_shared()

// ---- barriers, votes, shuffles ------------------------------------------------------------------

// Where in the source a collective stands.
#define SIMT_HERE __FILE__, __LINE__

void simt_syncthreads(const char *file, int line);
int simt_syncthreads_reduce(int kind, int predicate, const char *file, int line);
void simt_syncwarp(unsigned mask, const char *file, int line);
void simt_threadfence(void);
#define __syncthreads()        simt_syncthreads(SIMT_HERE)
#define __syncthreads_count(p) simt_syncthreads_reduce(SIMT_COUNT, (p) != 0, SIMT_HERE)
#define __syncthreads_and(p)   simt_syncthreads_reduce(SIMT_AND, (p) != 0, SIMT_HERE)
#define __syncthreads_or(p)    simt_syncthreads_reduce(SIMT_OR, (p) != 0, SIMT_HERE)
// CUDA's has a default mask; the common subset names it: __syncwarp(FULL_MASK).
#define __syncwarp(mask)      simt_syncwarp((mask), SIMT_HERE)
#define __threadfence()       simt_threadfence()
#define __threadfence_block() simt_threadfence()
enum { SIMT_COUNT = 0, SIMT_AND, SIMT_OR };

// Votes: every named lane that lives must come to the same one.
enum { SIMT_BALLOT = 0, SIMT_ALL, SIMT_ANY };
unsigned simt_vote(int kind, unsigned mask, int predicate, const char *file, int line);
unsigned simt_activemask(void);
#define __ballot_sync(mask, p) simt_vote(SIMT_BALLOT, (mask), (p) != 0, SIMT_HERE)
#define __all_sync(mask, p)    ((int)simt_vote(SIMT_ALL, (mask), (p) != 0, SIMT_HERE))
#define __any_sync(mask, p)    ((int)simt_vote(SIMT_ANY, (mask), (p) != 0, SIMT_HERE))
#define __activemask()         simt_activemask()

// Shuffles of 4- and 8-byte values. Width is a power of two, at most 32. The common subset always
// gives it: __shfl_xor_sync(FULL_MASK, x, 16, 32).
enum { SIMT_SHFL_IDX = 0, SIMT_SHFL_UP, SIMT_SHFL_DOWN, SIMT_SHFL_XOR };
uint64_t simt_shuffle(int kind, unsigned mask, uint64_t bits, int argument, int width,
                      const char *file, int line);
static inline float simt_shuffle_float(int kind, unsigned mask, float value, int argument,
                                       int width, const char *file, int line) {
    union {
        float value;
        uint32_t bits;
    } in = {value}, out;
    out.bits = (uint32_t)simt_shuffle(kind, mask, in.bits, argument, width, file, line);
    return out.value;
}
static inline double simt_shuffle_double(int kind, unsigned mask, double value, int argument,
                                         int width, const char *file, int line) {
    union {
        double value;
        uint64_t bits;
    } in = {value}, out;
    out.bits = simt_shuffle(kind, mask, in.bits, argument, width, file, line);
    return out.value;
}
static inline int simt_shuffle_int(int kind, unsigned mask, int value, int argument, int width,
                                   const char *file, int line) {
    return (int)simt_shuffle(kind, mask, (uint32_t)value, argument, width, file, line);
}
static inline unsigned simt_shuffle_unsigned(int kind, unsigned mask, unsigned value, int argument,
                                             int width, const char *file, int line) {
    return (unsigned)simt_shuffle(kind, mask, value, argument, width, file, line);
}
static inline long long simt_shuffle_long(int kind, unsigned mask, long long value, int argument,
                                          int width, const char *file, int line) {
    return (long long)simt_shuffle(kind, mask, (uint64_t)value, argument, width, file, line);
}
static inline unsigned long long simt_shuffle_unsigned_long(int kind, unsigned mask,
                                                            unsigned long long value, int argument,
                                                            int width, const char *file, int line) {
    return simt_shuffle(kind, mask, value, argument, width, file, line);
}
#define SIMT_SHUFFLE(kind, mask, value, argument, width)                                           \
    _Generic((value), float                                                                        \
             : simt_shuffle_float, double                                                          \
             : simt_shuffle_double, int                                                            \
             : simt_shuffle_int, unsigned                                                          \
             : simt_shuffle_unsigned, long                                                         \
             : simt_shuffle_long, long long                                                        \
             : simt_shuffle_long, unsigned long                                                    \
             : simt_shuffle_unsigned_long, unsigned long long                                      \
             : simt_shuffle_unsigned_long)((kind), (mask), (value), (int)(argument), (width),      \
                                           SIMT_HERE)
#define __shfl_sync(mask, value, lane, width)   SIMT_SHUFFLE(SIMT_SHFL_IDX, mask, value, lane, width)
#define __shfl_up_sync(mask, value, d, width)   SIMT_SHUFFLE(SIMT_SHFL_UP, mask, value, d, width)
#define __shfl_down_sync(mask, value, d, width) SIMT_SHUFFLE(SIMT_SHFL_DOWN, mask, value, d, width)
#define __shfl_xor_sync(mask, value, d, width)  SIMT_SHUFFLE(SIMT_SHFL_XOR, mask, value, d, width)

// ---- atomics: the old value is returned ---------------------------------------------------------

float simt_atomic_add_float(float *address, float value, const char *file, int line);
// `operation` is one of SIMT_ATOMIC_*; size is 4 or 8; `compare` only for CAS.
enum {
    SIMT_ATOMIC_ADD = 0,
    SIMT_ATOMIC_SUB,
    SIMT_ATOMIC_EXCH,
    SIMT_ATOMIC_CAS,
    SIMT_ATOMIC_MIN_SIGNED,
    SIMT_ATOMIC_MIN_UNSIGNED,
    SIMT_ATOMIC_MAX_SIGNED,
    SIMT_ATOMIC_MAX_UNSIGNED,
    SIMT_ATOMIC_AND,
    SIMT_ATOMIC_OR,
    SIMT_ATOMIC_XOR,
    SIMT_ATOMIC_INC,
    SIMT_ATOMIC_DEC
};
uint64_t simt_atomic(int operation, void *address, size_t size, uint64_t value, uint64_t compare,
                     const char *file, int line);
#define SIMT_ATOMIC(operation, address, value, compare)                                            \
    ((__typeof__(*(address)))simt_atomic((operation), (void *)(address), sizeof(*(address)),       \
                                         (uint64_t)(value), (uint64_t)(compare), SIMT_HERE))
#define SIMT_IS_SIGNED(address) (((__typeof__(*(address)))-1) < ((__typeof__(*(address)))1))
static inline float simt_atomic_exch_float(float *address, float value, const char *file,
                                           int line) {
    union {
        float value;
        uint32_t bits;
    } in = {value}, out;
    out.bits =
        (uint32_t)simt_atomic(SIMT_ATOMIC_EXCH, address, sizeof in.bits, in.bits, 0, file, line);
    return out.value;
}
static inline int simt_atomic_add_int(int *address, int value, const char *file, int line) {
    return (int)simt_atomic(SIMT_ATOMIC_ADD, address, 4, (uint32_t)value, 0, file, line);
}
static inline unsigned simt_atomic_add_unsigned(unsigned *address, unsigned value, const char *file,
                                                int line) {
    return (unsigned)simt_atomic(SIMT_ATOMIC_ADD, address, 4, value, 0, file, line);
}
static inline unsigned long long simt_atomic_add_long(unsigned long long *address,
                                                      unsigned long long value, const char *file,
                                                      int line) {
    return simt_atomic(SIMT_ATOMIC_ADD, address, 8, value, 0, file, line);
}
#define atomicAdd(address, value)                                                                  \
    _Generic((address),                                                                           \
        float *: simt_atomic_add_float,                                                           \
        int *: simt_atomic_add_int,                                                               \
        unsigned *: simt_atomic_add_unsigned,                                                     \
        unsigned long long *: simt_atomic_add_long)((address), (value), SIMT_HERE)
static inline int simt_atomic_exch_int(int *address, int value, const char *file, int line) {
    return (int)simt_atomic(SIMT_ATOMIC_EXCH, address, 4, (uint32_t)value, 0, file, line);
}
static inline unsigned simt_atomic_exch_unsigned(unsigned *address, unsigned value,
                                                 const char *file, int line) {
    return (unsigned)simt_atomic(SIMT_ATOMIC_EXCH, address, 4, value, 0, file, line);
}
static inline unsigned long long simt_atomic_exch_long(unsigned long long *address,
                                                       unsigned long long value, const char *file,
                                                       int line) {
    return simt_atomic(SIMT_ATOMIC_EXCH, address, 8, value, 0, file, line);
}
#define atomicExch(address, value)                                                                 \
    _Generic((address),                                                                           \
        float *: simt_atomic_exch_float,                                                          \
        int *: simt_atomic_exch_int,                                                              \
        unsigned *: simt_atomic_exch_unsigned,                                                    \
        unsigned long long *: simt_atomic_exch_long)((address), (value), SIMT_HERE)
#define atomicSub(address, value)          SIMT_ATOMIC(SIMT_ATOMIC_SUB, address, value, 0)
#define atomicCAS(address, compare, value) SIMT_ATOMIC(SIMT_ATOMIC_CAS, address, value, compare)
#define atomicMin(address, value)                                                                  \
    SIMT_ATOMIC(SIMT_IS_SIGNED(address) ? SIMT_ATOMIC_MIN_SIGNED : SIMT_ATOMIC_MIN_UNSIGNED,       \
                address, value, 0)
#define atomicMax(address, value)                                                                  \
    SIMT_ATOMIC(SIMT_IS_SIGNED(address) ? SIMT_ATOMIC_MAX_SIGNED : SIMT_ATOMIC_MAX_UNSIGNED,       \
                address, value, 0)
#define atomicAnd(address, value) SIMT_ATOMIC(SIMT_ATOMIC_AND, address, value, 0)
#define atomicOr(address, value)  SIMT_ATOMIC(SIMT_ATOMIC_OR, address, value, 0)
#define atomicXor(address, value) SIMT_ATOMIC(SIMT_ATOMIC_XOR, address, value, 0)
#define atomicInc(address, value) SIMT_ATOMIC(SIMT_ATOMIC_INC, address, value, 0)
#define atomicDec(address, value) SIMT_ATOMIC(SIMT_ATOMIC_DEC, address, value, 0)

// ---- arithmetic ---------------------------------------------------------------------------------

// CUDA's fast forms have larger errors than these; bounds must allow for the device's.
#define __expf(x)          expf(x)
#define __exp2f(x)         exp2f(x)
#define exp2_approx(x)     exp2f(x) // not a name of CUDA: simt_cuda.h
#define __logf(x)          logf(x)
#define __log2f(x)         log2f(x)
#define __fdividef(x, y)   ((x) / (y))
#define __fmaf_rn(a, b, c) fmaf((a), (b), (c))
#define __frcp_rn(x)       (1.0f / (x))
#define rsqrtf(x)          (1.0f / sqrtf(x))
#define __ldg(address)     (*(address))
#define __ldcs(address)    (*(address)) // read once: the cache need not keep it
#define __float_as_uint(x) simt_float_bits(x)
#define __uint_as_float(x) simt_bits_float(x)
#define __popc(x)          __builtin_popcount(x)
#define __ffs(x)           __builtin_ffs((int)(x))
#define __clz(x)           ((x) == 0 ? 32 : __builtin_clz((unsigned)(x)))

// ---- memory -------------------------------------------------------------------------------------

#if SIMT_TRACED
// The compiler tells the tracer of loads, stores and struct copies, not of calls.
void *simt_trace_memcpy(void *to, const void *from, size_t bytes);
void *simt_trace_memset(void *to, int byte, size_t bytes);
#define memcpy(to, from, bytes) simt_trace_memcpy((to), (from), (bytes))
#define memset(to, byte, bytes) simt_trace_memset((to), (byte), (bytes))
#endif

// ---- launches -----------------------------------------------------------------------------------

typedef struct SimtKernel {
    const char *name;
    void (*call)(const void *params);
    size_t params_bytes;
    unsigned launch_bounds; // threads a block at most, 0: not stated
    bool traced;
    const char *shared_start, *shared_stop;   // static shared memory of the object; NULL: none
    const char *kernels_start, *kernels_stop; // a byte for each kernel of the object
    size_t *shared_opt_in; // dynamic bytes that SHARED_OPT_IN allows, plus 1; 0: never called
} SimtKernel;

#define SIMT_KERNEL(kernel, Params, threads)                                                       \
    static void kernel##_call(const void *params) {                                                \
        kernel(*(const Params *)params);                                                           \
    }                                                                                              \
    static size_t kernel##_opt_in;                                                                 \
    static const char kernel##_mark SIMT_KERNELS_SECTION = 0;                                      \
    static SimtKernel kernel##_description(void) {                                                 \
        return (SimtKernel){#kernel,          kernel##_call,      sizeof(Params),                  \
                            (threads),        SIMT_TRACED,        SIMT_SHARED_START,               \
                            SIMT_SHARED_STOP, SIMT_KERNELS_START, SIMT_KERNELS_STOP,               \
                            &kernel##_opt_in};                                                     \
    }                                                                                              \
    static_assert(sizeof(Params) <= 4096, "a kernel's parameters are at most 4,096 bytes")

// Runs the kernel and returns when it is done. One host thread launches at a time: the scheduler's
// state is the process's. Errors: ATTN_ERR_CUDA with a finding (runtime.h).
AttnStatus simt_launch(SimtKernel kernel, dim3 grid, dim3 block, size_t shared_bytes,
                       const void *params, const char *file, int line);
AttnStatus simt_shared_opt_in(SimtKernel kernel, size_t bytes, const char *file, int line);
#define LAUNCH(kernel, grid, block, shared_bytes, stream, params)                                  \
    ((void)(stream), simt_launch(kernel##_description(), (grid), (block), (shared_bytes),          \
                                 &(params), __FILE__, __LINE__))
#define SHARED_OPT_IN(kernel, bytes)                                                               \
    simt_shared_opt_in(kernel##_description(), (bytes), __FILE__, __LINE__)
#if SIMT_TRACED
#define ENTRY(name) name##_trace
#else
#define ENTRY(name) name##_simt
#endif

#endif
