// Kernels that convert on the device what a test converts on the host: the results must have the
// same bits.
#ifndef TESTS_UNIT_SIMT_TYPES_PROBE_H
#define TESTS_UNIT_SIMT_TYPES_PROBE_H

#include "common/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

// f16[i], bf16[i]: the bits of the float that the 16-bit pattern is in each type, by the scalar
// conversion. pairs_f16[i], pairs_bf16[i]: the same by the conversion of pairs. n is even.
typedef struct WidenProbeParams {
    const uint16_t *patterns;         // [n]
    uint32_t *f16, *bf16;             // [n]
    uint32_t *pairs_f16, *pairs_bf16; // [n]
    int n;
} WidenProbeParams;
GPU_DECLARE(simt_widen_probe, (const WidenProbeParams *params, GpuStream stream));

// What became of the float whose bits are floats[i].
typedef struct Narrowed {
    uint16_t f16, bf16;
    uint32_t pair_f16, pair_bf16; // of floats[i] (low half) and of floats[n - 1 - i] (high half)
    int32_t nearest, zero, down, up;
    uint32_t bytes[2]; // of the same two, chosen by NARROWED_BYTES_0 and _1
} Narrowed;
enum { NARROWED_BYTES_0 = 0x5410, NARROWED_BYTES_1 = 0x2736 };
typedef struct NarrowProbeParams {
    const uint32_t *floats; // [n]
    Narrowed *results;      // [n]
    int n;
} NarrowProbeParams;
GPU_DECLARE(simt_narrow_probe, (const NarrowProbeParams *params, GpuStream stream));

#ifdef __cplusplus
}
#endif

#endif
