// The bounds are what docs/numerics.md says: never exceeded by correct f32 kernels of very
// different design, small enough to show a lost key, zero only where nothing may be rounded.
#include "common/compare.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Tensors of a problem, f32, seeded.
typedef struct Data {
    Tensor q, k, v, o, lse;
} Data;

static Data data_make(const AttnShape *shape, uint64_t seed) {
    Data data;
    ck_assert_int_eq(tensor_alloc_q(&data.q, DTYPE_F32, shape), ATTN_OK);
    ck_assert_int_eq(tensor_alloc_kv(&data.k, DTYPE_F32, shape), ATTN_OK);
    ck_assert_int_eq(tensor_alloc_kv(&data.v, DTYPE_F32, shape), ATTN_OK);
    ck_assert_int_eq(tensor_alloc_q(&data.o, DTYPE_F32, shape), ATTN_OK);
    ck_assert_int_eq(tensor_alloc_lse(&data.lse, shape), ATTN_OK);
    tensor_fill_random(&data.q, 5 * seed, 1);
    tensor_fill_random(&data.k, 5 * seed + 1, 1);
    tensor_fill_random(&data.v, 5 * seed + 2, 1);
    return data;
}

static void data_free(Data *data) {
    tensor_free(&data->q);
    tensor_free(&data->k);
    tensor_free(&data->v);
    tensor_free(&data->o);
    tensor_free(&data->lse);
}

static Expected expect(const AttnShape *shape, const Data *data, DType dtype) {
    Expected expected;
    ck_assert_msg(expected_make(&expected, shape, &data->q, &data->k, &data->v, dtype) == ATTN_OK,
                  "%s", attn_last_error());
    return expected;
}

// ---- the f32 bound ------------------------------------------------------------------------------

// The example of docs/numerics.md: d = 64, 256 keys, every score 8 with all products positive,
// values 0.9 and -0.7 in turn, so that A = 8, O = 0.1 and o_abs = 0.8.
START_TEST(worked_example) {
    AttnShape shape = {1, 1, 1, 1, 256, 64, 0, false, 0, NULL};
    Data data = data_make(&shape, 1);
    for (size_t i = 0; i < data.k.count; i++) {
        tensor_set(&data.k, i, 1);
        tensor_set(&data.v, i, i / 64 % 2 == 0 ? 0.9 : -0.7);
    }
    for (size_t i = 0; i < data.q.count; i++) {
        tensor_set(&data.q, i, 1);
    }
    Expected expected = expect(&shape, &data, DTYPE_F32);
    ck_assert_double_eq_tol(expected.o[0], 0.1, 1e-7);
    ck_assert_double_eq_tol(expected.lse[0], 8 + log(256), 1e-12);
    ck_assert_double_eq_tol(expected.o_bound[0], 1.85e-4, 5e-7);
    ck_assert_double_eq_tol(expected.lse_bound[0], 2.15e-4, 5e-7);
    expected_free(&expected);
    expected = expect(&shape, &data, DTYPE_F16); // LSE stays float32
    ck_assert_double_eq_tol(expected.lse_bound[0], 2.15e-4, 5e-7);
    expected_free(&expected);
    data_free(&data);
}
END_TEST

START_TEST(bound_is_zero_only_for_empty_rows) {
    AttnShape shape = {1, 1, 1, 4, 2, 3, 0, true, 0, NULL};
    Data data = data_make(&shape, 1);
    for (size_t i = 0; i < data.v.count; i++) {
        tensor_set(&data.v, i, 0);
    }
    for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
        Expected expected = expect(&shape, &data, (DType)dtype);
        for (size_t i = 0; i < data.o.count; i++) {
            ck_assert(expected.o[i] == 0);
            ck_assert(i < 6 ? expected.o_bound[i] == 0 : expected.o_bound[i] > 0);
            ck_assert(expected.o_bound[i] < 1e-6);
        }
        for (size_t i = 0; i < data.lse.count; i++) {
            ck_assert(i < 2 ? expected.lse_bound[i] == 0 : expected.lse_bound[i] > 0);
        }
        expected_free(&expected);
    }
    data_free(&data);
}
END_TEST

