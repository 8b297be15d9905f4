// Packed rows in a matrix instruction (chapter 8), for the kernels of chapters 8 and 9: what a lane
// has of a tile, how it is loaded, and how it leaves for the merge. Which row, key and dim a lane
// has of each fragment is explained in chapters/ch08_gqa/gqa_mma.cu. What a step does with its keys
// is written out in each kernel.
//
// Arguments declared `const int` after the others are constants at every call. Lane 4g + t.
#ifndef COMMON_MMA_ROWS_H
#define COMMON_MMA_ROWS_H

#define PARTS_AHEAD 16 // of the merge: the registers are there
#include "common/merge_parts.h"

enum { THREADS = SPLIT_KV_MMA_THREADS, WARPS = THREADS / 32, KEYS = 16, MAX_DIM = 128 };
static_assert(KEYS * WARPS == SPLIT_KV_MMA_KEYS,
              "the warps of a block take a step of 16 keys each");

// What a lane has of a tile of 8 rows, or of 16 in two halves (h = 0, 1).
typedef struct Rows {
    uint32_t q[MAX_DIM / 16][4]; // A of each instruction: rows g and g + 8
    MaskRange seen[2];           // the keys that row g + 8h sees
    float m[2], l[2];            // of row g + 8h; m: of scores not yet scaled; l: this lane's keys
    float o[2][MAX_DIM / 16][4]; // C of each instruction: rows 2t + 8h, 2t + 1 + 8h; two dims
    int token[2][2];             // of the rows of o; -1: there is no such row
    Mask mask;
    int first, last; // tokens of the tile
    float scale_log2;
} Rows;

// ---- fragments ----------------------------------------------------------------------------------

__device__ __forceinline__ void multiply(float *d, const uint32_t *a, const uint32_t *b,
                                         const float *c, const int dtype) {
    if (dtype == DTYPE_F16) {
        mma_m16n8k16_f16(d, a, b, c);
    } else {
        mma_m16n8k16_bf16(d, a, b, c);
    }
}

__device__ __forceinline__ uint32_t word(uint4 x, const int i) {
    return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}

// Two probabilities as a pair, the first in the low half.
__device__ __forceinline__ uint32_t pair_of(float low, float high, const int dtype) {
    if (dtype == DTYPE_F16) {
        union {
            __half2 pair;
            uint32_t bits;
        } x;
        x.pair = __floats2half2_rn(low, high);
        return x.bits;
    }
    union {
        __nv_bfloat162 pair;
        uint32_t bits;
    } x;
    x.pair = __floats2bfloat162_rn(low, high);
    return x.bits;
}

// A of instruction i of V^T P^T: word i % 4 of two keys at a time becomes the pair of their dims
// 2j, and the pair of their dims 2j + 1. keep[2]: the bits of each pair that stay.
__device__ __forceinline__ void pair_values(uint32_t *a, uint4 v_row[4][MAX_DIM / 64], const int i,
                                            const uint32_t *keep) {
    UNROLL
    for (int n = 0; n < 2; n++) {
        const uint32_t x = word(v_row[2 * n][i / 4], i % 4);
        const uint32_t y = word(v_row[2 * n + 1][i / 4], i % 4);
        a[2 * n] = __byte_perm(x, y, 0x5410) & keep[n];
        a[2 * n + 1] = __byte_perm(x, y, 0x7632) & keep[n];
    }
}

// ---- registers and steps ------------------------------------------------------------------------

// Something for the registers to keep where nothing is loaded.
__device__ __forceinline__ void clear_loads(uint4 k_row[2][MAX_DIM / 32],
                                            uint4 v_row[4][MAX_DIM / 64]) {
    UNROLL
    for (int i = 0; i < MAX_DIM / 16; i++) {
        k_row[i / 4][i % 4] = make_uint4(0, 0, 0, 0);
        v_row[i / 2][i % 2] = make_uint4(0, 0, 0, 0);
    }
}

// The key a step on, or `end` where it is not before it.
__device__ __forceinline__ int step_on(int key, int step, int end) {
    return step < end - key ? key + step : end;
}

// ---- the tile's rows ----------------------------------------------------------------------------

// The lane's part of the tile: Q, and an empty state.
__device__ __forceinline__ void load_rows(Rows *rows, const SplitKvParams *p, Place place,
                                          const int dim, const int halves) {
    const int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    const uint16_t *q = (const uint16_t *)p->q; // [batch][heads_q][len_q][dim]
    UNROLL
    for (int h = 0; h < 2; h++) {
        const bool there = h < halves && g + 8 * h < place.count;
        const int r = place.row0 + (there ? g + 8 * h : 0);
        rows->seen[h] = mask_row_keys(rows->mask, r / p->group);
        rows->seen[h].end = there ? rows->seen[h].end : 0;
        rows->m[h] = -INFINITY;
        rows->l[h] = 0.0f;
        UNROLL
        for (int i = 0; i < dim / 32; i++) {
            const uint16_t *from = q + packed_row(p, place.head, r) * dim + 32 * i + 8 * t;
            const uint4 x = there ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);
            rows->q[2 * i][h] = x.x;
            rows->q[2 * i][h + 2] = x.y;
            rows->q[2 * i + 1][h] = x.z;
            rows->q[2 * i + 1][h + 2] = x.w;
        }
        UNROLL
        for (int e = 0; e < 4; e++) {
            const int row = 2 * t + e % 2 + 8 * h;
            rows->token[h][e % 2] = row < place.count ? (place.row0 + row) / p->group : -1;
            UNROLL
            for (int i = 0; i < dim / 16; i++) {
                rows->o[h][i][e] = 0.0f;
            }
        }
    }
    rows->scale_log2 = p->scale * LOG2_E;
}

// The warp's state, to shared memory: of the rows 2t + 8h and 2t + 1 + 8h, dims 8g .. 8g+7 of each
// 64; m and l of row g + 8h.
__device__ __forceinline__ void store_rows(States states, const Rows *rows, const int dim,
                                           const int halves) {
    const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    UNROLL
    for (int h = 0; h < halves; h++) {
        UNROLL
        for (int e = 0; e < 2; e++) {
            float *acc = states.acc + ((2 * t + e + 8 * h) * WARPS + warp) * dim + 8 * g;
            UNROLL
            for (int i = 0; i < dim / 16; i += 2) {
                const float *low = rows->o[h][i], *high = rows->o[h][i + 1];
                *(float4 *)(acc + i / 4 * 64 + i % 4 * 2) =
                    make_float4(low[e], low[e + 2], high[e], high[e + 2]);
            }
        }
        float l = rows->l[h];
        l += __shfl_xor_sync(FULL_MASK, l, 1, 32);
        l += __shfl_xor_sync(FULL_MASK, l, 2, 32);
        if (t == 0) {
            states.m[(g + 8 * h) * WARPS + warp] = rows->m[h];
            states.l[(g + 8 * h) * WARPS + warp] = l;
        }
    }
}

#endif
