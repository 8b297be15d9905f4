// Lab 2: a bias on the scores (ALiBi) inside the tile loop of a fused kernel.
//
// A block of 128 threads holds 32 queries of one head. Tiles of 32 keys and values come to shared
// memory one after the other. Warp w has the rows 8 w .. 8 w + 7: for the scores lane n takes key n
// of the tile, for the output dimensions n, n + 32, ... The bias is computed where the score is, in
// a register; a matrix of biases, [heads][T][S], would be read from memory once for every score.
#include "labs.h"

#include "common/simt/simt.h"

enum { TILE = 32, WARPS = 4, THREADS = 32 * WARPS, WARP_ROWS = TILE / WARPS };
enum { LANE_DIMS = ALIBI_MAX_DIM / 32 }; // output dimensions of a lane, at most

static const unsigned all_lanes = 0xffffffffu;

__device__ __forceinline__ float warp_max(float x) {
    for (int distance = 16; distance > 0; distance /= 2) {
        x = fmaxf(x, __shfl_xor_sync(all_lanes, x, distance, 32));
    }
    return x;
}

__device__ __forceinline__ float warp_sum(float x) {
    for (int distance = 16; distance > 0; distance /= 2) {
        x += __shfl_xor_sync(all_lanes, x, distance, 32);
    }
    return x;
}

// Where element c of row r lies in a tile whose rows are `pitch` words apart, a multiple of 32. The
// columns of row r change places, so that lanes which read column c of 32 rows hit 32 banks.
__device__ __forceinline__ int place(int r, int c, int pitch) {
    return r * pitch + (c ^ r);
}

// Copies rows first .. first+31 of `from` [rows][dim] into a tile; what does not exist becomes 0.
__device__ __forceinline__ void load_tile(float *tile, const float *restrict from, int first,
                                          int rows, int dim, int pitch) {
    for (int e = (int)threadIdx.x; e < TILE * pitch; e += THREADS) {
        const int r = e / pitch, c = e % pitch;
        const bool exists = first + r < rows && c < dim;
        tile[place(r, c, pitch)] = exists ? from[(size_t)(first + r) * dim + c] : 0.0f;
    }
}

