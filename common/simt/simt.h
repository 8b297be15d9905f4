// What every .cu file includes first. Under nvcc: CUDA's headers and the few macros below. Under a
// C compiler: the same names, so that the file is C11 and runs on common/simt, one fiber a CUDA
// thread. docs/simt.md is the page for users.
//
//     typedef struct ScaleParams { float *x; int n; } ScaleParams;
//
//     __global__ void __launch_bounds__(128) scale_kernel(const __grid_constant__ ScaleParams p) {
//         float *restrict x = p.x; // [n]
//         const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
//         if (i < p.n) {
//             x[i] *= 2.0f;
//         }
//     }
//     SIMT_KERNEL(scale_kernel, ScaleParams, 128);
//
//     AttnStatus ENTRY(scale)(float *x, int n, GpuStream stream) {
//         const ScaleParams params = {x, n};
//         const dim3 grid = {(unsigned)(n + 127) / 128, 1, 1}, block = {128, 1, 1};
//         return LAUNCH(scale_kernel, grid, block, 0, stream, params);
//     }
//
// Kernels take one struct, and copy its pointers to local `restrict` ones before they use them.
#ifndef COMMON_SIMT_SIMT_H
#define COMMON_SIMT_SIMT_H

#include "common/attn.h"
#include "common/gpu.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define FULL_MASK 0xffffffffu // every lane of a warp

#ifdef __CUDACC__
#include "common/simt/simt_cuda.h"
#else
#include "common/simt/simt_cpu.h"
#endif

#include "common/simt/matrix.h" // mma, ldmatrix, cp.async: both targets

#endif
