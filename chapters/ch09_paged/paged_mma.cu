// Chapter 8's kernel with the matrix instruction, over pages. A warp takes 16 keys at a time on its
// own, as in gqa_mma.cu, and the first of them is at a multiple of 16: where pages are a multiple
// of 16 too, all 16 lie in one page, and one entry of the table serves the warp's step. What a lane
// loads then lies as it would in a contiguous cache. Other page sizes look every key up. Which key
// and which dim a lane has of a fragment is explained there.
//
// K is loaded a step ahead, as there, and so the entry of a step two steps ahead: no load of a key
// waits for a load of the table.
#include "common/simt/simt.h"

#include "chapters/ch09_paged/page_walk.h"
#include "common/mma_rows.h"

enum { LOOKUPS = 6 }; // keys of a step that a lane loads

// Keys of a step that a lane loads: two rows of K (g, g + 8), and then four of V.
__device__ __forceinline__ int key_of(const int i) {
    const int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    return i < 2 ? g + 8 * i : 2 * t + (i - 2) / 2 * 8 + i % 2;
}

__device__ __forceinline__ bool is_in(MaskRange seen, int key) {
    return key >= seen.begin && key < seen.end;
}

// The pages of a lane's keys of the step from `key` on, one for all of them where `one_page`. Keys
// that no row sees have none: their entries may hold anything, or not be there.
__device__ __forceinline__ void look_up(int *page, const PagedParams *p, const int32_t *table,
                                        int key, MaskRange some, const int one_page) {
    if (one_page) {
        page[0] = key < some.end ? table[page_column(p, key)] : 0;
        return;
    }
    UNROLL
    for (int i = 0; i < LOOKUPS; i++) {
        const int at = key + key_of(i);
        page[i] = is_in(some, at) ? table[page_column(p, at)] : 0;
    }
}

// The rows of a lane's keys, from the start of the pool.
__device__ __forceinline__ void rows_of(size_t *row, const int *page, const PagedParams *p, int key,
                                        int kv_head, const int one_page) {
    const size_t first = page_row(p, page[0], kv_head, key); // where `one_page`
    UNROLL
    for (int i = 0; i < LOOKUPS; i++) {
        row[i] =
            one_page ? first + (size_t)key_of(i) : page_row(p, page[i], kv_head, key + key_of(i));
    }
}

// K of 16 keys from `key` on, at these rows of k; V of them. What is not there is not loaded: the
// registers keep what they had, and it is hidden.
__device__ __forceinline__ void load_keys(uint4 k_row[2][MAX_DIM / 32], const uint16_t *k,
                                          const size_t *row, int key, MaskRange some,
                                          const int dim) {
    const int t = (int)threadIdx.x % 4;
    UNROLL
    for (int n = 0; n < 2; n++) {
        const uint16_t *from = k + row[n] * dim + 8 * t;
        if (is_in(some, key + key_of(n))) {
            UNROLL
            for (int i = 0; i < dim / 32; i++) {
                k_row[n][i] = __ldcs((const uint4 *)(from + 32 * i));
            }
        }
    }
}

