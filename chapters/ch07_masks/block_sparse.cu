// Block-sparse attention: causal.cu, but which tiles a block visits is read from a list. That is
// any pattern of 64 x 64 tiles: a mask of tiles that somebody chose, where causal.cu's follows from
// a rule. Three places differ from causal.cu:
//
//     which tiles   the key blocks that BlockList has for this block of queries, in compressed
//                   sparse rows: from offsets[i] to offsets[i + 1]. None is legal
//     which ask     mask_tile says also TILE_SKIP, for a listed tile that causal, window or the
//                   entry's length hide whole: it is not loaded
//     sizes         a block of 64 queries and tiles of 64 keys for every dim. On a device with less
//                   shared memory two or more blocks share a list's row, and a listed tile is
//                   visited in parts
#include "common/simt/simt.h"

#include "chapters/ch07_masks/load_tile.h"
#include "chapters/ch07_masks/mask.h"
#include "chapters/ch07_masks/masks.h"

enum { LANES = 16, MAX_ROWS = 8, MAX_KEYS = 4, MAX_FOURS = MASKS_MAX_DIM / (4 * LANES) };
enum { PAD = 4 }; // floats behind each row of Q and K: eight lanes' float4 fill the 32 banks

// The largest value of the row's 16 lanes, and their sum.
__device__ __forceinline__ float row_max(float x) {
    UNROLL
    for (int step = LANES / 2; step > 0; step /= 2) {
        x = fmaxf(x, __shfl_xor_sync(FULL_MASK, x, step, 32));
    }
    return x;
}

__device__ __forceinline__ float row_sum(float x) {
    UNROLL
    for (int step = LANES / 2; step > 0; step /= 2) {
        x += __shfl_xor_sync(FULL_MASK, x, step, 32);
    }
    return x;
}

__device__ __forceinline__ float4 times(float a, float4 x) {
    return make_float4(a * x.x, a * x.y, a * x.z, a * x.w);
}

__device__ __forceinline__ void add_product(float4 *acc, float a, float4 x) {
    acc->x += a * x.x;
    acc->y += a * x.y;
    acc->z += a * x.z;
    acc->w += a * x.w;
}

