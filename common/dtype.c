// Storage types: f16 and bf16 by integer arithmetic on the bits of the float32, so that every
// compiler and processor gives the same result.
#include "common/dtype.h"

#include <math.h>
#include <string.h>

// What tells one type from another. precision counts the implicit bit; least_exponent is the
// exponent of the spacing of its subnormals.
typedef struct TypeInfo {
    const char *name;
    size_t size;
    int precision;
    int least_exponent;
} TypeInfo;

static const TypeInfo types[] = {
    [DTYPE_F32] = {"f32", 4, 24, -149},
    [DTYPE_F16] = {"f16", 2, 11, -24},
    [DTYPE_BF16] = {"bf16", 2, 8, -133},
    [DTYPE_F64] = {"f64", 8, 53, -1074},
};

size_t dtype_size(DType dtype) {
    return types[dtype].size;
}

const char *dtype_name(DType dtype) {
    return types[dtype].name;
}

bool dtype_parse(const char *name, DType *dtype) {
    for (DType candidate = DTYPE_F32; candidate <= DTYPE_BF16; candidate++) {
        if (strcmp(name, types[candidate].name) == 0) {
            *dtype = candidate;
            return true;
        }
    }
    return false;
}

double dtype_unit_roundoff(DType dtype) {
    return ldexp(1, -types[dtype].precision);
}

double dtype_rounding_error(DType dtype, double x) {
    if (!isfinite(x)) {
        return NAN;
    }
    int exponent = 0; // |x| lies in [2^(exponent - 1), 2^exponent)
    frexp(x, &exponent);
    int spacing = exponent - types[dtype].precision;
    if (x == 0 || spacing < types[dtype].least_exponent) {
        spacing = types[dtype].least_exponent;
    }
    // Half the spacing of float64's subnormals is below float64 itself; the whole spacing stands
    // in.
    return ldexp(1, spacing == -1074 ? spacing : spacing - 1);
}

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// value >> shift, rounded to nearest, ties to even; shift is 1..31.
static uint32_t shift_right_rounded(uint32_t value, uint32_t shift) {
    uint32_t below_half = (UINT32_C(1) << (shift - 1)) - 1;
    uint32_t odd = (value >> shift) & 1;
    return (value + below_half + odd) >> shift;
}

// f16: 1 sign bit, 5 exponent bits (bias 15), 10 fraction bits.
uint16_t f16_from_f32(float x) {
    uint32_t bits = bits_of(x);
    uint32_t sign = (bits >> 16) & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    uint32_t result;
    if (magnitude > 0x7f800000) { // NaN: the upper part of its payload, made quiet
        result = 0x7e00 | ((magnitude >> 13) & 0x3ff);
    } else if (magnitude >= 0x477ff000) { // 65520, half way from the largest f16 to 65536
        result = 0x7c00;
    } else if (magnitude >= 0x38800000) { // 2^-14, the smallest normal f16
        // The exponent's bias goes from 127 to 15; a carry out of the fraction raises it by one.
        result = shift_right_rounded(magnitude - ((uint32_t)(127 - 15) << 23), 13);
    } else if (magnitude > 0x33000000) { // above 2^-25, half the smallest subnormal f16
        // In units of 2^-24, x is significand * 2^(exponent - 150 + 24).
        uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
        result = shift_right_rounded(significand, 126 - (magnitude >> 23));
    } else {
        result = 0;
    }
    return (uint16_t)(sign | result);
}

float f32_from_f16(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    uint32_t exponent = (bits >> 10) & 0x1f;
    uint32_t fraction = bits & 0x3ff;
    if (exponent == 0x1f) {
        uint32_t quiet = fraction != 0 ? 0x400000 : 0;
        return float_of(sign | 0x7f800000 | quiet | fraction << 13);
    }
    if (exponent == 0) { // zero and subnormals: fraction * 2^-24
        return float_of(sign | bits_of((float)fraction * 0x1p-24f));
    }
    return float_of(sign | (exponent + 127 - 15) << 23 | fraction << 13);
}

// bf16: the upper half of a float32.
uint16_t bf16_from_f32(float x) {
    uint32_t bits = bits_of(x);
    if ((bits & 0x7fffffff) > 0x7f800000) { // NaN: rounding could carry it to an infinity
        return (uint16_t)(bits >> 16 | 0x40);
    }
    // Without the sign, which the sum could carry into; a carry into the exponent is right.
    uint32_t sign = (bits >> 16) & 0x8000;
    return (uint16_t)(sign | shift_right_rounded(bits & 0x7fffffff, 16));
}

float f32_from_bf16(uint16_t bits) {
    uint32_t quiet = (bits & 0x7fff) > 0x7f80 ? 0x400000 : 0;
    return float_of((uint32_t)bits << 16 | quiet);
}

float dtype_round(DType dtype, float x) {
    switch (dtype) {
    case DTYPE_F16:
        return f32_from_f16(f16_from_f32(x));
    case DTYPE_BF16:
        return f32_from_bf16(bf16_from_f32(x));
    case DTYPE_F32:
    case DTYPE_F64:
        break;
    }
    return x;
}
