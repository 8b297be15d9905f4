// This machine's ceilings, measured: what memory and arithmetic can do here at best.
//
// Memory: the threads copy slice after slice of an array that no cache holds, by memcpy and, on
// x86-64, also with stores that bypass the cache (a plain store first reads the line it replaces).
// Arithmetic: independent chains of multiply-adds in registers, in the widest vector unit found at
// run time, enough of them that the latency of one is hidden behind the others. The best run
// counts, and runs are short, so that a busy machine leaves some of them undisturbed.
#include "common/ceilings.h"

#include "common/timer.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum {
    FMA_STEPS = 1 << 16, // 0.3 ms
    FEWEST_RUNS = 4,
    CHAINS = 12,      // with 16 vector registers; Intel and AMD need 8 to 10 to hide the latency
    CHAINS_MANY = 24, // with 32 vector registers; the widest Arm cores need 16
    LINE = 64,
    SMALLEST_PAGE = 4096,
    HUGE_PAGE = 2 << 20,
};

static const double SECONDS_EACH = 0.12;       // time spent on each of the two measurements
static const size_t ARRAY_BYTES = 256ul << 20; // source, and as much again for the destination
static const size_t SLICE_BYTES = 32ul << 20;  // copied in one run, 1 to 4 ms

// x = x FACTOR + ADDEND tends to 2 and stays there: never infinite, never denormal.
static const float FACTOR = 0.75f, ADDEND = 0.5f;

// Keeps the compiler from dropping a computation whose result nobody needs.
static volatile float sink;

// ---- arithmetic ---------------------------------------------------------------------------------

// `steps` multiply-adds in each of the unit's chains; returns something made of all results.
typedef float FmaLoop(int64_t steps);

typedef struct VectorUnit {
    const char *name;
    FmaLoop *loop;
    int lanes;  // float32 values in a register
    int chains; // independent registers
} VectorUnit;

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static float fma_avx512(int64_t steps) {
    __m512 factor = _mm512_set1_ps(FACTOR), addend = _mm512_set1_ps(ADDEND);
    __m512 x[CHAINS_MANY];
    for (int i = 0; i < CHAINS_MANY; i++) {
        x[i] = _mm512_set1_ps((float)i);
    }
    for (int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 24
        for (int i = 0; i < CHAINS_MANY; i++) {
            x[i] = _mm512_fmadd_ps(x[i], factor, addend);
        }
    }
    for (int i = 1; i < CHAINS_MANY; i++) {
        x[0] = _mm512_add_ps(x[0], x[i]);
    }
    return _mm512_reduce_add_ps(x[0]);
}

__attribute__((target("avx2,fma"))) static float fma_avx2(int64_t steps) {
    __m256 factor = _mm256_set1_ps(FACTOR), addend = _mm256_set1_ps(ADDEND);
    __m256 x[CHAINS];
    for (int i = 0; i < CHAINS; i++) {
        x[i] = _mm256_set1_ps((float)i);
    }
    for (int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) {
            x[i] = _mm256_fmadd_ps(x[i], factor, addend);
        }
    }
    for (int i = 1; i < CHAINS; i++) {
        x[0] = _mm256_add_ps(x[0], x[i]);
    }
    return _mm256_cvtss_f32(x[0]);
}
#endif

#if defined(__aarch64__)
// The instruction adds to its accumulator, so x grows by FACTOR ADDEND a step: to 25,000 at most.
static float fma_neon(int64_t steps) {
    float32x4_t factor = vdupq_n_f32(FACTOR), addend = vdupq_n_f32(ADDEND);
    float32x4_t x[CHAINS_MANY];
    for (int i = 0; i < CHAINS_MANY; i++) {
        x[i] = vdupq_n_f32((float)i);
    }
    for (int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 24
        for (int i = 0; i < CHAINS_MANY; i++) {
            x[i] = vfmaq_f32(x[i], factor, addend);
        }
    }
    for (int i = 1; i < CHAINS_MANY; i++) {
        x[0] = vaddq_f32(x[0], x[i]);
    }
    return vaddvq_f32(x[0]);
}
#else
// Four lanes as the compiler's own vectors, a multiplication and an addition each.
static float fma_portable(int64_t steps) {
    typedef float Vector __attribute__((vector_size(16)));
    Vector factor = {FACTOR, FACTOR, FACTOR, FACTOR};
    Vector addend = {ADDEND, ADDEND, ADDEND, ADDEND};
    Vector x[CHAINS];
    for (int i = 0; i < CHAINS; i++) {
        x[i] = addend * (float)i;
    }
    for (int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) {
            x[i] = x[i] * factor + addend;
        }
    }
    for (int i = 1; i < CHAINS; i++) {
        x[0] += x[i];
    }
    return x[0][0];
}
#endif

static VectorUnit widest_unit(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) {
        return (VectorUnit){"AVX-512", fma_avx512, 16, CHAINS_MANY};
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return (VectorUnit){"AVX2", fma_avx2, 8, CHAINS};
    }
    return (VectorUnit){"SSE2", fma_portable, 4, CHAINS};
#elif defined(__aarch64__)
    return (VectorUnit){"NEON", fma_neon, 4, CHAINS_MANY};
#else
    return (VectorUnit){"portable vectors", fma_portable, 4, CHAINS};
#endif
}

