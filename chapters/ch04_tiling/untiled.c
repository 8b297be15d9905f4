// Rung 0, the baseline: chapter 1's three passes, whole score matrices stored between them.
#include "chapters/ch04_tiling/tiled.h"

#include <math.h>

size_t untiled_workspace_floats(const AttnShape *shape) {
    return 2 * (size_t)shape->len_q * (size_t)shape->len_kv;
}

static float dot(const float *a, const float *b, int64_t dim) {
    float sum = 0.0F;
    for (int64_t c = 0; c < dim; c++) {
        sum += a[c] * b[c];
    }
    return sum;
}

// Pass 1: S = scale Q K^T of one head; -inf where a query does not see the key, which is not read.
static void scores_pass(const AttnShape *shape, int64_t batch_index, const float *q, const float *k,
                        float *scores) {
    const int64_t len_kv = shape->len_kv, dim = shape->dim;
    const float scale = (float)attn_scale(shape);
    for (int64_t i = 0; i < shape->len_q; i++) {
        const KeyRange visible = attn_visible_keys(shape, batch_index, i);
        for (int64_t j = 0; j < len_kv; j++) {
            const bool seen = j >= visible.begin && j < visible.end;
            scores[i * len_kv + j] = seen ? scale * dot(q + i * dim, k + j * dim, dim) : -INFINITY;
        }
    }
}

// Pass 2: P = softmax(S), row by row, and LSE = m + log(l).
static void softmax_pass(const AttnShape *shape, const float *scores, float *probs, float *lse) {
    const int64_t len_kv = shape->len_kv;
    for (int64_t i = 0; i < shape->len_q; i++) {
        const float *s = scores + i * len_kv;
        float *p = probs + i * len_kv;
        float m = -INFINITY;
        for (int64_t j = 0; j < len_kv; j++) {
            m = s[j] > m ? s[j] : m;
        }
        float l = 0.0F;
        for (int64_t j = 0; j < len_kv; j++) {
            p[j] = s[j] == -INFINITY ? 0.0F : expf(s[j] - m);
            l += p[j];
        }
        for (int64_t j = 0; j < len_kv && l != 0.0F; j++) {
            p[j] /= l;
        }
        lse[i] = l == 0.0F ? -INFINITY : m + logf(l);
    }
}

// Pass 3: O = P V over the keys that each row sees.
static void values_pass(const AttnShape *shape, int64_t batch_index, const float *probs,
                        const float *v, float *o) {
    const int64_t len_kv = shape->len_kv, dim = shape->dim;
    for (int64_t i = 0; i < shape->len_q; i++) {
        const KeyRange visible = attn_visible_keys(shape, batch_index, i);
        for (int64_t c = 0; c < dim; c++) {
            o[i * dim + c] = 0.0F;
        }
        for (int64_t j = visible.begin; j < visible.end; j++) {
            const float p = probs[i * len_kv + j];
            for (int64_t c = 0; c < dim; c++) {
                o[i * dim + c] += p * v[j * dim + c];
            }
        }
    }
}

AttnStatus untiled_attention(const AttnShape *shape, const float *q, const float *k, const float *v,
                             float *o, float *lse, float *workspace) {
    AttnStatus status = attn_check_shape(shape);
    if (status == ATTN_OK) {
        status = attn_check_pointers(shape, q, k, v, o, lse);
    }
    if (status != ATTN_OK) {
        return status;
    }
    if (workspace == NULL && shape->len_q > 0 && shape->len_kv > 0) {
        return attn_fail(ATTN_ERR_ARGUMENT, "workspace is a null pointer");
    }
    const int64_t len_q = shape->len_q, len_kv = shape->len_kv, dim = shape->dim;
    float *scores = workspace;                 // [len_q][len_kv]
    float *probs = workspace + len_q * len_kv; // [len_q][len_kv]
    for (int64_t b = 0; b < shape->batch; b++) {
        for (int64_t h = 0; h < shape->heads_q; h++) {
            const int64_t q_head = b * shape->heads_q + h;
            const int64_t kv_head = b * shape->heads_kv + attn_kv_head(shape, h);
            scores_pass(shape, b, q + q_head * len_q * dim, k + kv_head * len_kv * dim, scores);
            softmax_pass(shape, scores, probs, lse + q_head * len_q);
            values_pass(shape, b, probs, v + kv_head * len_kv * dim, o + q_head * len_q * dim);
        }
    }
    return ATTN_OK;
}
