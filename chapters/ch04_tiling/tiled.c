// Rung 1: tiles. Blocks of queries outside, blocks of keys inside; a score tile is all that is kept
// of the scores.
//
// Against untiled.c the three passes have become one: for each pair of blocks the tile of scores is
// computed, folded into the rows' m, l and output by the online softmax of chapter 2, and
// forgotten. K and V are read once per block of queries instead of once per query. The inner loops
// are those of untiled.c, so that what differs is the order alone.
//
// A pair in which no row sees a key is skipped. A pair in which every row sees every key needs no
// mask. Only where a boundary of the mask runs through a pair is the range of each row looked up.
#include "chapters/ch04_tiling/tiled.h"

#include <inttypes.h>
#include <math.h>

static int64_t min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static float dot(const float *a, const float *b, int64_t dim) {
    float sum = 0.0F;
    for (int64_t c = 0; c < dim; c++) {
        sum += a[c] * b[c];
    }
    return sum;
}

// ---- which tiles --------------------------------------------------------------------------------

// A block of queries of one batch entry, and what its rows see. From row to row both ends of the
// visible range never fall, so that the first and the last row say it all.
typedef struct QueryBlock {
    int64_t batch_index, row, rows; // rows [row, row + rows) of len_q
    KeyRange any;                   // keys that some row sees
    KeyRange all;                   // keys that every row sees; empty where end <= begin
} QueryBlock;

static QueryBlock query_block(const AttnShape *shape, int64_t batch_index, int64_t row,
                              int64_t block_q) {
    QueryBlock block = {batch_index, row, min_i64(block_q, shape->len_q - row), {0, 0}, {0, 0}};
    const KeyRange first = attn_visible_keys(shape, batch_index, row);
    const KeyRange last = attn_visible_keys(shape, batch_index, row + block.rows - 1);
    block.any = (KeyRange){first.begin, last.end};
    block.all = (KeyRange){last.begin, first.end};
    return block;
}

// The part of a key range that lies in the tile [tile, tile + keys), counted from the tile's start.
static KeyRange range_in_tile(KeyRange range, int64_t tile, int64_t keys) {
    const int64_t begin = min_i64(max_i64(range.begin - tile, 0), keys);
    return (KeyRange){begin, max_i64(begin, min_i64(range.end - tile, keys))};
}

// The first tile that some row of the block sees; the walk ends at any.end.
static int64_t first_tile(const QueryBlock *block, int64_t block_k) {
    return block->any.begin / block_k * block_k;
}

static bool tile_is_full(const QueryBlock *block, int64_t tile, int64_t keys) {
    return block->all.begin <= tile && tile + keys <= block->all.end;
}

static void count_tile(TileCounts *counts, bool full) {
    counts->visited++;
    counts->full += full;
    counts->partial += !full;
}

// Block pairs of a whole problem: blocks of queries times blocks of keys, for every head.
static int64_t all_pairs(const AttnShape *shape, int64_t block_q, int64_t block_k) {
    const int64_t query_blocks = shape->len_q / block_q + (shape->len_q % block_q != 0);
    const int64_t key_blocks = shape->len_kv / block_k + (shape->len_kv % block_k != 0);
    return shape->batch * shape->heads_q * query_blocks * key_blocks;
}

// ---- one tile -----------------------------------------------------------------------------------

// The online softmax update of one row (chapter 2) by the keys of a tile that it sees: scores
// [count], v [count][dim].
static void update_row(const float *scores, const float *v, int64_t count, int64_t dim, float *m,
                       float *l, float *acc) {
    float m_new = *m;
    for (int64_t j = 0; j < count; j++) {
        m_new = scores[j] > m_new ? scores[j] : m_new;
    }
    const float reference = m_new == -INFINITY ? 0.0F : m_new; // -inf - -inf would be NaN
    const float alpha = expf(*m - reference);
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
    *l = alpha * *l + sum;
    *m = m_new;
}

// The workspace of a block of queries.
typedef struct Tile {
    float *scores; // [block_q][block_k]
    float *m, *l;  // [block_q] running maximum and sum of each row
    int64_t block_k;
} Tile;

// One block of queries against one tile of keys: q and o [rows][dim], k and v [keys][dim].
static void attend_tile(const AttnShape *shape, const QueryBlock *block, int64_t tile, int64_t keys,
                        bool full, const float *q, const float *k, const float *v, float *o,
                        const Tile *work) {
    const int64_t dim = shape->dim;
    const float scale = (float)attn_scale(shape);
    for (int64_t r = 0; r < block->rows; r++) {
        KeyRange seen = {0, keys};
        if (!full) {
            seen = range_in_tile(attn_visible_keys(shape, block->batch_index, block->row + r), tile,
                                 keys);
        }
        float *scores = work->scores + r * work->block_k;
        for (int64_t j = seen.begin; j < seen.end; j++) {
            scores[j] = scale * dot(q + r * dim, k + j * dim, dim);
        }
        update_row(scores + seen.begin, v + seen.begin * dim, seen.end - seen.begin, dim,
                   &work->m[r], &work->l[r], o + r * dim);
    }
}

