// CUDA's small types as C has them: sizes and alignments, every 16-bit pattern, every place where a
// rounding changes, a dense sample of float32 against rounding in exact float64 arithmetic, and the
// same conversions made by kernels on every target, bit for bit.
#include "common/simt/types.h"

#include "tests/unit/simt_places.h"
#include "tests/unit/simt_types_probe.h"

#include <check.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

// ---- layout -------------------------------------------------------------------------------------

#define ASSERT_LAYOUT(type, bytes, alignment)                                                      \
    do {                                                                                           \
        ck_assert_uint_eq(sizeof(type), (bytes));                                                  \
        ck_assert_uint_eq(_Alignof(type), (alignment));                                            \
    } while (0)

// CUDA's programming guide has these in its table of built-in vector types.
START_TEST(layout) {
    ASSERT_LAYOUT(dim3, 12, 4);
    ASSERT_LAYOUT(uint3, 12, 4);
    ASSERT_LAYOUT(float3, 12, 4);
    ASSERT_LAYOUT(int2, 8, 8);
    ASSERT_LAYOUT(int4, 16, 16);
    ASSERT_LAYOUT(uint2, 8, 8);
    ASSERT_LAYOUT(uint4, 16, 16);
    ASSERT_LAYOUT(float2, 8, 8);
    ASSERT_LAYOUT(float4, 16, 16);
    ASSERT_LAYOUT(double2, 16, 16);
    ASSERT_LAYOUT(__half, 2, 2);
    ASSERT_LAYOUT(__half2, 4, 4);
    ASSERT_LAYOUT(__nv_bfloat16, 2, 2);
    ASSERT_LAYOUT(__nv_bfloat162, 4, 4);
}
END_TEST

START_TEST(members_in_order) {
    const float4 f = make_float4(1, 2, 3, 4);
    ck_assert(f.x == 1 && f.y == 2 && f.z == 3 && f.w == 4);
    const uint4 u = make_uint4(1, 2, 3, 4);
    ck_assert(u.x == 1 && u.y == 2 && u.z == 3 && u.w == 4);
    const int4 i = make_int4(-1, 2, -3, 4);
    ck_assert(i.x == -1 && i.y == 2 && i.z == -3 && i.w == 4);
    const float2 f2 = make_float2(1, 2);
    const int2 i2 = make_int2(3, 4);
    const uint2 u2 = make_uint2(5, 6);
    const double2 d2 = make_double2(7, 8);
    ck_assert(f2.x == 1 && f2.y == 2 && i2.x == 3 && i2.y == 4);
    ck_assert(u2.x == 5 && u2.y == 6 && d2.x == 7 && d2.y == 8);
    const float3 f3 = make_float3(1, 2, 3);
    const uint3 u3 = make_uint3(4, 5, 6);
    ck_assert(f3.x == 1 && f3.y == 2 && f3.z == 3 && u3.x == 4 && u3.y == 5 && u3.z == 6);
}
END_TEST

// ---- 16-bit floats on the host ------------------------------------------------------------------

// The two formats, described for the test on its own.
typedef struct Format {
    const char *name;
    uint16_t (*from)(float x);
    float (*to)(uint16_t bits);
    uint16_t infinity;
    int fraction_bits;  // stored ones
    int least_exponent; // of a normal number
    int overflow;       // 2^overflow and above is infinite
} Format;

static uint16_t half_from(float x) {
    return __half_as_ushort(__float2half_rn(x));
}
static float half_to(uint16_t bits) {
    return __half2float(__ushort_as_half(bits));
}
static uint16_t bfloat_from(float x) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
static float bfloat_to(uint16_t bits) {
    return __bfloat162float(__ushort_as_bfloat16(bits));
}

static const Format formats[] = {
    {"f16", half_from, half_to, 0x7c00, 10, -14, 16},
    {"bf16", bfloat_from, bfloat_to, 0x7f80, 7, -126, 128},
};
enum { FORMATS = sizeof formats / sizeof formats[0], PATTERNS = 1 << 16 };

static bool is_nan(const Format *format, uint16_t bits) {
    return (bits & 0x7fff) > format->infinity;
}

