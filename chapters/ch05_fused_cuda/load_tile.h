// Reading and writing rows of Q, K, V and O four elements at a time: what the tiled rungs share,
// and what is not their lesson. Storage is f32, or f16 where `f16` is not 0: a constant at every
// call, as are the sizes of a tile.
//
// A row begins at a multiple of 16 bytes (8 of f16) only where dim is a multiple of four and the
// tensor begins at one: FusedParams.vectors. Elsewhere the same elements are read one at a time.
#ifndef CH05_LOAD_TILE_H
#define CH05_LOAD_TILE_H

#include "common/simt/simt.h"

__device__ __forceinline__ float f32_of(unsigned bits) {
    return __half2float(__ushort_as_half((unsigned short)(bits & 0xffffu)));
}

__device__ __forceinline__ unsigned f16_of(float x) {
    return __half_as_ushort(__float2half_rn(x));
}

// Elements c .. c + 3 of a row [dim]; those from dim on are 0. c is a multiple of 4.
__device__ __forceinline__ float4 load_four(const void *row, int c, int dim, int vectors,
                                            const int f16) {
    const float *floats = (const float *)row + c;
    const unsigned short *halves = (const unsigned short *)row + c;
    float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (vectors && c < dim) {
        if (f16) {
            const uint2 bits = *(const uint2 *)halves;
            return make_float4(f32_of(bits.x), f32_of(bits.x >> 16), f32_of(bits.y),
                               f32_of(bits.y >> 16));
        }
        return *(const float4 *)floats;
    }
    x.x = c < dim ? (f16 ? f32_of(halves[0]) : floats[0]) : 0.0f;
    x.y = c + 1 < dim ? (f16 ? f32_of(halves[1]) : floats[1]) : 0.0f;
    x.z = c + 2 < dim ? (f16 ? f32_of(halves[2]) : floats[2]) : 0.0f;
    x.w = c + 3 < dim ? (f16 ? f32_of(halves[3]) : floats[3]) : 0.0f;
    return x;
}

__device__ __forceinline__ void store_one(void *row, int c, int dim, float x, const int f16) {
    if (c < dim && f16) {
        ((unsigned short *)row)[c] = (unsigned short)f16_of(x);
    } else if (c < dim) {
        ((float *)row)[c] = x;
    }
}

// The counterpart of load_four: elements from dim on are not written.
__device__ __forceinline__ void store_four(void *row, int c, int dim, int vectors, float4 x,
                                           const int f16) {
    if (vectors && c < dim) {
        if (f16) {
            *(uint2 *)((unsigned short *)row + c) =
                make_uint2(f16_of(x.x) | f16_of(x.y) << 16, f16_of(x.z) | f16_of(x.w) << 16);
        } else {
            *(float4 *)((float *)row + c) = x;
        }
        return;
    }
    store_one(row, c, dim, x.x, f16);
    store_one(row, c + 1, dim, x.y, f16);
    store_one(row, c + 2, dim, x.z, f16);
    store_one(row, c + 3, dim, x.w, f16);
}

// Rows [first, first + rows) of source [all][dim] into tile [rows][stride], in shared memory, by
// `threads` threads. Rows from `all` on and columns from dim to `columns` are 0.
__device__ __forceinline__ void load_tile(float *tile, const int stride, const int rows,
                                          const int columns, const void *source, int first, int all,
                                          int dim, int vectors, const int threads, const int f16) {
    const size_t width = f16 ? 2 : 4;
    if (vectors && dim == columns) { // whole rows: no test of columns, and all loads at once
        const char *rows_of_tile = (const char *)source + (size_t)first * columns * width;
        UNROLL
        for (int e = 4 * (int)threadIdx.x; e < rows * columns; e += 4 * threads) {
            const int r = e / columns, c = e % columns;
            const char *row = rows_of_tile + r * columns * width;
            *(float4 *)(tile + r * stride + c) = first + r < all
                                                     ? load_four(row, c, columns, 1, f16)
                                                     : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
        return;
    }
    NO_UNROLL
    for (int e = 4 * (int)threadIdx.x; e < rows * columns; e += 4 * threads) {
        const int r = e / columns, c = e % columns;
        const char *row = (const char *)source + (size_t)(first + r) * (size_t)dim * width;
        *(float4 *)(tile + r * stride + c) = first + r < all ? load_four(row, c, dim, vectors, f16)
                                                             : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
}

#endif
