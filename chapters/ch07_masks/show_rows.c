// Checking single rows of problems that are too long for the oracle: attention of one row is
// attention without a mask over the keys that it sees. They are gathered, and the oracle computes
// the row from them.
#include "chapters/ch07_masks/show.h"

#include <math.h>
#include <string.h>

// Whether the list, if there is one, has this key's block for this row.
static bool is_listed(const BlockList *list, int64_t row, int64_t key) {
    if (list == NULL) {
        return true;
    }
    const int64_t i = row / BLOCK_SPARSE;
    for (int32_t at = list->offsets[i]; at < list->offsets[i + 1]; at++) {
        if (list->blocks[at] == key / BLOCK_SPARSE) {
            return true;
        }
    }
    return false;
}

// `rows` rows of `dim` floats as a tensor [1][1][rows][dim], its values left to the caller.
static AttnStatus rows_alloc(Tensor *tensor, int64_t rows, int64_t dim) {
    const int64_t dims[] = {1, 1, rows, dim};
    return tensor_alloc(tensor, DTYPE_F32, 4, dims);
}

AttnStatus check_row(const Problem *problem, const BlockList *list, int64_t head, int64_t row,
                     double *worst) {
    const AttnShape *shape = &problem->shape;
    const int64_t dim = shape->dim, at = head * shape->len_q + row;
    const int64_t kv_head = head / (shape->heads_q / shape->heads_kv);
    const KeyRange range = attn_visible_keys(shape, head / shape->heads_q, row);
    Tensor t[5] = {{0}}; // q, k, v, o, lse
    Expected expected = {0};
    int64_t keys = 0;
    for (int64_t key = range.begin; key < range.end; key++) {
        keys += is_listed(list, row, key);
    }
    const int64_t lengths[] = {1, keys, keys, 1, 1};
    AttnStatus status = ATTN_OK;
    for (int i = 0; i < 5 && status == ATTN_OK; i++) {
        status = rows_alloc(&t[i], lengths[i], i == 4 ? 1 : dim);
    }
    if (status == ATTN_OK) {
        const size_t bytes = (size_t)dim * sizeof(float);
        float *k = t[1].data, *v = t[2].data;
        for (int64_t key = range.begin; key < range.end; key++) {
            if (is_listed(list, row, key)) {
                const int64_t from = (kv_head * shape->len_kv + key) * dim;
                memcpy(k, (const float *)problem->k.data + from, bytes);
                memcpy(v, (const float *)problem->v.data + from, bytes);
                k += dim;
                v += dim;
            }
        }
        memcpy(t[0].data, (const float *)problem->q.data + at * dim, bytes);
        memcpy(t[3].data, (const float *)problem->o.data + at * dim, bytes);
        memcpy(t[4].data, (const float *)problem->lse.data + at, sizeof(float));
        tensor_round_to(&t[3], problem->dtype);
        const AttnShape small = {1, 1, 1, 1, keys, dim, shape->scale, false, 0, NULL};
        status = expected_make(&expected, &small, &t[0], &t[1], &t[2], problem->dtype);
    }
    if (status == ATTN_OK) {
        Comparison o, lse;
        compare_output(&expected, &t[3], &t[4], 0, &o, &lse);
        *worst = fmax(*worst, fmax(o.worst_ratio, lse.worst_ratio));
        expected_free(&expected);
    }
    for (int i = 0; i < 5; i++) {
        tensor_free(&t[i]);
    }
    return status;
}