// The best rate of all runs, all threads at once, in FLOP/s.
static double measure_fma(const VectorUnit *unit, int threads) {
    double flops = 2.0 * FMA_STEPS * unit->chains * unit->lanes * threads;
    double best = INFINITY, start = timer_now();
    float total = 0;
    for (int run = 0; run < FEWEST_RUNS || timer_now() - start < SECONDS_EACH; run++) {
        double begin = timer_now();
#ifdef _OPENMP
#pragma omp parallel num_threads(threads) reduction(+ : total)
#endif
        total += unit->loop(FMA_STEPS);
        best = fmin(best, timer_now() - begin);
    }
    sink = total;
    return flops / best;
}

// ---- memory -------------------------------------------------------------------------------------

// Copies whole 64-byte lines; both pointers are aligned to 64 bytes.
static void copy_streaming(unsigned char *to, unsigned char *from, size_t bytes) {
#if defined(__x86_64__)
    for (size_t i = 0; i < bytes; i += 64) {
        const __m128i *source = (const __m128i *)(from + i);
        __m128i *target = (__m128i *)(to + i);
        __m128i a = _mm_load_si128(source), b = _mm_load_si128(source + 1);
        __m128i c = _mm_load_si128(source + 2), d = _mm_load_si128(source + 3);
        _mm_stream_si128(target, a);
        _mm_stream_si128(target + 1, b);
        _mm_stream_si128(target + 2, c);
        _mm_stream_si128(target + 3, d);
    }
    _mm_sfence();
#else
    memcpy(to, from, bytes);
#endif
}

// The size of one array: ARRAY_BYTES, less where that is more than an eighth of the free memory.
static size_t array_bytes(void) {
    size_t bytes = ARRAY_BYTES;
#ifdef _SC_AVPHYS_PAGES
    double available = (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    while (bytes > SLICE_BYTES && available < 8.0 * (double)bytes) {
        bytes /= 2;
    }
#endif
    return bytes;
}

// One array, on huge pages where the system has them: they are made ready far sooner. Or NULL.
static unsigned char *allocate_array(size_t bytes) {
    unsigned char *array = aligned_alloc(HUGE_PAGE, bytes);
#ifdef MADV_HUGEPAGE
    if (array != NULL) {
        madvise(array, bytes, MADV_HUGEPAGE); // advice only: a refusal does no harm
    }
#endif
    return array;
}

// What a thread does with its part of a slice.
typedef void CopyPart(unsigned char *to, unsigned char *from, size_t bytes);

// Writes to every page, so that each has memory of its own, near the thread that will use it.
static void touch_part(unsigned char *to, unsigned char *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += SMALLEST_PAGE) {
        to[i] = from[i] = 1;
    }
}

static void copy_plain(unsigned char *to, unsigned char *from, size_t bytes) {
    memcpy(to, from, bytes);
}

// Runs `work` on one slice, each thread on its part.
static void run_slice(CopyPart *work, unsigned char *to, unsigned char *from, int threads) {
    size_t part = SLICE_BYTES / (size_t)threads / LINE * LINE;
#ifdef _OPENMP
#pragma omp parallel for num_threads(threads) schedule(static, 1)
#endif
    for (int thread = 0; thread < threads; thread++) {
        size_t offset = part * (size_t)thread;
        work(to + offset, from + offset, thread == threads - 1 ? SLICE_BYTES - offset : part);
    }
}

// The best rate of all runs, bytes read plus bytes written, in bytes/s; NaN without memory.
static double measure_copy(int threads) {
    size_t bytes = array_bytes(), slices = bytes / SLICE_BYTES;
    unsigned char *from = allocate_array(bytes), *to = allocate_array(bytes);
    double best = NAN;
    if (from != NULL && to != NULL) {
        for (size_t slice = 0; slice < slices; slice++) {
            run_slice(touch_part, to + slice * SLICE_BYTES, from + slice * SLICE_BYTES, threads);
        }
        double start = timer_now();
        for (size_t run = 0; run < FEWEST_RUNS || timer_now() - start < SECONDS_EACH; run++) {
            size_t offset = run % slices * SLICE_BYTES;
            double begin = timer_now();
            run_slice(run % 2 == 0 ? copy_plain : copy_streaming, to + offset, from + offset,
                      threads);
            best = fmin(best, timer_now() - begin); // fmin passes over the first NaN
        }
        sink = to[bytes - 1];
    }
    free(from);
    free(to);
    return 2.0 * (double)SLICE_BYTES / best;
}

// ---- both ---------------------------------------------------------------------------------------

Ceilings ceilings_measure(int threads) {
#ifdef _OPENMP
    threads = threads < 1 ? omp_get_max_threads() : threads;
#else
    threads = 1;
#endif
    VectorUnit unit = widest_unit();
    return (Ceilings){
        .threads = threads,
        .copy_bytes_per_s = measure_copy(threads),
        .fma_flops_per_s = measure_fma(&unit, threads),
        .vector_unit = unit.name,
    };
}

bool ceilings_raise(Ceilings *many, const Ceilings *few) {
    const bool disturbed = many->copy_bytes_per_s < 0.95 * few->copy_bytes_per_s ||
                           many->fma_flops_per_s < 0.95 * few->fma_flops_per_s;
    many->copy_bytes_per_s = fmax(many->copy_bytes_per_s, few->copy_bytes_per_s);
    many->fma_flops_per_s = fmax(many->fma_flops_per_s, few->fma_flops_per_s);
    return disturbed;
}

double ceilings_roofline(const Ceilings *ceilings, double flops_per_byte) {
    return fmin(ceilings->fma_flops_per_s, flops_per_byte * ceilings->copy_bytes_per_s);
}
