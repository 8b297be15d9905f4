// Storage types: every 16-bit pattern, every rounding decision, and a dense sample of float32,
// against rounding done in exact float64 arithmetic.
#include "common/dtype.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// The two 16-bit formats, described for the test on its own.
typedef struct Format {
    DType dtype;
    uint16_t (*from)(float x);
    float (*to)(uint16_t bits);
    uint16_t infinity;  // its pattern: all exponent bits set
    int fraction_bits;  // stored ones
    int least_exponent; // of a normal number
    int overflow;       // 2^overflow and above is infinite
} Format;

static const Format formats[] = {
    {DTYPE_F16, f16_from_f32, f32_from_f16, 0x7c00, 10, -14, 16},
    {DTYPE_BF16, bf16_from_f32, f32_from_bf16, 0x7f80, 7, -126, 128},
};

// The value of a pattern, from the format's definition.
static double value_of(const Format *format, uint16_t bits) {
    int exponent = (bits & 0x7fff) >> format->fraction_bits;
    int fraction = bits & ((1 << format->fraction_bits) - 1);
    double sign = bits & 0x8000 ? -1 : 1;
    if ((bits & format->infinity) == format->infinity) {
        return fraction == 0 ? sign * INFINITY : NAN;
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
    if (x == 0 || !isfinite(x)) {
        return x;
    }
    int exponent = ilogb(x) > format->least_exponent ? ilogb(x) : format->least_exponent;
    double unit = ldexp(1, exponent - format->fraction_bits);
    double rounded = nearbyint(x / unit) * unit;
    return fabs(rounded) >= ldexp(1, format->overflow) ? copysign(INFINITY, x) : rounded;
}

// Converts x and compares value and sign with `nearest`. Check's assertions are too slow to be made
// millions of times; one is made on a mismatch only.
static void check_rounding(const Format *format, float x) {
    double got = (double)format->to(format->from(x));
    double expected = nearest(format, (double)x);
    bool same = isnan(x) ? isnan(got) != 0 : got == expected && !signbit(got) == !signbit(expected);
    if (!same) {
        ck_abort_msg("%s of %.9g (bits %08x): got %.9g, expected %.9g", dtype_name(format->dtype),
                     (double)x, bits_of(x), got, expected);
    }
}

START_TEST(names_and_sizes) {
    static const DType all[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_F64};
    static const char *const names[] = {"f32", "f16", "bf16", "f64"};
    static const size_t sizes[] = {4, 2, 2, 8};
    static const int precisions[] = {24, 11, 8, 53};
    for (int i = 0; i < 4; i++) {
        ck_assert_str_eq(dtype_name(all[i]), names[i]);
        ck_assert_uint_eq(dtype_size(all[i]), sizes[i]);
        ck_assert_double_eq(dtype_unit_roundoff(all[i]), ldexp(1, -precisions[i]));
        DType parsed = DTYPE_F64;
        ck_assert(dtype_parse(names[i], &parsed) == (all[i] != DTYPE_F64));
        ck_assert_int_eq(parsed, all[i]);
    }
    static const char *const bad[] = {"", "f", "f3", "f322", "F32", " f32", "float", "fp16", "f64"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        DType parsed = DTYPE_BF16;
        ck_assert(!dtype_parse(bad[i], &parsed));
        ck_assert_int_eq(parsed, DTYPE_BF16);
    }
}
END_TEST

// All 65,536 patterns have the right value and come back; a NaN comes back as a quiet one.
START_TEST(round_trip) {
    const Format *format = &formats[_i];
    uint16_t quiet_bit = (uint16_t)(1 << (format->fraction_bits - 1));
    for (uint32_t i = 0; i <= 0xffff; i++) {
        uint16_t bits = (uint16_t)i;
        float x = format->to(bits);
        bool nan = (bits & 0x7fff) > format->infinity;
        uint16_t expected = nan ? bits | quiet_bit : bits;
        if (format->from(x) != expected) {
            ck_abort_msg("pattern %04x becomes %04x", bits, format->from(x));
        }
        double value = value_of(format, bits);
        if (nan ? !isnan(x) || (bits_of(x) & 0x400000) == 0 : (double)x != value) {
            ck_abort_msg("pattern %04x is %g, not %g", bits, (double)x, value);
        }
    }
}
END_TEST

// Every place where the result changes: each number, the middle between it and the next, and the
// float32 values on either side of both.
START_TEST(decision_points) {
    const Format *format = &formats[_i];
    for (uint16_t bits = 0; bits < format->infinity; bits++) {
        double here = value_of(format, bits);
        double next = value_of(format, (uint16_t)(bits + 1));
        if (!isfinite(next)) {
            next = ldexp(1, format->overflow);
        }
        float points[2] = {(float)here, (float)((here + next) / 2)};
        ck_assert_double_eq((double)points[1], (here + next) / 2);
        for (int p = 0; p < 2; p++) {
            check_rounding(format, points[p]);
            check_rounding(format, -points[p]);
            check_rounding(format, nextafterf(points[p], INFINITY));
            check_rounding(format, nextafterf(points[p], -INFINITY));
            check_rounding(format, -nextafterf(points[p], INFINITY));
        }
    }
}
END_TEST

// Every 1,999th of all float32 patterns, NaNs, infinities and subnormals among them.
START_TEST(dense_sample) {
    const Format *format = &formats[_i];
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 1999) {
        check_rounding(format, float_of((uint32_t)bits));
    }
}
END_TEST

