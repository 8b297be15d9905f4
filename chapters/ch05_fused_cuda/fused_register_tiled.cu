// Rung 5: register tiles. The loops of fused_tiled.cu; but a thread computes a rectangle of scores,
// eight rows by four keys, and a rectangle of outputs, eight rows by four columns or more.
//
// What that saves: in fused_tiled.cu nine float4 from shared memory serve 32 multiply-adds. Here
// eight of Q and four of K serve 128, and eight of P and four of V as many: each value that is
// loaded is used four or eight times, and shared memory no longer sets the pace.
//
// Sixteen lanes share their rows. A lane has every 16th key of a tile, and every 16th float4 of the
// columns. Its rows are `groups` apart, groups being the block's number of sixteens of lanes, so
// that the two halves of a warp read neighbouring rows. A row's probabilities go round through
// shared memory inside the half warp.
//
// The sizes are constants of each kernel: an array stays in registers only if every index is known
// when it is compiled. __launch_bounds__ says how many blocks an SM shall hold, and with that how
// many registers a thread may have.
//
// fused_register_tiled_f16 is the same code with Q, K, V and O stored in 16 bits: half the bytes,
// the same multiply-adds.
#include "common/simt/simt.h"

#include "chapters/ch05_fused_cuda/fused.h"
#include "chapters/ch05_fused_cuda/load_tile.h"

