// Lab 1: the first keys stay visible beside a causal window (streaming attention).
//
// A block of 64 threads holds 16 queries of one head, as chapter 5's fused_tiled.cu does in large.
// Tiles of 16 keys and values come to shared memory one after the other. Four neighbouring lanes
// share a query: lane n has the keys n, n + 4, n + 8, n + 12 of a tile, and the columns n, n + 4,
// ... of the output. The tiles that are visited are in two ranges, the sinks' and the window's.
#include "labs.h"

#include "common/simt/simt.h"

enum { TILE = SINK_TILE, LANES = 4, THREADS = TILE * LANES };
enum { LANE_KEYS = TILE / LANES, LANE_COLUMNS = SINK_MAX_DIM / LANES };

// The maximum, and the sum, over the four lanes of a query.
__device__ __forceinline__ float row_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(FULL_MASK, x, 2, 32));
    return fmaxf(x, __shfl_xor_sync(FULL_MASK, x, 1, 32));
}

__device__ __forceinline__ float row_sum(float x) {
    x += __shfl_xor_sync(FULL_MASK, x, 2, 32);
    return x + __shfl_xor_sync(FULL_MASK, x, 1, 32);
}

// Whether query `row` sees `key`.
__device__ __forceinline__ bool sees(const SinkWindow *p, int row, int key) {
    bool visible = false;
    // TODO 1: the rule of labs.h
    (void)p, (void)row, (void)key;
    // END 1
    return visible;
}

// Tiles of keys: 0 .. sink_end - 1, then window_begin .. end - 1. No tile is in both ranges.
typedef struct TileRanges {
    int sink_end;          // 0 <= sink_end
    int window_begin, end; // 0 <= window_begin <= end
} TileRanges;

// The tiles that at least one of the queries row0 .. last sees a key of.
__device__ __forceinline__ TileRanges visited_tiles(const SinkWindow *p, int row0, int last) {
    TileRanges tiles = {0, 0, 0};
    // TODO 2: the three numbers
    (void)p, (void)row0, (void)last;
    // END 2
    return tiles;
}

// Whether all queries row0 .. last see all keys of the tile that begins at key0.
__device__ __forceinline__ bool tile_is_full(const SinkWindow *p, int row0, int last, int key0) {
    bool full = false;
    // TODO 3: which queries and keys decide it?
    (void)p, (void)row0, (void)last, (void)key0;
    // END 3
    return full;
}

// Copies rows first .. first+15 of `from` [rows][dim] into a tile; what does not exist becomes 0.
__device__ __forceinline__ void load_tile(float (*tile)[SINK_MAX_DIM + 1],
                                          const float *restrict from, int first, int rows,
                                          int dim) {
    for (int e = (int)threadIdx.x; e < TILE * dim; e += THREADS) {
        const int r = e / dim, c = e % dim;
        tile[r][c] = first + r < rows ? from[(size_t)(first + r) * dim + c] : 0.0f;
    }
}

__global__ void __launch_bounds__(THREADS)
    sink_window_kernel(const __grid_constant__ SinkWindow p) {
    __shared__ float q_tile[TILE][SINK_MAX_DIM + 1];
    __shared__ float k_tile[TILE][SINK_MAX_DIM + 1];
    __shared__ float v_tile[TILE][SINK_MAX_DIM + 1];
    __shared__ float weights[TILE][TILE + 1];
    const int dim = p.dim, len_q = p.len_q, len_kv = p.len_kv;
    const size_t head = blockIdx.y;
    const float *restrict q = p.q + head * len_q * dim;  // [len_q][dim]
    const float *restrict k = p.k + head * len_kv * dim; // [len_kv][dim]
    const float *restrict v = p.v + head * len_kv * dim; // [len_kv][dim]
    float *restrict o = p.o + head * len_q * dim;        // [len_q][dim]
    float *restrict lse = p.lse + head * len_q;          // [len_q]
    const int row0 = (int)blockIdx.x * TILE;             // the block's queries: row0 .. last
    const int last = row0 + TILE < len_q ? row0 + TILE - 1 : len_q - 1;
    const int r = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES, row = row0 + r;
    const TileRanges tiles = visited_tiles(&p, row0, last);
    const int visited = tiles.sink_end + tiles.end - tiles.window_begin;
    int masked = 0;

    float m = -INFINITY, l = 0.0f, acc[LANE_COLUMNS];
    for (int u = 0; u < LANE_COLUMNS; u++) {
        acc[u] = 0.0f;
    }
    load_tile(q_tile, q, row0, len_q, dim);
    for (int n = 0; n < visited; n++) {
        const int tile = n < tiles.sink_end ? n : tiles.window_begin + n - tiles.sink_end;
        const int key0 = tile * TILE;
        const bool full = tile_is_full(&p, row0, last, key0);
        masked += full ? 0 : 1;
        __syncthreads(); // the tiles before are no longer needed
        load_tile(k_tile, k, key0, len_kv, dim);
        load_tile(v_tile, v, key0, len_kv, dim);
        __syncthreads();
        float s[LANE_KEYS]; // scores of row with keys key0 + lane + LANES * j
        for (int j = 0; j < LANE_KEYS; j++) {
            s[j] = 0.0f;
            for (int c = 0; c < dim; c++) {
                s[j] += q_tile[r][c] * k_tile[lane + LANES * j][c];
            }
            s[j] *= p.scale;
        }
        // TODO 4: hides scores of a tile that is not full; the row's m, l and acc over this tile's
        // keys (acc without its products); the weight of s[j] to weights[r][lane + LANES * j]
        (void)m, (void)l, (void)s, (void)weights, (void)row, (void)full;
        (void)sees, (void)row_max, (void)row_sum;
        // END 4
        __syncwarp(FULL_MASK); // the weights of this warp's queries are there
        for (int j = 0; j < TILE; j++) {
            bool take = true;
            // TODO 5: whether key j of the tile adds to this row
            // END 5
            for (int u = 0; u * LANES + lane < dim && take; u++) {
                acc[u] += weights[r][j] * v_tile[j][u * LANES + lane];
            }
        }
        __syncwarp(FULL_MASK); // and may be overwritten
    }

    if (row < len_q) {
        for (int u = 0; u * LANES + lane < dim; u++) {
            o[(size_t)row * dim + u * LANES + lane] = l == 0.0f ? 0.0f : acc[u] / l;
        }
        if (lane == 0) {
            lse[row] = l == 0.0f ? -INFINITY : m + logf(l);
        }
    }
    if (threadIdx.x == 0) {
        p.masked[head * gridDim.x + blockIdx.x] = masked;
    }
}
SIMT_KERNEL(sink_window_kernel, SinkWindow, THREADS);

AttnStatus ENTRY(sink_window_attention)(const SinkWindow *attention, GpuStream stream) {
    const SinkWindow params = *attention;
    const dim3 grid = {(unsigned)(params.len_q + TILE - 1) / TILE, (unsigned)params.heads, 1};
    const dim3 block = {THREADS, 1, 1};
    // TODO 6: arguments that are errors
    // END 6
    return LAUNCH(sink_window_kernel, grid, block, 0, stream, params);
}