// The value of a pattern that is not NaN, from the format's definition.
static double value_of(const Format *format, uint16_t bits) {
    const double sign = bits & 0x8000 ? -1 : 1;
    int exponent = (bits & 0x7fff) >> format->fraction_bits;
    int fraction = bits & ((1 << format->fraction_bits) - 1);
    if ((bits & format->infinity) == format->infinity) {
        return sign * INFINITY;
    }
    if (exponent > 0) {
        fraction += 1 << format->fraction_bits;
    } else {
        exponent = 1;
    }
    return sign * ldexp(fraction, exponent - 1 + format->least_exponent - format->fraction_bits);
}

// x rounded to the format's spacing at x, ties to even; every step is exact in float64.
static double nearest(const Format *format, double x) {
    if (x == 0 || isinf(x)) {
        return x;
    }
    const int exponent = ilogb(x) > format->least_exponent ? ilogb(x) : format->least_exponent;
    const double unit = ldexp(1, exponent - format->fraction_bits);
    const double rounded = nearbyint(x / unit) * unit;
    return fabs(rounded) >= ldexp(1, format->overflow) ? copysign(INFINITY, x) : rounded;
}

// An assertion of Check is too slow to be made millions of times; one is made on a mismatch only.
static void check_rounding(const Format *format, float x) {
    const uint16_t bits = format->from(x);
    if (isnan(x)) {
        if (bits != 0x7fff) {
            ck_abort_msg("%s of NaN %08x is %04x", format->name, simt_float_bits(x), bits);
        }
        return;
    }
    const double got = is_nan(format, bits) ? NAN : value_of(format, bits);
    const double expected = nearest(format, (double)x);
    if (got != expected || signbit(got) != signbit(expected)) {
        ck_abort_msg("%s of %.9g (bits %08x): got %.9g, expected %.9g", format->name, (double)x,
                     simt_float_bits(x), got, expected);
    }
}

// Every pattern has the value that its format says and comes back; NaNs as CUDA has them.
START_TEST(every_pattern) {
    const Format *format = &formats[_i];
    const bool f16 = format == &formats[0];
    for (uint32_t i = 0; i < PATTERNS; i++) {
        const uint16_t bits = (uint16_t)i;
        const float x = format->to(bits);
        if (is_nan(format, bits)) {
            const uint32_t expected = f16 ? 0x7fffffff : i << 16;
            if (simt_float_bits(x) != expected || format->from(x) != 0x7fff) {
                ck_abort_msg("%s NaN %04x widens to %08x", format->name, bits, simt_float_bits(x));
            }
        } else if ((double)x != value_of(format, bits) || format->from(x) != bits) {
            ck_abort_msg("%s %04x is %g, and comes back as %04x", format->name, bits, (double)x,
                         format->from(x));
        }
    }
}
END_TEST

// Each number, the middle between it and the next, and the float32 values beside both.
START_TEST(every_tie) {
    const Format *format = &formats[_i];
    for (uint16_t bits = 0; bits < format->infinity; bits++) {
        const double here = value_of(format, bits);
        const double next = bits + 1 == format->infinity ? ldexp(1, format->overflow)
                                                         : value_of(format, (uint16_t)(bits + 1));
        const float points[2] = {(float)here, (float)((here + next) / 2)};
        for (int p = 0; p < 2; p++) {
            const float around[3] = {points[p], nextafterf(points[p], INFINITY),
                                     nextafterf(points[p], -INFINITY)};
            for (int i = 0; i < 3; i++) {
                check_rounding(format, around[i]);
                check_rounding(format, -around[i]);
            }
        }
    }
}
END_TEST

// 8.4 million float32 patterns: every 509th, so that the low bits vary; then every subnormal's
// upper bits and the ends of the range.
START_TEST(dense_sample) {
    const Format *format = &formats[_i];
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 509) {
        check_rounding(format, simt_bits_float((uint32_t)bits));
    }
    for (uint32_t bits = 0; bits < 0x00800000; bits += 61) {
        check_rounding(format, simt_bits_float(bits));
        check_rounding(format, simt_bits_float(bits | 0x80000000));
    }
}
END_TEST

// A device gives 0x7fff for every NaN: neither sign nor payload is kept.
START_TEST(nan_payloads) {
    static const uint32_t payloads[] = {1, 0xfff, 0x1fff, 0xffff, 0x10000, 0x400000, 0x7fffff};
    for (size_t i = 0; i < sizeof payloads / sizeof payloads[0]; i++) {
        for (uint32_t sign = 0; sign < 2; sign++) {
            const float x = simt_bits_float(sign << 31 | 0x7f800000 | payloads[i]);
            ck_assert_uint_eq(__half_as_ushort(__float2half(x)), 0x7fff);
            ck_assert_uint_eq(__bfloat16_as_ushort(__float2bfloat16(x)), 0x7fff);
        }
    }
}
END_TEST

