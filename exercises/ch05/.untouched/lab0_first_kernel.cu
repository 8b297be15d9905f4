// Lab 0: a first kernel: y[r][c] = a[r] * x[r][c] + b[r].
//
// Every element has a thread of its own. The grid has two dimensions: blocks of AFFINE_THREADS
// threads along the columns (x), and one row of blocks for every row of the matrix (y).
#include "labs.h"

#include "common/simt/simt.h"

__global__ void __launch_bounds__(AFFINE_THREADS)
    row_affine_kernel(const __grid_constant__ RowAffine p) {
    const float *restrict x = p.x; // [rows][columns]
    const float *restrict a = p.a; // [rows]
    const float *restrict b = p.b; // [rows]
    float *restrict y = p.y;       // [rows][columns]
    // TODO 1: this thread's row and column; its element of y, unless the column does not exist
    (void)x, (void)a, (void)b, (void)y;
    // END 1
}
SIMT_KERNEL(row_affine_kernel, RowAffine, AFFINE_THREADS);

AttnStatus ENTRY(row_affine)(const RowAffine *matrix, GpuStream stream) {
    const RowAffine params = *matrix; // the kernel's one argument, copied to the device
    // TODO 2: nothing to launch for a matrix without elements; else the grid, and the launch's
    // status
    const dim3 grid = {1, 1, 1}, block = {AFFINE_THREADS, 1, 1};
    return LAUNCH(row_affine_kernel, grid, block, 0, stream, params);
    // END 2
}
