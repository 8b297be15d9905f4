// Rung 2: the keys split, but nothing fused. Every operation is a launch of its own, and all that
// passes from one to the next goes through memory: the scores of all keys, then in their place the
// exponentials, and for each part its maximum, sum and output. The parts fill the GPU, and still
// this cannot show what splitting is worth: seven launches follow one another, each waits for the
// slowest block of the one before, and a short decode step is over before they have begun.
//
// Operations 1 to 5 have a block for each query and part, 6 and 7 one for each query. Loops whose
// threads end at different keys are not unrolled: a device would group their last requests in
// another way than the trace counts them.
#include "common/simt/simt.h"

#include "chapters/ch06_decode/decode.h"
#include "chapters/ch06_decode/load_row.h"

enum { THREADS = DECODE_THREADS, WARPS = THREADS / 32, LANES = 16 };
#define LOG2_E 1.44269504f

// ---- what a block works on ----------------------------------------------------------------------

// Keys that query `row` of all rows (batch, heads, len_q) sees.
__device__ __forceinline__ int row_keys(const DecodeParams *p, int row) {
    const int head = row / p->len_q, query = row % p->len_q;
    const int in_use = p->kv_lens == NULL ? p->len_kv : p->kv_lens[head / p->heads_q];
    const int keys = in_use < p->len_kv ? in_use : p->len_kv;
    const int seen = p->causal ? keys - (p->len_q - 1 - query) : keys;
    return seen > 0 ? seen : 0;
}

// A block's query, and its keys begin .. end - 1; none where the part does not exist.
typedef struct Part {
    int row, begin, end;
} Part;

__device__ __forceinline__ Part part_of_block(const DecodeParams *p) {
    Part part = {(int)blockIdx.x / p->splits, 0, 0};
    const int keys = row_keys(p, part.row), begin = (int)blockIdx.x % p->splits * p->part_keys;
    if (begin < keys) {
        part.begin = begin;
        part.end = keys - begin < p->part_keys ? keys : begin + p->part_keys;
    }
    return part;
}

// The rows of K, or of V, that a query reads.
__device__ __forceinline__ const char *kv_rows(const DecodeParams *p, const void *tensor, int row) {
    const size_t first = (size_t)(row / p->len_q / p->group) * p->len_kv;
    return (const char *)tensor + bytes_of(first * p->dim, p->dtype);
}

// The largest value of the block's threads, or their sum, in all of them.
__device__ __forceinline__ float block_max(float x) {
    __shared__ float maxima[WARPS];
    UNROLL
    for (int step = 16; step > 0; step /= 2) {
        x = fmaxf(x, __shfl_xor_sync(FULL_MASK, x, step, 32));
    }
    if (threadIdx.x % 32 == 0) {
        maxima[threadIdx.x / 32] = x;
    }
    __syncthreads();
    UNROLL
    for (int warp = 0; warp < WARPS; warp++) {
        x = fmaxf(x, maxima[warp]);
    }
    return x;
}

__device__ __forceinline__ float block_sum(float x) {
    __shared__ float sums[WARPS];
    UNROLL
    for (int step = 16; step > 0; step /= 2) {
        x += __shfl_xor_sync(FULL_MASK, x, step, 32);
    }
    if (threadIdx.x % 32 == 0) {
        sums[threadIdx.x / 32] = x;
    }
    __syncthreads();
    float sum = 0.0f;
    UNROLL
    for (int warp = 0; warp < WARPS; warp++) {
        sum += sums[warp];
    }
    return sum;
}

// e^(x - m), where m may be -inf.
__device__ __forceinline__ float exp_below(float x, float m) {
    return exp2_approx((x - (m == -INFINITY ? 0.0f : m)) * LOG2_E);
}

// ---- the operations -----------------------------------------------------------------------------

