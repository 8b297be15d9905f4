// Conversions from float to int as a device does them: CUDA defines the results that C leaves
// undefined.
#include "common/simt/types.h"

#include <limits.h>
#include <math.h>

// x is an integer, an infinity or NaN.
static int saturated(float x) {
    if (x >= 0x1p31f) {
        return INT_MAX;
    }
    if (x < -0x1p31f) {
        return INT_MIN;
    }
    return isnan(x) ? 0 : (int)x;
}

int __float2int_rn(float x) {
    // rintf follows the rounding mode, which the course leaves at to nearest, ties to even.
    return saturated(rintf(x));
}

int __float2int_rz(float x) {
    return saturated(truncf(x));
}

int __float2int_rd(float x) {
    return saturated(floorf(x));
}

int __float2int_ru(float x) {
    return saturated(ceilf(x));
}
