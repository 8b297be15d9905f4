// The oracle against the golden tensors (PyTorch, float64), against closed forms, against the mask
// rules of common/attn.h, and its gradients against finite differences of its own output.
#include "common/compare.h"
#include "common/npy.h"
#include "common/reference.h"

#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *zeroed(size_t count, size_t size) {
    void *memory = calloc(count + 1, size);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

static AttnShape one_head(int64_t len_q, int64_t len_kv) {
    return (AttnShape){1, 1, 1, len_q, len_kv, 1, 1, false, 0, NULL};
}

static void check_close(const char *name, const double *got, const double *want, size_t count,
                        double tolerance) {
    for (size_t i = 0; i < count; i++) {
        if (got[i] != want[i] && !(fabs(got[i] - want[i]) <= tolerance)) {
            ck_abort_msg("%s[%zu] is %.17g, expected %.17g, tolerance %.3g", name, i, got[i],
                         want[i], tolerance);
        }
    }
}

// ---- golden tensors -----------------------------------------------------------------------------

enum { Q, K, V, D_O, O, LSE, D_Q, D_K, D_V, TENSORS };
static const char *const file_names[TENSORS] = {"q", "k", "v", "do", "o", "lse", "dq", "dk", "dv"};

// O and LSE: the bounds of docs/numerics.md are proportional to the unit roundoff, so those of two
// float64 programs are 2^-29 of the f32 ones each.
static void check_golden_forward(const AttnShape *shape, const char *name, Tensor *t) {
    Expected expected;
    ck_assert_int_eq(expected_make(&expected, shape, &t[Q], &t[K], &t[V], DTYPE_F32), ATTN_OK);
    for (size_t i = 0; i < t[O].count; i++) {
        expected.o_bound[i] *= 2 * 0x1p-29;
    }
    for (size_t i = 0; i < t[LSE].count; i++) {
        expected.lse_bound[i] *= 2 * 0x1p-29;
    }
    Comparison o, lse;
    bool passed = compare_output(&expected, &t[O], &t[LSE], 0, &o, &lse);
    ck_assert_msg(passed, "%s: %s %s", name, o.message, lse.message);
    expected_free(&expected);
}

// Gradients: each element is a sum of products whose relative errors are some hundreds of float64
// roundings (1e-16) and, through exp, the score's size times that; 1e-12 of the largest element of
// the tensor leaves room for scores of 100 and is ten orders of magnitude below the gradients.
static void check_golden_backward(const AttnShape *shape, const char *name, Tensor *t) {
    double *got[] = {zeroed(t[Q].count, 8), zeroed(t[K].count, 8), zeroed(t[K].count, 8)};
    ck_assert_int_eq(reference_backward(shape, t[Q].data, t[K].data, t[V].data, t[D_O].data, got[0],
                                        got[1], got[2]),
                     ATTN_OK);
    for (int g = 0; g < 3; g++) {
        const Tensor *golden = &t[D_Q + g];
        const double *want = golden->data;
        double largest = 0;
        for (size_t i = 0; i < golden->count; i++) {
            largest = fmax(largest, fabs(want[i]));
        }
        char label[80];
        snprintf(label, sizeof label, "%s %s", name, file_names[D_Q + g]);
        ck_assert_msg(largest > 1e-3, "%s: largest element %g", label, largest);
        check_close(label, got[g], want, golden->count, 1e-12 * largest);
        free(got[g]);
    }
}

