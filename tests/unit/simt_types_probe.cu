// The conversions of common/simt/types.h as kernels, for every target.
#include "common/simt/simt.h"
#include "tests/unit/simt_types_probe.h"

enum { BLOCK = 256 };

__global__ void __launch_bounds__(BLOCK) widen_kernel(const __grid_constant__ WidenProbeParams p) {
    const uint16_t *restrict patterns = p.patterns; // [n]
    uint32_t *restrict f16 = p.f16;                 // [n]
    uint32_t *restrict bf16 = p.bf16;               // [n]
    uint32_t *restrict pairs_f16 = p.pairs_f16;     // [n]
    uint32_t *restrict pairs_bf16 = p.pairs_bf16;   // [n]
    const int i = 2 * (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= p.n) {
        return;
    }
    const __half half_low = __ushort_as_half(patterns[i]);
    const __half half_high = __ushort_as_half(patterns[i + 1]);
    f16[i] = __float_as_uint(__half2float(half_low));
    f16[i + 1] = __float_as_uint(__half2float(half_high));
    const float2 halves = __half22float2(__halves2half2(half_low, half_high));
    pairs_f16[i] = __float_as_uint(halves.x);
    pairs_f16[i + 1] = __float_as_uint(halves.y);

    const __nv_bfloat16 low = __ushort_as_bfloat16(patterns[i]);
    const __nv_bfloat16 high = __ushort_as_bfloat16(patterns[i + 1]);
    bf16[i] = __float_as_uint(__bfloat162float(low));
    bf16[i + 1] = __float_as_uint(__bfloat162float(high));
    const __nv_bfloat162 pair = __halves2bfloat162(low, high);
    pairs_bf16[i] = __float_as_uint(__low2float(pair));
    pairs_bf16[i + 1] = __float_as_uint(__high2float(pair));
}
SIMT_KERNEL(widen_kernel, WidenProbeParams, BLOCK);

AttnStatus ENTRY(simt_widen_probe)(const WidenProbeParams *params, GpuStream stream) {
    const WidenProbeParams p = *params;
    const dim3 grid = {(unsigned)(p.n / 2 + BLOCK - 1) / BLOCK, 1, 1}, block = {BLOCK, 1, 1};
    return LAUNCH(widen_kernel, grid, block, 0, stream, p);
}

__global__ void __launch_bounds__(BLOCK)
    narrow_kernel(const __grid_constant__ NarrowProbeParams p) {
    const uint32_t *restrict floats = p.floats; // [n]
    Narrowed *restrict results = p.results;     // [n]
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= p.n) {
        return;
    }
    const float x = __uint_as_float(floats[i]);
    const float y = __uint_as_float(floats[p.n - 1 - i]);
    const __half2 half_pair = __floats2half2_rn(x, y);
    const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
    Narrowed result;
    result.f16 = __half_as_ushort(__float2half_rn(x));
    result.bf16 = __bfloat16_as_ushort(__float2bfloat16_rn(x));
    result.pair_f16 = __half_as_ushort(__low2half(half_pair)) |
                      (uint32_t)__half_as_ushort(__high2half(half_pair)) << 16;
    result.pair_bf16 = __bfloat16_as_ushort(__low2bfloat16(pair)) |
                       (uint32_t)__bfloat16_as_ushort(__high2bfloat16(pair)) << 16;
    result.nearest = __float2int_rn(x);
    result.zero = __float2int_rz(x);
    result.down = __float2int_rd(x);
    result.up = __float2int_ru(x);
    result.bytes[0] = __byte_perm(floats[i], floats[p.n - 1 - i], NARROWED_BYTES_0);
    result.bytes[1] = __byte_perm(floats[i], floats[p.n - 1 - i], NARROWED_BYTES_1);
    results[i] = result;
}
SIMT_KERNEL(narrow_kernel, NarrowProbeParams, BLOCK);

AttnStatus ENTRY(simt_narrow_probe)(const NarrowProbeParams *params, GpuStream stream) {
    const NarrowProbeParams p = *params;
    const dim3 grid = {(unsigned)(p.n + BLOCK - 1) / BLOCK, 1, 1}, block = {BLOCK, 1, 1};
    return LAUNCH(narrow_kernel, grid, block, 0, stream, p);
}
