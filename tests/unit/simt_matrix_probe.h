// Kernels that use mma, ldmatrix and cp.async in small, so that a test can look at every element;
// the last ones are wrong on purpose, to see that the runtime says so.
#ifndef TESTS_UNIT_SIMT_MATRIX_PROBE_H
#define TESTS_UNIT_SIMT_MATRIX_PROBE_H

#include "common/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { PROBE_M = 16, PROBE_N = 8, PROBE_K = 16, PROBE_WARP = 32 };

// How the kernel fills the registers: from global memory by the table in common/simt/matrix.h, or
// through shared memory by ldmatrix.
typedef enum MmaProbeLoad { MMA_PROBE_TABLE = 0, MMA_PROBE_LDMATRIX } MmaProbeLoad;

// d = a b + c, `count` products, one a block. in_place: d and c are one array in the kernel.
typedef struct MmaProbeParams {
    const uint16_t *a; // [count][PROBE_M][PROBE_K]
    const uint16_t *b; // [count][PROBE_K][PROBE_N]
    const float *c;    // [count][PROBE_M][PROBE_N]
    float *d;          // [count][PROBE_M][PROBE_N]
    int count, bf16, in_place, load;
} MmaProbeParams;
GPU_DECLARE(simt_mma_probe, (const MmaProbeParams *params, GpuStream stream));

// ldmatrix of 1, 2 or 4 matrices: r[lane][j] for every lane.
typedef struct LdmatrixProbeParams {
    const uint16_t *rows; // [4][8][8]
    uint32_t *r;          // [PROBE_WARP][4], unused ones untouched
    int matrices, transposed;
} LdmatrixProbeParams;
GPU_DECLARE(simt_ldmatrix_probe, (const LdmatrixProbeParams *params, GpuStream stream));

// Thread i copies `bytes[i]` of `size` bytes, zero filled, and writes what then is in its 16 bytes
// of shared memory, which were all 0x11 before.
enum { COPY_PROBE_THREADS = 64, COPY_PROBE_SLOT = 16 };
typedef struct CopyProbeParams {
    const uint8_t *in; // [COPY_PROBE_THREADS][COPY_PROBE_SLOT]
    const int *bytes;  // [COPY_PROBE_THREADS]
    uint8_t *out;      // [COPY_PROBE_THREADS][COPY_PROBE_SLOT]
    int size;          // 16, 8 or 4
} CopyProbeParams;
GPU_DECLARE(simt_copy_probe, (const CopyProbeParams *params, GpuStream stream));

// Four groups of one 4-byte copy a thread; the last is not committed. What the destinations hold
// before any wait, and after waiting for all but 2 groups, all but 0, and everything. look_early:
// those too that need not be there yet.
enum { GROUP_PROBE_GROUPS = 4, GROUP_PROBE_LOOKS = 4 };
typedef struct GroupProbeParams {
    const float *in; // [GROUP_PROBE_GROUPS][PROBE_WARP]
    float *out;      // [GROUP_PROBE_LOOKS][GROUP_PROBE_GROUPS][PROBE_WARP]
    int look_early;
} GroupProbeParams;
GPU_DECLARE(simt_group_probe, (const GroupProbeParams *params, GpuStream stream));

// Copies tiles of PIPELINE_THREADS floats through two stages of shared memory, adds up neighbouring
// threads' elements. A mistake that a device may or may not show:
typedef enum PipelineMistake {
    PIPELINE_RIGHT = 0,
    PIPELINE_NO_WAIT,      // the data is read before it is there
    PIPELINE_WAIT_TOO_FEW, // waits for all but 1 group where it needs all
    PIPELINE_EARLY_REFILL, // the next copy into a stage starts before all have read it
} PipelineMistake;
enum { PIPELINE_THREADS = 64 };
typedef struct PipelineProbeParams {
    const float *in; // [tiles][PIPELINE_THREADS]
    float *out;      // [tiles][PIPELINE_THREADS]: in[i] + in[i + 1], cyclic in the tile
    int tiles, mistake;
} PipelineProbeParams;
GPU_DECLARE(simt_pipeline_probe, (const PipelineProbeParams *params, GpuStream stream));

// The first block ends with a copy under way; the second, which has none, waits for all and writes
// what is in its shared memory: 1. Not for a device, where the first block is a mistake.
typedef struct LeftoverProbeParams {
    const float *in; // [PROBE_WARP]
    float *out;      // [PROBE_WARP]
} LeftoverProbeParams;
GPU_DECLARE(simt_leftover_probe, (const LeftoverProbeParams *params, GpuStream stream));

// Each stops with a finding; never run on a device.
typedef enum MatrixMistake {
    MISTAKE_ROW_MISALIGNED = 0, // ldmatrix with a row 8 bytes off
    MISTAKE_ROW_IN_GLOBAL,      // ldmatrix of global memory
    MISTAKE_COPY_MISALIGNED,    // cp_async_16 into shared memory 4 bytes off
    MISTAKE_COPY_SOURCE,        // cp_async_16 from global memory 4 bytes off
    MISTAKE_COPY_TO_GLOBAL,     // cp_async_16 between two places of global memory
    MISTAKE_COPY_TOO_LONG,      // 5 of 4 bytes
    MISTAKE_LANE_MISSING,       // lane 7 does not come to the mma
    MISTAKE_DIFFERENT,          // lanes at an mma, lanes at an ldmatrix
    MISTAKES
} MatrixMistake;
typedef struct MistakeProbeParams {
    float *memory; // [64]
    int *line;     // [PROBE_WARP], of simt_matrix_probe.cu, where the lane's mistake stands
    int mistake;
} MistakeProbeParams;
GPU_DECLARE(simt_mistake_probe, (const MistakeProbeParams *params, GpuStream stream));

#ifdef __cplusplus
}
#endif

#endif
