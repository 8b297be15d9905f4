// The loops of tiled_simd.c for one vector width. Included once per width with these defined:
//   LANES       floats in a vector: 16, 8 or 4
//   GROUP_ROWS  rows of a register block
//   TARGET      the function attribute that allows the instructions of that width, or nothing
// and undefines them at its end. SIMD(name) is the name with the width appended.
//
// Vectors are the compiler's (GCC, clang): operators work lane by lane, a comparison gives all ones
// or all zeros in a lane, and a product that is added becomes one fused multiply-add where the
// machine has it. A panel is PANEL_VECS vectors of queries side by side: a lane is a query, so
// the softmax needs no sum across lanes.

typedef float SIMD(Vec) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t SIMD(Mask) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint16_t SIMD(Half) __attribute__((vector_size(2 * LANES), aligned(2), may_alias));
#define Vec   SIMD(Vec)
#define Mask  SIMD(Mask)
#define Half  SIMD(Half)
#define PANEL (PANEL_VECS * LANES)

TARGET static inline Vec SIMD(select)(Mask where, Vec yes, Vec no) {
    return (Vec)(((Mask)yes & where) | ((Mask)no & ~where));
}

// exp(x) in each lane, for x <= 0. With n = round(x / ln 2) and r = x - n ln 2, |r| <= ln(2) / 2,
// exp(x) = 2^n P(r), P the Taylor polynomial of degree 7. ln 2 is taken off in two parts, the first
// of so few bits that n times it is exact. Below -87 the result is 0: no subnormals. NaN stays NaN.
TARGET static inline Vec SIMD(exp)(Vec x) {
    const float shifter = 12582912.0F; // 1.5 * 2^23: adding it rounds to a whole number
    const Vec shifted = x * 1.44269504F + shifter;
    const Vec n = shifted - shifter;
    const Vec r = (x - n * 0.693145751953125F) - n * 1.42860677e-6F;
    Vec p = r * (1.0F / 5040) + 1.0F / 720;
    p = p * r + 1.0F / 120;
    p = p * r + 1.0F / 24;
    p = p * r + 1.0F / 6;
    p = p * r + 0.5F;
    p = p * r + 1.0F;
    p = p * r + 1.0F;
    const Mask power = ((Mask)shifted - 0x4B400000 + 127) << 23; // the bits of 2^n
    const Mask vanishes = x < -87.0F;
    return (Vec)((Mask)(p * (Vec)power) & ~vanishes);
}

TARGET static void SIMD(exp_all)(const float *x, float *y, int64_t count) {
    for (int64_t j = 0; j < count; j += LANES) {
        *(Vec *)(y + j) = SIMD(exp)(*(const Vec *)(x + j));
    }
}

// Widens 16-bit floats to 32 bits, exactly: count of them.
TARGET static void SIMD(widen)(DType dtype, const uint16_t *bits, int64_t count, float *out) {
    int64_t e = 0;
    for (; e + LANES <= count; e += LANES) {
        const Mask wide = __builtin_convertvector(*(const Half *)(bits + e), Mask);
        const Mask upper = wide << 16; // all that a bf16 needs: it is the upper half of an f32
        Mask x = upper;
        if (dtype == DTYPE_F16) {
            // The exponent moves to its new place and the bias from 15 to 127; the product does
            // that for subnormal numbers too. Infinity and NaN keep an exponent of all ones.
            const Mask magnitude = (wide & 0x7FFF) << 13;
            const Mask special = (wide & 0x7C00) == 0x7C00;
            x = (Mask)((Vec)magnitude * 0x1p112F) | (special & 0x7F800000);
            x |= upper & INT32_MIN; // the sign
        }
        *(Vec *)(out + e) = (Vec)x;
    }
    for (; e < count; e++) {
        out[e] = dtype == DTYPE_F16 ? f32_from_f16(bits[e]) : f32_from_bf16(bits[e]);
    }
}