START_TEST(pairs) {
    const __half2 h = __floats2half2_rn(1.0f, -2.0f);
    ck_assert_uint_eq(__half_as_ushort(h.x), 0x3c00);
    ck_assert_uint_eq(__half_as_ushort(h.y), 0xc000);
    ck_assert_float_eq(__low2float(h), 1.0f);
    ck_assert_float_eq(__high2float(h), -2.0f);
    ck_assert_uint_eq(__half_as_ushort(__low2half(h)), 0x3c00);
    ck_assert_uint_eq(__half_as_ushort(__high2half(h)), 0xc000);
    const float2 wide = __half22float2(__halves2half2(h.y, h.x));
    ck_assert(wide.x == -2.0f && wide.y == 1.0f);
    const float2 twice = __half22float2(__float2half2_rn(3.0f));
    ck_assert(twice.x == 3.0f && twice.y == 3.0f);
    const float2 same = __half22float2(__float22half2_rn(make_float2(5.0f, 6.0f)));
    ck_assert(same.x == 5.0f && same.y == 6.0f);

    const __nv_bfloat162 b = __floats2bfloat162_rn(1.0f, -2.0f);
    ck_assert_uint_eq(__bfloat16_as_ushort(b.x), 0x3f80);
    ck_assert_uint_eq(__bfloat16_as_ushort(b.y), 0xc000);
    ck_assert_float_eq(__low2float(b), 1.0f);
    ck_assert_float_eq(__high2float(b), -2.0f);
    ck_assert_uint_eq(__bfloat16_as_ushort(__low2bfloat16(b)), 0x3f80);
    ck_assert_uint_eq(__bfloat16_as_ushort(__high2bfloat16(b)), 0xc000);
    const float2 wide_b = __bfloat1622float2(__halves2bfloat162(b.y, b.x));
    ck_assert(wide_b.x == -2.0f && wide_b.y == 1.0f);
    const float2 twice_b = __bfloat1622float2(__float2bfloat162_rn(3.0f));
    ck_assert(twice_b.x == 3.0f && twice_b.y == 3.0f);
    const float2 same_b = __bfloat1622float2(__float22bfloat162_rn(make_float2(5.0f, 6.0f)));
    ck_assert(same_b.x == 5.0f && same_b.y == 6.0f);
    // The first of a pair is in the low half of its 32 bits.
    const union {
        __nv_bfloat162 pair;
        uint32_t bits;
    } low_first = {b};
    ck_assert_uint_eq(low_first.bits, 0xc0003f80);
}
END_TEST

// ---- integers -----------------------------------------------------------------------------------

START_TEST(bytes_of_two_words) {
    const uint32_t x = 0x33221100, y = 0x77665544;
    ck_assert_uint_eq(__byte_perm(x, y, 0x3210), x);
    ck_assert_uint_eq(__byte_perm(x, y, 0x7654), y);
    ck_assert_uint_eq(__byte_perm(x, y, 0x5410), 0x55441100); // the low halves
    ck_assert_uint_eq(__byte_perm(x, y, 0x7632), 0x77663322); // the high halves
    ck_assert_uint_eq(__byte_perm(x, y, 0x0123), 0x00112233);
    ck_assert_uint_eq(__byte_perm(x, y, 0x7777), 0x77777777);
}
END_TEST

