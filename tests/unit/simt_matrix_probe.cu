// mma, ldmatrix and cp.async (common/simt/matrix.h) in small kernels, for every target.
#include "common/simt/simt.h"
#include "tests/unit/simt_matrix_probe.h"

// ---- mma ----------------------------------------------------------------------------------------

// Two 16-bit elements in a register, the first in the low half.
__device__ uint32_t pair_of(uint16_t low, uint16_t high) {
    return low | (uint32_t)high << 16;
}

__global__ void __launch_bounds__(PROBE_WARP) mma_kernel(const __grid_constant__ MmaProbeParams p) {
    __shared__ __align__(16) uint16_t tile_a[PROBE_M][PROBE_K];
    __shared__ __align__(16) uint16_t tile_b[PROBE_K][PROBE_N];
    const size_t product = blockIdx.x;
    const uint16_t *restrict a = p.a + product * PROBE_M * PROBE_K; // [PROBE_M][PROBE_K]
    const uint16_t *restrict b = p.b + product * PROBE_K * PROBE_N; // [PROBE_K][PROBE_N]
    const float *restrict c = p.c + product * PROBE_M * PROBE_N;    // [PROBE_M][PROBE_N]
    float *restrict d = p.d + product * PROBE_M * PROBE_N;          // [PROBE_M][PROBE_N]
    const int lane = (int)threadIdx.x, g = lane / 4, t = lane % 4;
    uint32_t part_a[4], part_b[2];
    if (p.load == MMA_PROBE_TABLE) {
        for (int i = 0; i < 4; i++) {
            const uint16_t *row = a + (g + i % 2 * 8) * PROBE_K + 2 * t + i / 2 * 8;
            part_a[i] = pair_of(row[0], row[1]);
        }
        for (int i = 0; i < 2; i++) {
            const uint16_t *column = b + (2 * t + i * 8) * PROBE_N + g;
            part_b[i] = pair_of(column[0], column[PROBE_N]);
        }
    } else {
        for (int i = lane; i < PROBE_M * PROBE_K; i += PROBE_WARP) {
            tile_a[i / PROBE_K][i % PROBE_K] = a[i];
        }
        for (int i = lane; i < PROBE_K * PROBE_N; i += PROBE_WARP) {
            tile_b[i / PROBE_N][i % PROBE_N] = b[i];
        }
        __syncwarp(FULL_MASK);
        // Matrices 0 to 3 of A: upper left, lower left, upper right, lower right.
        ldmatrix_x4(part_a, &tile_a[lane % 16][lane / 16 * 8]);
        // B's rows are along n, and the registers hold pairs along k.
        ldmatrix_x2_trans(part_b, &tile_b[lane % 16][0]);
    }
    float sum[4], result[4];
    for (int i = 0; i < 4; i++) {
        sum[i] = c[(g + i / 2 * 8) * PROBE_N + 2 * t + i % 2];
    }
    if (p.in_place && p.bf16) {
        mma_m16n8k16_bf16(sum, part_a, part_b, sum);
    } else if (p.in_place) {
        mma_m16n8k16_f16(sum, part_a, part_b, sum);
    } else if (p.bf16) {
        mma_m16n8k16_bf16(result, part_a, part_b, sum);
    } else {
        mma_m16n8k16_f16(result, part_a, part_b, sum);
    }
    for (int i = 0; i < 4; i++) {
        d[(g + i / 2 * 8) * PROBE_N + 2 * t + i % 2] = p.in_place ? sum[i] : result[i];
    }
}
SIMT_KERNEL(mma_kernel, MmaProbeParams, PROBE_WARP);

AttnStatus ENTRY(simt_mma_probe)(const MmaProbeParams *params, GpuStream stream) {
    const MmaProbeParams p = *params;
    const dim3 grid = {(unsigned)p.count, 1, 1}, block = {PROBE_WARP, 1, 1};
    return LAUNCH(mma_kernel, grid, block, 0, stream, p);
}

