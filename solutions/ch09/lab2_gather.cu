// Lab 2: K and V gathered from pages into contiguous arrays, through the block table.
//
// The array of lab 1, [page][slot][head][2][dim]. A block of 128 threads has a tile of 8 tokens of
// one page of one sequence. What it reads lies in one piece; what it writes goes to as many places
// as there are heads, in K and in V.
#include "labs.h"

#include "common/device.h"
#include "common/simt/simt.h"

// The tiles of a page.
HOST_DEVICE static inline int tiles_of_page(int page_size) {
    int tiles = 1;
    // GAP 1: any page size, also one that is not a multiple of GATHER_TILE
    tiles = (page_size + GATHER_TILE - 1) / GATHER_TILE;
    // END 1
    return tiles;
}

// The element of kv at which the row of (page, slot, head, part) begins.
__device__ __forceinline__ size_t kv_row(int page, int slot, int head, int part, int page_size,
                                         int heads_kv, int dim) {
    size_t row = 0;
    // GAP 2: it may be beyond 32 bits
    row = (size_t)page * page_size + slot;
    row = (row * heads_kv + head) * 2 + part;
    row *= dim;
    // END 2
    return row;
}

__global__ void __launch_bounds__(GATHER_THREADS)
    gather_kernel(const __grid_constant__ PagedGather p) {
    const float *restrict kv = p.kv;
    const int32_t *restrict table = p.table;
    const int sequence = (int)blockIdx.y, tiles = tiles_of_page(p.page_size);
    const int column = (int)blockIdx.x / tiles, slot0 = (int)blockIdx.x % tiles * GATHER_TILE;
    const int len = p.lens[sequence];
    float *restrict k = p.k + p.begin[sequence]; // [heads_kv][len][dim]
    float *restrict v = p.v + p.begin[sequence]; // [heads_kv][len][dim]

    int tokens = 0; // in slots slot0 .. slot0 + tokens - 1, at most GATHER_TILE
    // GAP 3: those that exist, both in the page and in the sequence; 0 or less: none
    const int64_t left =
        (int64_t)len - (int64_t)column * p.page_size - slot0; // 64 bits: large pages
    tokens = p.page_size - slot0 < GATHER_TILE ? p.page_size - slot0 : GATHER_TILE;
    tokens = left < tokens ? (int)left : tokens;
    // END 3
    if (tokens <= 0) {
        return;
    }
    // GAP 4: the tile's page, and its tokens of all heads to k and v
    const int page = table[(size_t)sequence * p.columns + column];
    const int token0 = column * p.page_size + slot0;
    const size_t from = kv_row(page, slot0, 0, 0, p.page_size, p.heads_kv, p.dim);
    const int rows = 2 * p.heads_kv; // of a token
    for (int e = (int)threadIdx.x; e < tokens * rows * p.dim; e += GATHER_THREADS) {
        const int row = e / p.dim % rows, c = e % p.dim;
        const int token = token0 + e / p.dim / rows;
        const size_t to = ((size_t)(row / 2) * len + token) * p.dim + c;
        const float value = kv[from + e];
        if (row % 2 == 0) {
            k[to] = value;
        } else {
            v[to] = value;
        }
    }
    // END 4
}
SIMT_KERNEL(gather_kernel, PagedGather, GATHER_THREADS);

AttnStatus ENTRY(paged_gather)(const PagedGather *gather, GpuStream stream) {
    const PagedGather params = *gather;
    int pages = 0; // of the longest sequence
    // GAP 5: the pages that the grid covers
    pages = params.longest / params.page_size + (params.longest % params.page_size > 0 ? 1 : 0);
    // END 5
    if (pages == 0) {
        return ATTN_OK; // a launch of no blocks would be an error
    }
    const dim3 grid = {(unsigned)pages * (unsigned)tiles_of_page(params.page_size),
                       (unsigned)params.batch, 1};
    const dim3 block = {GATHER_THREADS, 1, 1};
    return LAUNCH(gather_kernel, grid, block, 0, stream, params);
}

__global__ void __launch_bounds__(GATHER_THREADS)
    places_kernel(const __grid_constant__ GatherPlaces p) {
    const int i = (int)threadIdx.x;
    if (i < p.count) {
        p.place[i] = (int64_t)kv_row(p.page[i], p.slot[i], p.head[i], p.part[i], p.page_size,
                                     p.heads_kv, p.dim);
    }
}
SIMT_KERNEL(places_kernel, GatherPlaces, GATHER_THREADS);

AttnStatus ENTRY(gather_places)(const GatherPlaces *places, GpuStream stream) {
    const GatherPlaces params = *places;
    const dim3 grid = {1, 1, 1}, block = {GATHER_THREADS, 1, 1};
    return LAUNCH(places_kernel, grid, block, 0, stream, params);
}
