// The loops of tiled_simd.c for few queries (decode), for one vector width: lanes go along dim.
// Included once per width behind tiled_simd_panel.h, whose definitions it uses and ends.

// The sum of the lanes: four by four, then these four.
TARGET static inline float SIMD(lane_sum)(Vec x) {
    const union {
        Vec whole;
        Quad part[LANES / 4];
    } lanes = {x};
    Quad sum = lanes.part[0];
    UNROLL
    for (int i = 1; i < LANES / 4; i++) {
        sum += lanes.part[i];
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// The dot products of one query with `keys` keys (a constant at each call, at most ROW_KEYS): their
// sums are chains of additions that do not wait for each other.
TARGET static inline __attribute__((always_inline)) void SIMD(dots)(const int keys, const float *q,
                                                                    const float *k, int64_t dim,
                                                                    float *scores) {
    Vec sum[ROW_KEYS];
    UNROLL
    for (int j = 0; j < keys; j++) {
        sum[j] = (Vec){0};
    }
    int64_t c = 0;
    for (; c + LANES <= dim; c += LANES) {
        const Vec x = *(const Vec *)(q + c);
        UNROLL
        for (int j = 0; j < keys; j++) {
            sum[j] += x * *(const Vec *)(k + j * dim + c);
        }
    }
    UNROLL
    for (int j = 0; j < keys; j++) {
        float dot = SIMD(lane_sum)(sum[j]);
        for (int64_t rest = c; rest < dim; rest++) {
            dot += q[rest] * k[j * dim + rest];
        }
        scores[j] = dot;
    }
}

// acc[dim] += the sum over `keys` keys of p_j v_j.
TARGET static inline __attribute__((always_inline)) void SIMD(add_values)(
    const int keys, float *acc, const float *p, const float *v, int64_t dim) {
    int64_t c = 0;
    for (; c + LANES <= dim; c += LANES) {
        Vec sum = *(const Vec *)(acc + c);
        UNROLL
        for (int j = 0; j < keys; j++) {
            sum += p[j] * *(const Vec *)(v + j * dim + c);
        }
        *(Vec *)(acc + c) = sum;
    }
    for (; c < dim; c++) {
        for (int j = 0; j < keys; j++) {
            acc[c] += p[j] * v[j * dim + c];
        }
    }
}

// The online softmax update (ch02) of one query for `width` scores, a multiple of LANES, in place.
TARGET static void SIMD(update_row)(Row *row, float *p, int64_t width, int64_t dim) {
    Vec highest = (Vec){0} - INFINITY;
    for (int64_t j = 0; j < width; j += LANES) {
        const Vec s = *(const Vec *)(p + j);
        highest = SIMD(select)(s > highest, s, highest);
    }
    float m_new = row->m;
    for (int lane = 0; lane < LANES; lane++) {
        m_new = highest[lane] > m_new ? highest[lane] : m_new;
    }
    const float reference = m_new == -INFINITY ? 0.0F : m_new; // -inf - -inf would be NaN
    Vec sum = {0};
    for (int64_t j = 0; j < width; j += LANES) {
        const Vec x = SIMD(exp)(*(const Vec *)(p + j) - reference);
        *(Vec *)(p + j) = x;
        sum += x;
    }
    const float alpha = expf(row->m - reference);
    for (int64_t c = 0; c < dim; c++) {
        row->acc[c] *= alpha;
    }
    row->l = row->l * alpha + SIMD(lane_sum)(sum);
    row->m = m_new;
}

// Scores and softmax of one query for the `count` keys of a tile that it sees: k [count][dim],
// p [BLOCK_K] takes the exponentials.
TARGET static void SIMD(row_tile)(Row *row, const float *k, int64_t count, int64_t dim, float *p) {
    int64_t j = 0;
    for (; j + ROW_KEYS <= count; j += ROW_KEYS) {
        SIMD(dots)(ROW_KEYS, row->q, k + j * dim, dim, p + j);
    }
    for (; j < count; j++) {
        SIMD(dots)(1, row->q, k + j * dim, dim, p + j);
    }
    for (; j % LANES != 0; j++) {
        p[j] = -INFINITY; // fills the last vector: its exponentials are 0
    }
    SIMD(update_row)(row, p, j, dim);
}

// Their values, v [count][dim], weighted with p.
TARGET static void SIMD(row_values)(Row *row, const float *v, int64_t count, int64_t dim,
                                    const float *p) {
    int64_t j = 0;
    for (; j + ROW_KEYS <= count; j += ROW_KEYS) {
        SIMD(add_values)(ROW_KEYS, row->acc, p + j, v + j * dim, dim);
    }
    for (; j < count; j++) {
        SIMD(add_values)(1, row->acc, p + j, v + j * dim, dim);
    }
}

// Attention of a few queries over the keys of the range, tile by tile; each tile of K and V is
// used by all of them while it is in the cache. p [FEW_QUERIES][BLOCK_K], room [BLOCK_K][dim].
TARGET static void SIMD(rows_attention)(Row *rows, int count, const Head *head, KeyRange keys,
                                        float *p, float *room) {
    const int64_t dim = head->dim;
    for (int64_t tile = keys.begin; tile < keys.end; tile += BLOCK_K) {
        const int64_t length = min_i64(BLOCK_K, keys.end - tile);
        KeyRange seen[FEW_QUERIES];
        const float *k = SIMD(tile_rows)(head, head->k, tile, length, room);
        for (int r = 0; r < count; r++) {
            seen[r] = range_within(rows[r].visible, tile, length);
            SIMD(row_tile)
            (&rows[r], k + seen[r].begin * dim, seen[r].end - seen[r].begin, dim, p + r * BLOCK_K);
        }
        const float *v = SIMD(tile_rows)(head, head->v, tile, length, room);
        for (int r = 0; r < count; r++) {
            SIMD(row_values)
            (&rows[r], v + seen[r].begin * dim, seen[r].end - seen[r].begin, dim, p + r * BLOCK_K);
        }
    }
}

#undef Vec
#undef Mask
#undef Half
#undef PANEL
#undef LANES
#undef GROUP_ROWS
#undef TARGET
