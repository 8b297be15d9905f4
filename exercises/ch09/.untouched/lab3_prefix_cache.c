// Lab 3: a prefix cache on top of a pool of pages.
//
// The chapter shares pages when one sequence is forked from another. Here nobody says what is
// alike: full blocks of tokens are kept under their tokens and the block before them, and a new
// prompt takes the longest chain that it finds. What is kept costs pages, so the cache gives them
// back, the longest unused first, when a sequence needs them.
#include "labs.h"

#include <string.h>

// ---- given --------------------------------------------------------------------------------------

// The bucket of a block: a few bits of a hash, so that different blocks do meet in it.
static int32_t *bucket_of(const PrefixCache *cache, int32_t parent, const int32_t *tokens) {
    uint32_t hash = 2166136261U ^ (uint32_t)parent; // FNV-1a
    for (int32_t i = 0; i < cache->pool->page_size; i++) {
        hash = (hash ^ (uint32_t)tokens[i]) * 16777619U;
    }
    return &cache->buckets[hash % (uint32_t)cache->bucket_count];
}

// The tokens [page_size] of a cached block.
static int32_t *tokens_of(const PrefixCache *cache, int32_t page) {
    return cache->tokens + (int64_t)page * cache->pool->page_size;
}

// Puts a block, whose parent and tokens are set, into its bucket; takes it out again.
static void link_block(PrefixCache *cache, int32_t page) {
    int32_t *bucket = bucket_of(cache, cache->blocks[page].parent, tokens_of(cache, page));
    cache->blocks[page].next = *bucket;
    *bucket = page;
}

static void unlink_block(PrefixCache *cache, int32_t page) {
    int32_t *at = bucket_of(cache, cache->blocks[page].parent, tokens_of(cache, page));
    while (*at != page && *at != NO_PAGE) {
        at = &cache->blocks[*at].next;
    }
    if (*at == page) {
        *at = cache->blocks[page].next;
    }
}

// ---- yours --------------------------------------------------------------------------------------

int32_t cache_find(const PrefixCache *cache, int32_t parent, const int32_t *tokens) {
    const size_t bytes = (size_t)cache->pool->page_size * sizeof(int32_t);
    int32_t found = NO_PAGE;
    // TODO 1: goes through the block's bucket
    (void)parent, (void)tokens, (void)bytes, (void)bucket_of;
    // END 1
    return found;
}

int64_t cache_lookup(PrefixCache *cache, int64_t count, const int32_t *tokens, int32_t *pages) {
    const int64_t page_size = cache->pool->page_size;
    int64_t found = 0;
    cache->clock++;
    // TODO 2: block by block, as far as it goes; one token at least is left over
    (void)page_size, (void)count, (void)tokens, (void)pages;
    // END 2
    return found;
}

void cache_insert(PrefixCache *cache, int64_t count, const int32_t *tokens, const int32_t *pages) {
    const int64_t page_size = cache->pool->page_size;
    cache->clock++;
    // TODO 3: every full block, in order; link_block puts a new one into its bucket
    (void)page_size, (void)count, (void)tokens, (void)pages, (void)link_block;
    // END 3
}

int32_t cache_evict(PrefixCache *cache) {
    int32_t victim = NO_PAGE;
    // TODO 4: the block to take out
    // END 4
    if (victim != NO_PAGE) {
        unlink_block(cache, victim);
        // TODO 5: the rest of what cache_insert did
        // END 5
    }
    return victim;
}

AttnStatus cache_take(PrefixCache *cache, int64_t count, int32_t *pages) {
    int64_t taken = 0;
    // TODO 6: free pages, evicting where there is none; all of them or none
    (void)cache, (void)taken, (void)count, (void)pages;
    // END 6
    return ATTN_OK;
}