// ---- one block of queries -----------------------------------------------------------------------

// q and o [rows][dim] of the block, lse [rows], k and v [len_kv][dim] of its KV head. The rows of o
// serve as accumulators until the end.
static void attend_block(const AttnShape *shape, const QueryBlock *block, const float *q,
                         const float *k, const float *v, float *o, float *lse, const Tile *work,
                         TileCounts *counts) {
    const int64_t dim = shape->dim;
    for (int64_t r = 0; r < block->rows; r++) {
        work->m[r] = -INFINITY;
        work->l[r] = 0.0F;
    }
    for (int64_t e = 0; e < block->rows * dim; e++) {
        o[e] = 0.0F;
    }
    for (int64_t tile = first_tile(block, work->block_k); tile < block->any.end;
         tile += work->block_k) {
        const int64_t keys = min_i64(work->block_k, shape->len_kv - tile);
        const bool full = tile_is_full(block, tile, keys);
        attend_tile(shape, block, tile, keys, full, q, k + tile * dim, v + tile * dim, o, work);
        count_tile(counts, full);
    }
    for (int64_t r = 0; r < block->rows; r++) {
        const float l = work->l[r];
        for (int64_t c = 0; c < dim; c++) {
            o[r * dim + c] = l == 0.0F ? 0.0F : o[r * dim + c] / l; // l = 0: no key was seen
        }
        lse[r] = work->m[r] + logf(l);
    }
}

// ---- the problem --------------------------------------------------------------------------------

size_t tiled_workspace_floats(const AttnShape *shape, int64_t block_q, int64_t block_k) {
    if (block_q < 1 || block_k < 1) {
        return 0;
    }
    return (size_t)min_i64(block_q, shape->len_q) * (size_t)(min_i64(block_k, shape->len_kv) + 2);
}

TileCounts tiled_count_pairs(const AttnShape *shape, int64_t block_q, int64_t block_k) {
    TileCounts counts = {.all = all_pairs(shape, block_q, block_k)};
    for (int64_t b = 0; b < shape->batch; b++) {
        for (int64_t row = 0; row < shape->len_q; row += block_q) {
            const QueryBlock block = query_block(shape, b, row, block_q);
            for (int64_t tile = first_tile(&block, block_k); tile < block.any.end;
                 tile += block_k) {
                count_tile(&counts,
                           tile_is_full(&block, tile, min_i64(block_k, shape->len_kv - tile)));
            }
        }
    }
    counts.visited *= shape->heads_q;
    counts.full *= shape->heads_q;
    counts.partial *= shape->heads_q;
    return counts;
}

AttnStatus tiled_attention(const AttnShape *shape, const float *q, const float *k, const float *v,
                           int64_t block_q, int64_t block_k, float *o, float *lse, float *workspace,
                           TileCounts *counts) {
    AttnStatus status = attn_check_shape(shape);
    if (status == ATTN_OK) {
        status = attn_check_pointers(shape, q, k, v, o, lse);
    }
    if (status == ATTN_OK && (block_q < 1 || block_k < 1)) {
        status = attn_fail(ATTN_ERR_ARGUMENT, "%s %" PRId64 " must be at least 1",
                           block_q < 1 ? "block_q" : "block_k", block_q < 1 ? block_q : block_k);
    }
    if (status == ATTN_OK && workspace == NULL &&
        tiled_workspace_floats(shape, block_q, block_k) > 0) {
        status = attn_fail(ATTN_ERR_ARGUMENT, "workspace is a null pointer");
    }
    if (status != ATTN_OK) {
        return status;
    }
    const int64_t len_q = shape->len_q, len_kv = shape->len_kv, dim = shape->dim;
    block_q = min_i64(block_q, len_q);
    block_k = max_i64(1, min_i64(block_k, len_kv));
    TileCounts done = {0};
    if (attn_count_lse(shape) > 0) {
        done.all = all_pairs(shape, block_q, block_k);
    }
    for (int64_t b = 0; b < shape->batch && len_q > 0; b++) {
        const Tile work = {workspace + 2 * block_q, workspace, workspace + block_q, block_k};
        for (int64_t h = 0; h < shape->heads_q; h++) {
            const int64_t q_head = b * shape->heads_q + h;
            const int64_t kv = (b * shape->heads_kv + attn_kv_head(shape, h)) * len_kv * dim;
            for (int64_t row = 0; row < len_q; row += block_q) {
                const QueryBlock block = query_block(shape, b, row, block_q);
                const int64_t first = q_head * len_q + row;
                attend_block(shape, &block, q + first * dim, k + kv, v + kv, o + first * dim,
                             lse + first, &work, &done);
            }
        }
    }
    if (counts != NULL) {
        *counts = done;
    }
    return ATTN_OK;
}