enum { LANES = 16, MAX_ROWS = 8, MAX_KEYS = 4, MAX_FOURS = FUSED_MAX_DIM / (4 * LANES) };
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
// LANES * keys keys; f16 is the storage of Q, K, V and O.
__device__ __forceinline__ void attend(const FusedParams *p, const int head_dim, const int threads,
                                       const int rows, const int keys, const int f16) {
    const int groups = threads / LANES, block_q = groups * rows, block_k = LANES * keys;
    const int stride = head_dim + PAD, p_stride = block_k + LANES, fours = head_dim / (4 * LANES);
    DYNAMIC_SHARED(float, shared);
    float *q_tile = shared;                      // [block_q][stride]
    float *k_tile = q_tile + block_q * stride;   // [block_k][stride]
    float *v_tile = k_tile + block_k * stride;   // [block_k][head_dim]
    float *p_tile = v_tile + block_k * head_dim; // [block_q][p_stride]

    const int len_q = p->len_q, len_kv = p->len_kv, dim = p->dim, vectors = p->vectors;
    const int tiles = (len_q + block_q - 1) / block_q;
    const int head = (int)blockIdx.x / tiles, row0 = (int)blockIdx.x % tiles * block_q;
    const size_t kv_head = (size_t)(head / p->group), row_bytes = (size_t)dim * (f16 ? 2 : 4);
    const char *restrict q = (const char *)p->q + (size_t)head * len_q * row_bytes; // [len_q][dim]
    const char *restrict k = (const char *)p->k + kv_head * len_kv * row_bytes;     // [len_kv][dim]
    const char *restrict v = (const char *)p->v + kv_head * len_kv * row_bytes;     // [len_kv][dim]
    char *restrict o = (char *)p->o + (size_t)head * len_q * row_bytes;             // [len_q][dim]
    float *restrict lse = p->lse + (size_t)head * len_q;                            // [len_q]

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
    load_tile(q_tile, stride, block_q, head_dim, q, row0, len_q, dim, vectors, threads, f16);
    const float *my_q = q_tile + group * stride;
    float *my_p = p_tile + group * p_stride;
    const float scale_log2 = p->scale * 1.44269504f; // exp(scale x) = 2^(scale_log2 x)

    for (int key0 = 0; key0 < len_kv; key0 += block_k) {
        __syncthreads(); // the tiles before have served
        load_tile(k_tile, stride, block_k, head_dim, k, key0, len_kv, dim, vectors, threads, f16);
        load_tile(v_tile, head_dim, block_k, head_dim, v, key0, len_kv, dim, vectors, threads, f16);
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
        if (key0 + block_k > len_kv) { // the last tile: keys that are not there
            UNROLL
            for (int j = 0; j < keys; j++) {
                UNROLL
                for (int i = 0; i < rows; i++) {
                    s[i][j] = key0 + lane + LANES * j < len_kv ? s[i][j] : -INFINITY;
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
        const float factor = sum == 0.0f ? 0.0f : 1.0f / sum; // 0: there is no key
        if (row < len_q) {
            UNROLL
            for (int x = 0; x < fours; x++) {
                store_four(o + row * row_bytes, 4 * (lane + LANES * x), dim, vectors,
                           times(factor, acc[i][x]), f16);
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
#define KERNEL(name, head_dim, threads, blocks, rows, keys, f16)                                   \
    __global__ void __launch_bounds__(threads, blocks)                                             \
        name(const __grid_constant__ FusedParams p) {                                              \
        attend(&p, head_dim, threads, rows, keys, f16);                                            \
    }                                                                                              \
    SIMT_KERNEL(name, FusedParams, threads);                                                       \
    static AttnStatus name##_prepare(void) {                                                       \
        return SHARED_OPT_IN(name, shared_bytes(head_dim, threads, rows, keys));                   \
    }                                                                                              \
    static AttnStatus name##_launch(FusedParams p, GpuStream stream) {                             \
        const int block_q = (threads) / LANES * (rows);                                            \
        const dim3 grid = {(unsigned)((p.len_q + block_q - 1) / block_q * p.heads), 1, 1};         \
        const dim3 block = {(threads), 1, 1};                                                      \
        return LAUNCH(name, grid, block, shared_bytes(head_dim, threads, rows, keys), stream, p);  \
    }                                                                                              \
    static_assert((rows) <= MAX_ROWS && (keys) <= MAX_KEYS, "the arrays of attend")

static size_t shared_bytes(int head_dim, int threads, int rows, int keys) {
    const int block_q = threads / LANES * rows, block_k = LANES * keys;
    return sizeof(float) * (size_t)((block_q + block_k) * (head_dim + PAD) + block_k * head_dim +
                                    block_q * (block_k + LANES));
}

// The kernels of one storage type. Shared memory: 72, 175 and 219 KB; where a device has less than
// the last two, 79 and 70.
#define KERNELS(name, f16)                                                                         \
    KERNEL(name##_64, 64, 128, 3, 8, 4, f16);                                                      \
    KERNEL(name##_128, 128, 256, 1, 8, 4, f16);                                                    \
    KERNEL(name##_128_small, 128, 128, 2, 8, 2, f16);                                              \
    KERNEL(name##_256, 256, 256, 1, 4, 4, f16);                                                    \
    KERNEL(name##_256_small, 256, 128, 1, 4, 1, f16);                                              \
    static AttnStatus name##_run(FusedParams p, GpuStream stream) {                                \
        if (p.dim > 128) {                                                                         \
            if (name##_256_prepare() == ATTN_OK) {                                                 \
                return name##_256_launch(p, stream);                                               \
            }                                                                                      \
            const AttnStatus status = name##_256_small_prepare();                                  \
            return status != ATTN_OK ? status : name##_256_small_launch(p, stream);                \
        }                                                                                          \
        if (p.dim > 64) {                                                                          \
            if (name##_128_prepare() == ATTN_OK) {                                                 \
                return name##_128_launch(p, stream);                                               \
            }                                                                                      \
            const AttnStatus status = name##_128_small_prepare();                                  \
            return status != ATTN_OK ? status : name##_128_small_launch(p, stream);                \
        }                                                                                          \
        const AttnStatus status = name##_64_prepare();                                             \
        return status != ATTN_OK ? status : name##_64_launch(p, stream);                           \
    }                                                                                              \
    static_assert(FUSED_MAX_DIM == 256, "the largest kernel's")

KERNELS(register_tiled, 0);
KERNELS(register_tiled_f16, 1);

AttnStatus ENTRY(fused_register_tiled)(const AttnShape *shape, const float *q, const float *k,
                                       const float *v, float *o, float *lse, float *workspace,
                                       GpuStream stream) {
    FusedParams p;
    const AttnStatus status =
        fused_prepare(&p, shape, q, k, v, o, lse, workspace, 0, sizeof(float));
    return status != ATTN_OK || p.heads == 0 ? status : register_tiled_run(p, stream);
}

AttnStatus ENTRY(fused_register_tiled_f16)(const AttnShape *shape, const uint16_t *q,
                                           const uint16_t *k, const uint16_t *v, uint16_t *o,
                                           float *lse, GpuStream stream) {
    FusedParams p;
    const AttnStatus status = fused_prepare(&p, shape, q, k, v, o, lse, NULL, 0, sizeof(uint16_t));
    return status != ATTN_OK || p.heads == 0 ? status : register_tiled_f16_run(p, stream);
}