START_TEST(golden) {
    FILE *index = fopen("tests/golden/index.csv", "r");
    ck_assert_ptr_nonnull(index);
    char line[256], name[48], path[128];
    int cases = 0;
    while (fgets(line, sizeof line, index) != NULL) {
        AttnShape shape = {0};
        int causal;
        if (sscanf(line,
                   "%47[^,],%" SCNd64 ",%" SCNd64 ",%" SCNd64 ",%" SCNd64 ",%" SCNd64 ",%" SCNd64
                   ",%d,%" SCNd64 ",%lf",
                   name, &shape.batch, &shape.heads_q, &shape.heads_kv, &shape.len_q, &shape.len_kv,
                   &shape.dim, &causal, &shape.window, &shape.scale) != 10) {
            continue; // the heading
        }
        shape.causal = causal != 0;
        Tensor tensors[TENSORS];
        for (int t = 0; t < TENSORS; t++) {
            snprintf(path, sizeof path, "tests/golden/%s/%s.npy", name, file_names[t]);
            ck_assert_msg(npy_read(path, &tensors[t]) == ATTN_OK, "%s", attn_last_error());
            ck_assert_int_eq(tensors[t].dtype, t < O ? DTYPE_F32 : DTYPE_F64);
        }
        ck_assert_uint_eq(tensors[D_O].count, attn_count_q(&shape));
        ck_assert_uint_eq(tensors[LSE].count, attn_count_lse(&shape));
        check_golden_forward(&shape, name, tensors);
        check_golden_backward(&shape, name, tensors);
        for (int t = 0; t < TENSORS; t++) {
            tensor_free(&tensors[t]);
        }
        cases++;
    }
    fclose(index);
    ck_assert_int_ge(cases, 12);
}
END_TEST

// ---- closed forms, forward ----------------------------------------------------------------------

// One head of dim 1, queries 1, scale 1.
static void check_forward(const AttnShape *shape, const float *k, const float *v, const double *o,
                          const double *lse) {
    float q[16];
    double got_o[16], got_lse[16];
    for (int i = 0; i < 16; i++) {
        q[i] = 1;
    }
    size_t rows = attn_count_lse(shape);
    ReferenceForward out = {.o = got_o, .lse = got_lse};
    ck_assert_int_eq(reference_forward(shape, q, k, v, &out), ATTN_OK);
    check_close("o", got_o, o, rows, 1e-14);
    check_close("lse", got_lse, lse, rows, 1e-14);
}

START_TEST(masked_row_in_reference) {
    AttnShape shape = one_head(4, 3); // row 0 sees no key, row 3 sees all of them
    shape.causal = true;
    check_forward(&shape, (float[3]){0}, (float[]){1, 2, 3}, (double[]){0, 1, 1.5, 2},
                  (double[]){-INFINITY, 0, log(2), log(3)});
}
END_TEST

START_TEST(masks) {
    AttnShape shape = one_head(2, 5);
    shape.causal = true;
    check_forward(&shape, (float[5]){0}, (float[]){1, 2, 3, 4, 5}, (double[]){2.5, 3},
                  (double[]){log(4), log(5)});
    shape.window = 2;
    check_forward(&shape, (float[5]){0}, (float[]){1, 2, 3, 4, 5}, (double[]){3.5, 4.5},
                  (double[]){log(2), log(2)});
    shape = one_head(1, 3);
    shape.batch = 3;
    shape.kv_lens = (int32_t[]){0, 2, 3};
    check_forward(&shape, (float[]){NAN, NAN, NAN, 0, 0, NAN, 0, 0, 0},
                  (float[]){NAN, NAN, NAN, 1, 2, NAN, 1, 2, 3}, (double[]){0, 1.5, 2},
                  (double[]){-INFINITY, log(2), log(3)});
    shape = one_head(1, 1);
    shape.heads_q = 6;
    shape.heads_kv = 2;
    check_forward(&shape, (float[2]){0}, (float[]){0, 1}, (double[]){0, 0, 0, 1, 1, 1},
                  (double[6]){0});
}
END_TEST

START_TEST(large_and_very_negative_scores) {
    AttnShape shape = one_head(1, 2);
    double o = 1 / (1 + exp(-1));
    for (int i = 0; i < 3; i++) {
        float top = (float[]){1000, -1000, -60000}[i];
        double lse = (double)top + log1p(exp(-1));
        float q = 1, k[] = {top, top - 1}, v[] = {1, 0};
        double got_o, got_lse, o_abs, score_abs;
        ReferenceForward out = {&got_o, &got_lse, &o_abs, &score_abs};
        ck_assert_int_eq(reference_forward(&shape, &q, k, v, &out), ATTN_OK);
        check_close("o", &got_o, &o, 1, 1e-15);
        check_close("lse", &got_lse, &lse, 1, 1e-15 * fabs(lse));
        ck_assert(o_abs == got_o);
        ck_assert(score_abs == fmax(fabs((double)k[0]), fabs((double)k[1])));
    }
}
END_TEST

