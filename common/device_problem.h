// A problem's tensors in device memory, for the chapters with CUDA kernels: Q, K and V uploaded in
// the storage type that a kernel reads, O and LSE filled with NaN, and both brought back.
#ifndef COMMON_DEVICE_PROBLEM_H
#define COMMON_DEVICE_PROBLEM_H

#include "common/gpu.h"
#include "common/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct DeviceProblem {
    GpuTarget target;
    AttnShape shape;     // kv_lens, if any, is the problem's own, in host memory
    DType dtype;         // storage type of q, k, v and o: f32, f16 or bf16
    void *q, *k, *v, *o; // shapes as in Problem; NULL where a tensor has no elements
    float *lse;          // [batch][heads_q][len_q]
    int32_t *kv_lens;    // [batch] in device memory, NULL where the shape has none
} DeviceProblem;

// Allocates the buffers "q", "k", "v", "o", "lse" (and "kv_lens") on the target, uploads Q, K, V
// rounded to `dtype`, and leaves O and LSE NaN. Errors: ATTN_ERR_ARGUMENT for another dtype, and
// those of gpu_alloc, gpu_upload and tensor_convert; *device is zeroed then. Freed by
// device_problem_free.
AttnStatus device_problem_make(DeviceProblem *device, GpuTarget target, const Problem *problem,
                               DType dtype);

// Fills O and LSE with NaN again, for the next run.
AttnStatus device_problem_poison(const DeviceProblem *device);

// Waits for all work, checks that nothing was written past the end of a buffer, and stores O
// (widened to f32) and LSE in problem->o and problem->lse, which have the same shape.
AttnStatus device_problem_download(const DeviceProblem *device, Problem *problem);

// Releases the memory and zeroes the struct; a zeroed one is accepted.
void device_problem_free(DeviceProblem *device);

#ifdef __cplusplus
}
#endif

#endif
