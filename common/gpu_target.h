// What a target must do for gpu.c, which checks arguments and dispatches. gpu_simt.c has the
// operations of simt, gpu_cuda.cu those of CUDA. Nothing else includes this file.
#ifndef COMMON_GPU_TARGET_H
#define COMMON_GPU_TARGET_H

#include "common/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GPU_NAME_BYTES = 64, GPU_WHY_BYTES = 256 };

// The part of a buffer from some address inside it on.
typedef struct GpuSpan {
    char name[GPU_NAME_BYTES]; // of the buffer
    size_t offset, left;       // bytes before the address, and from it to the buffer's end
} GpuSpan;

// Each is the function of gpu.h without its target; pointers are checked, sizes are not 0.
typedef struct GpuOperations {
    bool (*available)(char *why); // at most GPU_WHY_BYTES
    AttnStatus (*properties)(GpuProperties *properties);
    AttnStatus (*alloc)(void **memory, const char *name, size_t count, size_t element);
    void (*free)(void *memory);
    bool (*find)(const void *address, GpuSpan *span); // false: in no buffer of gpu_alloc
    AttnStatus (*check_guard)(const void *memory);
    AttnStatus (*upload)(void *device, const void *host, size_t bytes);
    AttnStatus (*download)(void *host, const void *device, size_t bytes);
    AttnStatus (*copy)(void *to, const void *from, size_t bytes, GpuStream stream);
    AttnStatus (*fill)(void *device, int byte, size_t bytes, GpuStream stream);
    AttnStatus (*synchronize)(void);
    AttnStatus (*stream_create)(GpuStream *stream);
    void (*stream_destroy)(GpuStream stream);
    AttnStatus (*event_create)(GpuEvent *event);
    AttnStatus (*event_record)(GpuEvent event, GpuStream stream);
    AttnStatus (*event_seconds)(GpuEvent from, GpuEvent to, double *seconds);
    void (*event_destroy)(GpuEvent event);
    bool any_memory; // addresses in no buffer may be valid too: memory of other CUDA libraries
} GpuOperations;

extern const GpuOperations gpu_simt_operations;
extern const GpuOperations gpu_cuda_operations; // only where GPU_HAVE_CUDA

#ifdef __cplusplus
}
#endif

#endif