// ---- ldmatrix -----------------------------------------------------------------------------------

enum { LDMATRIX_PITCH = 24 }; // elements from row to row: 48 bytes

__global__ void __launch_bounds__(PROBE_WARP)
    ldmatrix_kernel(const __grid_constant__ LdmatrixProbeParams p) {
    __shared__ __align__(16) uint16_t tile[PROBE_WARP][LDMATRIX_PITCH];
    const uint16_t *restrict rows = p.rows; // [4][8][8]
    uint32_t *restrict out = p.r;           // [PROBE_WARP][4]
    const int lane = (int)threadIdx.x;
    for (int i = 0; i < 8; i++) {
        tile[lane][i] = rows[lane * 8 + i];
    }
    __syncwarp(FULL_MASK);
    const uint16_t *row = tile[lane % (8 * p.matrices)]; // a device wants it valid in every lane
    uint32_t r[4];
    if (p.matrices == 1 && p.transposed) {
        ldmatrix_x1_trans(r, row);
    } else if (p.matrices == 1) {
        ldmatrix_x1(r, row);
    } else if (p.matrices == 2 && p.transposed) {
        ldmatrix_x2_trans(r, row);
    } else if (p.matrices == 2) {
        ldmatrix_x2(r, row);
    } else if (p.transposed) {
        ldmatrix_x4_trans(r, row);
    } else {
        ldmatrix_x4(r, row);
    }
    for (int j = 0; j < p.matrices; j++) {
        out[lane * 4 + j] = r[j];
    }
}
SIMT_KERNEL(ldmatrix_kernel, LdmatrixProbeParams, PROBE_WARP);

AttnStatus ENTRY(simt_ldmatrix_probe)(const LdmatrixProbeParams *params, GpuStream stream) {
    const LdmatrixProbeParams p = *params;
    const dim3 grid = {1, 1, 1}, block = {PROBE_WARP, 1, 1};
    return LAUNCH(ldmatrix_kernel, grid, block, 0, stream, p);
}

// ---- cp.async -----------------------------------------------------------------------------------

__global__ void __launch_bounds__(COPY_PROBE_THREADS)
    copy_kernel(const __grid_constant__ CopyProbeParams p) {
    __shared__ __align__(16) uint8_t slots[COPY_PROBE_THREADS][COPY_PROBE_SLOT];
    const int thread = (int)threadIdx.x;
    const uint8_t *restrict in = p.in + thread * COPY_PROBE_SLOT; // [COPY_PROBE_SLOT]
    uint8_t *restrict out = p.out + thread * COPY_PROBE_SLOT;     // [COPY_PROBE_SLOT]
    const int bytes = p.bytes[thread];
    for (int i = 0; i < COPY_PROBE_SLOT; i++) {
        slots[thread][i] = 0x11;
    }
    if (p.size == 16) {
        cp_async_16(slots[thread], in, bytes);
    } else if (p.size == 8) {
        cp_async_8(slots[thread], in, bytes);
    } else {
        cp_async_4(slots[thread], in, bytes);
    }
    cp_async_commit();
    cp_async_wait(0);
    for (int i = 0; i < COPY_PROBE_SLOT; i++) {
        out[i] = slots[thread][i];
    }
}
SIMT_KERNEL(copy_kernel, CopyProbeParams, COPY_PROBE_THREADS);

AttnStatus ENTRY(simt_copy_probe)(const CopyProbeParams *params, GpuStream stream) {
    const CopyProbeParams p = *params;
    const dim3 grid = {1, 1, 1}, block = {COPY_PROBE_THREADS, 1, 1};
    return LAUNCH(copy_kernel, grid, block, 0, stream, p);
}

