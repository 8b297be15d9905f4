// NumPy's NPY files: read and write '<f4', '<f8', '<f2', C order, rank 1 to 4.
// Format: NEP 1 / numpy.lib.format, versions 1.0, 2.0 and 3.0.
#ifndef COMMON_NPY_H
#define COMMON_NPY_H

#include "common/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// Reads a file into a new tensor of the file's own type. Every malformed file has its own message
// (missing, not NPY, version, header, type, Fortran order, rank, truncated, trailing bytes), which
// begins with the path. Errors: ATTN_ERR_IO (the file), ATTN_ERR_UNSUPPORTED (type, order, rank),
// ATTN_ERR_MEMORY. On error *tensor is zeroed.
AttnStatus npy_read(const char *path, Tensor *tensor);

// Writes a tensor; bf16, which NumPy has not, is widened to '<f4'. The file appears whole or not
// at all (written beside, then renamed). Errors: ATTN_ERR_IO.
AttnStatus npy_write(const char *path, const Tensor *tensor);

#ifdef __cplusplus
}
#endif

#endif