// With keys of 0 the LSE is the log of the number of keys seen, and with v = key number the output
// is their mean: both against the rule as common/attn.h states it.
START_TEST(mask_against_attn_visible_keys) {
    float q[9] = {0}, k[18] = {0}, v[18];
    for (int64_t len_q = 1; len_q <= 4; len_q++) {
        for (int64_t window = 0; window <= 6; window++) {
            for (int32_t len = 0; len <= 6; len++) {
                int32_t kv_lens[] = {len, 6};
                AttnShape shape = {2,      1,      1, len_q, 6, 1, 1, window > 0 || len % 2 == 0,
                                   window, kv_lens};
                double o[8], lse[8];
                for (int j = 0; j < 12; j++) {
                    v[j] = (float)(j % 6);
                }
                ReferenceForward out = {.o = o, .lse = lse};
                ck_assert_int_eq(reference_forward(&shape, q, k, v, &out), ATTN_OK);
                for (int64_t row = 0; row < 2 * len_q; row++) {
                    KeyRange seen = attn_visible_keys(&shape, row / len_q, row % len_q);
                    double count = (double)(seen.end - seen.begin);
                    double mean = count > 0 ? (double)(seen.begin + seen.end - 1) / 2 : 0;
                    double log_count = log(count);
                    check_close("o", &o[row], &mean, 1, 1e-14);
                    check_close("lse", &lse[row], &log_count, 1, 1e-14);
                }
            }
        }
    }
}
END_TEST

START_TEST(nan_reaches_only_rows_that_see_it) {
    AttnShape shape = {1, 1, 1, 4, 4, 2, 0, true, 2, NULL};
    for (int input = 0; input < 3; input++) { // q, k, v; row 1, column 0
        float values[3][8];
        for (int i = 0; i < 24; i++) {
            values[i / 8][i % 8] = (float)i / 8;
        }
        values[input][2] = NAN;
        double o[8], lse[4];
        ReferenceForward out = {.o = o, .lse = lse};
        ck_assert_int_eq(reference_forward(&shape, values[0], values[1], values[2], &out), ATTN_OK);
        for (int i = 0; i < 4; i++) {
            bool reached = input == 0 ? i == 1 : i == 1 || i == 2; // a window of 2 keys
            ck_assert_int_eq(isnan(o[2 * i]) != 0, reached);
            ck_assert_int_eq(isnan(o[2 * i + 1]) != 0, reached && input != 2);
            ck_assert_int_eq(isnan(lse[i]) != 0, reached && input != 2);
        }
    }
}
END_TEST

// A mask of any pattern. K = 0, so that a row's output is the mean of the values it sees. The NaN
// is behind the mask, in the entry's unused keys, or behind causality, and reaches nobody.
START_TEST(any_pattern) {
    const float q[6] = {0}, k[] = {0, 0, 0, NAN, 0, 0, 0, NAN}, v[] = {1, 2, 4, NAN, 5, 6, 8, NAN};
    const uint8_t visible[] = {1, 0, 1, 1, 0, 0, 0, 1, 0, 255, 1, 1}; // [3][4]
    AttnShape shape = one_head(3, 4);
    shape.batch = 2;
    shape.kv_lens = (int32_t[]){3, 3};
    double o[6], lse[6];
    ReferenceForward out = {.o = o, .lse = lse};
    ck_assert_int_eq(reference_forward_masked(&shape, visible, q, k, v, &out), ATTN_OK);
    check_close("o", o, (double[]){2.5, 0, 3, 6.5, 0, 7}, 6, 1e-14);
    check_close("lse", lse, (double[]){log(2), -INFINITY, log(2), log(2), -INFINITY, log(2)}, 6,
                1e-14);
    shape.causal = true; // row 0 sees keys to 0, row 1 to 1, row 2 to 2
    ck_assert_int_eq(reference_forward_masked(&shape, visible, q, k, v, &out), ATTN_OK);
    check_close("o", o, (double[]){1, 0, 3, 5, 0, 7}, 6, 1e-14);
    shape.window = 1;
    ck_assert_int_eq(reference_forward_masked(&shape, visible, q, k, v, &out), ATTN_OK);
    check_close("o", o, (double[]){1, 0, 4, 5, 0, 8}, 6, 1e-14);
}
END_TEST

