// Chapter 9's labs: what they are given, and the functions that you write. README.md beside this
// file says what each lab is about. This header stays as it is.
//
// A page holds page_size tokens, in slots 0 .. page_size - 1. Token t of a sequence lies in slot
// t % page_size of page table[t / page_size], table being the sequence's row of the block table.
// Slots behind a sequence's length and entries of the table behind its pages may hold anything.
#ifndef CH09_LABS_H
#define CH09_LABS_H

#include "common/attn.h"
#include "common/gpu.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- labs 1 and 2: another layout ---------------------------------------------------------------

// Labs 1 and 2 have one array for K and V, [pages][page_size][heads_kv][2][dim]: all heads of a
// token lie together, and of each head the dim elements of K are followed by the dim elements of V.
typedef struct KvLayout {
    int64_t page_size;     // tokens of a page, 1 or more
    int64_t heads_kv, dim; // 1 or more
} KvLayout;

typedef enum KvPart { PART_K = 0, PART_V = 1 } KvPart;

// ---- lab 1: addresses ---------------------------------------------------------------------------

// Elements from one page, slot, head to the next, and from a head's K to its V.
typedef struct KvStrides {
    int64_t page, slot, head, part;
} KvStrides;

// Element c of the row that belongs to this page, slot, head and part.
typedef struct KvPlace {
    int64_t page, slot, head, part, c;
} KvPlace;

// The block table of a batch.
typedef struct KvTable {
    KvLayout layout;
    int64_t batch, columns;
    const int32_t *pages; // [batch][columns]
    const int32_t *lens;  // [batch] tokens of each sequence
} KvTable;

// Lab 1. The pages of a sequence of `tokens` tokens, for every number from 0 to INT64_MAX.
int64_t pages_of(const KvLayout *layout, int64_t tokens);

// Lab 1. The strides of the layout.
KvStrides kv_strides(const KvLayout *layout);

// Lab 1. The element at which the row of this page, slot, head and part begins.
int64_t kv_offset(const KvLayout *layout, int64_t page, int64_t slot, int64_t head, KvPart part);

// Lab 1. The same for token `token` of sequence `sequence`. Both exist.
int64_t token_offset(const KvTable *table, int64_t sequence, int64_t token, int64_t head,
                     KvPart part);

// Lab 1. The way back, for a tool that reports element `offset` of the array: whose it is.
KvPlace kv_place(const KvLayout *layout, int64_t offset);

// Lab 1. Whether a kernel may use the table, with a pool of `pages` pages. Goes through the
// sequences in order. A length that is negative, or that needs more pages than the table has
// columns, is ATTN_ERR_ARGUMENT with a message (attn_fail) that has the numbers of the sequence,
// the length and the columns in it. Among the pages in use, an id that is not in 0 .. pages - 1 is
// ATTN_ERR_ARGUMENT with the numbers of the sequence, the column and the id. Only what is in use
// is looked at. The first fault is the one that is told.
AttnStatus check_table(const KvTable *table, int64_t pages);

// ---- lab 2: a gather kernel ---------------------------------------------------------------------

// The K and V of a batch of sequences, gathered from their pages into contiguous arrays, as a
// kernel wants them that knows nothing of pages. All pointers are to device memory.
typedef struct PagedGather {
    const float *kv;      // [pages][page_size][heads_kv][2][dim]
    const int32_t *table; // [batch][columns]
    const int *lens;      // [batch] 0 .. longest
    const int64_t *begin; // [batch] the element of k and of v at which a sequence's array begins
    float *k, *v;         // from begin[b] on [heads_kv][lens[b]][dim], for each sequence b
    int batch, columns;   // 1 or more
    int longest;          // 0 or more: tokens of the longest sequence
    int page_size, heads_kv, dim;
} PagedGather;

// Lab 2. Writes k and v, and nothing between the arrays. A block has GATHER_TILE tokens of a page
// of a sequence; the last tile of a page, and the last page of a sequence, may have fewer. Sectors
// of kv are loaded once, the table is asked once a block (by all of its threads), and neither slots
// behind a length nor entries of the table behind the pages in use are read.
enum { GATHER_TILE = 8, GATHER_THREADS = 128 };
GPU_DECLARE(paged_gather, (const PagedGather *gather, GpuStream stream));

// Lab 2. Where rows of kv begin, by the same function that the gather uses: place[i] is that of
// (page[i], slot[i], head[i], part[i]). Launches one block. Given.
typedef struct GatherPlaces {
    const int *page, *slot, *head, *part; // [count]
    int64_t *place;                       // [count]
    int count;                            // at most GATHER_THREADS
    int page_size, heads_kv, dim;
} GatherPlaces;
GPU_DECLARE(gather_places, (const GatherPlaces *places, GpuStream stream));

// ---- labs 3 and 4: a pool -----------------------------------------------------------------------

enum { NO_PAGE = -1 };

// Pages, and how many tables or caches hold each of them. A page that nobody holds is free.
typedef struct SmallPool {
    int32_t page_size, pages;
    int32_t free;        // pages that are free
    int32_t *free_list;  // [free] the last one is taken next
    int32_t *references; // [pages] how many hold the page
    int32_t *slots;      // [pages][page_size] a number that stands for a token's K and V (lab 4)
    int32_t misused;     // the first page that was given back or held while it was free, or NO_PAGE
} SmallPool;

