// Bank conflicts, shown by a transposition: 32 x 32 floats are written to shared memory by rows and
// read by columns. Shared memory has 32 banks, and word w is in bank w % 32. In rows of 32 words a
// column lies in one bank, and a warp that reads it is served a word at a time; one word of padding
// spreads it over all 32.
#include "chapters/ch05_fused_cuda/shared_demos.h"

#include "common/simt/simt.h"

enum { TILE = TRANSPOSE_TILE, WARPS = 8, THREADS = TILE * WARPS };

typedef struct TransposeParams {
    const float *x; // [32][32]
    float *y;       // [32][32]
} TransposeParams;

// Through `tile`, whose rows are `pitch` words apart.
__device__ __forceinline__ void transpose(TransposeParams p, float *tile, int pitch) {
    const float *restrict x = p.x;
    float *restrict y = p.y;
    const int lane = (int)threadIdx.x % TILE, warp = (int)threadIdx.x / TILE;
    for (int row = warp; row < TILE; row += WARPS) {
        tile[row * pitch + lane] = x[row * TILE + lane]; // a row: 32 banks, whatever the pitch
    }
    __syncthreads();
    for (int row = warp; row < TILE; row += WARPS) {
        y[row * TILE + lane] = tile[lane * pitch + row]; // a column: bank (lane pitch + row) % 32
    }
}

__global__ void __launch_bounds__(THREADS)
    transpose_kernel(const __grid_constant__ TransposeParams p) {
    __shared__ float tile[TILE * TILE];
    transpose(p, tile, TILE);
}
SIMT_KERNEL(transpose_kernel, TransposeParams, THREADS);

__global__ void __launch_bounds__(THREADS)
    transpose_padded_kernel(const __grid_constant__ TransposeParams p) {
    __shared__ float tile[TILE * (TILE + 1)];
    transpose(p, tile, TILE + 1);
}
SIMT_KERNEL(transpose_padded_kernel, TransposeParams, THREADS);

AttnStatus ENTRY(transpose_tile)(const float *x, float *y, int pitch, GpuStream stream) {
    const TransposeParams params = {x, y};
    const dim3 grid = {1, 1, 1}, block = {THREADS, 1, 1};
    if (pitch == TILE) {
        return LAUNCH(transpose_kernel, grid, block, 0, stream, params);
    }
    if (pitch == TILE + 1) {
        return LAUNCH(transpose_padded_kernel, grid, block, 0, stream, params);
    }
    return attn_fail(ATTN_ERR_ARGUMENT, "pitch %d is neither %d nor %d", pitch, TILE, TILE + 1);
}