// The kernel for dim <= head_dim. A block of `threads` has threads / LANES * rows queries, a tile
// LANES * keys keys.
__device__ __forceinline__ void attend(const MasksParams *p, const int head_dim, const int threads,
                                       const int rows, const int keys) {
    const int groups = threads / LANES, block_q = groups * rows, block_k = LANES * keys;
    const int stride = head_dim + PAD, p_stride = block_k + LANES, fours = head_dim / (4 * LANES);
    DYNAMIC_SHARED(float, shared);
    float *q_tile = shared;                      // [block_q][stride]
    float *k_tile = q_tile + block_q * stride;   // [block_k][stride]
    float *v_tile = k_tile + block_k * stride;   // [block_k][head_dim]
    float *p_tile = v_tile + block_k * head_dim; // [block_q][p_stride]

    const int len_q = p->len_q, len_kv = p->len_kv, dim = p->dim;
    const int dtype = p->dtype, vectors = p->vectors;
    const int tiles = (len_q + block_q - 1) / block_q, block = (int)blockIdx.x;
    const int head = p->causal ? block % p->heads : block / tiles;
    const int row0 = (p->causal ? tiles - 1 - block / p->heads : block % tiles) * block_q;
    const size_t kv_head = (size_t)(head / p->group);
    const size_t row_bytes = (size_t)dim * (dtype == DTYPE_F32 ? 4 : 2);
    const char *restrict q = (const char *)p->q + (size_t)head * len_q * row_bytes; // [len_q][dim]
    const char *restrict k = (const char *)p->k + kv_head * len_kv * row_bytes;     // [len_kv][dim]
    const char *restrict v = (const char *)p->v + kv_head * len_kv * row_bytes;     // [len_kv][dim]
    char *restrict o = (char *)p->o + (size_t)head * len_q * row_bytes;             // [len_q][dim]
    float *restrict lse = p->lse + (size_t)head * len_q;                            // [len_q]
    const int32_t *restrict kv_lens = p->kv_lens; // [batch], or NULL
    const int32_t *restrict offsets = p->offsets; // [query blocks + 1]
    const int32_t *restrict blocks = p->blocks;   // [offsets[query blocks]]

    // Every thread keeps the number of keys. The rest of the rule waits in shared memory: in
    // registers it would take the place of scores.
    __shared__ Mask shared_mask;
    const int in_use = kv_lens != NULL ? kv_lens[head / p->heads_q] : len_kv;
    const int keys_in_use = in_use < 0 ? 0 : (in_use < len_kv ? in_use : len_kv);
    const Mask block_mask = {len_q, keys_in_use, p->causal, p->window};
    if (threadIdx.x == 0) {
        shared_mask = block_mask;
    }

    const int group = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES;
    float m[MAX_ROWS], l[MAX_ROWS];  // of scores not yet scaled; l: of this lane's keys only
    float4 acc[MAX_ROWS][MAX_FOURS]; // rows group + groups i, columns 4 (lane + LANES x) + 0..3
    UNROLL
    for (int i = 0; i < rows; i++) {
        m[i] = -INFINITY;
        l[i] = 0.0f;
        UNROLL
        for (int x = 0; x < fours; x++) {
            acc[i][x] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
    }
    load_tile(q_tile, stride, block_q, head_dim, q, row0, len_q, dim, vectors, threads, dtype);
    const float *my_q = q_tile + group * stride;
    float *my_p = p_tile + group * p_stride;
    const float scale_log2 = p->scale * 1.44269504f; // exp(scale x) = 2^(scale_log2 x)

    const int parts = BLOCK_SPARSE / block_k; // of a listed tile: 1 where a tile holds it
    const int first = offsets[row0 / BLOCK_SPARSE];
    const int steps = (offsets[row0 / BLOCK_SPARSE + 1] - first) * parts;
    for (int step = 0; step < steps; step++) {
        const int key0 = blocks[first + step / parts] * BLOCK_SPARSE + step % parts * block_k;
        __syncthreads(); // the tiles before have served, and shared_mask is there
        const Mask mask = shared_mask;
        const TileClass tile = mask_tile(mask, row0, block_q, key0, block_k);
        if (tile == TILE_SKIP) {
            continue;
        }
        load_tile(k_tile, stride, block_k, head_dim, k, key0, keys_in_use, dim, vectors, threads,
                  dtype);
        load_tile(v_tile, head_dim, block_k, head_dim, v, key0, keys_in_use, dim, vectors, threads,
                  dtype);
        __syncthreads();

        // S = Q K^T, rows group + groups i, keys key0 + lane + LANES j.
        float s[MAX_ROWS][MAX_KEYS];
        UNROLL
        for (int i = 0; i < rows; i++) {
            UNROLL
            for (int j = 0; j < keys; j++) {
                s[i][j] = 0.0f;
            }
        }
        UNROLL_BY(4)
        for (int c = 0; c < head_dim; c += 4) {
            float4 b[MAX_KEYS];
            UNROLL
            for (int j = 0; j < keys; j++) {
                b[j] = *(const float4 *)(k_tile + (lane + LANES * j) * stride + c);
            }
            UNROLL
            for (int i = 0; i < rows; i++) {
                const float4 a = *(const float4 *)(my_q + groups * i * stride + c);
                UNROLL
                for (int j = 0; j < keys; j++) {
                    s[i][j] += a.x * b[j].x;
                    s[i][j] += a.y * b[j].y;
                    s[i][j] += a.z * b[j].z;
                    s[i][j] += a.w * b[j].w;
                }
            }
        }
        if (tile == TILE_PARTIAL) {
            UNROLL
            for (int i = 0; i < rows; i++) {
                UNROLL
                for (int j = 0; j < keys; j++) {
                    const int sees =
                        mask_sees(mask, row0 + group + groups * i, key0 + lane + LANES * j);
                    s[i][j] = sees ? s[i][j] : -INFINITY;
                }
            }
        }

        // The online softmax update of chapter 2 for each row. All lanes of a row scale by the same
        // alpha, so that their sums l can wait until the end to be added up.
        UNROLL
        for (int i = 0; i < rows; i++) {
            float m_new = m[i];
            UNROLL
            for (int j = 0; j < keys; j++) {
                m_new = fmaxf(m_new, s[i][j]);
            }
            m_new = row_max(m_new);
            const float reference = m_new == -INFINITY ? 0.0f : m_new; // -inf - -inf is NaN
            const float alpha = exp2_approx((m[i] - reference) * scale_log2);
            m[i] = m_new;
            l[i] *= alpha;
            UNROLL
            for (int x = 0; x < fours; x++) {
                acc[i][x] = times(alpha, acc[i][x]);
            }
            UNROLL
            for (int j = 0; j < keys; j++) {
                const float probability = exp2_approx((s[i][j] - reference) * scale_log2);
                l[i] += probability;
                my_p[groups * i * p_stride + lane + LANES * j] = probability;
            }
        }
        __syncwarp(FULL_MASK); // the rows' probabilities are in p_tile

        // O += P V over the pairs that count, a key at a time.
        if (tile == TILE_PARTIAL) {
            UNROLL_BY(2)
            for (int j = 0; j < block_k; j++) {
                float4 b[MAX_FOURS];
                UNROLL
                for (int x = 0; x < fours; x++) {
                    b[x] = *(const float4 *)(v_tile + j * head_dim + 4 * (lane + LANES * x));
                }
                UNROLL
                for (int i = 0; i < rows; i++) {
                    const float a = my_p[groups * i * p_stride + j];
                    const int sees = mask_sees(mask, row0 + group + groups * i, key0 + j);
                    UNROLL
                    for (int x = 0; x < fours; x++) {
                        if (sees) {
                            add_product(&acc[i][x], a, b[x]);
                        }
                    }
                }
            }
            continue;
        }
        // O += P V, four keys at a time.
        UNROLL_BY(2)
        for (int j = 0; j < block_k; j += 4) {
            float4 a[MAX_ROWS];
            UNROLL
            for (int i = 0; i < rows; i++) {
                a[i] = *(const float4 *)(my_p + groups * i * p_stride + j);
            }
            UNROLL
            for (int x = 0; x < fours; x++) {
                const float *b = v_tile + j * head_dim + 4 * (lane + LANES * x);
                const float4 b0 = *(const float4 *)b, b1 = *(const float4 *)(b + head_dim);
                const float4 b2 = *(const float4 *)(b + 2 * head_dim);
                const float4 b3 = *(const float4 *)(b + 3 * head_dim);
                UNROLL
                for (int i = 0; i < rows; i++) {
                    add_product(&acc[i][x], a[i].x, b0);
                    add_product(&acc[i][x], a[i].y, b1);
                    add_product(&acc[i][x], a[i].z, b2);
                    add_product(&acc[i][x], a[i].w, b3);
                }
            }
        }
    }
    UNROLL
    for (int i = 0; i < rows; i++) {
        const int row = row0 + group + groups * i;
        const float sum = row_sum(l[i]);
        const float factor = sum == 0.0f ? 0.0f : 1.0f / sum; // 0: the row sees no key
        if (row < len_q) {
            UNROLL
            for (int x = 0; x < fours; x++) {
                store_four(o + row * row_bytes, 4 * (lane + LANES * x), dim, vectors,
                           times(factor, acc[i][x]), dtype);
            }
            if (lane == 0) {
                lse[row] = m[i] * p->scale + logf(sum);
            }
        }
    }
}

// ---- kernels and launches -----------------------------------------------------------------------

// A kernel; a function that asks for its shared memory, more than the 48 KB that are there without
// asking, and fails where the device has less; and one that launches it.
#define KERNEL(name, head_dim, threads, blocks, rows, keys)                                        \
    __global__ void __launch_bounds__(threads, blocks)                                             \
        name(const __grid_constant__ MasksParams p) {                                              \
        attend(&p, head_dim, threads, rows, keys);                                                 \
    }                                                                                              \
    SIMT_KERNEL(name, MasksParams, threads);                                                       \
    static AttnStatus name##_prepare(void) {                                                       \
        return SHARED_OPT_IN(name, shared_bytes(head_dim, threads, rows, keys));                   \
    }                                                                                              \
    static AttnStatus name##_launch(MasksParams p, GpuStream stream) {                             \
        const int block_q = (threads) / LANES * (rows);                                            \
        const dim3 grid = {(unsigned)((p.len_q + block_q - 1) / block_q * p.heads), 1, 1};         \
        const dim3 block = {(threads), 1, 1};                                                      \
        return LAUNCH(name, grid, block, shared_bytes(head_dim, threads, rows, keys), stream, p);  \
    }                                                                                              \
    static_assert((rows) <= MAX_ROWS && (keys) <= MAX_KEYS, "the arrays of attend");               \
    static_assert(BLOCK_SPARSE % ((threads) / LANES * (rows)) == 0 &&                              \
                      BLOCK_SPARSE % (LANES * (keys)) == 0,                                        \
                  "a listed tile is whole tiles")

