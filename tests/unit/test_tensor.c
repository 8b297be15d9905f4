// Tensors: alignment, guard words, NaN where nothing was written, seeded values, conversion.
#include "common/tensor.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const DType all_types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_F64};
enum { TYPES = 4, GUARD = 64 }; // guard bytes that every tensor has on either side at least

static Tensor alloc4(DType dtype, int64_t d0, int64_t d1, int64_t d2, int64_t d3) {
    Tensor tensor;
    int64_t dims[] = {d0, d1, d2, d3};
    ck_assert_int_eq(tensor_alloc(&tensor, dtype, 4, dims), ATTN_OK);
    return tensor;
}

START_TEST(layout) {
    for (int rank = 1; rank <= TENSOR_MAX_RANK; rank++) {
        int64_t dims[] = {3, 5, 7, 2};
        Tensor tensor;
        ck_assert_int_eq(tensor_alloc(&tensor, all_types[_i], rank, dims), ATTN_OK);
        size_t count = 1;
        for (int i = 0; i < TENSOR_MAX_RANK; i++) {
            ck_assert_int_eq(tensor.dims[i], i < rank ? dims[i] : 1);
            count *= (size_t)tensor.dims[i];
        }
        ck_assert_int_eq(tensor.rank, rank);
        ck_assert_int_eq(tensor.dtype, all_types[_i]);
        ck_assert_uint_eq(tensor.count, count);
        ck_assert_uint_eq((uintptr_t)tensor.data % 64, 0);
        tensor_free(&tensor);
    }
}
END_TEST

START_TEST(starts_as_nan) {
    Tensor tensor = alloc4(all_types[_i], 2, 3, 5, 7);
    for (size_t i = 0; i < tensor.count; i++) {
        ck_assert(isnan(tensor_get(&tensor, i)));
        tensor_set(&tensor, i, 1);
    }
    ck_assert(tensor_guards_intact(&tensor));
    tensor_poison(&tensor);
    for (size_t i = 0; i < tensor.count; i++) {
        ck_assert(isnan(tensor_get(&tensor, i)));
    }
    tensor_free(&tensor);
}
END_TEST

// Each of the 64 bytes before and after the data is watched; renewing the poison forgives.
START_TEST(guards) {
    Tensor tensor = alloc4(all_types[_i], 1, 1, 3, 5);
    unsigned char *data = tensor.data;
    ptrdiff_t bytes = (ptrdiff_t)(tensor.count * dtype_size(tensor.dtype));
    for (ptrdiff_t i = 0; i < GUARD; i++) {
        ptrdiff_t places[2] = {-1 - i, bytes + i};
        for (int p = 0; p < 2; p++) {
            ck_assert(tensor_guards_intact(&tensor));
            data[places[p]] ^= 0x10;
            ck_assert(!tensor_guards_intact(&tensor));
            tensor_poison(&tensor);
        }
    }
    memset(data, 0, (size_t)bytes);
    ck_assert(tensor_guards_intact(&tensor));
    tensor_free(&tensor);
}
END_TEST

START_TEST(empty) {
    Tensor tensor = alloc4(all_types[_i], 2, 0, INT64_MAX, INT64_MAX);
    ck_assert_uint_eq(tensor.count, 0);
    ck_assert_ptr_nonnull(tensor.data);
    ck_assert(tensor_guards_intact(&tensor));
    tensor_fill_random(&tensor, 1, 1);
    ((unsigned char *)tensor.data)[0] ^= 1;
    ck_assert(!tensor_guards_intact(&tensor));
    tensor_free(&tensor);
}
END_TEST

START_TEST(freed) {
    Tensor tensor = alloc4(DTYPE_F32, 1, 2, 3, 4);
    tensor_free(&tensor);
    ck_assert_ptr_null(tensor.block);
    ck_assert_ptr_null(tensor.data);
    ck_assert_int_eq(tensor.rank, 0);
    ck_assert_uint_eq(tensor.count, 0);
    tensor_free(&tensor);
    tensor_poison(&tensor);
    ck_assert(tensor_guards_intact(&tensor));
}
END_TEST

