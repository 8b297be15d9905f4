// The bound on a kernel's error, and the comparison that applies it. docs/numerics.md derives what
// is only computed here; the names (u, gamma, A, E, lambda, rho) are those of that page.
#include "common/compare.h"

#include "common/reference.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double F32_ROUNDOFF = 0x1p-24; // u
static const double F32_MIN = 0x1p-126;     // smallest normal f32: what a flush to zero loses

// Rounding errors of u each. A correctly rounded operation counts 1; the functions count what the
// least exact versions in use guarantee (2 units in the last place are 4 u).
enum {
    EXP_ROUNDINGS = 4,
    LOG_ROUNDINGS = 4,
    DIVIDE_ROUNDINGS = 4,
    SCORE_ROUNDINGS = 9,                   // beside the dim of the dot product: E
    LSE_ROUNDINGS = 10,                    // of one log-sum-exp, written down and used again
    STEP_ROUNDINGS = EXP_ROUNDINGS + 1 + 1 // exp of a rescaling, its product, one addition
};

// gamma_n = n u / (1 - n u): the largest relative error that n roundings can add up to.
static double gamma_of(double n) {
    double nu = n * F32_ROUNDOFF;
    return nu < 1 ? nu / (1 - nu) : INFINITY;
}

// What an f32 kernel may be wrong by in one row.
typedef struct RowBound {
    double relative;  // rho: of numerator and denominator
    double lse;       // absolute
    double underflow; // absolute error of O for |v| <= 1
} RowBound;

// keys: those the row sees, at least 1. score_abs: A, the largest scale * sum_c |q_c k_jc|.
static RowBound row_bound(const AttnShape *shape, int64_t keys, double score_abs) {
    double dim = (double)shape->dim, count = (double)keys;
    double merges = ceil(log2(count)); // levels of a tree of merges
    double score_error = gamma_of(dim + SCORE_ROUNDINGS) * score_abs;
    score_error += dim * attn_scale(shape) * F32_MIN;
    double lse_error = gamma_of(LSE_ROUNDINGS) * (score_abs + log(count));
    lse_error += LOG_ROUNDINGS * F32_ROUNDOFF * (1 + log(count));
    double roundings = EXP_ROUNDINGS + 1 + STEP_ROUNDINGS * (count - 1);
    roundings += DIVIDE_ROUNDINGS * (merges + 1);
    double path = gamma_of(roundings);
    return (RowBound){
        .relative = exp(score_error + merges * lse_error) * (1 + path) - 1,
        .lse = score_error + (merges + 1) * lse_error - log1p(-fmin(path, 1)),
        .underflow = 2 * roundings * F32_MIN,
    };
}

// ---- the 16-bit types ---------------------------------------------------------------------------

// One row of attention as a plain program in a 16-bit type computes it: scores, softmax and the
// sums in f32; the probabilities and the output stored in `dtype`. q, o [dim]; k, v [len_kv][dim];
// seen [keys] the keys that count; p [keys] is workspace.
static void plain_row(const float *q, const float *k, const float *v, const int64_t *seen,
                      int64_t keys, int64_t dim, float scale, DType dtype, float *p, float *o) {
    float m = -INFINITY, l = 0;
    for (int64_t j = 0; j < keys; j++) {
        float dot = 0;
        for (int64_t c = 0; c < dim; c++) {
            dot += q[c] * k[seen[j] * dim + c];
        }
        p[j] = scale * dot;
        m = p[j] > m ? p[j] : m;
    }
    for (int64_t j = 0; j < keys; j++) {
        p[j] = expf(p[j] - m);
        l += p[j];
    }
    for (int64_t c = 0; c < dim; c++) {
        o[c] = 0;
    }
    for (int64_t j = 0; j < keys; j++) {
        p[j] = dtype_round(dtype, p[j] / l);
        for (int64_t c = 0; c < dim; c++) {
            o[c] += p[j] * v[seen[j] * dim + c];
        }
    }
    for (int64_t c = 0; c < dim; c++) {
        o[c] = dtype_round(dtype, o[c]);
    }
}