// Rows [first, first + count) of K or V as floats, [count][dim]: in place, or widened into `room`.
TARGET static const float *SIMD(tile_rows)(const Head *head, const void *rows, int64_t first,
                                           int64_t count, float *room) {
    if (head->dtype == DTYPE_F32) {
        return (const float *)rows + first * head->dim;
    }
    SIMD(widen)(head->dtype, (const uint16_t *)rows + first * head->dim, count * head->dim, room);
    return room;
}

// c[rows][PANEL] = a b, or += a b, for `rows` rows (a constant at each call) and `depth` terms:
// c[r] (+)= sum over t of a[r * row_step + t * term_step] * b[t][PANEL]. The sums stay in
// registers, and each vector of b that is loaded serves `rows` multiply-adds.
TARGET static inline __attribute__((always_inline)) void SIMD(multiply_block)(
    const int rows, const float *a, int64_t row_step, int64_t term_step, const float *b, float *c,
    int64_t depth, bool accumulate) {
    Vec sum[GROUP_ROWS][PANEL_VECS];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int w = 0; w < PANEL_VECS; w++) {
            sum[r][w] = accumulate ? *(const Vec *)(c + r * PANEL + w * LANES) : (Vec){0};
        }
    }
    for (int64_t t = 0; t < depth; t++) {
        Vec column[PANEL_VECS];
        UNROLL
        for (int w = 0; w < PANEL_VECS; w++) {
            column[w] = *(const Vec *)(b + t * PANEL + w * LANES);
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            const float x = a[r * row_step + t * term_step];
            UNROLL
            for (int w = 0; w < PANEL_VECS; w++) {
                sum[r][w] += x * column[w];
            }
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int w = 0; w < PANEL_VECS; w++) {
            *(Vec *)(c + r * PANEL + w * LANES) = sum[r][w];
        }
    }
}

// The same for any number of rows, in register blocks of GROUP_ROWS and a rest of single rows.
TARGET static void SIMD(multiply)(int64_t rows, const float *a, int64_t row_step, int64_t term_step,
                                  const float *b, float *c, int64_t depth, bool accumulate) {
    int64_t r = 0;
    for (; r + GROUP_ROWS <= rows; r += GROUP_ROWS) {
        SIMD(multiply_block)
        (GROUP_ROWS, a + r * row_step, row_step, term_step, b, c + r * PANEL, depth, accumulate);
    }
    for (; r < rows; r++) {
        SIMD(multiply_block)
        (1, a + r * row_step, row_step, term_step, b, c + r * PANEL, depth, accumulate);
    }
}

// Which queries of the panel see key j of the tile; begin and end are relative to the tile.
TARGET static inline Mask SIMD(sees)(const Panel *panel, int w, int64_t j) {
    const Mask begin = *(const Mask *)(panel->begin + w * LANES);
    const Mask end = *(const Mask *)(panel->end + w * LANES);
    return (begin <= (int32_t)j) & (end > (int32_t)j);
}

// Scores of the keys [from, to) that not every query of the panel sees: -inf where not seen.
TARGET static void SIMD(mask_scores)(const Panel *panel, int64_t from, int64_t to) {
    for (int64_t j = from; j < to; j++) {
        for (int w = 0; w < PANEL_VECS; w++) {
            Vec *score = (Vec *)(panel->p + j * PANEL + w * LANES);
            *score = SIMD(select)(SIMD(sees)(panel, w, j), *score, (Vec){0} - INFINITY);
        }
    }
}

