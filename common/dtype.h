// Storage types and their exact conversions. Arithmetic is in f32 or wider everywhere.
#ifndef COMMON_DTYPE_H
#define COMMON_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum DType { DTYPE_F32 = 0, DTYPE_F16, DTYPE_BF16, DTYPE_F64 } DType;

size_t dtype_size(DType dtype);                   // bytes an element: 4, 2, 2, 8
const char *dtype_name(DType dtype);              // "f32", "f16", "bf16", "f64"
bool dtype_parse(const char *name, DType *dtype); // f32, f16 or bf16; false if it is none of them

// Unit roundoff u: the largest relative error of one rounding to this type (2^-24, 2^-11, 2^-8,
// 2^-53), for results in the type's normal range.
double dtype_unit_roundoff(DType dtype);

// Half the spacing of the type's numbers at |x|: the largest error of rounding x to the type,
// subnormals included.
double dtype_rounding_error(DType dtype, double x);

// Conversions round to nearest, ties to even; overflow gives infinity; NaN stays NaN (quiet).
uint16_t f16_from_f32(float x);
float f32_from_f16(uint16_t bits);
uint16_t bf16_from_f32(float x);
float f32_from_bf16(uint16_t bits);

// x rounded to the storage type and widened again.
float dtype_round(DType dtype, float x);

#ifdef __cplusplus
}
#endif

#endif