// The inputs in f32, and room for what is derived from them.
typedef struct Inputs {
    Tensor q, k, v;
    double *score_abs;      // [batch][heads_q][len_q]
    double *v_max;          // [batch][heads_kv][dim] largest finite |v| of a column
    float *p, *o;           // [len_kv], [dim]
    int64_t *seen;          // [len_kv] keys that the row at hand sees, rising
    const uint8_t *visible; // [len_q][len_kv], or NULL: a mask on top of the shape's
} Inputs;

// Fills inputs->seen for a row; returns how many there are.
static int64_t find_seen(const Inputs *inputs, const AttnShape *shape, int64_t b, int64_t i) {
    const KeyRange range = attn_visible_keys(shape, b, i);
    int64_t count = 0;
    for (int64_t j = range.begin; j < range.end; j++) {
        if (inputs->visible == NULL || inputs->visible[i * shape->len_kv + j] != 0) {
            inputs->seen[count++] = j;
        }
    }
    return count;
}

// The largest error of the plain program in query head (b, h); values that are not finite do not
// count.
static double plain_error(const Expected *expected, const Inputs *inputs, DType dtype, int64_t b,
                          int64_t h) {
    const AttnShape *shape = &expected->shape;
    int64_t dim = shape->dim;
    const float *q = inputs->q.data, *k = inputs->k.data, *v = inputs->v.data;
    int64_t kv_first = (b * shape->heads_kv + attn_kv_head(shape, h)) * shape->len_kv;
    double largest = 0;
    for (int64_t i = 0; i < shape->len_q; i++) {
        int64_t keys = find_seen(inputs, shape, b, i);
        int64_t row = (b * shape->heads_q + h) * shape->len_q + i;
        plain_row(q + row * dim, k + kv_first * dim, v + kv_first * dim, inputs->seen, keys, dim,
                  (float)attn_scale(shape), dtype, inputs->p, inputs->o);
        for (int64_t c = 0; c < dim; c++) {
            double error = fabs((double)inputs->o[c] - expected->o[row * dim + c]);
            if (isfinite(error) && error > largest) {
                largest = error;
            }
        }
    }
    return largest;
}

// ---- the right answer ---------------------------------------------------------------------------

static AttnStatus inputs_make(Inputs *inputs, const AttnShape *shape, const Tensor *q,
                              const Tensor *k, const Tensor *v) {
    const Tensor *given[] = {q, k, v};
    Tensor *copies[] = {&inputs->q, &inputs->k, &inputs->v};
    for (int t = 0; t < 3; t++) {
        size_t needed = t == 0 ? attn_count_q(shape) : attn_count_kv(shape);
        size_t count = given[t]->count;
        if (count != needed) {
            attn_fail(ATTN_ERR_SHAPE, "%c has %zu elements; its shape has %zu", "qkv"[t], count,
                      needed);
            return ATTN_ERR_SHAPE;
        }
        AttnStatus status = tensor_convert(copies[t], given[t], DTYPE_F32);
        if (status != ATTN_OK) {
            return status;
        }
    }
    size_t len_kv = (size_t)shape->len_kv, dim = (size_t)shape->dim;
    size_t columns = (size_t)shape->batch * (size_t)shape->heads_kv * dim;
    inputs->score_abs = calloc(attn_count_lse(shape) + 1, sizeof(double));
    inputs->v_max = calloc(columns + 1, sizeof(double));
    inputs->p = calloc(len_kv + 1, sizeof(float));
    inputs->o = calloc(dim, sizeof(float));
    inputs->seen = calloc(len_kv + 1, sizeof(int64_t));
    if (inputs->score_abs == NULL || inputs->v_max == NULL || inputs->p == NULL ||
        inputs->o == NULL || inputs->seen == NULL) {
        attn_fail(ATTN_ERR_MEMORY, "no memory for the bounds of %zu rows", attn_count_lse(shape));
        return ATTN_ERR_MEMORY;
    }
    const float *values = inputs->v.data;
    for (size_t e = 0; e < inputs->v.count; e++) {
        double *largest = &inputs->v_max[e / (len_kv * dim) * dim + e % dim];
        if (isfinite(values[e])) {
            *largest = fmax(*largest, fabs((double)values[e]));
        }
    }
    return ATTN_OK;
}