static void assert_alloc_fails(int rank, const int64_t *dims, AttnStatus status,
                               const char *message) {
    Tensor tensor;
    memset(&tensor, 0x5a, sizeof tensor);
    ck_assert_int_eq(tensor_alloc(&tensor, DTYPE_F32, rank, dims), status);
    ck_assert_str_eq(attn_last_error(), message);
    ck_assert_ptr_null(tensor.block);
    ck_assert_ptr_null(tensor.data);
    ck_assert_int_eq(tensor.rank, 0);
    tensor_free(&tensor);
}

START_TEST(alloc_errors) {
    int64_t dims[] = {2, 2, 2, 2, 2};
    assert_alloc_fails(0, dims, ATTN_ERR_SHAPE, "tensor rank 0 is outside 1..4");
    assert_alloc_fails(5, dims, ATTN_ERR_SHAPE, "tensor rank 5 is outside 1..4");
    int64_t negative[] = {2, -3};
    assert_alloc_fails(2, negative, ATTN_ERR_SHAPE, "tensor dimension 1 is -3, which is negative");
    // A zero does not excuse a negative dimension behind it.
    int64_t zero_first[] = {0, -3};
    assert_alloc_fails(2, zero_first, ATTN_ERR_SHAPE,
                       "tensor dimension 1 is -3, which is negative");
    int64_t large[] = {INT64_C(1) << 31, INT64_C(1) << 30};
    assert_alloc_fails(2, large, ATTN_ERR_SHAPE,
                       "tensor (2147483648, 1073741824) has more elements than can be addressed");
    // The product is 2^64, which is 0 in 64 bits.
    int64_t wraps[] = {INT64_C(1) << 32, INT64_C(1) << 32};
    assert_alloc_fails(2, wraps, ATTN_ERR_SHAPE,
                       "tensor (4294967296, 4294967296) has more elements than can be addressed");
}
END_TEST

// AddressSanitizer ends the program when a request is too large, unless told to return null as
// malloc does.
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}

START_TEST(alloc_without_memory) {
    int64_t dims[] = {INT64_C(1) << 52};
    assert_alloc_fails(
        1, dims, ATTN_ERR_MEMORY,
        "no memory for a tensor (4503599627370496,) of f32: 18014398509482496 bytes");
}
END_TEST

START_TEST(shapes_of_a_problem) {
    AttnShape shape = {2, 6, 3, 5, 7, 8, .causal = false};
    Tensor q, kv, lse;
    ck_assert_int_eq(tensor_alloc_q(&q, DTYPE_F16, &shape), ATTN_OK);
    ck_assert_int_eq(tensor_alloc_kv(&kv, DTYPE_BF16, &shape), ATTN_OK);
    ck_assert_int_eq(tensor_alloc_lse(&lse, &shape), ATTN_OK);
    char text[96];
    ck_assert_str_eq(tensor_shape_text(&q, text), "(2, 6, 5, 8)");
    ck_assert_str_eq(tensor_shape_text(&kv, text), "(2, 3, 7, 8)");
    ck_assert_str_eq(tensor_shape_text(&lse, text), "(2, 6, 5)");
    ck_assert_int_eq(q.dtype, DTYPE_F16);
    ck_assert_int_eq(kv.dtype, DTYPE_BF16);
    ck_assert_int_eq(lse.dtype, DTYPE_F32);
    tensor_free(&q);
    tensor_free(&kv);
    tensor_free(&lse);
}
END_TEST

START_TEST(shape_text) {
    Tensor tensor;
    char text[96];
    int64_t dims[] = {192};
    ck_assert_int_eq(tensor_alloc(&tensor, DTYPE_F32, 1, dims), ATTN_OK);
    ck_assert_str_eq(tensor_shape_text(&tensor, text), "(192,)");
    tensor_free(&tensor);
    tensor = (Tensor){.rank = 4, .dims = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX}};
    ck_assert_uint_eq(strlen(tensor_shape_text(&tensor, text)), 4 * 19 + 3 * 2 + 2);
}
END_TEST