START_TEST(bound_without_meaning_is_infinite) {
    AttnShape shape = {1, 1, 1, 1, 2, 1, 1, false, 0, NULL};
    Data data = data_make(&shape, 1);
    tensor_set(&data.q, 0, 1e10); // scores that f32 knows to about a thousand
    Expected expected = expect(&shape, &data, DTYPE_F32);
    ck_assert(isinf(expected.o_bound[0]));
    ck_assert(expected.lse_bound[0] > 100);
    expected_free(&expected);
    data_free(&data);
}
END_TEST

// Without one of 512 equal keys the output moves by 1/512 of a value and the LSE by 1/512.
START_TEST(bound_shows_a_lost_key) {
    AttnShape shape = {1, 1, 1, 1, 512, 64, 0, false, 0, NULL};
    Data data = data_make(&shape, 1);
    for (size_t i = 0; i < data.k.count; i++) {
        tensor_set(&data.k, i, 0);
        tensor_set(&data.v, i, i / 64 == 511 ? 1 : -1);
    }
    Expected expected = expect(&shape, &data, DTYPE_F32);
    ck_assert(expected.o_bound[0] < 1.0 / 512);
    ck_assert(expected.lse_bound[0] < 1.0 / 512);
    expected_free(&expected);
    data_free(&data);
}
END_TEST

START_TEST(errors) {
    AttnShape shape = {1, 2, 1, 3, 4, 2, 0, false, 0, NULL}, other = shape;
    Data data = data_make(&shape, 1);
    Expected expected;
    other.len_kv = 5;
    ck_assert_int_eq(expected_make(&expected, &other, &data.q, &data.k, &data.v, DTYPE_F32),
                     ATTN_ERR_SHAPE);
    ck_assert_str_eq(attn_last_error(), "k has 8 elements; its shape has 10");
    ck_assert_ptr_null(expected.o);
    other.heads_kv = 3;
    ck_assert_int_eq(expected_make(&expected, &other, &data.q, &data.k, &data.v, DTYPE_F32),
                     ATTN_ERR_SHAPE);
    ck_assert_ptr_null(expected.o);
    data_free(&data);
}
END_TEST

// ---- correct kernels of other designs -----------------------------------------------------------

typedef enum Design {
    IN_ORDER,    // one key at a time in base e; the sum rescaled when the maximum rises
    BASE_2,      // scale and log2 e folded, exponent by fused multiply-add, keys from the last
    MERGE_CHAIN, // parts of 3 keys, normalised, merged one after the other by their LSE
    MERGE_TREE,  // the same, merged in pairs
    PRESCALED,   // scale times q first; multiplication by 1 / l instead of division
    DESIGNS
} Design;

// Normalised output and LSE of some of a row's keys.
typedef struct Part {
    float o[80], lse;
} Part;

// k, v [count][dim]
static Part part_of(Design design, const float *q, const float *k, const float *v, int64_t count,
                    int64_t dim, float scale) {
    Part part = {{0}, -INFINITY};
    const float log2e = (float)M_LOG2E;
    float m = -INFINITY, l = 0;
    for (int64_t n = 0; n < count; n++) {
        int64_t j = design == BASE_2 ? count - 1 - n : n;
        float dot = 0;
        for (int64_t c = 0; c < dim; c++) {
            dot = design == BASE_2      ? fmaf(q[c], k[j * dim + c], dot)
                  : design == PRESCALED ? dot + scale * q[c] * k[j * dim + c]
                                        : dot + q[c] * k[j * dim + c];
        }
        float s = design == BASE_2 || design == PRESCALED ? dot : scale * dot;
        float m_new = s > m ? s : m, alpha, p;
        if (design == BASE_2) {
            float folded = scale * log2e;
            alpha = exp2f((m - m_new) * folded);
            p = exp2f(fmaf(s, folded, -(m_new * folded)));
        } else {
            alpha = expf(m - m_new);
            p = expf(s - m_new);
        }
        l = alpha * l + p;
        for (int64_t c = 0; c < dim; c++) {
            part.o[c] = alpha * part.o[c] + p * v[j * dim + c];
        }
        m = m_new;
    }
    for (int64_t c = 0; c < dim; c++) {
        part.o[c] = design == PRESCALED ? part.o[c] * (1 / l) : part.o[c] / l;
    }
    part.lse = design == BASE_2 ? (m * scale * log2e + log2f(l)) * (float)M_LN2 : m + logf(l);
    return part;
}

