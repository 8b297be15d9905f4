// What the CPU benchmark measures: the ladder of chapter 4 over the shape space.
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct Plan {
    Point *points;
    int count;
    int processors;
} Plan;

static void add(Plan *plan, BenchKernel kernel, AttnShape shape, DType dtype, int threads) {
    if (plan->count == MAX_POINTS) {
        fprintf(stderr, "bench: more than %d points\n", MAX_POINTS);
        abort();
    }
    plan->points[plan->count++] = (Point){kernel, shape, dtype, threads};
}

// One head, as many queries as keys.
static AttnShape square(int64_t len, int64_t dim, bool causal) {
    return (AttnShape){1, 1, 1, len, len, dim, 0, causal, 0, NULL};
}

// The next thread count after `threads`: twice as many, and at last all processors.
static int next_threads(const Plan *plan, int threads) {
    return threads < plan->processors && threads * 2 > plan->processors ? plan->processors
                                                                        : threads * 2;
}

// The slow rungs, one head: up to `longest` for d=64, half of that for d=128.
static void add_ladder(Plan *plan, int64_t longest) {
    for (int64_t dim = 64; dim <= 128; dim *= 2) {
        for (int64_t len = 512; len <= longest * 64 / dim; len *= 2) {
            for (int causal = 0; causal <= 1; causal++) {
                for (BenchKernel kernel = BENCH_UNTILED; kernel < BENCH_SIMD; kernel++) {
                    add(plan, kernel, square(len, dim, causal), DTYPE_F32, 1);
                }
            }
        }
    }
}

// The fast rung, one head: on one thread up to `longest`, on all up to twice that.
static void add_simd(Plan *plan, int64_t longest) {
    const int all = plan->processors;
    for (int64_t dim = 64; dim <= 128; dim *= 2) {
        for (int64_t len = 512; len <= 2 * longest; len *= 2) {
            for (int causal = 0; causal <= 1; causal++) {
                if (len <= longest) {
                    add(plan, BENCH_SIMD, square(len, dim, causal), DTYPE_F32, 1);
                }
                if (all > 1) {
                    add(plan, BENCH_SIMD, square(len, dim, causal), DTYPE_F32, all);
                }
            }
        }
        for (int threads = 2; threads < all; threads = next_threads(plan, threads)) {
            add(plan, BENCH_SIMD, square(longest, dim, false), DTYPE_F32, threads);
        }
        for (DType dtype = DTYPE_F16; dtype <= DTYPE_BF16; dtype++) {
            add(plan, BENCH_SIMD, square(longest, dim, false), dtype, all);
        }
    }
}

// One new query against a long cache.
static void add_decode(Plan *plan, int64_t keys) {
    const int all = plan->processors;
    for (int64_t dim = 64; dim <= 128; dim *= 2) {
        const AttnShape shape = {1, 12, 12, 1, keys, dim, 0, false, 0, NULL};
        for (int threads = 1; threads <= all; threads = next_threads(plan, threads)) {
            add(plan, BENCH_SIMD, shape, DTYPE_F32, threads);
        }
        for (DType dtype = DTYPE_F16; dtype <= DTYPE_BF16; dtype++) {
            add(plan, BENCH_SIMD, shape, dtype, all);
        }
    }
    const AttnShape grouped = {8, 32, 8, 1, keys / 8, 128, 0, false, 0, NULL};
    add(plan, BENCH_SIMD, grouped, DTYPE_F32, all);
    add(plan, BENCH_SIMD, grouped, DTYPE_BF16, all);
}

// Heads, batches, grouped heads, a chunk, a window, sizes that no tile divides.
static void add_shapes(Plan *plan, int64_t len) {
    const AttnShape shapes[] = {
        {1, 12, 12, len / 2, len / 2, 64, 0, false, 0, NULL},
        {1, 12, 12, len / 2, len / 2, 64, 0, true, 0, NULL},
        {4, 8, 2, len / 8, len / 8, 64, 0, true, 0, NULL},
        {1, 8, 2, 64, len, 128, 0, true, 0, NULL},
        {1, 1, 1, len, len, 64, 0, true, 256, NULL},
        {1, 3, 3, 1000, 1003, 80, 0, false, 0, NULL},
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        add(plan, BENCH_SIMD, shapes[i], DTYPE_F32, plan->processors);
    }
}

int bench_points(Point points[MAX_POINTS], int processors, bool quick) {
    Plan plan = {points, 0, processors};
    const int64_t longest = quick ? 1024 : 4096;
    add_ladder(&plan, longest);
    add_simd(&plan, longest);
    add_decode(&plan, quick ? 2048 : 16384);
    add_shapes(&plan, longest);
    return plan.count;
}
