// CUDA's small types for kernels compiled as C: vectors with CUDA's sizes and alignments, __half
// and __nv_bfloat16 with the conversions that CUDA names, float bits. Every conversion gives the
// bits that a device gives, NaN included: a NaN rounded to 16 bits is 0x7fff, whatever its sign and
// payload were.
#ifndef COMMON_SIMT_TYPES_H
#define COMMON_SIMT_TYPES_H

#include "common/dtype.h"

#include <stdint.h>

// ---- vectors ------------------------------------------------------------------------------------

typedef struct dim3 {
    unsigned x, y, z;
} dim3;
typedef struct uint3 {
    unsigned x, y, z;
} uint3;
typedef struct float3 {
    float x, y, z;
} float3;
typedef struct int2 {
    _Alignas(8) int x;
    int y;
} int2;
typedef struct int4 {
    _Alignas(16) int x;
    int y, z, w;
} int4;
typedef struct uint2 {
    _Alignas(8) unsigned x;
    unsigned y;
} uint2;
typedef struct uint4 {
    _Alignas(16) unsigned x;
    unsigned y, z, w;
} uint4;
typedef struct float2 {
    _Alignas(8) float x;
    float y;
} float2;
typedef struct float4 {
    _Alignas(16) float x;
    float y, z, w;
} float4;
typedef struct double2 {
    _Alignas(16) double x;
    double y;
} double2;

static inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) {
    return (uint3){x, y, z};
}
static inline float3 make_float3(float x, float y, float z) {
    return (float3){x, y, z};
}
static inline int2 make_int2(int x, int y) {
    return (int2){x, y};
}
static inline int4 make_int4(int x, int y, int z, int w) {
    return (int4){x, y, z, w};
}
static inline uint2 make_uint2(unsigned x, unsigned y) {
    return (uint2){x, y};
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return (uint4){x, y, z, w};
}
static inline float2 make_float2(float x, float y) {
    return (float2){x, y};
}
static inline float4 make_float4(float x, float y, float z, float w) {
    return (float4){x, y, z, w};
}
static inline double2 make_double2(double x, double y) {
    return (double2){x, y};
}

// ---- floats, their bits, integers ---------------------------------------------------------------

typedef union SimtFloat {
    float value;
    uint32_t bits;
    int32_t integer;
} SimtFloat;

static inline uint32_t simt_float_bits(float x) {
    return (SimtFloat){.value = x}.bits;
}
static inline float simt_bits_float(uint32_t bits) {
    return (SimtFloat){.bits = bits}.value;
}
static inline int __float_as_int(float x) {
    return (SimtFloat){.value = x}.integer;
}
static inline float __int_as_float(int x) {
    return (SimtFloat){.integer = x}.value;
}

// To the nearest integer (ties to even), toward zero, down, up. What does not fit gives the nearest
// int; NaN gives 0.
int __float2int_rn(float x);
int __float2int_rz(float x);
int __float2int_rd(float x);
int __float2int_ru(float x);
static inline float __int2float_rn(int x) {
    return (float)x;
}
static inline float __uint2float_rn(unsigned x) {
    return (float)x;
}

// Four of the eight bytes x (0 to 3) and y (4 to 7): digit i of the selector, from the lowest one
// on, names byte i of the result.
static inline uint32_t __byte_perm(uint32_t x, uint32_t y, uint32_t selector) {
    const uint64_t bytes = (uint64_t)y << 32 | x;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++) {
        result |= (uint32_t)(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
    }
    return result;
}

// ---- 16-bit floats ------------------------------------------------------------------------------

typedef struct __half {
    uint16_t simt_bits;
} __half;
typedef struct __half2 {
    _Alignas(4) __half x;
    __half y;
} __half2;
typedef struct __nv_bfloat16 {
    uint16_t simt_bits;
} __nv_bfloat16;
typedef struct __nv_bfloat162 {
    _Alignas(4) __nv_bfloat16 x;
    __nv_bfloat16 y;
} __nv_bfloat162;
typedef __half half;
typedef __half2 half2;
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

