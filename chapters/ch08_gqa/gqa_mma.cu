// Rung 3: the group's queries as rows of a matrix instruction, mma.m16n8k16. It multiplies 16 x 16
// by 16 x 8 numbers, whether all of them are used or not. With 8 rows used, or 4, a step takes a
// tenth of the instructions that its bytes leave time for.
//
// A warp takes 16 keys at a time, on its own, and keeps its own state (m, l, O) of each row. Steps
// of 16 keys are dealt out in turns: to the warps of a block, and to the blocks that share the
// tile, so that all of them walk through the keys side by side. K is loaded a step ahead: into the
// registers that Q K^T has just read, before the softmax. So a warp has loads under way while it
// computes.
//
// K and V go from global memory straight into the fragments, 16 bytes a load, with no shared
// memory: that a lane holds eight neighbours, and not the pairs that the instruction wants, is a
// matter of names. A product does not depend on the order in which it is summed, nor on which row
// or column is called which, as long as all fragments agree. Lane l = 4g + t:
//
//     Q K^T     16 rows (A) by 8 keys (B), twice. Dims 8t .. 8t+7 of 32 are called columns 2t,
//               2t+1, 2t+8, 2t+9 of one instruction and of the next. Key g is column g of B.
//     V^T P^T   16 dims (A) by 8 rows (B). Dims 8g + 2j and 8g + 2j + 1 of 64 are called rows g and
//               g + 8 of instruction j. Keys 2t, 2t+1, 2t+8, 2t+9 are in the lane: halves of their
//               words are put together in pairs.
//
// P stays where Q K^T left it: what a lane holds of C is what it must hold of B, transposed. What a
// lane has of O are the dims that it loads of V, for the rows 2t and 2t + 1.
//
// P is rounded to the storage type for the product. l sums what P was before: LSE is exact to f32,
// and O's error is that of the rounding either way.
#include "common/simt/simt.h"

#include "chapters/ch08_gqa/gqa.h"
#include "common/mma_rows.h"

// K of 16 keys from `key` on: the lane's dims 8t .. of keys g and g + 8, k being those of key g.
// What is not there, from `end` on, is not loaded: the registers keep what they had, and it is
// hidden.
__device__ __forceinline__ void load_keys(uint4 k_row[2][MAX_DIM / 32], const uint16_t *k, int key,
                                          int end, const int dim) {
    const int g = (int)threadIdx.x % 32 / 4;
    UNROLL
    for (int n = 0; n < 2; n++) {
        if (key + 8 * n + g < end) {
            UNROLL
            for (int i = 0; i < dim / 32; i++) {
                k_row[n][i] = __ldcs((const uint4 *)(k + 8 * n * dim + 32 * i));
            }
        }
    }
}

// V of them: the lane's dims 8g .. of keys 2t, 2t + 1, 2t + 8, 2t + 9, v being those of key 2t.
__device__ __forceinline__ void load_values(uint4 v_row[4][MAX_DIM / 64], const uint16_t *v,
                                            int key, int end, const int dim) {
    const int t = (int)threadIdx.x % 4;
    UNROLL
    for (int n = 0; n < 4; n++) {
        const int at = n / 2 * 8 + n % 2;
        if (key + at + 2 * t < end) {
            UNROLL
            for (int i = 0; i < dim / 64; i++) {
                v_row[n][i] = __ldcs((const uint4 *)(v + at * dim + 64 * i));
            }
        }
    }
}

// S = Q K^T: rows g and g + 8, keys 2t and 2t + 1, of keys 0-7 and of 8-15.
__device__ __forceinline__ void score_keys(float s[2][4], const Rows *rows,
                                           uint4 k_row[2][MAX_DIM / 32], const int dim,
                                           const int dtype) {
    UNROLL
    for (int n = 0; n < 2; n++) {
        UNROLL
        for (int i = 0; i < 4; i++) {
            s[n][i] = 0.0f;
        }
    }
    UNROLL
    for (int i = 0; i < dim / 16; i++) {
        UNROLL
        for (int n = 0; n < 2; n++) {
            const uint4 x = k_row[n][i / 2];
            const uint32_t b[2] = {word(x, i % 2 * 2), word(x, i % 2 * 2 + 1)};
            multiply(s[n], rows->q[i], b, s[n], dtype);
        }
    }
}

