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
    // TODO 1: any page size, also one that is not a multiple of GATHER_TILE
    (void)page_size;
    // END 1
    return tiles;
}

// The element of kv at which the row of (page, slot, head, part) begins.
__device__ __forceinline__ size_t kv_row(int page, int slot, int head, int part, int page_size,
                                         int heads_kv, int dim) {
    size_t row = 0;
    // TODO 2: it may be beyond 32 bits
    (void)page, (void)slot, (void)head, (void)part, (void)page_size, (void)heads_kv, (void)dim;
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
    // TODO 3: those that exist, both in the page and in the sequence; 0 or less: none
    (void)len;
    // END 3
    if (tokens <= 0) {
        return;
    }
    // TODO 4: the tile's page, and its tokens of all heads to k and v
    (void)kv, (void)table, (void)k, (void)v;
    (void)column, (void)slot0, (void)kv_row;
    // END 4
}
SIMT_KERNEL(gather_kernel, PagedGather, GATHER_THREADS);

AttnStatus ENTRY(paged_gather)(const PagedGather *gather, GpuStream stream) {
    const PagedGather params = *gather;
    int pages = 0; // of the longest sequence
    // TODO 5: the pages that the grid covers
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