static inline unsigned short __half_as_ushort(__half x) {
    return x.simt_bits;
}
static inline __half __ushort_as_half(unsigned short bits) {
    return (__half){bits};
}
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) {
    return x.simt_bits;
}
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
    return (__nv_bfloat16){bits};
}

// Rounded to nearest, ties to even; overflow gives infinity; NaN gives 0x7fff.
static inline __half __float2half_rn(float x) {
    return (__half){x == x ? f16_from_f32(x) : (uint16_t)0x7fff};
}
static inline __half __float2half(float x) {
    return __float2half_rn(x);
}
static inline __nv_bfloat16 __float2bfloat16_rn(float x) {
    return (__nv_bfloat16){x == x ? bf16_from_f32(x) : (uint16_t)0x7fff};
}
static inline __nv_bfloat16 __float2bfloat16(float x) {
    return __float2bfloat16_rn(x);
}

// Exact. A NaN of f16 widens to 0x7fffffff; of bf16 to itself, above 16 zero bits.
static inline float __half2float(__half x) {
    return (x.simt_bits & 0x7fff) > 0x7c00 ? simt_bits_float(0x7fffffff)
                                           : f32_from_f16(x.simt_bits);
}
static inline float __bfloat162float(__nv_bfloat16 x) {
    return simt_bits_float((uint32_t)x.simt_bits << 16);
}

// ---- pairs of them: x is the low half of the 32 bits, y the high one ----------------------------

static inline __half2 __halves2half2(__half x, __half y) {
    return (__half2){x, y};
}
static inline __half2 make_half2(__half x, __half y) {
    return __halves2half2(x, y);
}
static inline __half2 __half2half2(__half x) {
    return __halves2half2(x, x);
}
static inline __half2 __floats2half2_rn(float x, float y) {
    return __halves2half2(__float2half_rn(x), __float2half_rn(y));
}
static inline __half2 __float2half2_rn(float x) {
    return __half2half2(__float2half_rn(x));
}
static inline __half2 __float22half2_rn(float2 x) {
    return __floats2half2_rn(x.x, x.y);
}
static inline __half __low2half(__half2 x) {
    return x.x;
}
static inline __half __high2half(__half2 x) {
    return x.y;
}
static inline float2 __half22float2(__half2 x) {
    return make_float2(__half2float(x.x), __half2float(x.y));
}

static inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) {
    return (__nv_bfloat162){x, y};
}
static inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) {
    return __halves2bfloat162(x, y);
}
static inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) {
    return __halves2bfloat162(x, x);
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
    return __halves2bfloat162(__float2bfloat16_rn(x), __float2bfloat16_rn(y));
}
static inline __nv_bfloat162 __float2bfloat162_rn(float x) {
    return __bfloat162bfloat162(__float2bfloat16_rn(x));
}
static inline __nv_bfloat162 __float22bfloat162_rn(float2 x) {
    return __floats2bfloat162_rn(x.x, x.y);
}
static inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 x) {
    return x.x;
}
static inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 x) {
    return x.y;
}
static inline float2 __bfloat1622float2(__nv_bfloat162 x) {
    return make_float2(__bfloat162float(x.x), __bfloat162float(x.y));
}

// CUDA overloads these two for both kinds of pair.
static inline float simt_low_half(__half2 x) {
    return __half2float(x.x);
}
static inline float simt_high_half(__half2 x) {
    return __half2float(x.y);
}
static inline float simt_low_bfloat16(__nv_bfloat162 x) {
    return __bfloat162float(x.x);
}
static inline float simt_high_bfloat16(__nv_bfloat162 x) {
    return __bfloat162float(x.y);
}
#define __low2float(pair)                                                                          \
    _Generic((pair), __half2 : simt_low_half, __nv_bfloat162 : simt_low_bfloat16)(pair)
#define __high2float(pair)                                                                         \
    _Generic((pair), __half2 : simt_high_half, __nv_bfloat162 : simt_high_bfloat16)(pair)

#endif