__device__ __forceinline__ void load_values(uint4 v_row[4][MAX_DIM / 64], const uint16_t *v,
                                            const size_t *row, int key, MaskRange some,
                                            const int dim) {
    const int g = (int)threadIdx.x % 32 / 4;
    UNROLL
    for (int n = 0; n < 4; n++) {
        const uint16_t *from = v + row[2 + n] * dim + 8 * g;
        if (is_in(some, key + key_of(2 + n))) {
            UNROLL
            for (int i = 0; i < dim / 64; i++) {
                v_row[n][i] = __ldcs((const uint4 *)(from + 64 * i));
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
__device__ __forceinline__ void attend(const PagedParams *paged, const int dim, const int halves,
                                       const int dtype, const int one_page) {
    DYNAMIC_SHARED(float, shared);
    const SplitKvParams *p = &paged->kv;
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

    const int kv_head = head % p->heads_kv, sequence = head / p->heads_kv;
    const int32_t *restrict table = paged->table + (size_t)sequence * paged->columns; // [columns]
    const uint16_t *restrict k = (const uint16_t *)p->k; // rows of [dim]
    const uint16_t *restrict v = (const uint16_t *)p->v; // rows of [dim]
    const int step = KEYS * WARPS * parts;
    int key = some.begin / KEYS * KEYS + KEYS * (WARPS * part + (int)threadIdx.x / 32);
    int next = step_on(key, step, some.end);
    int page[LOOKUPS], next_page[LOOKUPS]; // of the keys of a step: six of a lane, or one of a warp
    size_t row[LOOKUPS];
    look_up(page, paged, table, key, some, one_page);
    look_up(next_page, paged, table, next, some, one_page);
    uint4 k_row[2][MAX_DIM / 32], v_row[4][MAX_DIM / 64];
    clear_loads(k_row, v_row);
    rows_of(row, page, paged, key, kv_head, one_page);
    load_keys(k_row, k, row, key, some, dim);
    load_rows(&rows, p, place, dim, halves);
    while (key < some.end) {
        load_values(v_row, v, row, key, some, dim);
        UNROLL
        for (int i = 0; i < (one_page ? 1 : LOOKUPS); i++) {
            page[i] = next_page[i];
        }
        const int after = step_on(next, step, some.end);
        look_up(next_page, paged, table, after, some, one_page);
        float s[2][4];
        score_keys(s, &rows, k_row, dim, dtype);
        rows_of(row, page, paged, next, kv_head, one_page);
        load_keys(k_row, k, row, next, some, dim);       // K has been used: the next step's
        if (key >= all_begin && key + KEYS <= all_end) { // all there, and seen by all rows
            take_keys(&rows, s, v_row, key, dim, halves, dtype, 0);
        } else {
            take_keys(&rows, s, v_row, key, dim, halves, dtype, 1);
        }
        key = next;
        next = after;
    }
    const States states = states_at(shared, 8 * halves, WARPS, dim);
    store_rows(states, &rows, dim, halves);
    finish_part(p, place, states, WARPS, dim, dtype);
}

// ---- kernels and launches -----------------------------------------------------------------------

// A kernel and its launch. `blocks` of it shall fit on an SM, which bounds a thread's registers.
#define KERNEL(name, dim, halves, dtype, one_page, blocks)                                         \
    __global__ void __launch_bounds__(THREADS, blocks)                                             \
        name(const __grid_constant__ PagedParams p) {                                              \
        attend(&p, dim, halves, dtype, one_page);                                                  \
    }                                                                                              \
    SIMT_KERNEL(name, PagedParams, THREADS);                                                       \
    static AttnStatus name##_launch(PagedParams p, GpuStream stream) {                             \
        const size_t bytes = STATES_BYTES(8 * (halves), WARPS, dim);                               \
        const AttnStatus status = SHARED_OPT_IN(name, bytes);                                      \
        if (status != ATTN_OK) {                                                                   \
            return status;                                                                         \
        }                                                                                          \
        const dim3 grid = {(unsigned)(p.kv.units * p.kv.splits), 1, 1}, block = {THREADS, 1, 1};   \
        return LAUNCH(name, grid, block, bytes, stream, p);                                        \
    }                                                                                              \
    static_assert((dim) <= MAX_DIM && (dim) % 64 == 0, "the arrays of Rows")

// Steps of 16 keys that lie in one page, and that may lie in several.
#define KERNEL_PAIR(name, dim, halves, dtype, blocks)                                              \
    KERNEL(name##_one_page, dim, halves, dtype, 1, blocks);                                        \
    KERNEL(name##_any_page, dim, halves, dtype, 0, 1);                                             \
    static AttnStatus name##_launch(PagedParams p, GpuStream stream) {                             \
        return p.page_size % KEYS == 0 ? name##_one_page_launch(p, stream)                         \
                                       : name##_any_page_launch(p, stream);                        \
    }                                                                                              \
    static_assert(KEYS == 16, "rows of B")

// The kernels of one storage type: 8 rows where a KV head has no more, else 16.
#define KERNELS(name, dtype)                                                                       \
    KERNEL_PAIR(name##_64_8, 64, 1, dtype, 2);                                                     \
    KERNEL_PAIR(name##_64_16, 64, 2, dtype, 2);                                                    \
    KERNEL_PAIR(name##_128_8, 128, 1, dtype, 1);                                                   \
    KERNEL_PAIR(name##_128_16, 128, 2, dtype, 1);                                                  \
    static AttnStatus name##_run(PagedParams p, GpuStream stream) {                                \
        if (p.kv.dim == 64) {                                                                      \
            return p.kv.rows <= 8 ? name##_64_8_launch(p, stream)                                  \
                                  : name##_64_16_launch(p, stream);                                \
        }                                                                                          \
        return p.kv.rows <= 8 ? name##_128_8_launch(p, stream) : name##_128_16_launch(p, stream);  \
    }                                                                                              \
    static_assert(dtype != DTYPE_F32, "a 16-bit type")

KERNELS(paged_mma_f16, DTYPE_F16);
KERNELS(paged_mma_bf16, DTYPE_BF16);

AttnStatus ENTRY(paged_mma)(const AttnShape *shape, DType dtype, const void *q,
                            const PagedCache *cache, void *o, float *lse, int64_t splits,
                            void *workspace, GpuStream stream) {
    PagedParams p;
    const AttnStatus status =
        paged_prepare(&p, PAGED_MMA, shape, dtype, q, cache, o, lse, splits, workspace);
    if (status != ATTN_OK || p.kv.units == 0) {
        return status;
    }
    return dtype == DTYPE_F16 ? paged_mma_f16_run(p, stream) : paged_mma_bf16_run(p, stream);
}