START_TEST(float_to_int) {
    static const struct {
        float x;
        int nearest, zero, down, up;
    } cases[] = {
        {0.5f, 0, 0, 0, 1},
        {1.5f, 2, 1, 1, 2},
        {2.5f, 2, 2, 2, 3},
        {-0.5f, 0, 0, -1, 0},
        {-1.5f, -2, -1, -2, -1},
        {-2.5f, -2, -2, -3, -2},
        {0x1.fffffep30f, 0x7fffff80, 0x7fffff80, 0x7fffff80, 0x7fffff80},
        {0x1p31f, INT_MAX, INT_MAX, INT_MAX, INT_MAX},
        {-0x1p31f, INT_MIN, INT_MIN, INT_MIN, INT_MIN},
        {-0x1.000002p31f, INT_MIN, INT_MIN, INT_MIN, INT_MIN},
        {INFINITY, INT_MAX, INT_MAX, INT_MAX, INT_MAX},
        {-INFINITY, INT_MIN, INT_MIN, INT_MIN, INT_MIN},
        {NAN, 0, 0, 0, 0},
        {0x1p-149f, 0, 0, 0, 1},
        {8388609.0f, 8388609, 8388609, 8388609, 8388609},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_int_eq(__float2int_rn(cases[i].x), cases[i].nearest);
        ck_assert_int_eq(__float2int_rz(cases[i].x), cases[i].zero);
        ck_assert_int_eq(__float2int_rd(cases[i].x), cases[i].down);
        ck_assert_int_eq(__float2int_ru(cases[i].x), cases[i].up);
    }
    ck_assert_float_eq(__int2float_rn(16777217), 16777216.0f);
    ck_assert_float_eq(__int2float_rn(INT_MIN), -0x1p31f);
    ck_assert_float_eq(__uint2float_rn(UINT_MAX), 0x1p32f);
    ck_assert_int_eq(__float_as_int(-0.0f), INT_MIN);
    ck_assert_float_eq(__int_as_float(0x3f800000), 1.0f);
    ck_assert_uint_eq(simt_float_bits(1.0f), 0x3f800000);
}
END_TEST

// ---- kernels on every target --------------------------------------------------------------------