// 1. scores[row][key] = scale q k. Sixteen lanes share a key.
__global__ void __launch_bounds__(THREADS) unfused_scores(const __grid_constant__ DecodeParams p) {
    const Part part = part_of_block(&p);
    const int group = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES, dim = p.dim;
    const size_t row_bytes = bytes_of(dim, p.dtype);
    const char *restrict q = (const char *)p.q + part.row * row_bytes;
    const char *restrict k = kv_rows(&p, p.k, part.row);
    float *restrict scores = p.scores + (size_t)part.row * p.len_kv; // [len_kv]
    for (int key0 = part.begin; key0 < part.end; key0 += THREADS / LANES) {
        const int key = key0 + group;
        float score = 0.0f;
        for (int c = 8 * lane; c < dim; c += 8 * LANES) {
            const Columns columns = {c, c + 4};
            float x[8], y[8];
            widen(x, load_eight(q, columns, true, dim, p.vectors, p.dtype, 0), p.dtype);
            widen(y,
                  load_eight(k + key * row_bytes, columns, key < part.end, dim, p.vectors, p.dtype,
                             0),
                  p.dtype);
            UNROLL
            for (int e = 0; e < 8; e++) {
                score += x[e] * y[e];
            }
        }
        UNROLL
        for (int step = LANES / 2; step > 0; step /= 2) {
            score += __shfl_xor_sync(FULL_MASK, score, step, 32);
        }
        if (lane == 0 && key < part.end) {
            scores[key] = score * p.scale;
        }
    }
}
SIMT_KERNEL(unfused_scores, DecodeParams, THREADS);

// 2. The maximum of each part's scores, to the parts' place for an LSE.
__global__ void __launch_bounds__(THREADS) unfused_maxima(const __grid_constant__ DecodeParams p) {
    const Part part = part_of_block(&p);
    const float *restrict scores = p.scores + (size_t)part.row * p.len_kv; // [len_kv]
    float m = -INFINITY;
    NO_UNROLL
    for (int key = part.begin + (int)threadIdx.x; key < part.end; key += THREADS) {
        m = fmaxf(m, scores[key]);
    }
    m = block_max(m);
    if (threadIdx.x == 0) {
        p.part_lse[blockIdx.x] = m;
    }
}
SIMT_KERNEL(unfused_maxima, DecodeParams, THREADS);

// 3. scores = e^(scores - maximum)
__global__ void __launch_bounds__(THREADS)
    unfused_exponentials(const __grid_constant__ DecodeParams p) {
    const Part part = part_of_block(&p);
    float *restrict scores = p.scores + (size_t)part.row * p.len_kv; // [len_kv]
    if (part.begin == part.end) {
        return;
    }
    const float m = p.part_lse[blockIdx.x];
    NO_UNROLL
    for (int key = part.begin + (int)threadIdx.x; key < part.end; key += THREADS) {
        scores[key] = exp_below(scores[key], m);
    }
}
SIMT_KERNEL(unfused_exponentials, DecodeParams, THREADS);

// The sums of the parts' exponentials stand behind the scores: [heads][len_q][splits].
__device__ __forceinline__ float *part_sums(const DecodeParams *p) {
    return p->scores + (size_t)p->heads * p->len_q * p->len_kv;
}

// 4. The sum of each part's exponentials.
__global__ void __launch_bounds__(THREADS) unfused_sums(const __grid_constant__ DecodeParams p) {
    const Part part = part_of_block(&p);
    const float *restrict scores = p.scores + (size_t)part.row * p.len_kv; // [len_kv]
    float l = 0.0f;
    NO_UNROLL
    for (int key = part.begin + (int)threadIdx.x; key < part.end; key += THREADS) {
        l += scores[key];
    }
    l = block_sum(l);
    if (threadIdx.x == 0) {
        part_sums(&p)[blockIdx.x] = l;
    }
}
SIMT_KERNEL(unfused_sums, DecodeParams, THREADS);

// 5. part_o = exponentials V, not yet divided by their sum. A thread has every 128th column.
__global__ void __launch_bounds__(THREADS)
    unfused_products(const __grid_constant__ DecodeParams p) {
    const Part part = part_of_block(&p);
    const size_t row_bytes = bytes_of(p.dim, p.dtype);
    const char *restrict v = kv_rows(&p, p.v, part.row);
    const float *restrict scores = p.scores + (size_t)part.row * p.len_kv; // [len_kv]
    float *restrict part_o = p.part_o + (size_t)blockIdx.x * p.dim;        // [dim]
    for (int c = (int)threadIdx.x; c < p.dim; c += THREADS) {
        float sum = 0.0f;
        UNROLL_BY(4)
        for (int key = part.begin; key < part.end; key++) {
            sum += scores[key] * load_element(v + key * row_bytes, c, p.dtype);
        }
        part_o[c] = sum;
    }
}
SIMT_KERNEL(unfused_products, DecodeParams, THREADS);

