// Rung 2: the same tiles, not fused. Every operation is a function that passes once over whole tile
// buffers in memory, the way a framework issues its operations, and each is counted.
//
// Against tiled.c the algorithm, the tiles and the results are the same, up to rounding. There a
// score is scaled, exponentiated and multiplied with a value while it is at hand; here every step
// is finished for the whole tile, and stored, before the next begins.
#include "chapters/ch04_tiling/tiled.h"

#include <inttypes.h>
#include <math.h>

static int64_t min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

// A dense matrix in memory, a column where columns = 1.
typedef struct Matrix {
    float *data; // [rows][columns]
    int64_t rows, columns;
} Matrix;

static int64_t size_of(Matrix a) {
    return a.rows * a.columns;
}

// Which keys of a tile a row sees; needed for pairs on a boundary of the mask only.
typedef struct TileMask {
    const AttnShape *shape;
    int64_t batch_index, row; // of the block's first row
    int64_t tile, keys;       // the tile's first key, and how many it has
} TileMask;

// The keys that row r of the block sees, counted from the tile's start.
static KeyRange mask_row(const TileMask *mask, int64_t r) {
    const KeyRange seen = attn_visible_keys(mask->shape, mask->batch_index, mask->row + r);
    const int64_t begin = min_i64(max_i64(seen.begin - mask->tile, 0), mask->keys);
    return (KeyRange){begin, max_i64(begin, min_i64(seen.end - mask->tile, mask->keys))};
}

// ---- the operations -----------------------------------------------------------------------------

// Every operation begins with this: one more, which moves so many elements.
static void count_operation(OperationCounts *counts, int64_t elements) {
    counts->operations++;
    counts->elements += elements;
}

// a[..] = x
static void op_fill(OperationCounts *counts, Matrix a, float x) {
    count_operation(counts, size_of(a));
    for (int64_t e = 0; e < size_of(a); e++) {
        a.data[e] = x;
    }
}

// s = q k^T, over the whole tile: what a mask hides is computed too.
static void op_scores(OperationCounts *counts, Matrix s, const float *q, const float *k,
                      int64_t dim) {
    count_operation(counts, size_of(s) + (s.rows + s.columns) * dim);
    for (int64_t i = 0; i < s.rows; i++) {
        for (int64_t j = 0; j < s.columns; j++) {
            float sum = 0.0F;
            for (int64_t c = 0; c < dim; c++) {
                sum += q[i * dim + c] * k[j * dim + c];
            }
            s.data[i * s.columns + j] = sum;
        }
    }
}

// a = x a
static void op_scale(OperationCounts *counts, Matrix a, float x) {
    count_operation(counts, 2 * size_of(a));
    for (int64_t e = 0; e < size_of(a); e++) {
        a.data[e] *= x;
    }
}

// s = -inf where a row does not see the key: a selection, so that nothing of a hidden score is
// left.
static void op_mask(OperationCounts *counts, Matrix s, const TileMask *mask) {
    count_operation(counts, 2 * size_of(s));
    for (int64_t i = 0; i < s.rows; i++) {
        const KeyRange seen = mask_row(mask, i);
        for (int64_t j = 0; j < s.columns; j++) {
            const bool visible = j >= seen.begin && j < seen.end;
            s.data[i * s.columns + j] = visible ? s.data[i * s.columns + j] : -INFINITY;
        }
    }
}

// column = the largest element of each row
static void op_row_max(OperationCounts *counts, Matrix column, Matrix s) {
    count_operation(counts, size_of(s) + size_of(column));
    for (int64_t i = 0; i < s.rows; i++) {
        float m = -INFINITY;
        for (int64_t j = 0; j < s.columns; j++) {
            const float x = s.data[i * s.columns + j];
            m = x > m ? x : m;
        }
        column.data[i] = m;
    }
}

// column = the sum of each row
static void op_row_sum(OperationCounts *counts, Matrix column, Matrix s) {
    count_operation(counts, size_of(s) + size_of(column));
    for (int64_t i = 0; i < s.rows; i++) {
        float sum = 0.0F;
        for (int64_t j = 0; j < s.columns; j++) {
            sum += s.data[i * s.columns + j];
        }
        column.data[i] = sum;
    }
}

// a = the larger of b and c, element by element
static void op_maximum(OperationCounts *counts, Matrix a, Matrix b, Matrix c) {
    count_operation(counts, 3 * size_of(a));
    for (int64_t e = 0; e < size_of(a); e++) {
        a.data[e] = c.data[e] > b.data[e] ? c.data[e] : b.data[e];
    }
}

