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
    // GAP 1: goes through the block's bucket
    found = *bucket_of(cache, parent, tokens);
    while (found != NO_PAGE && (cache->blocks[found].parent != parent ||
                                memcmp(tokens_of(cache, found), tokens, bytes) != 0)) {
        found = cache->blocks[found].next;
    }
    // END 1
    return found;
}

int64_t cache_lookup(PrefixCache *cache, int64_t count, const int32_t *tokens, int32_t *pages) {
    const int64_t page_size = cache->pool->page_size;
    int64_t found = 0;
    cache->clock++;
    // GAP 2: block by block, as far as it goes; one token at least is left over
    int32_t parent = NO_PAGE;
    for (int64_t i = 0; (i + 1) * page_size < count; i++) {
        const int32_t page = cache_find(cache, parent, tokens + i * page_size);
        if (page == NO_PAGE) {
            break;
        }
        pool_hold(cache->pool, page);
        cache->blocks[page].last_use = cache->clock;
        pages[i] = page;
        found = i + 1;
        parent = page;
    }
    // END 2
    return found;
}

void cache_insert(PrefixCache *cache, int64_t count, const int32_t *tokens, const int32_t *pages) {
    const int64_t page_size = cache->pool->page_size;
    cache->clock++;
    // GAP 3: every full block, in order; link_block puts a new one into its bucket
    int32_t parent = NO_PAGE;
    for (int64_t i = 0; (i + 1) * page_size <= count; i++) {
        int32_t page = cache_find(cache, parent, tokens + i * page_size);
        if (page == NO_PAGE) {
            page = pages[i];
            pool_hold(cache->pool, page);
            cache->blocks[page] = (CachedBlock){.cached = true, .parent = parent, .next = NO_PAGE};
            memcpy(tokens_of(cache, page), tokens + i * page_size,
                   (size_t)page_size * sizeof(int32_t));
            link_block(cache, page);
            if (parent != NO_PAGE) {
                cache->blocks[parent].children++;
            }
        }
        cache->blocks[page].last_use = cache->clock;
        parent = page;
    }
    // END 3
}

int32_t cache_evict(PrefixCache *cache) {
    int32_t victim = NO_PAGE;
    // GAP 4: the block to take out
    for (int32_t page = 0; page < cache->pool->pages; page++) {
        const CachedBlock *block = &cache->blocks[page];
        const bool unused = block->cached && block->children == 0 &&
                            cache->pool->references[page] == 1; // the cache's own
        if (unused && (victim == NO_PAGE || block->last_use < cache->blocks[victim].last_use)) {
            victim = page;
        }
    }
    // END 4
    if (victim != NO_PAGE) {
        unlink_block(cache, victim);
        // GAP 5: the rest of what cache_insert did
        CachedBlock *block = &cache->blocks[victim];
        if (block->parent != NO_PAGE) {
            cache->blocks[block->parent].children--;
        }
        block->cached = false;
        pool_release(cache->pool, victim);
        // END 5
    }
    return victim;
}

AttnStatus cache_take(PrefixCache *cache, int64_t count, int32_t *pages) {
    int64_t taken = 0;
    // GAP 6: free pages, evicting where there is none; all of them or none
    while (taken < count && (cache->pool->free > 0 || cache_evict(cache) != NO_PAGE)) {
        pages[taken] = pool_take(cache->pool);
        taken++;
    }
    if (taken < count) {
        const int64_t had = taken;
        while (taken > 0) {
            taken--;
            pool_release(cache->pool, pages[taken]);
        }
        return attn_fail(ATTN_ERR_MEMORY, "%lld pages are needed, %lld can be had",
                         (long long)count, (long long)had);
    }
    // END 6
    return ATTN_OK;
}
