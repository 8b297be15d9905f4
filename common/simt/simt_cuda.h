// simt.h under nvcc: CUDA has the names; here is what the two targets spell differently.
#ifndef COMMON_SIMT_SIMT_CUDA_H
#define COMMON_SIMT_SIMT_CUDA_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define restrict __restrict__
// Declared before by GPU_DECLARE inside extern "C", which decides the linkage.
#define ENTRY(name)                          name##_cuda
#define SIMT_KERNEL(kernel, Params, threads) static_assert(sizeof(Params) <= 4096, "")
#define UNROLL                               _Pragma("unroll")
#define NO_UNROLL                            _Pragma("unroll 1")
#define SIMT_PRAGMA(text)                    _Pragma(#text)
#define UNROLL_BY(times)                     SIMT_PRAGMA(unroll times)
// A block's dynamic shared memory, 16-byte aligned, as an array of `type`.
#define DYNAMIC_SHARED(type, name)                                                                 \
    extern __shared__ __align__(16) unsigned char dynamic_shared_memory[];                         \
    type *const name = reinterpret_cast<type *>(dynamic_shared_memory)

// Launches kernel<<<grid, block, shared_bytes, stream>>>(params). Returns ATTN_OK or ATTN_ERR_CUDA
// with a message that names kernel, file and line. Errors inside the kernel may show later, in
// gpu_synchronize.
#define LAUNCH(kernel, grid, block, shared_bytes, stream, params)                                  \
    (kernel<<<(grid), (block), (shared_bytes), (cudaStream_t)(stream)>>>(params),                  \
     gpu_cuda_launched(#kernel, __FILE__, __LINE__))
// Lets the kernel's launches use up to `bytes` of dynamic shared memory, more than 48 KB.
#define SHARED_OPT_IN(kernel, bytes)                                                               \
    gpu_cuda_shared_opt_in((const void *)(kernel), #kernel, (bytes), __FILE__, __LINE__)

// 2^x as the device's own instruction gives it, within 2 units in the last place: 0 below 2^-126.
static __device__ __forceinline__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

extern "C" AttnStatus gpu_cuda_launched(const char *kernel, const char *file, int line);
extern "C" AttnStatus gpu_cuda_shared_opt_in(const void *function, const char *kernel, size_t bytes,
                                             const char *file, int line);

#endif