START_TEST(errors_write_nothing) {
    AttnShape shape = one_head(1, 1);
    shape.window = -1;
    float x = 1;
    double o = 7, d_q = 7, d_k = 7, d_v = 7;
    ReferenceForward out = {.o = &o};
    ck_assert_int_eq(reference_forward(&shape, &x, &x, &x, &out), ATTN_ERR_ARGUMENT);
    ck_assert_int_eq(reference_forward_masked(&shape, NULL, &x, &x, &x, &out), ATTN_ERR_ARGUMENT);
    ck_assert_int_eq(reference_backward(&shape, &x, &x, &x, &x, &d_q, &d_k, &d_v),
                     ATTN_ERR_ARGUMENT);
    ck_assert(o == 7 && d_q == 7 && d_k == 7 && d_v == 7);
}
END_TEST

// ---- closed forms, backward ---------------------------------------------------------------------

START_TEST(grad_closed_form) {
    AttnShape shape = one_head(1, 2);
    float q = 1, k[] = {0, (float)log(3)}, v[] = {1, 3}, d_o = 1;
    double d_q, d_k[2], d_v[2], wanted_q = 0.375 * log(3);
    ck_assert_int_eq(reference_backward(&shape, &q, k, v, &d_o, &d_q, d_k, d_v), ATTN_OK);
    check_close("dV", d_v, (double[]){0.25, 0.75}, 2, 1e-7); // k is ln 3 rounded to f32
    check_close("dK", d_k, (double[]){-0.375, 0.375}, 2, 1e-7);
    check_close("dQ", &d_q, &wanted_q, 1, 1e-7);
    ck_assert_double_eq_tol(d_q, 0.411980, 1e-6);
}
END_TEST

START_TEST(grad_gqa_sum) {
    AttnShape shape = one_head(1, 2);
    shape.heads_q = 2;
    float q[] = {1, 1}, k[] = {0, (float)log(3)}, v[] = {1, 3}, d_o[] = {1, 1};
    double d_q[2], d_k[2], d_v[2];
    ck_assert_int_eq(reference_backward(&shape, q, k, v, d_o, d_q, d_k, d_v), ATTN_OK);
    check_close("dV", d_v, (double[]){0.5, 1.5}, 2, 2e-7);
    check_close("dK", d_k, (double[]){-0.75, 0.75}, 2, 2e-7);
    ck_assert(d_q[0] == d_q[1]);
}
END_TEST

START_TEST(grad_uniform) {
    enum { LEN = 64 };
    AttnShape shape = one_head(LEN, LEN);
    float q[LEN], k[LEN] = {0}, v[LEN], d_o[LEN];
    double d_q[LEN], d_k[LEN], d_v[LEN], mean = 0;
    for (int i = 0; i < LEN; i++) {
        q[i] = 1;
        v[i] = (float)(i % 5);
        d_o[i] = (float)(i * i % 7) / 4;
        mean += (double)d_o[i] / LEN;
    }
    ck_assert_int_eq(reference_backward(&shape, q, k, v, d_o, d_q, d_k, d_v), ATTN_OK);
    for (int j = 0; j < LEN; j++) {
        ck_assert_double_eq_tol(d_v[j], mean, 1e-14);
        ck_assert(d_q[j] == 0); // k = 0
    }
}
END_TEST

START_TEST(grad_empty_rows) {
    AttnShape shape = one_head(5, 2);
    shape.causal = true;
    float q[] = {1, 1, 1, 1, 1}, k[] = {60, 0}, v[] = {1, 3}, d_o[] = {1, 1, 1, 1, 1};
    double d_q[5], d_k[2], d_v[2];
    ck_assert_int_eq(reference_backward(&shape, q, k, v, d_o, d_q, d_k, d_v), ATTN_OK);
    check_close("dQ", d_q, (double[]){0, 0, 0, 0, 0}, 5, 1e-20); // p is 1 and e^-60 in the last
    check_close("dV", d_v, (double[]){2, 0}, 2, 1e-20);          // one from row 3, one from row 4
    check_close("dK", d_k, (double[]){0, 0}, 2, 1e-20);
    ck_assert(d_q[0] == 0 && d_q[1] == 0 && d_q[2] == 0);
}
END_TEST

// ---- gradients against finite differences -------------------------------------------------------

