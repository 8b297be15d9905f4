// Tensors: contiguous, row-major, with guard words around the data and NaN where nothing was
// written yet, so that a read of nothing and a write past the end both show.
#ifndef COMMON_TENSOR_H
#define COMMON_TENSOR_H

#include "common/attn.h"
#include "common/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TENSOR_MAX_RANK = 4 };

typedef struct Tensor {
    DType dtype;
    int rank;                      // 1..TENSOR_MAX_RANK
    int64_t dims[TENSOR_MAX_RANK]; // outermost first; unused entries are 1
    size_t count;                  // elements: the product of dims
    void *data;                    // count elements, 64-byte aligned
    void *block;                   // what was allocated, guard words included
} Tensor;

// Allocates a tensor of `rank` dimensions, filled with NaN, guard words on both sides. A dimension
// of 0 is legal (count 0). Errors: ATTN_ERR_SHAPE (rank, negative dimension, size overflow),
// ATTN_ERR_MEMORY; then *tensor is zeroed. Free with tensor_free.
AttnStatus tensor_alloc(Tensor *tensor, DType dtype, int rank, const int64_t *dims);

// Shorthands: [batch][heads][len][dim] of Q/O, of K/V, and [batch][heads_q][len_q] of LSE (f32).
AttnStatus tensor_alloc_q(Tensor *tensor, DType dtype, const AttnShape *shape);
AttnStatus tensor_alloc_kv(Tensor *tensor, DType dtype, const AttnShape *shape);
AttnStatus tensor_alloc_lse(Tensor *tensor, const AttnShape *shape);

// Releases the memory and zeroes the struct; a zeroed tensor is accepted.
void tensor_free(Tensor *tensor);

// Fills the data with NaN again and renews the guard words.
void tensor_poison(Tensor *tensor);

// True while no guard word before or after the data has changed.
bool tensor_guards_intact(const Tensor *tensor);

// Seeded, order-independent fill with normal deviates: element e of head (b, h) becomes
// offset(seed, b, h) + spread * normal(seed, e); offsets are uniform in [-spread/2, spread/2], so
// heads differ and are not all centred on zero. Values are rounded to the tensor's type.
void tensor_fill_random(Tensor *tensor, uint64_t seed, double spread);

// Element access by flat index, through double (exact for every type).
double tensor_get(const Tensor *tensor, size_t index);
void tensor_set(Tensor *tensor, size_t index, double value);

// Flat index of (i0, i1, i2, i3) in row-major dims, computed in size_t: no 32-bit overflow.
size_t tensor_index4(const int64_t dims[4], int64_t i0, int64_t i1, int64_t i2, int64_t i3);

// Allocates *out with src's shape and the given type and converts every element (rounding to
// nearest even). Errors: ATTN_ERR_MEMORY.
AttnStatus tensor_convert(Tensor *out, const Tensor *src, DType dtype);

// Rounds every element of an f32 tensor to `dtype` in place, the storage staying f32.
void tensor_round_to(Tensor *tensor, DType dtype);

// "(1, 8, 192, 64)" into text (at least 96 bytes); returns text.
char *tensor_shape_text(const Tensor *tensor, char *text);

#ifdef __cplusplus
}
#endif

#endif