static Part merge(Part a, Part b, int64_t dim) {
    float m = a.lse > b.lse ? a.lse : b.lse;
    float weight_a = expf(a.lse - m), weight_b = expf(b.lse - m), sum = weight_a + weight_b;
    for (int64_t c = 0; c < dim; c++) {
        a.o[c] = (weight_a * a.o[c] + weight_b * b.o[c]) / sum;
    }
    a.lse = m + logf(sum);
    return a;
}

static Part merged(Design design, const float *q, const float *k, const float *v, int64_t count,
                   int64_t dim, float scale) {
    if (count <= 3) {
        return part_of(IN_ORDER, q, k, v, count, dim, scale);
    }
    int64_t first = design == MERGE_TREE ? count / 2 : count - 3;
    Part a = merged(design, q, k, v, first, dim, scale);
    Part b = merged(design, q, k + first * dim, v + first * dim, count - first, dim, scale);
    return merge(a, b, dim);
}

// One head; returns the largest ratio of error to bound.
static double run_design(Design design, const AttnShape *shape, Data *data,
                         const Expected *expected) {
    const float *q = data->q.data, *k = data->k.data, *v = data->v.data;
    float scale = (float)attn_scale(shape);
    int64_t dim = shape->dim;
    for (int64_t i = 0; i < shape->len_q; i++) {
        Part part = design == MERGE_CHAIN || design == MERGE_TREE
                        ? merged(design, q + i * dim, k, v, shape->len_kv, dim, scale)
                        : part_of(design, q + i * dim, k, v, shape->len_kv, dim, scale);
        memcpy((float *)data->o.data + i * dim, part.o, (size_t)dim * sizeof(float));
        ((float *)data->lse.data)[i] = part.lse;
    }
    Comparison o, lse;
    bool passed = compare_output(expected, &data->o, &data->lse, 0, &o, &lse);
    ck_assert_msg(passed, "design %d, S %d: %s %s", (int)design, (int)shape->len_kv, o.message,
                  lse.message);
    return fmax(o.worst_ratio, lse.worst_ratio);
}

// Random keys; queries x30; scores that rise from key to key, so that each moves the maximum.
START_TEST(correct_designs_stay_within_the_bound) {
    static const int64_t keys[] = {1, 2, 3, 33, 257, 1500}, dims[] = {1, 16, 80};
    double largest = 0;
    for (int s = 0; s < 6; s++) {
        for (int d = 0; d < 3; d++) {
            for (int data_kind = 0; data_kind < 3; data_kind++) {
                AttnShape shape = {1, 1, 1, 4, keys[s], dims[d], 0, false, 0, NULL};
                Data data = data_make(&shape, 10 * (uint64_t)s + (uint64_t)d);
                for (size_t i = 0; data_kind == 1 && i < data.q.count; i++) {
                    tensor_set(&data.q, i, 30 * tensor_get(&data.q, i));
                }
                for (size_t i = 0; data_kind == 2 && i < data.k.count; i++) {
                    size_t key = i / (size_t)dims[d];
                    tensor_set(&data.k, i, 10 * (double)key / (double)keys[s]);
                }
                for (size_t i = 0; data_kind == 2 && i < data.q.count; i++) {
                    tensor_set(&data.q, i, fabs(tensor_get(&data.q, i)));
                }
                Expected expected = expect(&shape, &data, DTYPE_F32);
                for (int design = 0; design < DESIGNS; design++) {
                    double ratio = run_design((Design)design, &shape, &data, &expected);
                    largest = fmax(largest, ratio);
                }
                expected_free(&expected);
                data_free(&data);
            }
        }
    }
    ck_assert_msg(largest > 0.01, "the bound is never used to more than %g", largest);
}
END_TEST

