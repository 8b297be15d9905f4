// Online softmax, from safe softmax to attention without a score row.
//
// Read from the top: the update is the lesson, the row functions are the steps that lead to it, and
// online_attention at the end applies it to every row of a problem. Against ch01 the score and
// probability matrices are gone; a block of block_k scores is left.
//
// -inf appears in two places: as the maximum of a row that has seen no key, and as a score. The
// difference of two -inf is NaN, so every exponent here is taken against exp_reference(m).
#include "chapters/ch02_online_softmax/online.h"

#include <inttypes.h>
#include <math.h>

// What is taken off a score before exp. It stands in for m inside the exponent only; m keeps -inf.
static float exp_reference(float m) {
    return m == -INFINITY ? 0.0F : m;
}

void online_softmax_begin(OnlineState *state, float *acc, int64_t dim) {
    *state = (OnlineState){.m = -INFINITY, .l = 0.0F, .acc = acc, .dim = dim};
    for (int64_t c = 0; c < dim; c++) {
        acc[c] = 0.0F;
    }
}

void online_softmax_update(OnlineState *state, const float *scores, const float *v, int64_t count) {
    const int64_t dim = state->dim;
    float *acc = state->acc;

    float m_new = state->m;
    for (int64_t j = 0; j < count; j++) {
        m_new = scores[j] > m_new ? scores[j] : m_new;
    }

    // alpha turns what was summed against the old maximum into sums against the new one.
    const float reference = exp_reference(m_new);
    const float alpha = expf(state->m - reference);
    for (int64_t c = 0; c < dim; c++) {
        acc[c] *= alpha;
    }

    float sum = 0.0F;
    for (int64_t j = 0; j < count; j++) {
        const float p = expf(scores[j] - reference);
        sum += p;
        for (int64_t c = 0; c < dim; c++) {
            acc[c] += p * v[j * dim + c];
        }
    }
    state->l = alpha * state->l + sum;
    state->m = m_new;
}

// o = acc / l. l is 0 only where no key was seen, and acc is 0 there.
static float divide_and_lse(float m, float l, const float *acc, float *o, int64_t dim) {
    for (int64_t c = 0; c < dim; c++) {
        o[c] = l == 0.0F ? 0.0F : acc[c] / l;
    }
    return m + logf(l);
}

float online_softmax_end(const OnlineState *state, float *o) {
    return divide_and_lse(state->m, state->l, state->acc, o, state->dim);
}

// ---- one row, step by step ----------------------------------------------------------------------

float row_unguarded(const ScoreRow *row, float *o) {
    float l = 0.0F;
    for (int64_t c = 0; c < row->dim; c++) {
        o[c] = 0.0F;
    }
    for (int64_t j = 0; j < row->count; j++) {
        const float p = expf(row->scores[j]);
        l += p;
        for (int64_t c = 0; c < row->dim; c++) {
            o[c] += p * row->v[j * row->dim + c];
        }
    }
    return divide_and_lse(0.0F, l, o, o, row->dim);
}

float row_safe(const ScoreRow *row, float *p, float *o) {
    float m = -INFINITY; // pass 1: the maximum
    for (int64_t j = 0; j < row->count; j++) {
        m = row->scores[j] > m ? row->scores[j] : m;
    }
    const float reference = exp_reference(m);
    float l = 0.0F; // pass 2: the sum
    for (int64_t j = 0; j < row->count; j++) {
        p[j] = expf(row->scores[j] - reference);
        l += p[j];
    }
    for (int64_t c = 0; c < row->dim; c++) {
        o[c] = 0.0F;
    }
    for (int64_t j = 0; j < row->count; j++) { // pass 3: the weights, and the output with them
        const float weight = l == 0.0F ? 0.0F : p[j] / l;
        for (int64_t c = 0; c < row->dim; c++) {
            o[c] += weight * row->v[j * row->dim + c];
        }
    }
    return m + logf(l);
}

float row_by_element(const ScoreRow *row, float *o, RowCost *cost) {
    const int64_t dim = row->dim;
    float m = -INFINITY, l = 0.0F;
    *cost = (RowCost){0};
    for (int64_t c = 0; c < dim; c++) {
        o[c] = 0.0F;
    }
    for (int64_t j = 0; j < row->count; j++) {
        const float m_new = row->scores[j] > m ? row->scores[j] : m;
        const float alpha = expf(m - exp_reference(m_new));
        const float p = expf(row->scores[j] - exp_reference(m_new));
        l = alpha * l + p;
        for (int64_t c = 0; c < dim; c++) {
            o[c] = alpha * o[c] + p * row->v[j * dim + c];
        }
        m = m_new;
        cost->exps += 2;
        cost->rescales += dim + 1;
    }
    cost->divisions += dim;
    return divide_and_lse(m, l, o, o, dim);
}

