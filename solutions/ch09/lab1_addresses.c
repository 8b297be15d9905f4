// Lab 1: addresses in a cache of another layout, in 64 bits.
//
// The chapter's K and V are two arrays, [page][head][slot][dim]. Here they are one array,
// [page][slot][head][2][dim], as some engines have it: what one token adds lies in one piece, and a
// kernel that reads one head's keys takes steps. The rest is the chapter's: pages of a sequence,
// the row of a token, and the check of a table before a kernel trusts it.
#include "labs.h"

int64_t pages_of(const KvLayout *layout, int64_t tokens) {
    int64_t pages = 0;
    // GAP 1: rounded up; tokens + page_size may be more than an int64_t holds
    pages = tokens / layout->page_size + (tokens % layout->page_size > 0 ? 1 : 0);
    // END 1
    return pages;
}

KvStrides kv_strides(const KvLayout *layout) {
    KvStrides strides = {0, 0, 0, 0};
    // GAP 2: of [page][slot][head][2][dim]
    strides.part = layout->dim;
    strides.head = 2 * strides.part;
    strides.slot = layout->heads_kv * strides.head;
    strides.page = layout->page_size * strides.slot;
    // END 2
    return strides;
}

int64_t kv_offset(const KvLayout *layout, int64_t page, int64_t slot, int64_t head, KvPart part) {
    const KvStrides strides = kv_strides(layout);
    int64_t offset = -1;
    // GAP 3: of the row's first element
    offset = page * strides.page + slot * strides.slot + head * strides.head +
             (int64_t)part * strides.part;
    // END 3
    return offset;
}

int64_t token_offset(const KvTable *table, int64_t sequence, int64_t token, int64_t head,
                     KvPart part) {
    int64_t page = 0, slot = 0;
    // GAP 4: from the token's logical position to its page and slot
    const int64_t column = token / table->layout.page_size;
    page = table->pages[sequence * table->columns + column];
    slot = token % table->layout.page_size;
    // END 4
    return kv_offset(&table->layout, page, slot, head, part);
}

KvPlace kv_place(const KvLayout *layout, int64_t offset) {
    const KvStrides strides = kv_strides(layout);
    KvPlace place = {0, 0, 0, 0, 0};
    // GAP 5: what kv_offset does, backwards
    place.page = offset / strides.page;
    place.slot = offset % strides.page / strides.slot;
    place.head = offset % strides.slot / strides.head;
    place.part = offset % strides.head / strides.part;
    place.c = offset % strides.part;
    // END 5
    return place;
}

AttnStatus check_table(const KvTable *table, int64_t pages) {
    for (int64_t b = 0; b < table->batch; b++) {
        // GAP 6: the length of sequence b, then the ids of its pages in use
        const long long len = table->lens[b];
        const int64_t used = pages_of(&table->layout, len);
        if (len < 0 || used > table->columns) {
            return attn_fail(ATTN_ERR_ARGUMENT,
                             "sequence %lld: length %lld does not fit in %lld columns",
                             (long long)b, len, (long long)table->columns);
        }
        for (int64_t column = 0; column < used; column++) {
            const int32_t page = table->pages[b * table->columns + column];
            if (page < 0 || page >= pages) {
                return attn_fail(ATTN_ERR_ARGUMENT,
                                 "sequence %lld, column %lld: page %d is not in the pool",
                                 (long long)b, (long long)column, page);
            }
        }
        // END 6
    }
    return ATTN_OK;
}