static void inputs_free(Inputs *inputs) {
    tensor_free(&inputs->q);
    tensor_free(&inputs->k);
    tensor_free(&inputs->v);
    free(inputs->score_abs);
    free(inputs->v_max);
    free(inputs->p);
    free(inputs->o);
    free(inputs->seen);
}

// Bounds of one query head; o_bound holds the oracle's o_abs before.
static void head_bounds(Expected *expected, const Inputs *inputs, DType dtype, int64_t b,
                        int64_t h) {
    const AttnShape *shape = &expected->shape;
    bool narrow = dtype == DTYPE_F16 || dtype == DTYPE_BF16;
    double plain = narrow ? plain_error(expected, inputs, dtype, b, h) : 0;
    int64_t dim = shape->dim;
    const double *v_max = inputs->v_max + (b * shape->heads_kv + attn_kv_head(shape, h)) * dim;
    for (int64_t i = 0; i < shape->len_q; i++) {
        int64_t keys = find_seen(inputs, shape, b, i);
        int64_t row = (b * shape->heads_q + h) * shape->len_q + i;
        double *o_bound = expected->o_bound + row * dim;
        if (keys == 0) { // O = 0 and LSE = -inf, exactly
            expected->lse_bound[row] = 0;
            for (int64_t c = 0; c < dim; c++) {
                o_bound[c] = 0;
            }
            continue;
        }
        RowBound bound = row_bound(shape, keys, inputs->score_abs[row]);
        double rho = bound.relative;
        expected->lse_bound[row] = bound.lse;
        for (int64_t c = 0; c < dim; c++) {
            double o = expected->o[row * dim + c], o_abs = o_bound[c];
            if (narrow) {
                double rounding = isfinite(o) ? dtype_rounding_error(dtype, o) : 0;
                o_bound[c] = 2 * plain + 2 * rounding;
            } else {
                o_bound[c] = rho < 1 ? rho / (1 - rho) * (o_abs + fabs(o)) : INFINITY;
                o_bound[c] += bound.underflow * fmax(1, v_max[c]);
            }
        }
    }
}

AttnStatus expected_make(Expected *expected, const AttnShape *shape, const Tensor *q,
                         const Tensor *k, const Tensor *v, DType dtype) {
    return expected_make_masked(expected, shape, NULL, q, k, v, dtype);
}

AttnStatus expected_make_masked(Expected *expected, const AttnShape *shape, const uint8_t *visible,
                                const Tensor *q, const Tensor *k, const Tensor *v, DType dtype) {
    *expected = (Expected){0};
    AttnStatus status = attn_check_shape(shape);
    if (status != ATTN_OK) {
        return status;
    }
    size_t count_o = attn_count_q(shape), count_lse = attn_count_lse(shape);
    Inputs inputs = {.visible = visible};
    expected->shape = *shape;
    expected->o = calloc(count_o + 1, sizeof(double));
    expected->lse = calloc(count_lse + 1, sizeof(double));
    expected->o_bound = calloc(count_o + 1, sizeof(double));
    expected->lse_bound = calloc(count_lse + 1, sizeof(double));
    if (expected->o == NULL || expected->lse == NULL || expected->o_bound == NULL ||
        expected->lse_bound == NULL) {
        status =
            attn_fail(ATTN_ERR_MEMORY, "no memory for an expected output of %zu elements", count_o);
    }
    if (status == ATTN_OK) {
        status = inputs_make(&inputs, shape, q, k, v);
    }
    if (status == ATTN_OK) {
        ReferenceForward out = {expected->o, expected->lse, expected->o_bound, inputs.score_abs};
        status = reference_forward_masked(shape, visible, inputs.q.data, inputs.k.data,
                                          inputs.v.data, &out);
    }
    for (int64_t b = 0; b < shape->batch && status == ATTN_OK; b++) {
        for (int64_t h = 0; h < shape->heads_q; h++) {
            head_bounds(expected, &inputs, dtype, b, h);
        }
    }
    inputs_free(&inputs);
    if (status != ATTN_OK) {
        expected_free(expected);
    }
    return status;
}

