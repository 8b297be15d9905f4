// Lab 2: grouped-query attention for a chunk of tokens, in tiles of packed rows.
//
// Chapter 5's fused_tiled.cu in small: a block of 64 threads holds 16 packed rows of a KV head, and
// tiles of 16 keys and values come to shared memory one after the other, once for all of its rows.
// Four neighbouring lanes share a row: lane n has the keys n, n + 4, n + 8, n + 12 of a tile, and
// the columns n, n + 4, ... of the output. The last tile of a KV head may have fewer rows than 16.
#include "labs.h"

#include "common/simt/simt.h"

enum { TILE = CHUNK_TILE, LANES = 4, THREADS = TILE * LANES };
enum { LANE_KEYS = TILE / LANES, LANE_COLUMNS = CHUNK_MAX_DIM / LANES };

// The maximum, and the sum, over the four lanes of a row.
__device__ __forceinline__ float row_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(FULL_MASK, x, 2, 32));
    return fmaxf(x, __shfl_xor_sync(FULL_MASK, x, 1, 32));
}

__device__ __forceinline__ float row_sum(float x) {
    x += __shfl_xor_sync(FULL_MASK, x, 2, 32);
    return x + __shfl_xor_sync(FULL_MASK, x, 1, 32);
}

// Whose query a packed row is.
typedef struct Row {
    int token;
    size_t at; // its row of Q and O, as [heads_q * len_q][dim], and of LSE, as [heads_q * len_q]
} Row;

__device__ __forceinline__ Row row_of(const GroupedChunk *p, int kv_head, int row) {
    Row source = {0, 0};
    // TODO 1: packed row `row` of a KV head: rows of one token lie side by side
    (void)p, (void)kv_head, (void)row;
    // END 1
    return source;
}

// Keys, or tiles of keys: begin .. end - 1.
typedef struct Keys {
    int begin, end;
} Keys;

// The keys that a token's queries see.
__device__ __forceinline__ Keys keys_of(const GroupedChunk *p, int token) {
    Keys keys = {0, 0};
    // TODO 2: causal and the window; a token that stands before key 0 sees none
    (void)p, (void)token;
    // END 2
    return keys;
}

// The tiles of keys that the packed rows row0 .. row0 + rows - 1 need.
__device__ __forceinline__ Keys visited_tiles(const GroupedChunk *p, int kv_head, int row0,
                                              int rows) {
    Keys tiles = {0, 0};
    // TODO 3: from the first token's keys to the last one's
    (void)p, (void)kv_head, (void)row0, (void)rows, (void)keys_of, (void)row_of;
    // END 3
    return tiles;
}

// Copies keys first .. first+15 of `from` [len_kv][dim] into a tile; what does not exist becomes 0.
__device__ __forceinline__ void load_tile(float (*tile)[CHUNK_MAX_DIM + 1],
                                          const float *restrict from, int first, int len_kv,
                                          int dim) {
    for (int e = (int)threadIdx.x; e < TILE * dim; e += THREADS) {
        const int j = e / dim, c = e % dim;
        tile[j][c] = first + j < len_kv ? from[(size_t)(first + j) * dim + c] : 0.0f;
    }
}

__global__ void __launch_bounds__(THREADS) chunk_kernel(const __grid_constant__ GroupedChunk p) {
    __shared__ float q_tile[TILE][CHUNK_MAX_DIM + 1];
    __shared__ float k_tile[TILE][CHUNK_MAX_DIM + 1];
    __shared__ float v_tile[TILE][CHUNK_MAX_DIM + 1];
    __shared__ float weights[TILE][TILE + 1];
    const int dim = p.dim, len_kv = p.len_kv, kv_head = (int)blockIdx.y;
    const float *restrict q = p.q;                                  // [heads_q * len_q][dim]
    const float *restrict k = p.k + (size_t)kv_head * len_kv * dim; // [len_kv][dim]
    const float *restrict v = p.v + (size_t)kv_head * len_kv * dim; // [len_kv][dim]
    float *restrict o = p.o;                                        // [heads_q * len_q][dim]
    float *restrict lse = p.lse;                                    // [heads_q * len_q]
    const int row0 = (int)blockIdx.x * TILE;                        // the block's rows begin here
    const int r = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES;
    int rows = TILE;    // of the block, that there are
    Keys keys = {0, 0}; // that row row0 + r sees
    // TODO 4: both (a row that is not there sees none), and q_tile: row r of it is the query of row
    // row0 + r, all 64 threads loading, and 0 where that row is not there
    (void)q, (void)row0;
    // END 4
    const Keys tiles = visited_tiles(&p, kv_head, row0, rows);
    float m = -INFINITY, l = 0.0f, acc[LANE_COLUMNS];
    for (int u = 0; u < LANE_COLUMNS; u++) {
        acc[u] = 0.0f;
    }
    for (int tile = tiles.begin; tile < tiles.end; tile++) {
        const int key0 = tile * TILE;
        __syncthreads(); // the tiles before are no longer needed
        load_tile(k_tile, k, key0, len_kv, dim);
        load_tile(v_tile, v, key0, len_kv, dim);
        __syncthreads();
        float s[LANE_KEYS], m_new = m; // scores of the row with keys key0 + lane + LANES * j
        for (int j = 0; j < LANE_KEYS; j++) {
            const int key = key0 + lane + LANES * j;
            float dot = 0.0f;
            for (int c = 0; c < dim; c++) {
                dot += q_tile[r][c] * k_tile[lane + LANES * j][c];
            }
            s[j] = key >= keys.begin && key < keys.end ? p.scale * dot : -INFINITY;
            m_new = fmaxf(m_new, s[j]);
        }
        m_new = row_max(m_new);
        const float base = m_new == -INFINITY ? 0.0f : m_new; // the row has seen no key yet
        const float alpha = expf(m - base);
        float sum = 0.0f;
        for (int j = 0; j < LANE_KEYS; j++) {
            const float weight = expf(s[j] - base);
            weights[r][lane + LANES * j] = weight;
            sum += weight;
        }
        l = l * alpha + row_sum(sum);
        m = m_new;
        for (int u = 0; u < LANE_COLUMNS; u++) {
            acc[u] *= alpha;
        }
        __syncwarp(FULL_MASK); // the weights of this warp's rows are there
        for (int j = 0; j < TILE; j++) {
            const bool seen = key0 + j >= keys.begin && key0 + j < keys.end;
            for (int u = 0; u * LANES + lane < dim && seen; u++) {
                acc[u] += weights[r][j] * v_tile[j][u * LANES + lane];
            }
        }
        __syncwarp(FULL_MASK); // and may be overwritten
    }
    // TODO 5: O and LSE of this thread's row: lane n stores the columns n, n + 4, ..., and lane 0
    // the LSE. m, l and acc are the row's; l is 0 where it has seen no key
    (void)o, (void)lse, (void)l;
    // END 5
}
SIMT_KERNEL(chunk_kernel, GroupedChunk, THREADS);

AttnStatus ENTRY(grouped_chunk)(const GroupedChunk *chunk, GpuStream stream) {
    const GroupedChunk params = *chunk;
    dim3 grid = {1, 1, 1};
    const dim3 block = {THREADS, 1, 1};
    // TODO 6: numbers of heads that are errors; grid.x: the tiles of a KV head's packed rows, the
    // last of them included; grid.y: KV heads
    // END 6
    return LAUNCH(chunk_kernel, grid, block, 0, stream, params);
}