// ---- the 16-bit bounds --------------------------------------------------------------------------

// Small exact values in head 0 and values of thousands in head 1: were the plain program's error
// taken over the whole problem, head 1 would excuse anything in head 0.
START_TEST(narrow_bound_is_per_head) {
    AttnShape shape = {1, 2, 2, 8, 33, 16, 0, false, 0, NULL};
    for (int dtype = DTYPE_F16; dtype <= DTYPE_BF16; dtype++) {
        Data data = data_make(&shape, 3);
        for (size_t i = data.v.count / 2; i < data.v.count; i++) {
            tensor_set(&data.v, i, 4096 * tensor_get(&data.v, i));
        }
        tensor_round_to(&data.q, (DType)dtype);
        tensor_round_to(&data.k, (DType)dtype);
        tensor_round_to(&data.v, (DType)dtype);
        Expected expected = expect(&shape, &data, (DType)dtype);
        double u = dtype_unit_roundoff((DType)dtype);
        size_t half = data.o.count / 2;
        for (size_t i = 0; i < half; i++) {
            double unit = 2 * dtype_rounding_error((DType)dtype, expected.o[i]);
            ck_assert(expected.o_bound[i] >= unit && expected.o_bound[i] <= 6 * u + unit);
            ck_assert(expected.o_bound[half + i] > 100 * u);
        }
        expected_free(&expected);
        data_free(&data);
    }
}
END_TEST

// One key: its weight is 1, the plain program is exact, and the bound is one unit of the output.
START_TEST(narrow_bound_of_one_key) {
    AttnShape shape = {1, 1, 1, 1, 1, 1, 0, false, 0, NULL};
    Data data = data_make(&shape, 3);
    tensor_set(&data.v, 0, 1.5);
    Expected expected = expect(&shape, &data, DTYPE_F16);
    ck_assert(expected.o_bound[0] == 0x1p-10);
    expected_free(&expected);
    expected = expect(&shape, &data, DTYPE_BF16);
    ck_assert(expected.o_bound[0] == 0x1p-7);
    expected_free(&expected);
    data_free(&data);
}
END_TEST

// A kernel that works in bf16 fails the f16 bound, in O and, where it sums rounded weights, in LSE.
START_TEST(narrow_bound_rejects_a_narrower_type) {
    AttnShape shape = {1, 1, 1, 16, 65, 16, 0, false, 0, NULL};
    Data data = data_make(&shape, 4);
    tensor_round_to(&data.q, DTYPE_BF16); // f16 numbers as well, at this size
    tensor_round_to(&data.k, DTYPE_BF16);
    tensor_round_to(&data.v, DTYPE_BF16);
    Expected expected = expect(&shape, &data, DTYPE_F16);
    run_design(IN_ORDER, &shape, &data, &expected);
    tensor_round_to(&data.o, DTYPE_F16);
    ck_assert(compare_output(&expected, &data.o, &data.lse, 0, NULL, NULL));
    tensor_round_to(&data.o, DTYPE_BF16);
    for (size_t i = 0; i < data.lse.count; i++) { // weights in bf16 are up to 2^-8 off
        tensor_set(&data.lse, i, expected.lse[i] + 0x1p-11);
    }
    Comparison o, lse;
    compare_output(&expected, &data.o, &data.lse, 0, &o, &lse);
    ck_assert(o.failed > 0 && lse.failed == data.lse.count);
    expected_free(&expected);
    data_free(&data);
}
END_TEST

// ---- a mask of any pattern ----------------------------------------------------------------------