START_TEST(known_f16) {
    static const struct {
        float x;
        uint16_t bits;
    } cases[] = {
        {0.0f, 0x0000},       {-0.0f, 0x8000},        {1.0f, 0x3c00},
        {-2.0f, 0xc000},      {65504.0f, 0x7bff},     {65519.996f, 0x7bff},
        {65520.0f, 0x7c00},   {-1e30f, 0xfc00},       {INFINITY, 0x7c00},
        {2049.0f, 0x6800},    {2051.0f, 0x6802},      {0x1p-14f, 0x0400},
        {0x1p-24f, 0x0001},   {0x1p-25f, 0x0000},     {0x1.000002p-25f, 0x0001},
        {0x1.8p-24f, 0x0002}, {0x1.ffcp-15f, 0x0400}, {0x1p-149f, 0x0000},
        {-0x1p-149f, 0x8000}, {0x1.ffbp-15f, 0x03ff}, {0x1.554p-2f, 0x3555},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_uint_eq(f16_from_f32(cases[i].x), cases[i].bits);
    }
}
END_TEST

START_TEST(known_bf16) {
    static const struct {
        float x;
        uint16_t bits;
    } cases[] = {
        {0.0f, 0x0000},        {-0.0f, 0x8000},        {1.0f, 0x3f80},
        {257.0f, 0x4380},      {259.0f, 0x4382},       {0x1.fep127f, 0x7f7f},
        {0x1.ffp127f, 0x7f80}, {-0x1.ffp127f, 0xff80}, {0x1.fefffep127f, 0x7f7f},
        {0x1p-133f, 0x0001},   {0x1p-134f, 0x0000},    {0x1.8p-133f, 0x0002},
        {INFINITY, 0x7f80},    {-INFINITY, 0xff80},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_uint_eq(bf16_from_f32(cases[i].x), cases[i].bits);
    }
}
END_TEST

// NaN stays NaN whatever its payload: the lowest bits alone, all of them, either sign.
START_TEST(nan_payloads) {
    const Format *format = &formats[_i];
    static const uint32_t payloads[] = {1, 0xfff, 0x1000, 0xffff, 0x10000, 0x400000, 0x7fffff};
    for (size_t i = 0; i < sizeof payloads / sizeof payloads[0]; i++) {
        for (uint32_t sign = 0; sign < 2; sign++) {
            float x = float_of(sign << 31 | 0x7f800000 | payloads[i]);
            uint16_t bits = format->from(x);
            ck_assert_uint_gt(bits & 0x7fff, format->infinity);
            ck_assert_uint_eq(bits >> 15, sign);
            ck_assert(isnan(dtype_round(format->dtype, x)));
        }
    }
}
END_TEST

START_TEST(round_to_type) {
    ck_assert_float_eq(dtype_round(DTYPE_F32, 0x1.fffffep0f), 0x1.fffffep0f);
    ck_assert_float_eq(dtype_round(DTYPE_F64, 0x1.fffffep0f), 0x1.fffffep0f);
    ck_assert_float_eq(dtype_round(DTYPE_F16, 0x1.fffffep0f), 2.0f);
    ck_assert_float_eq(dtype_round(DTYPE_BF16, 1.00390625f), 1.0f);
    ck_assert_float_eq(dtype_round(DTYPE_BF16, 1.01171875f), 1.015625f);
}
END_TEST

// Half the spacing, exactly: no rounding exceeds it, and the middle between neighbours reaches it.
START_TEST(rounding_error) {
    const Format *format = &formats[_i];
    for (uint16_t bits = 0; bits + 1 < format->infinity; bits++) {
        double here = value_of(format, bits);
        double gap = value_of(format, (uint16_t)(bits + 1)) - here;
        for (int quarter = 0; quarter < 4; quarter++) {
            double x = here + gap * quarter / 4;
            double error = fabs((double)dtype_round(format->dtype, (float)x) - x);
            double allowed = dtype_rounding_error(format->dtype, -x);
            if (allowed != gap / 2 || !(error <= allowed) || (quarter == 2 && error != allowed)) {
                ck_abort_msg("at %g: error %g, allowed %g, gap %g", x, error, allowed, gap);
            }
        }
    }
}
END_TEST

START_TEST(rounding_error_of_wide_types) {
    ck_assert_double_eq(dtype_rounding_error(DTYPE_F32, 1), 0x1p-24);
    ck_assert_double_eq(dtype_rounding_error(DTYPE_F32, 1 - 0x1p-30), 0x1p-25);
    ck_assert_double_eq(dtype_rounding_error(DTYPE_F32, 0), 0x1p-150);
    ck_assert_double_eq(dtype_rounding_error(DTYPE_F32, 1e-44), 0x1p-150);
    ck_assert_double_eq(dtype_rounding_error(DTYPE_F64, 3), 0x1p-52);
    ck_assert_double_gt(dtype_rounding_error(DTYPE_F64, 0), 0);
    ck_assert(isnan(dtype_rounding_error(DTYPE_F16, INFINITY)));
    ck_assert(isnan(dtype_rounding_error(DTYPE_F32, NAN)));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("dtype");
    TCase *patterns = tcase_create("patterns");
    int count = sizeof formats / sizeof formats[0];
    tcase_add_test(patterns, names_and_sizes);
    tcase_add_loop_test(patterns, round_trip, 0, count);
    tcase_add_loop_test(patterns, decision_points, 0, count);
    tcase_add_loop_test(patterns, dense_sample, 0, count);
    tcase_add_test(patterns, known_f16);
    tcase_add_test(patterns, known_bf16);
    tcase_add_loop_test(patterns, nan_payloads, 0, count);
    tcase_add_test(patterns, round_to_type);
    tcase_add_loop_test(patterns, rounding_error, 0, count);
    tcase_add_test(patterns, rounding_error_of_wide_types);
    tcase_set_timeout(patterns, 60);
    suite_add_tcase(suite, patterns);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