// sum(O * dO), from the float64 forward.
static double loss(const AttnShape *shape, float *const inputs[3], const float *d_o) {
    size_t count = attn_count_q(shape);
    double *o = zeroed(count, sizeof(double)), sum = 0;
    ck_assert_int_eq(
        reference_forward(shape, inputs[0], inputs[1], inputs[2], &(ReferenceForward){.o = o}),
        ATTN_OK);
    for (size_t i = 0; i < count; i++) {
        sum += o[i] * (double)d_o[i];
    }
    free(o);
    return sum;
}

// Central differences over the f32 neighbours x +- h, h = 2^-10: an error of order h^2 times a
// third derivative, which is of order 1 for values of order 1, so some 1e-6 times the number of
// rows that an input reaches.
static void check_differences(const AttnShape *shape, uint64_t seed) {
    size_t counts[] = {attn_count_q(shape), attn_count_kv(shape), attn_count_kv(shape)};
    Tensor tensors[4];
    float *inputs[3];
    double *gradients[3];
    for (int t = 0; t < 4; t++) {
        AttnStatus status = t == 0 || t == 3 ? tensor_alloc_q(&tensors[t], DTYPE_F32, shape)
                                             : tensor_alloc_kv(&tensors[t], DTYPE_F32, shape);
        ck_assert_int_eq(status, ATTN_OK);
        tensor_fill_random(&tensors[t], 10 * seed + (uint64_t)t, 0.7);
        if (t < 3) {
            inputs[t] = tensors[t].data;
            gradients[t] = zeroed(counts[t], sizeof(double));
        }
    }
    const float *d_o = tensors[3].data;
    ck_assert_int_eq(reference_backward(shape, inputs[0], inputs[1], inputs[2], d_o, gradients[0],
                                        gradients[1], gradients[2]),
                     ATTN_OK);
    for (int t = 0; t < 3; t++) {
        for (size_t i = 0; i < counts[t]; i++) {
            float x = inputs[t][i], above = x + 0x1p-10F, below = x - 0x1p-10F;
            inputs[t][i] = above;
            double difference = loss(shape, inputs, d_o);
            inputs[t][i] = below;
            difference -= loss(shape, inputs, d_o);
            inputs[t][i] = x;
            double slope = difference / ((double)above - (double)below);
            ck_assert_msg(fabs(slope - gradients[t][i]) <= 2e-5,
                          "seed %d, d%c[%zu] is %.9g, the difference quotient %.9g", (int)seed,
                          "QKV"[t], i, gradients[t][i], slope);
        }
        free(gradients[t]);
    }
    for (int t = 0; t < 4; t++) {
        tensor_free(&tensors[t]);
    }
}

START_TEST(finite_differences) {
    static const int32_t kv_lens[] = {4, 7};
    static const AttnShape shapes[] = {
        {1, 1, 1, 3, 5, 4, 0, false, 0, NULL},    {2, 4, 2, 4, 4, 3, 0, true, 0, NULL},
        {1, 3, 1, 2, 6, 5, 0.5, true, 0, NULL},   {1, 2, 2, 6, 6, 2, 1.5, true, 3, NULL},
        {1, 2, 1, 5, 3, 3, 0, true, 0, NULL},     {2, 2, 1, 3, 7, 4, 0, true, 0, kv_lens},
        {2, 2, 2, 3, 7, 2, 0, false, 0, kv_lens},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        check_differences(&shapes[s], s + 1);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("reference");
    TCase *tcase = tcase_create("oracle");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, golden);
    tcase_add_test(tcase, masked_row_in_reference);
    tcase_add_test(tcase, masks);
    tcase_add_test(tcase, large_and_very_negative_scores);
    tcase_add_test(tcase, mask_against_attn_visible_keys);
    tcase_add_test(tcase, nan_reaches_only_rows_that_see_it);
    tcase_add_test(tcase, any_pattern);
    tcase_add_test(tcase, errors_write_nothing);
    tcase_add_test(tcase, grad_closed_form);
    tcase_add_test(tcase, grad_gqa_sum);
    tcase_add_test(tcase, grad_uniform);
    tcase_add_test(tcase, grad_empty_rows);
    tcase_add_test(tcase, finite_differences);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