// Hidden keys count for nothing: the answer and the bounds are those of a problem without them. Two
// heads, three rows with the same keys 1, 2, 5 and 6 of 7; values of thousands are among the
// hidden.
START_TEST(hidden_keys_do_not_widen_the_bound) {
    static const int64_t kept[] = {1, 2, 5, 6};
    const AttnShape shape = {1, 2, 2, 3, 7, 4, 0, false, 0, NULL};
    AttnShape small = shape;
    small.len_kv = 4;
    uint8_t visible[3 * 7] = {0};
    Data data = data_make(&shape, 6), few = data_make(&small, 6);
    memcpy(few.q.data, data.q.data, data.q.count * sizeof(float));
    for (size_t h = 0; h < 2; h++) {
        tensor_set(&data.k, h * 28, 100);
        for (size_t j = 0; j < 4; j++) {
            for (size_t c = 0; c < 4; c++) {
                const size_t from = (h * 7 + (size_t)kept[j]) * 4 + c, to = (h * 4 + j) * 4 + c;
                tensor_set(&few.k, to, tensor_get(&data.k, from));
                tensor_set(&few.v, to, tensor_get(&data.v, from));
            }
            for (size_t row = 0; row < 3; row++) {
                visible[row * 7 + (size_t)kept[j]] = 1;
            }
        }
    }
    for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
        Expected wanted = expect(&small, &few, (DType)dtype), got;
        ck_assert_int_eq(
            expected_make_masked(&got, &shape, visible, &data.q, &data.k, &data.v, (DType)dtype),
            ATTN_OK);
        ck_assert_mem_eq(got.o, wanted.o, data.o.count * sizeof(double));
        ck_assert_mem_eq(got.lse, wanted.lse, data.lse.count * sizeof(double));
        ck_assert_mem_eq(got.lse_bound, wanted.lse_bound, data.lse.count * sizeof(double));
        for (size_t i = 0; i < data.o.count; i++) { // underflow counts a head's largest value
            ck_assert_double_eq_tol(got.o_bound[i], wanted.o_bound[i], 1e-30);
        }
        expected_free(&got);
        expected_free(&wanted);
    }
    data_free(&data);
    data_free(&few);
}
END_TEST

// A pattern that is a causal mask is that mask, and one that shows a row nothing leaves exactly 0.
START_TEST(pattern_equals_rule) {
    AttnShape shape = {2, 4, 2, 5, 9, 8, 0, true, 4, NULL};
    uint8_t visible[5 * 9] = {0};
    for (int64_t i = 1; i < 5; i++) { // row 0 sees nothing
        const KeyRange seen = attn_visible_keys(&shape, 0, i);
        memset(visible + i * 9 + seen.begin, 1, (size_t)(seen.end - seen.begin));
    }
    Data data = data_make(&shape, 8);
    Expected wanted = expect(&shape, &data, DTYPE_BF16), got;
    shape.causal = false;
    shape.window = 0;
    ck_assert_int_eq(
        expected_make_masked(&got, &shape, visible, &data.q, &data.k, &data.v, DTYPE_BF16),
        ATTN_OK);
    for (size_t row = 0; row < data.lse.count; row++) {
        if (row % 5 == 0) {
            ck_assert(got.lse[row] == -INFINITY && got.lse_bound[row] == 0);
            ck_assert(got.o[row * 8] == 0 && got.o_bound[row * 8] == 0);
        } else {
            ck_assert(got.lse[row] == wanted.lse[row]);
            ck_assert(got.lse_bound[row] == wanted.lse_bound[row]);
            ck_assert_mem_eq(got.o + row * 8, wanted.o + row * 8, 8 * sizeof(double));
        }
    }
    expected_free(&got);
    expected_free(&wanted);
    data_free(&data);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("bounds");
    TCase *tcase = tcase_create("bounds");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, worked_example);
    tcase_add_test(tcase, bound_is_zero_only_for_empty_rows);
    tcase_add_test(tcase, bound_without_meaning_is_infinite);
    tcase_add_test(tcase, bound_shows_a_lost_key);
    tcase_add_test(tcase, errors);
    tcase_add_test(tcase, correct_designs_stay_within_the_bound);
    tcase_add_test(tcase, narrow_bound_is_per_head);
    tcase_add_test(tcase, narrow_bound_of_one_key);
    tcase_add_test(tcase, narrow_bound_rejects_a_narrower_type);
    tcase_add_test(tcase, hidden_keys_do_not_widen_the_bound);
    tcase_add_test(tcase, pattern_equals_rule);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
