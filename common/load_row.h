// Reading and writing rows of Q, K, V and O (chapter 6), for the decode kernels after it. A lane
// reads eight elements of a row, 16 bytes at a time: one load of f16 or bf16, two of f32.
// `dtype` is a constant at every call, so that only one type's code is left.
//
// Sixteen bytes can be read at once only where a row begins at a multiple of them, and there are
// whole eights only where dim is a multiple of eight: SplitKvParams.vectors. Elsewhere the same
// elements are read one at a time. Where `whole` (a constant too), dim is the kernel's head_dim and
// no column is tested.
#ifndef COMMON_LOAD_ROW_H
#define COMMON_LOAD_ROW_H

#include "common/simt/simt.h"

#include "common/dtype.h"

// Eight elements as they are stored: f32 has four of them in `a` and four in `b`; of the 16-bit
// types all are in `a`, the first one in the low half of a.x.
typedef struct Eight {
    uint4 a, b;
} Eight;

// The columns of a lane: four from `first` on and four from `second` on. The two loads of f32 are
// half a row apart, so that each of them reads whole sectors of 32 bytes, next to its neighbours'.
typedef struct Columns {
    int first, second;
} Columns;

__device__ __forceinline__ Columns columns_of(int lane, const int head_dim, const int dtype) {
    Columns columns = {8 * lane, 8 * lane + 4};
    if (dtype == DTYPE_F32) {
        columns.first = 4 * lane;
        columns.second = head_dim / 2 + 4 * lane;
    }
    return columns;
}

__device__ __forceinline__ size_t bytes_of(size_t elements, const int dtype) {
    return dtype == DTYPE_F32 ? 4 * elements : 2 * elements;
}

// The bits of one element of a row [dim]; 0 from dim on.
__device__ __forceinline__ unsigned load_bits(const void *row, int c, int dim, const int dtype) {
    if (c >= dim) {
        return 0;
    }
    return dtype == DTYPE_F32 ? __float_as_uint(((const float *)row)[c])
                              : ((const unsigned short *)row)[c];
}

// The bits of elements c .. c + 3 of a row of floats.
__device__ __forceinline__ uint4 load_floats(const void *row, int c) {
    const float4 x = *(const float4 *)((const float *)row + c);
    return make_uint4(__float_as_uint(x.x), __float_as_uint(x.y), __float_as_uint(x.z),
                      __float_as_uint(x.w));
}

// A lane's elements of a row [dim]. 0 stands for those from dim on, and for all of them where the
// row is not `there`.
__device__ __forceinline__ Eight load_eight(const void *row, Columns c, bool there, int dim,
                                            int vectors, const int dtype, const int whole) {
    Eight x = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    if (!there) {
        return x;
    }
    if (whole || vectors) {
        if (dtype == DTYPE_F32) {
            x.a = whole || c.first < dim ? load_floats(row, c.first) : x.a;
            x.b = whole || c.second < dim ? load_floats(row, c.second) : x.b;
        } else if (whole || c.first < dim) {
            x.a = *(const uint4 *)((const unsigned short *)row + c.first);
        }
        return x;
    }
    const unsigned first[4] = {
        load_bits(row, c.first, dim, dtype), load_bits(row, c.first + 1, dim, dtype),
        load_bits(row, c.first + 2, dim, dtype), load_bits(row, c.first + 3, dim, dtype)};
    const unsigned second[4] = {
        load_bits(row, c.second, dim, dtype), load_bits(row, c.second + 1, dim, dtype),
        load_bits(row, c.second + 2, dim, dtype), load_bits(row, c.second + 3, dim, dtype)};
    if (dtype == DTYPE_F32) {
        x.a = make_uint4(first[0], first[1], first[2], first[3]);
        x.b = make_uint4(second[0], second[1], second[2], second[3]);
    } else {
        x.a = make_uint4(first[0] | first[1] << 16, first[2] | first[3] << 16,
                         second[0] | second[1] << 16, second[2] | second[3] << 16);
    }
    return x;
}

// The f32 of a 16-bit float in the low, or in the high, half of `bits`.
__device__ __forceinline__ float low_half(unsigned bits, const int dtype) {
    return dtype == DTYPE_BF16 ? __uint_as_float(bits << 16)
                               : __half2float(__ushort_as_half((unsigned short)(bits & 0xffffu)));
}

__device__ __forceinline__ float high_half(unsigned bits, const int dtype) {
    return dtype == DTYPE_BF16 ? __uint_as_float(bits & 0xffff0000u)
                               : __half2float(__ushort_as_half((unsigned short)(bits >> 16)));
}

// x[8] = the eight elements.
__device__ __forceinline__ void widen(float *x, Eight eight, const int dtype) {
    if (dtype == DTYPE_F32) {
        x[0] = __uint_as_float(eight.a.x);
        x[1] = __uint_as_float(eight.a.y);
        x[2] = __uint_as_float(eight.a.z);
        x[3] = __uint_as_float(eight.a.w);
        x[4] = __uint_as_float(eight.b.x);
        x[5] = __uint_as_float(eight.b.y);
        x[6] = __uint_as_float(eight.b.z);
        x[7] = __uint_as_float(eight.b.w);
    } else {
        x[0] = low_half(eight.a.x, dtype);
        x[1] = high_half(eight.a.x, dtype);
        x[2] = low_half(eight.a.y, dtype);
        x[3] = high_half(eight.a.y, dtype);
        x[4] = low_half(eight.a.z, dtype);
        x[5] = high_half(eight.a.z, dtype);
        x[6] = low_half(eight.a.w, dtype);
        x[7] = high_half(eight.a.w, dtype);
    }
}

// x, rounded to a 16-bit storage type.
__device__ __forceinline__ unsigned bits_of(float x, int dtype) {
    return dtype == DTYPE_F16 ? __half_as_ushort(__float2half_rn(x))
                              : __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

// row[c] = x, rounded to the storage type.
__device__ __forceinline__ void store_element(void *row, int c, float x, int dtype) {
    if (dtype == DTYPE_F32) {
        ((float *)row)[c] = x;
    } else {
        ((unsigned short *)row)[c] = (unsigned short)bits_of(x, dtype);
    }
}

#endif