static void *host_array(size_t count, size_t element) {
    void *memory = calloc(count, element);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

static void check_same(const char *what, const uint32_t *got, const uint32_t *expected) {
    for (uint32_t i = 0; i < PATTERNS; i++) {
        if (got[i] != expected[i]) {
            ck_abort_msg("%s %04x widens to %08x, not %08x", what, i, got[i], expected[i]);
        }
    }
}

START_TEST(kernels_widen) {
    static AttnStatus (*const probe[])(const WidenProbeParams *, GpuStream) =
        GPU_BUILDS(simt_widen_probe);
    static const char *const names[4] = {"f16", "f16 of a pair", "bf16", "bf16 of a pair"};
    if (!simt_test_begin(_i)) {
        return;
    }
    const GpuTarget target = simt_test_places[_i].target;
    uint16_t *patterns = host_array(PATTERNS, sizeof *patterns);
    uint32_t *expected[2], *got = host_array(PATTERNS, sizeof *got);
    for (int format = 0; format < FORMATS; format++) {
        expected[format] = host_array(PATTERNS, sizeof(uint32_t));
    }
    for (uint32_t i = 0; i < PATTERNS; i++) {
        patterns[i] = (uint16_t)i;
        expected[0][i] = simt_float_bits(half_to(patterns[i]));
        expected[1][i] = simt_float_bits(bfloat_to(patterns[i]));
    }
    uint16_t *in = simt_test_array(target, "patterns", PATTERNS, sizeof *in, patterns);
    uint32_t *out[4];
    for (int i = 0; i < 4; i++) {
        out[i] = simt_test_array(target, names[i], PATTERNS, sizeof(uint32_t), NULL);
    }
    const WidenProbeParams params = {.patterns = in,
                                     .f16 = out[0],
                                     .bf16 = out[2],
                                     .pairs_f16 = out[1],
                                     .pairs_bf16 = out[3],
                                     .n = PATTERNS};
    ck_assert_msg(probe[target](&params, NULL) == ATTN_OK, "%s", attn_last_error());
    for (int i = 0; i < 4; i++) {
        simt_test_download(target, got, out[i], PATTERNS * sizeof *got);
        check_same(names[i], got, expected[i / 2]);
        gpu_free(target, out[i]);
    }
    gpu_free(target, in);
    free(expected[0]);
    free(expected[1]);
    free(got);
    free(patterns);
}
END_TEST

// Around each number of both formats and each tie between them; then every `step`th pattern.
static int sample_floats(uint32_t *floats, int most, uint64_t step) {
    int n = 0;
    for (int f = 0; f < FORMATS; f++) {
        for (uint32_t bits = 0; bits < formats[f].infinity; bits += 7) {
            const uint32_t here = simt_float_bits(formats[f].to((uint16_t)bits));
            const uint32_t next = simt_float_bits(formats[f].to((uint16_t)(bits + 1)));
            const uint32_t tie = here + (next - here) / 2;
            const uint32_t points[] = {here, tie - 1, tie, tie + 1, tie | 0x80000000};
            for (size_t i = 0; i < sizeof points / sizeof points[0] && n < most; i++) {
                floats[n++] = points[i];
            }
        }
    }
    for (uint64_t bits = 0; bits <= UINT32_MAX && n < most; bits += step) {
        floats[n++] = (uint32_t)bits;
    }
    return n;
}

static Narrowed narrowed(uint32_t bits, uint32_t other) {
    const float x = simt_bits_float(bits), y = simt_bits_float(other);
    return (Narrowed){
        .f16 = half_from(x),
        .bf16 = bfloat_from(x),
        .pair_f16 = half_from(x) | (uint32_t)half_from(y) << 16,
        .pair_bf16 = bfloat_from(x) | (uint32_t)bfloat_from(y) << 16,
        .nearest = __float2int_rn(x),
        .zero = __float2int_rz(x),
        .down = __float2int_rd(x),
        .up = __float2int_ru(x),
        .bytes = {__byte_perm(bits, other, NARROWED_BYTES_0),
                  __byte_perm(bits, other, NARROWED_BYTES_1)},
    };
}

static bool same(const Narrowed *a, const Narrowed *b) {
    return a->f16 == b->f16 && a->bf16 == b->bf16 && a->pair_f16 == b->pair_f16 &&
           a->pair_bf16 == b->pair_bf16 && a->nearest == b->nearest && a->zero == b->zero &&
           a->down == b->down && a->up == b->up && a->bytes[0] == b->bytes[0] &&
           a->bytes[1] == b->bytes[1];
}

START_TEST(kernels_narrow) {
    static AttnStatus (*const probe[])(const NarrowProbeParams *, GpuStream) =
        GPU_BUILDS(simt_narrow_probe);
    if (!simt_test_begin(_i)) {
        return;
    }
    const GpuTarget target = simt_test_places[_i].target;
    const bool device = target == GPU_CUDA; // takes every 509th pattern, the others fewer
    const int most = device ? 9000000 : 200000;
    uint32_t *floats = host_array((size_t)most, sizeof *floats);
    const int n = sample_floats(floats, most, device ? 509 : 38821);
    Narrowed *results = host_array((size_t)n, sizeof *results);
    uint32_t *in = simt_test_array(target, "floats", (size_t)n, sizeof *in, floats);
    Narrowed *out = simt_test_array(target, "results", (size_t)n, sizeof *out, NULL);
    const NarrowProbeParams params = {in, out, n};
    ck_assert_msg(probe[target](&params, NULL) == ATTN_OK, "%s", attn_last_error());
    simt_test_download(target, results, out, (size_t)n * sizeof *out);
    for (int i = 0; i < n; i++) {
        const Narrowed expected = narrowed(floats[i], floats[n - 1 - i]);
        const Narrowed *got = &results[i];
        if (!same(got, &expected)) {
            ck_abort_msg("%08x (with %08x) gives f16 %04x bf16 %04x pairs %08x %08x, integers %d "
                         "%d %d %d; expected %04x %04x, %08x %08x, %d %d %d %d",
                         floats[i], floats[n - 1 - i], got->f16, got->bf16, got->pair_f16,
                         got->pair_bf16, got->nearest, got->zero, got->down, got->up, expected.f16,
                         expected.bf16, expected.pair_f16, expected.pair_bf16, expected.nearest,
                         expected.zero, expected.down, expected.up);
        }
    }
    gpu_free(target, in);
    gpu_free(target, out);
    free(results);
    free(floats);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("simt types");
    TCase *host = tcase_create("host");
    tcase_add_test(host, layout);
    tcase_add_test(host, members_in_order);
    tcase_add_loop_test(host, every_pattern, 0, FORMATS);
    tcase_add_loop_test(host, every_tie, 0, FORMATS);
    tcase_add_loop_test(host, dense_sample, 0, FORMATS);
    tcase_add_test(host, nan_payloads);
    tcase_add_test(host, pairs);
    tcase_add_test(host, bytes_of_two_words);
    tcase_add_test(host, float_to_int);
    tcase_set_timeout(host, 60);
    suite_add_tcase(suite, host);
    TCase *kernels = tcase_create("kernels");
    tcase_add_loop_test(kernels, kernels_widen, 0, SIMT_TEST_PLACES);
    tcase_add_loop_test(kernels, kernels_narrow, 0, SIMT_TEST_PLACES);
    tcase_set_timeout(kernels, 60);
    suite_add_tcase(suite, kernels);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