// A free page, with one reference, or NO_PAGE when there is none.
static inline int32_t pool_take(SmallPool *pool) {
    if (pool->free == 0) {
        return NO_PAGE;
    }
    pool->free--;
    pool->references[pool->free_list[pool->free]] = 1;
    return pool->free_list[pool->free];
}

// One more reference to a page that somebody holds.
static inline void pool_hold(SmallPool *pool, int32_t page) {
    if (pool->references[page] > 0) {
        pool->references[page]++;
    } else if (pool->misused == NO_PAGE) {
        pool->misused = page;
    }
}

// One reference less. With the last one the page becomes free.
static inline void pool_release(SmallPool *pool, int32_t page) {
    if (pool->references[page] == 0) {
        pool->misused = pool->misused == NO_PAGE ? page : pool->misused;
        return;
    }
    pool->references[page]--;
    if (pool->references[page] == 0) {
        pool->free_list[pool->free] = page;
        pool->free++;
    }
}

// ---- lab 3: a prefix cache ----------------------------------------------------------------------

// What the cache knows of a page. A block is a page full of tokens. What is in it depends on all
// tokens before it too, so a block is known by its own tokens and by the block before it.
typedef struct CachedBlock {
    bool cached;      // the cache has this page, and holds one reference to it
    int32_t parent;   // the page of the block before it, NO_PAGE when it is a prompt's first
    int32_t children; // cached blocks whose parent this is
    int32_t next;     // the next block of its bucket, NO_PAGE when it is the last
    int64_t last_use; // the clock when it was last found or inserted
} CachedBlock;

typedef struct PrefixCache {
    SmallPool *pool;
    CachedBlock *blocks; // [pages]
    int32_t *tokens;     // [pages][page_size] of the cached ones
    int32_t *buckets;    // [bucket_count] the first block of each bucket, or NO_PAGE
    int32_t bucket_count;
    int64_t clock; // one more for each lookup and each insert
} PrefixCache;

// Lab 3. The cached block that follows `parent` (NO_PAGE: begins a prompt) and has exactly these
// tokens [page_size], or NO_PAGE. Different blocks may share a bucket.
int32_t cache_find(const PrefixCache *cache, int32_t parent, const int32_t *tokens);

// Lab 3. The longest prefix of a prompt of `count` tokens (1 or more) that is cached: pages[] gets
// its pages, in order, each with one reference more, for the sequence. Returns how many. Whole
// blocks only, and at least one token is left over, since the model must be run on one to go on.
int64_t cache_lookup(PrefixCache *cache, int64_t count, const int32_t *tokens, int32_t *pages);

// Lab 3. The first `count` tokens of a sequence have been computed, and lie in pages[]: its full
// blocks become cached, each with one reference for the cache. A block that is cached already (the
// sequence may have computed it in a page of its own) stays the one page it is, and is the parent
// of the next one.
void cache_insert(PrefixCache *cache, int64_t count, const int32_t *tokens, const int32_t *pages);

// Lab 3. Takes one block out of the cache and returns its page, which is free then; NO_PAGE when
// there is none to take. It is the one whose last use is the longest ago, of those that nobody but
// the cache holds and that are not the parent of a cached block.
int32_t cache_evict(PrefixCache *cache);

// Lab 3. `count` pages for a sequence, each with one reference: free ones, and where these do not
// suffice, one evicted block for each page that is missing. When the pages do not suffice at all:
// ATTN_ERR_MEMORY with a message that has `count` in it, and none is taken (what was evicted stays
// evicted).
AttnStatus cache_take(PrefixCache *cache, int64_t count, int32_t *pages);

// ---- lab 4: rollback ----------------------------------------------------------------------------

// A sequence. Its pages may be shared with others.
typedef struct DraftSequence {
    int64_t length; // tokens
    int64_t pages;  // ceil(length / page_size)
    int32_t *table; // [pages] with room for all pages of the pool
} DraftSequence;

// Lab 4. How many of `count` draft tokens are accepted: those before the first one that differs
// from what the model itself chose at its place.
int64_t draft_accepted(int64_t count, const int32_t *draft, const int32_t *chosen);

// Lab 4. A sequence with the same tokens, which shares all pages of the old one. Given.
void draft_fork(SmallPool *pool, const DraftSequence *sequence, DraftSequence *fork);

// Lab 4. Shortens the sequence to `length` tokens, and gives back the pages that it no longer
// needs. ATTN_ERR_ARGUMENT with a message that has both lengths in it when `length` is negative or
// more than the sequence has; nothing has changed then.
AttnStatus draft_rollback(SmallPool *pool, DraftSequence *sequence, int64_t length);

// Lab 4. The pages that an append of `count` tokens (0 or more) takes from the pool: new ones, and
// one for a copy when the first token goes into a page that somebody else holds too.
int64_t draft_needs(const SmallPool *pool, const DraftSequence *sequence, int64_t count);

// Lab 4. Appends `count` tokens: their slots get the numbers tokens[]. A page that others hold as
// well is not written to; the sequence gets a copy of it first, with the slots in use. When the
// free pages do not suffice: ATTN_ERR_MEMORY with a message that has the numbers of pages that are
// needed and that are free in it, and nothing has changed.
AttnStatus draft_append(SmallPool *pool, DraftSequence *sequence, int64_t count,
                        const int32_t *tokens);

#ifdef __cplusplus
}
#endif

#endif
