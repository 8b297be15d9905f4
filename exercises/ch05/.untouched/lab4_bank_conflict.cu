// Lab 4: remove the bank conflict. The results are right; every read of a key is served in 32
// turns.
//
// S = scale Q K^T. A block computes 32 x 32 scores; 32 x 32 pieces of Q and K pass through shared
// memory, loaded by rows, so that a warp reads 128 bytes in one go. Warp w has the queries w, w +
// 8, w + 16 and w + 24, lane n has key n.
#include "labs.h"

#include "common/simt/simt.h"

enum { TILE = SCORES_TILE, WARPS = 8, THREADS = 32 * WARPS, WARP_ROWS = TILE / WARPS };

__global__ void __launch_bounds__(THREADS) scores_kernel(const __grid_constant__ Scores p) {
    __shared__ float q_tile[TILE * TILE], k_tile[TILE * TILE];
    const float *restrict q = p.q; // [len_q][dim]
    const float *restrict k = p.k; // [len_kv][dim]
    float *restrict s = p.s;       // [len_q][len_kv]
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int first_row = (int)blockIdx.y * TILE, first_key = (int)blockIdx.x * TILE;
    float sum[WARP_ROWS] = {0.0f, 0.0f, 0.0f, 0.0f};

    for (int first = 0; first < p.dim; first += TILE) {
        const int dims = p.dim - first < TILE ? p.dim - first : TILE;
        for (int r = warp; r < TILE; r += WARPS) {
            const int row = first_row + r, key = first_key + r, c = first + lane;
            const bool has_q = row < p.len_q && c < p.dim, has_k = key < p.len_kv && c < p.dim;
            q_tile[r * TILE + lane] = has_q ? q[(size_t)row * p.dim + c] : 0.0f;
            k_tile[r * TILE + lane] = has_k ? k[(size_t)key * p.dim + c] : 0.0f;
        }
        __syncthreads();
        for (int c = 0; c < dims; c++) {
            const float key_value = k_tile[lane * TILE + c];
            for (int r = 0; r < WARP_ROWS; r++) {
                sum[r] += q_tile[(warp + r * WARPS) * TILE + c] * key_value;
            }
        }
        __syncthreads();
    }

    for (int r = 0; r < WARP_ROWS; r++) {
        const int row = first_row + warp + r * WARPS, key = first_key + lane;
        if (row < p.len_q && key < p.len_kv) {
            s[(size_t)row * p.len_kv + key] = p.scale * sum[r];
        }
    }
}
SIMT_KERNEL(scores_kernel, Scores, THREADS);

AttnStatus ENTRY(tile_scores)(const Scores *scores, GpuStream stream) {
    const Scores params = *scores;
    const dim3 grid = {(unsigned)(params.len_kv + TILE - 1) / TILE,
                       (unsigned)(params.len_q + TILE - 1) / TILE, 1};
    const dim3 block = {THREADS, 1, 1};
    return LAUNCH(scores_kernel, grid, block, 0, stream, params);
}
