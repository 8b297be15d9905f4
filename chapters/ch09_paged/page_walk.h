// From a key's position to its row in the pool: what paged.cu and paged_mma.cu do before they can
// load a key, and the parameters that they do it with.
//
//     column = key / page_size, slot = key % page_size    entry of the table, slot of the page
//     page   = table[column]                              a load; the next one waits for it
//     row    = page page_rows + kv_head page_size + slot  of [dim], from the pool's start
#ifndef CH09_PAGE_WALK_H
#define CH09_PAGE_WALK_H

#include "chapters/ch09_paged/paged.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct PagedParams {
    SplitKvParams kv;     // chapter 8's; k and v are the pages
    const int32_t *table; // [batch][columns]
    int columns;
    int page_size;
    unsigned page_rows; // rows of a page: heads_kv * page_size
    unsigned inverse;   // 2^(31 + shift) / page_size, rounded up
    int shift;          // 2^shift is the first power of 2 from page_size on
} PagedParams;

// Checks shape, cache and pointers for a rung; *params is filled when the result is ATTN_OK.
AttnStatus paged_prepare(PagedParams *params, int rung, const AttnShape *shape, DType dtype,
                         const void *q, const PagedCache *cache, void *o, float *lse,
                         int64_t splits, void *workspace);

// params->page_size, inverse and shift for pages of 1..2^30 tokens.
void paged_set_page_size(PagedParams *params, int64_t page_size);

#ifdef __cplusplus
}
#endif

// key / page_size, for any 0 <= key < 2^31, without a division, which would take a GPU as long as
// the rest of the walk. inverse / 2^(31 + shift) is 1 / page_size, too large by less than
// 2^-(31 + shift). Times key that is below 2^-shift <= 1 / page_size, and the fraction of key /
// page_size is at most 1 - 1 / page_size: too little to reach the next integer.
HOST_DEVICE static inline int page_column(const PagedParams *p, int key) {
    const uint64_t product = (uint64_t)(2 * (unsigned)key) * p->inverse;
    return (int)((unsigned)(product >> 32) >> p->shift);
}

// The row of a key, `page` being its page. 64 bits: a pool may have more than 2^31 elements.
HOST_DEVICE static inline size_t page_row(const PagedParams *p, int page, int kv_head, int key) {
    const int slot = key - page_column(p, key) * p->page_size;
    return (size_t)(unsigned)page * p->page_rows + (unsigned)kv_head * (unsigned)p->page_size +
           (unsigned)slot;
}

#endif
