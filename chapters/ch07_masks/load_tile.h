// Reading and writing rows of Q, K, V and O four elements at a time: what the kernels share, and
// what is not their lesson. Unlike chapter 5's, the storage type is chosen at run time: f32, f16 or
// bf16 is asked once a tile, and the rest of a kernel is compiled once for all of them.
//
// A row begins at a multiple of four elements only where dim is a multiple of four and the tensor
// begins at one: MasksParams.vectors. Elsewhere the same elements are read one at a time.
#ifndef CH07_LOAD_TILE_H
#define CH07_LOAD_TILE_H

#include "common/simt/simt.h"

#include "common/dtype.h"

// An element of 16 bits, the lower half of `bits`, as f32; and back.
__device__ __forceinline__ float f32_of(unsigned bits, const int dtype) {
    const unsigned short half = (unsigned short)(bits & 0xffffu);
    return dtype == DTYPE_F16 ? __half2float(__ushort_as_half(half))
                              : __bfloat162float(__ushort_as_bfloat16(half));
}

__device__ __forceinline__ unsigned bits_of(float x, const int dtype) {
    return dtype == DTYPE_F16 ? __half_as_ushort(__float2half_rn(x))
                              : __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

__device__ __forceinline__ float load_one(const void *row, int c, int dim, const int dtype) {
    if (c >= dim) {
        return 0.0f;
    }
    return dtype == DTYPE_F32 ? ((const float *)row)[c]
                              : f32_of(((const unsigned short *)row)[c], dtype);
}

// Elements c .. c + 3 of a row [dim]; those from dim on are 0. c is a multiple of 4.
__device__ __forceinline__ float4 load_four(const void *row, int c, int dim, int vectors,
                                            const int dtype) {
    if (vectors && c < dim) {
        if (dtype == DTYPE_F32) {
            return *(const float4 *)((const float *)row + c);
        }
        const uint2 bits = *(const uint2 *)((const unsigned short *)row + c);
        return make_float4(f32_of(bits.x, dtype), f32_of(bits.x >> 16, dtype),
                           f32_of(bits.y, dtype), f32_of(bits.y >> 16, dtype));
    }
    return make_float4(load_one(row, c, dim, dtype), load_one(row, c + 1, dim, dtype),
                       load_one(row, c + 2, dim, dtype), load_one(row, c + 3, dim, dtype));
}

__device__ __forceinline__ void store_one(void *row, int c, int dim, float x, const int dtype) {
    if (c < dim && dtype == DTYPE_F32) {
        ((float *)row)[c] = x;
    } else if (c < dim) {
        ((unsigned short *)row)[c] = (unsigned short)bits_of(x, dtype);
    }
}

// The counterpart of load_four: elements from dim on are not written.
__device__ __forceinline__ void store_four(void *row, int c, int dim, int vectors, float4 x,
                                           const int dtype) {
    if (vectors && c < dim) {
        if (dtype == DTYPE_F32) {
            *(float4 *)((float *)row + c) = x;
        } else {
            *(uint2 *)((unsigned short *)row + c) =
                make_uint2(bits_of(x.x, dtype) | bits_of(x.y, dtype) << 16,
                           bits_of(x.z, dtype) | bits_of(x.w, dtype) << 16);
        }
        return;
    }
    store_one(row, c, dim, x.x, dtype);
    store_one(row, c + 1, dim, x.y, dtype);
    store_one(row, c + 2, dim, x.z, dtype);
    store_one(row, c + 3, dim, x.w, dtype);
}

// load_tile for one storage type, a constant here.
__device__ __forceinline__ void load_rows(float *tile, const int stride, const int rows,
                                          const int columns, const void *source, int first, int all,
                                          int dim, int vectors, const int threads,
                                          const int dtype) {
    const size_t width = dtype == DTYPE_F32 ? 4 : 2;
    if (vectors && dim == columns) { // whole rows: no test of columns, and all loads at once
        const char *rows_of_tile = (const char *)source + (size_t)first * columns * width;
        UNROLL
        for (int e = 4 * (int)threadIdx.x; e < rows * columns; e += 4 * threads) {
            const int r = e / columns, c = e % columns;
            const char *row = rows_of_tile + r * columns * width;
            *(float4 *)(tile + r * stride + c) = first + r < all
                                                     ? load_four(row, c, columns, 1, dtype)
                                                     : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
        return;
    }
    NO_UNROLL
    for (int e = 4 * (int)threadIdx.x; e < rows * columns; e += 4 * threads) {
        const int r = e / columns, c = e % columns;
        const char *row = (const char *)source + (size_t)(first + r) * (size_t)dim * width;
        *(float4 *)(tile + r * stride + c) = first + r < all
                                                 ? load_four(row, c, dim, vectors, dtype)
                                                 : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
}

// Rows [first, first + rows) of source [all][dim], stored as `dtype`, into tile [rows][stride], in
// shared memory, by `threads` threads. Rows from `all` on and columns from dim to `columns` are 0,
// and are not read.
__device__ __forceinline__ void load_tile(float *tile, const int stride, const int rows,
                                          const int columns, const void *source, int first, int all,
                                          int dim, int vectors, const int threads, int dtype) {
    if (dtype == DTYPE_F32) {
        load_rows(tile, stride, rows, columns, source, first, all, dim, vectors, threads,
                  DTYPE_F32);
    } else if (dtype == DTYPE_F16) {
        load_rows(tile, stride, rows, columns, source, first, all, dim, vectors, threads,
                  DTYPE_F16);
    } else {
        load_rows(tile, stride, rows, columns, source, first, all, dim, vectors, threads,
                  DTYPE_BF16);
    }
}

#endif
