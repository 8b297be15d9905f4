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
    // TODO 1: those before the first one that differs
    (void)count, (void)draft, (void)chosen;
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
    // TODO 2: an error, or a shorter sequence
    (void)pool, (void)sequence, (void)length;
    // END 2
    return ATTN_OK;
}

// Whether the next token goes into a page that somebody else holds too.
static bool tail_is_shared(const SmallPool *pool, const DraftSequence *sequence) {
    bool shared = false;
    // TODO 3: which page is that, if it is one that the sequence has?
    (void)pool, (void)sequence;
    // END 3
    return shared;
}

int64_t draft_needs(const SmallPool *pool, const DraftSequence *sequence, int64_t count) {
    int64_t needs = 0;
    // TODO 4: pages behind the last one, and one for the copy
    (void)pool, (void)sequence, (void)count;
    // END 4
    return needs;
}

AttnStatus draft_append(SmallPool *pool, DraftSequence *sequence, int64_t count,
                        const int32_t *tokens) {
    const int64_t page_size = pool->page_size;
    // TODO 5: when the pages do not suffice
    // END 5
    if (count > 0 && tail_is_shared(pool, sequence)) {
        // TODO 6: a copy takes the place of the last page
        // END 6
    }
    // TODO 7: the tokens, a new page wherever one begins
    (void)page_size, (void)tokens;
    // END 7
    return ATTN_OK;
}