// What the destinations of the first `groups` groups hold.
__device__ void group_look(const float slots[GROUP_PROBE_GROUPS][PROBE_WARP], int groups,
                           float *out) {
    for (int group = 0; group < groups; group++) {
        out[group * PROBE_WARP + (int)threadIdx.x] = slots[group][threadIdx.x];
    }
}

__global__ void __launch_bounds__(PROBE_WARP)
    group_kernel(const __grid_constant__ GroupProbeParams p) {
    __shared__ float slots[GROUP_PROBE_GROUPS][PROBE_WARP];
    const float *restrict in = p.in; // [GROUP_PROBE_GROUPS][PROBE_WARP]
    float *restrict out = p.out;     // [GROUP_PROBE_LOOKS][GROUP_PROBE_GROUPS][PROBE_WARP]
    const int lane = (int)threadIdx.x;
    const int look = GROUP_PROBE_GROUPS * PROBE_WARP;
    for (int group = 0; group < GROUP_PROBE_GROUPS; group++) {
        cp_async_4(&slots[group][lane], &in[group * PROBE_WARP + lane], 4);
        if (group < GROUP_PROBE_GROUPS - 1) {
            cp_async_commit();
        }
    }
    const int early = p.look_early ? GROUP_PROBE_GROUPS : 0;
    group_look(slots, early, out);
    cp_async_wait(2); // group 0 is there
    group_look(slots, p.look_early ? GROUP_PROBE_GROUPS : 1, out + look);
    cp_async_wait(0); // and groups 1 and 2
    group_look(slots, p.look_early ? GROUP_PROBE_GROUPS : 3, out + 2 * look);
    cp_async_wait_all(); // and what was not committed
    group_look(slots, GROUP_PROBE_GROUPS, out + 3 * look);
}
SIMT_KERNEL(group_kernel, GroupProbeParams, PROBE_WARP);

AttnStatus ENTRY(simt_group_probe)(const GroupProbeParams *params, GpuStream stream) {
    const GroupProbeParams p = *params;
    const dim3 grid = {1, 1, 1}, block = {PROBE_WARP, 1, 1};
    return LAUNCH(group_kernel, grid, block, 0, stream, p);
}

__global__ void __launch_bounds__(PIPELINE_THREADS)
    pipeline_kernel(const __grid_constant__ PipelineProbeParams p) {
    __shared__ float stages[2][PIPELINE_THREADS];
    const float *restrict in = p.in; // [tiles][PIPELINE_THREADS]
    float *restrict out = p.out;     // [tiles][PIPELINE_THREADS]
    const int thread = (int)threadIdx.x;
    cp_async_4(&stages[0][thread], &in[thread], 4);
    cp_async_commit();
    for (int tile = 0; tile < p.tiles; tile++) {
        const int next = tile + 1;
        const bool more = next < p.tiles;
        cp_async_4(&stages[next % 2][thread], &in[(more ? next : 0) * PIPELINE_THREADS + thread],
                   more ? 4 : 0);
        cp_async_commit();
        if (p.mistake == PIPELINE_WAIT_TOO_FEW) {
            cp_async_wait(2);
        } else if (p.mistake != PIPELINE_NO_WAIT) {
            cp_async_wait(1);
        }
        __syncthreads();
        const float *stage = stages[tile % 2];
        out[tile * PIPELINE_THREADS + thread] =
            stage[thread] + stage[(thread + 1) % PIPELINE_THREADS];
        if (p.mistake != PIPELINE_EARLY_REFILL) {
            __syncthreads();
        }
    }
    cp_async_wait_all();
}
SIMT_KERNEL(pipeline_kernel, PipelineProbeParams, PIPELINE_THREADS);

AttnStatus ENTRY(simt_pipeline_probe)(const PipelineProbeParams *params, GpuStream stream) {
    const PipelineProbeParams p = *params;
    const dim3 grid = {1, 1, 1}, block = {PIPELINE_THREADS, 1, 1};
    return LAUNCH(pipeline_kernel, grid, block, 0, stream, p);
}

