// Lab 4: rollback of rejected draft tokens.
//
// Speculative decoding writes tokens into the cache before it is known whether they stay. Those
// that the model rejects are taken back: the sequence becomes shorter, and pages go back to the
// pool. The chapter's block_pool_truncate does that for a pool in device memory. Here a token's K
// and V are one number in its slot, and a page that others hold too must keep its numbers.
#include "labs.h"

#include <string.h>

int64_t draft_accepted(int64_t count, const int32_t *draft, const int32_t *chosen) {
    int64_t accepted = 0;
    // GAP 1: those before the first one that differs
    while (accepted < count && draft[accepted] == chosen[accepted]) {
        accepted++;
    }
    // END 1
    return accepted;
}

void draft_fork(SmallPool *pool, const DraftSequence *sequence, DraftSequence *fork) {
    fork->length = sequence->length;
    fork->pages = sequence->pages;
    for (int64_t i = 0; i < sequence->pages; i++) {
        fork->table[i] = sequence->table[i];
        pool_hold(pool, sequence->table[i]);
    }
}

AttnStatus draft_rollback(SmallPool *pool, DraftSequence *sequence, int64_t length) {
    // GAP 2: an error, or a shorter sequence
    if (length < 0 || length > sequence->length) {
        return attn_fail(ATTN_ERR_ARGUMENT, "cannot roll back to %lld of %lld tokens",
                         (long long)length, (long long)sequence->length);
    }
    const int64_t kept = (length + pool->page_size - 1) / pool->page_size;
    for (int64_t i = kept; i < sequence->pages; i++) {
        pool_release(pool, sequence->table[i]);
    }
    sequence->pages = kept;
    sequence->length = length;
    // END 2
    return ATTN_OK;
}

// Whether the next token goes into a page that somebody else holds too.
static bool tail_is_shared(const SmallPool *pool, const DraftSequence *sequence) {
    bool shared = false;
    // GAP 3: which page is that, if it is one that the sequence has?
    shared = sequence->length % pool->page_size > 0 &&
             pool->references[sequence->table[sequence->pages - 1]] > 1;
    // END 3
    return shared;
}

int64_t draft_needs(const SmallPool *pool, const DraftSequence *sequence, int64_t count) {
    int64_t needs = 0;
    // GAP 4: pages behind the last one, and one for the copy
    const int64_t room = sequence->pages * pool->page_size - sequence->length;
    if (count > room) {
        needs = (count - room + pool->page_size - 1) / pool->page_size;
    }
    if (count > 0 && tail_is_shared(pool, sequence)) {
        needs++;
    }
    // END 4
    return needs;
}

AttnStatus draft_append(SmallPool *pool, DraftSequence *sequence, int64_t count,
                        const int32_t *tokens) {
    const int64_t page_size = pool->page_size;
    // GAP 5: when the pages do not suffice
    const int64_t needs = draft_needs(pool, sequence, count);
    if (needs > pool->free) {
        return attn_fail(ATTN_ERR_MEMORY, "%lld pages are needed, %d are free", (long long)needs,
                         pool->free);
    }
    // END 5
    if (count > 0 && tail_is_shared(pool, sequence)) {
        // GAP 6: a copy takes the place of the last page
        const int32_t shared = sequence->table[sequence->pages - 1];
        const int32_t copy = pool_take(pool);
        memcpy(pool->slots + copy * page_size, pool->slots + shared * page_size,
               (size_t)(sequence->length % page_size) * sizeof(int32_t));
        sequence->table[sequence->pages - 1] = copy;
        pool_release(pool, shared);
        // END 6
    }
    // GAP 7: the tokens, a new page wherever one begins
    for (int64_t i = 0; i < count; i++) {
        const int64_t slot = sequence->length % page_size;
        if (slot == 0) {
            sequence->table[sequence->pages] = pool_take(pool);
            sequence->pages++;
        }
        pool->slots[sequence->table[sequence->pages - 1] * page_size + slot] = tokens[i];
        sequence->length++;
    }
    // END 7
    return ATTN_OK;
}
