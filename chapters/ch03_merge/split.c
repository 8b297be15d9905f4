// Attention over split keys: every part of every row by itself, then the merge.
//
// Against ch02 the loop over the keys of a row is cut into parts that know nothing of each other,
// so that threads can work on one row together. What each part leaves behind is its own O and LSE.
#include "chapters/ch03_merge/merge.h"

#include <inttypes.h>
#ifdef _OPENMP
#include <omp.h>
#endif

KeyRange split_range(int64_t count, int64_t parts, int64_t index) {
    const int64_t size = count / parts, larger = count % parts; // the first `larger` get one more
    const int64_t begin = index * size + (index < larger ? index : larger);
    return (KeyRange){begin, begin + size + (index < larger ? 1 : 0)};
}

// Parts of a row that are computed: more than there are keys would only add empty ones.
static int64_t count_parts(const AttnShape *shape, int64_t splits) {
    const int64_t most = shape->len_kv > 1 ? shape->len_kv : 1;
    return splits < most ? splits : most;
}

size_t split_workspace_floats(const AttnShape *shape, int64_t splits) {
    if (splits < 1) {
        return 0;
    }
    return attn_count_lse(shape) * (size_t)count_parts(shape, splits) * (size_t)(shape->dim + 1);
}

// One row over the keys [keys.begin, keys.end) of k and v [..][dim]: chapter 2's online softmax, a
// key at a time. o [dim] is the accumulator until the end. Returns the log-sum-exp.
static float attend(const float *q, const float *k, const float *v, KeyRange keys, int64_t dim,
                    float scale, float *o) {
    float m = -INFINITY, l = 0.0F;
    for (int64_t c = 0; c < dim; c++) {
        o[c] = 0.0F;
    }
    for (int64_t j = keys.begin; j < keys.end; j++) {
        float dot = 0.0F;
        for (int64_t c = 0; c < dim; c++) {
            dot += q[c] * k[j * dim + c];
        }
        const float score = scale * dot;
        if (score > m) { // a new maximum: what was summed against the old one is corrected
            const float alpha = expf(m - score);
            l *= alpha;
            for (int64_t c = 0; c < dim; c++) {
                o[c] *= alpha;
            }
            m = score;
        }
        const float p = expf(score - (m == -INFINITY ? 0.0F : m)); // -inf - -inf would be NaN
        l += p;
        for (int64_t c = 0; c < dim; c++) {
            o[c] += p * v[j * dim + c];
        }
    }
    for (int64_t c = 0; c < dim; c++) {
        o[c] = l == 0.0F ? 0.0F : o[c] / l;
    }
    return m + logf(l);
}

static AttnStatus check_arguments(const AttnShape *shape, const float *q, const float *k,
                                  const float *v, int64_t splits, int threads, const float *o,
                                  const float *lse, const float *workspace) {
    AttnStatus status = attn_check_shape(shape);
    if (status == ATTN_OK) {
        status = attn_check_pointers(shape, q, k, v, o, lse);
    }
    if (status == ATTN_OK && splits < 1) {
        status = attn_fail(ATTN_ERR_ARGUMENT, "splits %" PRId64 " must be at least 1", splits);
    }
    if (status == ATTN_OK && threads < 0) {
        status = attn_fail(ATTN_ERR_ARGUMENT, "threads %d must not be negative (0: all)", threads);
    }
    if (status == ATTN_OK && workspace == NULL && split_workspace_floats(shape, splits) > 0) {
        status = attn_fail(ATTN_ERR_ARGUMENT, "workspace is a null pointer");
    }
    return status;
}

AttnStatus split_attention(const AttnShape *shape, const float *q, const float *k, const float *v,
                           int64_t splits, int threads, float *o, float *lse, float *workspace) {
    const AttnStatus status = check_arguments(shape, q, k, v, splits, threads, o, lse, workspace);
    const int64_t rows = status == ATTN_OK ? (int64_t)attn_count_lse(shape) : 0;
    if (rows == 0) {
        return status;
    }
#ifdef _OPENMP
    threads = threads == 0 ? omp_get_max_threads() : threads;
#endif
    const int64_t len_q = shape->len_q, dim = shape->dim;
    const int64_t parts = count_parts(shape, splits);
    const float scale = (float)attn_scale(shape);
    float *o_parts = workspace;                        // [rows][parts][dim]
    float *lse_parts = workspace + rows * parts * dim; // [rows][parts]

#ifdef _OPENMP
#pragma omp parallel for num_threads(threads) schedule(dynamic)
#endif
    for (int64_t part = 0; part < rows * parts; part++) {
        const int64_t row = part / parts, head = row / len_q; // head: of batch * heads_q
        const int64_t b = head / shape->heads_q;
        const int64_t kv_head = b * shape->heads_kv + attn_kv_head(shape, head % shape->heads_q);
        const int64_t first = kv_head * shape->len_kv; // its keys, in rows of K and V
        const KeyRange visible = attn_visible_keys(shape, b, row % len_q);
        const KeyRange range = split_range(visible.end - visible.begin, parts, part % parts);
        const KeyRange keys = {first + visible.begin + range.begin,
                               first + visible.begin + range.end};
        lse_parts[part] = attend(q + row * dim, k, v, keys, dim, scale, o_parts + part * dim);
    }
#ifdef _OPENMP
#pragma omp parallel for num_threads(threads)
#endif
    for (int64_t row = 0; row < rows; row++) {
        merge_many(parts, dim, o_parts + row * parts * dim, lse_parts + row * parts, o + row * dim,
                   lse + row);
    }
    return ATTN_OK;
}
