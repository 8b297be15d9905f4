// A decode block from its loop's end to O (chapter 6), and the loop's update, for kernels that pack
// rows of queries by KV head. Groups of lanes have each seen some of the block's keys, and have a
// state: m, l and acc of every row. The states become one (merge_groups), which is a part; whoever
// finishes last merges the parts (merge_parts).
//
// Blocks that use State have SPLIT_KV_THREADS threads. Arguments declared `const int` after the
// others are constants at every call. dim is a row's, head_dim the kernel's: dim <= head_dim.
#ifndef COMMON_MERGE_PARTS_H
#define COMMON_MERGE_PARTS_H

#include "common/simt/simt.h"

#include "common/device.h"
#include "common/load_row.h"
#include "common/split_kv.h"

#define LOG2_E 1.44269504f // exp(x) = 2^(LOG2_E x)

enum {
    STATE_ROWS = 8, // packed rows of a tile, at most
    STATE_KEYS = 4, // keys of a group in a step
};
// Parts whose loads are on their way at a time; a kernel with registers to spare may say more.
#ifndef PARTS_AHEAD
#define PARTS_AHEAD 8
#endif

// ---- where a block works ------------------------------------------------------------------------

// Rows row0 .. row0 + count - 1 of a KV head, and the part `part` of `parts` of the keys that they
// see (which keys those are is the kernel's matter). Nothing to do where part >= parts.
typedef struct Place {
    int unit, head, row0, count;
    int part, parts;
} Place;

// Where packed row r of a KV head lies in Q, O and LSE: token r / group of the head's query head
// r % group.
__device__ __forceinline__ size_t packed_row(const SplitKvParams *p, int head, int r) {
    return ((size_t)head * p->group + r % p->group) * p->len_q + r / p->group;
}

// The keys in use of the batch entry that a KV head belongs to.
__device__ __forceinline__ int keys_in_use(const SplitKvParams *p, int head) {
    const int keys = p->kv_lens == NULL ? p->len_kv : p->kv_lens[head / p->heads_kv];
    return keys < 0 ? 0 : keys < p->len_kv ? keys : p->len_kv;
}

// Parts of that many keys: at least one, be it without keys.
__device__ __forceinline__ int parts_of(const SplitKvParams *p, int keys) {
    return keys > p->part_keys ? (keys + p->part_keys - 1) / p->part_keys : 1;
}

// ---- chapter 2's state and update ---------------------------------------------------------------

// What a group of lanes has seen so far, for each row of the tile.
typedef struct State {
    float m[STATE_ROWS], l[STATE_ROWS]; // m: of scores not yet scaled
    float acc[STATE_ROWS][8];           // this lane's columns
} State;

__device__ __forceinline__ void state_clear(State *state, const int rows) {
    UNROLL
    for (int r = 0; r < rows; r++) {
        state->m[r] = -INFINITY;
        state->l[r] = 0.0f;
        UNROLL
        for (int e = 0; e < 8; e++) {
            state->acc[r][e] = 0.0f;
        }
    }
}

// The keys key + stride * i, whose scores are s[r][i] and whose values are v[i]. Where `tested`,
// row r sees only the keys of seen[r].
__device__ __forceinline__ void update(State *state, float s[STATE_ROWS][STATE_KEYS],
                                       const Eight *v, float scale_log2, int key, const int stride,
                                       const MaskRange *seen, const int rows, const int dtype,
                                       const int tested) {
    UNROLL
    for (int r = 0; r < rows; r++) {
        float m_new = state->m[r];
        UNROLL
        for (int i = 0; i < STATE_KEYS; i++) {
            const int at = key + stride * i;
            s[r][i] = !tested || (at >= seen[r].begin && at < seen[r].end) ? s[r][i] : -INFINITY;
            m_new = fmaxf(m_new, s[r][i]);
        }
        const float reference = m_new == -INFINITY ? 0.0f : m_new; // -inf - -inf is NaN
        const float alpha = exp2_approx((state->m[r] - reference) * scale_log2);
        state->m[r] = m_new;
        state->l[r] *= alpha;
        UNROLL
        for (int e = 0; e < 8; e++) {
            state->acc[r][e] *= alpha;
        }
        UNROLL
        for (int i = 0; i < STATE_KEYS; i++) {
            s[r][i] = exp2_approx((s[r][i] - reference) * scale_log2);
            state->l[r] += s[r][i];
        }
    }
    UNROLL
    for (int i = 0; i < STATE_KEYS; i++) {
        const int at = key + stride * i;
        float x[8];
        widen(x, v[i], dtype);
        UNROLL
        for (int r = 0; r < rows; r++) {
            if (!tested || (at >= seen[r].begin && at < seen[r].end)) { // hidden: it may be NaN
                UNROLL
                for (int e = 0; e < 8; e++) {
                    state->acc[r][e] += s[r][i] * x[e];
                }
            }
        }
    }
}