// a = b - m, m a column: an element off each row. Where m is -inf, 0 stands in for it (chapter 2).
static void op_subtract_rows(OperationCounts *counts, Matrix a, Matrix b, Matrix m) {
    count_operation(counts, 2 * size_of(a) + size_of(m));
    for (int64_t i = 0; i < a.rows; i++) {
        const float reference = m.data[i] == -INFINITY ? 0.0F : m.data[i];
        for (int64_t j = 0; j < a.columns; j++) {
            a.data[i * a.columns + j] = b.data[i * a.columns + j] - reference;
        }
    }
}

// a = exp(a)
static void op_exp(OperationCounts *counts, Matrix a) {
    count_operation(counts, 2 * size_of(a));
    for (int64_t e = 0; e < size_of(a); e++) {
        a.data[e] = expf(a.data[e]);
    }
}

// a = log(a)
static void op_log(OperationCounts *counts, Matrix a) {
    count_operation(counts, 2 * size_of(a));
    for (int64_t e = 0; e < size_of(a); e++) {
        a.data[e] = logf(a.data[e]);
    }
}

// a = a x, x a column: each row times an element
static void op_multiply_rows(OperationCounts *counts, Matrix a, Matrix x) {
    count_operation(counts, 2 * size_of(a) + size_of(x));
    for (int64_t i = 0; i < a.rows; i++) {
        for (int64_t j = 0; j < a.columns; j++) {
            a.data[i * a.columns + j] *= x.data[i];
        }
    }
}

// a = a / x, x a column; 0 where x is 0: a row that saw no key
static void op_divide_rows(OperationCounts *counts, Matrix a, Matrix x) {
    count_operation(counts, 2 * size_of(a) + size_of(x));
    for (int64_t i = 0; i < a.rows; i++) {
        for (int64_t j = 0; j < a.columns; j++) {
            float *element = &a.data[i * a.columns + j];
            *element = x.data[i] == 0.0F ? 0.0F : *element / x.data[i];
        }
    }
}

// a = b + c
static void op_add(OperationCounts *counts, Matrix a, Matrix b, Matrix c) {
    count_operation(counts, 3 * size_of(a));
    for (int64_t e = 0; e < size_of(a); e++) {
        a.data[e] = b.data[e] + c.data[e];
    }
}

// out = p v. A hidden key's p is 0, but 0 * NaN is NaN: with a mask its value is left out.
static void op_values(OperationCounts *counts, Matrix out, Matrix p, const float *v,
                      const TileMask *mask) {
    count_operation(counts, size_of(out) + size_of(p) + p.columns * out.columns);
    for (int64_t i = 0; i < p.rows; i++) {
        const KeyRange seen = mask != NULL ? mask_row(mask, i) : (KeyRange){0, p.columns};
        float *row = out.data + i * out.columns;
        for (int64_t c = 0; c < out.columns; c++) {
            row[c] = 0.0F;
        }
        for (int64_t j = seen.begin; j < seen.end; j++) {
            const float weight = p.data[i * p.columns + j];
            for (int64_t c = 0; c < out.columns; c++) {
                row[c] += weight * v[j * out.columns + c];
            }
        }
    }
}

// ---- one block of queries -----------------------------------------------------------------------

// The buffers of a block of queries.
typedef struct Buffers {
    float *scores;                              // [rows][keys]
    float *products;                            // [rows][dim]
    float *m, *m_new, *l, *alpha, *row_results; // [rows] each
} Buffers;

// One tile of keys: 14 operations, and one more where a mask boundary runs through the tile.
static void attend_tile(OperationCounts *counts, const TileMask *mask, bool full, const float *q,
                        const float *k, const float *v, Matrix acc, Buffers *buffers) {
    const int64_t rows = acc.rows, dim = acc.columns;
    const Matrix s = {buffers->scores, rows, mask->keys};
    const Matrix products = {buffers->products, rows, dim};
    const Matrix m = {buffers->m, rows, 1}, m_new = {buffers->m_new, rows, 1};
    const Matrix l = {buffers->l, rows, 1}, alpha = {buffers->alpha, rows, 1};
    const Matrix row_results = {buffers->row_results, rows, 1};

    op_scores(counts, s, q, k, dim);
    op_scale(counts, s, (float)attn_scale(mask->shape));
    if (!full) {
        op_mask(counts, s, mask);
    }
    op_row_max(counts, row_results, s);
    op_maximum(counts, m_new, m, row_results);
    op_subtract_rows(counts, alpha, m, m_new);
    op_exp(counts, alpha);
    op_subtract_rows(counts, s, s, m_new);
    op_exp(counts, s);
    op_row_sum(counts, row_results, s);
    op_multiply_rows(counts, l, alpha);
    op_add(counts, l, l, row_results);
    op_multiply_rows(counts, acc, alpha);
    op_values(counts, products, s, v, full ? NULL : mask);
    op_add(counts, acc, acc, products);

    buffers->m = m_new.data; // the old maximum's column becomes the next one's
    buffers->m_new = m.data;
}

