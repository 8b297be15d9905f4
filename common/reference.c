// The oracle, written to be checked by reading: one query row at a time, two-pass safe softmax,
// everything in float64. No function here is shared with a kernel.
#include "common/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef __FAST_MATH__
#error "the oracle must not be compiled with -ffast-math: it relies on infinities and NaN"
#endif

// May query i of batch entry b read key j? Query and key are put on one line of positions, on
// which the last query stands on the last key in use; a query then looks back at its own key and
// those before it, or at the nearest `window` of them.
static bool sees(const AttnShape *shape, int64_t b, int64_t i, int64_t j) {
    int64_t in_use = shape->kv_lens != NULL ? (int64_t)shape->kv_lens[b] : shape->len_kv;
    if (j >= in_use) {
        return false;
    }
    if (!shape->causal) {
        return true;
    }
    int64_t position = i + in_use - shape->len_q;
    int64_t looks_back = position - j; // 0 for the query's own key, negative for the future
    return looks_back >= 0 && (shape->window == 0 || looks_back < shape->window);
}

// One query row: what it reads, and its softmax once row_softmax has run.
typedef struct Row {
    const float *q;   // [dim]
    const float *k;   // [len_kv][dim], the head that this query reads
    const float *v;   // [len_kv][dim]
    double *p;        // [len_kv] probabilities; entries of unseen keys mean nothing
    bool *seen;       // [len_kv]
    double lse;       // -inf when no key is seen
    double score_abs; // largest scale * sum_c |q_c k_jc| of a seen key, 0 without one
} Row;

// Points `row` at row `i` of query head `h`; heads_q / heads_kv consecutive query heads read
// one KV head. visible [len_q][len_kv], or NULL, hides keys on top of the shape's masks. Returns
// the row's index among all [batch][heads_q][len_q].
static size_t row_find(Row *row, const AttnShape *shape, const uint8_t *visible, const float *q,
                       const float *k, const float *v, int64_t b, int64_t h, int64_t i) {
    size_t len_kv = (size_t)shape->len_kv, dim = (size_t)shape->dim;
    int64_t kv_head = h * shape->heads_kv / shape->heads_q;
    size_t kv_first = (size_t)(b * shape->heads_kv + kv_head) * len_kv * dim;
    size_t index = ((size_t)b * (size_t)shape->heads_q + (size_t)h) * (size_t)shape->len_q;
    index += (size_t)i;
    row->q = q + index * dim;
    row->k = k + kv_first;
    row->v = v + kv_first;
    for (int64_t j = 0; j < shape->len_kv; j++) {
        row->seen[j] =
            sees(shape, b, i, j) && (visible == NULL || visible[i * shape->len_kv + j] != 0);
    }
    return index;
}

// p_j = exp(s_j - m) / l and lse = m + log l, with s_j = scale q . k_j, m the largest s_j and
// l = sum_j exp(s_j - m), over the seen keys.
static void row_softmax(Row *row, const AttnShape *shape) {
    double scale = shape->scale != 0 ? shape->scale : 1 / sqrt((double)shape->dim);
    int64_t dim = shape->dim;
    double m = -INFINITY;
    row->score_abs = 0;
    for (int64_t j = 0; j < shape->len_kv; j++) {
        if (!row->seen[j]) {
            continue;
        }
        const float *q = row->q, *k = row->k + j * dim;
        double dot = 0, dot_abs = 0;
        for (int64_t c = 0; c < dim; c++) {
            double product = (double)q[c] * (double)k[c];
            dot += product;
            dot_abs += fabs(product);
        }
        row->p[j] = scale * dot;
        m = row->p[j] > m ? row->p[j] : m;
        row->score_abs = fmax(row->score_abs, scale * dot_abs);
    }
    double shift = m == -INFINITY ? 0 : m; // without a key, or with scores of -inf alone
    double l = 0;
    for (int64_t j = 0; j < shape->len_kv; j++) {
        if (row->seen[j]) {
            row->p[j] = exp(row->p[j] - shift);
            l += row->p[j];
        }
    }
    for (int64_t j = 0; j < shape->len_kv; j++) {
        if (row->seen[j] && l != 0) {
            row->p[j] /= l;
        }
    }
    row->lse = l == 0 ? -INFINITY : shift + log(l);
}

// o_c = sum_j p_j v_jc and o_abs_c = sum_j p_j |v_jc| over the seen keys; o_abs may be NULL.
static void row_output(const Row *row, const AttnShape *shape, double *restrict o,
                       double *restrict o_abs) {
    int64_t dim = shape->dim;
    for (int64_t c = 0; c < dim; c++) {
        o[c] = 0;
    }
    for (int64_t c = 0; c < dim && o_abs != NULL; c++) {
        o_abs[c] = 0;
    }
    for (int64_t j = 0; j < shape->len_kv; j++) {
        if (!row->seen[j]) {
            continue;
        }
        const float *v = row->v + j * dim;
        double p = row->p[j];
        for (int64_t c = 0; c < dim; c++) {
            o[c] += p * (double)v[c];
        }
        for (int64_t c = 0; c < dim && o_abs != NULL; c++) {
            o_abs[c] += p * fabs((double)v[c]);
        }
    }
}

