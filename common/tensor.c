// Tensors: allocation with guard words, NaN poisoning, seeded values, element access.
#include "common/tensor.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGNMENT = 64,    // of the data, in bytes
    GUARD_BYTES = 256, // before the data; after it at least as many
    GUARD_BYTE = 0xa5,
};

static size_t data_bytes(const Tensor *tensor) {
    return tensor->count * dtype_size(tensor->dtype);
}

// Bytes of the whole block: guard, data, guard, up to a multiple of the alignment.
static size_t block_bytes(const Tensor *tensor) {
    size_t bytes = GUARD_BYTES + data_bytes(tensor) + GUARD_BYTES;
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

// Checks rank and dims and stores them with their product. The size in bytes, guards included, is
// then known to fit in ptrdiff_t.
static AttnStatus set_dims(Tensor *tensor, int rank, const int64_t *dims) {
    if (rank < 1 || rank > TENSOR_MAX_RANK) {
        return attn_fail(ATTN_ERR_SHAPE, "tensor rank %d is outside 1..%d", rank, TENSOR_MAX_RANK);
    }
    bool empty = false;
    tensor->rank = rank;
    for (int i = 0; i < TENSOR_MAX_RANK; i++) {
        tensor->dims[i] = i < rank ? dims[i] : 1;
        if (tensor->dims[i] < 0) {
            return attn_fail(ATTN_ERR_SHAPE,
                             "tensor dimension %d is %" PRId64 ", which is negative", i,
                             tensor->dims[i]);
        }
        empty = empty || tensor->dims[i] == 0;
    }
    size_t limit = (PTRDIFF_MAX - 2 * GUARD_BYTES - ALIGNMENT) / dtype_size(tensor->dtype);
    tensor->count = empty ? 0 : 1;
    for (int i = 0; i < rank && !empty; i++) {
        if ((size_t)tensor->dims[i] > limit / tensor->count) {
            char text[96];
            return attn_fail(ATTN_ERR_SHAPE, "tensor %s has more elements than can be addressed",
                             tensor_shape_text(tensor, text));
        }
        tensor->count *= (size_t)tensor->dims[i];
    }
    return ATTN_OK;
}

AttnStatus tensor_alloc(Tensor *tensor, DType dtype, int rank, const int64_t *dims) {
    *tensor = (Tensor){.dtype = dtype};
    AttnStatus status = set_dims(tensor, rank, dims);
    if (status == ATTN_OK) {
        tensor->block = aligned_alloc(ALIGNMENT, block_bytes(tensor));
        if (tensor->block == NULL) {
            char text[96];
            status =
                attn_fail(ATTN_ERR_MEMORY, "no memory for a tensor %s of %s: %zu bytes",
                          tensor_shape_text(tensor, text), dtype_name(dtype), block_bytes(tensor));
        }
    }
    if (status != ATTN_OK) {
        *tensor = (Tensor){0};
        return status;
    }
    tensor->data = (unsigned char *)tensor->block + GUARD_BYTES;
    tensor_poison(tensor);
    return ATTN_OK;
}

AttnStatus tensor_alloc_q(Tensor *tensor, DType dtype, const AttnShape *shape) {
    int64_t dims[] = {shape->batch, shape->heads_q, shape->len_q, shape->dim};
    return tensor_alloc(tensor, dtype, 4, dims);
}

AttnStatus tensor_alloc_kv(Tensor *tensor, DType dtype, const AttnShape *shape) {
    int64_t dims[] = {shape->batch, shape->heads_kv, shape->len_kv, shape->dim};
    return tensor_alloc(tensor, dtype, 4, dims);
}

AttnStatus tensor_alloc_lse(Tensor *tensor, const AttnShape *shape) {
    int64_t dims[] = {shape->batch, shape->heads_q, shape->len_q};
    return tensor_alloc(tensor, DTYPE_F32, 3, dims);
}

void tensor_free(Tensor *tensor) {
    free(tensor->block);
    *tensor = (Tensor){0};
}

void tensor_poison(Tensor *tensor) {
    if (tensor->block == NULL) {
        return;
    }
    memset(tensor->block, GUARD_BYTE, block_bytes(tensor));
    for (size_t i = 0; i < tensor->count; i++) {
        tensor_set(tensor, i, NAN);
    }
}

bool tensor_guards_intact(const Tensor *tensor) {
    if (tensor->block == NULL) {
        return true;
    }
    const unsigned char *bytes = tensor->block;
    size_t data_end = GUARD_BYTES + data_bytes(tensor);
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        if (bytes[i] != GUARD_BYTE) {
            return false;
        }
    }
    for (size_t i = data_end; i < block_bytes(tensor); i++) {
        if (bytes[i] != GUARD_BYTE) {
            return false;
        }
    }
    return true;
}