// 6. The LSE of each query, and in the place of the maxima what each part's output weighs:
//     weight = e^(m_part - m) / l,  l = sum of e^(m_part - m) l_part
__global__ void __launch_bounds__(THREADS) unfused_weights(const __grid_constant__ DecodeParams p) {
    const size_t row = blockIdx.x;
    float *restrict weights = p.part_lse + row * p.splits;       // [splits]
    const float *restrict sums = part_sums(&p) + row * p.splits; // [splits]
    float m = -INFINITY, l = 0.0f;
    for (int part = (int)threadIdx.x; part < p.splits; part += THREADS) {
        m = fmaxf(m, weights[part]);
    }
    m = block_max(m);
    for (int part = (int)threadIdx.x; part < p.splits; part += THREADS) {
        l += exp_below(weights[part], m) * sums[part];
    }
    l = block_sum(l);
    const float factor = l == 0.0f ? 0.0f : 1.0f / l; // 0: no key is seen
    for (int part = (int)threadIdx.x; part < p.splits; part += THREADS) {
        weights[part] = exp_below(weights[part], m) * factor;
    }
    if (threadIdx.x == 0) {
        p.lse[row] = m + logf(l);
    }
}
SIMT_KERNEL(unfused_weights, DecodeParams, THREADS);

// 7. O = sum of weight part_o, in the order of the parts.
__global__ void __launch_bounds__(THREADS) unfused_merge(const __grid_constant__ DecodeParams p) {
    const size_t row = blockIdx.x;
    const float *restrict weights = p.part_lse + row * p.splits;      // [splits]
    const float *restrict part_o = p.part_o + row * p.splits * p.dim; // [splits][dim]
    char *restrict o = (char *)p.o + bytes_of(row * p.dim, p.dtype);  // [dim]
    const int keys = row_keys(&p, (int)row);
    for (int c = (int)threadIdx.x; c < p.dim; c += THREADS) {
        float sum = 0.0f;
        UNROLL_BY(4)
        for (int part = 0; part < p.splits; part++) {
            if (part * p.part_keys < keys) { // it exists
                sum += weights[part] * part_o[(size_t)part * p.dim + c];
            }
        }
        store_element(o, c, sum, p.dtype);
    }
}
SIMT_KERNEL(unfused_merge, DecodeParams, THREADS);

// ---- launches -----------------------------------------------------------------------------------

static AttnStatus run(DecodeParams p, GpuStream stream) {
    const unsigned rows = (unsigned)(p.heads * p.len_q);
    const dim3 parts = {rows * (unsigned)p.splits, 1, 1}, queries = {rows, 1, 1};
    const dim3 block = {THREADS, 1, 1};
    AttnStatus status = LAUNCH(unfused_scores, parts, block, 0, stream, p);
    if (status == ATTN_OK) {
        status = LAUNCH(unfused_maxima, parts, block, 0, stream, p);
    }
    if (status == ATTN_OK) {
        status = LAUNCH(unfused_exponentials, parts, block, 0, stream, p);
    }
    if (status == ATTN_OK) {
        status = LAUNCH(unfused_sums, parts, block, 0, stream, p);
    }
    if (status == ATTN_OK) {
        status = LAUNCH(unfused_products, parts, block, 0, stream, p);
    }
    if (status == ATTN_OK) {
        status = LAUNCH(unfused_weights, queries, block, 0, stream, p);
    }
    return status != ATTN_OK ? status : LAUNCH(unfused_merge, queries, block, 0, stream, p);
}

AttnStatus ENTRY(split_kv_unfused)(const AttnShape *shape, DType dtype, const void *q,
                                   const void *k, const void *v, void *o, float *lse,
                                   const int32_t *kv_lens, int64_t splits, void *workspace,
                                   GpuStream stream) {
    DecodeParams p;
    const AttnStatus status = decode_prepare(&p, &decode_rungs[1], shape, dtype, q, k, v, o, lse,
                                             kv_lens, splits, workspace);
    return status != ATTN_OK || p.heads == 0 ? status : run(p, stream);
}