// ---- the states of a block ----------------------------------------------------------------------

// Shared memory of the states of `groups` groups.
typedef struct States {
    float *acc; // [rows][groups][head_dim]
    float *m;   // [rows][groups]
    float *l;   // [rows][groups]
} States;

#define STATES_BYTES(rows, groups, head_dim) (sizeof(float) * (rows) * (groups) * ((head_dim) + 2))

__device__ __forceinline__ States states_at(float *shared, const int rows, const int groups,
                                            const int head_dim) {
    float *const m = shared + rows * groups * head_dim;
    const States states = {shared, m, m + rows * groups};
    return states;
}

// A group of head_dim / 8 lanes stores its state. Barriers before and after are the caller's.
__device__ __forceinline__ void store_state(States states, const State *state, Columns columns,
                                            const int rows, const int head_dim) {
    const int lanes = head_dim / 8, groups = SPLIT_KV_THREADS / lanes;
    const int group = (int)threadIdx.x / lanes, lane = (int)threadIdx.x % lanes;
    UNROLL
    for (int r = 0; r < rows; r++) {
        const float *a = state->acc[r];
        float *row = states.acc + (r * groups + group) * head_dim;
        *(float4 *)(row + columns.first) = make_float4(a[0], a[1], a[2], a[3]);
        *(float4 *)(row + columns.second) = make_float4(a[4], a[5], a[6], a[7]);
        if (lane == 0) {
            states.m[r * groups + group] = state->m[r];
            states.l[r * groups + group] = state->l[r];
        }
    }
}

// Columns c .. c + 3 of a row [dim] = x, those before dim; at once where rows begin at multiples of
// eight elements.
__device__ __forceinline__ void store_four(void *row, int c, const float *x, int dim, int vectors,
                                           const int dtype) {
    if (vectors && dtype == DTYPE_F32) {
        *(float4 *)((float *)row + c) = make_float4(x[0], x[1], x[2], x[3]);
        return;
    }
    if (vectors) {
        *(uint2 *)((unsigned short *)row + c) =
            make_uint2(bits_of(x[0], dtype) | bits_of(x[1], dtype) << 16,
                       bits_of(x[2], dtype) | bits_of(x[3], dtype) << 16);
        return;
    }
    UNROLL
    for (int e = 0; e < 4; e++) {
        if (c + e < dim) {
            store_element(row, c + e, x[e], dtype);
        }
    }
}

// The states become one by chapter 3's merge: O and LSE where there is one part, else the part's. A
// thread has four columns of a row.
__device__ __forceinline__ void merge_groups(const SplitKvParams *p, Place place, States states,
                                             const int groups, const int head_dim,
                                             const int dtype) {
    const int dim = p->dim, pieces = (dim + 3) / 4;
    for (int i = (int)threadIdx.x; i < place.count * pieces; i += (int)blockDim.x) {
        const int r = i / pieces, c = i % pieces * 4;
        const float *m = states.m + r * groups, *l = states.l + r * groups;
        float m_all = -INFINITY, l_all = 0.0f, sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        UNROLL
        for (int g = 0; g < groups; g++) {
            m_all = fmaxf(m_all, m[g]);
        }
        const float reference = m_all == -INFINITY ? 0.0f : m_all;
        UNROLL
        for (int g = 0; g < groups; g++) {
            const float weight = exp2_approx((m[g] - reference) * (p->scale * LOG2_E));
            const float4 acc = *(const float4 *)(states.acc + (r * groups + g) * head_dim + c);
            l_all += weight * l[g];
            sum[0] += weight * acc.x;
            sum[1] += weight * acc.y;
            sum[2] += weight * acc.z;
            sum[3] += weight * acc.w;
        }
        const float factor = l_all == 0.0f ? 0.0f : 1.0f / l_all; // 0: no key is seen
        UNROLL
        for (int e = 0; e < 4; e++) {
            sum[e] *= factor;
        }
        const float lse = m_all * p->scale + logf(l_all);
        const size_t row = packed_row(p, place.head, place.row0 + r);
        const size_t at = row * p->splits + place.part; // of the workspace
        if (place.parts == 1) {
            store_four((char *)p->o + bytes_of(row * dim, dtype), c, sum, dim, p->vectors, dtype);
        } else {
            store_four(p->part_o + at * dim, c, sum, dim, dim % 4 == 0, DTYPE_F32);
        }
        if (c == 0) {
            *(place.parts == 1 ? p->lse + row : p->part_lse + at) = lse;
        }
    }
}