START_TEST(index_64bit) {
    int64_t first[] = {8, 28, 4096, 4096};
    ck_assert_uint_eq(tensor_index4(first, 7, 27, 4095, 4095), UINT64_C(3758096383));
    int64_t second[] = {64, 16, 2048, 2048};
    ck_assert_uint_eq(tensor_index4(second, 63, 15, 2047, 2047), UINT64_C(4294967295));
    int64_t beyond[] = {1, 1, INT64_C(1) << 20, INT64_C(1) << 20};
    ck_assert_uint_eq(tensor_index4(beyond, 0, 0, 1 << 19, 3), (UINT64_C(1) << 39) + 3);
    int64_t early[] = {INT64_C(1) << 20, INT64_C(1) << 20, 2, 2};
    ck_assert_uint_eq(tensor_index4(early, 1 << 19, 0, 0, 1), (UINT64_C(1) << 41) + 1);
}
END_TEST

START_TEST(index_is_row_major) {
    int64_t dims[] = {2, 3, 4, 5};
    size_t expected = 0;
    for (int64_t b = 0; b < 2; b++) {
        for (int64_t h = 0; h < 3; h++) {
            for (int64_t t = 0; t < 4; t++) {
                for (int64_t c = 0; c < 5; c++) {
                    ck_assert_uint_eq(tensor_index4(dims, b, h, t, c), expected++);
                }
            }
        }
    }
}
END_TEST

// Mean and standard deviation of one head of a tensor [batch][heads][len][dim].
static void head_moments(const Tensor *tensor, int64_t head, double *mean, double *deviation) {
    size_t count = (size_t)(tensor->dims[2] * tensor->dims[3]);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        double x = tensor_get(tensor, (size_t)head * count + i);
        sum += x;
        squares += x * x;
    }
    *mean = sum / (double)count;
    *deviation = sqrt(squares / (double)count - *mean * *mean);
}

START_TEST(random_moments) {
    const double spread = 3;
    Tensor tensor = alloc4(all_types[_i], 4, 16, 64, 64);
    tensor_fill_random(&tensor, 7, spread);
    double least = INFINITY, most = -INFINITY;
    for (int64_t head = 0; head < 64; head++) {
        double mean, deviation;
        head_moments(&tensor, head, &mean, &deviation);
        // 4096 values: the mean's standard error is 0.016 spread; 5 of them beside the offset.
        ck_assert_double_le(fabs(mean), spread * (0.5 + 0.08));
        ck_assert_double_eq_tol(deviation, spread, spread * 0.06);
        least = fmin(least, mean);
        most = fmax(most, mean);
    }
    // 64 offsets, uniform in [-spread/2, spread/2], come near both ends.
    ck_assert_double_lt(least, -0.35 * spread);
    ck_assert_double_gt(most, 0.35 * spread);
    ck_assert(tensor_guards_intact(&tensor));
    tensor_free(&tensor);
}
END_TEST

// The deviates are normal: as many within one, two and three deviations as there should be.
START_TEST(random_is_normal) {
    int64_t dims[] = {200000};
    Tensor tensor;
    ck_assert_int_eq(tensor_alloc(&tensor, DTYPE_F64, 1, dims), ATTN_OK);
    tensor_fill_random(&tensor, 11, 1);
    double sum = 0;
    for (size_t i = 0; i < tensor.count; i++) {
        sum += tensor_get(&tensor, i);
    }
    double mean = sum / (double)tensor.count;
    for (int k = 1; k <= 3; k++) {
        int within = 0;
        for (size_t i = 0; i < tensor.count; i++) {
            within += fabs(tensor_get(&tensor, i) - mean) < k;
        }
        ck_assert_double_eq_tol(within / (double)tensor.count, erf(k / sqrt(2)), 0.005);
    }
    tensor_free(&tensor);
}
END_TEST