__global__ void __launch_bounds__(THREADS) alibi_kernel(const __grid_constant__ Alibi p) {
    DYNAMIC_SHARED(float, shared);
    const int dim = p.dim, pitch = (dim + 31) / 32 * 32;
    float *q_tile = shared;                 // [32][pitch]
    float *k_tile = q_tile + TILE * pitch;  // [32][pitch]
    float *v_tile = k_tile + TILE * pitch;  // [32][pitch]
    float *weights = v_tile + TILE * pitch; // [32][32]
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int head = (int)blockIdx.y; // of all batches together: 0 .. batch * heads - 1
    const float *restrict q = p.q + (size_t)head * p.len_q * dim;  // [len_q][dim]
    const float *restrict k = p.k + (size_t)head * p.len_kv * dim; // [len_kv][dim]
    const float *restrict v = p.v + (size_t)head * p.len_kv * dim; // [len_kv][dim]
    float *restrict o = p.o + (size_t)head * p.len_q * dim;        // [len_q][dim]
    float *restrict lse = p.lse + (size_t)head * p.len_q;          // [len_q]
    const int first_row = (int)blockIdx.x * TILE;
    const int offset = p.len_kv - p.len_q; // query i stands at key i + offset
    const int rows = p.len_q - first_row < TILE ? p.len_q - first_row : TILE;
    const int end = first_row + rows + offset; // no row of the block sees this key or a later one

    // GAP 1: the slope of this block's head
    const float slope = exp2f(-8.0f * (float)(head % p.heads + 1) / (float)p.heads);
    // END 1

    float acc[WARP_ROWS][LANE_DIMS], m[WARP_ROWS], l[WARP_ROWS];
    for (int r = 0; r < WARP_ROWS; r++) {
        m[r] = -INFINITY;
        l[r] = 0.0f;
        for (int u = 0; u < LANE_DIMS; u++) {
            acc[r][u] = 0.0f;
        }
    }
    load_tile(q_tile, q, first_row, p.len_q, dim, pitch);
    for (int first_key = 0; first_key < end; first_key += TILE) {
        __syncthreads(); // the tiles before are no longer needed
        load_tile(k_tile, k, first_key, p.len_kv, dim, pitch);
        load_tile(v_tile, v, first_key, p.len_kv, dim, pitch);
        __syncthreads();
        for (int r = 0; r < WARP_ROWS; r++) {
            const int tile_row = warp * WARP_ROWS + r;
            const int row = first_row + tile_row, key = first_key + lane;
            float score = 0.0f;
            for (int c = 0; c < dim; c++) {
                score += q_tile[place(tile_row, c, pitch)] * k_tile[place(lane, c, pitch)];
            }
            // GAP 2: the score of (row, key), scaled and with its bias
            score = score * p.scale + slope * (float)(key - row - offset);
            // END 2
            score = key <= row + offset && key < p.len_kv ? score : -INFINITY;
            const float m_new = fmaxf(m[r], warp_max(score));
            const float base = m_new == -INFINITY ? 0.0f : m_new; // the row has seen no key yet
            const float alpha = expf(m[r] - base), weight = expf(score - base);
            weights[tile_row * TILE + lane] = weight;
            l[r] = l[r] * alpha + warp_sum(weight);
            m[r] = m_new;
            for (int u = 0; u < LANE_DIMS; u++) {
                acc[r][u] *= alpha;
            }
        }
        __syncwarp(all_lanes); // the weights of this warp's rows are there
        for (int u = 0; u * 32 < pitch; u++) {
            for (int j = 0; j < TILE; j++) {
                const float value = v_tile[place(j, u * 32 + lane, pitch)];
                for (int r = 0; r < WARP_ROWS; r++) {
                    const int tile_row = warp * WARP_ROWS + r;
                    if (first_key + j <= first_row + tile_row + offset) { // 0 * NaN would be NaN
                        acc[r][u] += weights[tile_row * TILE + j] * value;
                    }
                }
            }
        }
        __syncwarp(all_lanes); // and may be overwritten
    }

    for (int r = 0; r < WARP_ROWS; r++) {
        const int row = first_row + warp * WARP_ROWS + r;
        // GAP 3: O and LSE of this row, unless it does not exist: m[r], l[r] and acc[r], of which
        // this lane has the dimensions lane, lane + 32, ...
        if (row < p.len_q) {
            for (int u = 0; u * 32 + lane < dim; u++) {
                o[(size_t)row * dim + u * 32 + lane] = l[r] == 0.0f ? 0.0f : acc[r][u] / l[r];
            }
            if (lane == 0) {
                lse[row] = m[r] + logf(l[r]); // -infinity of a row without keys
            }
        }
        // END 3
    }
}
SIMT_KERNEL(alibi_kernel, Alibi, THREADS);

AttnStatus ENTRY(alibi_attention)(const Alibi *attention, GpuStream stream) {
    const Alibi params = *attention;
    const size_t pitch = (size_t)(params.dim + 31) / 32 * 32;
    const size_t shared_bytes = (3 * TILE * pitch + TILE * TILE) * sizeof(float);
    const dim3 grid = {(unsigned)(params.len_q + TILE - 1) / TILE,
                       (unsigned)(params.batch * params.heads), 1};
    const dim3 block = {THREADS, 1, 1};
    if (params.dim > ALIBI_MAX_DIM) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "dim %d: at most %d", params.dim, ALIBI_MAX_DIM);
    }
    // GAP 4: more than 48 KiB of shared memory is refused, unless the kernel has been opted in for
    // as many bytes before; the status of whatever fails first
    if (shared_bytes > 48 * 1024) {
        const AttnStatus status = SHARED_OPT_IN(alibi_kernel, shared_bytes);
        if (status != ATTN_OK) {
            return status;
        }
    }
    return LAUNCH(alibi_kernel, grid, block, shared_bytes, stream, params);
    // END 4
}
