// The rate at which a target reads memory: a kernel that reads and does nothing else, and its time.
#ifndef COMMON_READ_RATE_H
#define COMMON_READ_RATE_H

#include "common/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

// Reads `bytes` bytes (a multiple of 16) at `data`, 16-byte aligned, as fast as the target can, and
// does nothing with them but fold them into `sums` (READ_RATE_SUMS words, of which a small buffer
// needs only the first few): the ceiling of every kernel that reads its input once. Errors:
// ATTN_ERR_ARGUMENT for a null pointer, another size or another alignment.
enum { READ_RATE_SUMS = 4096 };
GPU_DECLARE(read_rate, (const void *data, size_t bytes, unsigned *sums, GpuStream stream));

// Times READ_RATE_RUNS calls over a buffer of `bytes` bytes of its own. Errors: those of read_rate,
// gpu_alloc and gpu_measure.
enum { READ_RATE_RUNS = 20 };
AttnStatus read_rate_measure(GpuTarget target, size_t bytes, TimeStats *seconds);

#ifdef __cplusplus
}
#endif

#endif