// The counter-based generator: SplitMix64 (Steele, Lea, Flood 2014), whose output number n is a
// function of n alone, so that values do not depend on the order in which they are made.
static uint64_t hash(uint64_t key, uint64_t n) {
    uint64_t z = key + (n + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

// Uniform in (0, 1), never an end.
static double uniform(uint64_t key, uint64_t n) {
    return ((double)(hash(key, n) >> 12) + 0.5) * 0x1p-52;
}

// Standard normal deviate number n (Box and Muller 1958).
static double normal(uint64_t key, uint64_t n) {
    double radius = sqrt(-2 * log(uniform(key, 2 * n)));
    return radius * cos(2 * M_PI * uniform(key, 2 * n + 1));
}

void tensor_fill_random(Tensor *tensor, uint64_t seed, double spread) {
    uint64_t value_key = hash(seed, 0);
    uint64_t offset_key = hash(seed, 1);
    size_t per_head = tensor->count; // elements of one head: all but the two outer dimensions
    if (tensor->rank >= 2) {
        per_head = (size_t)tensor->dims[2] * (size_t)tensor->dims[3];
    }
    for (size_t i = 0; i < tensor->count; i++) {
        double offset = spread * (uniform(offset_key, i / per_head) - 0.5);
        tensor_set(tensor, i, offset + spread * normal(value_key, i));
    }
}

double tensor_get(const Tensor *tensor, size_t index) {
    switch (tensor->dtype) {
    case DTYPE_F16:
        return f32_from_f16(((const uint16_t *)tensor->data)[index]);
    case DTYPE_BF16:
        return f32_from_bf16(((const uint16_t *)tensor->data)[index]);
    case DTYPE_F64:
        return ((const double *)tensor->data)[index];
    case DTYPE_F32:
        break;
    }
    return ((const float *)tensor->data)[index];
}

// value as a float32 rounded to odd: towards zero, with the last bit set when that lost anything.
// Rounding the result once more, to a type at least two bits shorter, then gives what rounding
// `value` at once would give; rounding to nearest twice would not.
static float rounded_to_odd(double value) {
    float x = (float)value;
    if (isnan(value) || (double)x == value) {
        return x;
    }
    if (fabs((double)x) > fabs(value)) {
        x = nextafterf(x, 0);
    }
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits |= 1;
    memcpy(&x, &bits, sizeof x);
    return x;
}

void tensor_set(Tensor *tensor, size_t index, double value) {
    switch (tensor->dtype) {
    case DTYPE_F16:
        ((uint16_t *)tensor->data)[index] = f16_from_f32(rounded_to_odd(value));
        break;
    case DTYPE_BF16:
        ((uint16_t *)tensor->data)[index] = bf16_from_f32(rounded_to_odd(value));
        break;
    case DTYPE_F64:
        ((double *)tensor->data)[index] = value;
        break;
    case DTYPE_F32:
        ((float *)tensor->data)[index] = (float)value;
        break;
    }
}

size_t tensor_index4(const int64_t dims[4], int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    size_t index = (size_t)i0;
    index = index * (size_t)dims[1] + (size_t)i1;
    index = index * (size_t)dims[2] + (size_t)i2;
    return index * (size_t)dims[3] + (size_t)i3;
}

AttnStatus tensor_convert(Tensor *out, const Tensor *src, DType dtype) {
    AttnStatus status = tensor_alloc(out, dtype, src->rank, src->dims);
    if (status != ATTN_OK) {
        return status;
    }
    for (size_t i = 0; i < src->count; i++) {
        tensor_set(out, i, tensor_get(src, i));
    }
    return ATTN_OK;
}

void tensor_round_to(Tensor *tensor, DType dtype) {
    float *x = tensor->data;
    for (size_t i = 0; i < tensor->count; i++) {
        x[i] = dtype_round(dtype, x[i]);
    }
}

char *tensor_shape_text(const Tensor *tensor, char *text) {
    int length = sprintf(text, "(");
    for (int i = 0; i < tensor->rank; i++) {
        length += sprintf(text + length, "%s%" PRId64, i == 0 ? "" : ", ", tensor->dims[i]);
    }
    sprintf(text + length, tensor->rank == 1 ? ",)" : ")");
    return text;
}
