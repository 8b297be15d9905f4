// Writes the keys and values of new tokens into their slots: the other direction of the walk from
// position to page that paged.cu does. A sequence's tokens are neighbours in the input and lie
// anywhere in the pool.
//
// A thread moves one piece of a row of K and the same of V: 16 bytes where rows allow it, else one
// element. Rows are copied bit by bit; their type only says how long they are.
#include "common/simt/simt.h"

#include "chapters/ch09_paged/append.h"

enum { THREADS = 128 };

// Piece i of the launch, of `bytes` bytes (a constant): heads_kv rows of each of `count` tokens.
__device__ __forceinline__ void append_piece(const AppendParams *p, int64_t i, const int bytes) {
    const PageLayout *layout = &p->layout;
    const int64_t row_bytes = layout->dim * (layout->dtype == DTYPE_F32 ? 4 : 2);
    const int64_t pieces = row_bytes / bytes; // of a row
    const int64_t row = i / pieces;
    const int64_t head = row / p->count;
    const int64_t token = row % p->count, at = p->slot + token;
    if (head >= layout->heads_kv) {
        return;
    }
    const int64_t page = p->pages[at / layout->page_size];
    const int64_t from = (head * p->tokens + p->first + token) * pieces + i % pieces;
    const int64_t to =
        page_offset(layout, page, head, at % layout->page_size) / layout->dim * pieces + i % pieces;
    if (bytes == 16) {
        ((uint4 *)p->k_pages)[to] = ((const uint4 *)p->k)[from];
        ((uint4 *)p->v_pages)[to] = ((const uint4 *)p->v)[from];
    } else if (bytes == 4) {
        ((uint32_t *)p->k_pages)[to] = ((const uint32_t *)p->k)[from];
        ((uint32_t *)p->v_pages)[to] = ((const uint32_t *)p->v)[from];
    } else {
        ((uint16_t *)p->k_pages)[to] = ((const uint16_t *)p->k)[from];
        ((uint16_t *)p->v_pages)[to] = ((const uint16_t *)p->v)[from];
    }
}

// A kernel for pieces of that many bytes, and its launch.
#define KERNEL(name, bytes)                                                                        \
    __global__ void __launch_bounds__(THREADS) name(const __grid_constant__ AppendParams p) {      \
        append_piece(&p, (int64_t)blockIdx.x *THREADS + threadIdx.x, bytes);                       \
    }                                                                                              \
    SIMT_KERNEL(name, AppendParams, THREADS);                                                      \
    static AttnStatus name##_launch(const AppendParams *p, GpuStream stream) {                     \
        const int64_t row_bytes = p->layout.dim * (int64_t)dtype_size(p->layout.dtype);            \
        const int64_t pieces = p->layout.heads_kv * p->count * (row_bytes / (bytes));              \
        const dim3 grid = {(unsigned)((pieces + THREADS - 1) / THREADS), 1, 1},                    \
                   block = {THREADS, 1, 1};                                                        \
        return LAUNCH(name, grid, block, 0, stream, *p);                                           \
    }                                                                                              \
    static_assert(sizeof(AppendParams) <= 4096, "what a launch may take along")

KERNEL(append_16, 16);
KERNEL(append_4, 4);
KERNEL(append_2, 2);

AttnStatus ENTRY(append)(const AppendParams *params, GpuStream stream) {
    const uintptr_t pointers = (uintptr_t)params->k | (uintptr_t)params->v |
                               (uintptr_t)params->k_pages | (uintptr_t)params->v_pages;
    const int64_t row_bytes = params->layout.dim * (int64_t)dtype_size(params->layout.dtype);
    if (params->count == 0) {
        return ATTN_OK;
    }
    return pointers % 16 == 0 && row_bytes % 16 == 0 ? append_16_launch(params, stream)
           : params->layout.dtype == DTYPE_F32       ? append_4_launch(params, stream)
                                                     : append_2_launch(params, stream);
}
