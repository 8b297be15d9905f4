// A pool of pages for the keys and values of many sequences. A page holds page_size tokens of all
// KV heads; a sequence is a list of pages, its block table: token t lies in slot t % page_size of
// page table[t / page_size]. Pages are shared between sequences by reference counts, and copied
// when one of them would write into a page that is shared (copy on write).
//
// K and V are two arrays [pages][heads_kv][page_size][dim] in the memory of a target. All offsets
// are 64 bits. What a slot beyond a sequence's length holds is nobody's business: NaN, mostly.
#ifndef CH09_BLOCK_POOL_H
#define CH09_BLOCK_POOL_H

#include "common/attn.h"
#include "common/device.h"
#include "common/dtype.h"
#include "common/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

// What the bytes of a page mean. Two pools may exchange pages, and a kernel may read one, only when
// their layouts are the same: block_pool_check_layout.
typedef struct PageLayout {
    int64_t page_size; // tokens of a page, at least 1
    int64_t heads_kv, dim;
    DType dtype; // f32, f16 or bf16
} PageLayout;

typedef struct BlockPool BlockPool;

// The offset, in elements, of K or V of (page, kv_head, slot) from the start of their array:
// ((page heads_kv + kv_head) page_size + slot) dim.
HOST_DEVICE static inline int64_t page_offset(const PageLayout *layout, int64_t page,
                                              int64_t kv_head, int64_t slot) {
    return ((page * layout->heads_kv + kv_head) * layout->page_size + slot) * layout->dim;
}

// A pool of `pages` pages for at most `sequences` sequences. Errors: ATTN_ERR_SHAPE for a layout or
// number that is not legal, ATTN_ERR_MEMORY, those of gpu_alloc; *pool is NULL then.
AttnStatus block_pool_make(BlockPool **pool, GpuTarget target, const PageLayout *layout,
                           int64_t pages, int64_t sequences);
void block_pool_free(BlockPool *pool);

GpuTarget block_pool_target(const BlockPool *pool);
const PageLayout *block_pool_layout(const BlockPool *pool);
// ATTN_ERR_ARGUMENT naming the field, both values, unless the layouts are the same.
AttnStatus block_pool_check_layout(const BlockPool *pool, const PageLayout *layout);
int64_t block_pool_pages(const BlockPool *pool);      // in all
int64_t block_pool_free_pages(const BlockPool *pool); // in nobody's table
const void *block_pool_k(const BlockPool *pool);      // [pages][heads_kv][page_size][dim]
const void *block_pool_v(const BlockPool *pool);

// A new sequence without tokens; its number is *sequence. ATTN_ERR_MEMORY when all are in use.
AttnStatus block_pool_open(BlockPool *pool, int64_t *sequence);
// Gives a sequence's pages back, those that nobody else uses. ATTN_ERR_ARGUMENT for a number that
// is not open: closing twice is an error, and changes nothing.
AttnStatus block_pool_close(BlockPool *pool, int64_t sequence);
// A new sequence with the same tokens, which shares all pages of the old one.
AttnStatus block_pool_fork(BlockPool *pool, int64_t sequence, int64_t *fork);

// Appends `tokens` tokens: k and v [heads_kv][tokens][dim] in the target's memory, stored type the
// layout's. A last page that is shared is copied first. When the free pages do not suffice:
// ATTN_ERR_MEMORY naming how many are needed and free, and nothing has changed. On the stream.
AttnStatus block_pool_append(BlockPool *pool, int64_t sequence, int64_t tokens, const void *k,
                             const void *v, GpuStream stream);
// Shortens a sequence to `tokens` tokens (of rejected drafts, for example); pages that it no longer
// needs are given back. ATTN_ERR_ARGUMENT when it is shorter than that.
AttnStatus block_pool_truncate(BlockPool *pool, int64_t sequence, int64_t tokens);

int64_t block_pool_length(const BlockPool *pool, int64_t sequence);       // tokens; -1: not open
const int32_t *block_pool_table(const BlockPool *pool, int64_t sequence); // [ceil(length / page)]
int64_t block_pool_references(const BlockPool *pool, int64_t page);       // tables that hold it
// Whether reference counts, free list and tables agree: the pool's own test of itself. Errors:
// ATTN_ERR_ARGUMENT naming the page or sequence.
AttnStatus block_pool_check(const BlockPool *pool);

#ifdef __cplusplus
}
#endif

#endif
