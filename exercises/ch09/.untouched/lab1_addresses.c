// Lab 1: addresses in a cache of another layout, in 64 bits.
//
// The chapter's K and V are two arrays, [page][head][slot][dim]. Here they are one array,
// [page][slot][head][2][dim], as some engines have it: what one token adds lies in one piece, and a
// kernel that reads one head's keys takes steps. The rest is the chapter's: pages of a sequence,
// the row of a token, and the check of a table before a kernel trusts it.
#include "labs.h"

int64_t pages_of(const KvLayout *layout, int64_t tokens) {
    int64_t pages = 0;
    // TODO 1: rounded up; tokens + page_size may be more than an int64_t holds
    (void)layout, (void)tokens;
    // END 1
    return pages;
}

KvStrides kv_strides(const KvLayout *layout) {
    KvStrides strides = {0, 0, 0, 0};
    // TODO 2: of [page][slot][head][2][dim]
    (void)layout;
    // END 2
    return strides;
}

int64_t kv_offset(const KvLayout *layout, int64_t page, int64_t slot, int64_t head, KvPart part) {
    const KvStrides strides = kv_strides(layout);
    int64_t offset = -1;
    // TODO 3: of the row's first element
    (void)strides, (void)page, (void)slot, (void)head, (void)part;
    // END 3
    return offset;
}

int64_t token_offset(const KvTable *table, int64_t sequence, int64_t token, int64_t head,
                     KvPart part) {
    int64_t page = 0, slot = 0;
    // TODO 4: from the token's logical position to its page and slot
    (void)sequence, (void)token;
    // END 4
    return kv_offset(&table->layout, page, slot, head, part);
}

KvPlace kv_place(const KvLayout *layout, int64_t offset) {
    const KvStrides strides = kv_strides(layout);
    KvPlace place = {0, 0, 0, 0, 0};
    // TODO 5: what kv_offset does, backwards
    (void)strides, (void)offset;
    // END 5
    return place;
}

AttnStatus check_table(const KvTable *table, int64_t pages) {
    for (int64_t b = 0; b < table->batch; b++) {
        // TODO 6: the length of sequence b, then the ids of its pages in use
        (void)pages;
        // END 6
    }
    return ATTN_OK;
}