float row_by_block(const ScoreRow *row, int64_t block, float *o, RowCost *cost) {
    const int64_t dim = row->dim;
    OnlineState state;
    *cost = (RowCost){0};
    online_softmax_begin(&state, o, dim);
    for (int64_t j = 0; j < row->count; j += block) {
        const int64_t count = row->count - j < block ? row->count - j : block;
        online_softmax_update(&state, row->scores + j, row->v + j * dim, count);
        cost->exps += count + 1;
        cost->rescales += dim + 1;
    }
    cost->divisions += dim;
    return online_softmax_end(&state, o);
}

// The same recurrence on the quotient: o_new = (alpha * l * o + sum of p * v) / l_new, the form in
// which FlashAttention's first paper states it.
float row_divide_each_block(const ScoreRow *row, int64_t block, float *o, RowCost *cost) {
    const int64_t dim = row->dim;
    OnlineState state;
    *cost = (RowCost){0};
    online_softmax_begin(&state, o, dim);
    for (int64_t j = 0; j < row->count; j += block) {
        const int64_t count = row->count - j < block ? row->count - j : block;
        for (int64_t c = 0; c < dim; c++) {
            o[c] *= state.l; // undo the last division
        }
        online_softmax_update(&state, row->scores + j, row->v + j * dim, count);
        online_softmax_end(&state, o);
        cost->exps += count + 1;
        cost->rescales += 2 * dim + 1;
        cost->divisions += dim;
    }
    return state.m + logf(state.l);
}

// ---- the kernel ---------------------------------------------------------------------------------

static int64_t min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static float dot(const float *a, const float *b, int64_t dim) {
    float sum = 0.0F;
    for (int64_t c = 0; c < dim; c++) {
        sum += a[c] * b[c];
    }
    return sum;
}

size_t online_workspace_floats(const AttnShape *shape, int64_t block_k) {
    return block_k < 1 ? 0 : (size_t)min_i64(block_k, shape->len_kv);
}

// One row: q [dim]; k, v [..][dim], of which the rows `keys` are read; scores [block] is workspace;
// o [dim] is the accumulator until the end. Returns the row's log-sum-exp.
static float online_row(const float *q, const float *k, const float *v, KeyRange keys, int64_t dim,
                        float scale, int64_t block, float *scores, float *o) {
    OnlineState state;
    online_softmax_begin(&state, o, dim);
    for (int64_t begin = keys.begin; begin < keys.end; begin += block) {
        const int64_t count = min_i64(block, keys.end - begin);
        for (int64_t j = 0; j < count; j++) {
            scores[j] = scale * dot(q, k + (begin + j) * dim, dim);
        }
        online_softmax_update(&state, scores, v + begin * dim, count);
    }
    return online_softmax_end(&state, o);
}

AttnStatus online_attention(const AttnShape *shape, const float *q, const float *k, const float *v,
                            int64_t block_k, float *o, float *lse, float *workspace) {
    AttnStatus status = attn_check_shape(shape);
    if (status == ATTN_OK) {
        status = attn_check_pointers(shape, q, k, v, o, lse);
    }
    if (status == ATTN_OK && block_k < 1) {
        status = attn_fail(ATTN_ERR_ARGUMENT, "block_k %" PRId64 " must be at least 1", block_k);
    }
    if (status == ATTN_OK && workspace == NULL && online_workspace_floats(shape, block_k) > 0) {
        status = attn_fail(ATTN_ERR_ARGUMENT, "workspace is a null pointer");
    }
    if (status != ATTN_OK) {
        return status;
    }
    const int64_t len_q = shape->len_q, len_kv = shape->len_kv, dim = shape->dim;
    const int64_t block = min_i64(block_k, len_kv);
    const float scale = (float)attn_scale(shape);
    for (int64_t b = 0; b < shape->batch; b++) {
        for (int64_t h = 0; h < shape->heads_q; h++) {
            // The keys of this head begin at row `first` of K and V seen as [rows][dim].
            const int64_t first = (b * shape->heads_kv + attn_kv_head(shape, h)) * len_kv;
            for (int64_t i = 0; i < len_q; i++) {
                const int64_t row = (b * shape->heads_q + h) * len_q + i;
                const KeyRange visible = attn_visible_keys(shape, b, i);
                const KeyRange keys = {first + visible.begin, first + visible.end};
                lse[row] = online_row(q + row * dim, k, v, keys, dim, scale, block, workspace,
                                      o + row * dim);
            }
        }
    }
    return ATTN_OK;
}
