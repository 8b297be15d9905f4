// The CPU benchmark: what is measured (points.c), how (measure.c), and the program (cpu.c).
#ifndef TESTS_BENCH_BENCH_H
#define TESTS_BENCH_BENCH_H

#include "common/attn.h"
#include "common/dtype.h"
#include "common/timer.h"

// The rungs of chapter 4. All but SIMD take f32 and use one thread.
typedef enum BenchKernel { BENCH_UNTILED, BENCH_TILED, BENCH_UNFUSED, BENCH_SIMD } BenchKernel;

typedef struct Point {
    BenchKernel kernel;
    AttnShape shape;
    DType dtype;
    int threads;
} Point;

// Fills points with everything that is measured on a machine with this many processors; quick keeps
// to small sizes. Returns how many they are. max_points is the room; more abort.
enum { MAX_POINTS = 256 };
int bench_points(Point points[MAX_POINTS], int processors, bool quick);

const char *bench_kernel_name(BenchKernel kernel); // "untiled", "tiled", "unfused", "simd"

typedef struct Measured {
    TimeStats seconds;
    double flops;       // of the visible (query, key) pairs
    double bytes;       // Q, K, V read and O, LSE written, once each
    size_t workspace;   // bytes of workspace given, and allocated during the call
    bool right;         // the output of the last timed run: see bench_measure
    char message[1024]; // empty, or what was wrong with it
} Measured;

// Times one point. Inputs rotate over several sets in memory: three, and for decoding, which is
// bound by memory, as many as no cache holds. One run untimed, then as many as 0.7 s hold: 50 at
// most, 10 at least, 5 where a run takes longer than half a second. Then every element of O and LSE
// must be finite, and the last rows of the last head are compared with the float64 oracle.
// Errors: the kernel's, and ATTN_ERR_MEMORY.
AttnStatus bench_measure(const Point *point, bool quick, Measured *measured);

#endif