START_TEST(random_heads_differ) {
    for (int rank = 3; rank <= 4; rank++) {
        Tensor tensor;
        int64_t dims[] = {2, 3, 128, 8};
        ck_assert_int_eq(tensor_alloc(&tensor, DTYPE_F32, rank, dims), ATTN_OK);
        tensor_fill_random(&tensor, 5, 1);
        size_t per_head = tensor.count / 6;
        for (size_t head = 1; head < 6; head++) {
            double sum = 0, squares = 0;
            for (size_t i = 0; i < per_head; i++) {
                double first = tensor_get(&tensor, i);
                double other = tensor_get(&tensor, head * per_head + i);
                sum += other - first;
                squares += (other - first) * (other - first);
            }
            // The offsets differ, and so do the deviates: their difference has variance 2.
            double mean = sum / (double)per_head;
            ck_assert_double_gt(fabs(mean), 1e-3);
            ck_assert_double_gt(squares / (double)per_head - mean * mean, 1);
        }
        tensor_free(&tensor);
    }
}
END_TEST

START_TEST(random_is_seeded) {
    Tensor a = alloc4(DTYPE_F32, 1, 2, 16, 8), b = alloc4(DTYPE_F32, 1, 2, 16, 8);
    tensor_fill_random(&a, 42, 1);
    tensor_fill_random(&b, 42, 1);
    ck_assert_mem_eq(a.data, b.data, a.count * sizeof(float));
    // Seeds that differ by one share nothing, at no shift.
    tensor_fill_random(&b, 43, 1);
    for (size_t i = 0; i < a.count; i++) {
        for (size_t j = 0; j < b.count; j++) {
            ck_assert(tensor_get(&a, i) != tensor_get(&b, j));
        }
    }
    // No spread, no values; a double spread doubles every value.
    tensor_fill_random(&b, 42, 2);
    for (size_t i = 0; i < a.count; i++) {
        ck_assert_double_eq(tensor_get(&b, i), 2 * tensor_get(&a, i));
    }
    tensor_fill_random(&b, 42, 0);
    for (size_t i = 0; i < a.count; i++) {
        ck_assert_double_eq(tensor_get(&b, i), 0);
    }
    tensor_free(&a);
    tensor_free(&b);
}
END_TEST

// The 16-bit values are the wide ones, rounded.
START_TEST(random_is_rounded) {
    Tensor wide = alloc4(DTYPE_F64, 2, 2, 32, 8), narrow = alloc4(all_types[_i], 2, 2, 32, 8);
    tensor_fill_random(&wide, 3, 1);
    tensor_fill_random(&narrow, 3, 1);
    for (size_t i = 0; i < wide.count; i++) {
        double x = tensor_get(&wide, i);
        double error = fabs(tensor_get(&narrow, i) - x);
        ck_assert_double_le(error, dtype_rounding_error(narrow.dtype, x));
    }
    tensor_free(&wide);
    tensor_free(&narrow);
}
END_TEST

// Storing a float64 rounds once: just above a tie goes up, though the float32 nearest to it is the
// tie itself, and just below goes down.
START_TEST(set_rounds_once) {
    Tensor tensor = alloc4(DTYPE_F16, 1, 1, 1, 1);
    const double tie = 1 + 0x1p-11, speck = 0x1p-40;
    static const double signs[] = {1, -1};
    for (int s = 0; s < 2; s++) {
        tensor_set(&tensor, 0, signs[s] * tie);
        ck_assert_double_eq(tensor_get(&tensor, 0), signs[s]);
        tensor_set(&tensor, 0, signs[s] * (tie + speck));
        ck_assert_double_eq(tensor_get(&tensor, 0), signs[s] * (1 + 0x1p-10));
        tensor_set(&tensor, 0, signs[s] * (1 + 0x1p-10 + tie - 1 - speck));
        ck_assert_double_eq(tensor_get(&tensor, 0), signs[s] * (1 + 0x1p-10));
    }
    tensor_set(&tensor, 0, 1e300);
    ck_assert_double_eq(tensor_get(&tensor, 0), INFINITY);
    tensor_set(&tensor, 0, -1e-300);
    ck_assert_double_eq(tensor_get(&tensor, 0), 0);
    ck_assert(signbit(tensor_get(&tensor, 0)));
    tensor_set(&tensor, 0, -INFINITY);
    ck_assert_double_eq(tensor_get(&tensor, 0), -INFINITY);
    tensor_free(&tensor);
}
END_TEST