// The rows [mask->row, mask->row + acc.rows) of one head: q and acc [rows][dim], k and v
// [len_kv][dim]; acc is the block's rows of O, lse [rows].
static void attend_block(OperationCounts *counts, TileMask *mask, const float *q, const float *k,
                         const float *v, Matrix acc, float *lse, int64_t block_k,
                         Buffers *buffers) {
    const AttnShape *shape = mask->shape;
    const int64_t last_row = mask->row + acc.rows - 1;
    const KeyRange first = attn_visible_keys(shape, mask->batch_index, mask->row);
    const KeyRange last = attn_visible_keys(shape, mask->batch_index, last_row);
    op_fill(counts, (Matrix){buffers->m, acc.rows, 1}, -INFINITY);
    op_fill(counts, (Matrix){buffers->l, acc.rows, 1}, 0.0F);
    op_fill(counts, acc, 0.0F);
    for (mask->tile = first.begin / block_k * block_k; mask->tile < last.end;
         mask->tile += block_k) {
        mask->keys = min_i64(block_k, shape->len_kv - mask->tile);
        const bool full = last.begin <= mask->tile && mask->tile + mask->keys <= first.end;
        attend_tile(counts, mask, full, q, k + mask->tile * acc.columns,
                    v + mask->tile * acc.columns, acc, buffers);
    }
    op_divide_rows(counts, acc, (Matrix){buffers->l, acc.rows, 1});
    op_log(counts, (Matrix){buffers->l, acc.rows, 1});
    op_add(counts, (Matrix){lse, acc.rows, 1}, (Matrix){buffers->m, acc.rows, 1},
           (Matrix){buffers->l, acc.rows, 1});
}

// ---- the problem --------------------------------------------------------------------------------

size_t tiled_unfused_workspace_floats(const AttnShape *shape, int64_t block_q, int64_t block_k) {
    if (block_q < 1 || block_k < 1) {
        return 0;
    }
    const int64_t columns = min_i64(block_k, shape->len_kv) + shape->dim + 5;
    return (size_t)min_i64(block_q, shape->len_q) * (size_t)columns;
}

AttnStatus tiled_unfused_attention(const AttnShape *shape, const float *q, const float *k,
                                   const float *v, int64_t block_q, int64_t block_k, float *o,
                                   float *lse, float *workspace, OperationCounts *counts) {
    AttnStatus status = attn_check_shape(shape);
    if (status == ATTN_OK) {
        status = attn_check_pointers(shape, q, k, v, o, lse);
    }
    if (status == ATTN_OK && (block_q < 1 || block_k < 1)) {
        status = attn_fail(ATTN_ERR_ARGUMENT, "%s %" PRId64 " must be at least 1",
                           block_q < 1 ? "block_q" : "block_k", block_q < 1 ? block_q : block_k);
    }
    if (status == ATTN_OK && workspace == NULL &&
        tiled_unfused_workspace_floats(shape, block_q, block_k) > 0) {
        status = attn_fail(ATTN_ERR_ARGUMENT, "workspace is a null pointer");
    }
    if (status != ATTN_OK) {
        return status;
    }
    const int64_t len_q = shape->len_q, len_kv = shape->len_kv, dim = shape->dim;
    block_q = min_i64(block_q, len_q);
    block_k = max_i64(1, min_i64(block_k, len_kv));
    OperationCounts done = {0};
    for (int64_t b = 0; b < shape->batch && len_q > 0; b++) {
        float *columns = workspace + block_q * (min_i64(block_k, len_kv) + dim);
        Buffers buffers = {workspace,
                           workspace + block_q * min_i64(block_k, len_kv),
                           columns,
                           columns + block_q,
                           columns + 2 * block_q,
                           columns + 3 * block_q,
                           columns + 4 * block_q};
        for (int64_t h = 0; h < shape->heads_q; h++) {
            const int64_t q_head = b * shape->heads_q + h;
            const int64_t kv = (b * shape->heads_kv + attn_kv_head(shape, h)) * len_kv * dim;
            for (int64_t row = 0; row < len_q; row += block_q) {
                TileMask mask = {shape, b, row, 0, 0};
                const int64_t first = q_head * len_q + row;
                const Matrix acc = {o + first * dim, min_i64(block_q, len_q - row), dim};
                attend_block(&done, &mask, q + first * dim, k + kv, v + kv, acc, lse + first,
                             block_k, &buffers);
            }
        }
    }
    if (counts != NULL) {
        *counts = done;
    }
    return ATTN_OK;
}