// The softmax of 16 keys from `key` on, whose scores are s, and V^T P^T. Where `tested`, keys may
// be missing, or hidden from some rows.
__device__ __forceinline__ void take_keys(Rows *rows, float s[2][4], uint4 v_row[4][MAX_DIM / 64],
                                          int key, const int dim, const int halves, const int dtype,
                                          const int tested) {
    const int t = (int)threadIdx.x % 4;
    uint32_t p[2][2]; // B of the second product: row g + 8h
    UNROLL
    for (int h = 0; h < halves; h++) {
        float m_new = rows->m[h];
        UNROLL
        for (int i = 0; i < 4; i++) {
            const int at = key + i / 2 * 8 + 2 * t + i % 2;
            float *score = &s[i / 2][2 * h + i % 2];
            if (tested && (at < rows->seen[h].begin || at >= rows->seen[h].end)) {
                *score = -INFINITY;
            }
            m_new = fmaxf(m_new, *score);
        }
        m_new = fmaxf(m_new, __shfl_xor_sync(FULL_MASK, m_new, 1, 32)); // a row is in four lanes
        m_new = fmaxf(m_new, __shfl_xor_sync(FULL_MASK, m_new, 2, 32));
        const float reference = m_new == -INFINITY ? 0.0f : m_new; // -inf - -inf is NaN
        const float alpha = exp2_approx((rows->m[h] - reference) * rows->scale_log2);
        rows->m[h] = m_new;
        rows->l[h] *= alpha;
        UNROLL
        for (int n = 0; n < 2; n++) {
            const float low = exp2_approx((s[n][2 * h] - reference) * rows->scale_log2);
            const float high = exp2_approx((s[n][2 * h + 1] - reference) * rows->scale_log2);
            rows->l[h] += low + high;
            p[h][n] = pair_of(low, high, dtype);
        }
        UNROLL
        for (int e = 0; e < 2; e++) { // the rows of o are in other lanes: row g is in lane 4g
            const float factor = __shfl_sync(FULL_MASK, alpha, 4 * (2 * t + e), 32);
            UNROLL
            for (int i = 0; i < dim / 16; i++) {
                rows->o[h][i][e] *= factor;
                rows->o[h][i][e + 2] *= factor;
            }
        }
    }

    if (!tested) {
        const uint32_t all[2] = {0xffffffffu, 0xffffffffu};
        UNROLL
        for (int i = 0; i < dim / 16; i++) {
            uint32_t a[4];
            pair_values(a, v_row, i, all);
            UNROLL
            for (int h = 0; h < halves; h++) {
                multiply(rows->o[h][i], a, p[h], rows->o[h][i], dtype);
            }
        }
        return;
    }
    // Once for each token: a value that the token may not see is 0 in its product, and not only
    // multiplied by 0. The rows of other tokens do not take the result.
    for (int token = rows->first; token <= rows->last; token++) {
        const MaskRange seen = mask_row_keys(rows->mask, token);
        uint32_t keep[2]; // of a pair of keys
        UNROLL
        for (int n = 0; n < 2; n++) {
            const int at = key + 8 * n + 2 * t;
            keep[n] = (at >= seen.begin && at < seen.end ? 0x0000ffffu : 0) |
                      (at + 1 >= seen.begin && at + 1 < seen.end ? 0xffff0000u : 0);
        }
        UNROLL
        for (int i = 0; i < dim / 16; i++) {
            uint32_t a[4];
            pair_values(a, v_row, i, keep);
            UNROLL
            for (int h = 0; h < halves; h++) {
                float d[4], *o = rows->o[h][i];
                multiply(d, a, p[h], o, dtype);
                UNROLL
                for (int e = 0; e < 4; e++) {
                    o[e] = rows->token[h][e % 2] == token ? d[e] : o[e];
                }
            }
        }
    }
}