START_TEST(convert) {
    Tensor wide = alloc4(DTYPE_F64, 1, 2, 3, 4), out;
    tensor_fill_random(&wide, 9, 1);
    tensor_set(&wide, 0, NAN);
    tensor_set(&wide, 1, -INFINITY);
    ck_assert_int_eq(tensor_convert(&out, &wide, all_types[_i]), ATTN_OK);
    ck_assert_int_eq(out.dtype, all_types[_i]);
    ck_assert_int_eq(out.rank, 4);
    ck_assert_mem_eq(out.dims, wide.dims, sizeof out.dims);
    ck_assert(isnan(tensor_get(&out, 0)));
    ck_assert_double_eq(tensor_get(&out, 1), -INFINITY);
    for (size_t i = 2; i < out.count; i++) {
        double x = tensor_get(&wide, i);
        ck_assert_double_le(fabs(tensor_get(&out, i) - x), dtype_rounding_error(out.dtype, x));
    }
    tensor_free(&wide);
    tensor_free(&out);
}
END_TEST

START_TEST(round_in_place) {
    Tensor tensor = alloc4(DTYPE_F32, 1, 2, 3, 4), narrow;
    tensor_fill_random(&tensor, 9, 1);
    ck_assert_int_eq(tensor_convert(&narrow, &tensor, DTYPE_BF16), ATTN_OK);
    tensor_round_to(&tensor, DTYPE_BF16);
    ck_assert_int_eq(tensor.dtype, DTYPE_F32);
    for (size_t i = 0; i < tensor.count; i++) {
        ck_assert_double_eq(tensor_get(&tensor, i), tensor_get(&narrow, i));
    }
    tensor_free(&tensor);
    tensor_free(&narrow);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("tensor");
    TCase *memory = tcase_create("memory");
    tcase_set_timeout(memory, 60);
    tcase_add_loop_test(memory, layout, 0, TYPES);
    tcase_add_loop_test(memory, starts_as_nan, 0, TYPES);
    tcase_add_loop_test(memory, guards, 0, TYPES);
    tcase_add_loop_test(memory, empty, 0, TYPES);
    tcase_add_test(memory, freed);
    tcase_add_test(memory, alloc_errors);
    tcase_add_test(memory, alloc_without_memory);
    suite_add_tcase(suite, memory);
    TCase *shapes = tcase_create("shapes");
    tcase_set_timeout(shapes, 60);
    tcase_add_test(shapes, shapes_of_a_problem);
    tcase_add_test(shapes, shape_text);
    tcase_add_test(shapes, index_64bit);
    tcase_add_test(shapes, index_is_row_major);
    suite_add_tcase(suite, shapes);
    TCase *values = tcase_create("values");
    tcase_add_loop_test(values, random_moments, 0, TYPES);
    tcase_add_test(values, random_is_normal);
    tcase_add_test(values, random_heads_differ);
    tcase_add_test(values, random_is_seeded);
    tcase_add_loop_test(values, random_is_rounded, 0, TYPES);
    tcase_add_test(values, set_rounds_once);
    tcase_add_loop_test(values, convert, 0, TYPES);
    tcase_add_test(values, round_in_place);
    tcase_set_timeout(values, 60);
    suite_add_tcase(suite, values);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
