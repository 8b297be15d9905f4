// This machine's ceilings, measured: what memory and arithmetic can do here at best.
#ifndef COMMON_CEILINGS_H
#define COMMON_CEILINGS_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct Ceilings {
    int threads;             // worker threads that were used
    double copy_bytes_per_s; // large copy, bytes read plus bytes written
    double fma_flops_per_s;  // float32 fused multiply-add on independent registers, 2 FLOP each
    const char *vector_unit; // instruction set the FMA figure was measured with, "AVX-512"
} Ceilings;

// Measures both with `threads` workers (at least 1; 0: all this process may use), best of several
// short runs, about 0.5 s in all. The copy uses buffers far beyond the last-level cache's share of
// one core where memory allows.
Ceilings ceilings_measure(int threads);

// More threads can do at least what fewer can. Raises what was measured lower for `many` than for
// `few`, as happens when other programs hold the cores; returns whether anything was lower by more
// than 5 %, the noise of a measurement.
bool ceilings_raise(Ceilings *many, const Ceilings *few);

// The rate that a kernel of this intensity (FLOP per byte) can reach at most: the roofline,
// min(fma_flops_per_s, intensity * copy_bytes_per_s), in FLOP/s.
double ceilings_roofline(const Ceilings *ceilings, double flops_per_byte);

#ifdef __cplusplus
}
#endif

#endif
