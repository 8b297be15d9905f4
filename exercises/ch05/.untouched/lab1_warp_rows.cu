// Lab 1: softmax and log-sum-exp of short rows, by shuffles alone.
//
// A row of at most a hundred scores does not fill a warp. Here ROW_LANES = 8 neighbouring lanes
// share a row: lane 0 of the group takes elements 0, 8, 16, ..., lane 1 elements 1, 9, 17, ... What
// each lane found is then combined by shuffles of width 8, which stay inside the group: three steps
// instead of five, and four rows at a time in every warp.
#include "labs.h"

#include "common/simt/simt.h"

static const unsigned all_lanes = 0xffffffffu;

// The largest of the group's eight values, in every lane of the group.
__device__ __forceinline__ float group_max(float x) {
    // TODO 1: shuffles between lanes that are 4, 2 and 1 apart
    (void)all_lanes;
    // END 1
    return x;
}

// The sum of the group's eight values, in every lane of the group.
__device__ __forceinline__ float group_sum(float x) {
    // TODO 2: the same with a sum
    (void)all_lanes;
    // END 2
    return x;
}

__global__ void __launch_bounds__(ROWS_THREADS)
    short_rows_kernel(const __grid_constant__ ShortRows rows) {
    const float *restrict x = rows.x; // [rows][stride]
    float *restrict p = rows.p;       // [rows][stride]
    float *restrict lse = rows.lse;   // [rows]
    const int lane = (int)threadIdx.x % ROW_LANES;
    const int row = (int)(blockIdx.x * blockDim.x + threadIdx.x) / ROW_LANES;
    // All lanes of a warp come to every shuffle, those of rows that do not exist as well: for them
    // the row is empty.
    const int len = row < rows.rows ? rows.len[row] : 0;
    const size_t first = (size_t)row * (size_t)rows.stride; // of this row

    // TODO 3: the row's maximum m and its sum l of exp(x - m), in all eight lanes
    const float m = group_max(0.0f), l = group_sum(0.0f);
    (void)x, (void)lane, (void)len, (void)first;
    // END 3

    // TODO 4: the probabilities, and by one lane the LSE, of a row that exists
    (void)p, (void)lse, (void)m, (void)l;
    // END 4
}
SIMT_KERNEL(short_rows_kernel, ShortRows, ROWS_THREADS);

AttnStatus ENTRY(short_rows)(const ShortRows *rows, GpuStream stream) {
    const ShortRows params = *rows;
    const int rows_per_block = ROWS_THREADS / ROW_LANES;
    const unsigned blocks = (unsigned)((params.rows + rows_per_block - 1) / rows_per_block);
    const dim3 grid = {blocks, 1, 1}, block = {ROWS_THREADS, 1, 1};
    if (params.rows == 0) {
        return ATTN_OK;
    }
    return LAUNCH(short_rows_kernel, grid, block, 0, stream, params);
}