// One block: every parts-th step of the keys for a tile of 8 or 16 packed rows (halves 1 or 2) of a
// KV head.
__device__ __forceinline__ void attend(const SplitKvParams *p, const int dim, const int halves,
                                       const int dtype) {
    DYNAMIC_SHARED(float, shared);
    const int unit = (int)blockIdx.x / p->splits, part = (int)blockIdx.x % p->splits;
    const int head = unit / p->tiles, row0 = unit % p->tiles * 8 * halves;
    const int count = p->rows - row0 < 8 * halves ? p->rows - row0 : 8 * halves;
    Rows rows = {.first = row0 / p->group, .last = (row0 + count - 1) / p->group};
    rows.mask.len_q = p->len_q;
    rows.mask.keys = keys_in_use(p, head);
    rows.mask.causal = p->causal;
    rows.mask.window = p->window;
    const MaskRange some = mask_tile_keys(rows.mask, rows.first, rows.last - rows.first + 1);
    const int parts = parts_of(p, some.end - some.begin);
    const Place place = {unit, head, row0, count, part, parts};
    if (part >= parts) {
        return;
    }
    // What all rows see ends where the first token's keys end, and begins with the last one's.
    const int all_begin = mask_row_keys(rows.mask, rows.last).begin;
    const int all_end = mask_row_keys(rows.mask, rows.first).end;

    const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    const int step = KEYS * WARPS * parts;
    int key = some.begin + KEYS * (WARPS * part + warp);
    const size_t first = ((size_t)head * p->len_kv + (key < some.end ? key : 0)) * dim;
    const uint16_t *restrict k = (const uint16_t *)p->k + first + g * dim + 8 * t;
    const uint16_t *restrict v = (const uint16_t *)p->v + first + 2 * t * dim + 8 * g;
    uint4 k_row[2][MAX_DIM / 32], v_row[4][MAX_DIM / 64];
    clear_loads(k_row, v_row);
    load_keys(k_row, k, key, some.end, dim);
    load_rows(&rows, p, place, dim, halves);
    while (key < some.end) {
        load_values(v_row, v, key, some.end, dim);
        float s[2][4];
        score_keys(s, &rows, k_row, dim, dtype);
        k += (size_t)step * dim;
        v += (size_t)step * dim;
        const int next = step_on(key, step, some.end);
        load_keys(k_row, k, next, some.end, dim);        // K has been used: the next step's
        if (key >= all_begin && key + KEYS <= all_end) { // all there, and seen by all rows
            take_keys(&rows, s, v_row, key, dim, halves, dtype, 0);
        } else {
            take_keys(&rows, s, v_row, key, dim, halves, dtype, 1);
        }
        key = next;
    }
    const States states = states_at(shared, 8 * halves, WARPS, dim);
    store_rows(states, &rows, dim, halves);
    finish_part(p, place, states, WARPS, dim, dtype);
}

// ---- kernels and launches -----------------------------------------------------------------------

// A kernel and its launch. `blocks` of it shall fit on an SM, which bounds a thread's registers.
#define KERNEL(name, dim, halves, dtype, blocks)                                                   \
    __global__ void __launch_bounds__(THREADS, blocks)                                             \
        name(const __grid_constant__ SplitKvParams p) {                                            \
        attend(&p, dim, halves, dtype);                                                            \
    }                                                                                              \
    SIMT_KERNEL(name, SplitKvParams, THREADS);                                                     \
    static AttnStatus name##_launch(SplitKvParams p, GpuStream stream) {                           \
        const size_t bytes = STATES_BYTES(8 * (halves), WARPS, dim);                               \
        const AttnStatus status = SHARED_OPT_IN(name, bytes);                                      \
        if (status != ATTN_OK) {                                                                   \
            return status;                                                                         \
        }                                                                                          \
        const dim3 grid = {(unsigned)(p.units * p.splits), 1, 1}, block = {THREADS, 1, 1};         \
        return LAUNCH(name, grid, block, bytes, stream, p);                                        \
    }                                                                                              \
    static_assert((dim) <= MAX_DIM && (dim) % 64 == 0, "the arrays of Rows")

// The kernels of one storage type: 8 rows where a KV head has no more, else 16.
#define KERNELS(name, dtype)                                                                       \
    KERNEL(name##_64_8, 64, 1, dtype, 2);                                                          \
    KERNEL(name##_64_16, 64, 2, dtype, 2);                                                         \
    KERNEL(name##_128_8, 128, 1, dtype, 1);                                                        \
    KERNEL(name##_128_16, 128, 2, dtype, 1);                                                       \
    static AttnStatus name##_run(SplitKvParams p, GpuStream stream) {                              \
        if (p.dim == 64) {                                                                         \
            return p.rows <= 8 ? name##_64_8_launch(p, stream) : name##_64_16_launch(p, stream);   \
        }                                                                                          \
        return p.rows <= 8 ? name##_128_8_launch(p, stream) : name##_128_16_launch(p, stream);     \
    }                                                                                              \
    static_assert(dtype != DTYPE_F32, "a 16-bit type")

KERNELS(gqa_mma_f16, DTYPE_F16);
KERNELS(gqa_mma_bf16, DTYPE_BF16);

AttnStatus ENTRY(gqa_mma)(const AttnShape *shape, DType dtype, const void *q, const void *k,
                          const void *v, void *o, float *lse, const int32_t *kv_lens,
                          int64_t splits, void *workspace, GpuStream stream) {
    SplitKvParams p;
    const AttnStatus status =
        gqa_prepare(&p, GQA_MMA, shape, dtype, q, k, v, o, lse, kv_lens, splits, workspace);
    if (status != ATTN_OK || p.units == 0) {
        return status;
    }
    return dtype == DTYPE_F16 ? gqa_mma_f16_run(p, stream) : gqa_mma_bf16_run(p, stream);
}