// ---- the parts of a tile ------------------------------------------------------------------------

// x[4] = columns c .. c + 3 of a row [dim]; 0 for those from dim on. Where `fours`, dim is a
// multiple of four.
__device__ __forceinline__ void load_four(float *x, const float *row, int c, int dim,
                                          const int fours) {
    if (fours) {
        const float4 four = *(const float4 *)(row + c);
        x[0] = four.x;
        x[1] = four.y;
        x[2] = four.z;
        x[3] = four.w;
        return;
    }
    UNROLL
    for (int e = 0; e < 4; e++) {
        x[e] = c + e < dim ? row[c + e] : 0.0f;
    }
}

// All parts of a row become columns c .. c + 3 of O, and LSE. That is attention once more, with
// parts in the place of keys: their LSE are the scores, their O the values, and the scale is 1.
__device__ __forceinline__ void merge_row(const SplitKvParams *p, size_t row, int c, int parts,
                                          const int dtype, const int fours) {
    const int dim = p->dim;
    const float *part_o = p->part_o + row * p->splits * dim; // [splits][dim]
    const float *part_lse = p->part_lse + row * p->splits;   // [splits]
    float m = -INFINITY, l = 0.0f, acc[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int part = 0; part < parts; part += PARTS_AHEAD) {
        float s[PARTS_AHEAD], o[PARTS_AHEAD][4], m_new = m;
        UNROLL
        for (int j = 0; j < PARTS_AHEAD; j++) { // behind the last: the last once more, hidden
            const int at = part + j < parts ? part + j : parts - 1;
            s[j] = part_lse[at];
            load_four(o[j], part_o + (size_t)at * dim, c, dim, fours);
        }
        UNROLL
        for (int j = 0; j < PARTS_AHEAD; j++) {
            s[j] = part + j < parts ? s[j] : -INFINITY;
            m_new = fmaxf(m_new, s[j]);
        }
        const float reference = m_new == -INFINITY ? 0.0f : m_new;
        const float alpha = exp2_approx((m - reference) * LOG2_E);
        m = m_new;
        l *= alpha;
        UNROLL
        for (int e = 0; e < 4; e++) {
            acc[e] *= alpha;
        }
        UNROLL
        for (int j = 0; j < PARTS_AHEAD; j++) {
            const float weight = exp2_approx((s[j] - reference) * LOG2_E);
            l += weight;
            UNROLL
            for (int e = 0; e < 4; e++) { // a part without keys is left out
                acc[e] += s[j] == -INFINITY ? 0.0f : weight * o[j][e];
            }
        }
    }
    const float factor = l == 0.0f ? 0.0f : 1.0f / l;
    UNROLL
    for (int e = 0; e < 4; e++) {
        acc[e] *= factor;
    }
    store_four((char *)p->o + bytes_of(row * dim, dtype), c, acc, dim, p->vectors, dtype);
    if (c == 0) {
        p->lse[row] = m + logf(l);
    }
}

// All parts of the tile's rows become O and LSE. A thread has four columns of a row and all parts,
// so that it needs no other thread, and the rows of a tile do not wait for each other.
__device__ __forceinline__ void merge_parts(const SplitKvParams *p, Place place, const int dtype) {
    const int pieces = (p->dim + 3) / 4;
    for (int i = (int)threadIdx.x; i < place.count * pieces; i += (int)blockDim.x) {
        const size_t row = packed_row(p, place.head, place.row0 + i / pieces);
        if (p->dim % 4 == 0) {
            merge_row(p, row, i % pieces * 4, place.parts, dtype, 1);
        } else {
            merge_row(p, row, i % pieces * 4, place.parts, dtype, 0);
        }
    }
}

// From the states in shared memory to O: the block's part, its count, and all parts where the block
// is the last of its tile.
__device__ __forceinline__ void finish_part(const SplitKvParams *p, Place place, States states,
                                            const int groups, const int head_dim, const int dtype) {
    __syncthreads(); // the states are there
    merge_groups(p, place, states, groups, head_dim, dtype);
    if (place.parts == 1) {
        return;
    }
    __shared__ int is_last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned last = (unsigned)place.parts - 1;
        is_last = atomicInc(p->counters + place.unit, last) == last;
        __threadfence();
    }
    __syncthreads();
    if (is_last) {
        merge_parts(p, place, dtype);
    }
}

#endif