// The online softmax update (ch02) of all queries of the panel at once, for the scores of the keys
// [from, to): p = exp(s - m) in their place, m, l and acc corrected.
TARGET static void SIMD(update)(const Panel *panel, int64_t from, int64_t to, int64_t dim) {
    Vec m_new[PANEL_VECS], reference[PANEL_VECS], alpha[PANEL_VECS], sum[PANEL_VECS];
    UNROLL
    for (int w = 0; w < PANEL_VECS; w++) {
        m_new[w] = *(const Vec *)(panel->m + w * LANES);
    }
    for (int64_t j = from; j < to; j++) {
        UNROLL
        for (int w = 0; w < PANEL_VECS; w++) {
            const Vec s = *(const Vec *)(panel->p + j * PANEL + w * LANES);
            m_new[w] = SIMD(select)(s > m_new[w], s, m_new[w]);
        }
    }
    UNROLL
    for (int w = 0; w < PANEL_VECS; w++) {
        const Mask empty = m_new[w] == -INFINITY; // -inf - -inf would be NaN
        reference[w] = SIMD(select)(empty, (Vec){0}, m_new[w]);
        alpha[w] = SIMD(exp)(*(const Vec *)(panel->m + w * LANES) - reference[w]);
        sum[w] = *(const Vec *)(panel->l + w * LANES) * alpha[w];
    }
    for (int64_t j = from; j < to; j++) {
        UNROLL
        for (int w = 0; w < PANEL_VECS; w++) {
            Vec *p = (Vec *)(panel->p + j * PANEL + w * LANES);
            *p = SIMD(exp)(*p - reference[w]);
            sum[w] += *p;
        }
    }
    for (int64_t c = 0; c < dim; c++) {
        UNROLL
        for (int w = 0; w < PANEL_VECS; w++) {
            *(Vec *)(panel->acc + c * PANEL + w * LANES) *= alpha[w];
        }
    }
    UNROLL
    for (int w = 0; w < PANEL_VECS; w++) {
        *(Vec *)(panel->m + w * LANES) = m_new[w];
        *(Vec *)(panel->l + w * LANES) = sum[w];
    }
}

// acc += p v for keys [from, to) that not every query sees. 0 * NaN is NaN: the products of queries
// that do not see the key are cleared, not multiplied by 0.
TARGET static void SIMD(masked_sum)(const Panel *panel, const float *v, int64_t from, int64_t to,
                                    int64_t dim) {
    for (int64_t j = from; j < to; j++) {
        for (int w = 0; w < PANEL_VECS; w++) {
            const Mask seen = SIMD(sees)(panel, w, j);
            const Vec p = *(const Vec *)(panel->p + j * PANEL + w * LANES);
            for (int64_t c = 0; c < dim; c++) {
                const Vec product = p * v[j * dim + c];
                *(Vec *)(panel->acc + c * PANEL + w * LANES) += (Vec)((Mask)product & seen);
            }
        }
    }
}

// Attention of the panel's queries over the keys of the range, tile by tile: the loop of tiled.c.
// room [BLOCK_K][dim].
TARGET static void SIMD(panel_attention)(const Panel *panel, const Head *head, KeyRange keys,
                                         float *room) {
    const int64_t dim = head->dim;
    for (int64_t tile = keys.begin; tile < keys.end; tile += BLOCK_K) {
        const int64_t length = min_i64(BLOCK_K, keys.end - tile);
        const TileLimits limits = panel_limits(panel, tile, length, PANEL);
        const KeyRange any = limits.any, all = limits.all;
        float *p = panel->p;

        const float *k = SIMD(tile_rows)(head, head->k, tile, length, room);
        SIMD(multiply)
        (any.end - any.begin, k + any.begin * dim, dim, 1, panel->q, p + any.begin * PANEL, dim,
         false);
        SIMD(mask_scores)(panel, any.begin, all.begin);
        SIMD(mask_scores)(panel, all.end, any.end);
        SIMD(update)(panel, any.begin, any.end, dim);

        const float *v = SIMD(tile_rows)(head, head->v, tile, length, room);
        SIMD(masked_sum)(panel, v, any.begin, all.begin, dim);
        SIMD(multiply)
        (dim, v + all.begin * dim, 1, dim, p + all.begin * PANEL, panel->acc, all.end - all.begin,
         true);
        SIMD(masked_sum)(panel, v, all.end, any.end, dim);
    }
}
