// The ceiling of this chapter: a kernel that reads memory and does nothing else.
#ifndef CH08_GQA_READ_H
#define CH08_GQA_READ_H

#include "common/gpu.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// Reads `bytes` bytes (a multiple of 16) at `data`, 16-byte aligned, and folds them by exclusive or
// into `sums` (GQA_READ_SUMS words). Errors: ATTN_ERR_ARGUMENT for a null pointer or another size.
enum { GQA_READ_SUMS = 4096 };
GPU_DECLARE(gqa_read, (const void *data, size_t bytes, unsigned *sums, GpuStream stream));

#ifdef __cplusplus
}
#endif

#endif