static size_t shared_bytes(int head_dim, int threads, int rows, int keys) {
    const int block_q = threads / LANES * rows, block_k = LANES * keys;
    return sizeof(float) * (size_t)((block_q + block_k) * (head_dim + PAD) + block_k * head_dim +
                                    block_q * (block_k + LANES));
}

// Shared memory: 72, 118 and 214 KB; where a device has less than the last two, 78 and 69.
KERNEL(block_sparse_64, 64, 128, 3, 8, 4);
KERNEL(block_sparse_128, 128, 256, 1, 4, 4);
KERNEL(block_sparse_128_small, 128, 128, 2, 8, 2);
KERNEL(block_sparse_256, 256, 256, 1, 4, 4);
KERNEL(block_sparse_256_small, 256, 128, 1, 4, 1);
static_assert(MASKS_MAX_DIM == 256, "the largest kernel's");

static AttnStatus run(MasksParams p, GpuStream stream) {
    if (p.dim > 128) {
        if (block_sparse_256_prepare() == ATTN_OK) {
            return block_sparse_256_launch(p, stream);
        }
        const AttnStatus status = block_sparse_256_small_prepare();
        return status != ATTN_OK ? status : block_sparse_256_small_launch(p, stream);
    }
    if (p.dim > 64) {
        if (block_sparse_128_prepare() == ATTN_OK) {
            return block_sparse_128_launch(p, stream);
        }
        const AttnStatus status = block_sparse_128_small_prepare();
        return status != ATTN_OK ? status : block_sparse_128_small_launch(p, stream);
    }
    const AttnStatus status = block_sparse_64_prepare();
    return status != ATTN_OK ? status : block_sparse_64_launch(p, stream);
}

AttnStatus ENTRY(block_sparse_attention)(const AttnShape *shape, DType dtype, const void *q,
                                         const void *k, const void *v, void *o, float *lse,
                                         const int32_t *kv_lens, const DeviceBlockList *list,
                                         GpuStream stream) {
    MasksParams p;
    AttnStatus status = masks_prepare(&p, shape, dtype, q, k, v, o, lse, kv_lens);
    if (status == ATTN_OK) {
        status = masks_prepare_list(&p, shape, list);
    }
    return status != ATTN_OK || p.heads == 0 ? status : run(p, stream);
}