__global__ void __launch_bounds__(PROBE_WARP)
    leftover_kernel(const __grid_constant__ LeftoverProbeParams p) {
    __shared__ float slots[PROBE_WARP];
    const float *restrict in = p.in; // [PROBE_WARP]
    float *restrict out = p.out;     // [PROBE_WARP]
    const int lane = (int)threadIdx.x;
    slots[lane] = 1;
    if (blockIdx.x == 0) {
        cp_async_4(&slots[lane], &in[lane], 4);
        cp_async_commit();
    } else {
        cp_async_wait_all();
        out[lane] = slots[lane];
    }
}
SIMT_KERNEL(leftover_kernel, LeftoverProbeParams, PROBE_WARP);

AttnStatus ENTRY(simt_leftover_probe)(const LeftoverProbeParams *params, GpuStream stream) {
    const LeftoverProbeParams p = *params;
    const dim3 grid = {2, 1, 1}, block = {PROBE_WARP, 1, 1};
    return LAUNCH(leftover_kernel, grid, block, 0, stream, p);
}

// ---- mistakes that are found --------------------------------------------------------------------

__global__ void __launch_bounds__(PROBE_WARP)
    mistake_kernel(const __grid_constant__ MistakeProbeParams p) {
    __shared__ __align__(16) float tile[64];
    float *restrict memory = p.memory; // [64]
    int *restrict line = p.line;       // [PROBE_WARP]
    const int lane = (int)threadIdx.x;
    float d[4] = {0, 0, 0, 0};
    uint32_t a[4] = {0, 0, 0, 0}, b[2] = {0, 0};
    tile[2 * lane] = tile[2 * lane + 1] = 0;
    __syncwarp(FULL_MASK);
    if (p.mistake == MISTAKE_ROW_MISALIGNED) {
        line[lane] = __LINE__ + 1;
        ldmatrix_x1(a, &tile[lane % 8 * 4 + 2]);
    } else if (p.mistake == MISTAKE_ROW_IN_GLOBAL) {
        line[lane] = __LINE__ + 1;
        ldmatrix_x1(a, &memory[lane % 8 * 4]);
    } else if (p.mistake == MISTAKE_COPY_MISALIGNED) {
        line[lane] = __LINE__ + 1;
        cp_async_16(&tile[1], memory, 16);
    } else if (p.mistake == MISTAKE_COPY_SOURCE) {
        line[lane] = __LINE__ + 1;
        cp_async_16(tile, &memory[1], 16);
    } else if (p.mistake == MISTAKE_COPY_TO_GLOBAL) {
        line[lane] = __LINE__ + 1;
        cp_async_16(&memory[4], memory, 16);
    } else if (p.mistake == MISTAKE_COPY_TOO_LONG) {
        line[lane] = __LINE__ + 1;
        cp_async_4(tile, memory, 5);
    } else if (p.mistake == MISTAKE_LANE_MISSING && lane != 7) {
        line[lane] = __LINE__ + 1;
        mma_m16n8k16_bf16(d, a, b, d);
    } else if (p.mistake == MISTAKE_DIFFERENT && lane < 16) {
        line[lane] = __LINE__ + 1;
        mma_m16n8k16_f16(d, a, b, d);
    } else if (p.mistake == MISTAKE_DIFFERENT) {
        line[lane] = __LINE__ + 1;
        ldmatrix_x1(a, tile);
    }
    memory[lane] = d[0] + __uint_as_float(a[0]);
}
SIMT_KERNEL(mistake_kernel, MistakeProbeParams, PROBE_WARP);

AttnStatus ENTRY(simt_mistake_probe)(const MistakeProbeParams *params, GpuStream stream) {
    const MistakeProbeParams p = *params;
    const dim3 grid = {1, 1, 1}, block = {PROBE_WARP, 1, 1};
    return LAUNCH(mistake_kernel, grid, block, 0, stream, p);
}