// Memory for the rows of one call.
typedef struct Scratch {
    Row row;
    double *o; // [dim]
} Scratch;

static AttnStatus scratch_alloc(Scratch *scratch, const AttnShape *shape) {
    size_t len_kv = (size_t)shape->len_kv, dim = (size_t)shape->dim;
    *scratch = (Scratch){0};
    scratch->row.p = calloc(len_kv + 1, sizeof(double));
    scratch->row.seen = calloc(len_kv + 1, sizeof(bool));
    scratch->o = calloc(dim, sizeof(double));
    if (scratch->row.p == NULL || scratch->row.seen == NULL || scratch->o == NULL) {
        return attn_fail(ATTN_ERR_MEMORY, "no memory for an oracle row of %zu keys, dim %zu",
                         len_kv, dim);
    }
    return ATTN_OK;
}

static void scratch_free(Scratch *scratch) {
    free(scratch->row.p);
    free(scratch->row.seen);
    free(scratch->o);
}

AttnStatus reference_forward(const AttnShape *shape, const float *q, const float *k, const float *v,
                             const ReferenceForward *out) {
    return reference_forward_masked(shape, NULL, q, k, v, out);
}

AttnStatus reference_forward_masked(const AttnShape *shape, const uint8_t *visible, const float *q,
                                    const float *k, const float *v, const ReferenceForward *out) {
    AttnStatus status = attn_check_shape(shape);
    if (status != ATTN_OK) {
        return status;
    }
    Scratch scratch;
    status = scratch_alloc(&scratch, shape);
    Row *row = &scratch.row;
    for (int64_t b = 0; b < shape->batch && status == ATTN_OK; b++) {
        for (int64_t h = 0; h < shape->heads_q; h++) {
            for (int64_t i = 0; i < shape->len_q; i++) {
                size_t index = row_find(row, shape, visible, q, k, v, b, h, i);
                size_t first = index * (size_t)shape->dim;
                row_softmax(row, shape);
                if (out->o != NULL || out->o_abs != NULL) {
                    row_output(row, shape, out->o != NULL ? out->o + first : scratch.o,
                               out->o_abs != NULL ? out->o_abs + first : NULL);
                }
                if (out->lse != NULL) {
                    out->lse[index] = row->lse;
                }
                if (out->score_abs != NULL) {
                    out->score_abs[index] = row->score_abs;
                }
            }
        }
    }
    scratch_free(&scratch);
    return status;
}

// One row's share of the gradients. o is the row's output; d_o and d_q are the row's, [dim]; d_k
// and d_v are the KV head's, [len_kv][dim], and are added to.
static void row_backward(const Row *row, const AttnShape *shape, const double *o, const float *d_o,
                         double *d_q, double *d_k, double *d_v) {
    double scale = shape->scale != 0 ? shape->scale : 1 / sqrt((double)shape->dim);
    int64_t dim = shape->dim;
    double d = 0; // sum_c dO_c O_c = sum_j p_j dP_j
    for (int64_t c = 0; c < dim; c++) {
        d += (double)d_o[c] * o[c];
    }
    for (int64_t j = 0; j < shape->len_kv; j++) {
        if (!row->seen[j]) {
            continue;
        }
        double d_p = 0;
        for (int64_t c = 0; c < dim; c++) {
            d_p += (double)d_o[c] * (double)row->v[j * dim + c];
        }
        double d_s = row->p[j] * (d_p - d);
        for (int64_t c = 0; c < dim; c++) {
            d_q[c] += scale * d_s * (double)row->k[j * dim + c];
            d_k[j * dim + c] += scale * d_s * (double)row->q[c];
            d_v[j * dim + c] += row->p[j] * (double)d_o[c];
        }
    }
}

AttnStatus reference_backward(const AttnShape *shape, const float *q, const float *k,
                              const float *v, const float *d_o, double *d_q, double *d_k,
                              double *d_v) {
    AttnStatus status = attn_check_shape(shape);
    if (status != ATTN_OK) {
        return status;
    }
    Scratch scratch;
    status = scratch_alloc(&scratch, shape);
    if (status == ATTN_OK) {
        memset(d_q, 0, attn_count_q(shape) * sizeof(double));
        memset(d_k, 0, attn_count_kv(shape) * sizeof(double));
        memset(d_v, 0, attn_count_kv(shape) * sizeof(double));
    }
    Row *row = &scratch.row;
    for (int64_t b = 0; b < shape->batch && status == ATTN_OK; b++) {
        for (int64_t h = 0; h < shape->heads_q; h++) {
            for (int64_t i = 0; i < shape->len_q; i++) {
                size_t first = row_find(row, shape, NULL, q, k, v, b, h, i) * (size_t)shape->dim;
                row_softmax(row, shape);
                row_output(row, shape, scratch.o, NULL);
                row_backward(row, shape, scratch.o, d_o + first, d_q + first, d_k + (row->k - k),
                             d_v + (row->v - v));
            }
        }
    }
    scratch_free(&scratch);
    return status;
}