void expected_free(Expected *expected) {
    free(expected->o);
    free(expected->lse);
    free(expected->o_bound);
    free(expected->lse_bound);
    *expected = (Expected){0};
}

// ---- the comparison -----------------------------------------------------------------------------

// "(batch 0, head 3, row 17, column 5)" of a flat index of [b][h][t][d] or [b][h][t]; *row is 17.
static void place_text(const Tensor *tensor, size_t index, char *text, size_t size, int64_t *row) {
    int64_t rest = (int64_t)index;
    int64_t column = rest % tensor->dims[3]; // dims[3] is 1 for [b][h][t]
    rest /= tensor->dims[3];
    *row = rest % tensor->dims[2];
    rest /= tensor->dims[2];
    int length = snprintf(text, size, "(batch %" PRId64 ", head %" PRId64 ", row %" PRId64,
                          rest / tensor->dims[1], rest % tensor->dims[1], *row);
    if (tensor->rank == 4) {
        snprintf(text + length, size - (size_t)length, ", column %" PRId64 ")", column);
    } else {
        snprintf(text + length, size - (size_t)length, ")");
    }
}

// A number for a message: nine digits tell any two f32 apart; every NaN is "NaN".
static const char *number_text(double value, int digits, char text[32]) {
    if (isnan(value)) {
        return "NaN";
    }
    snprintf(text, 32, "%.*g", digits, value);
    return text;
}

Comparison compare_elements(const char *name, const Tensor *got, const double *expected,
                            const double *bound, int64_t block_q) {
    Comparison result = {.checked = got->count};
    size_t first_failure = 0;
    for (size_t i = 0; i < got->count; i++) {
        double value = tensor_get(got, i);
        double error = value == expected[i] ? 0 : fabs(value - expected[i]);
        if (isnan(error)) {
            error = INFINITY;
        }
        if (error > result.max_error) {
            result.max_error = error;
        }
        double ratio = error == 0 ? 0 : error / bound[i];
        if (!(ratio <= result.worst_ratio)) {
            result.worst_ratio = isnan(ratio) ? INFINITY : ratio;
        }
        if (!(error <= bound[i]) || isinf(error)) {
            first_failure = result.failed == 0 ? i : first_failure;
            result.failed++;
        }
    }
    if (result.failed == 0) {
        return result;
    }
    size_t i = first_failure;
    char place[128], tile[80] = "";
    int64_t row;
    place_text(got, i, place, sizeof place, &row);
    if (block_q > 0) {
        snprintf(tile, sizeof tile, ", in row tile %" PRId64 " of %" PRId64 " rows", row / block_q,
                 block_q);
    }
    double value = tensor_get(got, i);
    char texts[4][32];
    snprintf(result.message, sizeof result.message,
             "%s: %zu of %zu elements failed, the first at %s%s: got %s, expected %s, error %s, "
             "bound %s",
             name, result.failed, result.checked, place, tile, number_text(value, 9, texts[0]),
             number_text(expected[i], 9, texts[1]),
             number_text(fabs(value - expected[i]), 3, texts[2]),
             number_text(bound[i], 3, texts[3]));
    return result;
}

bool compare_output(const Expected *expected, const Tensor *o, const Tensor *lse, int64_t block_q,
                    Comparison *o_result, Comparison *lse_result) {
    Comparison o_check = compare_elements("O", o, expected->o, expected->o_bound, block_q);
    Comparison lse_check =
        compare_elements("LSE", lse, expected->lse, expected->lse_bound, block_q);
    if (o_result != NULL) {
        *o_result = o_check;
    }
    if (lse_result != NULL) {
        *lse_result = lse_check;
    }
    return o_check.failed == 0 && lse_check.failed == 0;
}
